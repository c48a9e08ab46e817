"""Four ways to partition the rows into blocks, which differ in ``(m, alpha, beta)``, set-up cost and convergence."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np

from rowsolve.partition.clusters import cluster_rows, partition_across
from rowsolve.policy.thresholds import POWER_STEPS
from rowsolve.problem.system import System

__all__ = ["KINDS", "blocks_of", "incoherence_transform"]

KINDS = ("random", "incoherent", "subset", "cluster")


def blocks_of(system: System, kind: str, n_blocks: int | None, rng: np.random.Generator) -> list[np.ndarray]:
    """Partition the nonzero rows of `system` into blocks.

    ``"random"`` (and ``"incoherent"``, for rows that have been transformed before): a random partition. ``"subset"``:
    each block has the best-conditioned rows of those that remain, chosen by QR with pivoting, as in column subset
    selection. ``"cluster"``: each block has one row of each of ``n / n_blocks`` clusters.

    The default of `n_blocks` is the squared spectral norm of the normalised rows: with as many random blocks,
    ``beta <= 6 log(1 + n)`` with probability ``1 - 1 / n``.
    """
    rows, norms_sq = _nonzero_rows(system)
    if rows.size == 0:
        return []
    count = n_blocks or _default_count(system, rows, norms_sq, rng)
    if count > rows.size:
        raise ValueError(f"`n_blocks` must be at most the number of nonzero rows, {rows.size}, got {count}.")
    if kind == "cluster":
        clusters = cluster_rows(system, max(1, round(rows.size / count)), rng)
        members, starts = partition_across(clusters, rng)
        return [members[start:stop] for start, stop in pairwise(starts)]
    if kind == "subset":
        return _by_subset_selection(system, rows, norms_sq, count)
    return np.array_split(rng.permutation(rows), count)


def incoherence_transform(A: np.ndarray, b: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Mix the rows of ``A x = b`` by a fast random orthogonal transform, which makes them incoherent.

    The transform S flips the signs of rows at random, applies the discrete cosine transform along the columns, and
    permutes the rows. It is orthogonal, so the least-squares solution does not change. (The paper says that it adds
    noise, which is wrong.)

    Parameters
    ----------
    A : ndarray of shape (n, p)
    b : ndarray of shape (n,) or (n, k)
    rng : numpy.random.Generator
        Generator for the signs and the permutation.

    Returns
    -------
    SA, Sb : ndarray
        ``S A`` and ``S b``.
    """
    from scipy import fft

    signs, order = rng.choice([-1.0, 1.0], A.shape[0]), rng.permutation(A.shape[0])
    turned = fft.dct(A * signs[:, None], axis=0, norm="ortho")
    return turned[order], fft.dct(b.T * signs, norm="ortho").T[order]


def _nonzero_rows(system) -> tuple[np.ndarray, np.ndarray]:
    norms_sq = system.norms_sq()
    return np.flatnonzero(norms_sq), norms_sq


def _default_count(system, rows, norms_sq, rng) -> int:
    """Return an estimate of the squared spectral norm of the normalised rows, by power iteration on a sample."""
    sample = rng.permutation(rows)[: 4 * system.n_columns]
    unit = _normalised(system, sample, norms_sq)
    direction = rng.standard_normal(system.n_columns)
    for _ in range(POWER_STEPS):
        direction = unit.T @ (unit @ direction)
        size = float(np.linalg.norm(direction))
        direction /= size
    return min(rows.size, math.ceil(size * rows.size / sample.size))


def _normalised(system, rows, norms_sq) -> np.ndarray:
    system.counter.add(rows.size)
    return np.stack([system.source.row(i) / math.sqrt(norms_sq[i]) for i in rows])


def _by_subset_selection(system, rows, norms_sq, n_blocks) -> list[np.ndarray]:
    from scipy.linalg import qr

    size = -(-rows.size // n_blocks)
    unit, blocks = _normalised(system, rows, norms_sq), []
    while rows.size:
        system.clock.check()
        _, pivots = qr(unit.T, mode="r", pivoting=True, check_finite=False)
        chosen = pivots[:size]
        blocks.append(rows[chosen])
        rows, unit = np.delete(rows, chosen), np.delete(unit, chosen, axis=0)
    return blocks
