"""The minimum-norm least-squares solution of a system, if it is known to about eight digits; otherwise None."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import linalg, sparse
from scipy.sparse.linalg import LinearOperator, lsmr, lsqr, onenormest, splu

EPS = float(np.finfo(float).eps)
CERTAIN = 1e-8  # the relative error that a reference may have
GRAM_COLUMNS = 2500  # columns up to which a dense Gram matrix is computed
DENSE_PRODUCTS = 5e9  # products of a Gram matrix up to which a sparse matrix is converted to dense
ITERATIONS = 4000


def solution_of(A: Any, b: np.ndarray) -> np.ndarray | None:
    """Return x, or None if it is uncertain or zero."""
    A, b, (n, p) = A.astype(float), np.asarray(b, dtype=float), A.shape
    if p <= GRAM_COLUMNS:
        ways = [by_cholesky, by_gram if sparse.issparse(A) and n * p**2 > DENSE_PRODUCTS else by_singular_values]
    else:
        ways = [by_iterations, by_sparse_factor]
    found = (way(A, b) for way in ways)  # the first is the cheapest; the next is used if its result is uncertain
    x = next((x for x in found if x is not None), None)
    return None if x is None or not np.linalg.norm(x, axis=0).min() > 0 else x


def by_cholesky(A: Any, b: np.ndarray) -> np.ndarray | None:
    """Use a factor of ``A.T @ A`` for columns of norm 1, with refinement; None unless the rank is clearly full."""
    gram = full(A.T @ A)
    norms = np.sqrt(np.diag(gram))
    if not norms.min() > 0:
        return None
    gram /= np.outer(norms, norms)
    try:
        factor, lower = linalg.cho_factor(gram)
    except linalg.LinAlgError:
        return None
    share, _ = linalg.lapack.dpocon(factor, linalg.norm(gram, 1), uplo="L" if lower else "U")
    if share < 1e-10 or norms.min() < 1e-9 * norms.max():
        return None
    x = refined(A, b, lambda g: (linalg.cho_solve((factor, lower), (g.T / norms).T).T / norms).T)
    if x is None:
        return None
    y = (x.T * norms).T
    residual = np.linalg.norm(b - A @ x, axis=0) / (np.sqrt(norms.size) * size(y))
    error = EPS * (share**-0.5 + residual / share) * np.linalg.norm(y, axis=0) * np.linalg.norm(1 / norms)
    return x if largest(error / size(x)) <= CERTAIN else None


def full(A: Any) -> np.ndarray:
    """Return A as a dense matrix."""
    return A.toarray() if sparse.issparse(A) else A


def by_singular_values(A: Any, b: np.ndarray) -> np.ndarray | None:
    """Use LAPACK's gelsd; if this is not accurate and the rank is full, on columns of norm 1."""
    A = full(A)
    x, _, rank, s = np.linalg.lstsq(A, b)
    clear = rank == s.size or s[rank] <= 1e-13 * s[0]
    if rank == 0 or not clear or s[rank - 1] < 1e-9 * s[0]:
        return None
    condition = s[0] / s[rank - 1]
    if largest(rounding(condition, A, b, x)) <= CERTAIN:
        return x
    if rank < A.shape[1]:
        return None
    norms = np.linalg.norm(A, axis=0)
    y, _, rank, s = np.linalg.lstsq(A / norms, b)
    x = (y.T / norms).T
    error = rounding(s[0] / s[-1], A / norms, b, y) * np.linalg.norm(y, axis=0) * np.linalg.norm(1 / norms)
    return x if rank == A.shape[1] and largest(error / size(x)) <= CERTAIN else None


def size(x: np.ndarray) -> np.ndarray:
    """Return the norm of each column, at least a tiny number."""
    return np.maximum(np.linalg.norm(x, axis=0), 1e-300)


def largest(values: Any) -> float:
    """Return the maximum; NaN counts as infinite."""
    return float(np.nan_to_num(np.max(values), nan=np.inf))


def rounding(condition: float, A: np.ndarray, b: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return a bound on the relative error due to rounding, for each right-hand side (Björck, 1996, section 1.4)."""
    residual = np.linalg.norm(b - A @ x, axis=0) / (np.linalg.norm(A) * size(x))
    return EPS * (condition + condition**2 * residual)


def refined(A: Any, b: np.ndarray, inverse: Any) -> np.ndarray | None:
    """Refine x with an inverse of the Gram matrix; None if it still changes after the last step."""
    x = inverse(A.T @ b)
    for _ in range(4):
        change = inverse(A.T @ (b - A @ x))
        x = x + change
    return x if largest(np.linalg.norm(change, axis=0) / size(x)) <= 0.1 * CERTAIN else None


def by_gram(A: Any, b: np.ndarray) -> np.ndarray | None:
    """Use the eigenvalues of ``A.T @ A``, with refinement; None if one is neither zero nor clearly above it."""
    values, V = linalg.eigh((A.T @ A).toarray())
    kept = values > 1e-10 * values[-1]
    if not kept.any() or np.any(values[~kept] > 1e-12 * values[-1]):
        return None
    V, values = V[:, kept], values[kept]
    return refined(A, b, lambda g: V @ ((V.T @ g).T / values).T)


def by_iterations(A: Any, b: np.ndarray) -> np.ndarray | None:
    """Use lsmr and lsqr; None unless both converge to the same x."""
    sides = b if b.ndim > 1 else b[:, None]
    found = []
    for side in sides.T:
        one = lsmr(A, side, atol=1e-15, btol=1e-15, conlim=0, maxiter=ITERATIONS)
        if one[2] >= ITERATIONS:
            return None
        other = lsqr(A, side, atol=1e-15, btol=1e-15, conlim=0, iter_lim=ITERATIONS)
        if np.linalg.norm(one[0] - other[0]) > CERTAIN * np.linalg.norm(other[0]):
            return None
        found.append(other[0])
    return np.stack(found, axis=1) if b.ndim > 1 else found[0]


def by_sparse_factor(A: Any, b: np.ndarray) -> np.ndarray | None:
    """Use a sparse factor of ``A.T @ A``, with refinement; None unless the rank is clearly full."""
    gram = sparse.csc_array(A.T @ A)
    try:
        factor = splu(gram, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})
    except RuntimeError:
        return None
    inverse = LinearOperator(gram.shape, matvec=factor.solve, rmatvec=lambda g: factor.solve(g, "T"), dtype=float)
    condition = onenormest(inverse) * sparse.linalg.norm(gram, 1)
    return refined(A, b, factor.solve) if condition < 1e11 else None
