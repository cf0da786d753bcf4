"""Which class an engine's `prepare_model()` instantiates, by following the source.

A small interpreter over syntax trees. It runs the statements of a function in order, takes both
branches of an `if` whose test it does not know, goes into the functions of the tree that are
called, and keeps for each name the alternatives that it may hold. Nothing is imported or run.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from action.records import Location
from action.repository.python import Definition, PythonTree
from action.repository.syntax import Function
from action.source.expressions import Expressions
from action.source.values import (
    Constant,
    Frame,
    FunctionValue,
    Heap,
    Instance,
    Items,
    TooMuchError,
    Unknown,
    Value,
    Values,
    truth,
    union,
)

_DEEPEST = 24
"""Calls followed into each other before the trail is given up."""

_MOST = 3000
"""Calls followed in all, so that hostile source cannot keep anybody busy."""

_MOST_STATEMENTS = 20_000
"""Statements run in all; loops within loops run theirs many times."""


class Follower(Expressions):
    """Follows values through a tree; `trail` collects the places that it went through."""

    def __init__(self, python: PythonTree) -> None:
        super().__init__(python)
        self._calls = 0
        self._statements = 0
        self._running: list[Function | ast.Lambda] = []

    def prepared_model(self, engine: Definition) -> tuple[Value, ...]:
        """Return the models that `engine.prepare_model()` may hand to `parallelize_model`.

        Those among them that it returns, if it returns any; else every one. An Unknown says where
        the trail ends.
        """
        frame = Frame(engine.path)
        here = Instance(engine)
        methods = self._attribute((here,), "prepare_model", engine.node, frame)
        found = [method for method in methods if isinstance(method, FunctionValue)]
        if not found:
            why = f"`{engine.name}` has no `prepare_model()` in the repository's source"
            return (Unknown(engine.location, why),)
        returned = _flat(self._enter(found[0], {}, (), frame, engine.node))
        sharded = [value for value in returned if isinstance(value, Instance) and value.sharded]
        unknown = [value for value in returned if isinstance(value, Unknown)]
        models = [value for value in returned if isinstance(value, Instance)]
        self.trail += [v.cls.location for v in sharded or self.sharded if isinstance(v, Instance)]
        if sharded:
            return (*unknown, *_models(sharded))
        if self.sharded:
            return _models(self.sharded)
        line = Location(path=found[0].path, line=found[0].node.lineno)
        why = "`prepare_model()` hands no model to `parallelize_model(…)` that the source shows"
        if unknown and not models:
            return tuple(unknown)
        return (*_models(models), *unknown, Unknown(line, why))

    def _enter(
        self,
        function: FunctionValue,
        named: dict[str, Values],
        positional: tuple[Values, ...],
        caller: Frame,
        call: ast.AST,
    ) -> Values:
        """Return what a call of a function of the tree may return."""
        node = function.node
        location = Location(path=function.path, line=node.lineno)
        name = getattr(node, "name", "lambda")
        if node in self._running:
            return (Unknown(location, f"`{name}` calls itself"),)
        self._calls += 1
        if caller.depth >= _DEEPEST or self._calls > _MOST:
            return (Unknown(caller.at(call), "the calls go too deep to be followed"),)
        frame = Frame(
            function.path,
            depth=caller.depth + 1,
            owner=function.owner,
            parent=function.frame,
        )
        given = positional
        if function.receiver is not None:
            frame.receiver = function.receiver
            given = ((function.receiver,), *positional)
        elif function.frame is not None:
            frame.owner = function.owner or function.frame.owner
            frame.receiver = function.frame.receiver
        self._bind(node.args, given, named, frame, name)
        self._running.append(node)
        try:
            if isinstance(node, ast.Lambda):
                return self.value(node.body, frame)
            self.trail.append(location)
            falls_through = self._run(node.body, frame)
        finally:
            self._running.pop()
        if falls_through:
            frame.returned.append(Constant(None))
            frame.exits.append(self.heap)
        self.heap = _merged(frame.exits)
        return tuple(dict.fromkeys(frame.returned))

    def _bind(
        self,
        arguments: ast.arguments,
        given: tuple[Values, ...],
        named: dict[str, Values],
        frame: Frame,
        function: str,
    ) -> None:
        parameters = [*arguments.posonlyargs, *arguments.args]
        defaults: dict[str, ast.expr] = {}
        for parameter, default in zip(
            parameters[len(parameters) - len(arguments.defaults) :], arguments.defaults, strict=True
        ):
            defaults[parameter.arg] = default
        for parameter, keyword in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
            if keyword is not None:
                defaults[parameter.arg] = keyword
        for position, parameter in enumerate(parameters):
            if position < len(given):
                frame.names[parameter.arg] = given[position]
        for parameter in [*parameters, *arguments.kwonlyargs]:
            name = parameter.arg
            if name in frame.names:
                continue
            if name in named:
                frame.names[name] = named[name]
            elif name in defaults and None not in named:
                frame.names[name] = self.value(defaults[name], Frame(frame.path, parent=None))
            else:
                why = f"`{name}` of `{function}` gets its value at run time"
                frame.names[name] = (Unknown(frame.at(parameter), why),)
        if arguments.vararg is not None:
            rest = given[len(parameters) :]
            frame.names[arguments.vararg.arg] = (Items(rest),)
        if arguments.kwarg is not None:
            why = f"`{arguments.kwarg.arg}` of `{function}` gets its value at run time"
            frame.names[arguments.kwarg.arg] = (Unknown(frame.at(arguments.kwarg), why),)

    def _run(self, body: list[ast.stmt], frame: Frame) -> bool:
        """Run statements; return whether the end of them is reached."""
        return all(self._step(statement, frame) for statement in body)

    def _step(self, statement: ast.stmt, frame: Frame) -> bool:
        self._statements += 1
        if self._statements > _MOST_STATEMENTS:
            raise TooMuchError
        match statement:
            case ast.Return(value=value):
                result: Values = (Constant(None),) if value is None else self.value(value, frame)
                frame.returned += result
                frame.exits.append(self.heap)
                return False
            case ast.Raise() | ast.Continue() | ast.Break():
                return not isinstance(statement, ast.Raise)
            case ast.Assign(targets=targets, value=value):
                values = self.value(value, frame)
                for target in targets:
                    self._assign(target, values, frame)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self._assign(target, self.value(value, frame), frame)
            case ast.AugAssign(target=target):
                why = f"`{ast.unparse(target)}` is computed"
                self._assign(target, (Unknown(frame.at(statement), why),), frame)
            case ast.If(test=test, body=then, orelse=otherwise):
                known = truth(self.value(test, frame))
                if known is not None:
                    return self._run(then if known else otherwise, frame)
                return self._branches([then, otherwise], frame)
            case ast.Try(body=tried, handlers=handlers, orelse=otherwise, finalbody=final):
                bodies = [[*tried, *otherwise], *(handler.body for handler in handlers)]
                reached = self._branches(bodies, frame)
                return self._run(final, frame) and reached
            case ast.With(items=items, body=inner) | ast.AsyncWith(items=items, body=inner):
                for item in items:
                    values = self.value(item.context_expr, frame)
                    if item.optional_vars is not None:
                        why = f"`{ast.unparse(item.context_expr)}` is entered at run time"
                        entered = tuple(v for v in values if isinstance(v, Instance))
                        unknown: Values = (Unknown(frame.at(statement), why),)
                        self._assign(item.optional_vars, entered or unknown, frame)
                return self._run(inner, frame)
            case (
                ast.For(target=target, iter=iterated, body=inner, orelse=otherwise)
                | ast.AsyncFor(target=target, iter=iterated, body=inner, orelse=otherwise)
            ):
                self._assign(target, self._each(iterated, frame), frame)
                self._branches([[*inner, *inner], []], frame)
                return self._run(otherwise, frame)
            case ast.While(test=test, body=inner, orelse=otherwise):
                self.value(test, frame)
                self._branches([[*inner, *inner], []], frame)
                return self._run(otherwise, frame)
            case ast.Match(subject=subject, cases=cases):
                self.value(subject, frame)
                for case in cases:
                    for pattern in ast.walk(case.pattern):
                        name = getattr(pattern, "name", None)
                        if isinstance(name, str):
                            why = f"`{name}` is matched at run time"
                            frame.names[name] = (Unknown(frame.at(case.pattern), why),)
                whole = any(_catches_all(case) for case in cases)
                return self._branches([c.body for c in cases] + ([] if whole else [[]]), frame)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                nested = FunctionValue(frame.path, statement, frame=frame)
                frame.names[statement.name] = (nested,)
            case ast.ClassDef():
                frame.names[statement.name] = self.class_statement(statement, frame)
            case ast.Import() | ast.ImportFrom():
                self.import_statement(statement, frame)
            case ast.Expr(value=value):
                self.value(value, frame)
            case _:
                pass
        return True

    def _branches(self, bodies: list[list[ast.stmt]], frame: Frame) -> bool:
        """Run each of some bodies from here; go on with what those that reach their end leave."""
        names, heap = frame.names, self.heap
        self._open_branches += 1
        ends: list[tuple[dict[str, Values], Heap]] = []
        for body in bodies:
            frame.names, self.heap = dict(names), dict(heap)
            if self._run(body, frame):
                ends.append((frame.names, self.heap))
        self._open_branches -= 1
        frame.names = names
        merged = [end for end, _ in ends]
        for name in {name for end in merged for name in end}:
            # In place, since functions defined in this call see its names as they change.
            frame.names[name] = union(end.get(name, ()) for end in merged)
        self.heap = _merged([end for _, end in ends]) if ends else heap
        return bool(ends)

    def _each(self, iterated: ast.expr, frame: Frame) -> Values:
        values = self.value(iterated, frame)
        found = union(item for v in values if isinstance(v, Items) for item in v.items)
        if found and all(isinstance(value, Items) for value in values):
            return found
        return (Unknown(frame.at(iterated), f"`{ast.unparse(iterated)}` is known at run time"),)

    def _assign(self, target: ast.expr, values: Values, frame: Frame) -> None:
        match target:
            case ast.Name(id=name):
                frame.names[name] = values
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                for position, element in enumerate(elements):
                    self._assign(element, self._item(values, position, element, frame), frame)
            case ast.Starred(value=value):
                why = f"`{ast.unparse(value)}` is unpacked at run time"
                self._assign(value, (Unknown(frame.at(value), why),), frame)
            case ast.Attribute(value=owner, attr=name):
                self._set_attribute(self.value(owner, frame), name, values, target, frame)
            case _:
                pass

    def _item(self, values: Values, position: int, node: ast.expr, frame: Frame) -> Values:
        found: list[Value] = []
        for value in values:
            if isinstance(value, Items) and position < len(value.items):
                found += value.items[position]
            elif isinstance(value, Unknown):
                found.append(value)
            else:
                why = f"`{ast.unparse(node)}` is unpacked at run time"
                found.append(Unknown(frame.at(node), why))
        return tuple(dict.fromkeys(found))


def _models(values: Iterable[Value]) -> tuple[Value, ...]:
    """Return what may be a model, each once."""
    return tuple(dict.fromkeys(v for v in values if isinstance(v, Instance | Unknown)))


def _flat(values: Values) -> Values:
    """Return the alternatives with tuples taken apart: `return model, optimizer`."""
    inner = (_flat(item) for v in values if isinstance(v, Items) for item in v.items)
    return union([tuple(v for v in values if not isinstance(v, Items)), *inner])


def _merged(heaps: list[Heap]) -> Heap:
    keys = dict.fromkeys(key for heap in heaps for key in heap)
    return {key: union(heap.get(key, ()) for heap in heaps) for key in keys}


def _catches_all(case: ast.match_case) -> bool:
    return case.guard is None and isinstance(case.pattern, ast.MatchAs) and not case.pattern.pattern
