"""What a person sees while a run goes on: plain lines at a terminal, groups in a GitHub log."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
# GitHub's runner acts on `::command::` at the start of a line and on `##[command]` anywhere.
_LEGACY_COMMAND = re.compile(r"##(?=\[)")


class Progress:
    """Writes progress to `stream`; `in_job` is true inside a GitHub job.

    Lines may quote a pull request, so that control characters are dropped everywhere, and in a
    job they are written while the runner's command parser is switched off.
    """

    def __init__(self, stream: TextIO, *, in_job: bool) -> None:
        self._stream = stream
        self._in_job = in_job
        self._quiet = False

    def line(self, text: str) -> None:
        """Write one line, or several."""
        safe = _LEGACY_COMMAND.sub("## ", _CONTROL.sub("", text.replace("\r", "")))
        with self._commands_off():
            self._print(safe)

    @contextmanager
    def group(self, title: str) -> Iterator[None]:
        """Fold what is written meanwhile under `title` in a GitHub log."""
        title = " ".join(_CONTROL.sub("", title).split())
        if not self._in_job:
            self.line(title)
            yield
            return
        # `%` escapes are how the runner takes a newline or a percent sign as data.
        self._print(f"::group::{title.replace('%', '%25')}")
        try:
            with self._commands_off():
                yield
        finally:
            self._print("::endgroup::")

    @contextmanager
    def _commands_off(self) -> Iterator[None]:
        if self._quiet or not self._in_job:
            yield
            return
        word = secrets.token_hex(16)
        self._print(f"::stop-commands::{word}")
        self._quiet = True
        try:
            yield
        finally:
            self._quiet = False
            self._print(f"::{word}::")

    def _print(self, text: str) -> None:
        print(text, file=self._stream, flush=True)
