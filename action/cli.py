"""`fsdp2-prefetch`: what a person types, what the container runs, and the exit codes of both."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from action.pipeline import Surroundings, merge, select_recipes, validate
from action.progress import Progress
from action.records import Record, Report, Selection
from action.report import (
    ReportFileError,
    append_summary,
    check_writable,
    headline,
    render_summary,
    write_outputs,
    write_report,
)
from action.repository.git import Git, GitError
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
  fsdp2-prefetch report a/report.json b/report.json --out merged

exit codes:
  0  as required    1  a verdict fails (or a gap remains, with --fail-on gap)
  2  usage or configuration    3  infrastructure: no interpreter, no disk, a cancelled run
"""
_COMMANDS = {
    "select": "say which recipes a change affects, each with its reasons; runs nothing",
    "validate": "decide the soft items and run the tests of the recipes named or selected",
    "run": "select, validate and write the report: the whole way from a diff to a comment",
    "report": "merge report.json files of several jobs and write the report again",
}
_COMPARED = ("repo", "base", "head", "all", "recipes_root", "json_to")
_VALIDATED = (
    *_COMPARED,
    "stages",
    "out",
    "fail_on",
    "python",
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
    "report": ("reports", "out", "fail_on", "json_to"),
}
_METAVARS = {"recipes": "RECIPE", "reports": "REPORT_JSON", "base": "REV", "head": "REV"}


def main(
    argv: Sequence[str] | None = None,
    environ: Mapping[str, str] = os.environ,
    stdout: TextIO | None = None,
    stderr: TextIO | None = None,
) -> int:
    """Run one command and return its exit code; errors are one sentence on standard error."""
    stdout, stderr = stdout or sys.stdout, stderr or sys.stderr
    # A cancelled job sends SIGINT, then SIGTERM; as PID 1 neither would act by default.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    try:
        flags = _flags(argv)
        if flags["command"] is None and not environ.get("INPUT_COMMAND"):
            parser().print_help(stderr)
            return USAGE
        settings = make_settings(flags, environ)
        return _run(settings, environ, stdout, stderr)
    except SettingsError as trouble:
        print(f"fsdp2-prefetch: {trouble}", file=stderr)
        return USAGE
    except GitError as trouble:
        print(f"fsdp2-prefetch: {trouble}", file=stderr)
        return USAGE
    except (ReportFileError, StagesError) as trouble:
        print(f"fsdp2-prefetch: {trouble}", file=stderr)
        return INFRASTRUCTURE
    except KeyboardInterrupt:
        print("fsdp2-prefetch: cancelled before there was anything to report", file=stderr)
        return INFRASTRUCTURE


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
    flag = "--json" if name == "json_to" else f"--{name.replace('_', '-')}"
    if field.annotation is bool:
        sub.add_argument(flag, dest=name, action="store_const", const=True, help=text)
        return
    default = field.default
    if isinstance(default, tuple):
        default = ",".join(default)
    if default not in (None, "", Path()):
        text += f" (default: {default})"
    metavar = "FILE" if name in ("json_to", "selection", "pull_request_text") else None
    sub.add_argument(flag, dest=name, help=text, metavar=_METAVARS.get(name, metavar))


def _flags(argv: Sequence[str] | None) -> dict[str, Any]:
    given = vars(parser().parse_args(argv))
    for name in ("recipes", "reports"):
        if name in given:
            given[name] = tuple(given[name]) or None
    return given


def _run(settings: Settings, environ: Mapping[str, str], stdout: TextIO, stderr: TextIO) -> int:
    progress = Progress(stderr, in_job=environ.get("GITHUB_ACTIONS") == "true")
    if settings.command == "report":
        check_writable(settings.out)
        return _finish(merge(settings.reports), settings, environ, stdout, stderr)
    around = Surroundings(Git(settings.repo), environ, progress, time.monotonic)
    if settings.command == "select":
        selection = select_recipes(settings, around)
        _write_json(selection, settings.json_to, stdout)
        if settings.json_to != "-":
            print(selection_text(selection), file=stdout)
        _set_outputs(environ, _selection_outputs(selection))
        return OK
    check_writable(settings.out)
    with progress.group("Selecting recipes"):
        selection = select_recipes(settings, around)
        progress.line(selection_text(selection))
    report = validate(settings, around, selection)
    return _finish(report, settings, environ, stdout, stderr)


def _finish(
    report: Report,
    settings: Settings,
    environ: Mapping[str, str],
    stdout: TextIO,
    stderr: TextIO,
) -> int:
    folder, trouble = write_report(report, settings.out)
    if trouble is not None:
        print(f"fsdp2-prefetch: {trouble}", file=stderr)
    _write_json(report, settings.json_to, stdout)
    if settings.json_to != "-":
        print(headline(report), file=stdout)
        print(f"The comment is in {folder / 'comment.md'}", file=stdout)
    outputs = _selection_outputs(report.selection) | {
        "conclusion": report.conclusion,
        "gaps": str(len(report.gaps) + sum(len(recipe.gaps) for recipe in report.recipes)),
        "report": str(folder / "report.json"),
    }
    _set_outputs(environ, outputs)
    if environ.get("GITHUB_STEP_SUMMARY"):
        append_summary(Path(environ["GITHUB_STEP_SUMMARY"]), render_summary(report))
    return INFRASTRUCTURE if trouble is not None else exit_code(report, settings.fail_on)


def exit_code(report: Report, fail_on: str) -> int:
    """Return the exit code that a report's conclusion asks for."""
    if report.conclusion == "infrastructure":
        return INFRASTRUCTURE
    failing = {"fail": ("failed",), "gap": ("failed", "gaps"), "never": ()}[fail_on]
    return FAILED if report.conclusion in failing else OK


def selection_text(selection: Selection) -> str:
    """Return a selection as lines for a person."""
    lines = []
    for recipe in selection.recipes:
        lines.append(f"{recipe.name}: selected")
        for reason in recipe.reasons:
            at = f" ({reason.location})" if reason.location else ""
            through = f", through {' -> '.join(reason.chain)}" if reason.chain else ""
            lines.append(f"  - {reason.detail}{at}{through}")
    if not selection.recipes:
        lines.append("No recipe is affected.")
    lines += [f"{file.path}: not selected: {file.reason}" for file in selection.unaffected]
    return "\n".join([*lines, *selection.notes])


def _selection_outputs(selection: Selection) -> dict[str, str]:
    names = [recipe.name for recipe in selection.recipes]
    return {"recipes": json.dumps(names), "matrix": json.dumps({"recipe": names})}


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
