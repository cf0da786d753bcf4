"""What the rooms hand to each other.

Every record is frozen, refuses unknown fields, and round-trips through JSON
(`model_dump_json` / `model_validate_json`), so that each step of a run can happen in another job
on another machine. This module imports nothing of ours.
"""

from __future__ import annotations

from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field

SCHEMA: Literal["fsdp2-prefetch/1"] = "fsdp2-prefetch/1"
"""Version of the JSON written by this package; changed when a field changes its meaning."""

Verdict = Literal["pass", "fail", "unknown", "not applicable"]
CheckId = Literal[
    "hook-bound",
    "wrap-targets",
    "forward-edges",
    "backward-edges",
    "idempotent",
    "attributes-merged",
    "stays-local",
    "honest-claims",
]
StageId = Literal["structure", "smoke", "identity"]
Outcome = Literal[
    "passed",
    "failed",
    "crashed",
    "timed out",
    "nothing collected",
    "all skipped",
    "missing",
    "could not start",
    "not run",
]
"""How a stage ended. `missing` is a test file that does not exist; `crashed` a pytest process that
ended without a usable result; `could not start` an interpreter or a pytest that is not there;
`not run` a stage that an earlier one stopped or that was not asked for."""

Conclusion = Literal["passed", "gaps", "failed", "nothing selected", "infrastructure"]


class Record(BaseModel):
    """Base of every record: frozen, no unknown fields, no silent type conversion."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class Location(Record):
    """A place in the repository; `line` counts from 1, None stands for the whole file."""

    path: str
    line: int | None = None

    def __str__(self) -> str:
        return self.path if self.line is None else f"{self.path}:{self.line}"


class Symbol(Record):
    """A class or function by its qualified name (`recipes.qwen3.model.Qwen3`) and definition."""

    name: str
    location: Location


class Reason(Record):
    """Why a recipe was selected.

    `rule` names the rule; `detail` is the sentence for a person; `location` is the change that set
    it off; `chain` the files from the changed one to the recipe's own, in import order, when the
    change reached the recipe through imports (empty for a change to the recipe itself).
    """

    rule: Literal[
        "model-class",
        "wrap-target",
        "hook",
        "tp-attributes",
        "builder",
        "config",
        "prefetch-test",
        "imported-module",
        "runtime",
        "dependency-pin",
        "unparsable",
        "unknown",
        "new-recipe",
        "asked",
        "all",
        "no-merge-base",
    ]
    detail: str
    location: Location | None = None
    chain: tuple[str, ...] = ()


class SelectedRecipe(Record):
    """A recipe to validate: its name, its folder, and at least one reason."""

    name: str
    path: str
    reasons: tuple[Reason, ...] = Field(min_length=1)


class Unaffected(Record):
    """A changed file that selects nothing, with the reason."""

    path: str
    reason: str


class Selection(Record):
    """Which recipes a change affects, and why the rest of the change does not.

    `mode`: `diff` compared merge base and head; `all` was asked for; `fail-open` selected every
    recipe since the merge base could not be found. `base` and `head` are full commit ids; `base`
    is None without a diff. `recipe_count` is how many recipes there are at the head. `notes` are
    sentences about how the comparison was made.
    """

    schema_: Literal["fsdp2-prefetch/1"] = Field(default=SCHEMA, alias="schema")
    mode: Literal["diff", "all", "fail-open"]
    head: str
    base: str | None = None
    merge_base: str | None = None
    recipe_count: int | None = None
    recipes: tuple[SelectedRecipe, ...] = ()
    unaffected: tuple[Unaffected, ...] = ()
    notes: tuple[str, ...] = ()

    model_config = ConfigDict(populate_by_name=True)


class TrailEnd(Record):
    """Where a name could no longer be followed in the source, and why."""

    location: Location
    why: str


class ClassAttribute(Record):
    """A runtime attribute found on a class: TP tables, `_no_split_modules`, the hook's binding."""

    name: str
    owner: Symbol
    location: Location
    value: str


