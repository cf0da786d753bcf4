"""Reading JUnit XML that may be anything but pytest's."""

import os

import pytest

from action.processes.output import read_regular
from action.stages.junit import Case, CaseFailure, UnusableXml, case_key, read_junit

HEAD = '<?xml version="1.0" encoding="utf-8"?>'
BOMB = (
    f'{HEAD}<!DOCTYPE lolz [<!ENTITY a "aaaaaaaaaa">'
    + "".join(f'<!ENTITY {x} "{f"&{y};" * 10}">' for x, y in zip("bcdefgh", "abcdefg", strict=True))
    + "]><testsuites>&h;</testsuites>"
)
NOT_PYTEST = "is not what pytest writes"


def document(*cases: str) -> str:
    return f'{HEAD}<testsuites><testsuite name="pytest">{"".join(cases)}</testsuite></testsuites>'


def case(name: str, inner: str = "") -> str:
    return f'<testcase classname="a.test_b" name="{name}" time="0.1">{inner}</testcase>'


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "is empty"),
        (HEAD[:10], NOT_PYTEST),
        (f"{HEAD}<html/>", NOT_PYTEST),
        (BOMB, NOT_PYTEST),
        (BOMB.encode("utf-16"), NOT_PYTEST),
        (document().replace("utf-8", "cp037"), NOT_PYTEST),
        (f"{HEAD}<testsuites/>", "holds no test suite"),
        (document(case("a", "\xff")).encode("latin-1"), "is cut off or broken"),
        (document(case("a"))[:-20], "is cut off or broken"),
        (b"x" * (8 * 2**20 + 1), "is larger than 8 MiB"),
        (f"{HEAD}{'<a>' * 1_000_000}{'</a>' * 1_000_000}", NOT_PYTEST),
        (f"{HEAD}<testsuites>{'<a>' * 9_000}{'</a>' * 9_000}</testsuites>", "holds no test suite"),
    ],
    ids=[
        *("empty", "cut in the head", "html", "bomb", "bomb in utf-16", "other encoding"),
        *("no suite", "not utf-8", "cut", "large", "deep", "deep within"),
    ],
)
def test_a_file_that_is_no_report(tmp_path, content, why):
    path = tmp_path / "junit.xml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    report = read_junit(path)
    assert isinstance(report, UnusableXml)
    assert report.why.startswith(why)


def test_what_is_not_a_regular_file_is_not_opened(tmp_path):
    path = tmp_path / "it"
    assert read_regular(path, 10) == "is not there"
    for make in (
        lambda: os.mkfifo(path),
        lambda: path.symlink_to("/dev/zero"),
        lambda: path.symlink_to(__file__),
    ):
        make()
        assert read_regular(path, 10) == "is not a regular file"
        path.unlink()
    path.mkdir()
    assert read_regular(path, 10) == "is not a regular file"
    assert read_regular(tmp_path / "it" / "in", 10) == "is not there"


def test_cases_are_merged_by_their_worst(tmp_path):
    path = tmp_path / "junit.xml"
    path.write_text(
        document(
            case("passes"),
            case("fails", '<failure message="assert 0">trace</failure>'),
            case("fails", '<error message="failed on teardown with &quot;E: x&quot;">t</error>'),
            case("skips", '<skipped type="pytest.skip" message="no gpu">a.py:1: no gpu</skipped>'),
            case("xfails", '<skipped type="pytest.xfail" message="bug"/>'),
            case(
                "subtests",
                '<failure message="assert 1">one</failure>'
                '<failure message="contains 1 failed subtest">one</failure>',
            ),
        )
    )
    assert read_junit(path) == (
        Case(("a.test_b", "passes"), "passed"),
        Case(
            ("a.test_b", "fails"),
            "failed",
            failures=(
                CaseFailure("call", "assert 0", "trace"),
                CaseFailure("teardown", "E: x", "t"),
            ),
        ),
        Case(("a.test_b", "skips"), "skipped", "no gpu"),
        Case(("a.test_b", "xfails"), "xfailed", "bug"),
        Case(
            ("a.test_b", "subtests"),
            "failed",
            failures=(CaseFailure("call", "assert 1", "one"),),
        ),
    )


@pytest.mark.parametrize(
    ("node_id", "key"),
    [
        ("a/test_b.py::test_c", ("a.test_b", "test_c")),
        ("a/fsdp2-x/test_b.py::TestK::test_c", ("a.fsdp2-x.test_b.TestK", "test_c")),
        ("test_b.py::test_c[x/y.py::z[1]]", ("test_b", "test_c[x/y.py::z[1]]")),
        ("a/test_b.py", ("", "a.test_b")),
    ],
)
def test_node_ids_are_found_again(node_id, key):
    assert case_key(node_id) == key
