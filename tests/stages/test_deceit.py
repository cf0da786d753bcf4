"""Reports that a test forges or spoils: never a pass, and a sentence that says what is wrong."""

import pytest

XML = "next(a for a in sys.argv if a.startswith('--junitxml=')).partition('=')[2]"
HEAD = '<?xml version="1.0" encoding="utf-8"?>'
PASSED = (
    f'{HEAD}<testsuites><testsuite name="pytest" tests="1"><testcase classname="'
    'recipes.toy.tests.test_smoke" name="test_a" time="0.1"/></testsuite></testsuites>'
)
SPOIL = """
import atexit, os, sys
xml = {xml}
def spoil():
    {spoil}
atexit.register(spoil)
def test_a(): pass
def test_b(): pass
"""


def test_a_report_written_by_hand(smoke):
    result = smoke(
        f"import os, sys\ndef test_a():\n    open({XML}, 'w').write({PASSED!r})\n    os._exit(0)\n"
    )
    assert (result.outcome, result.summary) == (
        "crashed",
        "the process exited with 0 in `test_smoke.py::test_a`, without pytest coming to its end",
    )


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        ("os.unlink(xml)", "its JUnit XML is not there"),
        ("os.truncate(xml, 200)", "its JUnit XML is cut off or broken"),
        ("os.unlink(xml); os.mkfifo(xml)", "its JUnit XML is not a regular file"),
    ],
)
def test_a_spoiled_report(smoke, spoil, why):
    result = smoke(SPOIL.format(xml=XML, spoil=spoil))
    assert result.outcome == "crashed"
    assert result.summary.startswith(f"pytest exited with 0, but {why}"), result.summary


def test_a_report_with_a_test_too_few(smoke):
    result = smoke(SPOIL.format(xml=XML, spoil=f"open(xml, 'w').write({PASSED!r})"))
    assert (result.outcome, result.summary) == ("crashed", "2 tests ran, but the JUnit XML has 1")


def test_a_report_that_hides_a_failure(smoke):
    spoil = "text = open(xml).read().replace('failure', 'hidden'); open(xml, 'w').write(text)"
    result = smoke(
        SPOIL.format(xml=XML, spoil=spoil).replace("test_b(): pass", "test_b(): assert 0")
    )
    assert (result.outcome, result.summary) == (
        "crashed",
        "1 test failed, but in the JUnit XML 0 did",
    )


@pytest.mark.parametrize(
    ("status", "body", "sentence"),
    [
        (0, "assert 0", "pytest exited with 0, but 1 test failed"),
        (1, "pass", "pytest exited with 1, but no test failed"),
        (5, "pass", "pytest exited with 5 (no tests), but its JUnit XML has results"),
    ],
)
def test_an_exit_code_that_disagrees(toy, smoke, status, body, sentence):
    toy.write(
        "recipes/toy/tests/conftest.py",
        f"def pytest_sessionfinish(session): session.exitstatus = {status}\n",
    )
    result = smoke(f"def test_a(): {body}\n")
    assert (result.outcome, result.summary) == ("crashed", sentence)


def test_nothing_but_a_pytest_of_its_own(toy, smoke):
    toy.write("pytest.py", "print('1 passed in 0.01s')\n")
    result = smoke("def test_a(): assert 0\n")
    assert (result.outcome, result.summary) == (
        "crashed",
        "the process exited with 0, but pytest never started in it",
    )


def test_collecting_only_is_not_running(toy, smoke):
    toy.write("pytest.ini", "[pytest]\naddopts = --import-mode=importlib --collect-only\n")
    result = smoke("def test_a(): assert 0\n")
    assert result.outcome == "crashed"
    assert result.summary == "pytest exited with 0, before all its tests had run"


def test_a_forked_child_that_finishes_pytest_instead(smoke):
    # The child passes, writes the XML and ends pytest in good order; it is not the one we started.
    result = smoke(
        """
        import os
        def test_a():
            if os.fork() != 0:
                os.wait()
                os._exit(0)
        """
    )
    assert (result.outcome, result.summary) == (
        "crashed",
        "the process exited with 0 in `test_smoke.py::test_a`, without pytest coming to its end",
    )


def test_a_sidecar_full_of_nonsense_cannot_help(smoke):
    result = smoke(
        """
        import glob, os, sys
        def test_a():
            folder = os.path.dirname(next(a for a in sys.argv if "junitxml" in a).partition("=")[2])
            with open(os.path.join(folder, "sidecar"), "ab") as file:
                file.write(b'\\xff\\n[1]\\n{"event": "finish", "status": []}\\n' + b"[" * 100_000)
            os._exit(0)
        """
    )
    assert result.outcome == "crashed"
