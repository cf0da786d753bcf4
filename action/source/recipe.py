"""One recipe's static facts, read from a tree."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from action.records import (
    ClassAttribute,
    Hook,
    Location,
    RecipeSource,
    TrailEnd,
    WrapTarget,
)
from action.repository.python import Definition, External, PythonTree, Unresolved
from action.repository.syntax import UnparsableError, dotted
from action.repository.tree import Tree
from action.repository.yaml_file import Entry, read_yaml
from action.source.follower import Follower
from action.source.hooks import HOOK, attributes_of, late_bindings, read_hook
from action.source.reachable import reachable_classes
from action.source.values import Instance, Unknown

TARGET_LIST = "_no_split_modules"
TP_ATTRIBUTES = ("TP_MODULE_CONFIG", "TP_MODULE_POSTPROCESSORS")
_ATTRIBUTES = (TARGET_LIST, *TP_ATTRIBUTES)
_TARGET_KEY = re.compile(
    r"^parallel\.backend_kwargs\.fsdp2\.(target_classes|high_precision_modules)(\[\d+\])?$"
)


def read_recipe(tree: Tree, python: PythonTree, name: str, path: str) -> RecipeSource:
    """Return what the source of the recipe in the folder `path` says; nothing is imported.

    Whatever cannot be read or followed is named in `problems`, `trail_ends` or `targets_end`.
    """
    problems: list[TrailEnd] = []
    configs = dict(_configs(tree, path, problems))
    modules = _modules(tree, python, path, problems)
    engine, engine_at, ends = _engine(python, modules, configs, path)
    follower = Follower(python)
    values = follower.prepared_model(engine) if engine is not None else ()
    found = tuple(dict.fromkeys(v for v in values if isinstance(v, Instance)))
    ends += [TrailEnd(location=v.location, why=v.why) for v in values if isinstance(v, Unknown)]
    candidates = tuple(dict.fromkeys(value.cls for value in found))
    hidden = tuple(
        TrailEnd(location=location, why=why) for value in found for location, why in value.hidden
    )
    top = candidates[0] if len(candidates) == 1 and not ends else None
    classes = [cls for module in modules for cls in python.classes(module)]
    hooks, attributes = _bindings(python, modules, classes, candidates)
    targets, targets_end = _targets(python, candidates, configs, classes)
    return RecipeSource(
        name=name,
        path=path,
        configs=tuple(configs),
        engine=engine.symbol if engine is not None else None,
        top_level_class=top.symbol if top is not None else None,
        candidates=tuple(cls.symbol for cls in candidates),
        hidden_by=hidden,
        trail=tuple(dict.fromkeys([*engine_at, *follower.trail])),
        trail_ends=tuple(dict.fromkeys(ends)),
        model_classes=tuple(c.symbol for c in classes if python.is_module_class(c) is not False),
        hooks=hooks,
        attributes=attributes,
        targets=targets,
        targets_end=targets_end,
        problems=tuple(problems),
    )


def _configs(
    tree: Tree, path: str, problems: list[TrailEnd]
) -> Iterator[tuple[str, dict[str, Entry]]]:
    for file in tree.paths():
        if not file.startswith(f"{path}/") or not file.endswith((".yaml", ".yml")):
            continue
        try:
            yield file, read_yaml(file, tree.read(file))
        except UnparsableError as trouble:
            problems.append(TrailEnd(location=trouble.location, why=trouble.why))
        except KeyError:
            problems.append(TrailEnd(location=Location(path=file), why="it is too large"))


def _modules(
    tree: Tree, python: PythonTree, path: str, problems: list[TrailEnd]
) -> tuple[str, ...]:
    """Return the recipe's own modules that can be parsed, tests left out."""
    found = []
    for file in python.paths:
        if not file.startswith(f"{path}/") or file.startswith(f"{path}/tests/"):
            continue
        try:
            python.syntax(file)
            found.append(file)
        except UnparsableError as trouble:
            problems.append(TrailEnd(location=trouble.location, why=trouble.why))
        except KeyError:
            problems.append(TrailEnd(location=Location(path=file), why="it is too large"))
    return tuple(found)


def _engine(
    python: PythonTree,
    modules: tuple[str, ...],
    configs: dict[str, dict[str, Entry]],
    path: str,
) -> tuple[Definition | None, list[Location], list[TrailEnd]]:
    """Return the engine's class, where it is named, and where the trail ends."""
    named = {
        str(entries["engine"].value): Location(path=file, line=entries["engine"].line)
        for file, entries in reversed(configs.items())
        if "engine" in entries
    }
    found: dict[str, Definition] = {}
    ends: list[TrailEnd] = []
    for name, where in named.items():
        target = _registered(python, modules, name) or _by_path(python, name)
        if isinstance(target, Definition):
            found[target.qualified] = target
        else:
            why = f"no class of the recipe is registered as the engine `{name}`"
            ends.append(TrailEnd(location=where, why=why))
    if not named:
        for cls in (cls for module in modules for cls in python.classes(module)):
            if python.class_bindings(cls, "prepare_model"):
                found[cls.qualified] = cls
    if len(found) > 1:
        names = ", ".join(f"`{cls.name}`" for cls in found.values())
        first = next(iter(found.values()))
        ends.append(TrailEnd(location=first.location, why=f"there are several engines: {names}"))
    if not found and not ends:
        where = Location(path=next(iter(modules), path))
        why = "no config names an engine, and no class has a `prepare_model()`"
        ends.append(TrailEnd(location=where, why=why))
    return next(iter(found.values()), None), list(named.values()), ends


