"""Rows reduced to a triangle by orthogonal transforms: as small as a Gram matrix, without the loss of digits."""

from __future__ import annotations

from functools import partial, reduce
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import lapack

from rowsolve.lstsq.normal import GramFactor
from rowsolve.lstsq.orthogonal import qr_of
from rowsolve.lstsq.state import Compressed, on_threads

__all__ = ["Triangle", "triangle_of", "triangulate"]

_ROWS_REDUCED = 1024  # that are reduced together, or twice as many as columns


class Triangle(NamedTuple):
    """R and ``Q'b`` of some rows, ``A = Q R``: ``norm(A x - b)**2`` is ``norm(R x - Q'b)**2 + squares``.

    Attributes
    ----------
    triangle : ndarray of shape (p, p)
        R. Its last rows are zero if A has fewer rows than columns.
    sides : ndarray of shape (p, k)
        ``Q'b``, a column for each right-hand side.
    squares : ndarray of shape (k,)
        The squared norm of the part of each right-hand side that is orthogonal to the columns of A.
    n_rows : int
    """

    triangle: np.ndarray
    sides: np.ndarray
    squares: np.ndarray
    n_rows: int

    def merge(self, other: Triangle) -> Triangle:
        """Return the state of both sets of rows together."""
        if not self.n_rows or not other.n_rows:
            return other if not self.n_rows else self
        found = _reduced(self._rows, other._rows)
        return found._replace(squares=self.squares + found.squares + other.squares, n_rows=self.n_rows + other.n_rows)

    def damped(self, damp: float) -> Triangle:
        """Return the state with a row of `damp` for each column, whose right-hand sides are zero."""
        if not damp:
            return self
        found = _reduced(self._rows, (damp * np.eye(len(self.sides)), np.zeros_like(self.sides)))
        return found._replace(squares=self.squares + found.squares)

    @property
    def _rows(self) -> tuple[np.ndarray, np.ndarray]:
        """R and ``Q'b``, without the rows that are zero."""
        return self.triangle[: self.n_rows], self.sides[: self.n_rows]


def triangulate(A: Any, b: np.ndarray, threads: int = 1) -> Triangle:
    """Reduce the rows of `A`, an array or a CSR matrix, with the right-hand sides `b` of shape (n, k) to a triangle.

    Blocks of rows are reduced one after the other, each with the triangle of those before it (TSQR).
    """
    (n, p), k = A.shape, b.shape[1]
    parts = on_threads(partial(_triangle_of_part, A, b), n, 2.0 * n * p * (p + k), threads)
    return reduce(Triangle.merge, parts)  # the same in any order of the threads


def _triangle_of_part(A: Any, b: np.ndarray, start: int, stop: int) -> Triangle:
    p, k = A.shape[1], b.shape[1]
    found, step = Triangle(np.zeros((p, p)), np.zeros((p, k)), np.zeros(k), 0), max(_ROWS_REDUCED, 2 * p)
    for first in range(start, stop, step):
        last = min(first + step, stop)
        rows = A[first:last] if isinstance(A, np.ndarray) else A[first:last].toarray()
        more = _reduced(found._rows, (rows, b[first:last]))
        found = more._replace(squares=found.squares + more.squares, n_rows=last - start)
    return found


def _reduced(*blocks: tuple[np.ndarray, np.ndarray]) -> Triangle:
    """Reduce blocks of rows, each with its right-hand sides."""
    (_, p), width = blocks[0][0].shape, sum(part.shape[1] for part in blocks[0])
    both, start = np.empty((sum(len(rows) for rows, _ in blocks), width), order="F"), 0
    for rows, sides in blocks:
        stop = start + len(rows)
        both[start:stop, :p], both[start:stop, p:], start = rows, sides, stop
    found = np.triu(qr_of(both)[0][:width])
    triangle, right, rest = np.zeros((p, p)), np.zeros((p, width - p)), found[p:, p:]
    triangle[: len(found)], right[: len(found)] = found[:p, :p], found[:p, p:]
    return Triangle(triangle, right, np.einsum("ij,ij->j", rest, rest), len(both))


def triangle_of(state: Compressed, factor: GramFactor) -> Triangle:
    """Return the triangle of compressed rows by the `factor` of their Gram matrix, damped as that is.

    If the columns are dependent, the result is not a triangle, but rows with the same Gram matrix.
    """
    lengths, rank = factor.lengths, factor.rank
    triangle, sides = np.zeros_like(state.gram), np.zeros_like(state.sides)
    scaled = state.sides / lengths
    if factor.columns is None:
        triangle[:] = np.tril(factor.lower).T
        sides[:] = lapack.dtrtrs(factor.lower, scaled, lower=1)[0]
    else:
        gram = np.triu(state.gram) + np.triu(state.gram, 1).T
        gram = (gram / lengths / lengths.T)[factor.columns]
        triangle[:rank] = lapack.dtrtrs(factor.lower, gram, lower=1)[0]
        sides[:rank] = lapack.dtrtrs(factor.lower, scaled[factor.columns], lower=1)[0]
    triangle *= lengths.T
    left = np.maximum(state.squares - np.einsum("ij,ij->j", sides, sides), 0.0)
    return Triangle(triangle, sides, left, state.n_rows)
