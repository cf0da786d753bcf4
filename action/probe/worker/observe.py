"""One recipe in this process: build, wrap, run every path with and without edges, write it down."""

from __future__ import annotations

import math
import resource
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch._C._distributed_c10d import HashStore
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from . import adapter
from .answers import REAL_AT_MOST
from .passes import run_pass
from .ranks import RANKS, TOGETHER, end_of, last_unit, start_gloo_rank
from .recorder import Call, Recorder, told_by
from .target import (
    StopError,
    Target,
    build_target,
    has_tiny,
    limited,
    load_probe,
    place,
    relative,
    said,
    tail_of,
)
from .units import (
    UnitNumbers,
    class_of,
    codes_of,
    describe_classes,
    describe_hook,
    describe_tied,
    describe_units,
    edge_lists,
    put_edges,
    saved_edges,
    without_edges,
)

DEFAULT_MESH = {"shard": 2}
_SEED = 0

At = Callable[[str], None]


def observe(job: Mapping[str, Any], at: At) -> dict[str, Any]:
    """Return everything that was seen of one recipe, as plain data; `at` is told of each step.

    `job` has `probe` and `root` (paths), `mode` (`fake`, `real`, `ranks`), `hook` (the attribute's
    name), `wanted` (class names to look for), and optionally `config`, `overrides`, `mesh`,
    `paths`, `most_parameters`; in mode `ranks` also `rank`, `store`, and optionally `mix`, a path
    for each rank.

    Raises:
        StopError: nothing could be observed.
    """
    mode, root = str(job["mode"]), Path(job["root"])
    try:
        adapter.check_torch()
    except adapter.UnknownTorchError as trouble:
        raise StopError("unknown torch", str(trouble)) from trouble
    if mode == "fake" and adapter.version() < adapter.FAKE_SINCE:
        raise StopError(
            "needs real", f"torch {torch.__version__} has no collectives on fake tensors"
        )
    adapter.complete_cpu_streams()
    numbers = UnitNumbers()
    recorder = Recorder(numbers.number)
    with adapter.listening(recorder):
        at("importing probe.py")
        module = load_probe(Path(job["probe"]))
        config = _choose_config(module, job, mode)
        configured = _mesh_of(
            job.get("mesh") or getattr(module, "mesh", None) or getattr(module, "MESH", None)
        )
        if mode != "fake" and configured is None:
            # One or two ranks hold real values; bytes are still those of the mesh for fake ones.
            configured = _mesh_of(getattr(module, "PROBE_MESH", None)) or DEFAULT_MESH
        sizes = _probed_mesh(configured, getattr(module, "PROBE_MESH", None), mode)
        with _ranks(job, mode, sizes) as mesh, _tensors(mode):
            torch.manual_seed(_SEED)
            at("building the model")
            with limited(_most_parameters(job, mode)):
                target = build_target(module, mesh, job.get("overrides") or ())
            numbers.index(target.model)
            if job.get("mix"):
                return _run_mixed(job, target, recorder, numbers, root, at)
            built = len(recorder.calls)
            hook_facts, hook = describe_hook(target.model, target.before_wrap, str(job["hook"]))
            cls = class_of(target.model)
            chosen = _paths(target, job.get("paths"))
            facts: dict[str, Any] = {
                "torch": torch.__version__,
                "mode": mode,
                "mesh": sizes,
                "configured_mesh": configured,
                "config": config,
                "top_class": f"{cls.__module__}.{cls.__qualname__}",
                "hook": hook_facts,
                "units": describe_units(numbers),
                "classes": describe_classes(target.model, job.get("wanted") or ()),
                "tied": describe_tied(target.model, target.before_wrap),
                "edges": edge_lists(numbers),
                "calls": _calls(recorder.calls, numbers, codes_of(hook), root),
                "mixed_paths": target.mixed,
            }
            facts["paths"] = _run_paths(target, chosen, recorder, numbers, root, at, mode)
            at("calling the hook a second time")
            facts["second_call"] = _call_again(hook, target.model, recorder, numbers, built, root)
            for path in () if _stuck(facts["paths"], mode) else facts["paths"]:
                at(f"running path `{path['name']}`, after the second call of the hook")
                path["passes"].append(
                    _pass(target, path["name"], "train", recorder, numbers, root)
                    | {"edges": "second call"}
                )
            # Roots are known after the first forward only; late units (a second model) too.
            facts["units"] = describe_units(numbers)
            facts["roots"] = _roots(numbers)
    facts["peak_rss"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return facts


def _choose_config(module: Any, job: Mapping[str, Any], mode: str) -> str | None:
    """Make `build` use the config asked for, or the tiny one where values are real."""
    asked = job.get("config")
    tiny = getattr(module, "TINY_CONFIG", None)
    if asked is not None or (mode != "fake" and tiny is not None):
        if not hasattr(module, "CONFIG"):
            raise StopError(
                "bad probe",
                "probe.py has no `CONFIG`, the path that `build` reads, so that no other config "
                "can be put in its place",
            )
        chosen = Path(str(tiny if asked is None else asked))
        if not chosen.exists():
            raise StopError("bad probe", f"the config {chosen} does not exist")
        module.CONFIG = chosen
    config = getattr(module, "CONFIG", None)
    return None if config is None else (relative(str(config), Path(job["root"])) or str(config))


def _mesh_of(value: Any) -> dict[str, int] | None:
    if value is None:
        return None
    if callable(value):
        try:
            value = value()
        except (Exception, SystemExit) as trouble:
            raise StopError("bad probe", f"`mesh()` raised {said(trouble)}", trouble) from trouble
    if not isinstance(value, Mapping) or not value:
        raise StopError("bad probe", f"`MESH` is {value!r}; a dict of axis names and sizes is due")
    sizes = {str(name): size for name, size in value.items()}
    for name, size in sizes.items():
        if not isinstance(size, int) or size < 1:
            raise StopError("bad probe", f"`MESH` has {name!r}: {size!r}; a number from 1 is due")
    return sizes


def _probed_mesh(configured: dict[str, int] | None, exact: Any, mode: str) -> dict[str, int]:
    """Return the axes of the config's mesh at sizes that cost little."""
    if exact is not None:
        sizes = _mesh_of(exact) or DEFAULT_MESH
    else:
        sizes = {name: min(size, 2) for name, size in (configured or DEFAULT_MESH).items()}
    if mode == "fake":
        return sizes
    alone = dict.fromkeys(sizes, 1)
    if mode == "ranks":
        alone[next((name for name in sizes if "shard" in name), next(iter(sizes)))] = RANKS
    return alone


def _most_parameters(job: Mapping[str, Any], mode: str) -> int | None:
    if mode == "ranks" and not has_tiny(job):
        return REAL_AT_MOST
    return job.get("most_parameters")


@contextmanager
def _ranks(job: Mapping[str, Any], mode: str, sizes: Mapping[str, int]) -> Iterator[DeviceMesh]:
    if dist.is_initialized():
        raise StopError(
            "bad probe",
            "importing probe.py started a process group; the probe starts its own before `build`",
        )
    if mode == "ranks":
        start_gloo_rank(job)
        yield _mesh(sizes)
        return
    if mode == "fake":
        adapter.start_fake_ranks(math.prod(sizes.values()))
    else:
        dist.init_process_group("gloo", store=HashStore(), rank=0, world_size=1)
    try:
        yield _mesh(sizes)
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()


def _mesh(sizes: Mapping[str, int]) -> DeviceMesh:
    return init_device_mesh("cpu", tuple(sizes.values()), mesh_dim_names=tuple(sizes))


def _tensors(mode: str) -> Any:
    return adapter.fake_tensors() if mode == "fake" else nullcontext()


def _paths(target: Target, asked: Sequence[str] | None) -> list[str]:
    if not asked:
        return list(target.paths)
    for name in asked:
        if name not in target.paths:
            raise StopError(
                "bad request", f"there is no path `{name}`; there are: {', '.join(target.paths)}"
            )
    return [name for name in target.paths if name in asked]


def _run_paths(
    target: Target,
    chosen: Sequence[str],
    recorder: Recorder,
    numbers: UnitNumbers,
    root: Path,
    at: At,
    mode: str,
) -> list[dict[str, Any]]:
    """Run each path without its edges first, since edges may leave a step half done."""
    saved = saved_edges(numbers.states)
    recorded: list[dict[str, Any]] = []
    for edges in ("none", "hook"):
        if edges == "none":
            without_edges(numbers.states)
        else:
            put_edges(saved)
        for name in chosen:
            entry = next((path for path in recorded if path["name"] == name), None)
            if entry is None:
                entry = {"name": name, "passes": []}
                recorded.append(entry)
            if any(_failed(one) for one in entry["passes"]) or _stuck(recorded, mode):
                continue
            for step, kind in enumerate(("train", "train", "eval")):
                what = "evaluation" if kind == "eval" else f"step {step + 1}"
                how = "without edges" if edges == "none" else "with the hook's edges"
                at(f"running path `{name}`, {what}, {how}")
                one = _pass(target, name, kind, recorder, numbers, root) | {"edges": edges}
                entry["passes"].append(one)
                if _failed(one):
                    break
    return recorded


def _stuck(paths: Sequence[Mapping[str, Any]], mode: str) -> bool:
    """Tell whether real ranks are out of step, so that they would wait for each other in vain."""
    return mode == "ranks" and any(_failed(one) for path in paths for one in path["passes"])


def _run_mixed(
    job: Mapping[str, Any],
    target: Target,
    recorder: Recorder,
    numbers: UnitNumbers,
    root: Path,
    at: At,
) -> dict[str, Any]:
    """Run one step of this rank's own path, beside ranks that run theirs."""
    (name,) = _paths(target, [job["mix"][int(job["rank"])]])
    dist.barrier()
    at(f"running path `{name}` beside another rank")
    one = _pass(target, name, "train", recorder, numbers, root)
    last = last_unit(one["events"])
    where = None if last is None else " + ".join(p or "(root)" for p in numbers.paths[last])
    return {"outcome": TOGETHER, "end": end_of(one, where)}


def _failed(one: Mapping[str, Any]) -> bool:
    """Tell whether a training pass ended in an error; an evaluation may do so by itself."""
    return one["kind"] == "train" and one["error"] is not None


def _pass(
    target: Target,
    name: str,
    kind: str,
    recorder: Recorder,
    numbers: UnitNumbers,
    root: Path,
) -> dict[str, Any]:
    torch.manual_seed(_SEED)
    return run_pass(target.model, name, target.paths[name], kind, recorder, numbers, root)


def _call_again(
    hook: Callable[..., Any] | None,
    model: nn.Module,
    recorder: Recorder,
    numbers: UnitNumbers,
    before: int,
    root: Path,
) -> dict[str, Any] | None:
    """Call the hook as the runtime does and return what it did; None without a hook."""
    if hook is None:
        return None
    lists = saved_edges(numbers.states)
    error: dict[str, Any] | None = None
    try:
        hook(model)
    except SystemExit as trouble:
        error = {"message": f"it called sys.exit({trouble.code!r})", "place": None, "tail": ""}
    except Exception as trouble:
        error = {
            "message": said(trouble),
            "place": place(trouble, root),
            "tail": tail_of(trouble),
        }
    changed = [
        [numbers.of_state(state), direction]
        for state, direction, targets in lists
        if list(map(id, targets)) != list(map(id, adapter.edges_of(state, direction)))
    ]
    return {
        "error": error,
        "calls": _calls(recorder.calls[before:], numbers, codes_of(hook), root),
        "changed": changed,
    }


def _calls(
    calls: Sequence[Call], numbers: UnitNumbers, codes: Sequence[Any], root: Path
) -> list[dict[str, Any]]:
    return [
        {
            "source": numbers.of_state(call.state),
            "direction": call.direction,
            "targets": [numbers.of_state(target) for target in call.targets],
            "before": [numbers.of_state(target) for target in call.before],
            "file": relative(call.file, root) or call.file,
            "line": call.line,
            "in_hook": told_by(call, codes),
        }
        for call in calls
    ]


def _roots(numbers: UnitNumbers) -> list[int]:
    return [
        number
        for number, (state, _) in enumerate(numbers.owners)
        if state is not None and adapter.is_root(state)
    ]
