"""`fsdp2-prefetch`: what a person types, what the container runs, and the exit codes of both."""

from __future__ import annotations

import argparse
import io
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from action.edges import RecipeError, show_edges
from action.pipeline import (
    Surroundings,
    broke_down,
    merge,
    pull_request_text,
    select_recipes,
    validate,
)
from action.progress import Progress
from action.records import Observation, Record, Report, Selection
from action.report import (
    ReportFileError,
    append_summary,
    check_file,
    headline,
    prepare_folder,
    write_outputs,
    write_report,
)
from action.repository.git import Git, GitError, UnknownRevisionError
from action.settings import Settings, SettingsError, make_settings
from action.stages import StagesError

OK, FAILED, USAGE, INFRASTRUCTURE = 0, 1, 2, 3

_DESCRIPTION = """\
Tells the truth about a change that touches FSDP2 custom prefetching: which recipes it affects,
whether each hook is right, what was really run, and what is still unproved.
"""
_EPILOG = """\
examples:
  fsdp2-prefetch select --base main              which recipes does my branch affect, and why?
  fsdp2-prefetch run --base main                 check them: source, then tests, then the report
  fsdp2-prefetch validate qwen3 --stages soft    one recipe, source only: seconds, no torch
  fsdp2-prefetch run --all                       every recipe, as the nightly run does
  fsdp2-prefetch edges qwen3 --timeline q.html   what does FSDP2 do with my hook, before I push?
  fsdp2-prefetch report a/report.json b/report.json --out merged

exit codes:
  0  as required    1  a verdict fails (or a gap remains, with --fail-on gap)
  2  usage or configuration    3  infrastructure: no interpreter, no disk, a cancelled run
"""
_COMMANDS = {
    "select": "say which recipes a change affects, each with its reasons; runs nothing",
    "validate": "decide the soft items and run the tests of the recipes named or selected",
    "run": "select, validate and write the report: the whole way from a diff to a comment",
    "edges": "show, for one recipe as it lies in the folder, what FSDP2 does with its hook; no GPU",
    "report": "merge report.json files of several jobs and write the report again",
}
_COMPARED = ("repo", "base", "head", "all", "recipes_root", "json_to")
_VALIDATED = (
    *_COMPARED,
    "stages",
    "out",
    "fail_on",
    "python",
    "probe_limit",
    "compare_base",
    "probe_memory",
    "structure_limit",
    "smoke_limit",
    "identity_limit",
    "pass_env",
    "pull_request_text",
)
_FLAGS: dict[str, tuple[str, ...]] = {
    "select": _COMPARED,
    "validate": ("recipes", *_VALIDATED, "selection"),
    "run": _VALIDATED,
    "edges": (
        "recipes",
        "repo",
        "base",
        "recipes_root",
        "paths",
        "config",
        "ranks",
        "python",
        "probe_limit",
        "probe_memory",
        "pass_env",
        "timeline",
        "json_to",
    ),
    "report": ("reports", "out", "fail_on", "json_to"),
}
_METAVARS = {
    "repo": "DIR",
    "base": "REV",
    "head": "REV",
    "recipes_root": "DIR",
    "stages": "LIST",
    "out": "DIR",
    "fail_on": "fail|gap|never",
    "probe_limit": "SECONDS",
    "probe_memory": "GIB",
    "structure_limit": "SECONDS",
    "smoke_limit": "SECONDS",
    "identity_limit": "SECONDS",
    "pass_env": "LIST",
    "paths": "LIST",
    "config": "FILE",
    "timeline": "FILE",
    "pull_request_text": "FILE",
    "selection": "FILE",
    "json_to": "FILE",
}


