"""Load the worker from its own folder, under a name that no repository uses, and run it."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

NAME = "fsdp2_prefetch_probe_worker"


def load_worker() -> None:
    """Make the package beside this file importable as `NAME`, without its parents."""
    here = Path(__file__).resolve().parent
    spec = importlib.util.spec_from_file_location(
        NAME, here / "__init__.py", submodule_search_locations=[str(here)]
    )
    assert spec is not None and spec.loader is not None
    package = importlib.util.module_from_spec(spec)
    sys.modules[NAME] = package
    spec.loader.exec_module(package)


if __name__ == "__main__":
    # This file's folder would otherwise shadow modules of the repository: `target`, `units`.
    sys.path[:] = [entry for entry in sys.path if entry != str(Path(__file__).resolve().parent)]
    load_worker()
    importlib.import_module(f"{NAME}.serve").main(sys.argv[1:])
