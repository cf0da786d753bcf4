import json
from pathlib import Path

import jsonschema
import pytest
from junitparser import JUnitXml

import action.report
from action.records import Report
from action.report import (
    ReportFileError,
    junit_xml,
    prepare_folder,
    read_report,
    read_selection,
    report_schema,
    write_outputs,
    write_report,
)

SCHEMA = Path(action.report.__file__).parent / "report.schema.json"


@pytest.fixture
def report(report_of, recipe_of, stages_of, checks_of):
    stages = stages_of(smoke="failed", identity="not run")
    return report_of(recipe_of("bad", stages=stages), recipe_of("good"))


def test_the_published_schema_is_the_records_own():
    assert json.loads(SCHEMA.read_text()) == report_schema()


def test_report_json_validates_and_comes_back_equal(report, tmp_path):
    folder, trouble = write_report(report, tmp_path / "new" / "out")
    assert trouble is None
    text = (folder / "report.json").read_text()
    schema = json.loads(SCHEMA.read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(json.loads(text), schema)
    assert read_report(folder / "report.json") == report
    assert sorted(path.name for path in folder.iterdir()) == [
        "comment.md",
        "junit.xml",
        "report.json",
        "summary.md",
    ]


def test_a_misspelt_field_does_not_validate(report):
    data = json.loads(report.model_dump_json(by_alias=True))
    data["recipes"][0]["checks"][0]["verdict"] = "passed"
    with pytest.raises(jsonschema.ValidationError, match="'passed' is not one of"):
        jsonschema.validate(data, report_schema())


def test_an_output_folder_that_cannot_be_made_moves_the_report(report, tmp_path):
    (tmp_path / "file").write_text("in the way")
    spare = tmp_path / "spare"
    folder, trouble = write_report(report, tmp_path / "file", spare=lambda: str(spare))
    assert folder == spare
    assert trouble == (
        f"cannot write the report to {tmp_path / 'file'}: File exists; "
        f"it was written to {spare} instead"
    )
    assert Report.model_validate_json((spare / "report.json").read_bytes()) == report


def test_a_full_disk_is_said_before_anything_runs():
    with pytest.raises(ReportFileError, match=r"cannot write to the output folder /dev/full: "):
        prepare_folder(Path("/dev/full"))


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, "cannot read the report {path}: No such file or directory"),
        ("{", "{path} is not a report that this version wrote: Invalid JSON"),
        ("{}", "{path} is not a report that this version wrote: Field required at conclusion"),
        (
            '{"conclusion": "great"}',
            "{path} is not a report that this version wrote: Input should be 'passed'",
        ),
    ],
)
def test_a_bad_report_is_one_sentence(tmp_path, content, sentence):
    path = tmp_path / "report.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ReportFileError) as trouble:
        read_report(path)
    assert str(trouble.value).startswith(sentence.format(path=path))


def test_a_selection_comes_back_equal(report, tmp_path):
    path = tmp_path / "selection.json"
    path.write_text(report.selection.model_dump_json(by_alias=True))
    assert read_selection(path) == report.selection


def test_junit_counts_no_unknown_as_passed(report):
    document = JUnitXml.fromstring(junit_xml(report))
    bad, good = list(document)
    assert (bad.tests, bad.failures, bad.errors, bad.skipped) == (11, 1, 0, 4)
    assert (good.tests, good.failures, good.errors, good.skipped) == (11, 0, 0, 3)


def test_an_output_cannot_end_its_own_block(tmp_path):
    path = tmp_path / "output"
    write_outputs(path, {"gaps": "1\nend-0\nconclusion<<x", "report": "r.json"})
    lines = path.read_text().splitlines()
    delimiter = lines[0].removeprefix("gaps<<")
    assert lines.index(delimiter) == 4
    assert lines[1:4] == ["1", "end-0", "conclusion<<x"]
