"""Blocks made of clusters."""

from __future__ import annotations

import numpy as np

from rowsolve.clustering.online import Clusters

__all__ = ["partition_across", "partition_within"]


def partition_across(clusters: Clusters, rng: np.random.Generator | None) -> tuple[np.ndarray, np.ndarray]:
    """Partition the rows into blocks with one random row of each cluster; without `rng`, in the order of the rows.

    When the smallest cluster is used up, blocks go on with one row of each of the others, and so on down to
    blocks of one row: every nonzero row is in exactly one block.

    Returns
    -------
    members : ndarray
        The rows, block after block.
    starts : ndarray
        Block ``t`` is ``members[starts[t]:starts[t + 1]]``.
    """
    members, rank = _shuffled(clusters, rng)
    by_rank = np.argsort(rank, kind="stable")  # the t-th rows of all clusters form block t
    n_blocks = int(rank.max(initial=-1)) + 1
    return members[by_rank], np.searchsorted(rank[by_rank], np.arange(n_blocks + 1))


def partition_within(clusters: Clusters, block_size: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Partition the rows into blocks of `block_size` random rows of one cluster; the last of each may be smaller.

    Returns
    -------
    members, starts : ndarray
        As `partition_across`.
    """
    members, rank = _shuffled(clusters, rng)
    return members, np.append(np.flatnonzero(rank % block_size == 0), members.size)


def _shuffled(clusters: Clusters, rng: np.random.Generator | None) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows cluster by cluster, shuffled in each if there is an `rng`, and their rank in their cluster."""
    none = np.empty(0, np.int64)
    shuffled = [rows if rng is None else rng.permutation(rows) for rows in clusters.members()]
    return np.concatenate([none, *shuffled]), np.concatenate([none, *(np.arange(rows.size) for rows in shuffled)])
