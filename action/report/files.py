"""The files of a report, and the ones that a GitHub job reads."""

from __future__ import annotations

import contextlib
import tempfile
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from action.records import Report, Selection
from action.report.comment import render_comment, render_summary
from action.report.junit import junit_xml

NAMES = ("report.json", "comment.md", "summary.md", "junit.xml")
"""The files of a report."""

_Read = TypeVar("_Read", Report, Selection)


class ReportFileError(Exception):
    """A report could not be read or written where it was asked for; one sentence says why."""


def report_files(report: Report) -> dict[str, bytes]:
    """Return the content of `report.json`, `comment.md`, `summary.md` and `junit.xml`."""
    contents = (
        (report.model_dump_json(by_alias=True, indent=2) + "\n").encode(),
        render_comment(report).encode(),
        render_summary(report).encode(),
        junit_xml(report),
    )
    return dict(zip(NAMES, contents, strict=True))


def write_report(
    report: Report, out: Path, *, spare: Callable[[], str] = tempfile.mkdtemp
) -> tuple[Path, str | None]:
    """Write the report's files into `out` and return that folder and None.

    Where `out` cannot be written the files go into the folder that `spare` makes, which is
    returned with a sentence that says so.

    Raises:
        ReportFileError: neither folder could be written.
    """
    files = report_files(report)
    try:
        _write_all(files, out)
    except OSError as trouble:
        why = f"cannot write the report to {out}: {_reason(trouble)}"
        try:
            elsewhere = Path(spare())
            _write_all(files, elsewhere)
        except OSError as more:
            raise ReportFileError(f"{why}; nor to a spare folder: {_reason(more)}") from more
        return elsewhere, f"{why}; it was written to {elsewhere} instead"
    return out, None


def prepare_folder(out: Path) -> None:
    """Make `out`, delete what an earlier run reported there, prove that it can be written.

    A report of an earlier run must not be taken for that of a run that broke down.

    Raises:
        ReportFileError: it cannot; the sentence names the folder and the system's reason.
    """
    proof = out / f".write-{uuid.uuid4().hex}"
    try:
        out.mkdir(parents=True, exist_ok=True)
        for name in NAMES:
            (out / name).unlink(missing_ok=True)
        proof.write_bytes(b"x" * 4096)
        proof.unlink()
    except OSError as trouble:
        with contextlib.suppress(OSError):
            proof.unlink(missing_ok=True)
        raise ReportFileError(
            f"cannot write to the output folder {out}: {_reason(trouble)}; "
            "give another one with --out"
        ) from trouble


def check_file(path: Path, setting: str) -> None:
    """Prove that a file can be written; it is made if it does not exist.

    Raises:
        ReportFileError: it cannot; the sentence names the setting and the system's reason.
    """
    try:
        path.open("a").close()
    except OSError as trouble:
        raise ReportFileError(f"{setting}: cannot write {path}: {_reason(trouble)}") from trouble


def read_report(path: Path) -> Report:
    """Read a `report.json`.

    Raises:
        ReportFileError: the file is missing, not JSON, or not a report of this version.
    """
    return _read(path, Report)


def read_selection(path: Path) -> Selection:
    """Read what `select --json FILE` wrote; errors as for `read_report`."""
    return _read(path, Selection)


def report_schema() -> dict[str, Any]:
    """Return the JSON Schema of `report.json`, as published in `report.schema.json`."""
    schema = Report.model_json_schema(by_alias=True, mode="serialization")
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    return schema


def write_outputs(path: Path, values: Mapping[str, str]) -> None:
    """Append step outputs to the file that `GITHUB_OUTPUT` names.

    Each value stands between random delimiters, so that no value can end its own block and begin
    another output.
    """
    blocks = []
    for name, value in values.items():
        delimiter = f"end-{uuid.uuid4().hex}"
        blocks.append(f"{name}<<{delimiter}\n{value}\n{delimiter}\n")
    _append(path, "".join(blocks))


def append_summary(path: Path, summary: str) -> None:
    """Append to the file that `GITHUB_STEP_SUMMARY` names."""
    _append(path, summary)


def _read(path: Path, record: type[_Read]) -> _Read:
    what = record.__name__.lower()
    try:
        return record.model_validate_json(path.read_bytes())
    except OSError as trouble:
        raise ReportFileError(f"cannot read the {what} {path}: {_reason(trouble)}") from trouble
    except ValidationError as trouble:
        first = trouble.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the top level"
        raise ReportFileError(
            f"{path} is not a {what} that this version wrote: {first['msg']} at {where}"
        ) from trouble


def _append(path: Path, text: str) -> None:
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(text)
    except OSError as trouble:
        raise ReportFileError(f"cannot write {path}: {_reason(trouble)}") from trouble


def _write_all(files: Mapping[str, bytes], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)


def _reason(trouble: OSError) -> str:
    return trouble.strerror or str(trouble)
