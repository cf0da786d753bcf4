"""The expressions of a builder's source: literals, look-ups in tables, and calls."""

from __future__ import annotations

import ast
from dataclasses import replace

from action.records import Location
from action.repository.python import Definition
from action.repository.syntax import dotted
from action.source.foreign import foreign_call
from action.source.lookups import Lookups, Setting, shown
from action.source.values import (
    ClassValue,
    Constant,
    Foreign,
    Frame,
    FunctionValue,
    Instance,
    Items,
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


class Expressions(Lookups):
    """Evaluates expressions."""

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
