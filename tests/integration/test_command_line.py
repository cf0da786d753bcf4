"""The command line on real repositories and real pytest processes: exit codes, sentences, files."""

from __future__ import annotations

import io
import json
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from action.cli import FAILED, INFRASTRUCTURE, OK, USAGE, main
from action.records import Report, Selection

ROOT = Path(__file__).resolve().parents[2]
IMPACT = "recipes/toy/tests/skills/fsdp2-prefetching/test_prefetch_edges_impact.py"
SMOKE = "recipes/toy/tests/test_smoke.py"


class Ran:
    """One call of the command: its exit code, what it printed, and the report it wrote."""

    def __init__(self, repository, tmp_path, *arguments, environ=None):
        self.out = tmp_path / "out"
        stdout, stderr = io.StringIO(), io.StringIO()
        command, *rest = arguments
        flags = ["--repo", str(repository.path)] if command != "report" else []
        if command in ("run", "validate"):
            flags += ["--python", sys.executable]
        if command != "select" and "--out" not in rest:
            flags += ["--out", str(self.out)]
        environ = {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], **(environ or {})}
        self.code = main([command, *rest, *flags], environ, stdout, stderr)
        self.stdout, self.stderr = stdout.getvalue(), stderr.getvalue()

    @property
    def report(self) -> Report:
        return Report.model_validate_json((self.out / "report.json").read_bytes())

    @property
    def comment(self) -> str:
        return (self.out / "comment.md").read_text(encoding="utf-8")

    def outcomes(self, recipe: int = 0) -> list[tuple[str, str]]:
        return [(stage.id, stage.outcome) for stage in self.report.recipes[recipe].stages]


@pytest.fixture
def ran(repository, tmp_path):
    def call(*arguments: str, environ: dict[str, str] | None = None) -> Ran:
        return Ran(repository, tmp_path, *arguments, environ=environ)

    return call


def test_a_healthy_change_goes_all_the_way(repository, ran, edited_model):
    base = repository.git("rev-parse", "main")
    head = repository.commit_files(
        {
            "recipes/toy/model.py": edited_model("block, following", "block, next_block")
            .replace("[following]", "[next_block]")
            .replace("following.set", "next_block.set")
        }
    )
    result = ran("run", "--base", "main")
    assert result.code == OK
    report = result.report
    assert (report.selection.base, report.selection.head) == (base, head)
    assert [recipe.name for recipe in report.recipes] == ["toy"]
    verdicts = {check.id: check.verdict for check in report.recipes[0].checks}
    assert verdicts == {
        "hook-bound": "pass",
        "wrap-targets": "pass",
        "forward-edges": "unknown",
        "backward-edges": "unknown",
        "idempotent": "pass",
        "attributes-merged": "not applicable",
        "stays-local": "pass",
        "honest-claims": "pass",
    }
    assert result.outcomes() == [
        ("structure", "passed"),
        ("smoke", "passed"),
        ("identity", "passed"),
    ]
    assert report.conclusion == "gaps"
    assert [gap.id for gap in report.recipes[0].gaps] == [
        "item:edges",
        "smoke:not-evidenced",
        "smoke:no-gpus",
        "identity:not-mutated",
    ]
    assert result.stdout.startswith("⚠️ FSDP2 prefetching: no failure in 1 recipe, 4 gaps remain\n")


def test_with_fail_on_gap_a_gap_fails(repository, ran):
    assert ran("run", "--all", "--fail-on", "gap").code == FAILED


def test_a_failing_identity_test_fails_unless_told_never(repository, ran):
    repository.commit_files({IMPACT: "def test_edges():\n    assert ['a'] == ['b']\n"})
    result = ran("run", "--base", "main")
    assert result.code == FAILED
    assert result.outcomes()[2] == ("identity", "failed")
    assert "test_edges" in result.comment
    assert ran("run", "--base", "main", "--fail-on", "never").code == OK


def test_a_change_that_affects_nothing_is_a_result(repository, ran):
    repository.commit_files({"README.md": "# Another title\n"})
    result = ran("run", "--base", "main")
    assert result.code == OK
    assert result.report.conclusion == "nothing selected"
    assert [file.path for file in result.report.selection.unaffected] == ["README.md"]
    assert "README.md" in result.comment


