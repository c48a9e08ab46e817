"""The system being solved, as methods see it: rows, right-hand side, and a count of every row read."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple

import numpy as np

from rowsolve.checkpoint.state import (
    Kind,
    Sizes,
    StateError,
    array,
    bits,
    check_keys,
    fill,
    flag,
    integer,
    number,
    optional,
    row_number,
    state_of,
)
from rowsolve.kernels.gradient import widest_row
from rowsolve.kernels.rows import NON_FINITE, ZERO, ZERO_AGAINST_B, CSRRows, frozen, look_at_sides, norms_at, norms_of
from rowsolve.parallel.pool import run_together
from rowsolve.parallel.vectors import pairs_of, sum_of_squares
from rowsolve.policy.prices import widest_band, worth_a_look_for_band
from rowsolve.problem.layout import NARROW, Layout, look_for_band
from rowsolve.problem.null_space import obvious_null_space
from rowsolve.sources import Source

__all__ = ["Clock", "OutOfTime", "Part", "Piece", "System", "TooLong"]

# Numbers read between two looks at the clock and at Ctrl-C: about 10 ms. Fixed, not timed, so that the same
# seed gives the same bits.
WORK_OF_A_BURST = 10_000_000
_PRODUCTS_A_SECOND = 8e9  # multiplications of matrices by BLAS on one core, or on two that are busy
_ROWS_TO_LOOK_AT = 64  # for the norms of columns
_WORK_OF_A_THREAD = 300_000  # numbers used: about 0.3 ms, where waking another thread takes 0.1 ms


def _nothing() -> None:
    pass


class OutOfTime(Exception):
    """The deadline passed during the preparation."""


class TooLong(OutOfTime):
    """Something that cannot be interrupted would take longer than there is time: it was not begun."""


class Clock:
    """When a solve began and when it must end; it stands still while kernels are compiled or loaded."""

    def __init__(self, seconds: float = math.inf) -> None:
        self.started = time.perf_counter()
        self.deadline = self.started + seconds
        self.paused = 0.0

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.perf_counter() - self.started

    @property
    def left(self) -> float:
        """Seconds before the deadline."""
        return self.deadline - time.perf_counter()

    def pause(self, seconds: float) -> None:
        """Do not count the last `seconds`."""
        self.started += seconds
        self.deadline += seconds
        self.paused += seconds

    def state(self) -> dict[str, float]:
        """Return how long it has run, and what was not counted."""
        return {"elapsed": self.elapsed, "paused": self.paused}

    def restore(self, state: Any) -> None:
        """Go on from there: with the pauses of now, and until the deadline of now."""
        check_keys(state, ("elapsed", "paused"))
        self.started = time.perf_counter() - number(state["elapsed"], {})
        self.paused += number(state["paused"], {})


class Piece(NamedTuple):
    """Rows that follow each other, and are in memory now: ``rows[start:stop]``, where row 0 is row `first` of A."""

    rows: Any
    first: int
    start: int
    stop: int

    @property
    def n_rows(self) -> int:
        """How many they are."""
        return self.stop - self.start

    def of(self, values: np.ndarray) -> np.ndarray:
        """Return `values`, one for each row of A, as they go with `rows`."""
        return values[self.first :]


class Part(NamedTuple):
    """Rows from here and there that are in memory now: ``rows[order]``, or rows `numbers` of A if these are given."""

    rows: Any
    order: np.ndarray
    numbers: np.ndarray | None = None

    def of(self, values: np.ndarray) -> np.ndarray:
        """Return `values`, one for each row of A, as they go with `rows`."""
        return values if self.numbers is None else values[self.numbers]


class System:
    """``A x = b`` with its rows in a form that kernels take.

    Those of a `StoredSystem` are not in memory: they come in `pieces` and `parts`, of which this class has but one.

    Attributes
    ----------
    rows : DenseRows or CSRRows
    b : ndarray of shape (n,) or (n, n_rhs), float64
    n_rhs : int
        How many right-hand sides there are.
    odd : ndarray of 3 integers
        Where kernels note the last row of each odd sort (see `kernels.rows`), or -1.
    norm_b : float
        A unit for residuals: the norm of b, or something of that size where b is zero or its square out of range.
    contradiction : int or None
        A row that is all zero although its b is not, once one has been read.
    threads : int
        How many may work at once.
    damp : float
        The least-squares methods minimise ``norm(A x - b)**2 + damp**2 norm(x)**2``.
    bounds : pair of ndarrays of shape (p,), or None
        The least and the largest value of each entry of x, for methods that take bounds.
    rank : int or None
        The rank of A, once a factorization has told it.
    rank_is_clear : bool
        Whether the singular values that make the rank are clearly apart from those that count as zero.
    optimality : float or None
        How far x is from being optimal within its bounds (see `Solution`), once that is known.
    unique : bool
        False if other x within the bounds are known to fit as well.
    spectrum : Spectrum or None
        What some rows tell of the singular values of A, once they have been looked at.
    max_rows : float
        How many rows may be read in all, where a method reads many without a break.
    room : float
        Bytes that a method may use for what it makes of the rows.
    residual_norm : float
        ``norm(b - A x)`` at the least-squares solution, once a method has found it; else NaN.
    all_checked : bool
        Whether all numbers are known to be finite: by a look beforehand, or by a pass.
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
    ) -> None:
        self.source = source
        self.rows: Any = source.rows
        self.b = b
        self.n_rhs = 1 if b.ndim == 1 else b.shape[1]
        self.norm_b = math.sqrt(sum_of_squares(b.reshape(-1)))
        if not 0.0 < self.norm_b < math.inf:  # all zero, or at the ends of the range
            self.norm_b = float(np.abs(b).max()) or 1.0
        self.n_rows, self.n_columns = source.shape
        self.arrangement = source.arrangement
        self.entries_per_row = max(1.0, source.entries_per_row)
        self.clock = clock or Clock()
        self.threads = threads
        self.damp = damp
        self.bounds = bounds
        self.rank: int | None = None
        self.rank_is_clear = True
        self.optimality: float | None = None
        self.unique = True
        self.spectrum: Any = None
        self.residual_norm = math.nan
        self.rows_read, self.max_rows = 0, math.inf
        self.odd = np.full(3, -1)
        self.contradiction: int | None = None
        self.on_piece: Callable[[], Any] = _nothing
        self.room = math.inf
        self.all_checked = source.checked
        self._used = np.zeros(self.n_rows, dtype=bool)

    @cached_property
    def largest_b(self) -> np.ndarray:
        """The largest entry of each row of b: not zero where a row of zeros contradicts one of the right-hand sides."""
        return self.b if self.n_rhs == 1 else self._look_at_sides[0]

    @cached_property
    def rows_of_extremes(self) -> np.ndarray:
        """The rows with the lowest and the highest entry of each right-hand side."""
        if self.n_rhs == 1:
            return np.array([self.b.argmin(), self.b.argmax()])
        return np.unique(self._look_at_sides[1:])

    @cached_property
    def _look_at_sides(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        largest, (lowest, highest) = np.empty(self.n_rows), np.empty((2, self.n_rhs), dtype=np.int64)
        look_at_sides(self.b, largest, lowest, highest)
        return frozen(largest), lowest, highest

    @cached_property
    def norms_b(self) -> np.ndarray:
        """The norm of each right-hand side."""
        return np.array([self.norm_b]) if self.n_rhs == 1 else np.linalg.norm(self.b, axis=0)

    @cached_property
    def in_columns(self) -> bool:
        """Whether dense rows are in Fortran order: products with all of them are fast, single ones are not."""
        return not self.stored and not isinstance(self.rows, CSRRows) and not self.rows.values.flags.c_contiguous

    @cached_property
    def row_pairs(self) -> float:
        """How many pairs of numbers are in one row, of sparse rows."""
        return pairs_of(self.rows.indptr)

    @cached_property
    def unevenness(self) -> float:
        """The norm of the largest column over that of the smallest that is not zero, in some rows that are in memory.

        Conjugate gradients take that much longer, or even more.
        """
        if self.stored:
            return 1.0
        if isinstance(self.rows, CSRRows):
            squares = np.bincount(self.rows.indices, weights=self.rows.data**2.0)
        else:
            some = self.rows.values[:: max(1, self.n_rows // _ROWS_TO_LOOK_AT)][:_ROWS_TO_LOOK_AT].astype(float)
            squares = np.einsum("ij,ij->j", some, some)
        squares = squares[squares > 0.0]
        return math.sqrt(float(squares.max() / squares.min())) if squares.size else 1.0

    @cached_property
    def null_vectors(self) -> np.ndarray | None:
        """Directions that sparse rows obviously leave open (see `rowsolve.problem.null_space`); None if none."""
        if self.stored or not isinstance(self.rows, CSRRows) or self.damp:
            return None
        return obvious_null_space(self.rows, self.n_columns)

    @cached_property
    def layout(self) -> Layout | None:
        """How narrow a band the Gram matrix of sparse rows is, where that is worth a look; else None."""
        if self.stored or not isinstance(self.rows, CSRRows):
            return None
        n, p, widest = self.n_rows, self.n_columns, widest_row(self.rows)
        if widest > NARROW and not worth_a_look_for_band(n, p, self.rows.data.size):
            return None
        return look_for_band(self.rows, p, widest, widest_band(p, self.rows.data.size, self.row_pairs))

    def pieces(self, times_used: int = 1, n_rows: int | None = None, skip: int = 0) -> Iterator[Piece]:
        """Yield all rows in pieces: one counted pass, which Ctrl-C and the deadline can end.

        `times_used` is how often each number is used, so that a piece takes about as long as a burst. `n_rows` is the
        length of a list of rows to go over instead. The first pieces are left out if they were done before: `skip`.
        """
        total = self.n_rows if n_rows is None else n_rows
        size = max(1, int(WORK_OF_A_BURST / (self.entries_per_row * times_used)))
        for start in range(skip * size, total, size):
            piece = Piece(self.rows, 0, start, min(start + size, total))
            yield piece
            self._end_piece(piece)
        self.all_checked |= n_rows is None

    @property
    def slow_to_read(self) -> bool:
        """Whether rows come from a file, and not from memory or a map of a file that fits there."""
        return False

    @property
    def sample_is_a_pass(self) -> bool:
        """Whether some rows from here and there take as long to read as all of them: not if they are in memory."""
        return False

    def keep(self, order: np.ndarray) -> None:
        """Keep the rows in `order` as they come by in the next pass, to be asked for as `parts` afterwards."""

    def end_passes(self, count: int) -> None:
        """Count passes that were made without a break."""
        self.rows_read += count * self.n_rows
        self.all_checked = True
        self.use_all()
        self.on_piece()
        self.keep_time()

    def _end_piece(self, piece: Piece) -> None:
        self.rows_read += piece.n_rows
        self.look_at_odd_rows()
        self.on_piece()
        self.keep_time()

    def parts(self, order: np.ndarray) -> Iterator[Part]:
        """Yield the rows in `order` as they can be in memory at once, from its first to its last; they are not counted.

        Rows that kernels note in `odd` meanwhile are numbered as in a part.
        """
        yield Part(self.rows, order)

    def make_sure_of_room(self, n_bytes: float, what: str) -> None:
        """Raise if `what` takes more memory than a method may use."""
        if n_bytes > self.room:
            raise ValueError(
                f"{what} takes about {math.ceil(n_bytes / 1e6):,} MB, and `memory` leaves {self.room / 1e6:,.3g} MB: "
                f"allow {math.ceil(self._memory_for(n_bytes) / 1e6):,} MB, or use another method."
            )

    def _memory_for(self, room: float) -> float:
        """Return how much memory must be allowed for so much `room`."""
        return room + sum(part.nbytes for part in self.rows)

    @property
    def rows_at_once(self) -> int:
        """How many rows from here and there are one part."""
        return self.n_rows

    def threads_for(self, work: float) -> int:
        """Return how many threads are worth waking for `work` numbers to be used."""
        return max(1, min(self.threads, int(work / _WORK_OF_A_THREAD)))

    def in_slices(self, call: Callable[[int, int, np.ndarray], None], start: int, stop: int, work: float) -> None:
        """Run ``call(start, stop, odd)`` over slices of a range side by side; `work` is how many numbers they use.

        Slices have an even number of items (see `kernels.rows.row_products`), and each its own `odd`: the last row
        noted is the same for any number of threads.
        """
        parts = self.threads_for(work)
        if parts == 1:
            call(start, stop, self.odd)
            return
        size = 2 * -(-(stop - start) // (2 * parts))
        edges = [*range(start, stop, size), stop]
        odds = np.full((len(edges) - 1, 3), -1)
        run_together([partial(call, *slice_, odd) for slice_, odd in zip(pairwise(edges), odds, strict=True)])
        for odd in odds:
            np.copyto(self.odd, odd, where=odd >= 0)

    def pass_over(
        self, call: Callable[[Piece, int, int, np.ndarray], None], times_used: int = 1, n_rows: int | None = None
    ) -> None:
        """Run ``call(piece, start, stop, odd)`` over all rows, or a list of `n_rows`, on all threads (see `pieces`)."""
        for piece in self.pieces(times_used, n_rows):
            work = piece.n_rows * self.entries_per_row * times_used
            self.in_slices(partial(call, piece), piece.start, piece.stop, work)

    def norms_sq(self) -> np.ndarray:
        """Return the squared norm of each row, 0 for one that defines no hyperplane: one pass."""
        found = np.empty(self.n_rows)

        def fill(piece: Piece, start: int, stop: int, odd: np.ndarray) -> None:
            norms_of(piece.rows, piece.of(self.largest_b), start, stop, piece.of(found), odd)

        self.pass_over(fill)
        return found

    def part(self, order: np.ndarray) -> System | None:
        """Return the rows in `order`, which are counted, as a system of their own in memory; None if all are zero.

        Each is divided by its norm; those that define no hyperplane are left out. One thread is enough for what is in
        the cache, and does not wait for cores on which those of BLAS still spin.
        """
        norms_sq = np.empty(order.size)
        norms_at(self.rows, self.largest_b, order, norms_sq, self.odd)
        self.count(order)
        order, weights = order[norms_sq > 0.0], 1.0 / np.sqrt(norms_sq[norms_sq > 0.0])
        if not order.size:
            return None
        b = frozen((weights * self.b[order].T).T)
        return System(self.source.take(order, weights), b, self.clock)

    def keep_time(self) -> None:
        """Raise if the deadline has passed."""
        if self.clock.left < 0.0:
            raise OutOfTime

    def has_time_for(self, products: float) -> bool:
        """Tell whether so many multiplications by LAPACK, which cannot be interrupted, end before the deadline."""
        return products <= _PRODUCTS_A_SECOND * self.clock.left

    def make_sure_of_time(self, products: float) -> None:
        """Raise if they do not."""
        if not self.has_time_for(products):
            raise TooLong

    def count(self, order: np.ndarray) -> None:
        """Count the rows in `order` as read and used."""
        self.rows_read += order.size
        self._used[order] = True
        self.look_at_odd_rows()

    def use_all(self) -> None:
        """Note that every row has been used."""
        self._used[:] = True

    def b_of_used_rows(self, most: int) -> np.ndarray:
        """Return the right-hand sides of used rows, of some of them if there are many."""
        used = np.flatnonzero(self._used)
        return self.b[used[:: -(-used.size // most) or 1]]

    def sample(self, count: int, rng: np.random.Generator) -> tuple[np.ndarray, int]:
        """Return up to `count` distinct random rows and how many of them are fresh, never used in a burst.

        Fresh ones come first; used ones fill up.
        """
        for n_drawn in (2 * count, 8 * count):  # in most cases few rows have been used
            if self.n_rows <= 8 * count:
                drawn = rng.permutation(self.n_rows)
            else:
                drawn = rng.integers(0, self.n_rows, n_drawn)
                drawn = drawn[np.sort(np.unique(drawn, return_index=True)[1])]
            used = self._used[drawn]
            fresh = drawn[~used][:count]
            if fresh.size == count or drawn.size == self.n_rows:
                break
        return np.concatenate([fresh, drawn[used][: count - fresh.size]]), fresh.size

    def look_at_odd_rows(self) -> None:
        """Raise for a row that is not finite or out of range; remember a zero row whose b is not zero."""
        if self.odd[0] < 0 and self.odd[1] < 0 and self.odd[2] < 0:  # quicker than max() of so few
            return
        for sort in (NON_FINITE, ZERO_AGAINST_B, ZERO):
            if self.odd[sort] >= 0:
                self._look_at(int(self.odd[sort]))
        self.odd[:] = -1

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
        if self.b[i].any() and self.contradiction is None:
            self.contradiction = self.number_of(i)

    def make_sure_finite(self) -> None:
        """Raise for the first row that is not finite: a look at all of them."""
        odd = self.source.first_not_finite()
        if odd is not None:
            self._look_at(odd.row)

    @property
    def n_checked(self) -> int:
        """How many rows are known to be finite: all, or those that were used."""
        return self.n_rows if self.all_checked else int(np.count_nonzero(self._used))

    @property
    def named(self) -> Source:
        """What messages have the names of the file and the columns from."""
        return self.source

    @property
    def place(self) -> str:
        """How messages about a row begin: with the file that it comes from, if there is one."""
        return f"{self.named.name}: " if self.named.name else ""

    def number_of(self, i: int) -> int:
        """Return what messages call row `i`: its number in A."""
        return i

    def places_of(self, order: np.ndarray) -> int:
        """Return from how many places, independent of each other, these rows come."""
        return order.size

    @property
    def bytes_read(self) -> float:
        """What was read of A so far, in bytes."""
        return self.rows_read * self.entries_per_row * self.rows[0].itemsize

    def restore_bytes(self, before: float) -> None:
        """Go on counting from what was read `before`."""

    @property
    def sizes(self) -> Sizes:
        """What the arrays in a state of this system are measured by."""
        k, sparse = self.n_rhs, isinstance(self.rows, CSRRows)
        return {"n": self.n_rows, "p": self.n_columns, "k": k, "v": k + 1, "sparse": sparse}

    saved: ClassVar[dict[str, Kind]] = {
        "rank": optional(integer(0, "p")),
        **dict.fromkeys(("rank_is_clear", "unique", "all_checked"), flag),
        "optimality": optional(number),
        "residual_norm": number,
        "rows_read": integer(),
        "odd": array(3, dtype=np.int64),
        "contradiction": optional(row_number),
        "_used": bits,
    }
    derived: ClassVar[tuple[str, ...]] = (
        "source", "rows", "b", "n_rhs", "norm_b", "n_rows", "n_columns", "arrangement", "entries_per_row", "clock",
        "threads", "damp", "bounds", "spectrum", "on_piece", "room", "max_rows", "largest_b", "norms_b",
        "rows_of_extremes", "_look_at_sides",
        "row_pairs", "layout", "unevenness", "null_vectors", "in_columns",
    )  # fmt: skip

    def state(self) -> dict[str, Any]:
        """Return what has been noted of the rows so far, but for the spectrum, which methods look at."""
        return {**state_of(self), "_used": np.packbits(self._used)}

    def restore(self, state: Any) -> None:
        """Take over what has been noted."""
        fill(self, state, self.sizes)
        if not (self.odd < self.n_rows).all():
            raise StateError(f"odd: expected rows up to {self.n_rows - 1}, got {self.odd.max()}")
