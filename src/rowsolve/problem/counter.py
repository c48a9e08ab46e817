"""The rows that a solve has read: how many, which were used, and which are flagged."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from rowsolve.checkpoint.state import (
    Kind,
    Sizes,
    StateError,
    array,
    bits,
    fill,
    flag,
    integer,
    optional,
    row_number,
    state_of,
)

__all__ = ["RowCounter"]


def _nothing() -> None:
    pass


class RowCounter:
    """Counts the rows that are read; the only object of a system that changes during a solve.

    Attributes
    ----------
    rows_read : int
    max_rows : float
        How many may be read in all, where a method reads many without a break.
    flagged_rows : ndarray of 3 integers
        Where kernels note the last row of each sort to flag (see `kernels.rows`), or -1.
    contradiction : int or None
        A row that is all zero although its b is not, once one has been read.
    all_checked : bool
        Whether all numbers are known to be finite: by a look beforehand, or by a pass.
    """

    def __init__(self, n_rows: int, *, all_checked: bool) -> None:
        self.rows_read, self.max_rows, self.all_checked = 0, math.inf, all_checked
        self.flagged_rows = np.full(3, -1)
        self.contradiction: int | None = None
        self._used = np.zeros(n_rows, dtype=bool)
        self._listener: Callable[[], Any] = _nothing

    def add(self, n_rows: int) -> None:
        """Count rows that are read besides those used."""
        self.rows_read += n_rows

    def take(self) -> int:
        """Return how many were read, and count from 0 again: another counter has them."""
        taken, self.rows_read = self.rows_read, 0
        return taken

    def use(self, order: np.ndarray) -> None:
        """Count the rows in `order` as read and used."""
        self.rows_read += order.size
        self._used[order] = True

    def use_all(self) -> None:
        """Note that every row has been used."""
        self._used[:] = True

    def end_of_pass(self) -> None:
        """Note that every row has been read, and would have been noted if its numbers were not finite."""
        self.all_checked = True

    def is_used(self, order: np.ndarray) -> np.ndarray:
        """Tell of each row in `order` whether it has been used."""
        return self._used[order]

    def some_used(self, most: int) -> np.ndarray:
        """Return used rows, evenly spaced ones if there are more than `most`."""
        used = np.flatnonzero(self._used)
        return used[:: -(-used.size // most) or 1]

    @property
    def n_checked(self) -> int:
        """How many rows are known to be finite: all, or those that were used."""
        return self._used.size if self.all_checked else int(np.count_nonzero(self._used))

    def watch(self, listener: Callable[[], Any], max_rows: float = math.inf) -> None:
        """Call `listener` after each piece of a pass from now on, and let no more than `max_rows` be read."""
        self._listener, self.max_rows = listener, max_rows

    def tell(self) -> None:
        """Call the listener."""
        self._listener()

    def note_contradiction(self, row: int | None) -> None:
        """Remember a row that is all zero although its b is not, unless one is known."""
        if self.contradiction is None:
            self.contradiction = row

    saved: ClassVar[dict[str, Kind]] = {
        "all_checked": flag,
        "rows_read": integer(),
        "flagged_rows": array(3, dtype=np.int64),
        "contradiction": optional(row_number),
        "_used": bits,
    }
    derived: ClassVar[tuple[str, ...]] = ("max_rows", "_listener")

    def state(self) -> dict[str, Any]:
        """Return what has been counted."""
        return {**state_of(self), "_used": np.packbits(self._used)}

    def restore(self, state: Any, sizes: Sizes) -> None:
        """Take over what was counted."""
        fill(self, state, sizes)
        if not (self.flagged_rows < sizes["n"]).all():
            raise StateError(f"flagged_rows: expected rows up to {sizes['n'] - 1}, got {self.flagged_rows.max()}")