def test_select_writes_the_same_selection_as_the_report(repository, ran, tmp_path):
    repository.commit_files({"recipes/toy/configs/tiny.yaml": "engine: toy\noptim: {lr: 1}\n"})
    path = tmp_path / "selection.json"
    selected = ran("select", "--base", "main", "--json", str(path))
    assert selected.code == OK
    assert selected.stdout.startswith("toy: selected\n")
    selection = Selection.model_validate_json(path.read_bytes())
    result = ran("validate", "--selection", str(path), "--stages", "soft")
    assert result.report.selection == selection
    assert [outcome for _, outcome in result.outcomes()] == ["not run"] * 3


def test_json_on_standard_output_is_json_alone(repository, ran):
    data = json.loads(ran("select", "--all", "--json", "-").stdout)
    assert data["mode"] == "all"
    assert [recipe["name"] for recipe in data["recipes"]] == ["toy"]


def test_validate_by_name_says_so(repository, ran):
    result = ran("validate", "toy", "--base", "main", "--stages", "soft")
    assert [r.rule for r in result.report.selection.recipes[0].reasons] == ["asked"]
    assert result.report.asked == ("toy",)


def test_reports_of_several_jobs_are_merged(repository, ran, tmp_path):
    repository.commit_files({"recipes/other/__init__.py": "", "recipes/other/model.py": "X = 1\n"})
    selection = tmp_path / "selection.json"
    assert ran("select", "--all", "--json", str(selection)).code == OK
    parts = []
    for name in ("toy", "other"):
        part = tmp_path / name
        call = ("validate", name, "--selection", str(selection), "--stages", "soft")
        ran(*call, "--out", str(part))
        parts.append(str(part / "report.json"))
    merged = ran("report", *parts)
    assert [recipe.name for recipe in merged.report.recipes] == ["toy", "other"]
    assert (merged.report.gaps, merged.report.notes) == ((), ())
    alone = ran("report", parts[0])
    assert [gap.summary for gap in alone.report.gaps] == [
        "Selected, but no result arrived: `other`"
    ]
    partial = Report.model_validate_json(Path(parts[0]).read_bytes())
    assert (partial.gaps, partial.notes) == (
        (),
        ("Not part of this run, though selected: `other`.",),
    )
    again = ran("report", parts[0], parts[0])
    assert (again.code, again.stderr) == (
        USAGE,
        f"fsdp2-prefetch: {parts[0]} has recipe `toy`, as another report does\n",
    )


def test_a_head_that_is_not_checked_out_runs_in_a_scratch_checkout(repository, ran):
    repository.commit_files({SMOKE: "def test_it():\n    assert False\n"})
    repository.git("checkout", "--quiet", "main")
    before = repository.git("status", "--porcelain")
    result = ran("run", "--base", "main", "--head", "topic")
    assert result.outcomes()[1:] == [("smoke", "failed"), ("identity", "not run")]
    assert "scratch checkout" in result.report.notes[0]
    assert repository.git("rev-parse", "--abbrev-ref", "HEAD") == "main"
    assert repository.git("status", "--porcelain") == before
    assert repository.git("worktree", "list").count("\n") == 0


def test_uncommitted_changes_are_not_what_is_tested(repository, ran):
    (repository.path / SMOKE).write_text("def test_it():\n    assert False\n")
    result = ran("run", "--all")
    assert result.outcomes()[1] == ("smoke", "passed")
    assert result.report.notes == (
        "The stages worked in a scratch checkout of "
        f"`{repository.git('rev-parse', 'HEAD')[:12]}`, "
        "since the working tree has uncommitted changes.",
    )


def test_no_token_and_no_input_reaches_a_test(repository, ran):
    test = """
    import os
    def test_it():
        assert not [name for name in os.environ if "TOKEN" in name or name.startswith("INPUT_")]
        assert os.environ["WANTED"] == "yes"
    """
    repository.commit_files({SMOKE: test})
    environ = {"GITHUB_TOKEN": "t", "INPUT_GITHUB_TOKEN": "t", "INPUT_FAIL_ON": "", "WANTED": "yes"}
    result = ran("run", "--all", "--pass-env", "WANTED", environ=environ)
    assert result.outcomes()[1] == ("smoke", "passed")


