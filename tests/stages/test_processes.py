"""What hangs, escapes or floods is ended, and no process is left."""

import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from action.processes import command
from action.processes.command import Ended, StartError, run_to_end
from action.processes.output import LOG_LIMIT

ROOT = Path(__file__).resolve().parents[2]
CHILD = "import time; time.sleep(600)"


class UntilMarked:
    """A clock that jumps beyond every limit once the file at `marker` has a line."""

    def __init__(self, marker: Path):
        self.marker = marker

    def __call__(self) -> float:
        ready = self.marker.exists() and self.marker.read_text().endswith("\n")
        return time.monotonic() + (10_000 if ready else 0)


@pytest.fixture
def marker(tmp_path):
    return tmp_path / "pids"


def alive(pid: str) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def hangs(marker: Path, *, first: str = "", pids: str = "[os.getpid()]") -> str:
    return textwrap.dedent(
        f"""
        import os, signal, subprocess, sys, time
        def test_a():
            {first or "pass"}
            with open({str(marker)!r}, "w") as file:
                file.write(" ".join(map(str, {pids})) + "\\n")
            time.sleep(600)
        """
    )


def test_a_hang_is_stopped_at_its_limit(smoke, marker):
    result = smoke(hangs(marker), clock=UntilMarked(marker), limit=1234.5)
    assert (result.outcome, result.summary) == (
        "timed out",
        "stopped at its limit of 1234.5 s in `test_smoke.py::test_a`",
    )
    assert result.last_test == "recipes/toy/tests/test_smoke.py::test_a"
    assert (result.exit_code, result.signal, result.junit) == (None, None, None)
    # Where it hangs, from its own stack.
    assert 'test_smoke.py", line 7 in test_a' in result.tail
    assert not alive(marker.read_text().strip())


def test_a_hang_before_the_first_test(smoke, marker):
    text = f"import time\nopen({str(marker)!r}, 'w').write('\\n')\ntime.sleep(600)\n"
    result = smoke(text, clock=UntilMarked(marker))
    assert result.summary == "stopped at its limit of 60 s while it collected the tests"
    assert result.last_test is None


def test_a_real_limit_by_a_real_clock(tmp_path):
    begin = time.monotonic()
    ended = run_to_end(
        ["sleep", "600"],
        cwd=tmp_path,
        environ={"PATH": "/usr/bin:/bin"},
        output=subprocess.DEVNULL,
        limit=0.5,
        clock=time.monotonic,
    )
    assert ended.timed_out
    assert 0.5 <= ended.duration <= time.monotonic() - begin < 10


def test_a_thread_that_keeps_the_process_alive_is_told_from_a_hanging_test(smoke, marker):
    text = f"""
        import threading, time
        def linger():
            threading.main_thread().join()  # over when pytest has finished
            with open({str(marker)!r}, "w") as file:
                file.write("\\n")
            time.sleep(600)
        def test_a():
            threading.Thread(target=linger).start()
    """
    result = smoke(text, clock=UntilMarked(marker))
    assert result.summary == "stopped at its limit of 60 s with its tests already done"


def test_one_that_ignores_sigterm_is_killed(tmp_path, marker):
    text = (
        "import signal, time\n"
        "for number in (signal.SIGTERM, signal.SIGUSR1): signal.signal(number, signal.SIG_IGN)\n"
        f"open({str(marker)!r}, 'w').write('ready\\n'); time.sleep(600)"
    )
    begin = time.monotonic()
    ended = run_to_end(
        [sys.executable, "-c", text],
        cwd=tmp_path,
        environ={},
        output=subprocess.DEVNULL,
        limit=60,
        clock=UntilMarked(marker),
        grace=0.5,
    )
    assert (ended.timed_out, ended.exit_code, ended.signal) == (True, None, None)
    assert time.monotonic() - begin < 15


ESCAPES = {
    "in the group": f"p = subprocess.Popen([sys.executable, '-c', {CHILD!r}])",
    "in a session of its own": (
        f"p = subprocess.Popen([sys.executable, '-c', {CHILD!r}], start_new_session=True)"
    ),
    "without the environment": (
        f"p = subprocess.Popen([sys.executable, '-c', {CHILD!r}], start_new_session=True, env={{}})"
    ),
}


@pytest.mark.parametrize("start", ESCAPES.values(), ids=ESCAPES)
def test_what_a_hanging_test_started_is_killed_too(smoke, marker, start):
    text = hangs(marker, first=start, pids="[os.getpid(), p.pid]")
    result = smoke(text, clock=UntilMarked(marker))
    assert result.outcome == "timed out"
    pids = marker.read_text().split()
    assert len(pids) == 2
    assert [pid for pid in pids if alive(pid)] == []


