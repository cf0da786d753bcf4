"""action.yml, the settings, the command line and the README say the same."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from action.cli import _FLAGS, parser
from action.records import Conclusion
from action.settings import Settings

ROOT = Path(__file__).parent.parent
ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
# `--json FILE` is for a terminal; a job has report.json and the outputs.
INPUTS = [name for name in Settings.model_fields if name != "json_to"]


def default_text(name: str) -> str:
    default = Settings.model_fields[name].default
    if default is None:
        return ""
    if isinstance(default, tuple):
        return ",".join(default)
    return str(default).lower() if isinstance(default, bool) else str(default)


def test_the_inputs_are_the_settings_in_their_order():
    assert list(ACTION["inputs"]) == INPUTS


@pytest.mark.parametrize("name", INPUTS)
def test_an_input_says_what_the_setting_says(name):
    assert ACTION["inputs"][name] == {
        "description": Settings.model_fields[name].description,
        "default": default_text(name),
    }


def test_input_names_survive_a_shell():
    # dash drops environment variables with a hyphen in the name.
    assert all(name.isidentifier() for name in ACTION["inputs"])


def test_a_package_of_our_name_in_the_workspace_is_not_run(tmp_path):
    (tmp_path / "action").mkdir()
    (tmp_path / "action" / "__init__.py").write_text("raise SystemExit('hostile')\n")
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    entries = [json.loads(s.removeprefix("ENTRYPOINT ")) for s in lines if "ENTRYPOINT" in s]
    assert len(entries) == 2
    for _, *arguments in entries:
        ran = subprocess.run(
            [sys.executable, *arguments], cwd=tmp_path, capture_output=True, text=True
        )
        assert "hostile" not in ran.stderr
        assert ran.stderr.startswith("usage: fsdp2-prefetch")


def test_every_setting_has_a_flag():
    assert {name for flags in _FLAGS.values() for name in flags} | {"command"} == set(
        Settings.model_fields
    )


def test_the_readme_has_every_input_and_output():
    readme = (ROOT / "README.md").read_text()
    for name in INPUTS:
        default = default_text(name)
        shown = f"`{default}`" if default else ""
        assert f"| `{name}` | {shown} | {Settings.model_fields[name].description} |" in readme
    for name, output in ACTION["outputs"].items():
        assert f"| `{name}` | {output['description']} |" in readme


def test_the_outputs_name_every_conclusion():
    described = ACTION["outputs"]["conclusion"]["description"]
    assert described.replace(" or ", ", ").split(", ") == list(Conclusion.__args__)


@pytest.mark.parametrize("command", ["select", "validate", "run", "report"])
def test_every_command_has_help(command, capsys):
    with pytest.raises(SystemExit) as done:
        parser().parse_args([command, "--help"])
    assert done.value.code == 0
    assert f"usage: fsdp2-prefetch {command}" in capsys.readouterr().out
