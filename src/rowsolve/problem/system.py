"""The system that methods solve: rows, right-hand sides, bounds, limits, and a counter of the rows read."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from rowsolve.checkpoint.state import Sizes
from rowsolve.kernels.rows import CSRRows, frozen, norms_at, norms_of
from rowsolve.parallel.pool import run_together
from rowsolve.problem.clock import Clock
from rowsolve.problem.counter import RowCounter
from rowsolve.problem.facts import Facts
from rowsolve.problem.flagged import FlaggedRows, Origin
from rowsolve.problem.reader import Part, Piece, Reader
from rowsolve.problem.stored import StoredReader
from rowsolve.sources import Source
from rowsolve.sources.stored import StoredRows

__all__ = ["System", "loaded"]


class System:
    """``A x = b`` with the rows in a form that kernels accept.

    Passes read the rows in `pieces`, and selected rows come in `parts`. If all rows are in memory, there is only one
    part, and `rows` has them; rows in a file are only available in pieces and parts.

    Only `counter` and `clock` change during a solve; the results of a method are in its `Step`.

    Attributes
    ----------
    rows : DenseRows or CSRRows
        All rows; none, of the right type, if they are `stored`.
    b : ndarray of shape (n,) or (n, n_rhs), float64
    n_rhs : int
        The number of right-hand sides.
    damp : float
        The least-squares methods minimise ``norm(A x - b)**2 + damp**2 norm(x)**2``.
    bounds : pair of ndarrays of shape (p,), or None
        The lower and upper bounds of the entries of x, for methods that support bounds.
    clock : Clock
        The time spent, and the deadline.
    counter : RowCounter
        The counter of the rows read.
    reader : Reader
        Reads the rows, from memory or from a file.
    limits : Limits
        The number of threads, and the memory that a method may allocate.
    facts : Facts
        Norms, and properties of the storage and the pattern of the rows, computed on demand.
    """

    def __init__(
        self,
        source: Source,
        b: np.ndarray,
        clock: Clock | None = None,
        threads: int = 1,
        damp: float = 0.0,
        bounds: tuple[np.ndarray, np.ndarray] | None = None,
        workspace_bytes: float = math.inf,
        origin: Origin | None = None,
    ) -> None:
        self.rows: Any = source.rows
        self.b = b = frozen(b)  # read-only, so that kernels are compiled for one kind of array
        self.n_rhs = 1 if b.ndim == 1 else b.shape[1]
        self.n_rows, self.n_columns = source.shape
        self.damp, self.bounds = damp, bounds
        self.clock = clock or Clock()
        self.counter = RowCounter(self.n_rows, all_checked=source.checked)
        self.reader = _reader_of(source, self.counter, self.clock, FlaggedRows(source, b, self.counter, origin))
        self.limits = self.reader.limits(threads, workspace_bytes)
        self.facts = Facts(self.rows, b, self.n_columns, stored=self.stored, damped=damp > 0.0)

    @property
    def source(self) -> Source:
        """The rows as they were opened, with the names of their file and columns."""
        return self.reader.source

    @property
    def stored(self) -> bool:
        """Whether the rows are not in memory."""
        return self.reader.stored

    @property
    def entries_per_row(self) -> float:
        """The mean number of stored entries of a row, at least 1."""
        return self.reader.entries_per_row

    @property
    def sizes(self) -> Sizes:
        """The sizes that the arrays in a state of this system must have."""
        k, sparse = self.n_rhs, isinstance(self.rows, CSRRows)
        return {"n": self.n_rows, "p": self.n_columns, "k": k, "v": k + 1, "sparse": sparse}

    def pieces(self, times_used: int = 1, n_rows: int | None = None, skip: int = 0) -> Iterator[Piece]:
        """Yield all rows in pieces: one counted pass, which Ctrl-C and the deadline can end.

        `times_used` is how often each number is used, so that a piece takes about as long as a burst. `n_rows` is the
        length of a list of rows to read instead of all. The first `skip` pieces, which were done before, are left out.
        """
        return self.reader.pieces(times_used, n_rows, skip)

    def pass_over(
        self, call: Callable[[Piece, int, int, np.ndarray], None], times_used: int = 1, n_rows: int | None = None
    ) -> None:
        """Run ``call(piece, start, stop, flagged_rows)`` over all rows, or `n_rows`, on all threads (see `pieces`)."""
        for piece in self.pieces(times_used, n_rows):
            work = piece.n_rows * self.entries_per_row * times_used
            self.in_slices(partial(call, piece), piece.start, piece.stop, work)

    def in_slices(self, call: Callable[[int, int, np.ndarray], None], start: int, stop: int, work: float) -> None:
        """Run ``call(start, stop, flagged_rows)`` over slices of a range on all threads; they use `work` numbers.

        Slices have an even number of items (see `kernels.rows.row_products`), and each its own `flagged_rows`: the last
        row noted is the same for any number of threads.
        """
        parts = self.limits.threads_for(work)
        if parts == 1:
            call(start, stop, self.counter.flagged_rows)
            return
        size = 2 * -(-(stop - start) // (2 * parts))
        edges = [*range(start, stop, size), stop]
        flags = np.full((len(edges) - 1, 3), -1)
        run_together(
            [partial(call, *slice_, flagged_rows) for slice_, flagged_rows in zip(pairwise(edges), flags, strict=True)]
        )
        for flagged_rows in flags:
            np.copyto(self.counter.flagged_rows, flagged_rows, where=flagged_rows >= 0)

    def end_passes(self, count: int) -> None:
        """Count passes that were made without interruption."""
        self.counter.add(count * self.n_rows)
        self.counter.end_of_pass()
        self.counter.use_all()
        self.counter.notify()
        self.clock.check()

    def norms_sq(self) -> np.ndarray:
        """Return the squared norm of each row, 0 for one that defines no hyperplane; make one pass."""
        found = np.empty(self.n_rows)

        def fill(piece: Piece, start: int, stop: int, flagged_rows: np.ndarray) -> None:
            norms_of(piece.rows, piece.of(self.facts.b_magnitude), start, stop, piece.of(found), flagged_rows)

        self.pass_over(fill)
        return found

    def parts(self, order: np.ndarray) -> Iterator[Part]:
        """Yield the rows in `order`, from first to last, as many at a time as fit in memory; they are not counted.

        Rows that kernels flag in `flagged_rows` meanwhile are numbered as in a part.
        """
        return self.reader.parts(order)

    def part(self, order: np.ndarray) -> System | None:
        """Return the rows in `order`, which are counted, as a system of their own in memory; None if all are zero.

        Each is divided by its norm; those that define no hyperplane are left out. One thread is enough for rows that
        fit in the cache, and does not wait for cores on which the threads of BLAS still spin.
        """
        source, places = self.reader.fetch(order)
        here = self if source is self.source else loaded(self, source, order)
        norms_sq = np.empty(order.size)
        norms_at(here.rows, here.facts.b_magnitude, places, norms_sq, here.counter.flagged_rows)
        here.check_flagged()
        self.count(order)
        places, weights = places[norms_sq > 0.0], 1.0 / np.sqrt(norms_sq[norms_sq > 0.0])
        if not places.size:
            return None
        b = frozen((weights * here.b[places].T).T)
        return System(source.take(places, weights), b, self.clock)

    def sample(self, count: int, rng: np.random.Generator) -> tuple[np.ndarray, int]:
        """Return up to `count` distinct random rows, and the number of fresh ones, which were never used in a burst.

        Fresh ones come first, then used ones.
        """
        return self.reader.sample(count, rng)

    def count(self, order: np.ndarray) -> None:
        """Count the rows in `order` as read and used, and check those that kernels flagged."""
        self.counter.use(order)
        self.reader.flagged.check()

    def check_flagged(self) -> None:
        """Raise for a flagged row that is not finite or out of range; note a row of zeros with a nonzero b."""
        self.reader.flagged.check()


def _reader_of(source: Source, counter: RowCounter, clock: Clock, flagged: FlaggedRows) -> Reader:
    if isinstance(source, StoredRows):
        return StoredReader(source, counter, clock, flagged)
    return Reader(source, counter, clock, flagged)


def loaded(whole: System, source: Source, numbers: range | np.ndarray) -> System:
    """Return rows of `whole` that are in memory, rows `numbers` of A, as a system of their own.

    What is found about flagged rows is noted in `whole`; rows read and used are counted separately.
    """
    arrangement = whole.source.arrangement
    if isinstance(numbers, range):
        b = whole.b[numbers.start : numbers.stop]
        arrangement = arrangement and arrangement.within(numbers.start, numbers.stop)
    else:
        b, arrangement = whole.b[numbers], None
    source = replace(source, arrangement=arrangement, name=whole.source.name, column_names=whole.source.column_names)
    limits, origin = whole.limits, Origin(numbers, whole.counter)
    b = frozen(np.ascontiguousarray(b))
    return System(
        source, b, whole.clock, limits.threads, whole.damp, whole.bounds, limits.workspace_bytes, origin
    )  # fmt: skip
