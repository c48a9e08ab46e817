"""The least-squares solution of dense rows in memory, by LAPACK, and how far it is from the exact one."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from rowsolve.lstsq.orthogonal import Orthogonal

__all__ = ["Fit", "fit"]

_EPS = float(np.finfo(float).eps)
_WELL = 1e-4  # reciprocal condition of the triangle of a Gram matrix whose solution has some eight digits
_LEFT = 10.0  # times the share of the last correction that this one is: what it leaves, with a margin
_ROOTS = 4.0  # units of rounding in a product of some terms
_VECTORS = 4
_TALL = 2  # times p rows, from which on a Gram matrix is cheaper than an orthogonal factor
_MANY = 1e5  # multiplications that a Gram matrix must take to be worth a try
_IN_RANGE = 1e100  # lengths of columns whose squares make a Gram matrix
_FEW_NUMBERS = 200_000  # in A: products in extended precision take some ms
_EPS_LONG = float(np.finfo(np.longdouble).eps)  # on some systems no better than that of float64
_STEPS = 4  # of refinement, at most; the last ones only measure what rounding leaves
_SHRINKS = 0.3  # of the last correction, from one step of refinement to the next
_SAFE = 1e6  # condition up to which a correction by the squares of A tells the error
_ROUNDING = 0.3  # of a unit, which the numbers of a row are off
_SURE = 0.1  # of the error allowed: a first correction so small needs no second


class Fit(NamedTuple):
    """A least-squares solution and what is known of it.

    Attributes
    ----------
    x : ndarray of shape (k, p)
        One for each right-hand side.
    error : ndarray of shape (k,)
        Estimated ``norm(x - x*)``.
    residual_sq : ndarray of shape (k,)
        ``norm(b - A x)**2``, without the damping.
    rank : int
    has_gap : bool
        Whether the singular values that count are clearly apart from those that count as zero.
    n_reads : int
        How often A was read.
    """

    x: np.ndarray
    error: np.ndarray
    residual_sq: np.ndarray
    rank: int
    has_gap: bool
    n_reads: int


def fit(A: np.ndarray, b: np.ndarray, x0: np.ndarray, damp: float, tolerance: Any) -> Fit:
    """Minimise ``norm(A x - b)**2 + damp**2 norm(x)**2``; of many x, return the one nearest to `x0`.

    By Cholesky of the Gram matrix where A is tall and well conditioned, else by an orthogonal factor. x is refined
    with fresh residuals until it meets the `tolerance` or does not get better any more.

    Parameters
    ----------
    A : ndarray of shape (n, p), float64
    b : ndarray of shape (n, k)
    x0 : ndarray of shape (k, p)
    damp : float
    tolerance : Tolerance
    """
    n, p = A.shape
    found = _by_cholesky(A, b, damp, tolerance) if n >= _TALL * p and n * float(p) ** 2 > _MANY else None
    return found or _by_qr(A, b, x0, damp, tolerance)


def _by_cholesky(A: np.ndarray, b: np.ndarray, damp: float, tolerance: Any) -> Fit | None:
    """Solve the normal equations, and again for what is left; None if their condition is too large for that."""
    from scipy.linalg import lapack

    gram = A.T @ A
    diagonal = gram.diagonal() + damp * damp
    if not (diagonal.min() > _IN_RANGE**-2 and diagonal.max() < _IN_RANGE**2):
        return None
    lengths = np.sqrt(diagonal)
    gram.ravel()[:: len(gram) + 1] = diagonal
    gram /= lengths[:, None]
    gram /= lengths
    upper, info = lapack.dpotrf(gram.T, lower=0, overwrite_a=1, clean=0)
    if info != 0 or not (rcond := lapack.dtrcon(upper)[0]) > _WELL:
        return None
    p = A.shape[1]
    spread = _spread(upper, lengths) / math.sqrt(len(A))
    x, r, size, n_reads = np.zeros((p, b.shape[1])), b, np.full(b.shape[1], math.inf), 1
    for step in range(_STEPS):
        slope = A.T @ r - damp * damp * x
        change = lapack.dpotrs(upper, slope / lengths[:, None])[0]
        before, size = size, _norms(change)
        change /= lengths[:, None]
        x, n_reads = x + change, n_reads + 2
        if step == 0:
            r = b - A @ x
            continue
        # Each step leaves the same share of what it corrects, and rounding.
        rounding = tolerance.eps * spread * (_ROOTS * _norms(lengths[:, None] * x) + _norms(r) / rcond)
        share = np.divide(size, before, out=np.zeros_like(size), where=before > 0.0)
        errors = np.maximum(_norms(change) * np.minimum(_LEFT * share, 1.0), rounding)
        if (errors <= tolerance.at(_norms(x), 0.0)).all():
            residual_sq = np.einsum("ij,ij->j", r, r) - np.einsum("ij,ij->j", slope, change)
            return Fit(x.T, errors, np.maximum(residual_sq, 0.0), p, True, n_reads)
        r = b - A @ x
    return None  # an orthogonal factor knows better


def _spread(upper: np.ndarray, lengths: np.ndarray) -> float:
    """Return the Frobenius norm of ``R**-1``, for columns of these lengths, by some random vectors."""
    from scipy.linalg import lapack

    noise = np.random.default_rng(0).standard_normal((len(upper), _VECTORS))
    return float(np.linalg.norm(lapack.dtrtrs(upper, noise)[0] / lengths[:, None])) / math.sqrt(_VECTORS)


def _by_qr(A: np.ndarray, b: np.ndarray, x0: np.ndarray, damp: float, tolerance: Any) -> Fit:
    """Solve by an orthogonal factor of all rows; corrections by fresh residuals tell the error."""
    n, p = A.shape
    whole = np.vstack([A, damp * np.eye(p)]) if damp else A
    right = np.vstack([b, np.zeros((p, b.shape[1]))]) if damp else b
    factor = Orthogonal(whole)
    x = x0.T if factor.rank < p else np.zeros_like(x0.T)  # if none is missing there is but one solution
    x = x + factor.solve(right - whole @ x)
    change, _ = factor.correct(np.zeros_like(right), whole.T @ (right - whole @ x))
    as_given = tolerance.eps * _of_products(factor, n, x)  # the numbers of A and b are themselves rounded
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
    return Fit(x.T, error, np.einsum("ij,ij->j", r, r), factor.rank, factor.has_gap, n_reads + 1)


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
    return best, np.maximum.reduce(sizes[-2:]), 4 + 2 * len(sizes)


def _of_products(factor: Orthogonal, n: int, x: np.ndarray) -> np.ndarray:
    """Return what a relative rounding of 1 in the numbers of A would be worth in x."""
    return _ROUNDING / math.sqrt(n) * factor.spread * _norms(factor.lengths[:, None] * x)


def _norms(columns: np.ndarray) -> np.ndarray:
    return np.sqrt(np.einsum("ij,ij->j", columns, columns))
