"""The flags that a hook tests and sets, as its statements are written."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from action.repository.python import Definition, PythonTree
from action.repository.syntax import Function, UnparsableError, dotted, statements

_LOOKS_LIKE_A_FLAG = re.compile(
    r"^_\w*(configured|installed|applied|done|initiali[sz]ed|prefetching|prefetched|set)$"
    r"|^_fsdp2?_\w*prefetch"
)
# Calls with a model, or of its methods, that neither test nor set a flag on it.
_HARMLESS = (
    "getattr", "hasattr", "setattr", "isinstance", "type", "len", "id", "print", "cast",
    "modules", "named_modules", "children", "named_children", "get_submodule", "parameters",
    "named_parameters", "set_modules_to_forward_prefetch", "set_modules_to_backward_prefetch",
)  # fmt: skip
Reading: TypeAlias = Literal["value", "presence", "attribute"]
_MOST_NAMES = 4
"""Second names for an object that are followed."""


@dataclass(frozen=True)
class Flag:
    """A flag as written: the object that it stands on, and its name."""

    owner: str
    name: str

    @property
    def is_named_like_one(self) -> bool:
        """Whether its name alone says that it marks something as done."""
        return _LOOKS_LIKE_A_FLAG.search(self.name) is not None


@dataclass(frozen=True)
class FlagTest:
    """An `if` on a flag; `when_set` tells which outcome of the test means that it is set."""

    flag: Flag
    line: int
    when_set: bool
    reads: Reading = "value"
    exact: bool = True
    """False when the other outcome leaves the flag open, as in `if done and quiet:`."""


class Flags:
    """The tests and settings of flags in one function."""

    def __init__(self, python: PythonTree, path: str, function: Function) -> None:
        self._python = python
        self._path = path
        self._function = function
        # Second names for an object: `root = model`.
        self._names = {
            s.targets[0].id: s.value
            for s in statements(function.body)
            if isinstance(s, ast.Assign)
            and isinstance(s.targets[0], ast.Name)
            and dotted(s.value) is not None
        }
        self.tests = list(self._all_tests())
        self.marks = list(self._all_marks())
        self.chosen = self._choose()

    def mark(self, statement: ast.stmt) -> Flag | None:
        """Return the flag that a statement sets."""
        found: tuple[Flag, ast.expr] | None = None
        match statement:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    if isinstance(target, ast.Attribute):
                        found = Flag(self._owner(target.value), target.attr), value
            case ast.AnnAssign(target=ast.Attribute(value=owner, attr=name), value=ast.expr() as v):
                found = Flag(self._owner(owner), name), v
            case ast.Expr(value=ast.Call(func=function, args=[*_, owner, name, value])):
                if (dotted(function) or "").split(".")[-1] in ("setattr", "__setattr__"):
                    text = self._text(name)
                    if text is not None:
                        found = Flag(self._owner(owner), text), value
            case _:
                pass
        if found is None:
            return None
        flag, value = found
        if isinstance(value, ast.Constant):
            return flag if value.value else None
        return flag if flag.is_named_like_one else None

    def helper_line(self) -> int | None:
        """Return a line that hands the model to some other code, which may test or set a flag."""
        first = next(iter(self._function.args.posonlyargs + self._function.args.args), None)
        if first is None:
            return None
        models = {first.arg, *(n for n, v in self._names.items() if dotted(v) == first.arg)}
        for node in ast.walk(self._function):
            if not isinstance(node, ast.Call):
                continue
            name = (dotted(node.func) or "").rpartition(".")[2]
            receiver = node.func.value if isinstance(node.func, ast.Attribute) else None
            given = [receiver, *node.args, *(k.value for k in node.keywords)]
            if name not in _HARMLESS and any(
                isinstance(value, ast.Name) and value.id in models for value in given
            ):
                return node.lineno
        return None

    def is_parameter(self, flag: Flag) -> bool:
        """Tell whether a flag stands on a parameter of the hook, or on an attribute of one."""
        arguments = self._function.args
        names = {a.arg for a in (*arguments.posonlyargs, *arguments.args)}
        owner = flag.owner.split(".")
        return owner[0] in names and all(part.isidentifier() for part in owner)

    def _owner(self, node: ast.expr) -> str:
        """Return the object that a flag stands on, a second name for it replaced by the first."""
        for _ in range(_MOST_NAMES):
            if isinstance(node, ast.Name) and node.id in self._names:
                node = self._names[node.id]
        return ast.unparse(node)

    def _choose(self) -> Flag | None:
        """Return the flag: one both tested and set; else one that is named like a flag."""
        tested = [test.flag for test in self.tests]
        marked = [flag for flag, _ in self.marks]
        both = [flag for flag in tested if flag in marked]
        shared = [flag for flag in tested if flag.name in {m.name for m in marked}]
        alone = [flag for flag in [*tested, *marked] if flag.is_named_like_one]
        order = [*(f for f in [*both, *shared] if f.is_named_like_one), *both, *alone]
        return next(iter(order), None)

    def _all_tests(self) -> Iterator[FlagTest]:
        aliases: dict[str, ast.expr] = {}
        for statement in statements(self._function.body):
            match statement:
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    aliases[name] = value
                case ast.If(test=test) | ast.While(test=test):
                    found = self._test(test, aliases, statement.lineno)
                    if found is not None:
                        yield found
                case _:
                    pass

    def _test(
        self, test: ast.expr, aliases: dict[str, ast.expr], line: int, turned: bool = False
    ) -> FlagTest | None:
        match test:
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return self._test(operand, aliases, line, not turned)
            case ast.Call(func=ast.Name(id="bool"), args=[inner]):
                return self._test(inner, aliases, line, turned)
            case ast.Call(func=ast.Name(id="hasattr"), args=[owner, name]):
                text = self._text(name)
                if text is not None:
                    return FlagTest(Flag(self._owner(owner), text), line, not turned, "presence")
            case ast.Call(func=ast.Name(id="getattr"), args=[owner, name, *default]):
                text = self._text(name)
                if text is not None and not any(_truthy(d) for d in default):
                    reads: Reading = "value" if default else "attribute"
                    return FlagTest(Flag(self._owner(owner), text), line, not turned, reads)
            case ast.Attribute(value=owner, attr=name):
                return FlagTest(Flag(self._owner(owner), name), line, not turned, "attribute")
            case ast.Compare(left=left, ops=[operator], comparators=[ast.Constant(value=bool(v))]):
                if isinstance(operator, ast.Is | ast.Eq):
                    return self._test(left, aliases, line, turned != (not v))
                if isinstance(operator, ast.IsNot | ast.NotEq):
                    return self._test(left, aliases, line, turned != v)
            case ast.Name(id=name) if name in aliases:
                inner_aliases = {k: v for k, v in aliases.items() if k != name}
                return self._test(aliases[name], inner_aliases, line, turned)
            case ast.NamedExpr(value=value):
                return self._test(value, aliases, line, turned)
            case ast.BoolOp(op=operator, values=operands):
                tests = [self._test(operand, aliases, line, turned) for operand in operands]
                found = next((t for t in tests if t is not None), None)
                if found is None:
                    return None
                # `if done or quiet: return` leaves it unset afterwards; `if done and quiet` open.
                exact = isinstance(operator, ast.Or) == found.when_set
                return replace(found, exact=exact)
            case _:
                pass
        return None

    def _all_marks(self) -> Iterator[tuple[Flag, int]]:
        for statement in statements(self._function.body):
            found = self.mark(statement)
            if found is not None:
                yield found, statement.lineno

    def _text(self, node: ast.expr) -> str | None:
        if isinstance(node, ast.Constant):
            return node.value if isinstance(node.value, str) else None
        name = dotted(node)
        if name is None:
            return None
        try:
            target = self._python.resolve(self._path, name)
        except UnparsableError:
            return None
        if isinstance(target, Definition) and isinstance(target.node, ast.Constant):
            return target.node.value if isinstance(target.node.value, str) else None
        return None


def _truthy(node: ast.expr) -> bool:
    """Tell whether an expression may be true; only a literal is known to be false."""
    return not isinstance(node, ast.Constant) or bool(node.value)