class Guard(Record):
    """How a hook keeps a second call from doing anything, as its source has it.

    `tests` and `sets` are the flags that it tests and sets, each with its line. `trouble` names
    what is wrong on some way through the function, `trouble_at` where; None with both flags there
    means that every way that sets an edge passes the test before it and sets the flag after it.
    """

    tests: str | None = None
    tests_at: Location | None = None
    sets: str | None = None
    sets_at: Location | None = None
    trouble: (
        Literal[
            "never tested",
            "never set",
            "perhaps in a helper",
            "other name",
            "other object",
            "perhaps another object",
            "inverted",
            "edges before the test",
            "half tested",
            "set before the edges",
            "left unset",
        ]
        | None
    ) = None
    trouble_at: Location | None = None
    tests_for: Literal["value", "presence", "attribute"] | None = None
    """Whether the test reads the flag's value with a default, asks only whether it is there, or
    reads the attribute outright, which raises when nothing has set it."""
    replaced: tuple[Location, ...] = ()
    """Lines where a list of edges replaces one set earlier in the same call."""


class Hook(Record):
    """The prefetch hook as the source binds it.

    `function` is None when the bound value cannot be followed to a definition. `kind` is what the
    class holds; `takes_model_alone` tells whether `cls.HOOK(model)` is a call that Python accepts,
    None when the source does not tell. `guard` is how a second call is kept from doing anything.
    """

    binding: ClassAttribute
    function: Symbol | None = None
    kind: Literal[
        "function",
        "lambda",
        "staticmethod",
        "classmethod",
        "method",
        "partial",
        "object",
        "not callable",
        "unknown",
    ] = "unknown"
    parameters: tuple[str, ...] = ()
    takes_model_alone: bool | None = None
    guard: Guard = Guard()


class WrapTarget(Record):
    """A class name that FSDP2 is told to wrap, where it is named, and the classes it matches."""

    class_name: str
    named_at: Location
    origin: Literal["_no_split_modules", "target_classes", "high_precision_modules"]
    matches: tuple[Symbol, ...] = ()
    may_match_outside: bool = False
    """True when the model also uses classes whose source is not in the repository."""


class RecipeSource(Record):
    """The static facts of one recipe, read by syntax tree; the recipe is never imported.

    A fact that the source does not settle is None, with an entry in `trail_ends` saying at which
    line the trail ends. `candidates` are all classes that training may instantiate, one of them
    `top_level_class` when it is the only one; `hidden_by` are wrappers put around the model before
    it is sharded, `sometimes_hidden` tells that only some ways through the builder do so.
    `targets_end` says why the list of wrap targets may be longer than `targets`. `hooks_unseen` are
    hooks set where the runtime never looks (on an object, after sharding), `hooks_unsettled` those
    set by code of which it is not known whether it runs, `flags_set_early` where the builder sets
    the hook's own flag before the hook is called.
    """

    name: str
    path: str
    configs: tuple[str, ...] = ()
    engine: Symbol | None = None
    top_level_class: Symbol | None = None
    candidates: tuple[Symbol, ...] = ()
    hidden_by: tuple[TrailEnd, ...] = ()
    sometimes_hidden: bool = False
    trail: tuple[Location, ...] = ()
    trail_ends: tuple[TrailEnd, ...] = ()
    model_classes: tuple[Symbol, ...] = ()
    hooks: tuple[Hook, ...] = ()
    hooks_unseen: tuple[TrailEnd, ...] = ()
    hooks_unsettled: tuple[TrailEnd, ...] = ()
    flags_set_early: tuple[TrailEnd, ...] = ()
    attributes: tuple[ClassAttribute, ...] = ()
    targets: tuple[WrapTarget, ...] = ()
    targets_end: TrailEnd | None = None
    problems: tuple[TrailEnd, ...] = ()
    """Files of the recipe that could not be read: syntax errors, broken YAML, not UTF-8."""


class Evidence(Record):
    """What a verdict rests on: a sentence, and the place in the source it points to."""

    text: str
    location: Location | None = None


class CheckResult(Record):
    """The verdict on one item of the soft validation."""

    id: CheckId
    verdict: Verdict
    established_by: Literal["static", "probe", "nothing"]
    summary: str
    evidence: tuple[Evidence, ...] = ()


