"""Solution of small systems by the inverse of A'A, with more operations than by a factor, but fewer calls."""

from __future__ import annotations

import math
from contextlib import nullcontext
from functools import lru_cache
from operator import mul
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import lapack

from rowsolve.lstsq.normal import Fit, noise_of, norms, residual_sq_of
from rowsolve.lstsq.state import compress, is_short, slopes_at
from rowsolve.parallel.blas import blas_threads
from rowsolve.policy.thresholds import (
    AS_GIVEN,
    EPS,
    IN_RANGE,
    LONG_SUM,
    ORDER_OF_MAGNITUDE,
    ROUNDED,
    SAFE_CONDITION,
    SUM,
    SURE,
)

__all__ = ["by_inverse", "upper"]


def by_inverse(A: np.ndarray, b: np.ndarray, x0: np.ndarray | None, tolerance: Any, threads: int) -> Fit | None:
    """Solve by the inverse of A'A, and correct x with a recomputed residual unless that is clearly not needed.

    Return None if the error may be too large or the rank is in doubt. The result is that of `fit_normal`, with more
    operations and fewer calls: a function of numpy takes 20 microseconds when it is not in the cache, however little
    it does.
    """
    short = is_short(*A.shape)
    with nullcontext() if short else blas_threads(math.inf, 1):
        gram, sides, squares = (A.T @ A, A.T @ b, (b.T @ b).diagonal()) if short else compress(A, b, threads)[:3]
        found = _inverse_of(gram, sum(squares.tolist()))
        if found is None:
            return None
        x = found.inverse @ sides
        if found.null is not None:
            return _with_null_space(A, b, x, x0, found, squares, tolerance, threads)
        if not short:
            error = found.error_by_sums(x, np.sqrt(squares))
            if (error <= SURE * tolerance.at(norms(x), 0.0)).all() and tolerance.eps <= EPS:
                return Fit(x.T, error, residual_sq_of(x, sides, squares), squares, len(x), True, 1)
        slopes, residual_sq, off = _slopes_and_residuals(A, b, x, threads)
        return found.corrected(x, slopes, residual_sq, squares, len(A), tolerance, off)


def _slopes_and_residuals(A: np.ndarray, b: np.ndarray, x: np.ndarray, threads: int) -> tuple[Any, Any, Any]:
    """Return the same as `slopes_at`, and the residuals if A is short, which BLAS then computes in few calls."""
    if not is_short(*A.shape):
        return *slopes_at(A, b, x, threads), None
    off = A @ -x
    off[:, : b.shape[1]] += b
    return A.T @ off, (off.T @ off).diagonal(), off


def _with_null_space(
    A: np.ndarray, b: np.ndarray, x: np.ndarray, x0: Any, found: _Inverse, squares: np.ndarray, tolerance: Any,
    threads: int,
) -> Fit | None:  # fmt: skip
    """Move x next to x0, correct it, and check that A v is zero up to rounding for a null vector v of A'A."""
    (n, p), k = A.shape, x.shape[1]
    both = np.empty((p, k + 1))
    both[:, :k], both[:, k:] = x, found.null @ noise_of(p)[:, :1]
    if x0 is not None:
        both[:, :k] += found.null @ x0.T
    slopes, residual_sq, off = _slopes_and_residuals(A, b, both, threads)
    null, turn = both[:, k].tolist(), (found.inverse @ slopes[:, k]).tolist()
    rounding = max(n, p, ROUNDED) * EPS * math.sqrt(sum(map(mul, found.of_columns, map(mul, null, null))))
    left_sq = float(residual_sq[k]) - sum(map(mul, slopes[:, k].tolist(), turn))  # once it is corrected like x
    if not max(left_sq, float(residual_sq[k]) / SAFE_CONDITION) <= rounding**2:
        return None
    turned = math.sqrt(sum(map(mul, turn, turn)) / sum(map(mul, null, null)))
    fit = found.corrected(both[:, :k], slopes[:, :k], residual_sq[:k], squares, n, tolerance, off, turned)
    if fit is None or x0 is None:
        return fit
    return fit._replace(error=fit.error + (turned + EPS * found.condition) * norms(x0.T))  # which cannot be corrected


