"""Estimates from a few rows: whether A has a few large singular values, and whether the others are nearly equal.

Rows with common directions (a column that is not centred, the centroids of clusters) give A a few singular values far
above the others. They slow down random rows, and conjugate gradients (by one step for each, and again because of
rounding), although their directions are easily found. If these are used as equations, or if gradients are scaled down
along them, the rate of convergence is that of the other singular values.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rowsolve.checkpoint.state import array, integer, named, number, optional, sided
from rowsolve.kernels.gradient import add_gradients
from rowsolve.lstsq.factor import gather
from rowsolve.lstsq.orthogonal import orthonormal
from rowsolve.parallel.blas import blas_threads
from rowsolve.policy.thresholds import (
    BY_ROUNDING,
    CLEARLY_MORE,
    EPS,
    FEW_POWER_STEPS,
    HARDLY_MORE,
    LOOK_BLOCK,
    LOOK_ROWS,
    LOOK_SHARE,
    SAME_DIRECTIONS,
)
from rowsolve.problem.reader import Piece
from rowsolve.problem.system import System

__all__ = [
    "OUTLIERS",
    "SPECTRUM",
    "CommonDirections",
    "Outliers",
    "Spectrum",
    "look_at_spectrum",
    "outliers_of",
]  # fmt: skip


class Outliers(NamedTuple):
    """Directions of the largest singular values: orthonormal `vectors`, one in each row.

    `weights` are the mean of the other eigenvalues of ``A'A`` divided by theirs; `largest` is the largest of theirs.
    """

    vectors: np.ndarray
    weights: np.ndarray
    largest: float

    def level(self, gradients: np.ndarray) -> None:  # gradients: INOUT
        """Scale down each of `gradients` along the outlying directions to the size of the others."""
        gradients += ((gradients @ self.vectors.T) * (self.weights - 1.0)) @ self.vectors


class CommonDirections(NamedTuple):
    """The common directions of some rows: combinations of these in the directions of their largest singular values.

    ``equations @ x = targets`` holds if the rows are consistent. `mean` is the typical sum of squares of all `n_rows`
    in another direction.
    """

    equations: np.ndarray
    targets: np.ndarray
    n_rows: int
    mean: float


class Spectrum(NamedTuple):
    """The unevenness of the eigenvalues of ``A'A`` (see `_unevenness`), without the common directions of the rows."""

    unevenness: float = 1.0
    common_directions: CommonDirections | None = None

    @property
    def even(self) -> bool:
        """Whether the eigenvalues are so even that conjugate gradients converge fast."""
        return self.unevenness <= HARDLY_MORE


# The expected entries of a saved state (see `rowsolve.checkpoint.state`).
OUTLIERS = named(Outliers, vectors=array("outliers", "p"), weights=array("outliers"), largest=number)
_COMMON_DIRECTIONS = named(
    CommonDirections, equations=array("r", "p"), targets=sided("r"), n_rows=integer(1, "n"), mean=number
)
SPECTRUM = named(Spectrum, unevenness=number, common_directions=optional(_COMMON_DIRECTIONS))


