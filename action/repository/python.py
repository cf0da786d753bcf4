"""The Python modules of a tree, and how their names resolve; nothing is imported.

A name is followed as Python would follow it at run time: through the scope's own definitions and
assignments, relative, aliased and star imports, re-exports of packages, and lazy exports whose
table is a literal. What only running the code could tell is `Unresolved`, with the line and the
reason, and never taken for "nothing".
"""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from action.records import Location, Symbol
from action.repository.run_time_imports import (
    is_import_call,
    lazy_table,
    literal_argument,
    literal_imports,
    replaces_itself,
)
from action.repository.syntax import (
    Binding,
    Bindings,
    Function,
    Import,
    UnparsableError,
    bindings,
    dotted,
    imports_in,
    parse,
    statements,
)
from action.repository.tree import Tree

_SOURCE_ROOTS = ("", "src/")


@dataclass(frozen=True)
class Definition:
    """A class, a function or an assigned value in a module of the tree.

    `name` is its name within the module (`Outer.Inner`), `module` the module's dotted name.
    """

    path: str
    module: str
    name: str
    node: ast.ClassDef | Function | ast.expr

    @property
    def qualified(self) -> str:
        """The dotted name from the root of the tree."""
        return f"{self.module}.{self.name}"

    @property
    def location(self) -> Location:
        """Where it is defined."""
        return Location(path=self.path, line=self.node.lineno)

    @property
    def symbol(self) -> Symbol:
        """The same as a record."""
        return Symbol(name=self.qualified, location=self.location)

    @property
    def is_class(self) -> bool:
        """Whether this is a class."""
        return isinstance(self.node, ast.ClassDef)

    @property
    def is_function(self) -> bool:
        """Whether this is a function."""
        return isinstance(self.node, ast.FunctionDef | ast.AsyncFunctionDef)


@dataclass(frozen=True)
class ModuleRef:
    """A module or package of the tree; `path` is None for a folder without `__init__.py`."""

    name: str
    path: str | None


@dataclass(frozen=True)
class External:
    """A name from outside the tree, such as `torch.nn.Module`."""

    name: str


@dataclass(frozen=True)
class Unresolved:
    """A name that the source alone does not settle."""

    location: Location
    why: str


Target: TypeAlias = Definition | ModuleRef | External | Unresolved


@dataclass(frozen=True)
class ImportedModule:
    """A module of the tree that a file imports, and the line on which it does."""

    path: str
    line: int


