"""The sparse Gram matrix of sparse rows, factored by SuperLU where that leaves a sparse factor."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rowsolve.lstsq.normal import WELL, GramFactor, noise_of

__all__ = ["SparseGramFactor", "factor_sparse_gram", "widest_row"]

_POWER_STEPS = 4


class SparseGramFactor(GramFactor):
    """The factor of a sparse Gram matrix, its columns brought to one length."""

    def __init__(self, lu: Any, lengths: np.ndarray, rcond: float) -> None:
        self.lu, self.lengths, self.rcond = lu, lengths[:, None], rcond
        self.rank, self.basis, self.columns = len(lengths), None, None

    def solve(self, vectors: np.ndarray) -> np.ndarray:
        """Return the solution for each column of `vectors`."""
        return self.lu.solve(vectors / self.lengths) / self.lengths

    def spread(self) -> float:
        """Return the root of the trace of the inverse, in the units of x, by some random vectors."""
        noise = noise_of(self.rank)
        found = np.vecdot(noise.T, self.solve(noise).T)
        return math.sqrt(max(0.0, float(found.mean())))


def factor_sparse_gram(gram: Any, damp: float = 0.0) -> SparseGramFactor | None:
    """Factor ``gram + damp**2``; None if it is singular, or too nearly so."""
    from scipy import sparse
    from scipy.sparse.linalg import splu

    p = gram.shape[0]
    diagonal = gram.diagonal() + damp * damp
    if not diagonal.min() > 0.0:
        return None
    lengths = np.sqrt(diagonal)
    scale = sparse.diags_array(1.0 / lengths)
    scaled = sparse.csc_array(scale @ (gram + sparse.diags_array(np.full(p, damp * damp)) if damp else gram) @ scale)
    try:
        options = {"SymmetricMode": True}
        lu = splu(scaled, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options=options)
    except RuntimeError:  # singular
        return None
    found, inverse = noise_of(p)[:, :2], 0.0
    for _ in range(_POWER_STEPS):
        found = lu.solve(found / np.linalg.norm(found))
        inverse = float(np.linalg.norm(found))
    largest = float(abs(scaled).sum(axis=0).max())
    rcond = 1.0 / math.sqrt(largest * inverse) if 0.0 < inverse < math.inf else 0.0
    return SparseGramFactor(lu, lengths, rcond) if rcond > WELL else None


def widest_row(indices: np.ndarray, indptr: np.ndarray) -> int:
    """Return how far the first and the last column of a row are apart, at most.

    In the order that the columns have: those of splines, grids and series are next to each other already.
    """
    filled = indptr[1:] > indptr[:-1]
    apart = indices[indptr[1:][filled] - 1] - indices[indptr[:-1][filled]]
    return int(apart.max(initial=0))
