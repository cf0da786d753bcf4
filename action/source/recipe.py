"""One recipe's static facts, read from a tree."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from action.contract import HOOK, TARGET_LIST, TP_ATTRIBUTES
from action.records import ClassAttribute, Hook, Location, RecipeSource, TrailEnd
from action.repository.python import Definition, PythonTree
from action.repository.syntax import UnparsableError, dotted
from action.repository.tree import Tree
from action.repository.yaml_file import Entry, read_yaml
from action.source.engines import find_engines, imported_modules
from action.source.follower import Follower
from action.source.hooks import (
    attribute_record,
    attributes_of,
    late_bindings,
    read_hook,
    set_attributes,
    stray_hooks,
)
from action.source.lookups import Setting
from action.source.targets import read_targets
from action.source.values import ClassValue, Constant, Instance, TooMuchError, Unknown, Value

_ATTRIBUTES = (TARGET_LIST, *TP_ATTRIBUTES)


def read_recipe(tree: Tree, python: PythonTree, name: str, path: str) -> RecipeSource:
    """Return what the source of the recipe in the folder `path` says; nothing is imported.

    Whatever cannot be read or followed is named in `problems`, `trail_ends` or `targets_end`.
    """
    try:
        return _read(tree, python, name, path)
    except (RecursionError, TooMuchError):
        why = "its source is too deep or too long to be followed"
        trouble = TrailEnd(location=Location(path=path), why=why)
        return RecipeSource(name=name, path=path, trail_ends=(trouble,), problems=(trouble,))


def _read(tree: Tree, python: PythonTree, name: str, path: str) -> RecipeSource:
    problems: list[TrailEnd] = []
    configs = dict(_configs(tree, path, problems))
    modules = _modules(python, path, problems)
    engines, named_at, missing = find_engines(python, modules, configs, path)
    trail: list[Location] = [*named_at]
    values: dict[Value, None] = {}
    settings: list[Setting] = []
    for engine in engines:
        follower = Follower(python)
        values |= dict.fromkeys(follower.prepared_model(engine))
        trail += [engine.location, *follower.trail]
        settings += follower.settings
    models = [value for value in values if isinstance(value, Instance)]
    ends = [*missing]
    ends += [TrailEnd(location=v.location, why=v.why) for v in values if isinstance(v, Unknown)]
    candidates = tuple(dict.fromkeys(model.cls for model in models))
    hidden = [
        TrailEnd(location=location, why=why) for model in models for location, why in model.hidden
    ]
    classes = tuple(cls for module in modules for cls in python.classes(module))
    imported = imported_modules(python, [*{e.path for e in engines}, *{c.path for c in candidates}])
    bindings = _Bindings(python, modules, imported, candidates, settings)
    hooks, unseen, unsettled = bindings.hooks()
    targets, targets_end = read_targets(python, candidates, configs, classes)
    top = candidates[0] if len(candidates) == 1 and not ends else None
    return RecipeSource(
        name=name,
        path=path,
        configs=tuple(configs),
        engine=engines[0].symbol if len(engines) == 1 else None,
        top_level_class=top.symbol if top is not None else None,
        candidates=tuple(cls.symbol for cls in candidates),
        hidden_by=tuple(dict.fromkeys(hidden)),
        sometimes_hidden=any(m.hidden for m in models) and not all(m.hidden for m in models),
        trail=tuple(dict.fromkeys(trail)),
        trail_ends=tuple(dict.fromkeys(ends)),
        model_classes=tuple(c.symbol for c in classes if python.is_module_class(c) is not False),
        hooks=hooks,
        hooks_unseen=unseen,
        hooks_unsettled=unsettled,
        flags_set_early=_flags_set_early(hooks, settings),
        attributes=bindings.attributes(),
        targets=targets,
        targets_end=targets_end,
        problems=tuple(problems),
    )


def _configs(
    tree: Tree, path: str, problems: list[TrailEnd]
) -> Iterator[tuple[str, dict[str, Entry]]]:
    for file in tree.paths():
        inside = file.startswith(f"{path}/") and not file.startswith(f"{path}/tests/")
        if not inside or not file.endswith((".yaml", ".yml")):
            continue
        try:
            yield file, read_yaml(file, tree.read(file))
        except UnparsableError as trouble:
            problems.append(TrailEnd(location=trouble.location, why=trouble.why))
        except KeyError:
            problems.append(TrailEnd(location=Location(path=file), why="it is too large"))


def _modules(python: PythonTree, path: str, problems: list[TrailEnd]) -> tuple[str, ...]:
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


@dataclass(frozen=True)
class _Bindings:
    """Where the recipe's code, and the ancestors of its models, bind runtime attributes."""

    python: PythonTree
    modules: tuple[str, ...]
    imported: tuple[str, ...]
    candidates: tuple[Definition, ...]
    settings: list[Setting]

    def attributes(self) -> tuple[ClassAttribute, ...]:
        """Return the TP attributes and lists of wrap targets."""
        found = [
            a for cls in self._classes() for a, _ in attributes_of(self.python, cls, _ATTRIBUTES)
        ]
        for path in self._paths():
            found += [a for a, _ in late_bindings(self.python, path, _ATTRIBUTES)]
        return tuple(found)

    def hooks(self) -> tuple[tuple[Hook, ...], tuple[TrailEnd, ...], tuple[TrailEnd, ...]]:
        """Return the hooks on classes, those that the runtime never sees, and the unsettled."""
        hooks: list[Hook] = []
        unseen: dict[Location, str] = {}
        unsettled: dict[Location, str] = {}
        for cls in self._classes():
            for attribute, node in attributes_of(self.python, cls, (HOOK,)):
                hooks.append(read_hook(self.python, attribute, node, cls))
        for path in self._paths():
            for attribute, node in late_bindings(self.python, path, (HOOK,)):
                if path in self.imported or not self.candidates:
                    hooks.append(read_hook(self.python, attribute, node))
                else:
                    why = f"it is bound in {path}, which neither the engine nor the model imports"
                    unsettled[attribute.location] = why
        for setting in self.settings:
            if setting.name == HOOK:
                self._followed(setting, hooks, unseen, unsettled)
        known = {hook.binding.location for hook in hooks} | unseen.keys() | unsettled.keys()
        for path in self._paths():
            for holder, location in stray_hooks(self.python, path):
                if location in known:
                    continue
                if self._is_self_of_model(path, holder, location):
                    unseen[location] = "it is set on the object, and the runtime asks its class"
                else:
                    unsettled[location] = "it is set by code that may not run before sharding"
        return tuple(hooks), _ends(unseen), _ends(unsettled)

    def _followed(
        self,
        setting: Setting,
        hooks: list[Hook],
        unseen: dict[Location, str],
        unsettled: dict[Location, str],
    ) -> None:
        where = setting.location
        if isinstance(setting.holder, Instance):
            unseen[where] = "it is set on the object, and the runtime asks its class"
        elif setting.sharded:
            unseen[where] = "it is set after the model was sharded, when the runtime has asked"
        elif not setting.settled:
            unsettled[where] = "it is set in a branch that may not be taken"
        else:
            node = self._value_at(where)
            if node is not None:
                attribute = attribute_record(HOOK, setting.holder.cls, where, node)
                hooks.append(read_hook(self.python, attribute, node))

    def _value_at(self, where: Location) -> ast.expr | None:
        for node in ast.walk(self.python.syntax(where.path)):
            if getattr(node, "lineno", None) == where.line:
                for _, name, value in set_attributes(node):
                    if name == HOOK:
                        return value
        return None

    def _is_self_of_model(self, path: str, holder: ast.expr, location: Location) -> bool:
        """Tell whether `holder` is the `self` of a method of a model class."""
        for cls in self.python.classes(path):
            if self.python.is_module_class(cls) is False:
                continue
            assert isinstance(cls.node, ast.ClassDef)
            for method in cls.node.body:
                if isinstance(method, ast.FunctionDef) and not method.decorator_list:
                    own = next(iter(method.args.posonlyargs + method.args.args), None)
                    end = method.end_lineno or method.lineno
                    if (
                        own is not None
                        and dotted(holder) == own.arg
                        and method.lineno <= (location.line or 0) <= end
                    ):
                        return True
        return False

    def _classes(self) -> tuple[Definition, ...]:
        own = [cls for module in self.modules for cls in self.python.classes(module)]
        return tuple(dict.fromkeys([*own, *self._ancestors()]))

    def _paths(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys([*self.modules, *(cls.path for cls in self._ancestors())]))

    def _ancestors(self) -> list[Definition]:
        return [
            ancestor
            for cls in self.candidates
            for ancestor in self.python.linearized(cls)
            if isinstance(ancestor, Definition)
        ]


def _flags_set_early(hooks: tuple[Hook, ...], settings: list[Setting]) -> tuple[TrailEnd, ...]:
    """Return where the builder sets a flag such that the hook's own test already finds it."""
    present = {h.guard.tests for h in hooks if h.guard.tests_for == "presence"}
    flags = {hook.guard.tests for hook in hooks if hook.guard.tests is not None}
    early = {
        setting.location: f"`{setting.name}` is set here"
        for setting in settings
        if setting.name in flags
        and setting.settled
        and not setting.sharded
        and not isinstance(setting.holder, ClassValue)
        and (
            setting.name in present
            or all(isinstance(v, Constant) and v.value for v in setting.values)
        )
    }
    return _ends(early)


def _ends(reasons: dict[Location, str]) -> tuple[TrailEnd, ...]:
    return tuple(TrailEnd(location=location, why=why) for location, why in reasons.items())
