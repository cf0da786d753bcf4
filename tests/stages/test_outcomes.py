"""Every way a test file can end, in a real pytest process, with its words."""

import re
import sys

import pytest
from junitparser import JUnitXml

SKIPPED = "import pytest\n@pytest.mark.skip(reason='no gpu')\ndef test_{}(): pass\n"


def without_times(sentence: str) -> str:
    return re.sub(r"\d+\.\d s", "_ s", sentence)


def test_passed(toy, smoke):
    result = smoke("def test_a(): pass\ndef test_b(): pass\n")
    assert (result.outcome, without_times(result.summary)) == ("passed", "2 tests passed in _ s")
    assert (result.tests, result.passed, result.failed, result.skipped) == (2, 2, 0, 0)
    assert (result.exit_code, result.signal, result.last_test) == (0, None, None)
    assert 0 < result.duration < 60
    assert result.command == (
        *(sys.executable, "-m", "pytest", "recipes/toy/tests/test_smoke.py"),
        *("-q", "-p", "no:cacheprovider"),
    )
    assert (result.log, result.junit) == ("toy/smoke.log", "toy/smoke.xml")
    assert b"2 passed" in toy.log("smoke")
    suites = JUnitXml.fromfile(str(toy.out / "smoke.xml"))
    assert [case.name for suite in suites for case in suite] == ["test_a", "test_b"]


def test_failed(smoke):
    result = smoke("def test_a(): pass\ndef test_b():\n    assert [1] == [2], 'first\\nsecond'\n")
    assert (result.outcome, without_times(result.summary)) == (
        "failed",
        "`test_smoke.py::test_b` failed: AssertionError: first (1 of 2 tests failed in _ s)",
    )
    assert (result.tests, result.passed, result.failed, result.exit_code) == (2, 1, 1, 1)
    (failure,) = result.failures
    assert failure.test == "recipes/toy/tests/test_smoke.py::test_b"
    assert failure.message == "AssertionError: first"
    assert failure.excerpt.splitlines()[0] == "def test_b():"
    assert failure.excerpt.splitlines()[-1].endswith("test_smoke.py:3: AssertionError")


FIXTURE = "import pytest\n@pytest.fixture\ndef it():\n    {}\n"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            FIXTURE.format("raise ValueError('no')") + "def test_a(it): pass\n",
            "`test_smoke.py::test_a` failed in its set-up: ValueError: no",
        ),
        (
            FIXTURE.format("yield; raise ValueError('no')") + "def test_a(it): pass\n",
            "`test_smoke.py::test_a` failed in its teardown: ValueError: no",
        ),
        (
            "import no_such_module\ndef test_a(): pass\n",
            "`test_smoke.py` could not be collected: "
            "ModuleNotFoundError: No module named 'no_such_module'",
        ),
        ("def test_a(:\n", "`test_smoke.py` could not be collected: SyntaxError: invalid syntax"),
        (
            "import pytest\n@pytest.mark.xfail(strict=True, reason='later')\ndef test_a(): pass\n",
            "`test_smoke.py::test_a` failed: it passed, but is marked as a strict xfail (later)",
        ),
        (
            "import unittest\nclass TestIt(unittest.TestCase):\n  def test_a(self):\n"
            "    for i in range(3):\n      with self.subTest(i=i): self.assertNotEqual(i, 1)\n",
            "`test_smoke.py::TestIt::test_a` failed: AssertionError: 1 == 1",
        ),
        (
            "import pytest\n@pytest.mark.parametrize('x', ['a::b[`c`]'])\n"
            "def test_a(x): assert 0\n",
            "`test_smoke.py::test_a[a::b['c']]` failed: assert 0",
        ),
    ],
    ids=["set-up", "teardown", "import", "syntax", "strict xfail", "subtest", "node id"],
)
def test_one_failure_in_its_own_words(smoke, text, sentence):
    result = smoke(text)
    assert (result.outcome, result.summary) == ("failed", sentence)
    assert (result.tests, result.failed, len(result.failures)) == (1, 1, 1)


