"""Which paths of the config a part of the source reads."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from action.select.parts import Part

_CONFIG_NAMES = ("config", "cfg", "conf", "settings", "args", "options")


def config_reads(part: Part) -> Iterator[str]:
    """Yield `section.key`, or `section` where it is passed on whole, of `config.section.key`."""
    for node in part.nodes:
        inside: set[int] = set()
        for inner in ast.walk(node):
            keys = _keys(inner)
            if len(keys) < 2 or id(inner) in inside:
                continue
            inside.update(id(deeper) for deeper in ast.walk(inner) if deeper is not inner)
            for position, key in enumerate(keys[:-1]):
                if key in _CONFIG_NAMES:
                    yield ".".join(keys[position + 1 : position + 3])
                    break
            else:
                if isinstance(part.node, ast.ClassDef):
                    continue  # `self.data.size` of a config class is the class's own business
                yield from (".".join(keys[at : at + 2]) for at in range(len(keys) - 1))


def _keys(node: ast.AST) -> tuple[str, ...]:
    """Return ("self", "config", "train", "seed") for `self.config.train["seed"]`."""
    keys: list[str] = []
    while True:
        match node:
            case ast.Attribute(value=value, attr=name):
                keys.append(name)
            case ast.Subscript(value=value, slice=ast.Constant(value=str(name))):
                keys.append(name)
            case ast.Name(id=name):
                return (name, *reversed(keys))
            case _:
                return ()
        node = value
