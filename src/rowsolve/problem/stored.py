"""A system whose rows are not in memory and are read a chunk at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import numpy as np

from rowsolve.kernels.rows import DenseRows, frozen
from rowsolve.parallel.memory import free_memory
from rowsolve.problem.clock import Clock
from rowsolve.problem.system import Part, Piece, System
from rowsolve.sources import Source
from rowsolve.sources.stored import StoredRows

__all__ = ["StoredSystem"]

_PLACES = 64  # at least, if runs of adjacent rows are sampled
_RUN = 1 << 18  # bytes of adjacent rows, which a disk reads as fast as a single row
_NO_ROWS = np.empty(0, np.int64)
_SINGLE = 256  # rows that are sampled one by one, if single rows can be read


class StoredSystem(System):
    """``A x = b`` with A in a `Store`: `pieces` are its rows in their order."""

    source: StoredRows
    stored = True

    def __init__(
        self, source: StoredRows, b: np.ndarray, clock: Clock, threads: int, damp: float,
        bounds: tuple[np.ndarray, np.ndarray] | None,
    ) -> None:  # fmt: skip
        super().__init__(source, b, clock, threads, damp, bounds, source.memory.workspace_bytes)
        self._kept: Part | None = None
        self._to_keep: np.ndarray | None = None

    @cached_property
    def slow_to_read(self) -> bool:
        """Whether rows are read from a file, rather than from a memory map that fits in memory."""
        store = self.source.store
        return not (self.source.memory.views and self.n_rows * store.bytes_per_row <= free_memory())

    @property
    def sample_is_a_pass(self) -> bool:
        """Whether a random sample of rows takes as long to read as all rows."""
        store = self.source.store
        return store.ordered or self.n_rows <= 2 * _PLACES * store.chunk

    def keep(self, order: np.ndarray) -> None:
        """Keep the rows in `order` when the next pass reads them, so that `parts` has them afterwards."""
        fits = not self.source.store.sparse and order.size <= self.rows_at_once
        self._to_keep = order if fits else None

    @property
    def bytes_read(self) -> float:
        """The bytes of A read so far."""
        return self.source.store.bytes_read

    def restore_bytes(self, before: float) -> None:
        """Set the bytes that were read `before`."""
        self.source.store.bytes_read += before

    def pieces(self, times_used: int = 1, n_rows: int | None = None, skip: int = 0) -> Iterator[Piece]:  # noqa: ARG002
        """Yield all rows, a few MB at a time: one counted pass, which Ctrl-C and the deadline can end."""
        assert n_rows is None
        wanted, self._to_keep = (_NO_ROWS if self._to_keep is None or skip else self._to_keep), None
        kept = np.empty((wanted.size, self.n_columns), self.source.store.dtype)
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
        self.counter.end_of_pass()

    def parts(self, order: np.ndarray) -> Iterator[Part]:
        """Yield the rows in `order`, as many at a time as fit in memory."""
        for start, stop in self.source.batches(order.size):
            numbers = order[start:stop]
            if self._kept is None or not np.array_equal(self._kept.numbers, numbers):  # type: ignore[arg-type]
                self._kept = None  # to free the memory before the next part is read
                self._kept = Part(self.source.fetch(numbers).rows, np.arange(numbers.size), numbers)
            with self._numbered(numbers):
                yield self._kept  # suspects are read repeatedly

    def _memory_for(self, workspace_bytes: float) -> float:
        """Return the memory limit needed for so much workspace: chunks take half of what is not `fixed`."""
        return 2.0 * workspace_bytes + self.source.memory.fixed

    @property
    def rows_at_once(self) -> int:
        """The number of rows in a part."""
        return self.source.rows_at_once

    @contextmanager
    def _numbered(self, numbers: np.ndarray) -> Iterator[None]:
        """Renumber the rows that kernels flag in this context with their `numbers` in A."""
        flagged_rows = self.counter.flagged_rows
        before = flagged_rows.copy()
        flagged_rows[:] = -1
        yield
        flagged_rows[:] = np.where(flagged_rows >= 0, numbers[flagged_rows], before)

    def part(self, order: np.ndarray) -> System | None:
        """Return the rows in `order`, scaled to unit norm, as a system of their own in memory; None if all are zero."""
        found = _Visible(self, self.source.fetch(order), order).part(np.arange(order.size))
        self.count(order)
        return found

    def visible(self, first: int, source: Source) -> System:
        """Return rows that are in memory, beginning with row `first` of A, as a system of their own."""
        return _Visible(self, source, slice(first, first + source.shape[0]))

    def sample(self, count: int, rng: np.random.Generator) -> tuple[np.ndarray, int]:
        """Return up to `count` distinct random rows, fresh ones first, and the number of fresh ones.

        If they are many, or if the store reads chunks, they are short runs of rows from at least 64 places.
        """
        store = self.source.store
        run = max(store.chunk, int(_RUN / max(1.0, store.bytes_per_row)))
        run = min(run, count // _PLACES)
        if run < 2 or (store.chunk == 1 and count <= _SINGLE):
            return super().sample(count, rng)
        places = rng.permutation(-(-self.n_rows // run))[: -(-count // run) + 1]
        order = (places[:, None] * run + np.arange(run)).ravel()
        order = rng.permutation(order[order < self.n_rows][:count])
        used = self.counter.is_used(order)
        return np.concatenate([order[~used], order[used]]), int((~used).sum())

    def places_of(self, order: np.ndarray) -> int:
        """Return the number of independent places that these rows come from."""
        chunk = self.source.store.chunk
        return order.size if chunk == 1 else int(np.unique(order // chunk).size)


class _Visible(System):
    """Rows of a stored system that are in memory, with their `numbers`; odd rows are noted in the whole system."""

    def __init__(self, whole: StoredSystem, source: Source, numbers: np.ndarray | slice) -> None:
        b = frozen(np.ascontiguousarray(whole.b[numbers]))
        super().__init__(source, b, whole.clock, whole.threads, whole.damp, whole.bounds, whole.workspace_bytes)
        self._whole, self._numbers = whole, numbers

    @property
    def arrangement(self) -> Any:
        """The arrangement of the whole system, restricted to these rows."""
        if self._whole.arrangement is None or not isinstance(self._numbers, slice):
            return self.source.arrangement
        return self._whole.arrangement.within(self._numbers.start, self._numbers.stop)

    @property
    def named(self) -> Source:
        """The source of the names of the file and the columns in messages."""
        return self._whole.source

    def number_of(self, i: int) -> int:
        """Return the number of row `i` in A."""
        return self._numbers.start + i if isinstance(self._numbers, slice) else int(self._numbers[i])

    def look_at_odd_rows(self) -> None:
        """Raise for a row that is not finite or out of range; note a row of zeros in the whole system."""
        super().look_at_odd_rows()
        self._whole.counter.note_contradiction(self.counter.contradiction)
        self.counter.contradiction = None