def test_a_test_that_fails_and_then_fails_in_its_teardown_is_one_test(smoke):
    teardown = FIXTURE.format("yield; raise ValueError('no')")
    result = smoke(teardown + "def test_a(it): assert 0\n")
    assert (result.outcome, result.tests, result.failed) == ("failed", 1, 1)
    assert [failure.message for failure in result.failures] == ["assert 0", "ValueError: no"]


def test_failures_are_cut_to_ten_and_their_texts_to_size(smoke):
    result = smoke(
        "import pytest\n@pytest.mark.parametrize('x', range(12))\ndef test_a(x):\n"
        + "    # a line\n" * 60
        + "    raise ValueError('y' * 9_000)\n"
    )
    assert (result.failed, len(result.failures)) == (12, 10)
    assert len(result.failures[0].message) == 500
    assert len(result.failures[0].excerpt.splitlines()) == 40
    assert len(result.summary) < 400


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "import faulthandler\ndef test_a(): faulthandler._sigsegv()\n",
            "pytest was killed by SIGSEGV after _ s in `test_smoke.py::test_a`",
        ),
        (
            "import os\ndef test_a(): os.abort()\n",
            "pytest was killed by SIGABRT after _ s in `test_smoke.py::test_a`",
        ),
        (
            "import os\ndef test_a(): os.kill(os.getpid(), 9)\n",
            "pytest was killed by SIGKILL after _ s in `test_smoke.py::test_a` (out of memory?)",
        ),
        (
            "import os\nos.kill(os.getpid(), 9)\n",
            "pytest was killed by SIGKILL after _ s while it collected the tests (out of memory?)",
        ),
        (
            "import os\ndef test_a(): os._exit(0)\n",
            "the process exited with 0 in `test_smoke.py::test_a`, "
            "without pytest coming to its end",
        ),
        (
            "import os\ndef test_a(): os._exit(3)\n",
            "the process exited with 3 in `test_smoke.py::test_a`, "
            "without pytest coming to its end",
        ),
        (
            "import atexit, os\natexit.register(os._exit, 1)\ndef test_a(): pass\n",
            "pytest finished with 0, but its process exited with 1",
        ),
        (
            "import atexit, os\natexit.register(os.kill, os.getpid(), 11)\ndef test_a(): pass\n",
            "pytest was killed by SIGSEGV after _ s with its tests already done",
        ),
        (
            "def test_a(): raise KeyboardInterrupt\n",
            "pytest was interrupted in `test_smoke.py::test_a`",
        ),
        (
            "import pytest\ndef test_a(): pytest.exit('done', returncode=0)\n"
            "def test_b(): assert 0\n",
            "pytest exited with 0 in `test_smoke.py::test_a`, before all its tests had run",
        ),
        (
            "import pytest\ndef test_a(): pass\ndef test_b(): pytest.exit('done', returncode=0)\n",
            "pytest exited with 0 in `test_smoke.py::test_b`, before all its tests had run",
        ),
        (
            "import pytest\ndef test_a(): pytest.exit('done', returncode=7)\n",
            "pytest exited with 7 in `test_smoke.py::test_a`",
        ),
    ],
    ids=[
        *("SIGSEGV", "SIGABRT", "SIGKILL", "SIGKILL while collecting"),
        *("os._exit(0)", "os._exit(3)", "atexit 1", "SIGSEGV at exit", "KeyboardInterrupt"),
        *("pytest.exit 0", "pytest.exit 0 in the last test", "pytest.exit 7"),
    ],
)
def test_crashed(smoke, text, sentence):
    result = smoke(text)
    assert (result.outcome, without_times(result.summary)) == ("crashed", sentence)
    assert (result.tests, result.passed, result.failures) == (0, 0, ())


def test_a_crash_names_its_test_and_signal_and_shows_where_it_was(smoke):
    result = smoke("import faulthandler\ndef test_a(): faulthandler._sigsegv()\n")
    assert result.last_test == "recipes/toy/tests/test_smoke.py::test_a"
    assert (result.signal, result.exit_code, result.junit) == ("SIGSEGV", None, None)
    assert 'test_smoke.py", line 2 in test_a' in result.tail
    assert "_pytest" not in result.tail


