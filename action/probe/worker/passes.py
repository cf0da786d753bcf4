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
            else:
                loss = _checked(path, function())
                recorder.mark("loss")
                loss.backward()  # type: ignore[no-untyped-call]
    except SystemExit as trouble:
        error = _error(LossError(f"path `{path}` called sys.exit({trouble.code!r})"), root)
    except LossError as trouble:
        error = _error(trouble, root)
    except Exception as trouble:
        error = _error(trouble, root)
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


def _checked(path: str, loss: Any) -> Tensor:
    if not isinstance(loss, Tensor):
        raise LossError(f"path `{path}` returned a {type(loss).__name__}, not the loss")
    if loss.dim() != 0:
        raise LossError(
            f"path `{path}` returned a tensor of shape {tuple(loss.shape)}; the loss must be a "
            "scalar"
        )
    if not loss.requires_grad:
        raise LossError(f"path `{path}` returned a loss that requires no grad")
    return loss


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
