"""Writes what this interpreter has into the file named by its argument, as one JSON object.

Runs in the recipe's interpreter as a script, so that this folder and not the checkout is first on
`sys.path`: a `torch.py` in the pull request is not what is asked for.
"""

import json
import os
import platform
import sys
from pathlib import Path


def look() -> "dict[str, object]":
    """Return the versions of Python and torch, the CUDA devices' names, and what went wrong."""
    seen: dict[str, object] = {"python": platform.python_version()}
    try:
        import torch
    except BaseException as trouble:
        seen["torch_problem"] = f"{type(trouble).__name__}: {trouble}"
        return seen
    seen["torch"] = str(torch.__version__)
    try:
        names = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
        if names:
            # A device that is listed may still refuse to work; only an allocation tells.
            torch.zeros(1, device="cuda").add_(1).item()
        seen["cuda_devices"] = names
    except Exception as trouble:
        seen["cuda_problem"] = f"{type(trouble).__name__}: {trouble}"
    return seen


if __name__ == "__main__":
    found = json.dumps(look())
    with Path(sys.argv[1]).open("w", encoding="utf-8") as file:
        file.write(found)
        file.flush()
        os.fsync(file.fileno())
    # A driver that hangs while the interpreter shuts down shall not cost what was found.
    os._exit(0)
