"""`run_ranks`: results, failures, hangs, and no process left behind."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from mvp_engine.testing import RankError, run_ranks


def sum_of_ranks(offset):
    total = torch.tensor([dist.get_rank() + offset])
    dist.all_reduce(total)
    return dist.get_rank(), dist.get_backend(), total.item(), os.environ["LOCAL_WORLD_SIZE"]


def one_raises_while_the_other_waits():
    if dist.get_rank() == 1:
        raise LookupError("no such shard")
    dist.barrier()


def one_is_killed():
    if dist.get_rank() == 0:
        os.kill(os.getpid(), signal.SIGKILL)


def one_never_joins(folder):
    (Path(folder) / str(dist.get_rank())).write_text(str(os.getpid()))
    if dist.get_rank() == 0:
        while True:
            time.sleep(0.1)
    return "done"


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"


def test_results_come_back_in_rank_order():
    assert run_ranks(sum_of_ranks, 2, 10, timeout_s=60) == [
        (0, "gloo", 21, "2"),
        (1, "gloo", 21, "2"),
    ]


def test_a_failing_rank_tells_its_traceback_and_stops_the_others():
    with pytest.raises(RankError) as failure:
        run_ranks(one_raises_while_the_other_waits, 2, timeout_s=60)
    text = str(failure.value)
    assert text.startswith("one_raises_while_the_other_waits on 2 ranks: a rank failed\n--- rank 0")
    assert "--- rank 1: Traceback" in text
    assert 'raise LookupError("no such shard")' in text
    assert text.rstrip().endswith("LookupError: no such shard")


def test_a_killed_rank_is_told_by_its_signal():
    with pytest.raises(RankError, match=r"--- rank 0: killed by SIGKILL"):
        run_ranks(one_is_killed, 1, timeout_s=60)


def test_a_hang_ends_with_each_ranks_stack_and_no_process_alive(tmp_path):
    with pytest.raises(RankError) as failure:
        run_ranks(one_never_joins, 2, str(tmp_path), timeout_s=15)
    text = str(failure.value)
    assert text.startswith("one_never_joins on 2 ranks: no result after 15 s\n")
    assert "--- rank 0: still running, stopped at:\n" in text
    assert "in one_never_joins" in text
    pids = [int(file.read_text()) for file in tmp_path.iterdir()]
    assert len(pids) == 2
    assert not any(alive(pid) for pid in pids)


def test_ranks_die_with_the_process_that_started_them(tmp_path):
    script = (
        "import sys; from mvp_engine.testing import run_ranks\n"
        "from tests.mvp_engine.test_ranks import one_never_joins\n"
        "if __name__ == '__main__': run_ranks(one_never_joins, 1, sys.argv[1], timeout_s=60)\n"
    )
    file = tmp_path / "starts_ranks.py"
    file.write_text(script)
    folder = tmp_path / "pids"
    folder.mkdir()
    root = Path(__file__).parents[2]
    parent = subprocess.Popen(
        [sys.executable, str(file), str(folder)], env={**os.environ, "PYTHONPATH": str(root)}
    )
    try:
        deadline = time.monotonic() + 60
        while not (pid_file := folder / "0").exists() or not pid_file.read_text():
            assert time.monotonic() < deadline
            time.sleep(0.1)
    finally:
        parent.kill()
        parent.wait()
    pid = int(pid_file.read_text())
    deadline = time.monotonic() + 10
    while alive(pid):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_function_that_ranks_cannot_find_is_refused():
    with pytest.raises(ValueError, match=r"is not at the top level of its module$"):
        run_ranks(lambda: None, 1, timeout_s=1)


def test_a_function_in_a_folder_that_cannot_be_imported_is_found_by_file(tmp_path):
    import importlib.util

    file = tmp_path / "has-hyphen" / "checks.py"
    file.parent.mkdir()
    file.write_text("class Answer(int): ...\ndef answer(): return Answer(42) + 0\n")
    spec = importlib.util.spec_from_file_location("checks_by_path", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert run_ranks(module.answer, 1, timeout_s=60) == [42]
