"""Reading the rows of a system that are not in memory, a few at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property

import numpy as np

from rowsolve.kernels.rows import DenseRows, frozen
from rowsolve.parallel.memory import free_memory
from rowsolve.policy.thresholds import ROWS_TO_CHECK, RUN_BYTES, SPOTS
from rowsolve.problem.clock import Clock
from rowsolve.problem.counter import RowCounter
from rowsolve.problem.flagged import FlaggedRows
from rowsolve.problem.limits import Limits
from rowsolve.problem.reader import Part, Piece, Reader
from rowsolve.sources import Source
from rowsolve.sources.stored import StoredRows

__all__ = ["StoredReader"]

_NO_ROWS = np.empty(0, np.int64)


class StoredReader(Reader):
    """Reads and counts the rows of a `Store`; passes read them in their order."""

    source: StoredRows
    stored = True

    def __init__(self, source: StoredRows, counter: RowCounter, clock: Clock, flagged: FlaggedRows) -> None:
        super().__init__(source, counter, clock, flagged)
        self._kept: Part | None = None
        self._to_keep: np.ndarray | None = None
        self._bytes_before = 0.0

    def limits(self, threads: int, workspace_bytes: float) -> Limits:
        """Return the limits of a solve: half of the memory that is not `fixed` is for chunks."""
        memory = self.source.memory
        return Limits(threads, min(workspace_bytes, memory.workspace_bytes), memory.fixed, 0.5)

    @cached_property
    def slow(self) -> bool:
        """Whether rows are read from a file, rather than from a memory map that fits in memory."""
        store = self.source.store
        return not (self.source.memory.views and store.shape[0] * store.footprint.bytes_per_row <= free_memory())

    @property
    def sample_is_a_pass(self) -> bool:
        """Whether a random sample of rows takes as long to read as all rows."""
        store = self.source.store
        return store.ordered or store.shape[0] <= 2 * SPOTS * store.chunk

    @property
    def rows_at_once(self) -> int:
        """The number of rows in a part."""
        return self.source.rows_at_once

    def pieces(self, times_used: int, n_rows: int | None, skip: int) -> Iterator[Piece]:  # noqa: ARG002
        """Yield all rows, a few MB at a time; see `System.pieces`."""
        assert n_rows is None
        wanted, self._to_keep = (_NO_ROWS if self._to_keep is None or skip else self._to_keep), None
        kept = np.empty((wanted.size, self.source.shape[1]), self.source.store.dtype)
        for first, source in self.source.in_order(skip):
            piece = Piece(source.rows, first, 0, source.shape[0])
            if wanted.size:
                here = (wanted >= first) & (wanted < first + piece.n_rows)
                kept[here] = piece.rows.values[wanted[here] - first]
            with self._numbered(np.arange(first, first + piece.n_rows)):
                yield piece
            self._end_piece(piece)
        if wanted.size:
            self._kept = Part(DenseRows(frozen(kept)), np.arange(len(kept)), wanted)
        self._counter.end_of_pass()

    @contextmanager
    def _numbered(self, numbers: np.ndarray) -> Iterator[None]:
        """Renumber the rows that kernels flag in this context with their `numbers` in A."""
        flagged_rows = self._counter.flagged_rows
        before = flagged_rows.copy()
        flagged_rows[:] = -1
        yield
        flagged_rows[:] = np.where(flagged_rows >= 0, numbers[flagged_rows], before)

    def keep(self, order: np.ndarray) -> None:
        """Keep the rows in `order` when the next pass reads them, so that `parts` has them afterwards."""
        fits = not self.source.store.sparse and order.size <= self.rows_at_once
        self._to_keep = order if fits else None

    def parts(self, order: np.ndarray) -> Iterator[Part]:
        """Yield the rows in `order`, as many at a time as fit in memory."""
        for start, stop in self.source.batches(order.size):
            numbers = order[start:stop]
            if self._kept is None or not np.array_equal(self._kept.numbers, numbers):  # type: ignore[arg-type]
                self._kept = None  # to free the memory before the next part is read
                self._kept = Part(self.source.fetch(numbers).rows, np.arange(numbers.size), numbers)
            with self._numbered(numbers):
                yield self._kept  # suspects are read repeatedly

    def fetch(self, order: np.ndarray) -> tuple[Source, np.ndarray]:
        """Return the rows in `order`, read together, and their positions."""
        return self.source.fetch(order), np.arange(order.size)

    def sample(self, count: int, rng: np.random.Generator) -> tuple[np.ndarray, int]:
        """Return up to `count` distinct random rows, fresh ones first, and the number of fresh ones.

        If they are many, or if the store reads chunks, they are short runs of rows from at least 64 places.
        """
        store = self.source.store
        run = max(store.chunk, store.footprint.rows_in(RUN_BYTES))
        run = min(run, count // SPOTS)
        if run < 2 or (store.chunk == 1 and count <= ROWS_TO_CHECK):
            return super().sample(count, rng)
        places = rng.permutation(-(-store.shape[0] // run))[: -(-count // run) + 1]
        order = (places[:, None] * run + np.arange(run)).ravel()
        order = rng.permutation(order[order < store.shape[0]][:count])
        used = self._counter.is_used(order)
        return np.concatenate([order[~used], order[used]]), int((~used).sum())

    def n_places(self, order: np.ndarray) -> int:
        """Return the number of independent places that these rows come from."""
        chunk = self.source.store.chunk
        return order.size if chunk == 1 else int(np.unique(order // chunk).size)

    @property
    def bytes_read(self) -> float:
        """The bytes of A read so far."""
        return self._bytes_before + self.source.store.bytes_read

    def restore_bytes(self, before: float) -> None:
        """Add the bytes that were read `before`."""
        self._bytes_before += before
