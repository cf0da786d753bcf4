"""Output folders that cannot be written, and links planted in them."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from action.processes import output as output_module
from action.stages import StagesError

ROOT = Path(__file__).resolve().parents[2]


def test_a_file_in_the_place_of_the_folder(three):
    three.out.parent.mkdir(parents=True)
    three.out.write_text("in the way")
    with pytest.raises(StagesError) as trouble:
        three.run()
    assert str(trouble.value) == (
        f"cannot write to the output folder {three.out}: File exists; give another one with --out"
    )


def test_a_device_as_folder(three):
    three.out = Path("/dev/full/toy")
    with pytest.raises(
        StagesError, match=r"^cannot write to the output folder /dev/full/toy: Not a"
    ):
        three.run()


def test_a_read_only_folder(three):
    if os.getuid() != 0:
        pytest.skip("changing the user needs root")
    three.out.mkdir(parents=True)
    three.out.chmod(0o555)
    # Root writes anywhere, so that the attempt is made as nobody.
    attempt = (
        "import os, sys, time; from pathlib import Path; from action.stages import *\n"
        "os.setuid(65534)\n"
        "from action.processes.output import Log, writing\n"
        "try:\n  with writing(Path(sys.argv[1])): Log(Path(sys.argv[1]) / 'smoke.log')\n"
        "except StagesError as trouble: print(trouble)"
    )
    for folder in (three.out.parent.parent, three.out.parent):
        folder.chmod(0o755)
    # pytest's own folder is closed to others.
    moved = Path("/tmp") / f"read-only-{os.getpid()}"
    three.out.rename(moved)
    try:
        printed = subprocess.run(
            [sys.executable, "-c", attempt, str(moved)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    finally:
        moved.rmdir()
    assert printed == (
        f"cannot write to the output folder {moved}: Permission denied; "
        "give another one with --out\n"
    )


@pytest.fixture
def small_disk(tmp_path):
    """A disk of 3 MiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(disk)], capture_output=True
    )
    if mounted.returncode != 0:
        pytest.skip("mounting a small disk needs the right to")
    yield disk
    subprocess.run(["umount", "--lazy", str(disk)], check=True)


def test_a_disk_that_is_full(three, small_disk):
    three.out = small_disk / "toy"
    (small_disk / "filler").write_bytes(b"x" * (5 * 2**19))
    with pytest.raises(StagesError) as trouble:
        three.run()
    assert str(trouble.value) == (
        f"cannot write to the output folder {three.out}: its disk is full; free some space, or "
        "give another one with --out"
    )


def test_a_disk_that_fills_meanwhile_is_not_a_failing_test(three, small_disk):
    three.out = small_disk / "toy"
    three.write(
        "recipes/toy/tests/test_structure.py",
        """
        import os
        def test_a(capfd):
            with capfd.disabled():
                while True:
                    os.write(1, b"x" * 65536)
        """,
    )
    with pytest.raises(StagesError, match="its disk is full"):
        three.run()


def test_an_error_while_the_log_is_trimmed(three, monkeypatch):
    def full(self) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(output_module.Log, "trim", full)
    with pytest.raises(
        StagesError, match=r": No space left on device; give another one with --out$"
    ):
        three.run()


def test_links_planted_in_the_folder_are_not_followed(three, tmp_path):
    precious = tmp_path / "precious"
    precious.write_text("keep me")
    three.out.mkdir(parents=True)
    for name in ("smoke.log", "smoke.xml"):
        (three.out / name).symlink_to(precious)
    assert three.run(wanted=("smoke",))[1].outcome == "passed"
    assert precious.read_text() == "keep me"
    assert not (three.out / "smoke.log").is_symlink()

    elsewhere = three.out.with_name("elsewhere")
    three.out.rename(elsewhere)
    three.out.symlink_to(elsewhere)
    with pytest.raises(StagesError, match="it is a symbolic link; remove it"):
        three.run()
