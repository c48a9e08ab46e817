"""An orthogonal factorization of a matrix, with its rank, and refinement that determines the rounding error of x."""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import lapack

from rowsolve.policy.thresholds import EPS, IN_RANGE, NEGLIGIBLE

__all__ = ["Orthogonal", "Pivoted", "full_condition", "orthonormal", "pivoted", "qr_of", "scaled_columns"]

_BLOCK = 64  # columns that LAPACK takes at a time


def scaled_columns(A: np.ndarray) -> np.ndarray:
    """Return the norm of each column, 1 for a column of zeros, also where squares leave the range of float64."""
    lengths = np.sqrt(np.einsum("ij,ij->j", A, A))
    if not (lengths.min(initial=1.0) > 1.0 / IN_RANGE and lengths.max(initial=1.0) < IN_RANGE):
        largest = np.abs(A).max(axis=0, initial=0.0)
        largest[largest == 0.0] = 1.0
        lengths = largest * np.linalg.norm(A / largest, axis=0)
        lengths[lengths == 0.0] = 1.0
    return lengths


def qr_of(columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the QR factorization of an array in Fortran order, which is overwritten, as LAPACK stores it."""
    return lapack.dgeqrf(columns, lwork=_BLOCK * max(1, columns.shape[1]), overwrite_a=1)[:2]


def orthonormal(columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return an orthonormal basis of `columns`, of which there are no more than rows, and the upper triangle R.

    Long rows are factored first: then the short ones stay accurate. For few columns this takes a third of the time of
    the functions of numpy and scipy.
    """
    order = np.argsort(-np.abs(columns).max(axis=1, initial=0.0), kind="stable")
    factored, tau = qr_of(np.asfortranarray(columns[order]))
    basis = np.empty_like(columns)
    basis[order] = lapack.dorgqr(factored, tau, lwork=_BLOCK * max(1, columns.shape[1]))[0]
    return basis, np.triu(factored[: columns.shape[1]])


def full_condition(triangle: np.ndarray, cut: float) -> float | None:
    """Return the condition number of a triangle that clearly has full rank, without pivoting; otherwise None.

    The singular values up to `cut` times the largest count as zero.
    """
    if not triangle.diagonal().all():
        return None
    rcond = lapack.dtrcon(triangle)[0]
    return 1.0 / rcond if NEGLIGIBLE * rcond > cut else None


class Pivoted(NamedTuple):
    """A triangle factored with pivoting, ``triangle[:, order] = left @ rows``, and its rank.

    `condition` is the ratio of the largest singular value to the smallest that counts for the rank, `next_value` that
    of the largest that does not count to the largest. They are exact if the diagonal leaves the rank in doubt, and
    otherwise estimated from the diagonal.
    """

    left: np.ndarray
    rows: np.ndarray
    order: np.ndarray
    rank: int
    condition: float
    next_value: float

    @property
    def has_gap(self) -> bool:
        """Whether the singular values that count are clearly apart from those that do not."""
        return self.next_value <= NEGLIGIBLE / self.condition


def pivoted(triangle: np.ndarray, cut: float) -> Pivoted:
    """Factor a triangle with columns of equal length; values up to `cut` times the largest count as zero."""
    from scipy.linalg import qr, svdvals

    left, R, order = qr(triangle, mode="economic", pivoting=True, check_finite=False)
    sizes = np.abs(R.diagonal())
    rank = int(np.sum(sizes > cut * sizes[0]))
    if rank and (
        sizes[rank - 1] < cut * sizes[0] / NEGLIGIBLE or np.any(sizes[rank : rank + 1] > NEGLIGIBLE * sizes[rank - 1])
    ):
        sizes = svdvals(triangle, check_finite=False)
        rank = int(np.sum(sizes > cut * sizes[0]))
    if not rank:
        return Pivoted(left[:, :0], R[:0], order, 0, 1.0, 0.0)
    after = float(sizes[rank] / sizes[0]) if rank < sizes.size else 0.0
    return Pivoted(left[:, :rank], R[:rank], order, rank, float(sizes[0] / sizes[rank - 1]), after)


class Orthogonal:
    """``A = Q M`` with orthonormal Q and M of full row rank: the rank of A, and its pseudoinverse.

    Columns are scaled to equal length before the rank is determined, so that it does not depend on their units:
    singular values up to ``eps * max(n, p)`` times the largest count as zero, as in numpy's ``lstsq``. The solution has
    minimum norm in the given units.

    Parameters
    ----------
    A : ndarray of shape (n, p)
    n_rows : int
        The number of rows that were reduced to A, if they were: it counts in place of n for the rank.

    Attributes
    ----------
    rank : int
    condition : float
        The ratio of the largest singular value of the scaled columns to the smallest that counts; an estimate if A has
        full rank.
    next_value : float
        The ratio of the largest singular value that does not count to the largest; 0 if there is none.
    """

    def __init__(self, A: np.ndarray, n_rows: int = 0) -> None:
        self.lengths = scaled_columns(A)
        self.n, self.p = A.shape
        self._qr, self._tau = qr_of(np.asfortranarray(A / self.lengths))
        triangle = np.triu(self._qr[: min(A.shape)])
        self.next_value = 0.0
        self._left: Any = None
        cut = EPS * max(*A.shape, n_rows)
        condition = full_condition(triangle, cut) if self.n >= self.p else None
        if condition is None:
            self._reveal_rank(triangle, cut)
        else:
            self.rank, self.condition, self._triangle = self.p, condition, triangle

    def _reveal_rank(self, triangle: np.ndarray, cut: float) -> None:
        """Compute the rank of the scaled columns, and orthonormal bases for both sides."""
        from scipy.linalg import svd

        found = pivoted(triangle, cut)
        rank = self.rank = found.rank
        self._left = found.left
        self.condition, self.next_value = found.condition, found.next_value
        if not rank:
            self._basis, self._triangle = np.zeros((self.p, 0)), np.zeros((0, 0))
            return
        M = np.empty((rank, self.p))
        M[:, found.order] = found.rows
        if not found.has_gap:  # singular vectors separate the two parts best
            left, values, right = svd(triangle, full_matrices=False, check_finite=False)
            self._left, M = left[:, :rank], values[:rank, None] * right[:rank]
        self._basis, T = orthonormal((M * self.lengths).T)
        self._triangle = T.T

    @property
    def sensitivity(self) -> float:
        """The possible rotation of the row space by rounding of A, if the gap is narrow; 0 if it is wide."""
        if self.next_value == 0.0 or self.rank == 0:
            return 0.0
        gap = 1.0 / self.condition - self.next_value
        return EPS / gap if gap > 0.0 else np.inf

    @property
    def has_gap(self) -> bool:
        """Whether the singular values that count are clearly apart from those that do not."""
        return self.next_value <= NEGLIGIBLE / self.condition

    def apply(self, b: np.ndarray) -> np.ndarray:
        """Return ``Q' b`` for an orthogonal Q of n rows and columns; the first `rank` entries (see `parts`) count."""
        return self._times_q(b, "T")

    def _times_q(self, vectors: np.ndarray, trans: str) -> np.ndarray:
        qr = self._qr[:, : min(self.n, self.p)]
        found, _, _ = lapack.dormqr(
            "L", trans, qr, self._tau, np.asfortranarray(vectors), lwork=_BLOCK * max(1, vectors.shape[1])
        )
        return found

    def solve(self, b: np.ndarray) -> np.ndarray:
        """Return ``A**+ b`` for each column of `b`."""
        return self._apply_pinv(self._reduce(self.apply(b)[: min(self.n, self.p)]))

    def correct(self, f: np.ndarray, g: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the changes of x and of the residual r that make ``r + A x`` grow by `f` and ``A' r`` fall by `g`.

        This is one step of Björck's refinement, which also accounts for the effect of a large residual.
        """
        m, c = min(self.n, self.p), self.apply(f)
        both = self._reduce(c[:m]) + self._apply_pinv_t(g)
        c[:m] -= self._expand(both)
        return self._apply_pinv(both), self._times_q(c, "N")

    def orthogonal_part(self, r: np.ndarray) -> np.ndarray:
        """Return the part of each column of `r` that is orthogonal to all columns of A."""
        m, c = min(self.n, self.p), self.apply(r)
        c[:m] -= self._expand(self._reduce(c[:m]))
        return self._times_q(c, "N")

    def _reduce(self, c: np.ndarray) -> np.ndarray:
        return c if self._left is None else self._left.T @ c

    def _expand(self, c: np.ndarray) -> np.ndarray:
        return c if self._left is None else self._left @ c

    def _apply_pinv(self, c: np.ndarray) -> np.ndarray:
        """Return ``M**+ c``."""
        if self._left is None:
            return lapack.dtrtrs(self._triangle, c)[0] / self.lengths[:, None]
        return self._basis @ _solve_lower(self._triangle, c)

    def _apply_pinv_t(self, g: np.ndarray) -> np.ndarray:
        """Return ``(M**+)' g``."""
        if self._left is None:
            return lapack.dtrtrs(self._triangle, g / self.lengths[:, None], trans=1)[0]
        return _solve_lower(self._triangle, self._basis.T @ g, trans=1)

    @cached_property
    def inverse_norm(self) -> float:
        """The Frobenius norm of ``A**+``, the amplification of noise in b."""
        if self.rank == 0:
            return 0.0
        return float(np.linalg.norm(self._apply_pinv(np.eye(self.rank))))


def _solve_lower(triangle: np.ndarray, c: np.ndarray, trans: int = 0) -> Any:
    return lapack.dtrtrs(triangle, c, lower=1, trans=trans)[0] if len(triangle) else c