class Edge(Record):
    """One prefetch edge: when `source` runs, the all-gather of `target` is issued.

    Both are module paths, `(root)` for the whole model.
    """

    source: str
    target: str
    direction: Literal["forward", "backward"]


Rule = Literal[
    "hook-hidden",
    "hook-not-callable",
    "hook-not-called",
    "hook-sets-nothing",
    "target-absent",
    "target-unwrapped",
    "only-root",
    "empty-unit",
    "tied-across-units",
    "self-edge",
    "edge-to-root",
    "edge-to-ancestor",
    "edge-to-empty-unit",
    "duplicate-target",
    "cross-root",
    "source-never-runs",
    "never-runs",
    "already-ran",
    "wrap-around",
    "shared-unit",
    "no-backward",
    "recomputed",
    "unused",
    "repeated",
    "held-over",
    "left-live",
    "stale-in-eval",
    "farthest-first",
    "lookahead",
    "inversion",
    "default-off",
    "no-effect",
    "raises",
    "rank-divergence",
    "paths-differ",
    "not-sharded",
    "list-replaced",
    "second-call-raises",
    "second-call-changes",
]
"""What a finding is about; the README lists what each rule asks for."""


class Finding(Record):
    """Something wrong that was seen while the model ran, or (`unknown`) that could not be seen.

    `summary` names the edge and what happens; `event` is what shows it, `cost` what it costs,
    `instead` what to write. `edges` are all those that it happens to, `paths` the training paths
    in which it does.
    """

    rule: Rule
    item: CheckId
    verdict: Literal["fail", "unknown"]
    summary: str
    edges: tuple[Edge, ...] = ()
    paths: tuple[str, ...] = ()
    event: str = ""
    cost: str = ""
    instead: str = ""
    location: Location | None = None


class ObservedUnit(Record):
    """A unit as it was seen: module paths wrapped together, their class, what they hold.

    `parameters` counts elements, `bytes` those of the full parameters in one all-gather on the
    reckoned number of ranks, padding included. `order` is the unit's place in the first training
    path's forward, None when it does not run there.
    """

    name: str
    class_name: str
    parameters: int
    bytes: int
    dtypes: tuple[str, ...] = ()
    empty: bool = False
    frozen: bool = False
    order: int | None = None


class Traffic(Record):
    """What one training step issues and holds, with some set of edges.

    All-gathers by phase; `unused` those whose result was thrown away, `repeated` those beyond one
    in forward and one in backward of a unit, `inversions` units whose all-gather was queued behind
    that of a unit needed later. `peak_bytes` is the most that full parameters take at once, reached
    while `peak_at` ran. `stale` are units with an all-gather pending after an evaluation.
    """

    forward: int
    backward: int
    unused: int
    repeated: int
    inversions: int
    peak_bytes: int
    peak_at: str
    stale: tuple[str, ...] = ()


class ObservedPath(Record):
    """One training path: what its second step did with the hook's edges and without any."""

    name: str
    with_hook: Traffic | None = None
    without: Traffic | None = None
    problem: str | None = None


class Change(Record):
    """What a change did to the edges and to each path, compared with another commit."""

    base: str
    added: tuple[Edge, ...] = ()
    removed: tuple[Edge, ...] = ()
    before: tuple[ObservedPath, ...] = ()
    problem: str | None = None


class Observation(Record):
    """What the probe saw of one recipe, or why it saw nothing.

    `mode` tells how it ran: `fake` tensors at full size, `real` values in one process, or several
    `ranks`. `mesh` is the one that it was wrapped on, `shard` the number of ranks that bytes are
    reckoned for. `forward` and `backward` are the edges as runs: `layers.0 → … → layers.35`.
    `summary` is one sentence; `tail` the last lines of output that matter when nothing was seen.
    """

    outcome: Literal[
        "observed",
        "no probe",
        "bad probe",
        "bad request",
        "cannot build",
        "not wrapped",
        "unknown torch",
        "no torch",
        "timed out",
        "out of memory",
        "crashed",
        "not run",
    ]
    summary: str
    mode: Literal["fake", "real", "ranks"] | None = None
    why_not_fake: str | None = None
    torch: str | None = None
    mesh: str | None = None
    shard: int | None = None
    config: str | None = None
    top_class: str | None = None
    hook_called: bool = False
    second_call_sets: bool = False
    units: tuple[ObservedUnit, ...] = ()
    forward: tuple[str, ...] = ()
    backward: tuple[str, ...] = ()
    forward_edges: int = 0
    backward_edges: int = 0
    lookahead: tuple[int, int] = (0, 0)
    lookahead_reason: str | None = None
    paths: tuple[ObservedPath, ...] = ()
    findings: tuple[Finding, ...] = ()
    change: Change | None = None
    tail: str = ""
    seconds: float = 0.0
    peak_memory: int = 0


