"""What names and attributes of a builder's source mean."""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace

from action.records import Location
from action.repository.python import Definition, External, ModuleRef, PythonTree, Target, Unresolved
from action.repository.syntax import Function, Import, UnparsableError, dotted, statements
from action.source.values import (
    ClassValue,
    Constant,
    Foreign,
    Frame,
    FunctionValue,
    Heap,
    Instance,
    ModuleValue,
    Parent,
    Table,
    Unknown,
    Value,
    Values,
    union,
)


@dataclass(frozen=True)
class Setting:
    """An attribute that the followed code sets on an object or a class of the tree.

    `settled` is false within a branch that may not be taken; `sharded` tells whether some model was
    handed to sharding before.
    """

    holder: Instance | ClassValue
    name: str
    values: Values
    location: Location
    settled: bool
    sharded: bool


class Lookups(ABC):
    """Follows names and attributes.

    `heap` holds the attributes set so far, `sharded` what `parallelize_model` was given, `settings`
    every attribute that was set, and `trail` the places that were gone through.
    """

    def __init__(self, python: PythonTree) -> None:
        self._python = python
        self.heap: Heap = {}
        self.trail: list[Location] = []
        self.sharded: list[Value] = []
        self.settings: list[Setting] = []
        self._open_branches = 0
        self._evaluating: set[int] = set()

    @abstractmethod
    def value(self, node: ast.expr, frame: Frame) -> Values:
        """Return what an expression may be."""

    @abstractmethod
    def _enter(
        self,
        function: FunctionValue,
        named: dict[str, Values],
        positional: tuple[Values, ...],
        caller: Frame,
        call: ast.AST,
    ) -> Values:
        """Return what a call of a function of the tree may return."""

    def _name(self, name: str, node: ast.AST, frame: Frame) -> Values:
        local = frame.get(name)
        if local is not None:
            return local
        try:
            root = self._python.syntax(frame.path)
            bound = self._python.scope_bindings(root).names.get(name, [])
            targets = self._python.alternatives(frame.path, name)
        except UnparsableError as trouble:
            return (Unknown(trouble.location, trouble.why),)
        known = [target for target in targets if not isinstance(target, Unresolved)]
        if len(bound) > 1 and known:
            found = union(self._target(target, node, frame) for target in known)
            return tuple(v for v in found if v != Constant(None)) or found
        return union(self._target(target, node, frame) for target in targets)

    def _target(self, target: Target, node: ast.AST, frame: Frame) -> Values:
        match target:
            case Definition(node=ast.ClassDef()):
                return (ClassValue(target),)
            case Definition(node=ast.FunctionDef() | ast.AsyncFunctionDef() as function):
                return (FunctionValue(target.path, function),)
            case Definition(node=ast.expr() as value):
                return self._module_level(value, target, node, frame)
            case ModuleRef():
                return (ModuleValue(target),)
            case External(name=name):
                return (Foreign(name),)
            case Unresolved(location=location, why=why):
                return (Unknown(location if location.line else frame.at(node), why),)
            case _:
                return (Unknown(frame.at(node), f"`{shown(node)}` is known only at run time"),)

    def _module_level(
        self, value: ast.expr, target: Definition, node: ast.AST, frame: Frame
    ) -> Values:
        if id(value) in self._evaluating:
            return (Unknown(target.location, f"`{target.name}` is defined by itself"),)
        self._evaluating.add(id(value))
        try:
            values = self.value(value, Frame(target.path, depth=frame.depth))
        finally:
            self._evaluating.discard(id(value))
        if any(isinstance(v, Table) for v in values) and self._is_filled(target):
            why = f"`{target.name}` is filled at run time"
            return (Unknown(frame.at(node), why),)
        return values

    def _is_filled(self, target: Definition) -> bool:
        """Tell whether a module's dictionary gets entries after the literal."""
        for inner in ast.walk(self._python.syntax(target.path)):
            match inner:
                case ast.Subscript(value=ast.Name(id=name), ctx=ast.Store()):
                    if name == target.name:
                        return True
                case ast.Call(
                    func=ast.Attribute(value=ast.Name(id=name), attr="update" | "setdefault")
                ):
                    if name == target.name:
                        return True
                case _:
                    pass
        return False

    def _attribute(self, holders: Values, name: str, node: ast.AST, frame: Frame) -> Values:
        return union(self._attribute_of(holder, name, node, frame) for holder in holders)

    def _attribute_of(self, holder: Value, name: str, node: ast.AST, frame: Frame) -> Values:
        match holder:
            case ModuleValue(module=module):
                found = self._python.attribute(module, name)
                return self._target(found, node, frame)
            case Foreign(name=outer):
                return (Foreign(f"{outer}.{name}", holder.receiver),)
            case Instance(cls=cls) if name == "__class__":
                return (ClassValue(cls),)
            case ClassValue(cls=cls) if name == "__name__":
                return (Constant(cls.name.rpartition(".")[2]),)
            case Instance(cls=cls) | ClassValue(cls=cls):
                if isinstance(holder, Instance):
                    kept = self.heap.get((cls.qualified, name))
                    if kept is not None:
                        return kept
                return self._inherited(holder, self._python.linearized(cls), name, node, frame)
            case Parent(receiver=receiver, owner=owner):
                order = self._python.linearized(receiver.cls)
                begin = order.index(owner) + 1 if owner in order else 1
                return self._inherited(receiver, order[begin:], name, node, frame)
            case Table():
                return (Foreign(f"dict.{name}"),) if name != "get" else (holder,)
            case Unknown():
                return (holder,)
            case _:
                return (Unknown(frame.at(node), f"`{shown(node)}` is known only at run time"),)

    def _inherited(
        self,
        holder: Instance | ClassValue,
        order: tuple[Target, ...],
        name: str,
        node: ast.AST,
        frame: Frame,
    ) -> Values:
        """Return what the nearest of some classes binds `name` to, seen through `holder`."""
        for ancestor in order:
            if isinstance(ancestor, Definition):
                bound = self._python.class_bindings(ancestor, name)
                if bound:
                    last = bound[-1].node
                    if isinstance(last, ast.FunctionDef | ast.AsyncFunctionDef):
                        return self._method(holder, ancestor, last, node, frame)
                    if isinstance(last, ast.expr):
                        return self._class_value(holder, ancestor, name, last, frame)
                    target = self._python.attribute(ancestor, name)
                    return self._target(target, node, frame)
            elif isinstance(ancestor, Unresolved):
                return (Unknown(ancestor.location, ancestor.why),)
            elif isinstance(ancestor, External) and ancestor.name != "builtins.object":
                if isinstance(holder, Instance):
                    set_elsewhere = self.set_by_methods(holder, name, frame)
                    if set_elsewhere is not None:
                        return set_elsewhere
                return (Foreign(f"{ancestor.name}.{name}", holder),)
        if isinstance(holder, Instance):
            set_elsewhere = self.set_by_methods(holder, name, frame)
            if set_elsewhere is not None:
                return set_elsewhere
        why = f"`{shown(node)}` is set nowhere in the source of `{holder.cls.name}`"
        return (Unknown(frame.at(node), why),)

    def _class_value(
        self, holder: Instance | ClassValue, owner: Definition, name: str, node: ast.expr,
        frame: Frame,
    ) -> Values:  # fmt: skip
        values = self.value(node, Frame(owner.path, depth=frame.depth))
        if not isinstance(holder, Instance):
            return values
        # An instance's own setting, which its methods may replace, is not known from its default.
        why = f"`{name}` of `{owner.name}` is a setting"
        return tuple(
            Unknown(frame.at(node), why)
            if isinstance(v, Constant)
            else replace(v, receiver=holder)
            if isinstance(v, FunctionValue) and v.receiver is None
            else v
            for v in values
        )

    def _method(
        self, holder: Instance | ClassValue, owner: Definition, function: Function,
        node: ast.AST, frame: Frame,
    ) -> Values:  # fmt: skip
        decorators = {(dotted(d) or "").rpartition(".")[2] for d in function.decorator_list}
        receiver: Instance | ClassValue | None = holder
        if "staticmethod" in decorators or (
            isinstance(holder, ClassValue) and "classmethod" not in decorators
        ):
            receiver = None
        elif "classmethod" in decorators:
            receiver = ClassValue(holder.cls)
        method = FunctionValue(owner.path, function, receiver, owner)
        if decorators & {"property", "cached_property"} and isinstance(holder, Instance):
            return self._enter(method, {}, (), frame, node)
        return (method,)

    def set_by_methods(self, holder: Instance, name: str, frame: Frame) -> Values | None:
        """Return what the methods of a class set `self.name` to, run with unknown arguments."""
        found: list[Values] = []
        for owner in self._python.linearized(holder.cls):
            if not isinstance(owner, Definition):
                continue
            assert isinstance(owner.node, ast.ClassDef)
            for method in owner.node.body:
                if isinstance(method, ast.FunctionDef) and _sets(method, name):
                    heap, trail = self.heap, list(self.trail)
                    sharded, settings = list(self.sharded), list(self.settings)
                    self.heap = dict(heap)
                    self._enter(
                        FunctionValue(owner.path, method, holder, owner), {}, (), frame, method
                    )
                    found.append(self.heap.get((holder.cls.qualified, name), ()))
                    self.heap, self.trail = heap, trail
                    self.sharded, self.settings = sharded, settings
        values = union(found)
        useful = tuple(v for v in values if v != Constant(None))
        return useful or values or None

    def class_statement(self, node: ast.ClassDef, frame: Frame) -> Values:
        """Return the class that a statement within a function defines."""
        for cls in self._python.classes(frame.path):
            if cls.node is node:
                return (ClassValue(cls),)
        return (Unknown(frame.at(node), f"`{node.name}` is defined at run time"),)

    def import_statement(self, node: ast.Import | ast.ImportFrom, frame: Frame) -> None:
        """Bind the names that an import within a function binds."""
        for alias in node.names:
            if isinstance(node, ast.ImportFrom):
                module = "." * node.level + (node.module or "")
                imported = Import(module, alias.name, node.lineno)
                name = alias.asname or alias.name
            else:
                first = alias.name.split(".")[0]
                imported = Import(alias.name if alias.asname else first, None, node.lineno)
                name = alias.asname or first
            target = self._python.imported(frame.path, imported)
            frame.names[name] = self._target(target, node, frame)


def shown(node: ast.AST) -> str:
    """Return a node as it is written, on one line and not too long."""
    text = " ".join(ast.unparse(node).split()).replace("`", "'")
    return text if len(text) <= 60 else f"{text[:59]}…"


def _sets(method: ast.FunctionDef, name: str) -> bool:
    arguments = method.args.posonlyargs + method.args.args
    own = arguments[0].arg if arguments else "self"
    return any(_assigns(statement, own, name) for statement in statements(method.body))


def _assigns(statement: ast.stmt, own: str, name: str) -> bool:
    targets: list[ast.expr] = []
    if isinstance(statement, ast.Assign):
        targets = statement.targets
    elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
        targets = [statement.target]
    return any(
        isinstance(inner, ast.Attribute)
        and inner.attr == name
        and isinstance(inner.value, ast.Name)
        and inner.value.id == own
        for target in targets
        for inner in ast.walk(target)
    )
