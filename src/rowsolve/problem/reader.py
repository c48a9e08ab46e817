"""Reading the rows of a system: in passes, as lists of rows, as random samples."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, NamedTuple

import numpy as np

from rowsolve.policy.thresholds import WORK_OF_A_BURST
from rowsolve.problem.clock import Clock
from rowsolve.problem.counter import RowCounter
from rowsolve.problem.flagged import FlaggedRows
from rowsolve.problem.limits import Limits
from rowsolve.sources import Source

__all__ = ["Part", "Piece", "Reader"]


class Piece(NamedTuple):
    """Consecutive rows that are in memory: ``rows[start:stop]``, where row 0 is row `first` of A."""

    rows: Any
    first: int
    start: int
    stop: int

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return self.stop - self.start

    def of(self, values: np.ndarray) -> np.ndarray:
        """Return `values`, one for each row of A, as they go with `rows`."""
        return values[self.first :]


class Part(NamedTuple):
    """Arbitrary rows that are in memory: ``rows[order]``, which are rows `numbers` of A if these are given."""

    rows: Any
    order: np.ndarray
    numbers: np.ndarray | None = None

    def of(self, values: np.ndarray) -> np.ndarray:
        """Return `values`, one for each row of A, as they go with `rows`."""
        return values if self.numbers is None else values[self.numbers]


class Reader:
    """Reads and counts the rows of a system that are in memory; `StoredReader` reads those that are not.

    Attributes
    ----------
    source : Source
    entries_per_row : float
        The mean number of stored entries of a row, at least 1.
    flagged : FlaggedRows
        The rows that kernels flag, checked after each piece.
    """

    stored: ClassVar[bool] = False

    def __init__(self, source: Source, counter: RowCounter, clock: Clock, flagged: FlaggedRows) -> None:
        self.source, self.flagged = source, flagged
        self.entries_per_row = max(1.0, source.entries_per_row)
        self._counter, self._clock = counter, clock

    def limits(self, threads: int, workspace_bytes: float) -> Limits:
        """Return the limits of a solve that may use so many threads and so large a workspace."""
        return Limits(threads, workspace_bytes, sum(part.nbytes for part in self.source.rows))

    @property
    def slow(self) -> bool:
        """Whether rows are read from a file, rather than from memory or from a memory map that fits in memory."""
        return False

    @property
    def sample_is_a_pass(self) -> bool:
        """Whether a random sample of rows takes as long to read as all rows."""
        return False

    @property
    def rows_at_once(self) -> int:
        """The number of rows in a part."""
        return self.source.shape[0]

    def pieces(self, times_used: int, n_rows: int | None, skip: int) -> Iterator[Piece]:
        """Yield all rows, or `n_rows`, in pieces that take about as long as a burst; see `System.pieces`."""
        total = self.source.shape[0] if n_rows is None else n_rows
        size = max(1, int(WORK_OF_A_BURST / (self.entries_per_row * times_used)))
        for start in range(skip * size, total, size):
            piece = Piece(self.source.rows, 0, start, min(start + size, total))
            yield piece
            self._end_piece(piece)
        if n_rows is None:
            self._counter.end_of_pass()

    def _end_piece(self, piece: Piece) -> None:
        self._counter.add(piece.n_rows)
        self.flagged.check()
        self._counter.notify()
        self._clock.check()

    def keep(self, order: np.ndarray) -> None:
        """Keep the rows in `order` when the next pass reads them, so that `parts` has them afterwards."""

    def parts(self, order: np.ndarray) -> Iterator[Part]:
        """Yield the rows in `order`, as many at a time as fit in memory; see `System.parts`."""
        yield Part(self.source.rows, order)

    def fetch(self, order: np.ndarray) -> tuple[Source, np.ndarray]:
        """Return rows in memory that include those in `order`, and the positions of these."""
        return self.source, order

    def sample(self, count: int, rng: np.random.Generator) -> tuple[np.ndarray, int]:
        """Return up to `count` distinct random rows, fresh ones first, and the number of fresh ones."""
        n = self.source.shape[0]
        for n_drawn in (2 * count, 8 * count):  # in most cases few rows have been used
            if n <= 8 * count:
                drawn = rng.permutation(n)
            else:
                drawn = rng.integers(0, n, n_drawn)
                drawn = drawn[np.sort(np.unique(drawn, return_index=True)[1])]
            used = self._counter.is_used(drawn)
            fresh = drawn[~used][:count]
            if fresh.size == count or drawn.size == n:
                break
        return np.concatenate([fresh, drawn[used][: count - fresh.size]]), fresh.size

    def n_places(self, order: np.ndarray) -> int:
        """Return the number of independent places that these rows come from."""
        return order.size

    @property
    def bytes_read(self) -> float:
        """The bytes of A read so far."""
        return self._counter.rows_read * self.entries_per_row * self.source.rows[0].itemsize

    def restore_bytes(self, before: float) -> None:
        """Add the bytes that were read `before`; those of rows in memory follow from the number of rows."""
