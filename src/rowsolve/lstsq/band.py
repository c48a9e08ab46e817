"""The Gram matrix of sparse rows as a band, and its Cholesky factor.

Splines, series, grids and networks have rows between adjacent columns, in the given order or in one found by the
Cuthill-McKee algorithm. Their Gram matrix is a narrow band, and so is its factor. LAPACK factors it in a fraction of
the time of a sparse LU factorization (SuperLU), and the cost is known beforehand.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import lapack

from rowsolve.kernels.gradient import add_band
from rowsolve.kernels.rows import CSRRows
from rowsolve.lstsq.normal import GramFactor, noise_of
from rowsolve.lstsq.orthogonal import orthonormal
from rowsolve.lstsq.state import Compressed, compress_sparse
from rowsolve.policy.thresholds import CLEARLY_MORE, FEW_POWER_STEPS, MOST_DROPPED, SAFE_CONDITION
from rowsolve.problem.layout import Layout

__all__ = ["Band", "BandFactor", "compress_to_band", "factor_band"]


class Band(NamedTuple):
    """A symmetric matrix, of which ``values[j, d]`` is the entry of columns ``order[j]`` and ``order[j + d]``."""

    values: np.ndarray
    order: np.ndarray | None


class BandFactor(GramFactor):
    """The Cholesky factor of a band, with columns scaled to equal length.

    Dependent columns (`dropped`, numbered as in the band) are replaced by those of the identity.
    """

    def __init__(
        self, scaled: np.ndarray, lower: np.ndarray, roots: np.ndarray, order: np.ndarray | None, dropped: list[int]
    ) -> None:
        lengths = roots
        if order is not None:
            lengths = np.empty_like(roots)
            lengths[order] = roots
        super().__init__(lower, lengths, 0.0)
        self.order, self.dropped, self.of_null, self.rank = order, dropped, True, len(roots) - len(dropped)
        if dropped:
            self.basis = self._null_space(scaled)
        self.rcond = self._rcond(scaled)

    def solve(self, vectors: np.ndarray) -> np.ndarray:
        """Return the minimum-norm solution for each column of `vectors`."""
        scaled = vectors / self.lengths
        return self.project(self._back(self._solve(scaled if self.order is None else scaled[self.order])))

    def _solve(self, scaled: np.ndarray) -> np.ndarray:
        """Solve for the columns that were not dropped; the others get 0."""
        if self.dropped:
            scaled = scaled.copy()
            scaled[self.dropped] = 0.0
        return lapack.dpbtrs(self.lower, scaled, lower=1)[0]

    def _back(self, found: np.ndarray) -> np.ndarray:
        """Return vectors of the scaled band in the order and the units of x."""
        if self.order is not None:
            found, before = np.empty_like(found), found
            found[self.order] = before
        return found / self.lengths

    def _null_space(self, scaled: np.ndarray) -> np.ndarray:
        """Return the null space: each dropped column of the `scaled` band is a combination of the others."""
        null = np.zeros((len(self.lengths), len(self.dropped)))
        for k, j in enumerate(self.dropped):
            null[:, k] = column_of(scaled, j)
        null = -self._solve(null)
        null[self.dropped, np.arange(len(self.dropped))] = 1.0
        return orthonormal(self._back(null))[0]

    def _rcond(self, scaled: np.ndarray) -> float:
        """Return an estimate of the square root of the reciprocal condition number of the columns not dropped."""
        found, inverse = noise_of(len(scaled))[:, :1], 0.0
        for _ in range(FEW_POWER_STEPS):
            found = self._solve(found / np.linalg.norm(found))
            inverse = float(np.linalg.norm(found))
        largest = 2.0 * float(np.abs(scaled).sum(axis=1).max())  # at least: each entry beside the diagonal counts twice
        return 1.0 / math.sqrt(largest * inverse) if 0.0 < inverse < math.inf else 0.0

    def inverse_norm(self) -> float:
        """Return the square root of the trace of the inverse, in the units of x, estimated by random vectors."""
        noise = self.project(noise_of(len(self.lengths)))
        found = np.vecdot(noise.T, self.solve(noise).T)
        return math.sqrt(max(0.0, float(found.mean())))


def column_of(band: np.ndarray, j: int) -> np.ndarray:
    """Return column `j` of the symmetric matrix whose entry (j, j + d) is ``band[j, d]``."""
    p, wide = band.shape
    column, below, above = np.zeros(p), min(wide, p - j), min(wide - 1, j)
    column[j : j + below] = band[j, :below]
    for d in range(1, above + 1):
        column[j - d] = band[j - d, d]
    return column


def compress_to_band(A: Any, b: np.ndarray, layout: Layout, threads: int = 1) -> Compressed:
    """Compress the rows of a CSR matrix as `compress` does, with a `Band` as the Gram matrix."""
    p = A.shape[1]
    places = np.arange(p)
    if layout.order is not None:
        places[layout.order] = np.arange(p)

    def add(rows: CSRRows, sides: np.ndarray, start: int, stop: int, gram: np.ndarray, sums: np.ndarray) -> None:
        add_band(rows, sides, places, start, stop, gram, sums)

    values, sums, squares = compress_sparse(A, b, (p, layout.width + 1), add, threads)
    return Compressed(Band(values, layout.order), sums, squares, A.shape[0])


def factor_band(band: Band, damp: float = 0.0) -> BandFactor | None:
    """Factor a band with ``damp**2`` added to its diagonal; return None if the rank is in doubt.

    A few columns may be dependent: differences determine x only up to a constant in each component of a network.
    """
    (p, wide), order = band.values.shape, band.order
    diagonal = band.values[:, 0] + damp * damp
    zero = np.flatnonzero(diagonal == 0.0)  # columns without an entry
    if not (diagonal.min() >= 0.0 and 0.0 < diagonal.max() < math.inf):
        return None
    diagonal[zero] = diagonal.max()
    roots = np.concatenate([np.sqrt(diagonal), np.ones(wide)])
    if roots[:p].max() <= CLEARLY_MORE * roots[:p].min():  # one unit for all suffices
        roots[:] = roots[:p].max()
        scaled = band.values / roots[0] ** 2
        scaled[:, 0] = diagonal / roots[0] ** 2
    else:
        scaled = band.values / roots[:p, None]
        scaled /= np.lib.stride_tricks.sliding_window_view(roots, wide)[:p]
        scaled[:, 0] = 1.0
    found = _factor_without_dependent(scaled, zero.tolist())
    if found is None:
        return None
    lower, dropped = found
    factor = BandFactor(scaled, lower, roots[:p], order, dropped)
    return factor if factor.rcond > 1.0 / SAFE_CONDITION else None


def _factor_without_dependent(scaled: np.ndarray, zero: list[int]) -> tuple[np.ndarray, list[int]] | None:
    """Factor a band; a few dependent columns are replaced by those of the identity, one by one.

    The `zero` columns only need a new diagonal.
    """
    dropped, work, most = list(zero), scaled, len(zero) + MOST_DROPPED
    while len(dropped) <= most:
        lower, info = lapack.dpbtrf(work.T, lower=1)
        pivots = lower[0, : info - 1] if info > 0 else lower[0]
        small = np.flatnonzero(pivots < 1.0 / SAFE_CONDITION)  # what is left of a dependent column of length 1
        if not small.size and info == 0:
            return lower, dropped
        j = int(small[0]) if small.size else info - 1
        dropped.append(j)
        if work is scaled:
            work = scaled.copy()
        work[j], work[j, 0] = 0.0, 1.0
        for d in range(1, min(scaled.shape[1] - 1, j) + 1):
            work[j - d, d] = 0.0
    return None