def test_outputs_and_summary_of_a_job(repository, ran, tmp_path):
    environ = {
        "GITHUB_ACTIONS": "true",
        "GITHUB_OUTPUT": str(tmp_path / "output"),
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary"),
        "GITHUB_SERVER_URL": "https://github.example",
        "GITHUB_REPOSITORY": "o/r",
        "GITHUB_RUN_ID": "7",
    }
    result = ran("run", "--all", "--stages", "soft", environ=environ)
    lines = (tmp_path / "output").read_text().splitlines()
    outputs = {line.split("<<")[0]: lines[i + 1] for i, line in enumerate(lines) if "<<" in line}
    assert outputs["conclusion"] == "gaps"
    assert outputs["matrix"] == '{"recipe": ["toy"]}'
    assert outputs["report"] == str(result.out / "report.json")
    assert (tmp_path / "summary").read_text() == (result.out / "summary.md").read_text()
    assert "[run](https://github.example/o/r/actions/runs/7)" in result.comment
    assert "::group::toy" in result.stderr


def test_a_pull_request_is_compared_with_its_merge_commits_first_parent(repository, ran):
    repository.commit_files({"README.md": "# Topic\n"})
    repository.git("checkout", "--quiet", "main")
    repository.commit_files({"recipes/toy/configs/tiny.yaml": "engine: toy\nmodel: {dim: 1}\n"})
    repository.git("merge", "--quiet", "--no-ff", "--no-edit", "topic")
    environ = {
        "GITHUB_EVENT_NAME": "pull_request",
        "GITHUB_SHA": repository.git("rev-parse", "HEAD"),
    }
    result = ran("select", "--json", "-", environ=environ)
    assert json.loads(result.stdout)["recipes"] == []


def test_a_head_that_merged_main_is_compared_with_main(repository, ran):
    repository.commit_files({"recipes/toy/configs/tiny.yaml": "engine: toy\nmodel: {dim: 1}\n"})
    repository.git("checkout", "--quiet", "main")
    repository.commit_files({"README.md": "# Main\n"})
    repository.git("update-ref", "refs/remotes/origin/main", "main")
    repository.git("checkout", "--quiet", "topic")
    repository.git("merge", "--quiet", "--no-edit", "main")
    environ = {"GITHUB_EVENT_NAME": "pull_request", "GITHUB_BASE_REF": "main"}
    data = json.loads(ran("select", "--json", "-", environ=environ).stdout)
    assert [recipe["name"] for recipe in data["recipes"]] == ["toy"]
    assert data["notes"][0] == "Compared with the pull request's base branch `main`."


def test_a_base_branch_that_cannot_be_had_takes_every_recipe(repository, ran):
    environ = {"GITHUB_EVENT_NAME": "pull_request", "GITHUB_BASE_REF": "elsewhere"}
    data = json.loads(ran("select", "--json", "-", environ=environ).stdout)
    assert [recipe["name"] for recipe in data["recipes"]] == ["toy"]
    assert "is not in this clone and could not be fetched" in data["notes"][0]


def test_names_that_read_like_commands_do_not_act(repository, ran):
    repository.commit_files(
        {"::error::pwned": "x", "z\n::warning::x.txt": "x", "k ##[error]x": "x"}
    )
    result = ran("select", "--base", "main", environ={"GITHUB_ACTIONS": "true"})
    lines = result.stdout.splitlines()
    word = lines[0].removeprefix("::stop-commands::")
    assert lines[-1] == f"::{word}::"
    assert not [line for line in lines if "##[" in line]


def test_an_ignored_file_that_turns_tests_green_is_left_behind(repository, ran):
    repository.commit_files(
        {".gitignore": "conftest.py\n", SMOKE: "def test_it():\n    assert False\n"}
    )
    conftest = repository.path / "conftest.py"
    conftest.write_text(
        "def pytest_collection_modifyitems(items):\n"
        "    for item in items:\n        item.obj = lambda: None\n"
    )
    result = ran("run", "--all")
    assert result.outcomes()[1] == ("smoke", "failed")
    assert "holds `conftest.py`, which git ignores" in result.report.notes[0]


