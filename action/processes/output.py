"""The files of a stage: a log that cannot fill the disk, and files that a test may have forged."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

LOG_LIMIT = 32 * 2**20
"""The most bytes of output that are kept of one command."""
_LOG_HEAD = 8 * 2**20
_TAIL_BYTES = 128 * 2**10
_LEAST_SPACE = 2**20


class StagesError(Exception):
    """The stages cannot write what they must; one sentence says where and why."""


class Log:
    """The output of one command in a file, open for the command to append to.

    A file and not a pipe: a pipe that nobody empties stops the tests, and a process that escaped
    could hold it open. `trim` keeps the file below `LOG_LIMIT` by dropping what lies between its
    first 8 MiB and its latest 128 KiB; a noisy test is not a failing one, so that it goes on.
    """

    def __init__(self, path: Path) -> None:
        path.unlink(missing_ok=True)
        # A checkout may hold a link of this name; following it would write elsewhere.
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        self.descriptor = os.open(path, flags, 0o644)

    def trim(self) -> None:
        """Drop the middle of a log that has grown too long; what matters is at its ends."""
        size = os.fstat(self.descriptor).st_size
        if size > LOG_LIMIT:
            end = os.pread(self.descriptor, _TAIL_BYTES, size - _TAIL_BYTES)
            os.ftruncate(self.descriptor, _LOG_HEAD)
            note = f"\n[here output is missing: it grew beyond {LOG_LIMIT // 2**20} MiB]\n"
            os.write(self.descriptor, note.encode() + end)

    def end(self) -> str:
        """Return the last part of the log, whatever its encoding."""
        size = os.fstat(self.descriptor).st_size
        start = max(0, size - _TAIL_BYTES)
        return os.pread(self.descriptor, _TAIL_BYTES, start).decode("utf-8", errors="replace")

    def close(self) -> None:
        """Close the file."""
        os.close(self.descriptor)


@contextlib.contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Turn an OSError of the output folder into a StagesError that names it."""
    try:
        yield
    except OSError as trouble:
        raise unwritable(folder, trouble) from trouble


def unwritable(folder: Path, trouble: OSError) -> StagesError:
    """Return the error that says that `folder` cannot be written, and why."""
    reason = trouble.strerror or str(trouble)
    return StagesError(
        f"cannot write to the output folder {folder}: {reason}; give another one with --out"
    )


def make_folder(folder: Path) -> None:
    """Make the folder of a recipe's output.

    Raises:
        StagesError: it cannot be made, is a link to elsewhere, or its disk is full.
    """
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    if folder.is_symlink():
        raise StagesError(
            f"cannot write to the output folder {folder}: it is a symbolic link; remove it, or "
            "give another one with --out"
        )
    check_space(folder)


def check_space(folder: Path) -> None:
    """Make sure that less than 1 MiB of free disk is not taken for a failing test.

    Raises:
        StagesError: the disk is full.
    """
    with writing(folder):
        free = shutil.disk_usage(folder).free
    if free < _LEAST_SPACE:
        raise StagesError(
            f"cannot write to the output folder {folder}: its disk is full; free some space, or "
            "give another one with --out"
        )


def write_new(path: Path, data: bytes) -> None:
    """Write a file that takes the place of whatever has its name, without following a link."""
    path.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags, 0o644), "wb") as file:
        file.write(data)


def read_regular(path: Path, limit: int) -> bytes | str:
    """Return the content of a file that a test may have put there, or why it cannot be used.

    A link, a device or a named pipe is not read, and no more than `limit` bytes are.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return "is not there"
    except OSError:
        return "is not a regular file"
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        return "is not a regular file"
    with os.fdopen(descriptor, "rb") as file:
        data = file.read(limit + 1)
    return data if len(data) <= limit else f"is larger than {limit // 2**20} MiB"