def _registered(python: PythonTree, modules: tuple[str, ...], name: str) -> Definition | None:
    for module in modules:
        for cls in python.classes(module):
            assert isinstance(cls.node, ast.ClassDef)
            for decorator in cls.node.decorator_list:
                if isinstance(decorator, ast.Call) and any(
                    isinstance(argument, ast.Constant) and argument.value == name
                    for argument in (*decorator.args, *(k.value for k in decorator.keywords))
                ):
                    return cls
    return None


def _by_path(python: PythonTree, name: str) -> Definition | None:
    module, _, cls = name.replace(":", ".").rpartition(".")
    path = python.module_path(module) if module else None
    if path is None:
        return None
    try:
        target = python.resolve(path, cls)
    except UnparsableError:
        return None
    return target if isinstance(target, Definition) and target.is_class else None


def _bindings(
    python: PythonTree,
    modules: tuple[str, ...],
    classes: list[Definition],
    candidates: tuple[Definition, ...],
) -> tuple[tuple[Hook, ...], tuple[ClassAttribute, ...]]:
    """Return the hooks and attributes of the recipe's classes and of the candidates' ancestors."""
    inherited = [
        ancestor
        for cls in candidates
        for ancestor in python.linearized(cls)
        if isinstance(ancestor, Definition)
    ]
    hooks: list[Hook] = []
    attributes: list[ClassAttribute] = []
    for cls in dict.fromkeys([*classes, *inherited]):
        hooks += [read_hook(python, a, node) for a, node in attributes_of(python, cls, (HOOK,))]
        attributes += [a for a, _ in attributes_of(python, cls, _ATTRIBUTES)]
    for module in dict.fromkeys([*modules, *(cls.path for cls in inherited)]):
        hooks += [read_hook(python, a, node) for a, node in late_bindings(python, module, (HOOK,))]
        attributes += [a for a, _ in late_bindings(python, module, _ATTRIBUTES)]
    return tuple(hooks), tuple(attributes)


def _targets(
    python: PythonTree,
    candidates: tuple[Definition, ...],
    configs: dict[str, dict[str, Entry]],
    classes: list[Definition],
) -> tuple[tuple[WrapTarget, ...], TrailEnd | None]:
    reach = reachable_classes(python, candidates or tuple(classes))
    targets: list[WrapTarget] = []
    end: TrailEnd | None = None

    def add(name: str, where: Location, origin: str) -> None:
        targets.append(
            WrapTarget.model_validate(
                {
                    "class_name": name,
                    "named_at": where,
                    "origin": origin,
                    "matches": reach.matches(name),
                    "may_match_outside": reach.outside is not None,
                }
            )
        )

    for cls in candidates:
        names, problem = _listed(python, cls)
        end = end or problem
        for name, where in names:
            add(name, where, TARGET_LIST)
    for file, entries in configs.items():
        for key, entry in entries.items():
            match = _TARGET_KEY.match(key)
            if match and entry.value not in ("[]", None):
                add(str(entry.value), Location(path=file, line=entry.line), match[1])
    return tuple(dict.fromkeys(targets)), end


def _listed(
    python: PythonTree, cls: Definition
) -> tuple[list[tuple[str, Location]], TrailEnd | None]:
    """Return the names in a class's `_no_split_modules`, own or inherited."""
    for ancestor in python.linearized(cls):
        if isinstance(ancestor, Definition):
            for attribute, node in attributes_of(python, ancestor, (TARGET_LIST,)):
                return _names_in(python, attribute.location, node)
        elif isinstance(ancestor, External):
            if ancestor.name.startswith(("torch.nn.", "builtins.", "typing.", "abc.")):
                continue
            why = f"`{TARGET_LIST}` may be inherited from `{ancestor.name}`"
            return [], TrailEnd(location=cls.location, why=why)
        elif isinstance(ancestor, Unresolved):
            return [], TrailEnd(location=ancestor.location, why=ancestor.why)
    return [], None


def _names_in(
    python: PythonTree, where: Location, node: ast.AST
) -> tuple[list[tuple[str, Location]], TrailEnd | None]:
    if isinstance(node, ast.Name):
        target = python.resolve(where.path, node.id)
        node = target.node if isinstance(target, Definition) else node
    names: list[tuple[str, Location]] = []
    if isinstance(node, ast.List | ast.Tuple | ast.Set):
        for element in node.elts:
            if isinstance(element, ast.Constant) and isinstance(element.value, str):
                names.append((element.value, Location(path=where.path, line=element.lineno)))
            elif isinstance(element, ast.Attribute) and element.attr == "__name__":
                name = (dotted(element.value) or "").rpartition(".")[2]
                names.append((name, Location(path=where.path, line=element.lineno)))
            else:
                why = f"`{TARGET_LIST}` holds `{ast.unparse(element)}`, which is computed"
                return names, TrailEnd(location=where, why=why)
        return names, None
    if isinstance(node, ast.Constant) and node.value is None:
        return [], None
    return [], TrailEnd(location=where, why=f"`{TARGET_LIST}` is computed")
