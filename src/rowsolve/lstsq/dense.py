"""The least-squares solution of rows in memory, by LAPACK, and its error."""

from __future__ import annotations

import math
from contextlib import nullcontext
from functools import lru_cache, partial
from operator import mul
from typing import Any

import numpy as np
from scipy.linalg import lapack

from rowsolve.lstsq.band import compress_to_band, factor_band
from rowsolve.lstsq.inverse import by_inverse, identity, is_short, upper
from rowsolve.lstsq.normal import Fit, GramFactor, factor_gram, fit_normal, norms
from rowsolve.lstsq.orthogonal import Orthogonal, orthonormal
from rowsolve.lstsq.state import compress, rows_of, slopes_at
from rowsolve.parallel.blas import blas_threads
from rowsolve.parallel.vectors import sum_of_squares
from rowsolve.problem.layout import narrow_band
from rowsolve.problem.null_space import obvious_null_space

__all__ = ["Fit", "fit", "fit_sparse", "sample_agrees"]


_EPS = float(np.finfo(float).eps)
_BY_CONDITION = 4.0  # units of rounding that an orthogonal factor leaves
_SPARE = 8  # rows beyond p that show whether they are consistent
_CANCELS = 1e4  # times b, which the terms of a row may be
_AGREES = 1e-10  # of the sum of the terms of a row: rounding, but no significant noise
_LEAST = 1e-280  # sum of squares below which rows may be too small to be squared
_BLOCK = 64  # columns that LAPACK takes at a time
_IN_RANGE = 1e100  # lengths of columns whose squares are well in range
_MANY = 1e6  # multiplications for which a Gram matrix takes less time than QR
_ONE_THREAD, _FEW_COLUMNS = 8192, 128  # numbers, and columns, for which LAPACK takes one thread by itself
_TALL = 2  # times p rows, for which the squares of A take less time than QR
_MANY_COLUMNS = 1000  # of a dense factor that takes much longer than a band that has failed
_FEW_SIDES = 4  # right-hand sides that are factored together with A
_FEW_NUMBERS = 200_000  # in A: products in extended precision take some ms
_EPS_LONG = float(np.finfo(np.longdouble).eps)  # on some systems no better than that of float64
_STEPS = 4  # of refinement, at most; the last ones only measure the error due to rounding
_SHRINKS = 0.3  # of the last correction, from one step of refinement to the next
_DOUBT = 3.0  # times a correction that is due to rounding: another one may be as large
_SAFE = 1e6  # condition number up to which a correction by the squares of A estimates the error
_ROUNDING = 0.3  # of a unit, the rounding error of the numbers of a row
_SURE = 0.1  # of the error allowed: after a smaller first correction, no second one is needed


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
    (n, p), k, found = A.shape, b.shape[1], None
    width, work = p + k, n * float(p) * min(n, p)
    if not damp and n >= _TALL * p and width <= _FEW_COLUMNS and not by_qr:
        with nullcontext() if is_short(n, p) else blas_threads(math.inf, 1):
            found = by_inverse(A, b, x0, tolerance, threads)
    if found is None and n > p and not damp and k <= _FEW_SIDES and n * width**2 <= _MANY:
        alone = width <= _FEW_COLUMNS and n * width <= _ONE_THREAD  # setting the number of threads of BLAS is slow
        with nullcontext() if alone else blas_threads(math.inf, 1):
            found = _at_a_glance(A, b, x0, tolerance)
    if found is not None:
        return found
    if not sum_of_squares(b.reshape(-1)) < math.inf:
        return None
    x0 = np.zeros((k, p)) if x0 is None else x0
    if n > p and not by_qr:
        with blas_threads(math.inf, 1):
            found = _by_squares(A, b, x0, damp, tolerance, threads)
    if found is not None:
        return found
    total = float(np.einsum("ij,ij->", A, A))
    if not _LEAST < total < math.inf and A.any():  # not finite, or too large or too small to be squared
        return None
    with blas_threads(work, threads):
        return _by_qr(A, b, x0, damp, tolerance)


