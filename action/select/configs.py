"""What a change to a recipe's YAML means: which dotted paths, and whether they can matter."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from action.repository.yaml_file import Entry

_SELECTING = ("engine", "parallel", "model")
# What is trained on and what is written about it: never what is wrapped.
_BESIDE = ("data", "dataset", "dataloader", "logging", "log", "wandb", "seed", "name", "output_dir")
# How it is trained: not what is wrapped or in which order it runs, but for the words below.
_TRAINING = (
    "optim", "optimizer", "scheduler", "lr_scheduler", "train", "training", "eval", "checkpoint",
)  # fmt: skip
# Words that reach the model's structure or FSDP2 from within such a section.
_REACHING = re.compile(
    r"fsdp|shard|prefetch|wrap|compile|dtype|precision|checkpointing|recompute|freeze|frozen|lora"
    r"|peft|adapter|parallel|mesh|offload",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class ConfigChange:
    """The changed dotted paths of a file: those that select, and those that do not."""

    selecting: tuple[str, ...]
    harmless: tuple[str, ...]
    line: int | None


def compare_configs(
    old: Mapping[str, Entry], new: Mapping[str, Entry], read: Collection[str] = ()
) -> ConfigChange:
    """Return what differs between two YAML files as sentences like `` `a.b`: 1 → 2 ``.

    `read` are the paths, as `section.key` or `section`, that building the model reads itself.
    """
    selecting: list[str] = []
    harmless: list[str] = []
    line = None
    for path in sorted(old.keys() | new.keys()):
        before, after = old.get(path), new.get(path)
        # `1`, `1.0` and `true` are equal to Python, not to whoever reads the config.
        if before and after and repr(before.value) == repr(after.value):
            continue
        if _matters(path, read):
            selecting.append(f"`{path}`: {_shown(before)} → {_shown(after)}")
            if line is None and after is not None:
                line = after.line
        else:
            harmless.append(f"`{path}`")
    return ConfigChange(tuple(selecting), tuple(harmless), line)


def _matters(path: str, read: Collection[str]) -> bool:
    section, _, rest = path.partition(".")
    section = section.partition("[")[0]
    key = re.split(r"[.\[]", rest, maxsplit=1)[0]
    if section in _SELECTING or section in read or f"{section}.{key}" in read:
        return True
    if section in _BESIDE:
        return False
    return section not in _TRAINING or _REACHING.search(path) is not None


def _shown(entry: Entry | None) -> str:
    if entry is None:
        return "nothing"
    text = "null" if entry.value is None else str(entry.value)
    return text if len(text) <= 40 else f"{text[:39]}…"
