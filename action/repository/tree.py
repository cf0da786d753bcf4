"""The files of one commit, read from git's objects without a checkout."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from types import TracebackType
from typing import IO, Protocol

from action.repository.git import Git, GitError

_LARGEST = 16 * 2**20
"""Bytes of a file that anybody here reads as source; a larger one counts as unreadable."""


class Tree(Protocol):
    """A read-only snapshot of a repository's files; paths are POSIX, relative to its root."""

    def paths(self) -> tuple[str, ...]:
        """Return the paths of all regular files, sorted."""
        ...

    def read(self, path: str) -> bytes:
        """Return a file's content; KeyError when the tree has no such regular file."""
        ...

    def links(self) -> Mapping[str, str]:
        """Return the symbolic links, by path, with what they say; they are never followed."""
        ...

    def __contains__(self, path: object) -> bool: ...


class CommitTree:
    """The tree of one commit. Symbolic links and submodules are not files here.

    One `git cat-file --batch` process serves all reads; close it, or use a `with` block.
    """

    def __init__(self, git: Git, commit: str) -> None:
        self._git = git
        self._blobs: dict[str, str] = {}
        self._link_blobs: dict[str, str] = {}
        listing = git.output("ls-tree", "-r", "-z", "--full-tree", commit)
        for entry in listing.split(b"\0"):
            if not entry:
                continue
            meta, path = entry.split(b"\t", 1)
            mode, kind, blob = meta.decode().split()
            if kind == "blob" and mode in ("100644", "100755"):
                self._blobs[os.fsdecode(path)] = blob
            elif mode == "120000":
                self._link_blobs[os.fsdecode(path)] = blob
        self._paths = tuple(sorted(self._blobs))
        self._batch: subprocess.Popen[bytes] | None = None

    def paths(self) -> tuple[str, ...]:
        """Return the paths of all regular files, sorted."""
        return self._paths

    def read(self, path: str) -> bytes:
        """Return a file's content.

        Raises:
            KeyError: the tree has no such regular file, or one too large to be source.
            GitError: git lost the object.
        """
        content = self._content(path, self._blobs[path])
        if len(content) > _LARGEST:
            raise KeyError(f"{path} is larger than {_LARGEST} bytes")
        return content

    def links(self) -> Mapping[str, str]:
        """Return the symbolic links, by path, with what they say; they are never followed."""
        return {
            path: os.fsdecode(self._content(path, blob))
            for path, blob in sorted(self._link_blobs.items())
        }

    def _content(self, path: str, blob: str) -> bytes:
        source, sink = self._pipes()
        sink.write(blob.encode() + b"\n")
        sink.flush()
        header = source.readline().split()
        if len(header) != 3:
            raise GitError(f"git cannot read {path} (object {blob[:12]}): the clone lacks it")
        size = int(header[2])
        content = source.read(size)
        source.read(1)
        return content

    def __contains__(self, path: object) -> bool:
        return path in self._blobs

    def __enter__(self) -> CommitTree:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the reading process."""
        if self._batch is not None:
            for pipe in (self._batch.stdin, self._batch.stdout):
                if pipe is not None:
                    pipe.close()
            self._batch.wait()
            self._batch = None

    def _pipes(self) -> tuple[IO[bytes], IO[bytes]]:
        if self._batch is None:
            self._batch = subprocess.Popen(
                self._git.command("cat-file", "--batch"),
                env=self._git.environment(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
        source, sink = self._batch.stdout, self._batch.stdin
        assert source is not None
        assert sink is not None
        return source, sink


class MappingTree:
    """A tree over a mapping from path to content, for text that lies in no commit."""

    def __init__(self, files: Mapping[str, str | bytes]) -> None:
        self._files = {
            path: content.encode() if isinstance(content, str) else content
            for path, content in files.items()
        }

    def paths(self) -> tuple[str, ...]:
        """Return the paths of all files, sorted."""
        return tuple(sorted(self._files))

    def read(self, path: str) -> bytes:
        """Return a file's content; KeyError when there is no such file."""
        return self._files[path]

    def links(self) -> Mapping[str, str]:
        """Return no symbolic links."""
        return {}

    def __contains__(self, path: object) -> bool:
        return path in self._files
