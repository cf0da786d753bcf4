"""Takes a picture of a page with a local Chromium: `python -m tests.demo.picture PAGE PICTURE`."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

_NAMES = ("chromium", "chromium-browser", "google-chrome")
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--hide-scrollbars",
    "--force-device-scale-factor=1.5",
    "--window-size=960,800",
)


def main() -> int:
    page, picture = (Path(argument).resolve() for argument in sys.argv[1:3])
    browser = next(filter(None, map(shutil.which, _NAMES)), None)
    if browser is None:
        print(f"none of {', '.join(_NAMES)} is on PATH; install Chromium", file=sys.stderr)
        return 3
    picture.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as profile:
        command = [browser, *_FLAGS, f"--user-data-dir={profile}", f"--screenshot={picture}"]
        subprocess.run([*command, page.as_uri()], check=True, stderr=subprocess.DEVNULL)
    return 0


if __name__ == "__main__":
    sys.exit(main())
