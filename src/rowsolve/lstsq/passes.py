"""Gradients of the sum of squares, each computed in one pass over A that can be interrupted and resumed."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

import numpy as np

from rowsolve.checkpoint.state import (
    Kind,
    Sizes,
    StateError,
    array,
    fill,
    integer,
    number,
    optional,
    state_of,
    tuple_of,
)
from rowsolve.kernels.gradient import ROWS_OF_A_SUM, add_gradients
from rowsolve.kernels.many import add_gradients_of_many, laid_out
from rowsolve.kernels.rows import DenseRows
from rowsolve.lstsq.factor import find_odd_rows
from rowsolve.parallel.blas import blas_threads
from rowsolve.parallel.vectors import products
from rowsolve.problem.reader import Piece
from rowsolve.problem.system import System

__all__ = ["Passes"]

_ROWS_AT_ONCE = 8 * ROWS_OF_A_SUM  # in one matrix product


class Passes:
    """Passes over all rows, each of which computes a gradient for each of some vectors.

    Attributes
    ----------
    seconds : float
        The duration of the last pass.
    under_way : tuple or None
        In a pass that can be resumed: the number of pieces that are done, and the sums so far.
    """

    def __init__(self, system: System) -> None:
        self.system, self.seconds = system, 0.0
        self.under_way: tuple[int, np.ndarray, np.ndarray] | None = None

    def gradients(
        self, weight: float, vectors: np.ndarray, *, resumable: bool = False
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return ``A'(weight * b - A v) - damp**2 v`` and ``norm(weight * b - A v)**2 + damp**2 norm(v)**2``.

        The last of several vectors has zeros in place of b. If the pass is `resumable`, because the caller has changed
        nothing yet, its state is in `under_way`.
        """
        system, given, started = self.system, vectors, self.system.clock.elapsed
        vectors = given if system.n_rhs == 1 else laid_out(system.rows, given)
        nothing = 0, -(system.damp**2) * vectors, np.zeros(len(vectors))
        n_done, gradients, squares = self.under_way or nothing
        for piece in system.pieces(max(1, len(vectors) // 2), skip=n_done):
            self._add_piece(piece, weight, vectors, gradients, squares)
            n_done += 1
            self.under_way = (n_done, gradients, squares) if resumable else None
        self.under_way = None
        system.counter.use_all()
        make_sure_finite(system, gradients)
        self.seconds = system.clock.elapsed - started
        return gradients, squares + system.damp**2 * products(given, given)

    def _add_piece(
        self, piece: Piece, weight: float, vectors: np.ndarray, gradients: np.ndarray, squares: np.ndarray
    ) -> None:  # gradients, squares: INOUT
        """Add the sums over a piece."""
        system, alone, b = self.system, self.system.n_rhs == 1, piece.of(self.system.b)
        work = piece.n_rows * system.entries_per_row * max(1, len(vectors) // 2)
        if alone and system.limits.threads_for(work) == 1:  # nothing to add up
            add_gradients(piece.rows, b, weight, piece.start, piece.stop, vectors, gradients, squares)
            return
        parts: list[tuple[int, np.ndarray, np.ndarray]] = []

        def add(start: int, stop: int, _: np.ndarray) -> None:
            out, square = np.zeros_like(vectors), np.zeros(len(vectors))
            add_slice = add_gradients if alone else _add_for_many
            add_slice(piece.rows, b, weight, start, stop, vectors, out, square)
            parts.append((start, out, square))

        with blas_threads(work, 1):
            system.in_slices(add, piece.start, piece.stop, work)
        for _, out, square in sorted(parts, key=lambda part: part[0]):  # the same sum in any order of the threads
            gradients += out
            squares += square

    def took(self, count: int, seconds: float) -> None:
        """Count passes that were made elsewhere, and note their duration."""
        self.seconds = seconds / max(1, count)
        self.system.end_passes(count)

    saved: ClassVar[dict[str, Kind]] = {
        "seconds": number,
        "under_way": optional(tuple_of(integer(1), array("moving", "p", order="many"), array("moving"))),
    }
    derived: ClassVar[tuple[str, ...]] = ("system",)

    def state(self) -> dict[str, Any]:
        """Return the duration of a pass, and the pass that is under way."""
        return state_of(self)

    def restore(self, state: Any, sizes: Sizes, n_vectors: int) -> None:
        """Restore a state; the pass under way, if any, is for `n_vectors` vectors, or none for 0."""
        fill(self, state, sizes)
        if self.under_way is not None and len(self.under_way[2]) != n_vectors:
            raise StateError("under_way: expected the sums of one step")


def make_sure_finite(system: System, gradients: np.ndarray) -> None:
    """Raise if A has NaN or infinity, or if its squares overflow."""
    if not np.isfinite(gradients).all():
        find_odd_rows(system, np.arange(system.n_rows))
        raise ValueError("the squares of `A` and `b` are out of the range of float64: rescale `A` and `b`.")


def _add_for_many(
    rows: Any, b: np.ndarray, weight: float, start: int, stop: int,
    vectors: np.ndarray, out: np.ndarray, squares: np.ndarray,
) -> None:  # fmt: skip
    """Do the same as `add_gradients` for several right-hand sides, for dense rows by BLAS, which is faster."""
    add = partial(_add_by_blas, rows.values, b) if isinstance(rows, DenseRows) else partial(_add_sparse, rows, b)
    for first in range(start, stop, _ROWS_AT_ONCE):
        add(weight, first, min(first + _ROWS_AT_ONCE, stop), vectors, out, squares)


def _add_by_blas(
    values: np.ndarray, b: np.ndarray, weight: float, start: int, stop: int,
    vectors: np.ndarray, out: np.ndarray, squares: np.ndarray,
) -> None:  # fmt: skip
    rows = np.asarray(values[start:stop], dtype=float)
    gaps = -(rows @ vectors.T)
    if weight != 0.0:
        gaps[:, :-1] += weight * b[start:stop]
    squares += products(gaps.T, gaps.T)
    out += gaps.T @ rows


def _add_sparse(
    rows: Any, b: np.ndarray, weight: float, start: int, stop: int,
    vectors: np.ndarray, out: np.ndarray, squares: np.ndarray,
) -> None:  # fmt: skip
    own = np.zeros_like(vectors)  # separate sums, as in `add_gradients`
    add_gradients_of_many(rows, b, weight, np.arange(start, stop), vectors, own, squares)
    out += own