def fit_sparse(
    A: Any, b: np.ndarray, x0: np.ndarray | None, damp: float, tolerance: Any, threads: int = 1
) -> Fit | None:
    """Do the same as `fit` for a CSR matrix, by the normal equations only, in band form if the band is narrow."""
    x0 = np.zeros((b.shape[1], A.shape[1])) if x0 is None else x0
    with blas_threads(math.inf, 1):
        rows = rows_of(A)
        factor: GramFactor | None = None
        if (layout := narrow_band(rows, A.shape[1])) is not None:
            state = compress_to_band(A, b, layout, threads)
            factor = factor_band(state.gram, damp)
            if factor is None and A.shape[1] > _MANY_COLUMNS:
                return None
        if factor is None:
            state = compress(A, b, threads)
            factor = factor_gram(state.gram, damp, obvious_null_space(rows, A.shape[1]))
        if factor is None:
            return None
        return fit_normal(state, factor, x0, damp, tolerance, partial(slopes_at, A, b, threads=threads))


def sample_agrees(A: np.ndarray, b: np.ndarray) -> bool:
    """Return whether the solution of p rows satisfies some others: then it does not pay to read all rows.

    This is a guess, and callers must check other rows. `b` has one or more columns.
    """
    n, p = A.shape
    order = np.linspace(0, n - 1, p + _SPARE).astype(int)
    spare = np.zeros(order.size, dtype=bool)
    spare[np.linspace(0, order.size - 1, _SPARE).astype(int)] = True
    others = order[~spare]
    rows, spare_rows = A[others].astype(float, copy=False), A[order[spare]].astype(float, copy=False)
    with blas_threads(math.inf, 1), np.errstate(all="ignore"):
        try:
            x = np.linalg.solve(rows, b[others])
        except np.linalg.LinAlgError:
            return False
        right = b[order[spare]]
        terms = np.minimum(np.abs(spare_rows) @ np.abs(x), _CANCELS * np.abs(right).max())  # singular rows make x huge
        return bool((np.abs(right - spare_rows @ x) <= _AGREES * terms).all())


def _by_squares(A: np.ndarray, b: np.ndarray, x0: np.ndarray, damp: float, tolerance: Any, threads: int) -> Fit | None:
    """Solve the normal equations; return None if the squares of A do not determine x."""
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
    if factor.condition < _SAFE and (error <= _SURE * tolerance.at(norms(x), norms(x0.T))).all():
        x = x + change
    elif whole.size <= _FEW_NUMBERS and _EPS_LONG < _EPS:
        error, n_reads = norms(_long_correction(factor, whole, right, x)), 7
    else:
        x, error, n_reads = _refined(factor, whole, right, x)
    error = np.maximum.reduce([error, as_given, max(_EPS * math.sqrt(p), factor.sensitivity) * norms(x)])
    if factor.rank < p:  # the row space, which contains x, is not known better
        error = np.maximum(error, _ROUNDING * _EPS * factor.condition * norms(x - x0.T))
    r = b - A @ x
    return Fit(x.T, error, norms(r) ** 2, norms(b) ** 2, factor.rank, factor.has_gap, n_reads + 1)


def _at_a_glance(A: np.ndarray, b: np.ndarray, x0: np.ndarray | None, tolerance: Any) -> Fit | None:
    """Solve by one orthogonal factor of A and b together; estimate the error of x from its condition and the residual.

    Return None if the error may be too large or the rank is in doubt. A function of numpy takes 20 microseconds when
    it is not in the cache, however little it does, so few different ones are called.
    """
    (n, p), k = A.shape, b.shape[1]
    both = np.empty((n, p + k), order="F")
    both[:, :p], both[:, p:] = A, b
    factored = lapack.dgeqrf(both, lwork=_BLOCK * (p + k), overwrite_a=1)[0]
    top = factored[: p + k] * upper(min(n, p + k), p + k)
    of_columns = ((top * top).T @ _ones(len(top))).tolist()
    triangle, sides, squares = top[:p, :p], top[:p, p:], of_columns[:p]  # of the lengths of columns
    if not (sum(of_columns) < _IN_RANGE**2 and min(squares) > _IN_RANGE**-2):  # a sum is NaN if a number is
        return None
    inverse, info = lapack.dtrtri(triangle)
    of_rows = ((inverse * inverse) @ _ones(p)).tolist()
    condition = math.sqrt(p * sum(map(mul, squares, of_rows))) if info == 0 else math.inf
    turned = beside = [0.0] * k
    if condition < _SAFE:
        x, rank, spread = inverse @ sides, p, math.sqrt(sum(of_rows))
    else:
        start = np.zeros((p, k)) if x0 is None else x0.T
        found = _least_norm(triangle, sides, np.sqrt(squares), start, _EPS * n)
        if found is None:
            return None
        x, rank, spread, turned, condition, beside = found
    errors, residuals, of_b = np.empty(k), np.empty(k), np.empty(k)
    for c, (y, off) in enumerate(zip(x.T.tolist(), top[p:, p:].T.tolist(), strict=True)):
        of_b[c] = of_columns[p + c]
        residuals[c] = residual_sq = sum(map(mul, off, off)) + beside[c]
        of_terms = list(map(mul, y, y))
        size, size_x = math.sqrt(sum(map(mul, squares, of_terms))), math.sqrt(sum(of_terms))
        harm = spread * (size + condition * math.sqrt(residual_sq))  # of a relative rounding of 1
        rounded = max(_BY_CONDITION * _EPS * harm, _EPS * size_x) + turned[c]
        as_given = _ROUNDING / math.sqrt(n) * tolerance.eps * harm  # A and b are rounded
        errors[c] = max(rounded, as_given)
        norm_x0 = 0.0 if x0 is None or rank == p else _norm(x0[c])
        if not rounded <= _SURE * max(tolerance.at(size_x, norm_x0), as_given):
            return None
    return Fit(x.T, errors, residuals, of_b, rank, True, 1)


