"""The least-squares solution of rows in memory, by LAPACK, and how far it is from the exact one."""

from __future__ import annotations

import math
from contextlib import nullcontext
from functools import lru_cache, partial
from operator import mul
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import lapack

from rowsolve._blas import blas_threads
from rowsolve._vectors import sum_of_squares
from rowsolve.kernels.gradient import widest_row
from rowsolve.lstsq.band import NARROW, Layout, compress_to_band, factor_band
from rowsolve.lstsq.normal import SUMS, WELL, Fit, GramFactor, factor_gram, fit_normal, noise_of, residual_sq_of
from rowsolve.lstsq.null_space import obvious_null_space
from rowsolve.lstsq.orthogonal import Orthogonal, orthonormal
from rowsolve.lstsq.state import compress, rows_of, slopes_at

__all__ = ["Fit", "fit", "fit_sparse", "sample_agrees"]


_EPS = float(np.finfo(float).eps)
_BY_CONDITION = 4.0  # units of rounding that an orthogonal factor leaves
_SPARE = 8  # rows beside p that tell whether they agree
_CANCELS = 1e4  # times b, which the terms of a row may be
_AGREES = 1e-10  # of the sum of the terms of a row: rounding, and no noise that matters
_LEAST = 1e-280  # sum of squares below which rows may be too small to be squared
_BLOCK = 64  # columns that LAPACK takes at a time
_IN_RANGE = 1e100  # lengths of columns whose squares are well in range
_MANY, _LONG = 1e6, 200_000  # multiplications, or numbers, for which a Gram matrix takes less time than QR
_ONE_THREAD, _FEW_COLUMNS = 8192, 128  # numbers, and columns, for which LAPACK takes one thread by itself
_NARROW = 64  # columns, for which BLAS takes one thread for the squares of A, and LAPACK for their inverse
_TALL = 2  # times p rows, for which the squares of A take less time than QR
_BANDED = 4  # times its width, that a band has columns to be worth while
_FEW_SIDES = 4  # right-hand sides that are factored together with A
_FEW_NUMBERS = 200_000  # in A: products in extended precision take some ms
_EPS_LONG = float(np.finfo(np.longdouble).eps)  # on some systems no better than that of float64
_STEPS = 4  # of refinement, at most; the last ones only measure what rounding leaves
_SHRINKS = 0.3  # of the last correction, from one step of refinement to the next
_DOUBT = 3.0  # times a correction that is mere rounding: another one may be so much larger
_SAFE = 1e6  # condition up to which a correction by the squares of A tells the error
_CLEAR = 1e4  # the same, up to which squares tell which columns depend on others
_ROUNDED = 64.0  # units of rounding that may be left of A z, if z is null, of few rows: else n or p, as in numpy
_ROUNDING = 0.3  # of a unit, which the numbers of a row are off
_LEFT = 10.0  # times the share of x that a correction is: the share of this that it leaves, with a margin
_ROOTS = 4.0  # units of rounding in a product of some terms
_SURE = 0.1  # of the error allowed: a first correction so small needs no second