def test_nothing_collected(smoke):
    result = smoke("def no_test(): pass\n")
    assert (result.outcome, result.summary, result.exit_code) == (
        "nothing collected",
        "pytest collected no test in `recipes/toy/tests/test_smoke.py`",
        5,
    )


@pytest.mark.parametrize(
    ("text", "sentence", "reasons"),
    [
        (SKIPPED.format("a"), "the only test was skipped: no gpu", ("no gpu",)),
        (
            SKIPPED.format("a") + SKIPPED.format("b"),
            "all 2 tests were skipped: no gpu (2 tests)",
            ("no gpu (2 tests)",),
        ),
        (
            "import pytest\npytest.skip('no gpu', allow_module_level=True)\n",
            "`recipes/toy/tests/test_smoke.py` skipped itself as a whole: no gpu",
            ("no gpu",),
        ),
        (
            "import pytest\n@pytest.mark.xfail(reason='bug')\ndef test_a(): assert 0\n",
            "no test passed: it failed, as its xfail mark expects: bug",
            ("it failed, as its xfail mark expects: bug",),
        ),
    ],
    ids=["one", "two", "the file", "xfail"],
)
def test_all_skipped(smoke, text, sentence, reasons):
    result = smoke(text)
    assert (result.outcome, result.summary) == ("all skipped", sentence)
    assert (result.passed, result.failed, result.skipped) == (0, 0, result.tests)
    assert result.skip_reasons == reasons


def test_all_deselected_by_the_repository_is_not_a_pass(toy, smoke):
    toy.write("pytest.ini", "[pytest]\naddopts = --import-mode=importlib -k nothing\n")
    result = smoke("def test_a(): pass\n")
    assert (result.outcome, result.summary) == (
        "all skipped",
        "the only test was skipped: deselected by the repository's pytest settings",
    )


def test_some_skipped_deselected_and_expected_to_fail(toy, smoke):
    toy.write("pytest.ini", "[pytest]\naddopts = --import-mode=importlib -k 'not slow'\n")
    result = smoke(
        SKIPPED.format("a")
        + "@pytest.mark.xfail\ndef test_b(): assert 0\n"
        + "@pytest.mark.xfail\ndef test_c(): pass\n"
        + "def test_d(): pass\ndef test_slow(): assert 0\n"
    )
    assert (result.outcome, without_times(result.summary)) == (
        "passed",
        "2 tests passed in _ s (1 of them though marked as xfail), 2 skipped, "
        "1 failed as marked (xfail)",
    )
    assert (result.tests, result.passed, result.failed, result.skipped) == (5, 2, 0, 3)
    assert result.skip_reasons == (
        "no gpu",
        "it failed, as its xfail mark expects",
        "deselected by the repository's pytest settings",
    )


def test_a_broken_conftest(toy, smoke):
    toy.write("recipes/toy/tests/conftest.py", "import no_such_module\n")
    result = smoke("def test_a(): pass\n")
    assert (result.outcome, result.exit_code, result.summary) == (
        "crashed",
        4,
        "pytest could not load `recipes/toy/tests/conftest.py`: "
        "ModuleNotFoundError: No module named 'no_such_module'",
    )


def test_settings_that_pytest_refuses(toy, smoke):
    toy.write("pytest.ini", "[pytest]\naddopts = --no-such-option\n")
    result = smoke("def test_a(): pass\n")
    assert (result.outcome, result.exit_code, result.summary) == (
        "crashed",
        4,
        "pytest refused its options, given here or in the repository's settings: "
        "unrecognized arguments: --no-such-option",
    )


@pytest.mark.parametrize("hook", ["pytest_configure(config)", "pytest_runtest_protocol(item)"])
def test_an_internal_error(toy, smoke, hook):
    toy.write("recipes/toy/tests/conftest.py", f"def {hook}: raise ValueError('no')\n")
    result = smoke("def test_a(): pass\n")
    assert (result.outcome, result.exit_code) == ("crashed", 3)
    assert re.fullmatch(
        r"pytest stopped on an internal error .*: ValueError: no", result.summary
    ), result.summary
