"""Which releases of torch and transformers a repository asks for."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

_FILES = re.compile(
    r"(^|/)(requirements[^/]*\.(txt|in)|constraints[^/]*\.txt|pyproject\.toml|setup\.(py|cfg)"
    r"|Pipfile(\.lock)?|poetry\.lock|uv\.lock|pdm\.lock|pixi\.(toml|lock)|environment[^/]*\.ya?ml"
    r"|(.*[.])?Dockerfile([.].*)?|[^/]*\.dockerfile)$|(^|/)requirements/[^/]+\.(txt|in)$",
    re.IGNORECASE,
)
_PACKAGE = re.compile(r"(?<![\w./-])(torch|transformers)(?![\w-]|\.\w)", re.IGNORECASE)
_VERSION = re.compile(r"^\s*\"?version\"?\s*[:=]")
_IMAGE = re.compile(r"^\s*(FROM\s.*|ARG\s+\w*(IMAGE|BASE|TORCH|CUDA)\w*\s*=.*)$", re.IGNORECASE)


def is_pin_file(path: str) -> bool:
    """Tell whether a file of this name states dependencies."""
    return _FILES.search(path) is not None


def pins(path: str, text: str) -> dict[str, tuple[str, ...]]:
    """Return the lines of a dependency file that decide a release, by package.

    Keys are `torch`, `transformers` and, for a Dockerfile, `image`: the base image brings its own
    torch. Comments do not count. In a lock file the version stands on the line after the name.
    """
    found: dict[str, list[str]] = {}
    lines = text.splitlines()
    dockerfile = "dockerfile" in PurePosixPath(path).name.lower()
    for number, line in enumerate(lines):
        code = re.sub(r"(^|\s)#.*$", "", line).strip()
        if dockerfile and _IMAGE.match(code):
            found.setdefault("image", []).append(code)
        for match in _PACKAGE.finditer(code):
            statement = code.rstrip(",")
            if statement[:1] in ("'", '"') and statement[-1:] == statement[:1]:
                statement = statement[1:-1]
            if re.fullmatch(r"name\s*=\s*\"?\w+\"?", code) or code.rstrip(" {").endswith(":"):
                following = lines[number + 1 : number + 3]
                statement += "".join(f" {f.strip()}" for f in following if _VERSION.match(f))
            found.setdefault(match[1].lower(), []).append(statement)
    return {package: tuple(statements) for package, statements in found.items()}
