"""How the names in a tree's Python modules resolve; nothing is imported.

A name is followed as Python would follow it at run time: through the scope's own definitions and
assignments, relative, aliased and star imports, re-exports of packages, and lazy exports whose
table is a literal. What only running the code could tell is `Unresolved`, with the line and the
reason, and never taken for "nothing".
"""

from __future__ import annotations

import ast
import builtins

from action.records import Location
from action.repository.inheritance import is_module_ancestor, merged
from action.repository.modules import ImportedModule, ModuleTree
from action.repository.run_time_imports import lazy_table, replaces_itself
from action.repository.syntax import (
    Binding,
    Bindings,
    Function,
    Import,
    UnparsableError,
    dotted,
    statements,
)
from action.repository.targets import (
    Definition,
    External,
    ModuleRef,
    Target,
    Unresolved,
    is_foreign,
)
from action.repository.tree import Tree

__all__ = [
    "Definition",
    "External",
    "ImportedModule",
    "ModuleRef",
    "PythonTree",
    "Target",
    "Unresolved",
    "is_foreign",
]


class PythonTree(ModuleTree):
    """Modules, names and classes of one tree."""

    def __init__(self, tree: Tree) -> None:
        super().__init__(tree)
        self._resolving: set[tuple[str, str, int]] = set()
        self._orders: dict[int, list[Target]] = {}

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
        answers = [is_module_ancestor(target) for target in self.linearized(cls)[1:]]
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
            order = self._orders[id(cls.node)] = [cls, *merged([*orders, list(bases)])]
        return order

    def _no_attribute(self, cls: Definition, name: str) -> Unresolved:
        return Unresolved(cls.location, f"`{cls.name}` has no attribute `{name}` in its source")


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
