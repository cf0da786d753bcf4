"""What the worker writes down, checked and typed: the shape of its JSON file.

The file was written by a process that ran the recipe's own code. Its numbers are what that code let
the worker see; its texts may hold anything and are cleaned before they are shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, model_validator

Kind = Literal[
    "enter",
    "leave",
    "gather",
    "skip",
    "wait",
    "reshard",
    "reduce",
    "loss",
    "turn",
    "done",
    "end",
    "drop",
]
Why = Literal["own", "forward edge", "backward edge", "default", "call"]
Direction = Literal["forward", "backward"]
Edges = Literal["none", "hook", "second call"]


class Event(NamedTuple):
    """Something that FSDP2 did to a unit; `worker/recorder.py` says what each kind means.

    `unit` is -1 for `loss` and `end`; `why` and `by` belong to `gather` and `skip`.
    """

    kind: Kind
    unit: int = -1
    why: Why | None = None
    by: int | None = None


class Read(BaseModel):
    """Base of what is read from the worker: frozen, and a newer worker may say more."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class Policy(Read):
    """Dtypes of a unit's mixed precision policy."""

    param_dtype: str | None = None
    reduce_dtype: str | None = None
    output_dtype: str | None = None


class Unit(Read):
    """A parameter group of FSDP2, or a wrapped module that manages no parameter (`empty`).

    `paths` are the module paths of one unit, several where modules were wrapped together, none
    where the unit belongs to another model than the recipe's (`outside`). `shapes` lists size along
    the sharded dimension, elements per step of it, bytes per element, and how many parameters are
    like that. `parameters` counts elements.
    """

    paths: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    part: int | None = None
    empty: bool = False
    outside: bool = False
    parameters: int = 0
    tensors: int = 0
    trainable: int = 0
    dtypes: tuple[str, ...] = ()
    policy: Policy = Policy()
    shapes: tuple[tuple[int, int, int, int], ...] = ()
    reshard_after_forward: bool | int = True
    shard_size: int = 1

    def size(self, shard: int) -> int:
        """Return the bytes of the full parameters in the all-gather's buffer on `shard` ranks.

        FSDP2 pads each parameter to chunks of equal size along the sharded dimension and gathers
        it in the policy's `param_dtype`.
        """
        return sum(
            -(-along // shard) * shard * rest * itemsize * count
            for along, rest, itemsize, count in self.shapes
        )


class ClassInModel(Read):
    """How often a class stands in the model, and how many of those with shards are no unit.

    `unwrapped` are some of the latter's paths; `named`: the class is to be wrapped.
    """

    name: str
    instances: int
    forgotten: int = 0
    unwrapped: tuple[str, ...] = ()
    named: bool = False


class HookFacts(Read):
    """How the runtime finds the hook: on the wrapped model's class, or only on inner modules."""

    bound: bool
    callable: bool
    inner: tuple[tuple[str, str], ...] = ()
    flags_before_wrap: tuple[str, ...] = ()
    doc: str | None = None


class SetterCall(Read):
    """One call of a setter: the source's list `before` was replaced by `targets`."""

    source: int
    direction: Direction
    targets: tuple[int, ...]
    before: tuple[int, ...] = ()
    file: str | None = None
    line: int | None = None
    in_hook: bool = False


class Trouble(Read):
    """An error: its message, the innermost line in the repository, the end of its traceback."""

    message: str
    place: tuple[str, int] | None = None
    operator: str | None = None
    tail: str = ""
    ours: bool = False


class SecondCall(Read):
    """What a second call of the hook did: setter calls, and units whose edges are others now."""

    error: Trouble | None = None
    calls: tuple[SetterCall, ...] = ()
    changed: tuple[tuple[int, Direction], ...] = ()


class Pass(Read):
    """One forward and backward (`train`), or one forward without gradients (`eval`).

    `edges` tells which were in place: `none`, those of the `hook`, those after its `second call`.
    `live` units had their parameters gathered or on the way when the pass was over; of those,
    `pending` ones were on the way.
    """

    kind: Literal["train", "eval"]
    edges: Edges
    events: tuple[Event, ...] = ()
    live: tuple[int, ...] = ()
    pending: tuple[int, ...] = ()
    error: Trouble | None = None

    @model_validator(mode="before")
    @classmethod
    def _typed(cls, value: Any) -> Any:
        if isinstance(value, dict) and "events" in value:
            return value | {"events": tuple(Event(*event) for event in value["events"])}
        return value


class Path(Read):
    """A training path with its passes, in the order in which they ran."""

    name: str
    passes: tuple[Pass, ...]

    def find(self, edges: Edges, kind: str = "train", step: int = 1) -> Pass | None:
        """Return the `step`-th pass of its kind that ended well; None when there is none."""
        found = [p for p in self.passes if p.edges == edges and p.kind == kind and not p.error]
        return found[step - 1] if len(found) >= step else None


class FakeStop(Read):
    """Why fake tensors could not run a model: the error, and the operator where one was at it."""

    message: str
    operator: str | None = None
    place: tuple[str, int] | None = None


class EdgeLists(Read):
    """Each unit with a list of edges, in the order of the list."""

    forward: tuple[tuple[int, tuple[int, ...]], ...] = ()
    backward: tuple[tuple[int, tuple[int, ...]], ...] = ()

    def of(self, direction: Direction) -> dict[int, tuple[int, ...]]:
        """Return the targets of each source."""
        return dict(self.forward if direction == "forward" else self.backward)


class RankEnd(Read):
    """How one of several real ranks ended its path, and the unit that it was last heard of in."""

    path: str
    how: Literal["ended", "hung", "raised", "killed"]
    message: str = ""
    unit: str | None = None
    phase: str = "forward"


class RankRun(Read):
    """Ranks that ran together over gloo, one step of a path of its own each, or all of the same.

    Of the same path, `collective` is the number (from 1) of the first one in which a pass differs
    between the ranks, `edges` tells which were in place, and `issued` is its kind and unit on each
    rank. `problem` says why ranks did not come to run.
    """

    paths: tuple[str, ...]
    ranks: tuple[RankEnd, ...] = ()
    edges: Edges = "hook"
    collective: int | None = None
    issued: tuple[tuple[str, int] | None, ...] = ()
    problem: str | None = None


class Recording(Read):
    """All that one run of the worker saw of a recipe."""

    torch: str
    mode: Literal["fake", "real", "ranks"]
    mesh: dict[str, int]
    configured_mesh: dict[str, int] | None = None
    config: str | None = None
    top_class: str
    hook: HookFacts
    units: tuple[Unit, ...]
    classes: tuple[ClassInModel, ...] = ()
    tied: tuple[tuple[str, ...], ...] = ()
    edges: EdgeLists
    calls: tuple[SetterCall, ...] = ()
    second_call: SecondCall | None = None
    mixed_paths: tuple[tuple[str, ...], ...] | None = None
    paths: tuple[Path, ...]
    roots: tuple[int, ...] = ()
    fake_stop: FakeStop | None = None
    real_failed: str | None = None
    rank_runs: tuple[RankRun, ...] = ()
    peak_rss: int = 0
    seconds: float = 0.0

    @model_validator(mode="after")
    def _within_units(self) -> Recording:
        """Refuse numbers that are no unit's: only a forged recording has them."""
        calls = (*self.calls, *(self.second_call.calls if self.second_call else ()))
        lists = (*self.edges.forward, *self.edges.backward)
        numbers = {*self.roots, *(s for s, _ in lists), *(t for _, ts in lists for t in ts)}
        for call in calls:
            numbers |= {call.source, *call.targets, *call.before}
        for path in self.paths:
            for one in path.passes:
                numbers |= {*one.live, *one.pending}
                for event in one.events:
                    known = event.kind in ("loss", "end") and event.unit == -1
                    numbers |= set() if known else {event.unit}
                    numbers |= set() if event.by is None else {event.by}
        for run in self.rank_runs:
            numbers |= {one[1] for one in run.issued if one is not None}
        if numbers and not 0 <= min(numbers) <= max(numbers) < len(self.units):
            raise ValueError("a number that is no unit's")
        return self

    def name(self, unit: int) -> str:
        """Return a unit's name: its module path, `(root)` for the whole model."""
        if unit < 0:
            return "-"
        known = self.units[unit] if unit < len(self.units) else Unit(outside=True)
        if known.outside:
            return f"(another model's unit {unit})"
        name = " + ".join(path or "(root)" for path in known.paths)
        # A line feed in a module's name would end the sentence that names it.
        name = " ".join(name.split())
        return name if known.part is None else f"{name} [{known.part}]"

    @property
    def shard(self) -> int:
        """The ranks that the bytes are reckoned for: those of the config, else those probed."""
        mesh = self.configured_mesh or self.mesh
        axes = [size for name, size in mesh.items() if "shard" in name]
        if axes:
            product = 1
            for size in axes:
                product *= size
            return product
        probed = max((unit.shard_size for unit in self.units), default=1)
        return probed if self.configured_mesh is None else max(mesh.values())

    def described(self, event: Event) -> str:
        """Return an event as one line of text."""
        text = f"{event.kind} {self.name(event.unit)}" if event.unit >= 0 else event.kind
        if event.why is None:
            return text
        by = "" if event.by is None else f" of {self.name(event.by)}"
        return f"{text} ({event.why}{by})"


class Answer(Read):
    """The worker's file: how the job ended, and a recording when that was well."""

    outcome: str = "crashed"
    sentence: str = ""
    output: str = ""
    tail: str = ""
    place: tuple[str, int] | None = None
    operator: str | None = None
    fake_stop: FakeStop | None = None
    real_failed: str | None = None
    rank_run: RankRun | None = None
    recording: Recording | None = Field(default=None)

    def with_rank_runs(self, runs: Sequence[RankRun]) -> Answer:
        """Return the same answer with what real ranks came to, in addition to what it has."""
        if self.recording is None:
            return self
        known = (*self.recording.rank_runs, *runs)
        recording = self.recording.model_copy(update={"rank_runs": known})
        return self.model_copy(update={"recording": recording})
