"""The exact expected contraction of a random projection."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from rowsolve.policy.thresholds import MOST_COLUMNS
from rowsolve.theory._inputs import as_blocks, as_matrix, rank_of, unit_rows

__all__ = ["expected_rate"]


def expected_rate(A: Any, probabilities: Any, blocks: Iterable[Any] | None = None) -> float:
    """Return ``1 - lambda_min(E[P])``, the sharp bound on the factor by which a step reduces the mean squared error.

    A step that projects on block t maps the error ``e = x - x*`` to ``(I - P) e`` with ``P = pinv(A_t) A_t``, so

        E norm(e_next)^2 = norm(e)^2 - e' E[P] e <= rate norm(e)^2,

    with equality for the worst e. So ``E norm(e_j)^2 <= rate^j norm(e_0)^2`` after j steps. Over many steps the
    expected error may decrease faster, since e does not remain the worst one. For single rows drawn with probabilities
    proportional to the squared norms, the rate is ``1 - sigma_min(A)^2 / norm(A)_F^2`` (Strohmer and Vershynin 2009).

    ``lambda_min`` is taken over the row space of A: projections do not change the component of e outside it, which is
    zero for x0 = 0 and the minimum-norm solution. The system must be consistent; noise adds to the error.

    Parameters
    ----------
    A : array_like or sparse matrix of shape (n, p)
        The matrix, with p at most 5000; it is made dense.
    probabilities : {"norms", "uniform"} or array_like
        The probabilities of the rows, or of the blocks if given. ``"norms"``: proportional to the squared (Frobenius)
        norm. An array must sum to 1.
    blocks : iterable of arrays of int, optional
        The row indices of the blocks that are drawn. Blocks may overlap, and need not contain all rows. By default
        each row is a block.

    Returns
    -------
    float
        The rate, from 0 to 1.
    """
    n_columns = np.shape(A)[-1] if np.ndim(A) else 0
    if n_columns > MOST_COLUMNS:
        raise ValueError(
            f"`A` must have at most {MOST_COLUMNS} columns, got {n_columns}: the exact rate needs all singular values."
        )
    A = as_matrix(A)
    directions = unit_rows(A)  # the projections do not depend on the scale of a row
    rank = rank_of(_singular_values(directions), directions.shape)
    if rank == 0:
        raise ValueError("`A` must have a nonzero row.")
    indices = None if blocks is None else as_blocks(blocks, A.shape[0])
    weights = _weights(probabilities, A, indices)
    bases = directions[:, None, :] if indices is None else [_row_basis(directions[rows]) for rows in indices]
    # E[P] is root' root. Its eigenvalues beyond the rank of A belong to directions outside the row space.
    root = np.concatenate([math.sqrt(weight) * basis for weight, basis in zip(weights, bases, strict=True)])
    values = _singular_values(root)
    least = float(values[rank - 1] ** 2) if values.size >= rank else 0.0
    return min(max(1.0 - least, 0.0), 1.0)


def _singular_values(rows: np.ndarray) -> np.ndarray:
    """Return the singular values; those of tall matrices from the triangular factor, which is several times faster."""
    n, p = rows.shape
    return np.linalg.svd(np.linalg.qr(rows, mode="r") if n > p else rows, compute_uv=False)


def _row_basis(directions: np.ndarray) -> np.ndarray:
    """Return orthonormal rows that span the given ones."""
    _, values, basis = np.linalg.svd(directions, full_matrices=False)
    return basis[: rank_of(values, directions.shape)]


def _weights(probabilities: Any, A: np.ndarray, blocks: list[np.ndarray] | None) -> np.ndarray:
    count = A.shape[0] if blocks is None else len(blocks)
    if isinstance(probabilities, str):
        if probabilities == "uniform":
            return np.full(count, 1.0 / count)
        if probabilities == "norms":
            return _by_norms(A, blocks)
        raise ValueError(f"`probabilities` must be 'norms', 'uniform' or an array, got {probabilities!r}.")
    weights = np.asarray(probabilities, dtype=float)
    if weights.shape != (count,):
        raise ValueError(f"`probabilities` must have one entry for each of {count} draws, got shape {weights.shape}.")
    if not (weights >= 0.0).all() or not math.isclose(weights.sum(), 1.0, rel_tol=1e-9):
        found = f"a sum of {float(weights.sum())!r} and a smallest entry of {float(weights.min())!r}"
        raise ValueError(f"`probabilities` must be at least 0 and sum to 1, got {found}.")
    return weights


def _by_norms(A: np.ndarray, blocks: list[np.ndarray] | None) -> np.ndarray:
    norms_sq = np.sum((A / np.abs(A).max()) ** 2, axis=1)
    masses = norms_sq if blocks is None else np.array([norms_sq[rows].sum() for rows in blocks])
    if masses.sum() == 0.0:
        raise ValueError("`blocks` must have a nonzero row, as they are drawn by norm.")
    return masses / masses.sum()
