"""Three stages in order: which stop the later ones, and which only leave a gap."""

import sys

import pytest

from action.stages import not_run

from .conftest import IMPACT, RECIPE, SMOKE, STRUCTURE

FAILS = "def test_it(): assert 0\n"


def outcomes(results):
    return [(result.id, result.outcome) for result in results]


def test_all_three_pass_and_say_so(three):
    results = three.run()
    assert outcomes(results) == [
        ("structure", "passed"),
        ("smoke", "passed"),
        ("identity", "passed"),
    ]
    assert results[2].log == "toy/identity.log"
    assert three.announced == [
        f"  structure: pytest {STRUCTURE}, at most 60 s",
        f"  structure: passed: {results[0].summary}",
        f"  smoke: pytest {SMOKE}, at most 60 s",
        f"  smoke: passed: {results[1].summary}",
        f"  identity: pytest {RECIPE}/tests/skills/fsdp2-prefetching, at most 60 s",
        f"  identity: passed: {results[2].summary}",
    ]
    left = {path.name for path in three.checkout.rglob("*") if path.is_dir()}
    assert "__pycache__" not in left
    assert ".pytest_cache" not in left


@pytest.mark.parametrize(
    ("text", "words"),
    [(FAILS, "failed"), ("import os\nos.abort()\n", "crashed")],
)
def test_a_failure_stops_the_later_stages(three, text, words):
    three.write(STRUCTURE, text)
    results = three.run()
    assert outcomes(results) == [
        ("structure", words),
        ("smoke", "not run"),
        ("identity", "not run"),
    ]
    assert [result.summary for result in results[1:]] == [f"not run: structure {words}"] * 2
    assert not (three.out / "smoke.log").exists()


def test_a_gap_does_not_stop_the_later_stages(three):
    (three.checkout / STRUCTURE).unlink()
    three.write(SMOKE, "import pytest\npytest.skip('no gpu', allow_module_level=True)\n")
    results = three.run()
    assert outcomes(results) == [
        ("structure", "missing"),
        ("smoke", "all skipped"),
        ("identity", "passed"),
    ]
    assert results[0].summary == f"there is no `{STRUCTURE}`"
    assert results[0].log is None


def test_an_identity_folder_without_a_test_file_is_missing(three):
    (three.checkout / IMPACT).rename((three.checkout / IMPACT).with_name("asserts.py"))
    result = three.run(wanted=("identity",))[2]
    assert (result.outcome, result.summary) == (
        "missing",
        f"there is no test file in `{RECIPE}/tests/skills/fsdp2-prefetching/`",
    )


def test_only_what_was_asked_for_runs(three):
    results = three.run(wanted=("identity",))
    assert outcomes(results) == [
        ("structure", "not run"),
        ("smoke", "not run"),
        ("identity", "passed"),
    ]
    assert results[0].summary == "not run: it was not asked for"
    assert results[:2] == not_run("it was not asked for", "not asked for")[:2]


def test_results_of_an_earlier_run_are_gone(three):
    three.run(wanted=("smoke",))
    assert (three.out / "smoke.xml").exists()
    three.write(SMOKE, "import os\ndef test_it(): os.abort()\n")
    assert three.run(wanted=("smoke",))[1].junit is None
    assert not (three.out / "smoke.xml").exists()


def test_an_interpreter_that_is_not_there(three, tmp_path):
    text = tmp_path / "python"
    text.write_text("not a program")
    results = three.run(python="/no/such/python")
    assert outcomes(results)[:2] == [("structure", "could not start"), ("smoke", "not run")]
    assert results[0].summary == "there is no interpreter `/no/such/python`"
    assert results[1].summary == "not run: structure could not start"
    assert three.run(python="pythom")[0].summary == "there is no interpreter `pythom` on PATH"
    assert three.run(python=str(text))[0].summary == f"`{text}` is not an executable file"
    text.chmod(0o755)
    assert three.run(python=str(text))[0].summary == f"`{text}` cannot be run: Exec format error"


def test_an_interpreter_without_pytest(three, tmp_path):
    bare = tmp_path / "bare"
    bare.write_text(f'#!/bin/sh\nexec {sys._base_executable} -S "$@"\n')
    bare.chmod(0o755)
    results = three.run(python=str(bare))
    assert (results[0].outcome, results[0].summary) == (
        "could not start",
        f"`{bare}` has no pytest",
    )


def test_an_interpreter_that_gives_up(three, tmp_path):
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\necho the licence server is away >&2\nexit 9\n")
    broken.chmod(0o755)
    result = three.run(python=str(broken))[0]
    assert (result.outcome, result.summary) == (
        "could not start",
        f"`{broken}` exited with 9 before pytest started: the licence server is away",
    )


@pytest.mark.parametrize("path", [STRUCTURE, f"{RECIPE}/tests/conftest.py"])
def test_a_missing_torch_is_the_machine_s_fault(three, path):
    three.write(
        "torch.py", "raise ModuleNotFoundError(\"No module named 'torch'\", name='torch')\n"
    )
    three.write("pytest.ini", "[pytest]\naddopts = --import-mode=importlib\npythonpath = .\n")
    three.write(path, "import torch\n")
    result = three.run()[0]
    assert (result.outcome, result.summary) == (
        "could not start",
        f"`{sys.executable}` has no torch",
    )


def test_the_folder_of_a_virtual_environment_is_kept(three, tmp_path):
    link = tmp_path / "bin" / "python"
    link.parent.mkdir()
    link.symlink_to(sys.executable)
    three.write(SMOKE, f"import sys\ndef test_it(): assert sys.executable == {str(link)!r}\n")
    (link.parent.parent / "pyvenv.cfg").write_text(
        f"home = {sys.base_prefix}/bin\ninclude-system-site-packages = false\n"
    )
    result = three.run(wanted=("smoke",), python=str(link))[1]
    # The link makes another environment, without pytest: proof that it was not resolved.
    assert result.summary == f"`{link}` has no pytest"
