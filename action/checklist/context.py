"""What every item of the checklist is given, and how it says its verdict."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeVar

from action.contract import SETTERS
from action.records import (
    CheckId,
    CheckResult,
    ClassAttribute,
    Evidence,
    Hook,
    Location,
    Observation,
    RecipeSource,
    Symbol,
    TrailEnd,
    Verdict,
)
from action.repository.diff import Change
from action.repository.python import Definition, External, PythonTree, Unresolved, is_foreign
from action.repository.syntax import UnparsableError
from action.repository.tree import Tree

_T = TypeVar("_T")

# Packages whose classes carry none of the runtime's attributes.
_WITHOUT_RUNTIME = ("torch", "transformers", "diffusers", "timm", "torchvision", "peft", "pydantic")


@dataclass(frozen=True)
class Diff:
    """The change under review: its files, the older tree, and the lines that a file gained."""

    changes: tuple[Change, ...]
    base: PythonTree
    added: Callable[[Change], frozenset[int]]


@dataclass(frozen=True)
class Context:
    """One recipe at the head of a change; the last three are None when unknown."""

    source: RecipeSource
    head: Tree
    python: PythonTree
    diff: Diff | None = None
    pull_request_text: str | None = None
    observation: Observation | None = None

    def definition(self, symbol: Symbol) -> Definition | None:
        """Return the definition behind a symbol."""
        path = symbol.location.path
        short = symbol.name.removeprefix(f"{self.python.module_name(path)}.")
        try:
            for cls in self.python.classes(path):
                if cls.name == short:
                    return cls
            target = self.python.resolve(path, short)
        except (KeyError, UnparsableError):
            return None
        return target if isinstance(target, Definition) else None

    def ancestors(self, symbol: Symbol) -> tuple[str, ...]:
        """Return the qualified names of a class and of its ancestors in the tree, nearest first."""
        cls = self.definition(symbol)
        if cls is None:
            return (symbol.name,)
        return tuple(
            target.qualified
            for target in self.python.linearized(cls)
            if isinstance(target, Definition)
        )

    def own_modules(self) -> tuple[str, ...]:
        """Return the recipe's own modules that can be parsed, tests left out."""
        own, tests = f"{self.source.path}/", f"{self.source.path}/tests/"
        unreadable = {problem.location.path for problem in self.source.problems}
        return tuple(
            path
            for path in self.python.paths
            if path.startswith(own) and not path.startswith(tests) and path not in unreadable
        )

    def inheritance_end(self, symbol: Symbol) -> TrailEnd | None:
        """Return where a class inherits from something that may have runtime attributes of its own.

        None when all its ancestors are in the tree, or of packages that know nothing of the
        runtime.
        """
        cls = self.definition(symbol)
        if cls is None:
            return TrailEnd(location=symbol.location, why=f"`{symbol.name}` is not in the source")
        for ancestor in self.python.linearized(cls):
            if isinstance(ancestor, Unresolved):
                return TrailEnd(location=ancestor.location, why=ancestor.why)
            if isinstance(ancestor, External) and not is_foreign(ancestor, _WITHOUT_RUNTIME):
                why = f"`{short(symbol)}` inherits from `{ancestor.name}`"
                return TrailEnd(location=cls.location, why=why)
        return None

    def functions_that_set_edges(self) -> tuple[Symbol, ...]:
        """Return the functions of the recipe's own modules that call one of FSDP2's setters."""
        return tuple(
            Symbol(name=node.name, location=Location(path=path, line=node.lineno))
            for path in self.own_modules()
            for node in functions(self.python.syntax(path))
            if sets_edges(node)
        )

    def hooks_in_effect(self) -> tuple[Hook, ...]:
        """Return the hooks that training may call; all of them when its class is not known."""
        found = [hook for cls in self.source.candidates if (hook := self.hook_of(cls)) is not None]
        return tuple(dict.fromkeys(found)) or self.source.hooks

    def hook_doubts(self) -> tuple[Evidence, ...]:
        """Return why a hook, or edges, may be there although no class was seen to bind one."""
        source = self.source
        ends = [*source.problems, *source.hooks_unsettled]
        ends += [e for cls in source.candidates if (e := self.inheritance_end(cls)) is not None]
        setters = [
            at(f"`{f.name}` sets edges", f.location) for f in self.functions_that_set_edges()
        ]
        return (*(at(end.why, end.location) for end in ends), *setters)

    def hook_of(self, symbol: Symbol) -> Hook | None:
        """Return the hook that a lookup on a class finds: the nearest, the last bound winning."""
        return self._nearest(symbol, {h.binding.owner.name: h for h in self.source.hooks})

    def attribute_of(self, symbol: Symbol, name: str) -> ClassAttribute | None:
        """Return the attribute that a lookup on a class finds among those in the source."""
        named = {a.owner.name: a for a in self.source.attributes if a.name == name}
        return self._nearest(symbol, named)

    def hook_node(self, hook: Hook) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
        """Return the syntax tree of a hook's function."""
        if hook.function is None:
            return None
        try:
            root = self.python.syntax(hook.function.location.path)
        except (KeyError, UnparsableError):
            return None
        for node in ast.walk(root):
            if (
                isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
                and node.lineno == hook.function.location.line
            ):
                return node
        return None

    def _nearest(self, symbol: Symbol, by_owner: dict[str, _T]) -> _T | None:
        for name in self.ancestors(symbol):
            if name in by_owner:
                return by_owner[name]
        return None


def result(
    item: CheckId,
    verdict: Verdict,
    summary: str,
    evidence: Iterable[Evidence] = (),
    *,
    by: Literal["static", "probe", "nothing"] = "static",
) -> CheckResult:
    """Return a verdict; `by` says how it was established."""
    return CheckResult(
        id=item, verdict=verdict, established_by=by, summary=summary, evidence=tuple(evidence)
    )


def at(text: str, location: Location | None) -> Evidence:
    """Return a sentence with the place it points to."""
    return Evidence(text=text, location=location)


def short(symbol: Symbol) -> str:
    """Return a symbol's last name, as people say it."""
    return symbol.name.rpartition(".")[2]


def functions(root: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield the functions and methods in a syntax tree, nested ones too."""
    for node in ast.walk(root):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def sets_edges(node: ast.AST) -> bool:
    """Tell whether code names one of FSDP2's setters."""
    return any(
        isinstance(inner, ast.Attribute) and inner.attr in SETTERS.values()
        for inner in ast.walk(node)
    )


def written(node: ast.AST) -> str:
    """Return a node as it is written, on one line and not too long."""
    return " ".join(ast.unparse(node).split()).replace("`", "'")[:80]