class Failure(Record):
    """One failing test: its pytest node id, the message, and the tail of its traceback."""

    test: str
    message: str
    excerpt: str = ""


class StageResult(Record):
    """How one stage of the hard validation ended.

    `summary` is one sentence for a maintainer. `duration` is in seconds. `log` and `junit` are
    paths relative to the output folder. `last_test` is the test in flight when pytest died.
    """

    id: StageId
    outcome: Outcome
    summary: str
    command: tuple[str, ...] = ()
    exit_code: int | None = None
    signal: str | None = None
    duration: float = 0.0
    tests: int = 0
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    skip_reasons: tuple[str, ...] = ()
    failures: tuple[Failure, ...] = ()
    not_run_because: Literal["not asked for", "earlier stage", "cancelled"] | None = None
    last_test: str | None = None
    tail: str = ""
    log: str | None = None
    junit: str | None = None


class Environment(Record):
    """What the stages ran on, as the recipe's own interpreter reported it.

    `torch` is None when it could not be imported there; `cuda_devices` are device names; None
    means that nobody looked, because no stage ran.
    """

    python: str | None = None
    torch: str | None = None
    cuda_devices: tuple[str, ...] | None = None
    problem: str | None = None


class Gap(Record):
    """Something that is not proved: `summary` says what, `closes` says what would prove it."""

    id: str
    summary: str
    closes: str


class RecipeReport(Record):
    """Everything known about one selected recipe."""

    name: str
    path: str
    reasons: tuple[Reason, ...] = ()
    source: RecipeSource
    observation: Observation | None = None
    checks: tuple[CheckResult, ...] = ()
    stages: tuple[StageResult, ...] = ()
    gaps: tuple[Gap, ...] = ()
    environment: Environment = Environment()


class Report(Record):
    """The whole result; `report.json` is this record, and `report.schema.json` its JSON Schema.

    `asked` names the recipes that this run was to validate, where that is not all of the selection.
    `gaps` are those of the run as a whole, beside those of each recipe. `duration` is in seconds;
    `started` an ISO 8601 time in UTC. `notes` are sentences about the
    run as a whole, for instance that the stages ran in a scratch checkout. `run_url` is the page
    of the workflow run and `repository_url` the repository's, where links to files begin.
    """

    schema_: Literal["fsdp2-prefetch/1"] = Field(default=SCHEMA, alias="schema")
    conclusion: Conclusion
    selection: Selection
    asked: tuple[str, ...] | None = None
    recipes: tuple[RecipeReport, ...] = ()
    gaps: tuple[Gap, ...] = ()
    notes: tuple[str, ...] = ()
    started: str | None = None
    duration: float = 0.0
    run_url: str | None = None
    repository_url: str | None = None

    model_config = ConfigDict(populate_by_name=True)


_AnyRecord = TypeVar("_AnyRecord", bound=Record)


def printable(record: _AnyRecord) -> _AnyRecord:
    """Return the record as JSON can carry it: a file's name may be bytes that are no UTF-8."""
    return type(record).model_validate(_utf8(record.model_dump(by_alias=True)))


def _utf8(value: Any) -> Any:
    match value:
        case str():
            return value.encode(errors="surrogateescape").decode(errors="backslashreplace")
        case tuple() | list():
            return tuple(_utf8(item) for item in value)
        case dict():
            return {key: _utf8(item) for key, item in value.items()}
        case _:
            return value