class _Inverse(NamedTuple):
    """The inverse of A'A, the squared lengths of the columns of A and the condition number of A with scaled columns.

    If A is rank-deficient it is the pseudoinverse, and `null` is the projection on the null space.
    """

    inverse: np.ndarray
    of_columns: list[float]
    of_rows: list[float]
    condition: float
    rank: int
    null: np.ndarray | None = None

    def error_by_sums(self, x: np.ndarray, norm_b: np.ndarray) -> np.ndarray:
        """Return the error of x due to rounding of sums over all rows."""
        squares = np.array(self.of_columns)
        spread = math.sqrt(float(((self.inverse * self.inverse) @ squares).sum()))
        return LONG_SUM * EPS * spread * (np.sqrt(squares @ (x * x)) + norm_b)

    def corrected(
        self, x: np.ndarray, slopes: np.ndarray, residual_sq: np.ndarray, squares: np.ndarray, n: int, tolerance: Any,
        off: np.ndarray | None = None, turned: float = 0.0,
    ) -> Fit | None:  # fmt: skip
        """Correct x once, and estimate the error left from the correction; return None if it is too large."""
        changes = self.inverse @ slopes
        x, residual_sq = x + changes, residual_sq - (slopes.T @ changes).diagonal()
        errors, residuals = [], [max(one, 0.0) for one in residual_sq.tolist()]
        spread, weights = math.sqrt(sum(self.of_rows) / n), np.array([self.of_columns, [1.0] * len(x)])
        sizes, moves = ((weights @ (both * both)).T.tolist() for both in (x, changes))
        for (size_sq, x_sq), (moved_sq, change_sq), off_sq in zip(sizes, moves, residuals, strict=True):
            size, norm_x, harm = math.sqrt(size_sq), math.sqrt(x_sq), math.sqrt(off_sq) * self.condition
            left = min(ORDER_OF_MAGNITUDE * math.sqrt(moved_sq) / (size or 1.0), 1.0) * math.sqrt(change_sq)
            error = max(left, EPS * max(spread * (SUM * size + harm), norm_x), turned * norm_x)
            as_given = AS_GIVEN * tolerance.eps * spread * (size + harm)  # A and b are rounded
            if not error <= max(tolerance.at(norm_x, 0.0), as_given):
                return None
            errors.append(max(error, as_given))
        return Fit(x.T, np.array(errors), np.array(residuals), squares, self.rank, True, 2, off)


def _inverse_of(gram: np.ndarray, square_of_b: float) -> _Inverse | None:
    """Invert a Gram matrix, also a singular one; return None if that loses digits or numbers are out of range."""
    of_columns, p = gram.diagonal().tolist(), len(gram)
    if not (sum(of_columns) + square_of_b < IN_RANGE**2 and min(of_columns) > IN_RANGE**-2):  # a sum is NaN if one is
        return None
    lower, info = lapack.dpotrf(gram.T, lower=1)
    if info == 0:
        triangle = lapack.dtrtri(lower, lower=1, overwrite_c=1)[0]
        inverse = triangle.T @ triangle
        of_rows = inverse.diagonal().tolist()
        condition = math.sqrt(p * sum(map(mul, of_columns, of_rows)))
        if condition < SAFE_CONDITION:
            return _Inverse(inverse, of_columns, of_rows, condition, p)
    return _pseudoinverse_of(gram, of_columns)


def _pseudoinverse_of(gram: np.ndarray, of_columns: list[float]) -> _Inverse | None:
    """Return the pseudoinverse of a Gram matrix; None if the rank is in doubt.

    By pivoting the Gram matrix is ``R'R``, where R has as many rows as the rank; its pseudoinverse is
    ``R' (R R')**-2 R``.
    """
    p, lengths = len(gram), np.array([math.sqrt(square) for square in of_columns])
    lower, order, rank, _ = lapack.dpstrf((gram / lengths / lengths[:, None]).T, tol=p * EPS, lower=1, overwrite_a=1)
    R = np.empty((rank, p))
    R[:, order - 1] = lower[:, :rank].T * upper(rank, p)
    R *= lengths
    lower, info = lapack.dpotrf((R @ R.T).T, lower=1, overwrite_a=1)
    if info or rank == p:
        return None
    triangle = lapack.dtrtri(lower, lower=1, overwrite_c=1)[0]
    half = triangle.T @ (triangle @ R)
    inverse = half.T @ half
    of_rows = inverse.diagonal().tolist()
    condition = math.sqrt(p * sum(map(mul, of_columns, of_rows)))
    null = _identity(p) - half.T @ R
    return _Inverse(inverse, of_columns, of_rows, condition, rank, null) if condition < SAFE_CONDITION else None


@lru_cache(maxsize=64)
def _identity(size: int) -> np.ndarray:
    return np.eye(size)


@lru_cache(maxsize=64)
def upper(n_rows: int, n_columns: int) -> np.ndarray:
    """Return ones on the diagonal and above it, which is much faster than `np.triu` for a small matrix."""
    return np.triu(np.ones((n_rows, n_columns)))
