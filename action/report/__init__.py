"""Gaps, comment, step summary, report.json and junit.xml from the results of a run."""

from action.report.comment import headline, render_comment, render_summary
from action.report.files import (
    ReportFileError,
    append_summary,
    check_file,
    prepare_folder,
    read_report,
    read_selection,
    report_schema,
    write_outputs,
    write_report,
)
from action.report.gaps import conclude, has_failure, recipe_gaps, run_gaps
from action.report.junit import junit_xml

__all__ = [
    "ReportFileError",
    "append_summary",
    "check_file",
    "conclude",
    "has_failure",
    "headline",
    "junit_xml",
    "prepare_folder",
    "read_report",
    "read_selection",
    "recipe_gaps",
    "render_comment",
    "render_summary",
    "report_schema",
    "run_gaps",
    "write_outputs",
    "write_report",
]
