"""Which parts of a recipe's own code the model, its hook and its building depend on.

Reaching goes by mentioned names, not by resolved ones: it takes in too much rather than too little.
"""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from action.records import Location
from action.repository.python import PythonTree
from action.repository.syntax import UnparsableError
from action.select.parts import MODULE_LEVEL, Part, is_engine_class, module_parts

HOOK_ATTRIBUTE = "APPLY_FSDP2_CUSTOM_PREFETCHING"
TARGET_LIST = "_no_split_modules"
TP_ATTRIBUTES = ("TP_MODULE_CONFIG", "TP_MODULE_POSTPROCESSORS")
_SETTERS = {"set_modules_to_forward_prefetch", "set_modules_to_backward_prefetch"}
_BUILDING = ("prepare_model", "__init__", "forward_step", "example_batches")

Root = Literal["model", "hook", "builder", "import"]


@dataclass(frozen=True)
class Reached:
    """Why a part counts: what kind of root it is or hangs from, and the part that mentions it."""

    root: Root
    via: str | None = None
    may_be_model: bool = False


@dataclass(frozen=True)
class Reach:
    """The parts of a recipe's files, which of them count, and where the source ends to tell."""

    parts: dict[str, dict[str, Part]]
    reached: dict[tuple[str, str], Reached]
    hooks: frozenset[str]
    dynamic: tuple[Location, ...]


def reach_of(python: PythonTree, paths: Iterable[str]) -> Reach:
    """Return what counts in the files `paths` of one recipe, tests left out.

    A file that cannot be parsed is left out: whoever compares it says so.
    """
    parts: dict[str, dict[str, Part]] = {}
    dynamic: list[Location] = []
    for path in paths:
        try:
            parts[path] = module_parts(python.syntax(path))
            dynamic += python.dynamic_imports(path)
        except UnparsableError:
            continue
    hooks = frozenset(_hook_names(parts))
    reached = _roots(python, parts, hooks)
    by_mention: dict[str, list[tuple[str, str]]] = {}
    for path, found in parts.items():
        for name, part in found.items():
            by_mention.setdefault(part.short, []).append((path, name))
    queue = deque(reached)
    while queue:
        key = queue.popleft()
        part, why = parts[key[0]][key[1]], reached[key]
        for mention in part.mentions:
            for other in by_mention.get(mention, ()):
                if other not in reached:
                    reached[other] = Reached(why.root, via=part.name)
                    queue.append(other)
    return Reach(parts, reached, hooks, tuple(dynamic))


def _roots(
    python: PythonTree, parts: dict[str, dict[str, Part]], hooks: frozenset[str]
) -> dict[tuple[str, str], Reached]:
    reached: dict[tuple[str, str], Reached] = {}
    for path, found in parts.items():
        classes = {cls.name: cls for cls in python.classes(path)}
        for name, part in found.items():
            node = part.node
            if name in hooks or _SETTERS & part.mentions:
                reached[path, name] = Reached("hook")
            elif name == MODULE_LEVEL:
                reached[path, name] = Reached("import")
            elif isinstance(node, ast.ClassDef) and name in classes:
                is_module = python.is_module_class(classes[name])
                if is_engine_class(classes[name].node) and not is_module:
                    reached[path, name] = Reached("builder")
                elif is_module is not False:
                    reached[path, name] = Reached("model", may_be_model=is_module is None)
            elif name in (HOOK_ATTRIBUTE, TARGET_LIST, *TP_ATTRIBUTES):
                reached[path, name] = Reached("model")
            elif not isinstance(node, ast.Import | ast.ImportFrom) and (
                ("." in name and part.short in _BUILDING) or "parallelize_model" in part.mentions
            ):
                reached[path, name] = Reached("builder")
    return reached


def _hook_names(parts: dict[str, dict[str, Part]]) -> Iterable[str]:
    """Yield the names of what is bound as a hook, in a class body or to a class afterwards."""
    for found in parts.values():
        for part in found.values():
            for node in part.nodes:
                for inner in ast.walk(node):
                    if isinstance(inner, ast.Assign) and any(
                        getattr(target, "id", getattr(target, "attr", None)) == HOOK_ATTRIBUTE
                        for target in inner.targets
                    ):
                        value = inner.value
                        if isinstance(value, ast.Call) and value.args:
                            value = value.args[0]  # staticmethod(f), partial(f)
                        name = getattr(value, "id", getattr(value, "attr", None))
                        if isinstance(name, str):
                            yield name