def fit(
    A: np.ndarray, b: np.ndarray, x0: np.ndarray | None, damp: float, tolerance: Any, threads: int = 1,
    *, by_qr: bool = False,
) -> Fit | None:  # fmt: skip
    """Minimise ``norm(A x - b)**2 + damp**2 norm(x)**2``; of many x, return the one nearest to `x0`.

    By the normal equations where A is tall and not too ill-conditioned for them, else by an orthogonal factor. x is
    refined with fresh residuals until it meets the `tolerance` or does not get better any more. None if A or b is not
    finite or their squares leave the range of float64.

    Parameters
    ----------
    A : ndarray of shape (n, p), float64
    b : ndarray of shape (n, k)
    x0 : ndarray of shape (k, p), or None for zero
    damp : float
    tolerance : Tolerance
    threads : int
        How many may work.
    by_qr : bool
        Whether the squares of A are known to have lost what is needed.
    """
    (n, p), k, found = A.shape, b.shape[1], None
    width, work = p + k, n * float(p) * min(n, p)
    if not damp and n >= _TALL * p and width <= _FEW_COLUMNS and not by_qr:
        alone = p <= _NARROW and n * p <= _LONG  # to ask BLAS for one thread takes a while
        with nullcontext() if alone else blas_threads(math.inf, 1):
            found = _by_inverse(A, b, x0, tolerance, threads)
    if found is None and n > p and not damp and k <= _FEW_SIDES and n * width**2 <= _MANY:
        alone = width <= _FEW_COLUMNS and n * width <= _ONE_THREAD
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
    """Do the same for a CSR matrix, by the normal equations alone: as a narrow band, if they are one as they come."""
    x0 = np.zeros((b.shape[1], A.shape[1])) if x0 is None else x0
    with blas_threads(math.inf, 1):
        rows = rows_of(A)
        widest = widest_row(rows)
        factor: GramFactor | None = None
        if _BANDED * widest <= A.shape[1] and widest <= NARROW:
            state = compress_to_band(A, b, Layout(widest))
            factor = factor_band(state.gram, damp)
        if factor is None:
            state = compress(A, b)
            factor = factor_gram(state.gram, damp, obvious_null_space(rows, A.shape[1]))
        if factor is None:
            return None
        return fit_normal(state, factor, x0, damp, tolerance, partial(slopes_at, A, b, threads=threads))


