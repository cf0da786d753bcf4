"""Which releases of torch and transformers a dependency file asks for."""

from __future__ import annotations

import ast
import configparser
import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any

from action.records import Location
from action.repository.syntax import UnparsableError, parse
from action.repository.yaml_file import read_yaml

_FILES = re.compile(
    r"(^|/)([^/]*requirements[^/]*\.(txt|in)|constraints[^/]*\.txt|pyproject\.toml|setup\.(py|cfg)"
    r"|Pipfile(\.lock)?|poetry\.lock|uv\.lock|pdm\.lock|pixi\.toml|(conda-?)?env(ironment)?[^/]*\.ya?ml"
    r"|(.*[._-])?(Docker|Container)file([._-].*)?|[^/]*\.dockerfile)$"
    r"|(^|/)requirements/[^/]+\.(txt|in)$",
    re.IGNORECASE,
)
_REQUIREMENT = re.compile(
    r"^(?:[\w.-]+::)?(?P<name>torch|pytorch|transformers)\s*(?:\[[^\]]*\])?\s*"
    r"(?P<release>(?:[<>=!~@^(;\s].*)?)$",
    re.IGNORECASE | re.DOTALL,
)
_INDEX = re.compile(r"https?://[^\s\"',]*pytorch[^\s\"',]*", re.IGNORECASE)
_INSTALLS = re.compile(
    r"\b(pip3?|uv|conda|mamba|micromamba|poetry|pdm)\b.*\b(install|add|create)\b"
)
# Images that bring no torch: a new release of one leaves the training code where it is.
_BARE_IMAGES = re.compile(
    r"^(.*/)?(python|ubuntu|debian|alpine|centos|rockylinux|almalinux|fedora|amazonlinux|busybox"
    r"|scratch|cuda|uv|miniconda3|micromamba|buildpack-deps|node)([:@].*)?$",
    re.IGNORECASE,
)
_DEPENDENCIES = re.compile(r"dependenc|requires|constraint|override")

Stated = tuple[str, str]
"""What is pinned (`torch`, `transformers`, `index`, `image`) and its release, "" for any."""


def is_pin_file(path: str) -> bool:
    """Tell whether a file of this name states dependencies."""
    return _FILES.search(path) is not None


def pins(path: str, content: bytes) -> dict[str, tuple[str, ...]]:
    """Return the releases that a dependency file states: of `torch`, of `transformers`.

    `index` is where torch's wheels come from and `image` a base image that may bring its own torch.
    Other packages, comments, order and spelling do not count.

    Raises:
        UnparsableError: the file is not what its name says.
    """
    name = PurePosixPath(path).name.lower()
    text = content.decode("utf-8-sig", errors="replace")
    found: dict[str, set[str]] = {}
    try:
        for what, release in _stated(path, name, text, content):
            found.setdefault("torch" if what == "pytorch" else what, set()).add(release)
    except (tomllib.TOMLDecodeError, configparser.Error, json.JSONDecodeError) as trouble:
        why = str(trouble).splitlines()[0]
        raise UnparsableError(Location(path=path), why) from None
    except RecursionError:
        raise UnparsableError(Location(path=path), "it is nested too deeply to be read") from None
    return {what: tuple(sorted(releases)) for what, releases in sorted(found.items())}


def pin_line(path: str, content: bytes, what: str) -> int | None:
    """Return the first line that speaks of what is pinned, comments left aside."""
    word = {"index": "pytorch", "image": "FROM"}.get(what, what)
    for number, line in enumerate(content.decode(errors="replace").splitlines(), start=1):
        if re.search(rf"(?<![\w-])(py)?{word}(?![\w-])", _without_comment(line), re.IGNORECASE):
            return number
    return None


