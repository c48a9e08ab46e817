"""The system that methods solve: rows, right-hand sides, and a counter of the rows read."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple

import numpy as np

from rowsolve.checkpoint.state import (
    Sizes,
)
from rowsolve.kernels.rows import CSRRows, RowFlag, frozen, norms_at, norms_of
from rowsolve.parallel.pool import run_together
from rowsolve.problem.clock import Clock
from rowsolve.problem.counter import RowCounter
from rowsolve.problem.facts import Facts
from rowsolve.sources import Source

__all__ = ["Part", "Piece", "System"]

# Numbers read between two checks of the clock and of Ctrl-C: about 10 ms. Fixed, not timed, so that results are
# reproducible for a given seed.
WORK_OF_A_BURST = 10_000_000
_WORK_OF_A_THREAD = 300_000  # numbers used: about 0.3 ms, where waking another thread takes 0.1 ms


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


class System:
    """``A x = b`` with the rows in a form that kernels accept.

    Passes read the rows in `pieces`, and selected rows come in `parts`. Here all rows are in memory, so there is only
    one part; those of a `StoredSystem` are not.

    Only `counter` and `clock` change during a solve; the results of a method are in its `Step`.

    Attributes
    ----------
    rows : DenseRows or CSRRows
    b : ndarray of shape (n,) or (n, n_rhs), float64
    n_rhs : int
        The number of right-hand sides.
    threads : int
        The number of threads that may run at once.
    damp : float
        The least-squares methods minimise ``norm(A x - b)**2 + damp**2 norm(x)**2``.
    bounds : pair of ndarrays of shape (p,), or None
        The lower and upper bounds of the entries of x, for methods that support bounds.
    workspace_bytes : float
        The size of the workspace that a method may allocate, in bytes.
    counter : RowCounter
        The counter of the rows read.
    facts : Facts
        Norms, and properties of the storage and the pattern of the rows, computed on demand.
    """

    stored: ClassVar[bool] = False

    def __init__(
        self,
        source: Source,
        b: np.ndarray,
        clock: Clock | None = None,
        threads: int = 1,
        damp: float = 0.0,
        bounds: tuple[np.ndarray, np.ndarray] | None = None,
        workspace_bytes: float = math.inf,
    ) -> None:
        self.source = source
        self.rows: Any = source.rows
        self.b = b
        self.n_rhs = 1 if b.ndim == 1 else b.shape[1]
        self.n_rows, self.n_columns = source.shape
        self.clock = clock or Clock()
        self.threads = threads
        self.damp = damp
        self.bounds = bounds
        self.workspace_bytes = workspace_bytes
        self.counter = RowCounter(self.n_rows, all_checked=source.checked)
        self.facts = Facts(self.rows, b, self.n_columns, stored=self.stored, damped=damp > 0.0)

    @property
    def arrangement(self) -> Any:
        """The order in which the rows are stored, if it is known."""
        return self.source.arrangement

    @property
    def entries_per_row(self) -> float:
        """The mean number of stored entries of a row, at least 1."""
        return max(1.0, self.source.entries_per_row)

    @property
    def rows_read(self) -> int:
        """The number of rows that have been read."""
        return self.counter.rows_read

    def pieces(self, times_used: int = 1, n_rows: int | None = None, skip: int = 0) -> Iterator[Piece]:
        """Yield all rows in pieces: one counted pass, which Ctrl-C and the deadline can end.

        `times_used` is how often each number is used, so that a piece takes about as long as a burst. `n_rows` is the
        length of a list of rows to read instead of all. The first `skip` pieces, which were done before, are left out.
        """
        total = self.n_rows if n_rows is None else n_rows
        size = max(1, int(WORK_OF_A_BURST / (self.entries_per_row * times_used)))
        for start in range(skip * size, total, size):
            piece = Piece(self.rows, 0, start, min(start + size, total))
            yield piece
            self._end_piece(piece)
        if n_rows is None:
            self.counter.end_of_pass()

    @property
    def slow_to_read(self) -> bool:
        """Whether rows are read from a file, rather than from memory or from a memory map that fits in memory."""
        return False

    @property
    def sample_is_a_pass(self) -> bool:
        """Whether a random sample of rows takes as long to read as all rows: not if they are in memory."""
        return False

    def keep(self, order: np.ndarray) -> None:
        """Keep the rows in `order` when the next pass reads them, so that `parts` has them afterwards."""

    def end_passes(self, count: int) -> None:
        """Count passes that were made without interruption."""
        self.counter.add(count * self.n_rows)
        self.counter.end_of_pass()
        self.counter.use_all()
        self.counter.tell()
        self.clock.check()

    def _end_piece(self, piece: Piece) -> None:
        self.counter.add(piece.n_rows)
        self.look_at_odd_rows()
        self.counter.tell()
        self.clock.check()

    def parts(self, order: np.ndarray) -> Iterator[Part]:
        """Yield the rows in `order`, from first to last, as many at a time as fit in memory; they are not counted.

        Rows that kernels flag in `flagged_rows` meanwhile are numbered as in a part.
        """
        yield Part(self.rows, order)

    def make_sure_of_room(self, n_bytes: float, what: str) -> None:
        """Raise if `what` takes more memory than the workspace has."""
        if n_bytes > self.workspace_bytes:
            raise ValueError(
                f"{what} takes about {math.ceil(n_bytes / 1e6):,} MB, and `memory` leaves "
                f"{self.workspace_bytes / 1e6:,.3g} MB: "
                f"allow {math.ceil(self._memory_for(n_bytes) / 1e6):,} MB, or use another method."
            )

    def _memory_for(self, workspace_bytes: float) -> float:
        """Return the memory limit that is needed for so much `workspace_bytes`."""
        return workspace_bytes + sum(part.nbytes for part in self.rows)

    @property
    def rows_at_once(self) -> int:
        """The number of rows in a part."""
        return self.n_rows

    def threads_for(self, work: float) -> int:
        """Return the number of threads that pays if `work` numbers are used."""
        return max(1, min(self.threads, int(work / _WORK_OF_A_THREAD)))

    def in_slices(self, call: Callable[[int, int, np.ndarray], None], start: int, stop: int, work: float) -> None:
        """Run ``call(start, stop, flagged_rows)`` over slices of a range on all threads; they use `work` numbers.

        Slices have an even number of items (see `kernels.rows.row_products`), and each its own `flagged_rows`: the last
        row noted is the same for any number of threads.
        """
        parts = self.threads_for(work)
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

    def pass_over(
        self, call: Callable[[Piece, int, int, np.ndarray], None], times_used: int = 1, n_rows: int | None = None
    ) -> None:
        """Run ``call(piece, start, stop, flagged_rows)`` over all rows, or `n_rows`, on all threads (see `pieces`)."""
        for piece in self.pieces(times_used, n_rows):
            work = piece.n_rows * self.entries_per_row * times_used
            self.in_slices(partial(call, piece), piece.start, piece.stop, work)

    def norms_sq(self) -> np.ndarray:
        """Return the squared norm of each row, 0 for one that defines no hyperplane; make one pass."""
        found = np.empty(self.n_rows)

        def fill(piece: Piece, start: int, stop: int, flagged_rows: np.ndarray) -> None:
            norms_of(piece.rows, piece.of(self.facts.b_magnitude), start, stop, piece.of(found), flagged_rows)

        self.pass_over(fill)
        return found

    def part(self, order: np.ndarray) -> System | None:
        """Return the rows in `order`, which are counted, as a system of their own in memory; None if all are zero.

        Each is divided by its norm; those that define no hyperplane are left out. One thread is enough for rows that
        fit in the cache, and does not wait for cores on which the threads of BLAS still spin.
        """
        norms_sq = np.empty(order.size)
        norms_at(self.rows, self.facts.b_magnitude, order, norms_sq, self.counter.flagged_rows)
        self.count(order)
        order, weights = order[norms_sq > 0.0], 1.0 / np.sqrt(norms_sq[norms_sq > 0.0])
        if not order.size:
            return None
        b = frozen((weights * self.b[order].T).T)
        return System(self.source.take(order, weights), b, self.clock)

    def count(self, order: np.ndarray) -> None:
        """Count the rows in `order` as read and used."""
        self.counter.use(order)
        self.look_at_odd_rows()

    def sample(self, count: int, rng: np.random.Generator) -> tuple[np.ndarray, int]:
        """Return up to `count` distinct random rows, and the number of fresh ones, which were never used in a burst.

        Fresh ones come first, then used ones.
        """
        for n_drawn in (2 * count, 8 * count):  # in most cases few rows have been used
            if self.n_rows <= 8 * count:
                drawn = rng.permutation(self.n_rows)
            else:
                drawn = rng.integers(0, self.n_rows, n_drawn)
                drawn = drawn[np.sort(np.unique(drawn, return_index=True)[1])]
            used = self.counter.is_used(drawn)
            fresh = drawn[~used][:count]
            if fresh.size == count or drawn.size == self.n_rows:
                break
        return np.concatenate([fresh, drawn[used][: count - fresh.size]]), fresh.size

    def look_at_odd_rows(self) -> None:
        """Raise for a row that is not finite or out of range; note a row of zeros with a nonzero b."""
        flagged_rows = self.counter.flagged_rows
        if flagged_rows[0] < 0 and flagged_rows[1] < 0 and flagged_rows[2] < 0:  # faster than max() of so few
            return
        for flag in RowFlag:
            if flagged_rows[flag] >= 0:
                self._look_at(int(flagged_rows[flag]))
        flagged_rows[:] = -1

    def _look_at(self, i: int) -> None:
        row = self.source.row(i)
        bad = np.flatnonzero(~np.isfinite(row))
        if bad.size:
            raise self.named.not_finite(self.number_of(i), int(bad[0]), float(row[bad[0]]))
        largest = float(np.abs(row).max(initial=0.0))
        if largest > 0.0:
            raise ValueError(
                f"{self.place}row {self.number_of(i)} of `A` has entries up to {largest:.1e}, whose squares leave the "
                "range of float64: rescale `A` and `b` to lie well between 1e-150 and 1e150."
            )
        if self.b[i].any():
            self.counter.note_contradiction(self.number_of(i))

    def make_sure_finite(self) -> None:
        """Raise for the first row that is not finite; all rows are checked."""
        flagged_rows = self.source.first_not_finite()
        if flagged_rows is not None:
            self._look_at(flagged_rows.row)

    @property
    def named(self) -> Source:
        """The source of the names of the file and the columns in messages."""
        return self.source

    @property
    def place(self) -> str:
        """The beginning of messages about a row: the file that it comes from, if there is one."""
        return f"{self.named.name}: " if self.named.name else ""

    def number_of(self, i: int) -> int:
        """Return the number of row `i` in A, for messages."""
        return i

    def places_of(self, order: np.ndarray) -> int:
        """Return the number of independent places that these rows come from."""
        return order.size

    @property
    def bytes_read(self) -> float:
        """The bytes of A read so far."""
        return self.rows_read * self.entries_per_row * self.rows[0].itemsize

    def restore_bytes(self, before: float) -> None:
        """Set the bytes that were read `before`."""

    @property
    def sizes(self) -> Sizes:
        """The sizes that the arrays in a state of this system must have."""
        k, sparse = self.n_rhs, isinstance(self.rows, CSRRows)
        return {"n": self.n_rows, "p": self.n_columns, "k": k, "v": k + 1, "sparse": sparse}