def sample_agrees(A: np.ndarray, b: np.ndarray) -> bool:
    """Tell whether some rows satisfy the solution of p others: then it is not worth while to read them all.

    It is a guess: whoever relies on it must look at other rows. `b` has one column or several.
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
    """Solve the normal equations; None if the squares of A have lost what is needed."""
    state = compress(A, b, threads)
    factor = factor_gram(state.gram, damp)
    if factor is None:
        return None
    return fit_normal(state, factor, x0, damp, tolerance, partial(slopes_at, A, b, threads=threads))


def _by_qr(A: np.ndarray, b: np.ndarray, x0: np.ndarray, damp: float, tolerance: Any) -> Fit:
    """Solve by an orthogonal factor of all rows; corrections by fresh residuals tell the error."""
    n, p = A.shape
    whole = np.vstack([A, damp * np.eye(p)]) if damp else A
    right = np.vstack([b, np.zeros((p, b.shape[1]))]) if damp else b
    factor = Orthogonal(whole)
    x = x0.T if factor.rank < p else np.zeros_like(x0.T)  # if none is missing there is but one solution
    x = x + factor.solve(right - whole @ x)
    change, _ = factor.correct(np.zeros_like(right), whole.T @ (right - whole @ x))
    as_given = tolerance.eps * _of_products(factor, n, x)  # A and b are rounded
    error, n_reads = np.maximum(_norms(change), as_given), 5
    if factor.condition < _SAFE and (error <= _SURE * tolerance.at(_norms(x), _norms(x0.T))).all():
        x = x + change
    elif whole.size <= _FEW_NUMBERS and _EPS_LONG < _EPS:
        error, n_reads = _norms(_long_correction(factor, whole, right, x)), 7
    else:
        x, error, n_reads = _refined(factor, whole, right, x)
    error = np.maximum.reduce([error, as_given, max(_EPS * math.sqrt(p), factor.sensitivity) * _norms(x)])
    if factor.rank < p:  # nor is the row space, in which x lies, known better
        error = np.maximum(error, _ROUNDING * _EPS * factor.condition * _norms(x - x0.T))
    r = b - A @ x
    return Fit(x.T, error, _norms(r) ** 2, _norms(b) ** 2, factor.rank, factor.has_gap, n_reads + 1)


def _by_inverse(A: np.ndarray, b: np.ndarray, x0: np.ndarray | None, tolerance: Any, threads: int) -> Fit | None:
    """Solve by the inverse of A'A, and correct x by a fresh residual, unless it is clear that this is not needed.

    None if that leaves a doubt that the error is small, or about the rank. It does what `fit_normal` does with more
    operations and fewer calls: after a rest every function of numpy takes 20 microseconds when it is called for the
    first time, however little it does.
    """
    short = A.size <= _LONG and A.shape[1] <= _NARROW
    gram, sides, squares = (A.T @ A, A.T @ b, (b.T @ b).diagonal()) if short else compress(A, b, threads)[:3]
    found = _inverse_of(gram, sum(squares.tolist()))
    if found is None:
        return None
    x = found.inverse @ sides
    if found.null is not None:
        x = x if x0 is None else x + found.null @ x0.T
        return _with_null_space(A, b, x, found, squares, tolerance, threads)
    if not short:
        error = found.error_by_sums(x, np.sqrt(squares))
        if (error <= _SURE * tolerance.at(_norms(x), 0.0)).all() and tolerance.eps <= _EPS:
            return Fit(x.T, error, residual_sq_of(x, sides, squares), squares, len(x), True, 1)
    slopes, residual_sq, off = _slopes_and_residuals(A, b, x, threads)
    return found.corrected(x, slopes, residual_sq, squares, len(A), tolerance, off)


def _slopes_and_residuals(A: np.ndarray, b: np.ndarray, x: np.ndarray, threads: int) -> tuple[Any, Any, Any]:
    """Do what `slopes_at` does; return also the residuals, if A is so short that BLAS makes them in few calls."""
    if A.size > _LONG or A.shape[1] > _NARROW:
        return *slopes_at(A, b, x, threads), None
    off = A @ -x
    off[:, : b.shape[1]] += b
    return A.T @ off, (off.T @ off).diagonal(), off


def _with_null_space(
    A: np.ndarray, b: np.ndarray, x: np.ndarray, found: _Inverse, squares: np.ndarray, tolerance: Any, threads: int
) -> Fit | None:
    """Correct x, and make sure that what A'A calls null is: A times a random null vector must be mere rounding."""
    (n, p), k = A.shape, x.shape[1]
    both = np.empty((p, k + 1))
    both[:, :k], both[:, k:] = x, found.null @ noise_of(p)[:, :1]
    slopes, residual_sq, off = _slopes_and_residuals(A, b, both, threads)
    null, turn = both[:, k].tolist(), (found.inverse @ slopes[:, k]).tolist()
    rounding = max(n, p, _ROUNDED) * _EPS * math.sqrt(sum(map(mul, found.of_columns, map(mul, null, null))))
    left_sq = float(residual_sq[k]) - sum(map(mul, slopes[:, k].tolist(), turn))  # once it is corrected like x
    if not max(left_sq, WELL * float(residual_sq[k])) <= rounding**2:
        return None
    turned = math.sqrt(sum(map(mul, turn, turn)) / sum(map(mul, null, null)))
    return found.corrected(x, slopes[:, :k], residual_sq[:k], squares, n, tolerance, off, turned)


