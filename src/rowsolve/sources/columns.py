"""Columns by their names, as tables have them."""

from __future__ import annotations

from collections.abc import Sequence

from rowsolve.sources.store import StoreError

__all__ = ["listed", "wanted_columns"]

_MOST_LISTED = 12


def listed(names: Sequence[str]) -> str:
    """Return `names` for a message, the first of them if there are many."""
    more = f" and {len(names) - _MOST_LISTED:,} more" if len(names) > _MOST_LISTED else ""
    return (", ".join(names[:_MOST_LISTED]) or "none") + more


def wanted_columns(
    file: str, names: Sequence[str], chosen: tuple[str, ...], left_out: tuple[str, ...]
) -> tuple[str, ...]:
    """Return the names that are `chosen`, or else all but those `left_out`; raise if there is nothing of that name."""
    for name in (*chosen, *left_out):
        if name not in names:
            raise StoreError(f"{file}: has no column {name!r}; there are {listed(names)}.")
    wanted = chosen or tuple(name for name in names if name not in left_out)
    for name in wanted:
        if names.count(name) > 1:
            raise StoreError(f"{file}: has several columns called {name!r}.")
    return wanted
