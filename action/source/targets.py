"""Which class names FSDP2 is told to wrap: the model's own list and the configs' lists."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping

from action.contract import TARGET_LIST
from action.records import Location, TrailEnd, WrapTarget
from action.repository.python import Definition, External, PythonTree, Unresolved
from action.repository.yaml_file import Entry
from action.source.follower import Follower
from action.source.hooks import attributes_of, late_bindings, set_attributes
from action.source.reachable import reachable_classes
from action.source.values import Constant, Frame, Instance, Items, Values

_TARGET_KEY = re.compile(
    r"^parallel\.backend_kwargs\.fsdp2\.(target_classes|high_precision_modules)(\[\d+\])?$"
)
# Packages whose classes have no list of their own for the runtime to read.
_WITHOUT_LIST = ("torch.", "builtins.", "typing.", "abc.", "typing_extensions.")


def read_targets(
    python: PythonTree,
    candidates: tuple[Definition, ...],
    configs: Mapping[str, Mapping[str, Entry]],
    classes: tuple[Definition, ...],
) -> tuple[tuple[WrapTarget, ...], TrailEnd | None]:
    """Return the names to wrap with what they match, and why there may be more of them.

    `candidates` are the classes that training may instantiate; without any, `classes` stand in for
    what a name can match.
    """
    reach = reachable_classes(python, candidates or classes)
    named: dict[tuple[str, Location, str], None] = {}
    end: TrailEnd | None = None
    for cls in candidates:
        names, trouble = _own_list(python, cls)
        end = end or trouble
        named |= {(name, where, TARGET_LIST): None for name, where in names}
    for file, entries in configs.items():
        for key, entry in entries.items():
            match = _TARGET_KEY.match(key)
            if match and entry.value not in ("[]", None):
                named[str(entry.value), Location(path=file, line=entry.line), match[1]] = None
    targets = tuple(
        WrapTarget.model_validate(
            {
                "class_name": name,
                "named_at": where,
                "origin": origin,
                "matches": reach.matches(name),
                "may_match_outside": reach.outside is not None,
            }
        )
        for name, where, origin in named
    )
    return targets, end


def _own_list(
    python: PythonTree, cls: Definition
) -> tuple[list[tuple[str, Location]], TrailEnd | None]:
    """Return the names in `model._no_split_modules`: set by a method, own, or inherited."""
    follower = Follower(python)
    values = follower.set_by_methods(Instance(cls), TARGET_LIST, Frame(cls.path))
    if values is not None:
        where = next(_set_in(python, cls), cls.location)
        return _names(values, where)
    late = {
        attribute.owner.name: (attribute.location, node)
        for path in dict.fromkeys(
            t.path for t in python.linearized(cls) if isinstance(t, Definition)
        )
        for attribute, node in late_bindings(python, path, (TARGET_LIST,))
    }
    for ancestor in python.linearized(cls):
        if isinstance(ancestor, Definition):
            bound = [(a.location, n) for a, n in attributes_of(python, ancestor, (TARGET_LIST,))]
            if ancestor.qualified in late:
                bound.append(late[ancestor.qualified])
            if bound:
                where, node = bound[-1]
                return _names_in(follower, where, node)
        elif isinstance(ancestor, External):
            if not ancestor.name.startswith(_WITHOUT_LIST):
                why = f"`{TARGET_LIST}` may be inherited from `{ancestor.name}`"
                return [], TrailEnd(location=cls.location, why=why)
        elif isinstance(ancestor, Unresolved):
            return [], TrailEnd(location=ancestor.location, why=ancestor.why)
    return [], None


def _names_in(
    follower: Follower, where: Location, node: ast.AST
) -> tuple[list[tuple[str, Location]], TrailEnd | None]:
    frame = Frame(where.path)
    if isinstance(node, ast.Set):
        node = ast.copy_location(ast.List(elts=node.elts, ctx=ast.Load()), node)
    if isinstance(node, ast.List | ast.Tuple) and not any(
        isinstance(element, ast.Starred) for element in node.elts
    ):
        found: list[tuple[str, Location]] = []
        end = None
        for element in node.elts:
            item = (Items((follower.value(element, frame),)),)
            names, trouble = _names(item, Location(path=where.path, line=element.lineno))
            found += names
            end = end or trouble
        return found, end
    if not isinstance(node, ast.expr):
        return [], TrailEnd(location=where, why=f"`{TARGET_LIST}` is computed")
    return _names(follower.value(node, frame), where)


def _names(values: Values, where: Location) -> tuple[list[tuple[str, Location]], TrailEnd | None]:
    found: list[tuple[str, Location]] = []
    computed = TrailEnd(location=where, why=f"`{TARGET_LIST}` is computed")
    end = None if values else computed
    for value in values:
        match value:
            case Constant(value=None):
                pass
            case Items(items=items):
                for item in items:
                    names = [str(v.value) for v in item if isinstance(v, Constant)]
                    found += [(name, where) for name in names]
                    end = end or (None if names and len(names) == len(item) else computed)
            case _:
                end = end or computed
    return found, end


def _set_in(python: PythonTree, cls: Definition) -> Iterator[Location]:
    for ancestor in python.linearized(cls):
        if isinstance(ancestor, Definition):
            for node in ast.walk(ancestor.node):
                if any(name == TARGET_LIST for _, name, _ in set_attributes(node)):
                    yield Location(path=ancestor.path, line=getattr(node, "lineno", None))