class _Inverse(NamedTuple):
    """The inverse of A'A, the squared lengths of the columns of A and the condition of A, columns scaled to one.

    Where columns depend on others it is the pseudoinverse, and `null` the projection on what is in no row.
    """

    inverse: np.ndarray
    of_columns: list[float]
    of_rows: list[float]
    condition: float
    rank: int
    null: np.ndarray | None = None

    def error_by_sums(self, x: np.ndarray, norm_b: np.ndarray) -> np.ndarray:
        """Return what the rounding of sums over all rows is worth in x."""
        squares = np.array(self.of_columns)
        spread = math.sqrt(float(((self.inverse * self.inverse) @ squares).sum()))
        return SUMS * _EPS * spread * (np.sqrt(squares @ (x * x)) + norm_b)

    def corrected(
        self, x: np.ndarray, slopes: np.ndarray, residual_sq: np.ndarray, squares: np.ndarray, n: int, tolerance: Any,
        off: np.ndarray | None = None, turned: float = 0.0,
    ) -> Fit | None:  # fmt: skip
        """Correct x once; the correction tells what it leaves. None if that is too much."""
        changes = self.inverse @ slopes
        x, residual_sq = x + changes, residual_sq - (slopes.T @ changes).diagonal()
        errors, residuals = [], [max(one, 0.0) for one in residual_sq.tolist()]
        spread, weights = math.sqrt(sum(self.of_rows) / n), np.array([self.of_columns, [1.0] * len(x)])
        sizes, moves = ((weights @ (both * both)).T.tolist() for both in (x, changes))
        for (size_sq, x_sq), (moved_sq, change_sq), off_sq in zip(sizes, moves, residuals, strict=True):
            size, norm_x, harm = math.sqrt(size_sq), math.sqrt(x_sq), math.sqrt(off_sq) * self.condition
            left = min(_LEFT * math.sqrt(moved_sq) / (size or 1.0), 1.0) * math.sqrt(change_sq)
            error = max(left, _EPS * max(spread * (_ROOTS * size + harm), norm_x), turned * norm_x)
            as_given = _ROUNDING * tolerance.eps * spread * (size + harm)  # A and b are rounded
            if not error <= max(tolerance.at(norm_x, 0.0), as_given):
                return None
            errors.append(max(error, as_given))
        return Fit(x.T, np.array(errors), np.array(residuals), squares, self.rank, True, 2, off)


def _inverse_of(gram: np.ndarray, square_of_b: float) -> _Inverse | None:
    """Invert a Gram matrix, also a singular one; None if that loses digits, or numbers leave the range."""
    of_columns, p = gram.diagonal().tolist(), len(gram)
    if not (sum(of_columns) + square_of_b < _IN_RANGE**2 and min(of_columns) > _IN_RANGE**-2):  # a sum is NaN if one is
        return None
    lower, info = lapack.dpotrf(gram.T, lower=1)
    if info == 0:
        triangle = lapack.dtrtri(lower, lower=1, overwrite_c=1)[0]
        inverse = triangle.T @ triangle
        of_rows = inverse.diagonal().tolist()
        condition = math.sqrt(p * sum(map(mul, of_columns, of_rows)))
        if condition < _SAFE:
            return _Inverse(inverse, of_columns, of_rows, condition, p)
    return _pseudoinverse_of(gram, of_columns)


def _pseudoinverse_of(gram: np.ndarray, of_columns: list[float]) -> _Inverse | None:
    """Return the pseudoinverse of a Gram matrix; None if the rank is not quite clear.

    With pivots it is ``R'R``, R having as many rows as the rank: then it is ``R' (R R')**-2 R``.
    """
    p, lengths = len(gram), np.array([math.sqrt(square) for square in of_columns])
    lower, order, rank, _ = lapack.dpstrf((gram / lengths / lengths[:, None]).T, tol=p * _EPS, lower=1, overwrite_a=1)
    R = np.empty((rank, p))
    R[:, order - 1] = lower[:, :rank].T * _upper(rank, p)
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
    return _Inverse(inverse, of_columns, of_rows, condition, rank, null) if condition < _CLEAR else None


