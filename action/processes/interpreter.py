"""The interpreter that a recipe runs in, found by name or path."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from action.processes.text import quoted


def find_interpreter(python: str, environ: Mapping[str, str]) -> Path | str:
    """Return the absolute path of an interpreter given as name or path, or what is wrong with it.

    A link is not followed: that of a virtual environment is what makes Python find its packages.
    """
    found = shutil.which(python, path=environ.get("PATH", os.defpath))
    if found is not None:
        return Path(found).absolute()
    if "/" in python and Path(python).exists():
        return f"{quoted(python)} is not an executable file"
    where = "" if "/" in python else " on PATH"
    return f"there is no interpreter {quoted(python)}{where}"
