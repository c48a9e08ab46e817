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
    """A counter of the rows that are read; besides the clock, the only part of a system that changes during a solve.

    Attributes
    ----------
    rows_read : int
    max_rows : float
        The number of rows that may be read in total, for methods that read many without interruption.
    flagged_rows : ndarray of 3 integers
        The last row of each kind that kernels flag (see `kernels.rows`), or -1.
    inconsistent_row : int or None
        A row of zeros with a nonzero b, if one has been read.
    all_checked : bool
        Whether all numbers are known to be finite, from a check beforehand or from a pass.
    """

    def __init__(self, n_rows: int, *, all_checked: bool) -> None:
        self.rows_read, self.max_rows, self.all_checked = 0, math.inf, all_checked
        self.flagged_rows = np.full(3, -1)
        self.inconsistent_row: int | None = None
        self._used = np.zeros(n_rows, dtype=bool)
        self._listener: Callable[[], Any] = _nothing

    def add(self, n_rows: int) -> None:
        """Count rows that are read besides those used."""
        self.rows_read += n_rows

    def take(self) -> int:
        """Return the number of rows read and reset it to 0; they are added to another counter."""
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
        """Note that every row has been read, and so checked for numbers that are not finite."""
        self.all_checked = True

    def is_used(self, order: np.ndarray) -> np.ndarray:
        """Return for each row in `order` whether it has been used."""
        return self._used[order]

    def sample_of_used_rows(self, most: int) -> np.ndarray:
        """Return used rows, evenly spaced ones if there are more than `most`."""
        used = np.flatnonzero(self._used)
        return used[:: -(-used.size // most) or 1]

    @property
    def n_checked(self) -> int:
        """The number of rows known to be finite: all, or those that were used."""
        return self._used.size if self.all_checked else int(np.count_nonzero(self._used))

    def watch(self, listener: Callable[[], Any], max_rows: float = math.inf) -> None:
        """Set a `listener` that is called after each piece of a pass, and the number of rows that may be read."""
        self._listener, self.max_rows = listener, max_rows

    def notify(self) -> None:
        """Call the listener."""
        self._listener()

    def note_inconsistent_row(self, row: int) -> None:
        """Note a row of zeros with a nonzero b, unless one is known."""
        if self.inconsistent_row is None:
            self.inconsistent_row = row

    saved: ClassVar[dict[str, Kind]] = {
        "all_checked": flag,
        "rows_read": integer(),
        "flagged_rows": array(3, dtype=np.int64),
        "inconsistent_row": optional(row_number),
        "_used": bits,
    }
    derived: ClassVar[tuple[str, ...]] = ("max_rows", "_listener")

    def state(self) -> dict[str, Any]:
        """Return the state of the counter."""
        return {**state_of(self), "_used": np.packbits(self._used)}

    def restore(self, state: Any, sizes: Sizes) -> None:
        """Restore the state of the counter."""
        fill(self, state, sizes)
        if not (self.flagged_rows < sizes["n"]).all():
            raise StateError(f"flagged_rows: expected rows up to {sizes['n'] - 1}, got {self.flagged_rows.max()}")
