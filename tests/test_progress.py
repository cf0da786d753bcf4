import io
import re

from action.progress import Progress


def written(in_job: bool, text: str, title: str = "toy") -> list[str]:
    stream = io.StringIO()
    progress = Progress(stream, in_job=in_job)
    with progress.group(title):
        progress.line(text)
    return stream.getvalue().splitlines()


def test_a_terminal_gets_plain_lines():
    assert written(False, "  smoke: passed") == ["toy", "  smoke: passed"]


def test_a_job_gets_a_group_in_which_no_command_acts():
    begin, stop, text, resume, end = written(True, "::set-output name=x::y", "to\ny")
    assert (begin, end) == ("::group::to y", "::endgroup::")
    word = re.fullmatch("::stop-commands::([0-9a-f]{32})", stop)[1]
    assert (text, resume) == ("::set-output name=x::y", f"::{word}::")


def test_a_group_switches_commands_off_once():
    stream = io.StringIO()
    progress = Progress(stream, in_job=True)
    with progress.group("toy"):
        progress.line("::error::one")
        progress.line("two")
    progress.line("::error::three")
    lines = stream.getvalue().splitlines()
    first, second = lines[1].split("::")[2], lines[6].split("::")[2]
    assert lines == [
        "::group::toy",
        f"::stop-commands::{first}",
        "::error::one",
        "two",
        f"::{first}::",
        "::endgroup::",
        f"::stop-commands::{second}",
        "::error::three",
        f"::{second}::",
    ]
    assert first != second


def test_the_word_that_resumes_commands_is_new_each_time():
    assert written(True, "x")[1] != written(True, "x")[1]


def test_legacy_commands_and_control_characters_lose_their_power():
    lines = written(True, "a ##[add-path]/evil\x1b[2J\rb")
    assert lines[2] == "a ## [add-path]/evil[2Jb"