def main(
    argv: Sequence[str] | None = None,
    environ: Mapping[str, str] = os.environ,
    stdout: TextIO | None = None,
    stderr: TextIO | None = None,
) -> int:
    """Run one command and return its exit code; errors are one sentence on standard error."""
    stdout, stderr = stdout or sys.stdout, stderr or sys.stderr
    for stream in (stdout, stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal that cannot show a character must not end the run.
            stream.reconfigure(errors="backslashreplace")
    in_job = environ.get("GITHUB_ACTIONS") == "true"
    screen, errors = Progress(stdout, in_job=in_job), Progress(stderr, in_job=in_job)
    try:
        flags = _flags(argv)
        if flags["command"] is None and not environ.get("INPUT_COMMAND"):
            parser().print_help(stderr)
            return USAGE
        with _cancellable():
            return _run(make_settings(flags, environ), environ, stdout, screen, errors)
    except (SettingsError, UnknownRevisionError, RecipeError) as trouble:
        errors.line(f"fsdp2-prefetch: {trouble}")
        return USAGE
    except (ReportFileError, StagesError, GitError) as trouble:
        errors.line(f"fsdp2-prefetch: {trouble}")
        return INFRASTRUCTURE
    except KeyboardInterrupt:
        errors.line("fsdp2-prefetch: cancelled before there was anything to report")
        return INFRASTRUCTURE
    except BrokenPipeError:
        # Whoever reads has gone; what is still buffered must not raise at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return INFRASTRUCTURE
    except Exception as trouble:
        # Python's own exit code for a traceback is 1, which here would be a verdict.
        errors.line(f"fsdp2-prefetch: {broke_down(trouble)}")
        return INFRASTRUCTURE


@contextmanager
def _cancellable() -> Iterator[None]:
    """Turn the first SIGINT or SIGTERM into a KeyboardInterrupt, and ignore the ones after it.

    A cancelled job sends SIGINT, then SIGTERM; as PID 1 neither would act by default. After the
    first one the report is written, which the second must not prevent.
    """

    def cancel(number: int, frame: object) -> None:
        for each in numbers:
            signal.signal(each, signal.SIG_IGN)
        raise KeyboardInterrupt

    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, cancel) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def parser() -> argparse.ArgumentParser:
    """Return the command line's parser; every flag's help is the setting's description."""
    top = argparse.ArgumentParser(
        prog="fsdp2-prefetch",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = top.add_subparsers(dest="command", metavar="COMMAND")
    for command, text in _COMMANDS.items():
        sub = commands.add_parser(command, help=text, description=f"{text[0].upper()}{text[1:]}.")
        for name in _FLAGS[command]:
            _add_flag(sub, name)
    return top


def _add_flag(sub: argparse.ArgumentParser, name: str) -> None:
    field = Settings.model_fields[name]
    text = (field.description or "").replace("%", "%%")
    if name in ("recipes", "reports"):
        sub.add_argument(name, nargs="*" if name == "recipes" else "+", help=text)
        return
    flag = {"json_to": "--json", "paths": "--path"}.get(name) or f"--{name.replace('_', '-')}"
    if field.annotation is bool:
        sub.add_argument(flag, dest=name, action="store_const", const=True, help=text)
        return
    default = field.default
    if isinstance(default, tuple):
        default = ",".join(default)
    if default not in (None, "", Path()):
        text += f" (default: {default})"
    sub.add_argument(flag, dest=name, help=text, metavar=_METAVARS.get(name))


def _flags(argv: Sequence[str] | None) -> dict[str, Any]:
    given = vars(parser().parse_args(argv))
    for name in ("recipes", "reports"):
        if name in given:
            given[name] = tuple(given[name]) or None
    return given


def _run(
    settings: Settings,
    environ: Mapping[str, str],
    stdout: TextIO,
    screen: Progress,
    errors: Progress,
) -> int:
    if settings.json_to not in (None, "-"):
        check_file(Path(str(settings.json_to)), "--json")
    if settings.command == "select":
        around = Surroundings(Git(settings.repo), environ, errors, time.monotonic)
        selection = select_recipes(settings, around)
        _write_json(selection, settings.json_to, stdout)
        if settings.json_to != "-":
            screen.line(selection_text(selection))
        _set_outputs(environ, _selection_outputs(selection))
        return OK
    if settings.command == "edges":
        observation = show_edges(settings, environ, screen, errors)
        _write_json(observation, settings.json_to, stdout)
        return _edges_code(observation)
    report, settings, moved = _report(settings, environ, errors)
    code = exit_code(report, settings.fail_on)
    folder, trouble = write_report(report, settings.out)
    if trouble is not None:
        errors.line(f"fsdp2-prefetch: {trouble}")
    _write_json(report, settings.json_to, stdout)
    if settings.json_to != "-":
        screen.line(f"{headline(report)}\nThe comment is in {folder / 'comment.md'}")
    _set_outputs(environ, _report_outputs(report, folder))
    if environ.get("GITHUB_STEP_SUMMARY"):
        summary = (folder / "summary.md").read_text(encoding="utf-8")
        append_summary(Path(environ["GITHUB_STEP_SUMMARY"]), summary)
    return INFRASTRUCTURE if moved or trouble is not None else code


def _report(
    settings: Settings, environ: Mapping[str, str], errors: Progress
) -> tuple[Report, Settings, bool]:
    """Return the report, the settings with the folder to write it to, and whether that moved."""
    text = pull_request_text(settings)
    git = None if settings.command == "report" else Git(settings.repo)
    moved = False
    try:
        prepare_folder(settings.out)
    except ReportFileError as trouble:
        spare = Path(tempfile.mkdtemp(prefix="fsdp2-prefetch-out-"))
        errors.line(f"fsdp2-prefetch: {trouble}; this report goes to {spare}")
        settings, moved = settings.model_copy(update={"out": spare}), True
    if git is None:
        return merge(settings.reports, environ), settings, moved
    around = Surroundings(git, environ, errors, time.monotonic)
    with errors.group("Selecting recipes"):
        selection = select_recipes(settings, around)
        errors.line(selection_text(selection))
    return validate(settings, around, selection, text), settings, moved


def _edges_code(observation: Observation) -> int:
    """Return 0 without a finding, 1 with one, 3 when nothing could be seen."""
    if observation.outcome != "observed":
        return INFRASTRUCTURE
    return FAILED if any(f.verdict == "fail" for f in observation.findings) else OK


def exit_code(report: Report, fail_on: str) -> int:
    """Return the exit code that a report's conclusion asks for."""
    if report.conclusion == "infrastructure":
        return INFRASTRUCTURE
    failing = {"fail": ("failed",), "gap": ("failed", "gaps"), "never": ()}[fail_on]
    return FAILED if report.conclusion in failing else OK


def selection_text(selection: Selection) -> str:
    """Return a selection as lines for a person; a name with a newline in it stays on its line."""
    lines: list[str] = []
    for recipe in selection.recipes:
        lines.append(f"{recipe.name}: selected")
        for reason in recipe.reasons:
            at = f" ({reason.location})" if reason.location else ""
            through = f", through {' -> '.join(reason.chain)}" if reason.chain else ""
            lines.append(f"  - {reason.detail}{at}{through}")
    if not selection.recipes:
        lines.append("No recipe is affected.")
    lines += [f"{file.path}: not selected: {file.reason}" for file in selection.unaffected]
    return "\n".join(line.replace("\n", "\\n") for line in [*lines, *selection.notes])


def _selection_outputs(selection: Selection) -> dict[str, str]:
    names = [recipe.name for recipe in selection.recipes]
    return {"recipes": json.dumps(names), "matrix": json.dumps({"recipe": names})}


def _report_outputs(report: Report, folder: Path) -> dict[str, str]:
    return _selection_outputs(report.selection) | {
        "conclusion": report.conclusion,
        "gaps": str(len(report.gaps) + sum(len(recipe.gaps) for recipe in report.recipes)),
        "report": str(folder / "report.json"),
    }


def _write_json(record: Record, path: str | None, stdout: TextIO) -> None:
    if path is None:
        return
    text = record.model_dump_json(by_alias=True, indent=2) + "\n"
    if path == "-":
        stdout.write(text)
        return
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as trouble:
        raise ReportFileError(f"--json: cannot write {path}: {trouble.strerror}") from trouble


def _set_outputs(environ: Mapping[str, str], outputs: Mapping[str, str]) -> None:
    if environ.get("GITHUB_OUTPUT"):
        write_outputs(Path(environ["GITHUB_OUTPUT"]), outputs)
