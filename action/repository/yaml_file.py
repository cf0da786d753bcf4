"""YAML read as data with line numbers; nothing in it is constructed or run."""

from __future__ import annotations

from dataclasses import dataclass

import yaml

from action.records import Location
from action.repository.syntax import UnparsableError

_MOST = 100_000
"""Entries of one file; aliases can make a small file expand without end."""

_STANDARD = "tag:yaml.org,2002:"

Scalar = str | int | float | bool | None


@dataclass(frozen=True)
class Entry:
    """A scalar, or an empty list or mapping (as `[]` or `{}`), at a dotted path, on a line."""

    value: Scalar
    line: int


def read_yaml(path: str, content: bytes) -> dict[str, Entry]:
    """Return a file's scalars by dotted path; list items as `key[0]`.

    Raises:
        UnparsableError: not UTF-8, not YAML, more than one document, or too much of it.
    """
    try:
        root = yaml.compose(content.decode("utf-8-sig"), Loader=yaml.SafeLoader)
    except UnicodeDecodeError as trouble:
        raise UnparsableError(Location(path=path), f"not UTF-8 ({trouble.reason})") from None
    except yaml.YAMLError as trouble:
        mark = getattr(trouble, "problem_mark", None)
        line = mark.line + 1 if mark is not None else None
        why = getattr(trouble, "problem", None) or str(trouble).splitlines()[0]
        raise UnparsableError(Location(path=path, line=line), f"broken YAML: {why}") from None
    except RecursionError:
        raise UnparsableError(Location(path=path), "it is nested too deeply to be read") from None
    entries: dict[str, Entry] = {}
    if root is not None:
        _flatten(path, root, "", entries, ())
    return entries


def _flatten(
    file: str,
    node: yaml.Node,
    path: str,
    entries: dict[str, Entry],
    above: tuple[int, ...],
) -> None:
    line = node.start_mark.line + 1
    if id(node) in above or len(entries) > _MOST:
        raise UnparsableError(
            Location(path=file, line=line), "broken YAML: its aliases expand without end"
        )
    above = (*above, id(node))
    if not node.tag.startswith(_STANDARD) and not isinstance(node, yaml.ScalarNode):
        entries[path] = Entry(node.tag, line)
    if isinstance(node, yaml.MappingNode):
        pairs = _pairs(file, node, above)
        for key, (_, value) in pairs.items():
            _flatten(file, value, f"{path}.{key}" if path else key, entries, above)
        if not pairs:
            entries[path] = Entry("{}", line)
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            _flatten(file, value, f"{path}[{index}]", entries, above)
        if not node.value:
            entries[path] = Entry("[]", line)
    else:
        entries[path] = Entry(_scalar(node), line)


def _pairs(
    file: str, node: yaml.MappingNode, above: tuple[int, ...]
) -> dict[str, tuple[yaml.Node, yaml.Node]]:
    """Return a mapping's (key, value) nodes by key; its own win over those merged with `<<`."""
    own: dict[str, tuple[yaml.Node, yaml.Node]] = {}
    merged: dict[str, tuple[yaml.Node, yaml.Node]] = {}
    for key_node, value in node.value:
        if key_node.tag == f"{_STANDARD}merge":
            sources = value.value if isinstance(value, yaml.SequenceNode) else [value]
            for source in sources:
                at = Location(path=file, line=key_node.start_mark.line + 1)
                if not isinstance(source, yaml.MappingNode):
                    raise UnparsableError(at, "broken YAML: `<<` merges what is no mapping")
                if id(source) in above:
                    raise UnparsableError(at, "broken YAML: its aliases expand without end")
                for key, pair in _pairs(file, source, (*above, id(source))).items():
                    merged.setdefault(key, pair)
            continue
        key = str(getattr(key_node, "value", "?"))
        if key in own:
            at = Location(path=file, line=key_node.start_mark.line + 1)
            raise UnparsableError(at, f"broken YAML: the key `{key}` stands twice")
        own[key] = (key_node, value)
    return merged | own


def _scalar(node: yaml.Node) -> Scalar:
    if not node.tag.startswith(_STANDARD):
        return f"{node.tag} {node.value}"
    if node.tag.removeprefix(_STANDARD) in ("int", "float", "bool", "null"):
        try:
            value = yaml.SafeLoader("").construct_object(node)
        except (ValueError, yaml.YAMLError):
            return str(node.value)
        if value is None or isinstance(value, int | float | bool):
            return value
    return str(node.value)