def _least_norm(R: np.ndarray, c: np.ndarray, lengths: np.ndarray, x0: np.ndarray, cut: float) -> Any:
    """Solve ``R x = c`` for a triangle that is clearly singular, for the x nearest to `x0`.

    Return x, the rank, the norm of the pseudoinverse, the error of x due to rounding of the row space, the condition
    number of the columns scaled to equal length, and the squared residuals; None if the rank is in doubt.
    """
    p = len(R)
    factored, order, tau, _, _ = lapack.dgeqp3(R / lengths)
    sizes = np.abs(factored.diagonal())
    rank = int(np.count_nonzero(sizes > cut * sizes[0]))
    if rank == p:
        return None
    inverse, info = lapack.dtrtri(factored[:rank, :rank] * upper(rank, rank))
    condition = math.sqrt(p) * _norm(inverse) if info == 0 else math.inf
    if not condition < _SAFE:
        return None
    turned = lapack.dormqr("L", "T", factored, tau, c, _BLOCK * p)[0]
    rows, beyond = np.empty((rank, p)), turned[rank:]
    rows[:, order - 1] = factored[:rank] * upper(rank, p)
    by_size, basis = np.argsort(-lengths), np.empty((p, rank))  # with long rows first the short ones stay accurate
    basis[by_size], corner = orthonormal((rows * lengths).T[by_size])
    corner = corner * upper(rank, rank)
    pseudo = lapack.dtrtri(corner)[0].T
    least, null = basis @ (pseudo @ turned[:rank]), identity(p) - basis @ basis.T
    slant = pseudo.T @ (basis.T @ (least - x0))
    by_rounding = _BY_CONDITION * _EPS * _norm(null) * norms(norms(corner)[:, None] * slant)
    return least + null @ x0, rank, _norm(pseudo), by_rounding, condition, np.vecdot(beyond.T, beyond.T)


def _long_correction(factor: Orthogonal, A: np.ndarray, b: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return the difference of x from the exact solution, from residuals in extended precision.

    x is not corrected: the numbers of A and b are rounded too, which affects x as much as the rounding errors of a
    factorization.
    """
    rows = A.astype(np.longdouble)
    r = factor.beside((b - rows @ x).astype(float))
    return factor.correct((b - r - rows @ x).astype(float), (rows.T @ r).astype(float))[0]


def _refined(factor: Orthogonal, A: np.ndarray, b: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
    """Return x, corrected as long as corrections decrease, their size, and how often A was read.

    Corrections that do not decrease are due to rounding and do not improve x.
    """
    best, r, sizes = x, b - A @ x, []
    for _ in range(_STEPS):
        change, of_r = factor.correct(b - r - A @ x, A.T @ r)
        x, r = x + change, r + of_r
        sizes.append(norms(change))
        if len(sizes) > 1:
            shrinks = sizes[-1] <= _SHRINKS * sizes[-2]
            best = np.where(shrinks, x, best)
            if not shrinks.any():
                break
    return best, _DOUBT * np.maximum.reduce(sizes[-2:]), 4 + 2 * len(sizes)


def _of_products(factor: Orthogonal, n: int, x: np.ndarray) -> np.ndarray:
    """Return the error of x for a relative rounding error of 1 in the numbers of A."""
    return _ROUNDING / math.sqrt(n) * factor.spread * norms(factor.lengths[:, None] * x)


def _norm(matrix: np.ndarray) -> float:
    return math.sqrt(np.vdot(matrix, matrix))


@lru_cache(maxsize=64)
def _ones(size: int) -> np.ndarray:
    return np.ones(size)
