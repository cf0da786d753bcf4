"""Which parts of a recipe's own code the model, its hook and its building depend on.

Reaching goes by mentioned names, not by resolved ones: it takes in too much rather than too little.
"""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from action.contract import HOOK, SETTERS, TARGET_LIST, TP_ATTRIBUTES
from action.repository.python import PythonTree
from action.repository.syntax import UnparsableError, dotted
from action.select.config_reads import config_reads
from action.select.engines import Blind, blind_spots, engine_names
from action.select.parts import MAIN_GUARD, MODULE_LEVEL, Part, mentions, module_parts

SPECIAL = (HOOK, TARGET_LIST, *TP_ATTRIBUTES)
_SETTERS = set(SETTERS.values())
_BUILDING = ("prepare_model", "__init__", "forward_step")
# Methods of an engine that have nothing to do with building the model, whoever calls them.
_APART = ("prepare_optimizer", "prepare_scheduler", "prepare_dataloader")

Root = Literal["model", "hook", "tp", "target", "builder", "paths", "import"]


@dataclass(frozen=True)
class Reached:
    """Why a part counts: what kind of root it is or hangs from, and the part that mentions it.

    `member` is what that part mentions when it is not the part's own name: a method of the class,
    or an attribute that the method stores.
    """

    root: Root
    via: str | None = None
    member: str | None = None
    may_be_model: bool = False


@dataclass(frozen=True)
class Reach:
    """The parts of a recipe's files, which of them count, and where the source ends to tell.

    `targets` are the class names that the models' own lists tell FSDP2 to wrap; `config_reads` the
    config paths (`section.key`, or `section` passed on whole) that the parts that count read;
    `imports` tells which file imports a name (path of the module, name) from another.
    """

    parts: dict[str, dict[str, Part]]
    reached: dict[tuple[str, str], Reached]
    hooks: frozenset[str]
    targets: frozenset[str]
    config_reads: frozenset[str]
    imports: dict[tuple[str, str], str]
    blind: tuple[Blind, ...]


def reach_of(python: PythonTree, paths: Iterable[str], imported: frozenset[str]) -> Reach:
    """Return what counts in the files `paths` of one recipe, tests left out.

    What runs when a module is imported counts only for the modules `imported`; others are scripts.
    A file that cannot be parsed is left out: whoever compares it says so.
    """
    parts: dict[str, dict[str, Part]] = {}
    blind: list[Blind] = []
    for path in paths:
        try:
            root = python.syntax(path)
        except (UnparsableError, KeyError):
            continue
        parts[path] = module_parts(root, engine_names(python, path))
        blind += blind_spots(python, path, root)
    special = list(_special_values(parts))
    hooks = frozenset(
        mention for attribute, _, value in special if attribute == HOOK
        for mention in mentions(value)
    )  # fmt: skip
    reached = _roots(python, parts, hooks, special, imported)
    imports = {
        (module, name): path
        for path, found in parts.items()
        for part in found.values()
        for module, name in _imported_names(python, path, part)
    }
    _spread(python, parts, reached)
    counting = [parts[path][name] for (path, name), why in reached.items() if why.root != "paths"]
    return Reach(
        parts=parts,
        reached=reached,
        hooks=hooks,
        targets=frozenset(_targets(parts, special)),
        config_reads=frozenset(read for part in counting for read in config_reads(part)),
        imports=imports,
        blind=tuple(blind),
    )


def _roots(
    python: PythonTree,
    parts: dict[str, dict[str, Part]],
    hooks: frozenset[str],
    special: list[tuple[str, str, ast.expr]],
    imported: frozenset[str],
) -> dict[tuple[str, str], Reached]:
    reached: dict[tuple[str, str], Reached] = {}
    by_name: dict[str, list[tuple[str, str]]] = {}
    for path, found in parts.items():
        engines = engine_names(python, path)
        for name in found:
            by_name.setdefault(name, []).append((path, name))
            if name in engines:
                reached[path, name] = Reached("builder")
        for cls in python.classes(path):
            is_module = python.is_module_class(cls)
            if is_module is not False and cls.name in found and cls.name not in engines:
                reached[path, cls.name] = Reached("model", may_be_model=is_module is None)
    kinds: dict[str, Root] = {HOOK: "hook", TARGET_LIST: "target"}
    for attribute, owner, value in special:
        for mention in mentions(value):
            for key in by_name.get(mention, ()):
                via = None if attribute == HOOK else f"{owner}.{attribute}".strip(".")
                reached.setdefault(key, Reached(kinds.get(attribute, "tp"), via))
    for path, found in parts.items():
        own_way = _engines_that_build(found)
        for name, part in found.items():
            if (path, name) in reached or name == MAIN_GUARD:
                continue
            root = _root(name, part, own_way)
            if root is not None and (root != "import" or path in imported):
                reached[path, name] = Reached(root)
    return reached


