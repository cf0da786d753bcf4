"""Git, run so that a hostile repository cannot make it run anything else."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

Run = Callable[..., "subprocess.CompletedProcess[bytes]"]

# A repository's own configuration can name programs for git to run; these settings win over it.
_HARDENED = (
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    "core.fsmonitor=false",
    "-c",
    "protocol.ext.allow=never",
    "-c",
    "core.quotePath=false",
)


class GitError(Exception):
    """Git could not do what was asked; one sentence says what and why."""


class MissingGitError(GitError):
    """There is no git to run."""


class UnknownRevisionError(GitError):
    """A revision, or the repository itself, is not there: the one who named it must correct it."""


class Git:
    """Runs git in the repository at `repo`; `run` is `subprocess.run` or a stand-in for it.

    Raises:
        UnknownRevisionError: `repo` is not a folder inside a git repository.
        GitError: git is not installed.
    """

    def __init__(self, repo: Path, run: Run = subprocess.run) -> None:
        self.run = run
        self.repo = repo.resolve()
        if not self.repo.is_dir():
            raise UnknownRevisionError(f"{repo} is not a folder; give a repository with --repo")
        try:
            top = self.output("rev-parse", "--show-toplevel")
        except MissingGitError:
            raise
        except GitError as trouble:
            raise UnknownRevisionError(
                f"{self.repo} is not a git repository; give one with --repo ({trouble})"
            ) from trouble
        self.repo = Path(os.fsdecode(top.removesuffix(b"\n")))

    def command(self, *arguments: str) -> list[str]:
        """Return the full command line for `git ARGUMENTS`."""
        return ["git", "-C", str(self.repo), *_HARDENED, "--no-pager", *arguments]

    def environment(self) -> dict[str, str]:
        """Return the environment that git runs in.

        `safe.directory` is set per call: inside a container HOME is not the image's, so a baked
        configuration would never be read.
        """
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("GIT_", "INPUT_", "ACTIONS_")) and "TOKEN" not in name.upper()
        }
        return kept | {
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": "safe.directory",
            "GIT_CONFIG_VALUE_0": "*",
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_NO_REPLACE_OBJECTS": "1",
            "LC_ALL": "C",
        }

    def output(self, *arguments: str) -> bytes:
        """Return what `git ARGUMENTS` prints.

        Raises:
            GitError: it exits with anything but 0; the sentence holds git's own first complaint.
        """
        try:
            done = self.run(
                self.command(*arguments),
                env=self.environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                check=False,
            )
        except FileNotFoundError as trouble:
            raise MissingGitError("git is not installed, or not on PATH") from trouble
        if done.returncode != 0:
            complaint = done.stderr.decode(errors="replace").strip().splitlines()
            first = complaint[0].removeprefix("fatal: ") if complaint else "it said nothing"
            raise GitError(f"git {arguments[0]} failed: {first}")
        return bytes(done.stdout)

    def commit(self, revision: str) -> str:
        """Return the full id of the commit that `revision` names.

        Raises:
            UnknownRevisionError: it names none, in one sentence.
        """
        try:
            found = self.output(
                "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}"
            )
        except GitError as trouble:
            raise UnknownRevisionError(
                f"`{revision}` names no commit in {self.repo}; fetch it, or correct --base or "
                "--head"
            ) from trouble
        return found.decode().strip()

    def merge_base(self, base: str, head: str) -> str | None:
        """Return the best common ancestor of two commits, or None when none is known here."""
        try:
            return self.output("merge-base", base, head).decode().split()[0]
        except (GitError, IndexError):
            return None

    def is_shallow(self) -> bool:
        """Tell whether history was cut off when the repository was cloned."""
        return self.output("rev-parse", "--is-shallow-repository").strip() == b"true"

    def remote(self) -> str | None:
        """Return the remote to fetch from: `origin`, else the only or first one, else None."""
        names = self.output("remote").decode().split()
        return "origin" if "origin" in names else next(iter(names), None)
