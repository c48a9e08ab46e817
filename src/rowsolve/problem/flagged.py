"""Rows that kernels flag because they define no hyperplane, and the messages about them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rowsolve.kernels.rows import RowFlag
from rowsolve.problem.counter import RowCounter
from rowsolve.sources import Source

__all__ = ["FlaggedRows", "Origin"]


class Origin(NamedTuple):
    """Where rows that were copied or read from a system come from: their numbers in A, and the counter of all of A."""

    numbers: Sequence[int] | np.ndarray
    counter: RowCounter


class FlaggedRows:
    """Examines rows that kernels flag in ``counter.flagged_rows``: zero, or with numbers that are not finite.

    Parameters
    ----------
    source : Source
        The rows, with the names of the file and the columns for messages.
    b : ndarray of shape (n,) or (n, n_rhs)
    counter : RowCounter
    origin : Origin or None
        Where the rows come from, if they are not all of A.
    """

    def __init__(self, source: Source, b: np.ndarray, counter: RowCounter, origin: Origin | None = None) -> None:
        self._source, self._b, self._counter = source, b, counter
        self._origin = origin or Origin(range(source.shape[0]), counter)

    def check(self) -> None:
        """Raise for a row that is not finite or out of range; note a row of zeros with a nonzero b."""
        flagged_rows = self._counter.flagged_rows
        if flagged_rows[0] < 0 and flagged_rows[1] < 0 and flagged_rows[2] < 0:  # faster than max() of so few
            return
        for flag in RowFlag:
            if flagged_rows[flag] >= 0:
                self._examine(int(flagged_rows[flag]))
        flagged_rows[:] = -1

    def check_all(self) -> None:
        """Raise for the first row that is not finite; all rows are checked."""
        found = self._source.first_not_finite()
        if found is not None:
            self._examine(found.row)

    def _examine(self, i: int) -> None:
        row, number = self._source.row(i), int(self._origin.numbers[i])
        bad = np.flatnonzero(~np.isfinite(row))
        if bad.size:
            raise self._source.not_finite(number, int(bad[0]), float(row[bad[0]]))
        largest = float(np.abs(row).max(initial=0.0))
        if largest > 0.0:
            place = f"{self._source.name}: " if self._source.name else ""
            raise ValueError(
                f"{place}row {number} of `A` has entries up to {largest:.1e}, whose squares are out of the "
                "range of float64: rescale `A` and `b` to lie well between 1e-150 and 1e150."
            )
        if self._b[i].any():
            self._origin.counter.note_inconsistent_row(number)