def _root(name: str, part: Part, own_way: frozenset[str]) -> Root | None:
    owner, dot, method = name.rpartition(".")
    is_function = isinstance(part.node, ast.FunctionDef | ast.AsyncFunctionDef)
    if is_function and _SETTERS & part.mentions:
        return "hook"
    if name in SPECIAL:
        return "model"
    if name == MODULE_LEVEL or part.registers:
        return "import"
    if part.is_import:
        return None
    if method == "example_batches" and dot:
        return "paths"
    if dot and (method in _BUILDING or (owner not in own_way and method not in _APART)):
        return "builder"
    return "builder" if name == "prepare_model" or "parallelize_model" in part.mentions else None


def _engines_that_build(found: dict[str, Part]) -> frozenset[str]:
    """Engines whose own `prepare_model()` is the whole of it: no base class calls their methods."""
    return frozenset(
        name.rpartition(".")[0]
        for name, part in found.items()
        if name.endswith(".prepare_model") and "super" not in part.mentions
    )


def _spread(
    python: PythonTree,
    parts: dict[str, dict[str, Part]],
    reached: dict[tuple[str, str], Reached],
) -> None:
    by_mention: dict[str, list[tuple[str, str]]] = {}
    for path, found in parts.items():
        for name, part in found.items():
            if name == MAIN_GUARD:
                continue
            by_mention.setdefault(part.short, []).append((path, name))
            # Others may read what a method of an engine stores in `self`, and call the methods of
            # an object that they are given.
            for member in part.stores if "." in name else part.methods:
                by_mention.setdefault(member, []).append((path, name))
    queue = deque(reached)
    while queue:
        key = queue.popleft()
        part, why = parts[key[0]][key[1]], reached[key]
        if why.root == "paths":
            continue  # the data it shows is not what the model is built of
        passed_on = set(_imported_names(python, key[0], part))
        for mention in part.mentions:
            for other in by_mention.get(mention, ()):
                # What a module imports is its own, unless another imports it from there.
                foreign = other[0] != key[0] and parts[other[0]][other[1]].is_import
                if other not in reached and (not foreign or other in passed_on):
                    own = parts[other[0]][other[1]].short == mention
                    reached[other] = Reached(why.root, part.name, None if own else mention)
                    queue.append(other)


def _imported_names(python: PythonTree, path: str, part: Part) -> Iterator[tuple[str, str]]:
    """Yield (file, name) for what a part imports from other modules of the tree."""
    for node in part.nodes:
        if isinstance(node, ast.ImportFrom):
            name = python.absolute(path, "." * node.level + (node.module or ""))
            module = python.module(name, path)
            if module is not None and module.path is not None:
                yield from ((module.path, alias.name) for alias in node.names)


def _special_values(parts: dict[str, dict[str, Part]]) -> Iterator[tuple[str, str, ast.expr]]:
    """Yield (attribute, owner, value) wherever the hook, targets or TP tables are set."""
    for found in parts.values():
        for part in found.values():
            for node in part.nodes:
                for inner in ast.walk(node):
                    match inner:
                        case ast.Assign(targets=targets, value=value):
                            for target in targets:
                                name = getattr(target, "id", getattr(target, "attr", None))
                                if name in SPECIAL:
                                    yield name, _owner(part, target), value
                        case ast.AnnAssign(target=target, value=value) if value is not None:
                            name = getattr(target, "id", getattr(target, "attr", None))
                            if name in SPECIAL:
                                yield name, _owner(part, target), value
                        case ast.Call(
                            func=ast.Name(id="setattr"),
                            args=[owner, ast.Constant(value=str(name)), value],
                        ) if name in SPECIAL:
                            yield name, dotted(owner) or "", value
                        case _:
                            pass


def _owner(part: Part, target: ast.expr) -> str:
    if isinstance(target, ast.Attribute):
        return dotted(target.value) or ""
    return part.name if isinstance(part.node, ast.ClassDef) else ""


def _targets(
    parts: dict[str, dict[str, Part]], special: list[tuple[str, str, ast.expr]]
) -> Iterator[str]:
    for attribute, _, value in special:
        if attribute != TARGET_LIST:
            continue
        for mention in mentions(value):
            yield mention
            for found in parts.values():
                part = found.get(mention)
                if part is not None and isinstance(part.node, ast.Assign | ast.AnnAssign):
                    yield from part.mentions
