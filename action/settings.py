"""One frozen `Settings` from the command line and, inside a GitHub job, from `INPUT_*`.

The fields below are the only list of settings: the command line's flags, the names of the inputs
in `action.yml` and the table in the README are all checked against it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from action.records import StageId

Command = Literal["select", "validate", "run", "report", "edges"]
Seconds = Annotated[float, Field(gt=0, le=86_400)]


class SettingsError(Exception):
    """A setting that cannot be used; one sentence names it and says what is allowed."""


class Settings(BaseModel):
    """Everything that a run can be told; each field's description is its help text."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    command: Command = Field(
        "select", description="what to do: select, validate, run, report or edges"
    )
    repo: Path = Field(Path(), description="folder of the repository")
    base: str | None = Field(
        None,
        description="revision that the change starts from; by default the pull request's base in "
        "a GitHub job, else the default branch",
    )
    head: str = Field("HEAD", description="revision that the change ends at")
    all: bool = Field(False, description="every recipe, whatever changed")
    recipes: tuple[str, ...] = Field(
        (), description="names of the recipes to validate; by default those that are selected"
    )
    recipes_root: str = Field("recipes", description="folder that holds one folder per recipe")
    stages: tuple[Literal["soft", "probe", "structure", "smoke", "identity"], ...] = Field(
        ("soft", "probe", "structure", "smoke", "identity"),
        description="which of soft, probe, structure, smoke and identity to run; the source is "
        "read and the soft items are always decided",
    )
    out: Path = Field(Path("out/fsdp2-prefetch"), description="folder for the report and the logs")
    fail_on: Literal["fail", "gap", "never"] = Field(
        "fail", description="exit with 1 on a failure, on a gap too, or never"
    )
    python: str = Field(
        "python3",
        description="interpreter that runs the recipes: the probe needs torch in it, the tests "
        "pytest, too",
    )
    probe_limit: Seconds = Field(
        300, description="seconds for the probe of a recipe, which runs its model on the CPU"
    )
    compare_base: bool = Field(
        False,
        description="also probe the commit that the change starts from, to say what it did to the "
        "edges",
    )
    probe_memory: float = Field(
        8.0, gt=0, le=4096, description="GiB of memory for the probe of a recipe"
    )
    structure_limit: Seconds = Field(600, description="seconds for the structure tests of a recipe")
    smoke_limit: Seconds = Field(1800, description="seconds for the smoke tests of a recipe")
    identity_limit: Seconds = Field(600, description="seconds for the identity tests of a recipe")
    pass_env: tuple[str, ...] = Field(
        (), description="names of further environment variables that the tests may see"
    )
    paths: tuple[str, ...] = Field(
        (), description="names of the training paths to show; by default all of the probe file's"
    )
    config: Path | None = Field(
        None, description="config to build instead of the one that the probe file names"
    )
    ranks: bool = Field(
        False,
        description="run two ranks with real values and real collectives, on the probe file's "
        "small config, instead of fake tensors",
    )
    timeline: Path | None = Field(
        None, description="also draw the first path's step as a page into this HTML file"
    )
    pull_request_text: Path | None = Field(
        None, description="file with the pull request's title and text, read for claims"
    )
    selection: Path | None = Field(
        None, description="selection that `select --json FILE` wrote, instead of a comparison"
    )
    reports: tuple[Path, ...] = Field((), description="the report.json files to merge")
    json_to: str | None = Field(
        None, description="also write the result as JSON to this file; - is standard output"
    )

    @field_validator("recipes", "stages", "paths", "pass_env", "reports", mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:
        if isinstance(value, str):
            return tuple(
                part.strip() for part in value.replace("\n", ",").split(",") if part.strip()
            )
        return value

    @field_validator("recipes_root")
    @classmethod
    def _inside(cls, value: str) -> str:
        cleaned = value.strip("/")
        if not cleaned or not set(Path(cleaned).parts).isdisjoint({"..", "."}) or cleaned == ".":
            raise ValueError("a folder inside the repository is needed")
        return cleaned

    @model_validator(mode="after")
    def _consistent(self) -> Settings:
        if self.all and self.base is not None:
            raise ValueError("all and base exclude each other: all recipes need no comparison")
        if self.command == "report" and not self.reports:
            raise ValueError("report needs at least one report.json file")
        if not self.stages:
            raise ValueError(
                "stages is empty; name at least one of soft, probe, structure, smoke, identity"
            )
        return self

    @property
    def hard_stages(self) -> tuple[StageId, ...]:
        """The stages asked for that run tests, in the order in which they run."""
        order: tuple[StageId, ...] = ("structure", "smoke", "identity")
        return tuple(stage for stage in order if stage in self.stages)

    @property
    def probes(self) -> bool:
        """Whether the probe was asked for."""
        return "probe" in self.stages

    @property
    def limits(self) -> dict[StageId, float]:
        """The time limit of each stage, in seconds."""
        return {
            "structure": self.structure_limit,
            "smoke": self.smoke_limit,
            "identity": self.identity_limit,
        }


def make_settings(flags: Mapping[str, Any], environ: Mapping[str, str] = os.environ) -> Settings:
    """Merge the flags given on the command line over the `INPUT_*` of a GitHub job.

    An empty input counts as not given: GitHub sets the variable for every input of `action.yml`.

    Raises:
        SettingsError: a value is not allowed; the sentence names the setting and the value.
    """
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for name in Settings.model_fields:
        text = environ.get(f"INPUT_{name.upper()}", "").strip()
        if text:
            values[name], origins[name] = text, f"input {name}"
    for name, value in flags.items():
        if value is not None:
            values[name], origins[name] = value, f"--{name.replace('_', '-')}"
    try:
        return Settings.model_validate(values)
    except ValidationError as trouble:
        raise SettingsError(_sentence(trouble, origins)) from trouble


def _sentence(trouble: ValidationError, origins: Mapping[str, str]) -> str:
    first = trouble.errors()[0]
    message = first["msg"].removeprefix("Value error, ")
    if not first["loc"]:
        return message
    name = str(first["loc"][0])
    return f"{origins.get(name, name)}: {message[0].lower()}{message[1:]}, not {first['input']!r}"
