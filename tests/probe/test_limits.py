"""What runs too long, takes too much, dies or forges its answer ends in a sentence of its own."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from action.probe import Limits
from tests.probe.conftest import observe_all, observe_one
from tests.probe.test_bad_probes import building

FORGED = "the process ended with an answer that is not the worker's: something in it wrote there"
GOOD = """
def build(*, device_mesh, overrides=()):
    model = wrapped(device_mesh)
    return SimpleNamespace(model=model, paths={"train": lambda: model(inputs())})
"""

TEXTS = {
    "exit 0 in build": (building("os._exit(0)"), "exited with code 0 while building the model"),
    "exit 3 in import": ("os._exit(3)", "exited with code 3 while importing probe.py"),
    "exit in a path": (
        GOOD.replace("model(inputs())", "os._exit(4)"),
        "exited with code 4 while running path `train`, step 1, without edges",
    ),
    "segfault": (
        building("import ctypes\n    ctypes.string_at(0)  # here"),
        "was killed by SIGSEGV while building the model (probe.py:{line})",
    ),
    "killed": (
        building("os.kill(os.getpid(), 9)"),
        "was killed by SIGKILL while building the model",
    ),
}


def test_a_process_that_dies_is_told_with_what_it_did(tmp_path: Path):
    seen = observe_all(tmp_path, {name: text for name, (text, _) in TEXTS.items()})
    for name, (text, expected) in TEXTS.items():
        request, observation = seen[name]
        lines = request.probe.read_text().splitlines()
        line = next((n for n, found in enumerate(lines, 1) if "# here" in found), 0)
        assert observation.outcome == "crashed", name
        assert observation.summary == "the process " + expected.replace("{line}", str(line)), text
    assert "ctypes" in seen["segfault"][1].tail


def test_an_endless_loop_is_told_with_its_line(tmp_path: Path):
    text = building("while True: time.sleep(0.01)  # here")
    seen = observe_all(tmp_path, {"case": text}, Limits(seconds=3))
    request, observation = seen["case"]
    lines = request.probe.read_text().splitlines()
    line = next(n for n, found in enumerate(lines, 1) if "# here" in found)
    assert observation.outcome == "timed out"
    assert observation.summary == (f"stopped after 3 s while building the model (probe.py:{line})")
    assert f"line {line} in build" in observation.tail


def test_too_much_memory_is_told(tmp_path: Path):
    text = building(
        "kept = []\n    while True: kept.append(bytearray(b'x') * 2**24); time.sleep(.01)"
    )
    observation = observe_one(tmp_path, text, Limits(seconds=60, memory=3 * 2**30))
    assert observation.outcome == "out of memory"
    assert observation.summary == (
        "stopped when it used more than 3 GiB of memory while building the model"
    )


def test_output_without_end_is_cut_and_nothing_waits_for_it(tmp_path: Path):
    noise = "for _ in range(300):\n    print('x' * 10_000)\n    sys.stderr.write('y' * 10_000)\n"
    observation = observe_one(tmp_path, noise + GOOD)
    assert observation.outcome == "observed"
    loud = "for _ in range(300): print('x' * 10_000)\nraise ValueError('last words')\n"
    observation = observe_one(tmp_path, loud, name="loud")
    assert observation.summary.startswith("probe.py cannot be imported: ValueError: last words")
    assert len(observation.tail) < 32_000


@pytest.mark.parametrize(
    "forged",
    [
        "open(answer, 'w').write('{ garbage')",
        "open(answer, 'w').write('[' * 100_000)",
        "open(answer, 'w').write('[1]')",
        "open(answer, 'w').truncate(2**40)",
        "os.mkfifo(answer)",
        "os.symlink('/dev/zero', answer)",
    ],
)
def test_a_forged_file_is_no_answer(forged: str, tmp_path: Path):
    text = building(f"answer = result()\n    {forged}\n    os._exit(0)")
    observation = observe_one(tmp_path, text)
    assert (observation.outcome, observation.summary) == ("crashed", FORGED)


@pytest.mark.parametrize(
    "forged",
    [
        '{"outcome": "observed", "paths": 5}',
        '{"outcome": "observed", "units": [3], "paths": [{"passes": [3]}]}',
        '{"outcome": "cannot build"}',
        '{"outcome": "observed", "paths": []}',
    ],
)
def test_a_forged_answer_stops_no_other_recipe(forged: str, tmp_path: Path):
    text = building(f"open(result(), 'w').write('''{forged}''')\n    os._exit(0)")
    seen = observe_all(tmp_path, {"forged": text, "good": GOOD}, Limits(seconds=60, parallel=1))
    assert seen["good"][1].outcome == "observed"
    assert seen["forged"][1].outcome == "crashed"


def test_no_process_survives_and_none_holds_the_worker_up(tmp_path: Path):
    pids = tmp_path / "pids"
    daemon = f"""
if os.fork() == 0:
    os.setsid()
    open({str(pids)!r}, "a").write(f"{{os.getpid()}}\\n")
    while True:
        print("still here", flush=True)
if os.fork() == 0:
    open({str(pids)!r}, "a").write(f"{{os.getpid()}}\\n")
    time.sleep(1_000)
"""
    observation = observe_one(tmp_path, daemon + GOOD)
    assert observation.outcome == "observed", observation
    for pid in map(int, pids.read_text().split()):
        with pytest.raises(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def test_a_forked_copy_does_not_answer_for_the_recipe(tmp_path: Path):
    observation = observe_one(tmp_path, "os.fork()\n" + GOOD)
    assert observation.outcome == "observed", observation