class PythonTree:
    """Modules, names and classes of one tree. Parsed files are kept for the tree's lifetime."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self._syntax: dict[str, ast.Module | UnparsableError] = {}
        self._bindings: dict[int, tuple[ast.AST, Bindings]] = {}
        self._resolving: set[tuple[str, str, int]] = set()
        self._orders: dict[int, list[Target]] = {}

    @cached_property
    def paths(self) -> tuple[str, ...]:
        """The paths of all Python files."""
        return tuple(path for path in self.tree.paths() if path.endswith(".py"))

    @cached_property
    def _folders(self) -> frozenset[str]:
        folders: set[str] = set()
        for path in self.paths:
            while "/" in path:
                path = path.rpartition("/")[0]
                folders.add(path)
        return frozenset(folders)

    def syntax(self, path: str) -> ast.Module:
        """Return a file's syntax tree.

        Raises:
            KeyError: the tree has no such file.
            UnparsableError: it is not Python that can be read.
        """
        if path not in self._syntax:
            try:
                self._syntax[path] = parse(path, self.tree.read(path))
            except UnparsableError as trouble:
                self._syntax[path] = trouble
        found = self._syntax[path]
        if isinstance(found, UnparsableError):
            raise found
        return found

    def module_path(self, name: str) -> str | None:
        """Return the file of a module by its dotted name, or None when the tree has none."""
        for root in _SOURCE_ROOTS:
            stem = root + name.replace(".", "/")
            for path in (f"{stem}/__init__.py", f"{stem}.py"):
                if path in self.tree:
                    return path
        return None

    def module_name(self, path: str) -> str:
        """Return the dotted name of the module in a file."""
        stem = path.removeprefix("src/").removesuffix(".py").removesuffix("/__init__")
        return stem.replace("/", ".")

    def module(self, name: str, importer: str | None = None) -> ModuleRef | None:
        """Return the module that `name` means in the file `importer`, or None outside the tree.

        A script's own folder is searched too, as Python does for the file that it runs.
        """
        path = self.module_path(name)
        if path is not None:
            return ModuleRef(name, path)
        if any(root + name.replace(".", "/") in self._folders for root in _SOURCE_ROOTS):
            return ModuleRef(name, None)
        if importer is not None and "/" in importer:
            beside = f"{importer.rpartition('/')[0]}/{name.replace('.', '/')}"
            for path in (f"{beside}.py", f"{beside}/__init__.py"):
                if path in self.tree:
                    return ModuleRef(self.module_name(path), path)
        return None

    def absolute(self, path: str, module: str) -> str:
        """Return the absolute dotted name of `module` as written in an import of `path`."""
        level = len(module) - len(module.lstrip("."))
        if level == 0:
            return module
        parts = self.module_name(path).split(".")
        if not path.endswith("/__init__.py"):
            parts = parts[:-1]
        parts = parts[: len(parts) - (level - 1)]
        return ".".join([*parts, *filter(None, [module[level:]])])

    def imports(self, path: str) -> tuple[ImportedModule, ...]:
        """Return every module of the tree that running `path` may import, anywhere in the file.

        Packages on the way count, since Python runs their `__init__.py`; so do imports in functions
        and `if TYPE_CHECKING`, and `importlib.import_module` of a literal.
        """
        found: dict[str, int] = {}

        def add(name: str, line: int) -> None:
            parts = name.split(".")
            for end in range(1, len(parts) + 1):
                module = self.module(".".join(parts[:end]), path)
                if module is not None and module.path not in (None, path):
                    found.setdefault(str(module.path), line)

        root = self.syntax(path)
        for imported in imports_in(root):
            name = self.absolute(path, imported.module)
            add(name, imported.line)
            if imported.name not in (None, "*"):
                add(f"{name}.{imported.name}", imported.line)
        for name, line in literal_imports(root):
            add(self.absolute(path, name) if name.startswith(".") else name, line)
        return tuple(ImportedModule(module, line) for module, line in found.items())

    def dynamic_imports(self, path: str) -> tuple[Location, ...]:
        """Return the lines of `path` that import a module whose name is not a literal."""
        return tuple(
            Location(path=path, line=node.lineno)
            for node in ast.walk(self.syntax(path))
            if isinstance(node, ast.Call) and is_import_call(node) and not literal_argument(node)
        )

    def scope_bindings(self, scope: ast.Module | ast.ClassDef | Function) -> Bindings:
        """Return what a scope binds."""
        kept = self._bindings.get(id(scope))
        if kept is None:
            # The node is kept beside the result so that its id cannot be given to another.
            kept = self._bindings[id(scope)] = (scope, bindings(scope))
        return kept[1]

    def resolve(self, path: str, name: str, scope: Function | None = None) -> Target:
        """Return what the dotted `name` means in the file `path`, or in a function of it.

        Raises:
            KeyError: the tree has no such file.
            UnparsableError: `path` itself cannot be parsed; trouble in another file is Unresolved.
        """
        first, *rest = name.split(".")
        target = self._resolve_first(path, first, scope)
        for attribute in rest:
            target = self.attribute(target, attribute)
        return target

    def alternatives(self, path: str, name: str) -> tuple[Target, ...]:
        """Return what a name at the module level of `path` may mean, in source order.

        One, unless an `if`, a `try` or the like leaves several bindings open.

        Raises:
            KeyError: the tree has no such file.
            UnparsableError: `path` itself cannot be parsed.
        """
        root = self.syntax(path)
        bound = self.scope_bindings(root).names.get(name, [])
        settled = [s.lineno for s in root.body if not hasattr(s, "body") or _defines(s)]
        last = max((b.line for b in bound if b.line in settled), default=0)
        open_ends = [binding for binding in bound if binding.line >= last]
        if len(open_ends) <= 1:
            return (self.resolve(path, name),)
        return tuple(self._from_binding(path, name, binding, None) for binding in open_ends)

    def imported(self, path: str, imported: Import) -> Target:
        """Return what an import in the file `path` binds its name to."""
        return self._imported(path, imported)

    def attribute(self, target: Target, name: str) -> Target:
        """Return what `target.name` means."""
        match target:
            case External():
                return External(f"{target.name}.{name}")
            case ModuleRef():
                return self._module_attribute(target, name)
            case Definition() if target.is_class:
                found = self.class_attribute(target, name)
                return found if found is not None else self._no_attribute(target, name)
            case Definition():
                why = f"`{name}` of `{target.name}`, which is a value known only at run time"
                return Unresolved(target.location, why)
            case Unresolved():
                return target

    def classes(self, path: str) -> tuple[Definition, ...]:
        """Return the classes that a file defines: nested ones, in functions, `if` and `try` too."""
        module = self.module_name(path)
        found: list[Definition] = []

        def visit(body: list[ast.stmt], prefix: str) -> None:
            for statement in statements(body):
                if isinstance(statement, ast.ClassDef):
                    found.append(Definition(path, module, prefix + statement.name, statement))
                    visit(statement.body, f"{prefix}{statement.name}.")
                elif isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
                    visit(statement.body, f"{prefix}{statement.name}.<locals>.")

        visit(self.syntax(path).body, "")
        return tuple(found)

    def bases(self, cls: Definition) -> tuple[Target, ...]:
        """Return the classes that a class names as its bases."""
        assert isinstance(cls.node, ast.ClassDef)
        found: list[Target] = []
        for base in cls.node.bases:
            node = base.value if isinstance(base, ast.Subscript) else base
            name = dotted(node)
            if name is None:
                location = Location(path=cls.path, line=base.lineno)
                why = f"`{cls.name}` has a base that is computed: `{ast.unparse(base)}`"
                found.append(Unresolved(location, why))
                continue
            target = self._resolve_base(cls, name)
            if isinstance(target, Definition) and not target.is_class:
                target = Unresolved(
                    target.location, f"`{name}`, a base of `{cls.name}`, is not a class statement"
                )
            found.append(target)
        return tuple(found)

    def linearized(self, cls: Definition) -> tuple[Target, ...]:
        """Return a class and its ancestors in the order of Python's method resolution.

        External and unresolved bases stand where they would come; what they inherit is not known.
        """
        return tuple(self._linearize(cls))

    def is_module_class(self, cls: Definition) -> bool | None:
        """Tell whether a class descends from `torch.nn.Module`; None when the source cannot tell.

        A base outside the tree is known for torch's own modules and for the standard library.
        """
        answers = [_external_is_module(target) for target in self.linearized(cls)[1:]]
        if True in answers:
            return True
        return None if None in answers else False

    def class_attribute(self, cls: Definition, name: str) -> Target | None:
        """Return what a class's own body binds `name` to, or the nearest ancestor's; None if none.

        An external or unresolved ancestor before the first binding gives that ancestor's answer.
        """
        for ancestor in self.linearized(cls):
            if isinstance(ancestor, Definition):
                found = self._bound_in_class(ancestor, name)
                if found is not None:
                    return found
            elif isinstance(ancestor, Unresolved):
                return ancestor
            elif isinstance(ancestor, External) and ancestor.name != "builtins.object":
                return External(f"{ancestor.name}.{name}")
        return None

    def class_bindings(self, cls: Definition, name: str) -> list[Binding]:
        """Return the bindings of `name` in a class's own body, in source order."""
        assert isinstance(cls.node, ast.ClassDef)
        return self.scope_bindings(cls.node).names.get(name, [])

    def _resolve_first(self, path: str, name: str, scope: Function | None) -> Target:
        key = (path, name, id(scope))
        if key in self._resolving:
            return Unresolved(Location(path=path), f"`{name}` is defined by itself, in a circle")
        self._resolving.add(key)
        try:
            if scope is not None:
                local = self.scope_bindings(scope)
                if name in local.names:
                    return self._from_bindings(path, name, local.names[name], scope)
            return self._module_name(path, name)
        finally:
            self._resolving.discard(key)

    def _module_name(self, path: str, name: str) -> Target:
        root = self.syntax(path)
        own = self.scope_bindings(root)
        if name in own.names:
            return self._from_bindings(path, name, own.names[name], None)
        external: External | None = None
        for star in own.stars:
            module = self.absolute(path, star.module)
            found = self.module(module, path)
            if found is None:
                external = external or External(f"{module}.{name}")
            elif found.path is not None:
                target = self._exported(found, name)
                if target is not None:
                    return target
        lazy = self._lazy_export(path, root, own, name)
        if lazy is not None:
            return lazy
        if hasattr(builtins, name):
            return External(f"builtins.{name}")
        return external or Unresolved(Location(path=path), f"`{name}` is not defined in {path}")

    def _exported(self, module: ModuleRef, name: str) -> Target | None:
        try:
            target = self._module_attribute(module, name)
        except UnparsableError as trouble:
            return Unresolved(trouble.location, trouble.why)
        if isinstance(target, Unresolved) and "is not defined" in target.why:
            return None
        return target

    def _from_bindings(
        self, path: str, name: str, found: list[Binding], scope: Function | None
    ) -> Target:
        # The last binding wins at run time, but of `try: import … except: X = None` the import is
        # what counts: prefer what can be followed.
        targets = [self._from_binding(path, name, binding, scope) for binding in reversed(found)]
        return min(targets, key=_rank)

    def _from_binding(
        self, path: str, name: str, binding: Binding, scope: Function | None
    ) -> Target:
        node = binding.node
        location = Location(path=path, line=binding.line)
        if isinstance(node, Import):
            return self._imported(path, node)
        if node is None:
            return Unresolved(location, f"`{name}` gets its value at run time")
        if isinstance(node, ast.expr):
            alias = dotted(node)
            if alias is not None and alias != name:
                return self.resolve(path, alias, scope)
            return Definition(path, self.module_name(path), name, node)
        prefix = f"{scope.name}.<locals>." if scope is not None else ""
        return Definition(path, self.module_name(path), prefix + name, node)

    def _imported(self, path: str, imported: Import) -> Target:
        name = self.absolute(path, imported.module)
        module = self.module(name, path)
        if module is None:
            return External(name if imported.name is None else f"{name}.{imported.name}")
        if imported.name is None:
            return module
        try:
            return self._module_attribute(module, imported.name)
        except UnparsableError as trouble:
            return Unresolved(trouble.location, trouble.why)

    def _module_attribute(self, module: ModuleRef, name: str) -> Target:
        found: Target | None = None
        if module.path is not None:
            try:
                found = self._resolve_first(module.path, name, None)
            except UnparsableError as trouble:
                found = Unresolved(trouble.location, trouble.why)
            if isinstance(found, External) and found.name.startswith("builtins."):
                found = Unresolved(
                    Location(path=module.path), f"`{name}` is not defined in {module.path}"
                )
        if found is None or isinstance(found, Unresolved):
            submodule = self.module(f"{module.name}.{name}")
            if submodule is not None:
                return submodule
        return found or Unresolved(
            Location(path=module.name.replace(".", "/")), f"`{name}` is not in {module.name}"
        )

    def _lazy_export(self, path: str, root: ast.Module, own: Bindings, name: str) -> Target | None:
        """Follow a package's lazy export: a literal table, or imports within `__getattr__`."""
        lazy = [b.node for b in own.names.get("__getattr__", []) if b.node is not None]
        if not lazy and not replaces_itself(root):
            return None
        for key, module in lazy_table(root):
            if key == name:
                package = self.module_name(path)
                module = self.absolute(path, module) if module.startswith(".") else module
                for candidate in (module, f"{package}.{module}"):
                    ref = self.module(candidate)
                    if ref is not None:
                        return self._module_attribute(ref, name)
        for function in lazy:
            if isinstance(function, ast.FunctionDef):
                inner = self.scope_bindings(function).names.get(name)
                if inner:
                    return self._from_bindings(path, name, inner, function)
        line = lazy[0].lineno if lazy and isinstance(lazy[0], ast.FunctionDef) else None
        location = Location(path=path, line=line)
        return Unresolved(location, f"`{name}` is looked up at run time in {path}")

    def _bound_in_class(self, cls: Definition, name: str) -> Target | None:
        found = self.class_bindings(cls, name)
        if not found:
            return None
        binding = found[-1]
        if isinstance(binding.node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            return Definition(cls.path, cls.module, f"{cls.name}.{name}", binding.node)
        if isinstance(binding.node, Import):
            return self._imported(cls.path, binding.node)
        if binding.node is None:
            location = Location(path=cls.path, line=binding.line)
            return Unresolved(location, f"`{cls.name}.{name}` gets its value at run time")
        alias = dotted(binding.node)
        if alias is not None:
            return self.resolve(cls.path, alias)
        return Definition(cls.path, cls.module, f"{cls.name}.{name}", binding.node)

    def _resolve_base(self, cls: Definition, name: str) -> Target:
        # A nested class sees the classes of the module and, in a class body, its siblings.
        outer = cls.name.rpartition(".")[0]
        if outer and "<locals>" not in outer:
            for candidate in self.classes(cls.path):
                if candidate.name == f"{outer}.{name}":
                    return candidate
        try:
            return self.resolve(cls.path, name)
        except UnparsableError as trouble:
            return Unresolved(trouble.location, trouble.why)

    def _linearize(self, cls: Definition) -> list[Target]:
        # Kept by class: a ladder of classes with two bases each has two to the n paths.
        order = self._orders.get(id(cls.node))
        if order is None:
            # What a class inheriting from itself finds on its way round.
            circle = Unresolved(cls.location, f"`{cls.name}` inherits from itself")
            self._orders[id(cls.node)] = [circle]
            bases = self.bases(cls)
            orders = [
                self._linearize(base) if isinstance(base, Definition) and base.is_class else [base]
                for base in bases
            ]
            order = self._orders[id(cls.node)] = [cls, *_merge([*orders, list(bases)])]
        return order

    def _no_attribute(self, cls: Definition, name: str) -> Unresolved:
        return Unresolved(cls.location, f"`{cls.name}` has no attribute `{name}` in its source")


# Modules outside the tree of which it is known that none of their classes is a `torch.nn.Module`.
_NO_MODULES = (
    "pydantic",
    "typing_extensions",
    "torch.autograd",
    "torch.optim",
    "torch.utils.data",
    "yaml",
    "pytest",
)


def _external_is_module(target: Target) -> bool | None:
    if isinstance(target, Definition):
        return False  # its own bases are in the list
    if not isinstance(target, External):
        return None
    if target.name.startswith("torch.nn.") and target.name.split(".")[-1][:1].isupper():
        return target.name not in ("torch.nn.Parameter", "torch.nn.Buffer")
    return False if is_foreign(target, _NO_MODULES) else None


def is_foreign(target: External, packages: Iterable[str] = ()) -> bool:
    """Tell whether a name comes from the standard library or from one of `packages`."""
    top = target.name.split(".")[0]
    return (
        top == "builtins"
        or top in sys.stdlib_module_names
        or any(target.name == p or target.name.startswith(f"{p}.") for p in packages)
    )


def _defines(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)


def _rank(target: Target) -> int:
    match target:
        case Definition() if not isinstance(target.node, ast.expr):
            return 0
        case ModuleRef():
            return 1
        case External():
            return 2
        case Definition():
            return 3
        case Unresolved():
            return 4


def _merge(orders: list[list[Target]]) -> Iterator[Target]:
    """C3 linearization; where bases contradict each other, depth first without repeats."""
    remaining = [list(order) for order in orders if order]
    while remaining:
        for order in remaining:
            head = order[0]
            if not any(head in other[1:] for other in remaining):
                break
        else:
            head = remaining[0][0]
        yield head
        remaining = [[item for item in order if item != head] for order in remaining]
        remaining = [order for order in remaining if order]
