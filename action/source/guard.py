"""How a hook keeps a second call from doing anything: the flag, on every way through the function.

The function's statements are walked with what is known on the way: whether the flag was found
unset, whether an edge was set, whether the flag was set since.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from action.contract import SETTERS
from action.records import Guard, Location
from action.repository.python import Definition, PythonTree
from action.repository.syntax import Function, UnparsableError, dotted
from action.source.flags import Flags
from action.source.values import TooMuchError

_MOST = 50_000
"""Statements walked; loops within loops walk theirs many times."""
_DEEPEST = 4
"""Functions looked into for the setters, from the hook on."""


@dataclass(frozen=True)
class _State:
    flag: Literal["unset", "set", "open", "not tested"] = "not tested"
    edges: bool = False
    marked: bool = False


def read_guard(python: PythonTree, path: str, function: Function) -> Guard:
    """Return how a hook guards against a second call."""
    path, function = _delegate(python, path, function)
    return _Reader(python, path, function).guard()


def sets_edges(
    python: PythonTree, path: str, node: ast.AST, seen: dict[int, bool], depth: int = 0
) -> bool:
    """Tell whether code calls one of FSDP2's setters, itself or through functions of the tree.

    `seen` keeps the answers by node, which its owner must keep alive.
    """
    if id(node) not in seen:
        seen[id(node)] = False  # the answer within a circle
        seen[id(node)] = _sets_edges(python, path, node, seen, depth)
    return seen[id(node)]


def _sets_edges(
    python: PythonTree, path: str, node: ast.AST, seen: dict[int, bool], depth: int
) -> bool:
    for inner in ast.walk(node):
        if getattr(inner, "attr", getattr(inner, "value", None)) in SETTERS.values():
            return True
        if isinstance(inner, ast.Call) and depth < _DEEPEST:
            called = _function(python, path, inner)
            if (
                called is not None
                and called.node is not node
                and sets_edges(python, called.path, called.node, seen, depth + 1)
            ):
                return True
    return False


class _Reader:
    def __init__(self, python: PythonTree, path: str, function: Function) -> None:
        self._python = python
        self._path = path
        self._function = function
        self._seen: dict[int, bool] = {}
        self._steps = 0
        self._flags = Flags(python, path, function)
        self._exits: list[tuple[_State, int]] = []
        self._trouble: dict[str, int] = {}

    def guard(self) -> Guard:
        """Walk the function and return what was seen."""
        flags = self._flags
        test = next((t for t in flags.tests if t.flag == flags.chosen), None)
        mark = next((m for m in flags.marks if m[0] == flags.chosen), None)
        other = next((m for m in flags.marks if m[0].is_named_like_one), None)
        end = self._function.end_lineno or self._function.lineno
        self._exits += [(s, end) for s in self._run(self._function.body, {_State()})]
        helper = flags.helper_line()
        trouble: tuple[str, int] | None = None
        if flags.chosen is None:
            pass
        elif test is None:
            assert mark is not None
            trouble = ("perhaps in a helper", helper) if helper else ("never tested", mark[1])
        elif mark is None:
            same = next((m for m in flags.marks if m[0].name == test.flag.name), None)
            if same is not None:
                mark = same
                sure = flags.is_parameter(same[0]) and flags.is_parameter(test.flag)
                trouble = ("other object" if sure else "perhaps another object", same[1])
            elif other is not None:
                mark = other
                trouble = ("other name", other[1])
            else:
                trouble = ("perhaps in a helper", helper) if helper else ("never set", test.line)
        else:
            order = (
                "inverted",
                "edges before the test",
                "half tested",
                "left unset",
                "set before the edges",
            )
            open_ends = [line for state, line in self._exits if state.edges and not state.marked]
            if open_ends:
                self._trouble.setdefault("left unset", open_ends[0])
            trouble = next(((k, self._trouble[k]) for k in order if k in self._trouble), None)
        return Guard.model_validate(
            {
                "tests": test.flag.name if test else None,
                "tests_at": self._at(test.line) if test else None,
                "tests_for": test.reads if test else None,
                "sets": mark[0].name if mark else None,
                "sets_at": self._at(mark[1]) if mark else None,
                "trouble": trouble[0] if trouble else None,
                "trouble_at": self._at(trouble[1]) if trouble else None,
                "replaced": tuple(self._at(line) for line in self._replaced()),
            }
        )

    def _at(self, line: int) -> Location:
        return Location(path=self._path, line=line)

    def _run(self, body: Sequence[ast.stmt], states: set[_State]) -> set[_State]:
        """Walk statements from each of some states; return those that reach the end."""
        for statement in body:
            if not states:
                break
            states = self._step(statement, states)
        return states

    def _step(self, statement: ast.stmt, states: set[_State]) -> set[_State]:
        self._steps += 1
        if self._steps > _MOST:
            raise TooMuchError
        match statement:
            case ast.Return():
                states = self._effects(statement, states)
                self._exits += [(state, statement.lineno) for state in states]
                return set()
            case ast.Raise():
                return set()
            case ast.If(test=test, body=then, orelse=otherwise):
                states = self._effects(test, states)
                yes, no = self._outcomes(statement, states)
                return self._run(then, yes) | self._run(otherwise, no)
            case (
                ast.For(iter=head, body=inner, orelse=otherwise)
                | ast.While(test=head, body=inner, orelse=otherwise)
            ):
                states = self._effects(head, states)
                once = states | self._run(inner, states)
                return self._run(otherwise, once | self._run(inner, once))
            case ast.With(items=items, body=inner) | ast.AsyncWith(items=items, body=inner):
                for item in items:
                    states = self._effects(item.context_expr, states)
                return self._run(inner, states)
            case ast.Try(body=tried, handlers=handlers, orelse=otherwise, finalbody=final):
                reached = self._run(tried, states)
                ends = self._run(otherwise, reached)
                for handler in handlers:
                    ends |= self._run(handler.body, states | reached)
                return self._run(final, ends)
            case ast.Match(cases=cases):
                return states.union(*(self._run(case.body, states) for case in cases))
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                return states
            case _:
                states = self._effects(statement, states)
                flag = self._flags.mark(statement)
                if flag is not None and flag == self._flags.chosen:
                    return {replace(state, marked=True) for state in states}
                return states

    def _outcomes(self, statement: ast.If, states: set[_State]) -> tuple[set[_State], set[_State]]:
        here = [t for t in self._flags.tests if t.line == statement.lineno]
        test = next((t for t in here if t.flag == self._flags.chosen), None)
        if test is None:
            return states, states
        # What an earlier test found out holds until the flag is set.
        is_set = {replace(s, flag="set") for s in states if s.flag != "unset" or s.marked}
        is_unset = {replace(s, flag="unset") for s in states if s.flag != "set"}
        one, other = (is_set, is_unset) if test.when_set else (is_unset, is_set)
        if test.exact:
            return one, other
        left_open = {replace(state, flag="open") for state in states}
        return (one, left_open) if test.when_set else (left_open, other)

    def _effects(self, node: ast.AST, states: set[_State]) -> set[_State]:
        if not sets_edges(self._python, self._path, node, self._seen):
            return states
        line = getattr(node, "lineno", self._function.lineno)
        for state in states:
            if state.flag == "set":
                self._trouble.setdefault("inverted", line)
            elif state.flag == "open":
                self._trouble.setdefault("half tested", line)
            elif state.flag == "not tested":
                self._trouble.setdefault("edges before the test", line)
            if state.marked:
                self._trouble.setdefault("set before the edges", line)
        return {replace(state, edges=True) for state in states}

    def _replaced(self) -> Iterator[int]:
        """Yield the lines where a list certainly replaces another: same words, nothing between."""
        for body in _bodies(self._function):
            last: dict[tuple[str, str], int] = {}
            for statement in body:
                match statement:
                    case ast.Expr(
                        value=ast.Call(func=ast.Attribute(value=receiver, attr=name))
                    ) if name in SETTERS.values():
                        key = (name, ast.unparse(receiver))
                        if key in last and not any(
                            isinstance(inner, ast.Call) for inner in ast.walk(receiver)
                        ):
                            yield statement.lineno
                        last[key] = statement.lineno
                    case ast.Expr():
                        pass
                    case _:
                        # A name may mean something else from here on.
                        last.clear()


def _bodies(node: ast.AST) -> Iterator[list[ast.stmt]]:
    for inner in ast.walk(node):
        for name in ("body", "orelse", "finalbody"):
            body = getattr(inner, name, None)
            if isinstance(body, list) and body:
                yield body


def _delegate(python: PythonTree, path: str, function: Function) -> tuple[str, Function]:
    """Return the function to which a hook hands the model, when it does nothing else."""
    for _ in range(_DEEPEST):
        body = [s for s in function.body if not _is_docstring(s)]
        match body:
            case [ast.Expr(value=ast.Call() as call) | ast.Return(value=ast.Call() as call)]:
                called = _function(python, path, call)
                first = next(iter(function.args.posonlyargs + function.args.args), None)
                if (
                    called is None
                    or first is None
                    or not call.args
                    or dotted(call.args[0]) != first.arg
                    or called.node is function
                ):
                    return path, function
                assert isinstance(called.node, Function)
                path, function = called.path, called.node
            case _:
                return path, function
    return path, function


def _function(python: PythonTree, path: str, call: ast.Call) -> Definition | None:
    name = dotted(call.func)
    if name is None:
        return None
    try:
        target = python.resolve(path, name)
    except UnparsableError:
        return None
    return target if isinstance(target, Definition) and target.is_function else None


def _is_docstring(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