def test_an_orphan_in_a_session_of_its_own_is_killed_after_a_pass(smoke, marker):
    # Its parent is gone by the time the tests end, its environment is empty, and it holds the log.
    daemon = f"import os; os.setsid(); os.fork() and os._exit(0); open({str(marker)!r}, 'w').write"
    daemon += f"(str(os.getpid())); {CHILD}"
    result = smoke(
        f"""
        import os, subprocess, sys, time
        def test_a():
            subprocess.run([sys.executable, "-c", {daemon!r}], env={{}}, check=True)
            while not (os.path.exists({str(marker)!r}) and os.path.getsize({str(marker)!r})):
                time.sleep(0.01)
        """
    )
    assert result.outcome == "passed"
    assert not alive(marker.read_text())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_leaves_no_process(toy, marker, number):
    start = ESCAPES["in a session of its own"]
    toy.write(
        "recipes/toy/tests/test_smoke.py",
        hangs(marker, first=start, pids="[os.getpid(), p.pid]"),
    )
    run = f"""
        import os, signal, sys, time
        from pathlib import Path
        from action.stages import StagesInterrupted, run_stages
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            run_stages(
                "recipes/toy", Path({str(toy.checkout)!r}), Path({str(toy.out)!r}),
                python=sys.executable, wanted=("smoke",), limits={{"smoke": 600.0}},
                environ=os.environ, announce=lambda line: None, clock=time.monotonic,
            )
        except StagesInterrupted as stop:
            print(*(f"{{r.id}}: {{r.summary}}" for r in stop.results), sep="\\n")
    """
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(run)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    give_up = time.monotonic() + 30
    while not (marker.exists() and marker.read_text().endswith("\n")):
        assert time.monotonic() < give_up
        time.sleep(0.02)
    begin = time.monotonic()
    process.send_signal(number)
    printed, _ = process.communicate(timeout=20)
    assert time.monotonic() - begin < 5
    assert printed.splitlines() == [
        "structure: not run: it was not asked for",
        "smoke: not run: the run was cancelled while it ran",
        "identity: not run: the run was cancelled",
    ]
    assert [pid for pid in marker.read_text().split() if alive(pid)] == []


def test_a_second_signal_does_not_cut_the_killing_short(tmp_path, marker, monkeypatch):
    look = command._descendants
    signals = iter([signal.SIGINT])

    def look_while_cancelled(mark: str, older: frozenset[int]) -> set[int]:
        for number in signals:
            signal.raise_signal(number)
        return look(mark, older)

    monkeypatch.setattr(command, "_descendants", look_while_cancelled)
    text = (
        f"import subprocess, sys; p = subprocess.Popen([sys.executable, '-c', {CHILD!r}], "
        f"start_new_session=True); open({str(marker)!r}, 'w').write(str(p.pid))"
    )
    with pytest.raises(KeyboardInterrupt):
        run_to_end(
            [sys.executable, "-c", text],
            cwd=tmp_path,
            environ={},
            output=subprocess.DEVNULL,
            limit=60,
            clock=time.monotonic,
        )
    assert not alive(marker.read_text())


def test_a_process_of_ours_is_left_alone(smoke):
    with subprocess.Popen([sys.executable, "-c", CHILD]) as other:
        try:
            assert smoke("def test_a(): pass\n").outcome == "passed"
            assert other.poll() is None
        finally:
            other.kill()


def test_standard_input_is_empty(smoke):
    assert smoke("import os\ndef test_a(): assert os.read(0, 1) == b''\n").outcome == "passed"


def test_how_a_command_ends(tmp_path):
    def run(*command: str) -> Ended:
        return run_to_end(
            command,
            cwd=tmp_path,
            environ={},
            output=subprocess.DEVNULL,
            limit=20,
            clock=lambda: 0.0,
        )

    assert run("/bin/sh", "-c", "exit 7") == Ended(7, None, False, 0.0)
    assert run("/bin/sh", "-c", "kill -40 $$") == Ended(None, "signal 40", False, 0.0)
    with pytest.raises(StartError, match=r"^No such file or directory$"):
        run("/no/such/program")


def test_a_flood_of_output_keeps_its_beginning_and_its_end(toy, smoke):
    result = smoke(
        f"""
        import os
        def test_a():
            os.write(1, b"first line\\n")
        def test_flood(capfd):
            with capfd.disabled():
                os.write(1, b"the beginning\\n")
                for _ in range({3 * LOG_LIMIT} // 2**20):
                    os.write(1, (b"x" * 1023 + b"\\n") * 1024)
        """
    )
    assert (result.outcome, result.tests) == ("passed", 2)
    log = toy.log("smoke")
    # The last look at the size may come after a last burst, but the log never keeps it.
    assert len(log) <= LOG_LIMIT
    assert b"the beginning" in log[:1000]
    assert b"[here output is missing: it grew beyond 32 MiB]" in log
    assert b"2 passed" in log[-1000:]
    assert len(result.tail) < 41 * 501


def test_output_that_is_no_text_and_commands_stay_in_the_file(toy, smoke):
    result = smoke(
        rb"""
import os
def test_a(capfd):
    with capfd.disabled():
        os.write(1, b"\xff\xfe\x00 \x1b[31mred\x1b[0m \xe2\x80\xaereversed 10%\r 50%\r100%\r\n")
        os.write(1, b"::set-output name=recipes::all\n##[command]curl\n")
    os._exit(1)
"""
    )
    assert result.outcome == "crashed"
    lines = result.tail.splitlines()
    assert lines[-3:] == ["100%", "::set-output name=recipes::all", "##[command]curl"]
    assert b"\x1b[31mred" in toy.log("smoke")
    assert toy.announced[-1] == "  identity: not run: it was not asked for"
    assert not any("set-output" in line for line in toy.announced)


def test_no_descriptor_is_left_open(smoke):
    smoke("def test_a(): pass\n")
    before = len(list(Path("/proc/self/fd").iterdir()))
    smoke("import os\ndef test_a(): os._exit(0)\n")
    assert len(list(Path("/proc/self/fd").iterdir())) == before