@pytest.mark.parametrize(
    ("event", "why"),
    [
        ("{}", "the event file does not say `before`"),
        (f'{{"before": "{"0" * 40}"}}', "`before` of the event, 000000000000, is no commit"),
        (f'{{"before": "{"1" * 40}"}}', "`before` of the event, 111111111111, is no commit"),
    ],
)
def test_a_push_without_a_usable_before_takes_every_recipe(repository, ran, tmp_path, event, why):
    (tmp_path / "event.json").write_text(event)
    environ = {"GITHUB_EVENT_NAME": "push", "GITHUB_EVENT_PATH": str(tmp_path / "event.json")}
    data = json.loads(ran("select", "--json", "-", environ=environ).stdout)
    assert [recipe["name"] for recipe in data["recipes"]] == ["toy"]
    assert why in json.dumps(data, ensure_ascii=False)


class TestBadInput:
    """One clear sentence, a defined exit code, and the report where one can be written."""

    def test_not_a_repository(self, tmp_path, repository, ran):
        empty = tmp_path / "empty"
        empty.mkdir()
        stderr = io.StringIO()
        assert (
            main(["run", "--repo", str(empty), "--out", str(tmp_path / "o")], {}, None, stderr)
            == USAGE
        )
        assert stderr.getvalue().count("\n") == 1
        assert f"{empty} is not a git repository" in stderr.getvalue()

    def test_an_unknown_revision(self, ran):
        result = ran("run", "--base", "no-such-branch")
        assert result.code == USAGE
        assert result.stderr.splitlines()[-1].startswith("fsdp2-prefetch: ")
        assert "no-such-branch" in result.stderr

    def test_an_unknown_recipe(self, ran, repository):
        result = ran("validate", "tyo", "--all")
        head = repository.git("rev-parse", "HEAD")[:12]
        assert result.code == USAGE
        assert result.stderr.splitlines()[-1] == (
            f"fsdp2-prefetch: no recipe `tyo` under recipes/ at {head}; there are: toy"
        )

    def test_broken_yaml(self, repository, ran):
        repository.commit_files({"recipes/toy/configs/tiny.yaml": "engine: [toy\n"})
        result = ran("run", "--base", "main", "--stages", "soft")
        assert result.code in (OK, FAILED)
        assert "recipes/toy/configs/tiny.yaml" in result.comment
        assert result.report.recipes[0].source.problems[0].location.path == (
            "recipes/toy/configs/tiny.yaml"
        )

    def test_a_syntax_error_in_the_model(self, repository, ran):
        repository.commit_files({"recipes/toy/model.py": "class Toy(:\n"})
        result = ran("run", "--base", "main", "--stages", "soft")
        verdicts = {check.id: check.verdict for check in result.report.recipes[0].checks}
        assert verdicts["hook-bound"] != "pass"
        assert "recipes/toy/model.py:1" in result.comment
        assert [r.rule for r in result.report.selection.recipes[0].reasons] == ["unparsable"]

    def test_a_test_that_kills_its_process(self, repository, ran):
        kill = "import os, signal\ndef test_it():\n    os.kill(os.getpid(), signal.SIGKILL)\n"
        repository.commit_files({SMOKE: kill})
        result = ran("run", "--base", "main")
        assert result.code == FAILED
        assert result.outcomes() == [
            ("structure", "passed"),
            ("smoke", "crashed"),
            ("identity", "not run"),
        ]
        assert "SIGKILL" in result.comment

    def test_a_test_that_hangs(self, repository, ran):
        repository.commit_files({SMOKE: "import time\ndef test_it():\n    time.sleep(600)\n"})
        begin = time.monotonic()
        result = ran("run", "--base", "main", "--smoke-limit", "3")
        assert time.monotonic() - begin < 60
        assert result.outcomes()[1] == ("smoke", "timed out")
        assert "test_it" in result.report.recipes[0].stages[1].summary

    def test_an_interpreter_that_is_not_there(self, repository, ran, tmp_path):
        stdout, stderr = io.StringIO(), io.StringIO()
        code = main(
            [
                "run",
                "--all",
                "--repo",
                str(repository.path),
                "--out",
                str(tmp_path / "out"),
                "--python",
                "/no/such/python",
            ],
            {"PATH": os.environ["PATH"]},
            stdout,
            stderr,
        )
        assert code == INFRASTRUCTURE
        report = Report.model_validate_json((tmp_path / "out" / "report.json").read_bytes())
        assert report.recipes[0].stages[0].outcome == "could not start"
        assert "/no/such/python" in (tmp_path / "out" / "comment.md").read_text()

    def test_a_full_output_folder(self, ran, monkeypatch, tmp_path):
        spare = tmp_path / "spare"
        spare.mkdir()
        monkeypatch.setattr("tempfile.mkdtemp", lambda prefix="": str(spare))
        result = ran("run", "--all", "--stages", "soft", "--out", "/dev/full")
        assert result.code == INFRASTRUCTURE
        sentence = "cannot write to the output folder /dev/full: Not a directory; "
        assert sentence in result.stderr or "File exists" in result.stderr
        assert f"this report goes to {spare}" in result.stderr
        report = Report.model_validate_json((spare / "report.json").read_bytes())
        assert [recipe.name for recipe in report.recipes] == ["toy"]

    def test_a_read_only_output_folder(self, repository, tmp_path):
        # Root writes anywhere, so the command runs as nobody.
        if os.getuid() != 0:
            pytest.skip("changing the user needs root")
        locked = tmp_path / "locked"
        locked.mkdir()
        locked.chmod(stat.S_IRUSR | stat.S_IXUSR | stat.S_IROTH | stat.S_IXOTH)
        error = subprocess.run(
            [
                sys.executable,
                "-c",
                "import os, sys; from pathlib import Path\n"
                "from action.report import prepare_folder\n"
                "os.setuid(65534)\n"
                "try: prepare_folder(Path(sys.argv[1]))\n"
                "except Exception as trouble: print(trouble)",
                str(locked),
            ],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        assert error == (
            f"cannot write to the output folder {locked}: Permission denied; "
            "give another one with --out\n"
        )

    def test_no_recipe_under_the_folder_named(self, ran):
        result = ran("run", "--all", "--recipes-root", "recipe")
        assert result.code == OK
        assert result.stdout.startswith("⚠️ FSDP2 prefetching: there is no recipe here")
        assert "There is no recipe under `recipe/`." in result.comment

    @pytest.mark.parametrize(
        ("field", "value"),
        [("path", "../outside"), ("name", "../../evil"), ("head", "--name-only")],
    )
    def test_a_selection_file_that_leads_elsewhere(self, repository, ran, tmp_path, field, value):
        path = tmp_path / "selection.json"
        ran("select", "--all", "--json", str(path))
        data = json.loads(path.read_text())
        target = data if field == "head" else data["recipes"][0]
        target[field] = value
        path.write_text(json.dumps(data))
        result = ran("validate", "--selection", str(path))
        assert result.code == USAGE
        assert not list(tmp_path.rglob("*.log"))

    @pytest.mark.parametrize("change", [{"schema": "other/9"}, {"duration": float("inf")}])
    def test_a_report_that_this_version_did_not_write(self, ran, tmp_path, change):
        ran("run", "--all", "--stages", "soft")
        path = tmp_path / "out" / "report.json"
        elsewhere = tmp_path / "foreign.json"
        elsewhere.write_text(json.dumps(json.loads(path.read_text()) | change))
        result = ran("report", str(elsewhere))
        assert result.code == INFRASTRUCTURE
        assert f"{elsewhere} is not a report that this version wrote" in result.stderr

    def test_addresses_in_a_foreign_report_are_not_believed(self, ran, tmp_path):
        ran("run", "--all", "--stages", "soft")
        path = tmp_path / "out" / "report.json"
        data = json.loads(path.read_text())
        data |= {"run_url": "https://evil.example", "repository_url": "https://evil.example"}
        elsewhere = tmp_path / "foreign.json"
        elsewhere.write_text(json.dumps(data))
        assert "evil.example" not in ran("report", str(elsewhere)).comment

    @pytest.mark.parametrize("name", ["GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY"])
    def test_a_job_file_that_cannot_be_written(self, ran, name):
        result = ran("run", "--all", "--stages", "soft", environ={name: "/no/such/folder/file"})
        assert result.code == INFRASTRUCTURE
        assert "cannot write /no/such/folder/file: No such file or directory" in result.stderr
        assert result.report.conclusion == "gaps"

    def test_a_json_file_that_cannot_be_written_is_said_first(self, ran):
        result = ran("run", "--all", "--json", "/no/such/folder/x")
        assert (result.code, result.stderr) == (
            INFRASTRUCTURE,
            "fsdp2-prefetch: --json: cannot write /no/such/folder/x: No such file or directory\n",
        )

    def test_a_pull_request_text_that_is_not_there_is_said_first(self, repository, ran):
        repository.commit_files({"README.md": "# Other\n"})
        result = ran("run", "--base", "main", "--pull-request-text", "/no/text")
        assert result.code == USAGE
        assert "pull_request_text: cannot read /no/text" in result.stderr

    def test_a_report_of_an_earlier_run_does_not_survive(self, ran):
        assert ran("run", "--all", "--stages", "soft").code == OK
        result = ran("run", "--base", "no-such-branch")
        assert result.code == USAGE
        assert not (result.out / "comment.md").exists()

    def test_a_stage_that_cannot_write_keeps_what_was_decided(self, ran, tmp_path):
        (tmp_path / "out").mkdir()
        (tmp_path / "out" / "toy").write_text("in the way")
        result = ran("run", "--all")
        assert result.code == INFRASTRUCTURE
        assert [gap.id for gap in result.report.gaps] == ["run:interrupted"]
        assert len(result.report.recipes[0].checks) == 8

    def test_a_file_whose_name_is_no_utf8(self, repository, ran):
        repository.commit_files({os.fsdecode(b"recipes/toy/b\xff.py"): "class X(:\n"})
        result = ran("run", "--base", "main", "--stages", "soft")
        assert result.code == OK
        (problem,) = result.report.recipes[0].source.problems
        assert str(problem.location) == "recipes/toy/b\\xff.py:1"

    def test_an_error_that_nobody_expected(self, ran, monkeypatch):
        def fails(*arguments, **options):
            raise ZeroDivisionError("division by zero")

        monkeypatch.setattr("action.pipeline.check_recipe", fails)
        result = ran("run", "--all", "--stages", "soft")
        assert result.code == INFRASTRUCTURE
        assert result.report.gaps[0].summary.startswith(
            "The run was stopped before its end: the run broke down at test_command_line.py:"
        )

    def test_git_that_is_not_there(self, repository, ran, monkeypatch):
        monkeypatch.setenv("PATH", "/nonexistent")
        result = ran("select", "--all")
        assert (result.code, result.stderr) == (
            INFRASTRUCTURE,
            "fsdp2-prefetch: git is not installed, or not on PATH\n",
        )

    def test_no_command_shows_help(self):
        stderr = io.StringIO()
        assert main([], {}, None, stderr) == USAGE
        assert "exit codes:" in stderr.getvalue()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_cancelled_run_still_writes_its_report_and_leaves_no_child(repository, tmp_path, number):
    marker = tmp_path / "pid"
    hang = (
        "import os, time\ndef test_it():\n"
        f"    open({str(marker)!r}, 'w').write(str(os.getpid()))\n    time.sleep(600)\n"
    )
    repository.commit_files({SMOKE: hang})
    out = tmp_path / "out"
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "action",
            "run",
            "--all",
            "--repo",
            str(repository.path),
            "--out",
            str(out),
            "--python",
            sys.executable,
        ],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 60
    while not (marker.exists() and marker.read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    begin = time.monotonic()
    process.send_signal(number)
    time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)
    assert time.monotonic() - begin < 8
    assert process.returncode == INFRASTRUCTURE
    report = Report.model_validate_json((out / "report.json").read_bytes())
    assert report.conclusion == "infrastructure"
    assert [gap.id for gap in report.gaps] == ["run:interrupted"]
    assert [
        (stage.id, stage.outcome, stage.not_run_because) for stage in report.recipes[0].stages
    ] == [
        ("structure", "passed", None),
        ("smoke", "not run", "cancelled"),
        ("identity", "not run", "cancelled"),
    ]
    assert "Make the earlier stage pass" not in (out / "comment.md").read_text()
    assert not Path(f"/proc/{marker.read_text()}").exists()
