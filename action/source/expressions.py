"""The expressions of a builder's source: names, attributes and calls."""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace

from action.records import Location
from action.repository.python import Definition, External, ModuleRef, PythonTree, Target, Unresolved
from action.repository.syntax import Function, Import, UnparsableError, dotted, statements
from action.source.foreign import foreign_call
from action.source.values import (
    ClassValue,
    Constant,
    Foreign,
    Frame,
    FunctionValue,
    Heap,
    Instance,
    Items,
    ModuleValue,
    Parent,
    Table,
    Unknown,
    Value,
    Values,
    union,
)

SHARDING = "parallelize_model"
_LARGEST = 10_000
"""Values that a tuple, list or table may hold, inner ones included."""


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


class Expressions(ABC):
    """Evaluates expressions; `sharded` collects what `parallelize_model` is given."""

    def __init__(self, python: PythonTree) -> None:
        self._python = python
        self.heap: Heap = {}
        self.trail: list[Location] = []
        self.sharded: list[Value] = []
        self.settings: list[Setting] = []
        self._open_branches = 0
        self._evaluating: set[int] = set()

    @abstractmethod
    def _enter(
        self,
        function: FunctionValue,
        named: dict[str, Values],
        positional: tuple[Values, ...],
        caller: Frame,
        call: ast.AST,
    ) -> Values: ...

    def value(self, node: ast.expr, frame: Frame) -> Values:
        """Return what an expression may be."""
        match node:
            case ast.Constant(value=None | str() | int() | float() as literal):
                return (Constant(literal),)
            case ast.Name(id=name):
                return self._name(name, node, frame)
            case ast.Attribute(value=holder, attr=attribute):
                return self._attribute(self.value(holder, frame), attribute, node, frame)
            case ast.Call():
                return self._call(node, frame)
            case ast.IfExp(test=test, body=one, orelse=other):
                self.value(test, frame)
                return union([self.value(one, frame), self.value(other, frame)])
            case ast.BoolOp(values=operands):
                return union([self.value(operand, frame) for operand in operands])
            case ast.NamedExpr(target=target, value=value):
                frame.names[target.id] = self.value(value, frame)
                return frame.names[target.id]
            case ast.Await(value=value) | ast.Starred(value=value):
                return self.value(value, frame)
            case ast.Lambda():
                return (FunctionValue(frame.path, node, frame=frame),)
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                return self._listed(elements, frame)
            case ast.BinOp(left=one, op=ast.Add(), right=other):
                first, second = self.value(one, frame), self.value(other, frame)
                if len(first) == len(second) == 1:
                    match first[0], second[0]:
                        case Items(items=before), Items(items=after):
                            return self._bounded(Items((*before, *after)), node, frame)
            case ast.Dict(keys=keys, values=entries):
                pairs = zip(keys, entries, strict=True)
                table = Table(tuple((_text(k), self.value(v, frame)) for k, v in pairs))
                return self._bounded(table, node, frame)
            case ast.Subscript(value=holder, slice=key):
                return self._lookup(self.value(holder, frame), key, node, frame)
            case ast.Compare(left=left, ops=[operator], comparators=[right]):
                return self._compared(left, operator, right, node, frame)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                values = self.value(operand, frame)
                if len(values) == 1 and isinstance(values[0], Constant):
                    return (Constant(not values[0].value),)
            case ast.Compare(left=left):
                self.value(left, frame)
            case _:
                pass
        return (Unknown(frame.at(node), f"`{shown(node)}` is computed"),)

    def _listed(self, elements: list[ast.expr], frame: Frame) -> Values:
        items: list[Values] = []
        for element in elements:
            values = self.value(element, frame)
            if not isinstance(element, ast.Starred):
                items.append(values)
            elif len(values) == 1 and isinstance(values[0], Items):
                items += values[0].items
            else:
                return (Unknown(frame.at(element), f"`{shown(element)}` is unpacked at run time"),)
        return self._bounded(Items(tuple(items)), elements[0] if elements else None, frame)

    def _bounded(self, value: Items | Table, node: ast.AST | None, frame: Frame) -> Values:
        """Return a value, or Unknown when it is so large that only hostile source has it."""
        if value.size <= _LARGEST:
            return (value,)
        where = frame.at(node) if node is not None else Location(path=frame.path)
        return (Unknown(where, "a value is too large to be followed"),)

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

    def _set_attribute(
        self, holders: Values, name: str, values: Values, node: ast.AST, frame: Frame
    ) -> None:
        settled = not self._open_branches and len(holders) == 1
        for holder in holders:
            if isinstance(holder, Instance | ClassValue):
                setting = Setting(holder, name, values, frame.at(node), settled, bool(self.sharded))
                self.settings.append(setting)
            if isinstance(holder, Instance):
                self.heap[holder.cls.qualified, name] = values

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

    def _lookup(self, holders: Values, key: ast.expr, node: ast.AST, frame: Frame) -> Values:
        """`MODELS[name]`: the entry, or all of them when the key is not a literal."""
        found: list[Values] = []
        for holder in holders:
            keys = self.value(key, frame)
            literal = keys[0].value if len(keys) == 1 and isinstance(keys[0], Constant) else None
            match holder:
                case Items(items=items) if isinstance(literal, int) and -len(items) <= literal:
                    found.append(items[literal] if literal < len(items) else ())
                case Items(items=items) if items and literal is None:
                    found += items
                case Table(entries=entries) if entries:
                    exact = [values for name, values in entries if name == literal]
                    found += exact or [values for _, values in entries]
                case Unknown():
                    found.append((holder,))
                case ClassValue():
                    found.append((holder,))  # Model[int] is Model
                case _:
                    why = f"`{shown(node)}` is looked up at run time"
                    found.append((Unknown(frame.at(node), why),))
        return union(found)

    def _compared(
        self, left: ast.expr, operator: ast.cmpop, right: ast.expr, node: ast.expr, frame: Frame
    ) -> Values:
        one, other = self.value(left, frame), self.value(right, frame)
        unknown: Values = (Unknown(frame.at(node), f"`{shown(node)}` is computed"),)
        if not all(isinstance(v, Constant) for v in other) or len(other) != 1:
            return unknown
        built = (Instance, ClassValue, FunctionValue)
        if other == (Constant(None),) and one and all(isinstance(v, built) for v in one):
            equal = False
        elif len(one) == 1 and isinstance(one[0], Constant):
            equal = one == other
        else:
            return unknown
        if isinstance(operator, ast.Is | ast.Eq):
            return (Constant(equal),)
        return (Constant(not equal),) if isinstance(operator, ast.IsNot | ast.NotEq) else unknown

    def _call(self, call: ast.Call, frame: Frame) -> Values:
        callee = dotted(call.func) or ""
        if callee == "super" and frame.owner is not None and frame.receiver is not None:
            return (Parent(frame.receiver, frame.owner),)
        functions = self.value(call.func, frame)
        if callee.rpartition(".")[2] == SHARDING or any(_is_sharding(f) for f in functions):
            return self._sharding(call, frame)
        if isinstance(call.func, ast.Attribute) and call.func.attr == "get" and call.args:
            tables = tuple(f for f in functions if isinstance(f, Table))
            if tables and len(tables) == len(functions):
                fallback = [self.value(argument, frame) for argument in call.args[1:2]]
                return union([self._lookup(tables, call.args[0], call, frame), *fallback])
        positional = tuple(
            self.value(a, frame) for a in call.args if not isinstance(a, ast.Starred)
        )
        named = {str(k.arg): self.value(k.value, frame) for k in call.keywords if k.arg}
        found = [self._called(f, call, positional, named, frame) for f in functions]
        return union(found)

    def _called(
        self,
        function: Value,
        call: ast.Call,
        positional: tuple[Values, ...],
        named: dict[str, Values],
        frame: Frame,
    ) -> Values:
        match function:
            case ClassValue(cls=cls):
                return self._instance(cls, call, positional, named, frame)
            case FunctionValue():
                if any(isinstance(a, ast.Starred) for a in call.args):
                    positional = ()
                return self._enter(function, named, positional, frame, call)
            case Foreign(name="builtins.getattr") if len(positional) >= 2:
                names = positional[1]
                if len(names) == 1 and isinstance(names[0], Constant):
                    found = self._attribute(positional[0], str(names[0].value), call, frame)
                    return union([found, *positional[2:3]])
                why = f"`{shown(call)}` looks an attribute up by a name known only at run time"
                return (Unknown(frame.at(call), why),)
            case Foreign(name="builtins.setattr") if len(positional) == 3:
                for name in positional[1]:
                    if isinstance(name, Constant):
                        text = str(name.value)
                        self._set_attribute(positional[0], text, positional[2], call, frame)
                return (Constant(None),)
            case Foreign(name="builtins.type") if len(positional) == 1:
                return tuple(
                    ClassValue(v.cls) if isinstance(v, Instance) else v for v in positional[0]
                )
            case Foreign(name="builtins.list" | "builtins.tuple") if len(positional) == 1:
                return positional[0]
            case Foreign(name="functools.partial") if positional:
                return positional[0]
            case Foreign():
                model = named.get("model", named.get("module"))
                arguments = positional if model is None else (*positional, model)
                return foreign_call(function, arguments, frame.at(call), shown(call))
            case Instance(cls=cls):
                methods = self._attribute((function,), "__call__", call, frame)
                own = tuple(m for m in methods if isinstance(m, FunctionValue))
                if own and not self._python.is_module_class(cls):
                    return self._enter(own[0], named, positional, frame, call)
            case Unknown():
                return (function,)
            case _:
                pass
        return (Unknown(frame.at(call), f"`{shown(call)}` is known only at run time"),)

    def _instance(
        self,
        cls: Definition,
        call: ast.Call,
        positional: tuple[Values, ...],
        named: dict[str, Values],
        frame: Frame,
    ) -> Values:
        here = Instance(cls)
        for ancestor in self._python.linearized(cls):
            if isinstance(ancestor, Definition) and self._python.class_bindings(
                ancestor, "__new__"
            ):
                why = f"`{ancestor.name}.__new__` decides which object `{shown(call)}` is"
                return (Unknown(frame.at(call), why),)
        if self._python.is_module_class(cls) is False:
            # A builder: what its constructor keeps may be what it builds from.
            methods = self._attribute((ClassValue(cls),), "__init__", call, frame)
            for method in methods:
                if isinstance(method, FunctionValue):
                    bound = replace(method, receiver=here)
                    self._enter(bound, named, positional, frame, call)
        return (here,)

    def _sharding(self, call: ast.Call, frame: Frame) -> Values:
        given = [k.value for k in call.keywords if k.arg in ("model", "module")]
        given += [a for a in call.args[:1] if not isinstance(a, ast.Starred)]
        if not given:
            values: Values = (Unknown(frame.at(call), f"`{shown(call)}` names no model"),)
        else:
            why = f"`{shown(given[0])}` is no model that the source shows"
            values = tuple(
                replace(value, sharded=True)
                if isinstance(value, Instance)
                else value
                if isinstance(value, Unknown)
                else Unknown(frame.at(call), why)
                for value in self.value(given[0], frame)
                if value != Constant(None)  # not built yet, which sharding would refuse
            )
        self.sharded += values
        return values


def shown(node: ast.AST) -> str:
    """Return a node as it is written, on one line and not too long."""
    text = " ".join(ast.unparse(node).split()).replace("`", "'")
    return text if len(text) <= 60 else f"{text[:59]}…"


def _text(key: ast.expr | None) -> str | None:
    return key.value if isinstance(key, ast.Constant) and isinstance(key.value, str) else None


def _is_sharding(value: Value) -> bool:
    match value:
        case FunctionValue(node=ast.FunctionDef(name=name), receiver=None):
            return name == SHARDING
        case Foreign(name=name):
            return name.rpartition(".")[2] == SHARDING
        case _:
            return False


def _sets(method: ast.FunctionDef, name: str) -> bool:
    arguments = method.args.posonlyargs + method.args.args
    own = arguments[0].arg if arguments else "self"
    return any(_assigns(statement, own, name) for statement in statements(method.body))


def _assigns(statement: ast.stmt, own: str, name: str) -> bool:
    targets: Iterator[ast.expr] | list[ast.expr] = []
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
