"""The recipe's `probe.py`: loaded by path, asked to build, and its answer looked over."""

from __future__ import annotations

import importlib.util
import inspect
import linecache
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from torch import nn
from torch.distributed.fsdp import FSDPModule
from torch.nn.modules.module import register_module_parameter_registration_hook

from .recorder import is_library

MODULE = "fsdp2_prefetch_probe_target"
_LONGEST = 2_000


class StopError(Exception):
    """The probe cannot go on: `outcome` says in which way, the message is one sentence."""

    def __init__(self, outcome: str, sentence: str, trouble: BaseException | None = None) -> None:
        super().__init__(sentence)
        self.outcome = outcome
        self.trouble = trouble


@dataclass(frozen=True)
class Target:
    """What `build` returned, looked over."""

    model: nn.Module
    paths: Mapping[str, Callable[[], Any]]
    before_wrap: nn.Module | None
    mixed: tuple[tuple[str, ...], ...] | None
    """Groups of paths that ranks may run in one step at the same time; None when not declared."""


def load_probe(path: Path) -> ModuleType:
    """Import `probe.py` by its path.

    Raises:
        StopError: it raises, exits, or has no `build`.
    """
    spec = importlib.util.spec_from_file_location(MODULE, path)
    if spec is None or spec.loader is None:
        raise StopError("bad probe", f"{path.name} cannot be loaded as Python")
    module = importlib.util.module_from_spec(spec)
    sys.modules[MODULE] = module
    try:
        spec.loader.exec_module(module)
    except SystemExit as trouble:
        raise StopError(
            "bad probe", f"importing probe.py called sys.exit({trouble.code!r})", trouble
        ) from trouble
    except Exception as trouble:
        raise StopError(
            "bad probe", f"probe.py cannot be imported: {said(trouble)}", trouble
        ) from trouble
    if not callable(getattr(module, "build", None)):
        raise StopError(
            "bad probe", "probe.py has no function `build(*, device_mesh, overrides=())`"
        )
    return module


def has_tiny(job: Mapping[str, Any]) -> bool:
    """Tell whether real values would be those of the probe file's `TINY_CONFIG`."""
    tiny = getattr(sys.modules.get(MODULE), "TINY_CONFIG", None)
    return tiny is not None and job.get("config") is None


@contextmanager
def limited(most: int | None) -> Iterator[None]:
    """Stop a block that makes more than `most` parameters with values."""
    if most is None:
        yield
        return
    sizes: dict[tuple[int, str], int] = {}

    def count(module: nn.Module, name: str, parameter: Any) -> None:
        if parameter is None or parameter.is_meta:
            return
        sizes[id(module), name] = parameter.numel()
        if sum(sizes.values()) > most:
            raise StopError(
                "cannot build",
                f"the model has more than {most / 1e6:.0f} million parameters, the most that are "
                "made real; `TINY_CONFIG` in probe.py, the path of a small config, would allow "
                "real values",
            )

    handle = register_module_parameter_registration_hook(count)
    try:
        yield
    finally:
        handle.remove()


def build_target(module: ModuleType, mesh: Any, overrides: Sequence[str]) -> Target:
    """Call `build` and look over what it returns.

    Raises:
        StopError: it raises or exits, or returns something else than the probe needs.
    """
    arguments: dict[str, Any] = {"device_mesh": mesh, "overrides": tuple(overrides)}
    try:
        inspect.signature(module.build).bind(**arguments)
    except TypeError as trouble:
        raise StopError(
            "bad probe",
            f"`build` cannot be called as `build(device_mesh=…, overrides=…)`: {trouble}",
        ) from trouble
    except ValueError:
        pass  # a callable without a signature
    try:
        built = module.build(**arguments)
    except StopError:
        raise
    except SystemExit as trouble:
        raise StopError(
            "cannot build", f"`build` called sys.exit({trouble.code!r})", trouble
        ) from trouble
    except Exception as trouble:
        raise StopError(
            "cannot build", f"the model cannot be built: {said(trouble)}", trouble
        ) from trouble
    return _looked_over(built)


def _looked_over(built: Any) -> Target:
    if built is None:
        raise StopError("bad probe", "`build` returned None; it must return .model and .paths")
    if not hasattr(built, "model"):
        raise StopError(
            "bad probe",
            f"`build` returned {_kind(built)} without .model; it must return .model and .paths",
        )
    model = built.model
    if not isinstance(model, nn.Module):
        raise StopError(
            "bad probe", f"`build` returned .model that is {_kind(model)}, not an nn.Module"
        )
    paths = getattr(built, "paths", None)
    if not isinstance(paths, Mapping) or not paths:
        raise StopError(
            "bad probe",
            f"`build` returned .paths that is {_kind(paths, paths == {})}; it must be a "
            "non-empty dict of a function per training path",
        )
    for name, function in paths.items():
        if not isinstance(name, str) or not callable(function):
            raise StopError(
                "bad probe",
                f".paths has {name!r}: {_kind(function)}; a name and a function are due",
            )
    before = getattr(built, "before_wrap", None)
    if before is not None and not isinstance(before, nn.Module):
        raise StopError("bad probe", f".before_wrap is {_kind(before)}, not an nn.Module")
    if not any(isinstance(module, FSDPModule) for module in model.modules()):
        raise StopError(
            "not wrapped",
            f"`build` returned a {type(model).__name__} in which no module is an FSDP2 unit: "
            "fully_shard was never called on it",
        )
    return Target(model, dict(paths), before, _mixed(getattr(built, "mixed_paths", None), paths))


def _mixed(declared: Any, paths: Mapping[str, Any]) -> tuple[tuple[str, ...], ...] | None:
    if declared is None:
        return None
    try:
        groups = tuple(tuple(group) for group in declared)
    except TypeError as trouble:
        raise StopError(
            "bad probe",
            f".mixed_paths is {_kind(declared)}; it must be a list of lists of names in .paths",
        ) from trouble
    for group in groups:
        for name in group:
            if name not in paths:
                raise StopError(
                    "bad probe",
                    f".mixed_paths names {name!r}; it must be a list of lists of names in .paths",
                )
    return groups


def _kind(value: Any, empty: bool = False) -> str:
    if value is None or empty:
        return "empty" if empty else "None"
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"


def said(trouble: BaseException) -> str:
    """Return the type and the message of an error in one line."""
    text = " ".join(str(trouble).split())
    name = type(trouble).__name__
    return (f"{name}: {text}" if text else name)[:_LONGEST]


def place(trouble: BaseException, root: Path) -> tuple[str, int] | None:
    """Return file and line of the innermost call in the repository, the file relative to it."""
    found: tuple[str, int] | None = None
    if isinstance(trouble, SyntaxError) and (own := relative(trouble.filename, root)) is not None:
        return own, trouble.lineno or 1
    for frame in traceback.extract_tb(trouble.__traceback__):
        file = relative(frame.filename, root)
        if file is not None and not is_library(frame.filename):
            found = (file, frame.lineno or 1)
    return found


def relative(file: str | None, root: Path) -> str | None:
    """Return a file's path within the repository, None when it lies outside."""
    if file is None:
        return None
    real, base = os.path.realpath(file), os.path.realpath(root)
    return os.path.relpath(real, base) if real.startswith(base + os.sep) else None


def tail_of(trouble: BaseException, lines: int = 12) -> str:
    """Return the last lines of an error's traceback."""
    linecache.checkcache()
    text = "".join(traceback.format_exception(trouble))
    return "\n".join(text.rstrip().splitlines()[-lines:])
