"""The search for NaN and infinity, and its error messages."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from rowsolve.policy.thresholds import BYTES_AT_ONCE

__all__ = ["NotFinite", "column_words", "first_not_finite", "words_for"]


class NotFinite(NamedTuple):
    """The position and value of a number that is not finite."""

    row: int
    column: int
    value: float


def first_not_finite(rows: Any) -> NotFinite | None:
    """Return the first number in `rows` (an array, or CSR) that is not finite; None if all are finite.

    The sum of the numbers is computed first, at the speed of memory. Only if it is not finite, which may also be
    overflow, are they looked at one by one.
    """
    if hasattr(rows, "indptr"):
        found = first_not_finite(rows.data)
        if found is None:
            return None
        row = int(np.searchsorted(rows.indptr, found.row, side="right")) - 1
        return NotFinite(row, int(rows.indices[found.row]), found.value)
    table = rows if rows.ndim == 2 else rows[:, None]
    step = max(1, int(BYTES_AT_ONCE / max(1, table[:1].nbytes)))  # so that a closer look takes little memory
    for start in range(0, len(table), step):
        part = table[start : start + step]
        if not math.isfinite(np.einsum("ij->", part)):  # which, unlike sum(), never warns
            bad = np.argwhere(~np.isfinite(part))
            if len(bad):
                row, column = map(int, bad[0])
                return NotFinite(start + row, column, float(part[row, column]))
    return None


def column_words(names: tuple[str, ...] | None, column: int) -> str:
    """Return how messages refer to a column: by its name, if it has one, else by its number."""
    return f"column {column}" if names is None else f"column {names[column]!r}"


def words_for(name: str, names: tuple[str, ...] | None, found: NotFinite) -> str:
    """Return the error message for a number that is not finite; `name` is the file, or empty."""
    place = f"{name}: " if name else ""
    return f"{place}`A` must be finite: row {found.row} has {found.value} in {column_words(names, found.column)}."