def _at_a_glance(A: np.ndarray, b: np.ndarray, x0: np.ndarray | None, tolerance: Any) -> Fit | None:
    """Solve by one orthogonal factor of A and b together, whose condition and residual tell the error of x.

    None if that leaves a doubt that the error is small, or about the rank. After a rest every function of numpy takes
    20 microseconds when it is called for the first time, however little it does: so there are few different ones.
    """
    (n, p), k = A.shape, b.shape[1]
    both = np.empty((n, p + k), order="F")
    both[:, :p], both[:, p:] = A, b
    factored = lapack.dgeqrf(both, lwork=_BLOCK * (p + k), overwrite_a=1)[0]
    top = factored[: p + k] * _upper(min(n, p + k), p + k)
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
    """Solve ``R x = c`` for a triangle that is clearly singular; of many x, the one nearest to `x0`.

    Return x, the rank, the norm of the pseudoinverse, what rounding of the row space is worth in x, the condition of
    the columns scaled to one length, and the squares of what no x explains; None if the rank is in doubt.
    """
    p = len(R)
    factored, order, tau, _, _ = lapack.dgeqp3(R / lengths)
    sizes = np.abs(factored.diagonal())
    rank = int(np.count_nonzero(sizes > cut * sizes[0]))
    if rank == p:
        return None
    inverse, info = lapack.dtrtri(factored[:rank, :rank] * _upper(rank, rank))
    condition = math.sqrt(p) * _norm(inverse) if info == 0 else math.inf
    if not condition < _SAFE:
        return None
    turned = lapack.dormqr("L", "T", factored, tau, c, _BLOCK * p)[0]
    rows, beyond = np.empty((rank, p)), turned[rank:]
    rows[:, order - 1] = factored[:rank] * _upper(rank, p)
    by_size, basis = np.argsort(-lengths), np.empty((p, rank))  # long ones first keep the short ones exact
    basis[by_size], corner = orthonormal((rows * lengths).T[by_size])
    corner = corner * _upper(rank, rank)
    pseudo = lapack.dtrtri(corner)[0].T
    least, null = basis @ (pseudo @ turned[:rank]), _identity(p) - basis @ basis.T
    slant = pseudo.T @ (basis.T @ (least - x0))
    by_rounding = _BY_CONDITION * _EPS * _norm(null) * _norms(_norms(corner)[:, None] * slant)
    return least + null @ x0, rank, _norm(pseudo), by_rounding, condition, np.vecdot(beyond.T, beyond.T)


def _long_correction(factor: Orthogonal, A: np.ndarray, b: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return how far x is from the exact solution, by residuals in extended precision.

    x is left as it is: the numbers of A and b are rounded as well, and that does as much to x as the rounding of a
    factorization.
    """
    rows = A.astype(np.longdouble)
    r = factor.beside((b - rows @ x).astype(float))
    return factor.correct((b - r - rows @ x).astype(float), (rows.T @ r).astype(float))[0]


def _refined(factor: Orthogonal, A: np.ndarray, b: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
    """Return x, corrected as long as that makes corrections smaller, their size, and how often A was read.

    Where they do not shrink they are nothing but rounding, and x is as good without them.
    """
    best, r, sizes = x, b - A @ x, []
    for _ in range(_STEPS):
        change, of_r = factor.correct(b - r - A @ x, A.T @ r)
        x, r = x + change, r + of_r
        sizes.append(_norms(change))
        if len(sizes) > 1:
            shrinks = sizes[-1] <= _SHRINKS * sizes[-2]
            best = np.where(shrinks, x, best)
            if not shrinks.any():
                break
    return best, _DOUBT * np.maximum.reduce(sizes[-2:]), 4 + 2 * len(sizes)


def _of_products(factor: Orthogonal, n: int, x: np.ndarray) -> np.ndarray:
    """Return what a relative rounding of 1 in the numbers of A would be worth in x."""
    return _ROUNDING / math.sqrt(n) * factor.spread * _norms(factor.lengths[:, None] * x)


def _norms(columns: np.ndarray) -> np.ndarray:
    return np.sqrt(np.vecdot(columns.T, columns.T))


def _norm(matrix: np.ndarray) -> float:
    return math.sqrt(np.vdot(matrix, matrix))


@lru_cache(maxsize=64)
def _identity(size: int) -> np.ndarray:
    return np.eye(size)


@lru_cache(maxsize=64)
def _ones(size: int) -> np.ndarray:
    return np.ones(size)


@lru_cache(maxsize=64)
def _upper(n_rows: int, n_columns: int) -> np.ndarray:
    """Return ones on the diagonal and above it: much quicker than `np.triu` of a small matrix."""
    return np.triu(np.ones((n_rows, n_columns)))
