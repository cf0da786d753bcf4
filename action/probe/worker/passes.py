"""One forward and backward of a training path, or one evaluation, as events."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from . import adapter
from .recorder import Recorder
from .target import place, said, tail_of
from .units import UnitNumbers


class LossError(Exception):
    """A path returned something that is not a loss; the message is one sentence."""


def run_pass(
    model: nn.Module,
    path: str,
    function: Callable[[], Any],
    kind: str,
    recorder: Recorder,
    numbers: UnitNumbers,
    root: Path,
) -> dict[str, Any]:
    """Run one pass and return it as plain data; `kind` is `train` or `eval`.

    A training pass ends after backward, without an optimizer step. Units that stay live are named
    and then freed, so that no pass sees what an earlier one left, other than through FSDP2's own
    bookkeeping. An error ends the pass and is part of the result.
    """
    error: dict[str, Any] | None = None
    recorder.start()
    try:
        with _mode(model, kind):
            if kind == "eval":
                with torch.no_grad():
                    function()
                _check_entered(path, recorder)
            else:
                loss = _checked(path, function(), recorder)
                recorder.mark("loss")
                loss.backward()  # type: ignore[no-untyped-call]
    except SystemExit as trouble:
        error = _error(LossError(f"path `{path}` called sys.exit({trouble.code!r})"), root)
    except LossError as trouble:
        error = _error(trouble, root)
    except Exception as trouble:
        known = _skipped_hooks(path, trouble, recorder, numbers)
        error = _error(trouble, root) | ({} if known is None else {"message": known, "ours": True})
    finally:
        events = recorder.stop()
    live = [n for n, (_, group) in enumerate(numbers.owners) if _is_live(group)]
    pending = [n for n in live if adapter.is_pending(numbers.owners[n][1])]
    if live or error is not None or kind == "eval":
        adapter.restore(numbers.states)
    for parameter in model.parameters():
        parameter.grad = None
    return {
        "kind": kind,
        "events": [list(event) for event in events],
        "live": live,
        "pending": pending,
        "error": error,
    }


def _is_live(group: Any) -> bool:
    return group is not None and (adapter.is_pending(group) or adapter.is_unsharded(group))


def _checked(path: str, loss: Any, recorder: Recorder) -> Tensor:
    if not isinstance(loss, Tensor):
        kind = "None" if loss is None else f"a {type(loss).__name__}"
        raise LossError(f"path `{path}` returned {kind}, not the loss")
    if loss.dim() != 0:
        raise LossError(
            f"path `{path}` returned a tensor of shape {tuple(loss.shape)}; the loss must be a "
            "scalar"
        )
    _check_entered(path, recorder)
    if not loss.requires_grad:
        raise LossError(f"path `{path}` returned a loss that requires no grad")
    return loss


_FORWARD_ONLY = (
    "FSDP2's hooks run in `forward` only; call the model itself, or register the method with "
    "`register_fsdp_forward_method`"
)


def _check_entered(path: str, recorder: Recorder) -> None:
    if not recorder.entered():
        raise LossError(f"path `{path}` ran no unit's forward: {_FORWARD_ONLY}")


def _skipped_hooks(
    path: str, trouble: Exception, recorder: Recorder, numbers: UnitNumbers
) -> str | None:
    """Return what an error means that comes from parameters still being sharded."""
    if "DTensor" not in str(trouble) or "mixed" not in str(trouble):
        return None
    entered = recorder.entered()
    if not entered:
        return f"path `{path}` ran no unit's forward: {_FORWARD_ONLY}"
    root = next((n for n, paths in enumerate(numbers.paths) if "" in paths), None)
    if root is None or root in entered:
        return None
    return f"path `{path}` did not run the root's forward: {_FORWARD_ONLY}"


def _error(trouble: BaseException, root: Path) -> dict[str, Any]:
    return {
        "message": str(trouble) if isinstance(trouble, LossError) else said(trouble),
        "place": place(trouble, root),
        "operator": adapter.stopping_operator(trouble),
        "tail": tail_of(trouble),
        "ours": isinstance(trouble, LossError),
    }


@contextmanager
def _mode(model: nn.Module, kind: str) -> Iterator[None]:
    """Evaluate in eval mode and train in whatever mode `build` left, then put it back."""
    before = [(module, module.training) for module in model.modules()]
    if kind == "eval":
        model.eval()
    elif not model.training:
        model.train()
    try:
        yield
    finally:
        for module, training in before:
            module.training = training
