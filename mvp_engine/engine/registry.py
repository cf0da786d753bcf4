"""Engines by name. A recipe's `engine` module registers its class when it is imported."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from mvp_engine.config import ConfigError
from mvp_engine.engine.base import Engine

EngineT = TypeVar("EngineT", bound=type[Engine])
_engines: dict[str, type[Engine]] = {}


def register_engine(name: str) -> Callable[[EngineT], EngineT]:
    """Class decorator: configs with `engine: <name>` are trained by the decorated class."""

    def register(cls: EngineT) -> EngineT:
        known = _engines.get(name)
        # The same class again is a module that was imported anew.
        if known is not None and _dotted(known) != _dotted(cls):
            raise ValueError(
                f"the engine {name!r} is registered by both {_dotted(known)} and {_dotted(cls)}"
            )
        _engines[name] = cls
        return cls

    return register


def engine_class(name: str) -> type[Engine]:
    """The engine registered as `name`, or at a dotted path (`pkg.mod.Class`, `pkg.mod:Class`).

    Raises ConfigError for a name that is not known and a path that does not lead to an Engine.
    """
    if name in _engines:
        return _engines[name]
    module, _, attribute = name.replace(":", ".").rpartition(".")
    if not module:
        known = ", ".join(sorted(_engines)) or "none; a recipe's engine.py registers its own"
        raise ConfigError(f"engine: found {name!r}, allowed: {known}, or a dotted path to a class")
    try:
        found = getattr(importlib.import_module(module), attribute, None)
    except ModuleNotFoundError as error:
        raise ConfigError(f"engine: {name!r} cannot be imported: {error}") from error
    if not (isinstance(found, type) and issubclass(found, Engine)):
        raise ConfigError(f"engine: {name!r} is not a subclass of mvp_engine.engine.Engine")
    return found


def import_recipe_engine(config_path: Path) -> None:
    """Imports `recipes.<r>.engine` for a config at `<root>/recipes/<r>/configs/<c>.yaml`.

    `<root>` is put on `sys.path` when needed. A config elsewhere imports nothing. Raises
    ConfigError when there is no such module, or another repository's `recipes` is found first.
    """
    parts = config_path.resolve().parts
    if len(parts) < 4 or parts[-4] != "recipes" or parts[-2] != "configs":
        return
    root = Path(*parts[:-4])
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
    name = f"recipes.{parts[-3]}.engine"
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise
        raise ConfigError(f"{config_path}: {name} cannot be imported: {error}") from error
    if not Path(module.__file__ or "").resolve().is_relative_to(root):
        raise ConfigError(
            f"{config_path}: {name} was imported from {module.__file__}, "
            f"outside this config's repository: run from {root}"
        )


def _dotted(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"