def look_at_spectrum(system: System, rng: np.random.Generator) -> Spectrum:
    """Return the spectrum of A, estimated from random rows, which are counted, unless it is known already."""

    def look() -> Spectrum:
        order, _ = system.sample(min(LOOK_ROWS, system.n_rows // LOOK_SHARE), rng)
        return _spectrum_of(system, np.sort(order), rng)

    return system.facts.once(look)


def _rows_of(system: System, order: np.ndarray) -> np.ndarray:
    system.count(order)
    (part,) = system.parts(order)
    (rows,) = gather(part, system.n_columns)
    return rows


def _spectrum_of(system: System, order: np.ndarray, rng: np.random.Generator) -> Spectrum:
    damp_sq = system.damp**2 * order.size / system.n_rows  # as much of it as there are rows
    some = _rows_of(system, order[:: max(1, 4 * order.size // LOOK_ROWS)])
    share = len(some) / order.size
    with blas_threads(order.size * float(system.n_columns) * LOOK_BLOCK, 1):
        unevenness = _unevenness(some, share * damp_sq)
        if unevenness > HARDLY_MORE and (rank := _rank_of(some)) < len(some):  # others slow nothing down
            unevenness *= rank / system.n_columns
        if not HARDLY_MORE < unevenness < np.inf:  # or out of range, which others will tell
            return Spectrum()
        rows = _rows_of(system, order)
        found = _outlying(rows, rng)
        rest = some - (some @ found.T) @ found
        if np.vdot(rest, rest) <= BY_ROUNDING**2 * np.vdot(some, some):  # of so low a rank a few steps are all it takes
            return Spectrum()
        if not len(found) or not _unevenness(rest, share * damp_sq) <= HARDLY_MORE:
            return Spectrum(unevenness)
        inside = rows @ found.T
        mean = (np.vdot(rows, rows) - np.vdot(inside, inside)) / (system.n_columns - len(found)) + damp_sq
        mix = _orthonormal(inside.T)
        return Spectrum(common_directions=CommonDirections(mix @ rows, mix @ system.b[order], order.size, float(mean)))


def outliers_of(system: System, sampled: CommonDirections | None) -> Outliers | None:
    """Return the common directions of all rows, given those of a sample; None if there are none, or others.

    The directions of a sample are not accurate enough: the singular value left beside them would still be a multiple of
    the others. So one more power step is taken, with all rows.
    """
    if sampled is None:
        return None
    found, mean = _orthonormal(sampled.equations), sampled.mean * system.n_rows / sampled.n_rows
    moved = _gram_times(system, found)
    basis = _orthonormal(moved)
    overlap = found @ basis.T
    if not np.linalg.svd(overlap, compute_uv=False)[-1] > SAME_DIRECTIONS:
        return None
    # Outlying directions keep to themselves: in the new basis A'A is what takes the old one to where it has moved.
    matrix = np.linalg.solve(overlap, moved @ basis.T)
    values, turn = np.linalg.eigh((matrix + matrix.T) / 2.0)
    return Outliers(turn.T @ basis, mean / values, float(values[-1])) if values[0] > mean else None


def _gram_times(system: System, vectors: np.ndarray) -> np.ndarray:
    """Return ``(A'A + damp**2) v`` for each of `vectors`, by one pass for two, which is faster than BLAS for a few."""
    pairs = np.vstack([vectors, vectors[: len(vectors) % 2]]).reshape(-1, 2, system.n_columns)
    found = system.damp**2 * pairs
    for k, pair in enumerate(pairs):
        parts: dict[int, np.ndarray] = {}

        def add(piece: Piece, start: int, stop: int, _: np.ndarray, pair=pair, parts=parts) -> None:
            out = parts[piece.first + start] = np.zeros_like(pair)
            add_gradients(piece.rows, piece.of(system.facts.b_magnitude), 0.0, start, stop, pair, out, np.zeros(2))

        system.pass_over(add)
        for start in sorted(parts):  # the same sum in any order of the threads
            found[k] -= parts[start]
    return found.reshape(-1, system.n_columns)[: len(vectors)]


def _unevenness(rows: np.ndarray, damp_sq: float) -> float:
    """Return the mean square of the eigenvalues of ``A'A``, estimated from `rows`, divided by their squared mean.

    It is 1 if all are equal, and half the logarithm of the condition number of ``A'A`` if they decay geometrically. It
    is computed as p times the mean squared cosine between two rows, weighted by their squared lengths.
    """
    products, p = rows @ rows.T, rows.shape[1]
    sizes_sq = products.diagonal().copy()
    np.fill_diagonal(products, 0.0)
    uneven = p * np.vdot(products, products) / (np.sum(sizes_sq) ** 2 - np.sum(sizes_sq**2))
    mean = np.sum(sizes_sq) / p
    return float((uneven * mean**2 + 2.0 * mean * damp_sq + damp_sq**2) / (mean + damp_sq) ** 2)


def _rank_of(rows: np.ndarray) -> int:
    """Return the rank of a few rows, from their squares."""
    values = np.linalg.eigvalsh(rows @ rows.T)
    return int((values > len(rows) * EPS * values[-1]).sum())


def _outlying(rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return orthonormal directions of the largest singular values of `rows`, by subspace iteration."""
    block = rng.standard_normal((LOOK_BLOCK, rows.shape[1]))
    for _ in range(FEW_POWER_STEPS):
        block = _orthonormal((rows @ block.T).T @ rows)
    products = rows @ block.T
    values, turn = np.linalg.eigh(products.T @ products)
    return turn[:, values > CLEARLY_MORE**2 * values[0]].T @ block


def _orthonormal(vectors: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(orthonormal(vectors.T)[0].T)
