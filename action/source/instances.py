"""Which class an engine's `prepare_model()` instantiates, by following the source.

A small interpreter over syntax trees: it runs a function's statements in order and keeps, for each
name, the values it may hold: classes, instances of classes, or "unknown" with the line and the
reason. Both branches of an `if` are taken. Nothing is imported or run.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace
from typing import TypeAlias

from action.records import Location
from action.repository.python import Definition, External, PythonTree, Target, Unresolved
from action.repository.syntax import Function, UnparsableError, dotted

_DEEPEST = 16
"""Calls followed into each other before the trail is given up."""

_SHARDING = ("parallelize_model", "fully_shard", "apply_fsdp2", "parallelize")
# Methods of a module that return the module itself.
_SELF_RETURNING = (
    "to",
    "to_empty",
    "cuda",
    "cpu",
    "train",
    "eval",
    "half",
    "float",
    "double",
    "bfloat16",
    "type",
    "apply",
    "requires_grad_",
    "share_memory",
)
_CONSTRUCTORS = ("from_config", "_from_config", "from_pretrained")
# What stands between the runtime and the class of the model, so that its hook is not found.
_HIDING = {
    "torch.compile": "`torch.compile` returns an `OptimizedModule`",
    "peft.get_peft_model": "`get_peft_model` returns a `PeftModel`",
    "peft.PeftModel.from_pretrained": "`PeftModel` is another class",
    "peft.PeftModel": "`PeftModel` is another class",
    "peft.PeftModelForCausalLM": "`PeftModelForCausalLM` is another class",
    "torch.jit.script": "`torch.jit.script` returns a `ScriptModule`",
    "torch.nn.DataParallel": "`DataParallel` is another class",
    "torch.nn.parallel.DistributedDataParallel": "`DistributedDataParallel` is another class",
}


@dataclass(frozen=True)
class Instance:
    """A model of one class; `hidden` are the wrappers around it when it is sharded."""

    cls: Definition
    hidden: tuple[tuple[Location, str], ...] = ()
    sharded: bool = False


@dataclass(frozen=True)
class ClassValue:
    """A class itself, as a value."""

    cls: Definition


@dataclass(frozen=True)
class Unknown:
    """A value that the source does not settle."""

    location: Location
    why: str


Value: TypeAlias = Instance | ClassValue | Unknown
Values: TypeAlias = tuple[Value, ...]


@dataclass(frozen=True)
class Frame:
    """Where the interpreter is: the file, the function, the class of `self`, the owner class."""

    path: str
    function: Function
    self_class: Definition | None
    owner: Definition | None
    depth: int


class Follower:
    """Follows values through a tree; `trail` collects the definitions that it went through."""

    def __init__(self, python: PythonTree) -> None:
        self._python = python
        self._sharded: list[Value] = []
        self.trail: list[Location] = []

    def prepared_model(self, engine: Definition) -> Values:
        """Return what `engine.prepare_model()` may hand to sharding."""
        target = self._python.class_attribute(engine, "prepare_model")
        if not isinstance(target, Definition) or not target.is_function:
            why = f"`{engine.name}` has no `prepare_model()` in the repository's source"
            location = target.location if isinstance(target, Unresolved) else engine.location
            return (Unknown(location, why),)
        owner = self._owner(engine, target)
        returned = self._call(target, engine, owner, {}, 0)
        sharded = tuple(v for v in returned if isinstance(v, Instance) and v.sharded)
        if sharded:
            return tuple(v for v in returned if isinstance(v, Unknown)) + sharded
        # A method that shards `self.model` in place returns something else, or nothing.
        seen = tuple(dict.fromkeys(self._sharded))
        if seen and not any(isinstance(value, Instance) for value in returned):
            return seen
        return returned or (Unknown(target.location, "`prepare_model()` returns no model"),)

    def _call(
        self,
        target: Definition,
        self_class: Definition | None,
        owner: Definition | None,
        arguments: dict[str, Values],
        depth: int,
    ) -> Values:
        """Return the values that a function may return; an empty tuple when it returns nothing."""
        if depth > _DEEPEST:
            return (Unknown(target.location, "the calls go too deep to be followed"),)
        self.trail.append(target.location)
        assert isinstance(target.node, ast.FunctionDef | ast.AsyncFunctionDef)
        frame = Frame(target.path, target.node, self_class, owner, depth)
        env = dict(arguments)
        returned: list[Value] = []
        self._run(target.node.body, env, frame, returned)
        return tuple(dict.fromkeys(returned))

    def _run(
        self,
        body: list[ast.stmt],
        env: dict[str, Values],
        frame: Frame,
        returned: list[Value],
    ) -> None:
        for statement in body:
            match statement:
                case ast.Return(value=value):
                    if value is not None:
                        returned += self._value(value, env, frame)
                    return
                case ast.Assign(targets=targets, value=value):
                    values = self._value(value, env, frame)
                    for target in targets:
                        name = dotted(target)
                        if name is not None:
                            env[name] = values
                case ast.AnnAssign(target=target, value=value) if value is not None:
                    name = dotted(target)
                    if name is not None:
                        env[name] = self._value(value, env, frame)
                case ast.If(body=then, orelse=otherwise):
                    self._branches([then, otherwise], env, frame, returned)
                case ast.Try(body=tried, handlers=handlers, orelse=otherwise, finalbody=final):
                    self._branches(
                        [[*tried, *otherwise], *(h.body for h in handlers)], env, frame, returned
                    )
                    self._run(final, env, frame, returned)
                case ast.With(body=inner) | ast.AsyncWith(body=inner):
                    self._run(inner, env, frame, returned)
                case ast.For(body=inner) | ast.While(body=inner):
                    self._branches([inner, []], env, frame, returned)
                case ast.Match(cases=cases):
                    self._branches([case.body for case in cases], env, frame, returned)
                case ast.Expr(value=value):
                    self._value(value, env, frame)
                case _:
                    pass

    def _branches(
        self,
        bodies: list[list[ast.stmt]],
        env: dict[str, Values],
        frame: Frame,
        returned: list[Value],
    ) -> None:
        ends = []
        for body in bodies:
            inner = dict(env)
            self._run(body, inner, frame, returned)
            if not _leaves(body):
                ends.append(inner)
        for name in {name for end in ends for name in end}:
            merged = dict.fromkeys(value for end in ends for value in end.get(name, ()))
            env[name] = tuple(merged)

    def _value(self, node: ast.expr, env: dict[str, Values], frame: Frame) -> Values:
        match node:
            case ast.Call():
                return self._called(node, env, frame)
            case ast.IfExp(body=one, orelse=other):
                return (*self._value(one, env, frame), *self._value(other, env, frame))
            case ast.BoolOp(values=values):
                return tuple(v for value in values for v in self._value(value, env, frame))
            case ast.NamedExpr(target=target, value=value):
                env[target.id] = self._value(value, env, frame)
                return env[target.id]
            case ast.Await(value=value):
                return self._value(value, env, frame)
            case ast.Subscript(value=value):
                return self._entries(node, value, frame)
            case ast.Name() | ast.Attribute():
                return self._named(node, env, frame)
            case _:
                return (self._unknown(node, frame, f"`{_short(node)}` is computed"),)

    def _named(
        self, node: ast.Name | ast.Attribute, env: dict[str, Values], frame: Frame
    ) -> Values:
        name = dotted(node)
        if name is None:
            return (self._unknown(node, frame, f"`{_short(node)}` is computed"),)
        if name in env:
            return env[name]
        if name.split(".")[0] in ("self", "cls") and frame.self_class is not None:
            found = self._python.class_attribute(frame.self_class, name.split(".", 1)[-1])
            if isinstance(found, Definition) and found.is_class:
                return (ClassValue(found),)
            return (self._unknown(node, frame, f"`{name}` is set elsewhere"),)
        target = self._resolve(name, frame)
        if isinstance(target, Definition) and target.is_class:
            return (ClassValue(target),)
        if isinstance(target, Unresolved):
            return (Unknown(Location(path=frame.path, line=node.lineno), target.why),)
        if isinstance(target, External):
            why = f"`{target.name}` is defined outside the repository"
            return (self._unknown(node, frame, why),)
        return (self._unknown(node, frame, f"`{name}` is known only at run time"),)

    def _entries(self, node: ast.expr, table: ast.expr, frame: Frame) -> Values:
        """`MODELS[name]`: every class of a literal table, since any of them may be meant."""
        name = dotted(table)
        target = self._resolve(name, frame) if name is not None else None
        if isinstance(target, Definition) and isinstance(target.node, ast.Dict):
            found: list[Value] = []
            for value in target.node.values:
                entry = dotted(value)
                cls = self._python.resolve(target.path, entry) if entry is not None else None
                if isinstance(cls, Definition) and cls.is_class:
                    found.append(ClassValue(cls))
                else:
                    found.append(Unknown(target.location, f"`{_short(value)}` is no class here"))
            return tuple(found)
        return (self._unknown(node, frame, f"`{_short(node)}` is looked up at run time"),)

    def _called(self, call: ast.Call, env: dict[str, Values], frame: Frame) -> Values:
        name = dotted(call.func)
        if name is not None and name.split(".")[-1] in _SHARDING:
            return self._sharding(call, env, frame)
        if isinstance(call.func, ast.Attribute):
            found = self._method(call, call.func, env, frame)
            if found is not None:
                return found
        if name is not None and name not in env:
            target = self._resolve(name, frame)
            if isinstance(target, External):
                return self._external(call, target.name, env, frame)
            if isinstance(target, Definition) and target.is_function:
                return self._function(target, call, env, frame)
            if isinstance(target, Unresolved):
                return (Unknown(Location(path=frame.path, line=call.lineno), target.why),)
        return self._instances(call, self._value(call.func, env, frame), frame)

    def _sharding(self, call: ast.Call, env: dict[str, Values], frame: Frame) -> Values:
        argument = _argument(call, 0, ("model", "module"))
        if argument is None:
            return (self._unknown(call, frame, f"`{_short(call)}` names no model"),)
        values = tuple(
            replace(value, sharded=True) if isinstance(value, Instance) else value
            for value in self._value(argument, env, frame)
        )
        self._sharded += values
        return values

    def _method(
        self, call: ast.Call, func: ast.Attribute, env: dict[str, Values], frame: Frame
    ) -> Values | None:
        """Return the value of `something.method(…)`, or None when it is not a method call."""
        receiver, method = func.value, func.attr
        if isinstance(receiver, ast.Call) and dotted(receiver.func) == "super":
            return self._super(call, method, env, frame)
        name = dotted(receiver)
        if name in ("self", "cls") and frame.self_class is not None:
            target = self._python.class_attribute(frame.self_class, method)
            if isinstance(target, Definition) and target.is_function:
                owner = self._owner(frame.self_class, target)
                return self._into(target, call, env, frame, frame.self_class, owner)
            if isinstance(target, Definition) and target.is_class:
                return (Instance(target),)
            return (self._unknown(call, frame, f"`{_short(call)}` is not in the source"),)
        receivers: Values = ()
        if name is None or name in env:
            receivers = self._value(receiver, env, frame)
        elif isinstance(target := self._resolve(name, frame), Definition) and target.is_class:
            receivers = (ClassValue(target),)
        if not receivers:
            return None
        found: list[Value] = []
        for value in receivers:
            found += self._method_of(value, method, call, env, frame)
        return tuple(found)

    def _method_of(
        self,
        value: Value,
        method: str,
        call: ast.Call,
        env: dict[str, Values],
        frame: Frame,
    ) -> Values:
        if isinstance(value, Unknown):
            return (value,)
        if isinstance(value, Instance) and method in _SELF_RETURNING:
            return (value,)
        target = self._python.class_attribute(value.cls, method)
        if isinstance(target, Definition) and target.is_function:
            owner = self._owner(value.cls, target)
            return self._into(target, call, env, frame, value.cls, owner)
        if isinstance(value, ClassValue) and method in _CONSTRUCTORS:
            return (Instance(value.cls),)
        return (self._unknown(call, frame, f"`{_short(call)}` is not in the source"),)

    def _super(self, call: ast.Call, method: str, env: dict[str, Values], frame: Frame) -> Values:
        cls, owner = frame.self_class, frame.owner
        if cls is None or owner is None:
            return (self._unknown(call, frame, "`super()` outside a class"),)
        order = self._python.linearized(cls)
        names = [t.qualified if isinstance(t, Definition) else "" for t in order]
        begin = names.index(owner.qualified) + 1 if owner.qualified in names else 1
        for ancestor in order[begin:]:
            if not isinstance(ancestor, Definition):
                break
            bound = self._python.class_bindings(ancestor, method)
            if bound and isinstance(bound[-1].node, ast.FunctionDef | ast.AsyncFunctionDef):
                name = f"{ancestor.name}.{method}"
                target = Definition(ancestor.path, ancestor.module, name, bound[-1].node)
                return self._into(target, call, env, frame, cls, ancestor)
        if method in _CONSTRUCTORS:
            return (Instance(cls),)
        why = f"`{_short(call)}` leads outside the repository"
        return (self._unknown(call, frame, why),)

    def _external(self, call: ast.Call, name: str, env: dict[str, Values], frame: Frame) -> Values:
        hiding = _HIDING.get(name)
        argument = _argument(call, 0, ("model", "module"))
        if hiding is not None and argument is not None:
            where = Location(path=frame.path, line=call.lineno)
            return tuple(
                replace(value, hidden=(*value.hidden, (where, hiding)))
                if isinstance(value, Instance) and not value.sharded
                else value
                for value in self._value(argument, env, frame)
            )
        if name.startswith("builtins."):
            why = f"`{_short(call)}` is known only at run time"
        else:
            why = f"the model comes from `{name}`, outside the repository"
        return (self._unknown(call, frame, why),)

    def _function(
        self, target: Definition, call: ast.Call, env: dict[str, Values], frame: Frame
    ) -> Values:
        owner_name = target.name.rpartition(".")[0]
        cls = None
        if owner_name and "<locals>" not in owner_name:
            func = call.func
            receiver = dotted(func.value) if isinstance(func, ast.Attribute) else None
            found = self._resolve(receiver, frame) if receiver is not None else None
            cls = found if isinstance(found, Definition) and found.is_class else None
        return self._into(target, call, env, frame, cls, cls)

    def _into(
        self,
        target: Definition,
        call: ast.Call,
        env: dict[str, Values],
        frame: Frame,
        self_class: Definition | None,
        owner: Definition | None,
    ) -> Values:
        node = target.node
        assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        decorators = {dotted(d) or "" for d in node.decorator_list}
        names = [a.arg for a in (*node.args.posonlyargs, *node.args.args)]
        arguments: dict[str, Values] = {}
        if self_class is not None and "staticmethod" not in decorators and names:
            first = names.pop(0)
            if "classmethod" in decorators:
                arguments[first] = (ClassValue(self_class),)
        for position, name in enumerate(names):
            value = _argument(call, position, (name,))
            if value is not None:
                arguments[name] = self._argument_value(value, env, frame)
        for keyword in node.args.kwonlyargs:
            value = _argument(call, None, (keyword.arg,))
            if value is not None:
                arguments[keyword.arg] = self._argument_value(value, env, frame)
        for name in names:
            if name not in arguments:
                why = f"`{name}` gets its value at run time"
                arguments[name] = (Unknown(Location(path=target.path, line=node.lineno), why),)
        return self._call(target, self_class, owner, arguments, frame.depth + 1)

    def _argument_value(self, node: ast.expr, env: dict[str, Values], frame: Frame) -> Values:
        if isinstance(node, ast.Name | ast.Attribute | ast.Call | ast.IfExp):
            return self._value(node, env, frame)
        return (self._unknown(node, frame, f"`{_short(node)}` is computed"),)

    def _instances(self, call: ast.Call, values: Values, frame: Frame) -> Values:
        found: list[Value] = []
        for value in values:
            if isinstance(value, ClassValue):
                found.append(Instance(value.cls))
                self.trail.append(value.cls.location)
            elif isinstance(value, Unknown):
                found.append(value)
            else:
                found.append(self._unknown(call, frame, f"`{_short(call)}` calls the model"))
        return tuple(found)

    def _owner(self, cls: Definition, method: Definition) -> Definition:
        """Return the class of the hierarchy that defines a method."""
        short = method.name.rpartition(".")[2]
        for ancestor in self._python.linearized(cls):
            if isinstance(ancestor, Definition) and any(
                b.node is method.node for b in self._python.class_bindings(ancestor, short)
            ):
                return ancestor
        return cls

    def _resolve(self, name: str, frame: Frame) -> Target:
        try:
            return self._python.resolve(frame.path, name, frame.function)
        except UnparsableError as trouble:
            return Unresolved(trouble.location, trouble.why)

    def _unknown(self, node: ast.AST, frame: Frame, why: str) -> Unknown:
        return Unknown(Location(path=frame.path, line=getattr(node, "lineno", None)), why)


def _argument(call: ast.Call, position: int | None, names: tuple[str, ...]) -> ast.expr | None:
    for keyword in call.keywords:
        if keyword.arg in names:
            return keyword.value
    if position is None or position >= len(call.args):
        return None
    if any(isinstance(argument, ast.Starred) for argument in call.args[: position + 1]):
        return None
    return call.args[position]


def _leaves(body: list[ast.stmt]) -> bool:
    return any(isinstance(statement, ast.Return | ast.Raise) for statement in body)


def _short(node: ast.AST) -> str:
    text = ast.unparse(node).replace("\n", " ").replace("`", "'")
    return text if len(text) <= 60 else f"{text[:59]}…"