def _stated(path: str, name: str, text: str, content: bytes) -> Iterator[Stated]:
    if "dockerfile" in name or "containerfile" in name:
        yield from _docker(text)
    elif name.endswith((".yaml", ".yml")):
        for key, entry in read_yaml(path, content).items():
            if key.startswith("dependencies["):
                yield from _requirement(str(entry.value))
    elif name == "pipfile.lock":
        for packages in json.loads(text).values():
            for package, entry in packages.items() if isinstance(packages, dict) else ():
                version = entry.get("version", "") if isinstance(entry, dict) else entry
                yield from _requirement(f"{package} {version}")
    elif name.endswith(".lock"):
        yield from _lock(tomllib.loads(text))
    elif name.endswith(".toml") or name == "pipfile":
        yield from _toml(tomllib.loads(text), ())
    elif name == "setup.cfg":
        sections = configparser.ConfigParser(interpolation=None, strict=False)
        sections.read_string(text)
        for section in sections.values():
            for value in section.values():
                for line in value.splitlines():
                    yield from _requirement(line)
    elif name == "setup.py":
        for node in ast.walk(parse(path, content)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield from (stated for stated in _requirement(node.value) if stated[1])
    else:
        yield from _requirements(text)


def _requirements(text: str) -> Iterator[Stated]:
    for line in _joined(text):
        code = re.sub(r"\s--(hash|config-settings?)[= ]\S+", "", line).strip()
        if code.startswith("-"):
            yield from (("index", url) for url in _INDEX.findall(code))
        else:
            yield from _requirement(code)


def _requirement(text: str) -> Iterator[Stated]:
    match = _REQUIREMENT.match(text.strip())
    if match is None:
        return
    release, _, marker = match["release"].partition(";")
    parts = sorted(re.sub(r"\s+", "", part) for part in release.strip(" ()").split(","))
    condition = f"; {' '.join(marker.split())}" if marker.strip() else ""
    yield match["name"].lower(), ",".join(parts).strip(",") + condition


def _toml(value: Any, above: tuple[str, ...]) -> Iterator[Stated]:
    if isinstance(value, dict):
        for key, inner in value.items():
            table = above[-1] if above else ""
            package = key.lower()
            if package in ("torch", "pytorch", "transformers") and (
                _DEPENDENCIES.search(".".join(above)) or table in ("sources", "packages")
                or table.endswith("-packages")
            ):  # fmt: skip
                yield package, inner if isinstance(inner, str) else json.dumps(inner, default=str)
            elif key == "url" and isinstance(inner, str) and _INDEX.match(inner):
                yield "index", inner
            else:
                yield from _toml(inner, (*above, key))
    elif isinstance(value, list):
        for inner in value:
            if isinstance(inner, str):
                if _DEPENDENCIES.search(".".join(above)) or "dependency-groups" in above:
                    yield from _requirement(inner)
            else:
                yield from _toml(inner, above)


def _lock(data: dict[str, Any]) -> Iterator[Stated]:
    """The packages that are locked; what other packages ask for is theirs."""
    packages = data.get("package", [])
    for package in packages if isinstance(packages, list) else []:
        name = str(package.get("name", "")).lower()
        if name in ("torch", "transformers"):
            source = package.get("source", {})
            index = source.get("registry") or source.get("url") if isinstance(source, dict) else ""
            where = f" from {index}" if index and _INDEX.match(str(index)) else ""
            yield name, f"=={package.get('version', '')}{where}"


def _docker(text: str) -> Iterator[Stated]:
    stages: set[str] = set()
    for line in _joined(text):
        words = [word.strip("\"'") for word in line.split()]
        if not words:
            continue
        instruction = words[0].upper()
        if instruction == "FROM":
            names = [word for word in words[1:] if not word.startswith("--")]
            image = names[0] if names else ""
            if image.lower() not in stages and not _BARE_IMAGES.match(image):
                yield "image", image
            stages.update(word.lower() for word in names[2:3])
        elif instruction in ("ARG", "ENV"):
            for key, _, value in (word.partition("=") for word in words[1:]):
                if re.search(r"(?<!\w)(\w*_)?(PY)?TORCH(_VERSION)?$", key, re.IGNORECASE):
                    yield "torch", f"=={value}"
                elif re.search(r"TRANSFORMERS(_VERSION)?$", key, re.IGNORECASE):
                    yield "transformers", f"=={value}"
                elif re.search(r"pytorch", value) and not value.startswith("http"):
                    yield "image", value
        installs = _INSTALLS.search(line) is not None
        for word in words[1:]:
            yield from (s for s in _requirement(word.rstrip(";&|")) if s[1] or installs)
        yield from (("index", url) for url in _INDEX.findall(line))


def _joined(text: str) -> Iterator[str]:
    """Yield lines without comments, those that end in a backslash joined with the next."""
    begun = ""
    for line in text.splitlines():
        code = _without_comment(line).rstrip()
        if code.endswith("\\"):
            begun += code[:-1] + " "
            continue
        yield (begun + code).strip()
        begun = ""
    yield begun.strip()


def _without_comment(line: str) -> str:
    return re.sub(r"(^|\s)#.*$", "", line)
