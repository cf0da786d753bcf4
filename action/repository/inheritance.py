"""The order of a class's ancestors, and what is known of ancestors outside the tree."""

from __future__ import annotations

from collections.abc import Iterator

from action.repository.targets import Definition, External, Target, is_foreign

# Modules outside the tree of which it is known that none of their classes is a `torch.nn.Module`.
_NO_MODULES = (
    "pydantic",
    "typing_extensions",
    "torch.autograd",
    "torch.optim",
    "torch.utils.data",
    "yaml",
    "pytest",
)


def is_module_ancestor(target: Target) -> bool | None:
    """Tell whether an ancestor is a `torch.nn.Module`, None when its source is not here."""
    if isinstance(target, Definition):
        return False  # its own bases are in the list
    if not isinstance(target, External):
        return None
    if target.name.startswith("torch.nn.") and target.name.split(".")[-1][:1].isupper():
        return target.name not in ("torch.nn.Parameter", "torch.nn.Buffer")
    return False if is_foreign(target, _NO_MODULES) else None


def merged(orders: list[list[Target]]) -> Iterator[Target]:
    """C3 linearization; where bases contradict each other, depth first without repeats."""
    remaining = [list(order) for order in orders if order]
    while remaining:
        for order in remaining:
            head = order[0]
            if not any(head in other[1:] for other in remaining):
                break
        else:
            head = remaining[0][0]
        yield head
        remaining = [[item for item in order if item != head] for order in remaining]
        remaining = [order for order in remaining if order]
