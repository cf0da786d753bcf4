"""Bytes as a person reads them."""

from __future__ import annotations


def amount(size: int) -> str:
    """Return bytes in powers of 1024: `512 B`, `1.5 KiB`, `3.04 GiB`."""
    value = float(size)
    for unit in ("B", "KiB", "MiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.2f} GiB"
