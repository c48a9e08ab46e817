"""The least-squares solution of rows in memory, by LAPACK, and its error."""

from __future__ import annotations

import math
from functools import lru_cache, partial
from operator import mul
from typing import Any

import numpy as np
from scipy.linalg import lapack

from rowsolve.lstsq.band import compress_to_band, factor_band
from rowsolve.lstsq.inverse import by_inverse, upper
from rowsolve.lstsq.normal import Fit, GramFactor, factor_gram, fit_normal, norms
from rowsolve.lstsq.orthogonal import Orthogonal, qr_of
from rowsolve.lstsq.state import compress, rows_of, slopes_at
from rowsolve.parallel.blas import blas_threads
from rowsolve.parallel.vectors import sum_of_squares
from rowsolve.policy.thresholds import (
    AS_GIVEN,
    BY_ROUNDING,
    EPS,
    FEW_COLUMNS,
    FEW_NUMBERS,
    IN_RANGE,
    MUCH_MORE,
    NUMBERS_IN_CACHE,
    SAFE_CONDITION,
    SHRINKS,
    SPARE_ROWS,
    STEPS,
    SUM,
    SURE,
    TALL,
)
from rowsolve.problem.layout import narrow_band
from rowsolve.problem.null_space import obvious_null_space

__all__ = ["Fit", "fit", "fit_sparse", "sample_agrees"]

_EPS_LONG = float(np.finfo(np.longdouble).eps)  # on some systems no better than that of float64


def fit(
    A: np.ndarray, b: np.ndarray, x0: np.ndarray | None, damp: float, tolerance: Any, threads: int = 1,
    *, by_qr: bool = False,
) -> Fit | None:  # fmt: skip
    """Minimise ``norm(A x - b)**2 + damp**2 norm(x)**2``; if x is not unique, return the one nearest to `x0`.

    The normal equations are used if A is tall and not too ill-conditioned, otherwise an orthogonal factor. x is refined
    with recomputed residuals until it meets the `tolerance` or cannot be improved. Return None if A or b is not finite
    or if their squares are out of the range of float64.

    Parameters
    ----------
    A : ndarray of shape (n, p), float64
    b : ndarray of shape (n, k)
    x0 : ndarray of shape (k, p), or None for zero
    damp : float
    tolerance : Tolerance
    threads : int
        The number of threads.
    by_qr : bool
        Whether the squares of A are known not to determine x.
    """
    found = None if damp or by_qr else _in_few_calls(A, b, x0, tolerance, threads)
    if found is not None:
        return found
    (n, p), k = A.shape, b.shape[1]
    if not sum_of_squares(b.reshape(-1)) < math.inf:
        return None
    x0 = np.zeros((k, p)) if x0 is None else x0
    if n > p and not by_qr:
        found = _by_squares(A, b, x0, damp, tolerance, threads)
    if found is not None:
        return found
    total = float(np.einsum("ij,ij->", A, A))
    if not np.finfo(float).tiny < total < math.inf:  # not finite, or too large or too small to be squared
        return None
    with blas_threads(n * float(p) * min(n, p), threads):
        return _by_qr(A, b, x0, damp, tolerance)


def fit_sparse(
    A: Any, b: np.ndarray, x0: np.ndarray | None, damp: float, tolerance: Any, threads: int = 1
) -> Fit | None:
    """Do the same as `fit` for a CSR matrix, by the normal equations only, in band form if the band is narrow."""
    p = A.shape[1]
    x0 = np.zeros((b.shape[1], p)) if x0 is None else x0
    with blas_threads(math.inf, 1):
        rows = rows_of(A)
        factor: GramFactor | None = None
        if (layout := narrow_band(rows, p)) is not None:
            state = compress_to_band(A, b, layout, threads)
            factor = factor_band(state.gram, damp)
        if factor is None and (layout is None or p * p <= NUMBERS_IN_CACHE):
            state = compress(A, b, threads)
            factor = factor_gram(state.gram, damp, obvious_null_space(rows, p))
        if factor is None:
            return None
        return fit_normal(state, factor, x0, damp, tolerance, partial(slopes_at, A, b, threads=threads))


