"""YAML as plain data plus the place each value was written, so that an error can point there."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

KeyPath = tuple[str | int, ...]


class ConfigError(Exception):
    """A configuration that cannot be used; the message is one sentence for the user."""


@dataclass
class Document:
    """The merged data of a file and its overrides.

    `places` maps each key path to where its value was written: `file:line` or an override's text.
    """

    data: dict[str, Any]
    places: dict[KeyPath, str] = field(default_factory=dict)

    def place(self, path: KeyPath) -> str:
        """Where `path`, or else its nearest written ancestor, was written."""
        while path and path not in self.places:
            path = path[:-1]
        return self.places[path]


class _Loader(yaml.SafeLoader):
    """SafeLoader that reads `1e-3` as a number, as YAML 1.2 and every reader of configs does."""


_Loader.yaml_implicit_resolvers = {
    first: list(resolvers) for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"^[-+]?[0-9]+[eE][-+]?[0-9]+$"), list("-+0123456789")
)


def read(path: Path, overrides: tuple[str, ...]) -> Document:
    """The data of the YAML file `path` with dotted `overrides` (`a.b=value`) applied in order.

    Raises ConfigError for a file that cannot be read, is not a mapping, or repeats a key, and for
    an override that is malformed or reaches into something that is not a mapping.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: is not UTF-8 text") from None
    document = Document(data={}, places={(): str(path)})
    data = _parse(text, str(path), (), document.places, lines=True)
    if not isinstance(data, dict):
        found = "nothing" if data is None else f"a {type(data).__name__}"
        raise ConfigError(f"{path}: found {found} at the top level, allowed: a mapping of settings")
    document.data = data
    for override in overrides:
        _override(document, override)
    return document


def _override(document: Document, override: str) -> None:
    dotted, equals, text = override.partition("=")
    keys = tuple(dotted.split("."))
    if not equals or not all(keys):
        raise ConfigError(f"override {override!r}: allowed: dotted.path=value")
    target = document.data
    for depth, key in enumerate(keys[:-1], start=1):
        if target.get(key) is None:
            target[key] = {}
            document.places[keys[:depth]] = f"override {override!r}"
        target = target[key]
        if not isinstance(target, dict):
            raise ConfigError(
                f"override {override!r}: {'.'.join(keys[:depth])} is {target!r}, not a mapping, "
                f"and has no key {keys[depth]!r}"
            )
    for path in [path for path in document.places if path[: len(keys)] == keys]:
        del document.places[path]
    name = f"override {override!r}"
    target[keys[-1]] = _parse(text, name, keys, document.places, lines=False)


def _parse(text: str, source: str, prefix: KeyPath, places: dict[KeyPath, str], lines: bool) -> Any:
    """The data of `text`; fills `places` with `source:line`, or `source` without `lines`."""
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            places.setdefault(prefix, source)
            return None
        return _construct(loader, node, prefix, places, source, lines)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"{source}:{mark.line + 1}" if lines and mark else source
        raise ConfigError(f"{where}: is not valid YAML: {error.problem}") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{source}: is not valid YAML: {error}") from None
    except RecursionError:
        raise ConfigError(f"{source}: is nested too deeply or refers to itself") from None
    finally:
        loader.dispose()


def _construct(
    loader: _Loader,
    node: yaml.Node,
    path: KeyPath,
    places: dict[KeyPath, str],
    source: str,
    lines: bool,
) -> Any:
    def place(at: yaml.Node) -> str:
        return f"{source}:{at.start_mark.line + 1}" if lines else source

    if path:
        places.setdefault(path, place(node))
    if isinstance(node, yaml.SequenceNode):
        return [
            _construct(loader, item, (*path, index), places, source, lines)
            for index, item in enumerate(node.value)
        ]
    if not isinstance(node, yaml.MappingNode):
        return loader.construct_object(node, deep=True)
    seen: dict[Any, int] = {}
    for key_node, _ in node.value:
        if key_node.tag == "tag:yaml.org,2002:merge":
            continue
        key = loader.construct_object(key_node, deep=True)
        if not isinstance(key, str):
            raise ConfigError(f"{place(key_node)}: found the key {key!r}, allowed: a name")
        if key in seen:
            dotted = ".".join(map(str, (*path, key)))
            raise ConfigError(
                f"{place(key_node)}: {dotted}: is set twice"
                + (f", first on line {seen[key]}" if lines else "")
            )
        seen[key] = key_node.start_mark.line + 1
    loader.flatten_mapping(node)  # resolves `<<`; its own keys come last, and win
    mapping: dict[str, Any] = {}
    for key_node, value_node in node.value:
        key = loader.construct_object(key_node, deep=True)
        places[(*path, key)] = place(key_node)
        mapping[key] = _construct(loader, value_node, (*path, key), places, source, lines)
    return mapping