def sample_agrees(A: np.ndarray, b: np.ndarray) -> bool:
    """Return whether the solution of p rows satisfies some others: then it does not pay to read all rows.

    This is a guess, and callers must check other rows. `b` has one or more columns.
    """
    n, p = A.shape
    order = np.linspace(0, n - 1, p + SPARE_ROWS).astype(int)
    spare = np.zeros(order.size, dtype=bool)
    spare[np.linspace(0, order.size - 1, SPARE_ROWS).astype(int)] = True
    others = order[~spare]
    rows, spare_rows = A[others].astype(float, copy=False), A[order[spare]].astype(float, copy=False)
    with blas_threads(math.inf, 1), np.errstate(all="ignore"):
        try:
            x = np.linalg.solve(rows, b[others])
        except np.linalg.LinAlgError:
            return False
        right = b[order[spare]]
        return bool((np.abs(right - spare_rows @ x) <= BY_ROUNDING * np.abs(right).max(axis=0)).all())


def _by_squares(A: np.ndarray, b: np.ndarray, x0: np.ndarray, damp: float, tolerance: Any, threads: int) -> Fit | None:
    """Solve the normal equations; return None if the squares of A do not determine x."""
    with blas_threads(math.inf, 1):
        state = compress(A, b, threads)
        factor = factor_gram(state.gram, damp)
        if factor is None:
            return None
        return fit_normal(state, factor, x0, damp, tolerance, partial(slopes_at, A, b, threads=threads))


def _by_qr(A: np.ndarray, b: np.ndarray, x0: np.ndarray, damp: float, tolerance: Any) -> Fit:
    """Solve by an orthogonal factor of all rows; estimate the error by corrections with recomputed residuals."""
    n, p = A.shape
    whole = np.vstack([A, damp * np.eye(p)]) if damp else A
    right = np.vstack([b, np.zeros((p, b.shape[1]))]) if damp else b
    factor = Orthogonal(whole)
    x = x0.T if factor.rank < p else np.zeros_like(x0.T)  # with full rank the solution is unique
    x = x + factor.solve(right - whole @ x)
    change, _ = factor.correct(np.zeros_like(right), whole.T @ (right - whole @ x))
    as_given = tolerance.eps * _of_products(factor, n, x)  # A and b are rounded
    error, n_reads = np.maximum(norms(change), as_given), 5
    if factor.condition < SAFE_CONDITION and (error <= SURE * tolerance.at(norms(x), norms(x0.T))).all():
        x = x + change
    elif whole.size <= FEW_NUMBERS and _EPS_LONG < EPS:  # products in extended precision take some ms
        error, n_reads = norms(_long_correction(factor, whole, right, x)), 7
    else:
        x, error, n_reads = _refined(factor, whole, right, x)
    error = np.maximum.reduce([error, as_given, max(EPS * math.sqrt(p), factor.sensitivity) * norms(x)])
    if factor.rank < p:  # the row space, which contains x, is not known better
        error = np.maximum(error, AS_GIVEN * EPS * factor.condition * norms(x - x0.T))
    r = b - A @ x
    return Fit(x.T, error, norms(r) ** 2, norms(b) ** 2, factor.rank, factor.has_gap, n_reads + 1)


def _in_few_calls(A: np.ndarray, b: np.ndarray, x0: np.ndarray | None, tolerance: Any, threads: int) -> Fit | None:
    """Solve a system of few columns and more rows; return None for others, or if the error may be too large."""
    (n, p), width = A.shape, A.shape[1] + b.shape[1]
    if width > 2 * FEW_COLUMNS or n <= p:
        return None
    found = _at_a_glance(A, b, tolerance) if n < TALL * p and width <= FEW_COLUMNS else None
    return found or by_inverse(A, b, x0, tolerance, threads)


def _at_a_glance(A: np.ndarray, b: np.ndarray, tolerance: Any) -> Fit | None:
    """Solve by one orthogonal factor of A and b together; estimate the error of x from its condition and the residual.

    Return None if the error may be too large, or if A may be rank-deficient. A function of numpy takes 20 microseconds
    when it is not in the cache, however little it does, so few different ones are called.
    """
    (n, p), k = A.shape, b.shape[1]
    both = np.empty((n, p + k), order="F")
    both[:, :p], both[:, p:] = A, b
    top = qr_of(both)[0][: p + k] * upper(min(n, p + k), p + k)
    of_columns = ((top * top).T @ _ones(len(top))).tolist()
    squares = of_columns[:p]  # of the lengths of columns
    if not (sum(of_columns) < IN_RANGE**2 and min(squares) > IN_RANGE**-2):  # a sum is NaN if a number is
        return None
    inverse, info = lapack.dtrtri(top[:p, :p])
    of_rows = ((inverse * inverse) @ _ones(p)).tolist()
    condition = math.sqrt(p * sum(map(mul, squares, of_rows))) if info == 0 else math.inf
    if not condition < SAFE_CONDITION:
        return None
    x, spread = inverse @ top[:p, p:], math.sqrt(sum(of_rows))
    errors, residuals = np.empty(k), np.empty(k)
    for c, (y, off) in enumerate(zip(x.T.tolist(), top[p:, p:].T.tolist(), strict=True)):
        residuals[c] = residual_sq = sum(map(mul, off, off))
        of_terms = list(map(mul, y, y))
        size, size_x = math.sqrt(sum(map(mul, squares, of_terms))), math.sqrt(sum(of_terms))
        harm = spread * (size + condition * math.sqrt(residual_sq))  # of a relative rounding of 1
        rounded = max(SUM * EPS * harm, EPS * size_x)
        as_given = AS_GIVEN / math.sqrt(n) * tolerance.eps * harm  # A and b are rounded
        errors[c] = max(rounded, as_given)
        if not rounded <= SURE * max(tolerance.at(size_x, 0.0), as_given):
            return None
    return Fit(x.T, errors, residuals, np.array(of_columns[p:]), p, True, 1)


def _long_correction(factor: Orthogonal, A: np.ndarray, b: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return the difference of x from the exact solution, from residuals in extended precision.

    x is not corrected: the numbers of A and b are rounded too, which affects x as much as the rounding errors of a
    factorization.
    """
    rows = A.astype(np.longdouble)
    r = factor.orthogonal_part((b - rows @ x).astype(float))
    return factor.correct((b - r - rows @ x).astype(float), (rows.T @ r).astype(float))[0]


def _refined(factor: Orthogonal, A: np.ndarray, b: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
    """Return x, corrected as long as corrections decrease, their size, and how often A was read.

    Corrections that do not decrease are due to rounding and do not improve x.
    """
    best, r, sizes = x, b - A @ x, []
    for _ in range(STEPS):
        change, of_r = factor.correct(b - r - A @ x, A.T @ r)
        x, r = x + change, r + of_r
        sizes.append(norms(change))
        if len(sizes) > 1:
            shrinks = sizes[-1] <= SHRINKS * sizes[-2]
            best = np.where(shrinks, x, best)
            if not shrinks.any():
                break
    return best, MUCH_MORE * np.maximum.reduce(sizes[-2:]), 4 + 2 * len(sizes)


def _of_products(factor: Orthogonal, n: int, x: np.ndarray) -> np.ndarray:
    """Return the error of x for a relative rounding error of 1 in the numbers of A."""
    return AS_GIVEN / math.sqrt(n) * factor.inverse_norm * norms(factor.lengths[:, None] * x)


@lru_cache(maxsize=64)
def _ones(size: int) -> np.ndarray:
    return np.ones(size)
