"""An order of the rows in which each block of `cluster-block` is contiguous."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from rowsolve.partition.clusters import cluster_stream, partition_across, sample_size
from rowsolve.policy.thresholds import FEWEST_ROWS
from rowsolve.problem.system import System
from rowsolve.sources import Store, open_rows
from rowsolve.sources.finite import column_words, first_not_finite
from rowsolve.sources.store import slices

__all__ = ["ARRAYS", "Arrangement", "arrange"]


class Arrangement(NamedTuple):
    """Rows in blocks with one row of each cluster.

    Attributes
    ----------
    rows : ndarray of shape (n,)
        The rows of the source in their new order; rows of zeros, which are in no block, come last.
    labels : ndarray of shape (n,)
        Their clusters; -1 for a row of zeros.
    starts : ndarray
        Block ``t`` consists of rows ``starts[t]`` to ``starts[t + 1]`` of the target.
    centroids : ndarray of shape (k, p)
    targets : ndarray of shape (k,) or None
        ``<centroids[l], x> = targets[l]`` holds for the solution of a consistent system. None unless there is exactly
        one right-hand side.
    """

    rows: np.ndarray
    labels: np.ndarray
    starts: np.ndarray
    centroids: np.ndarray
    targets: np.ndarray | None

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays that are not None, by name."""
        return {name: values for name, values in self._asdict().items() if values is not None}


ARRAYS = list(Arrangement._fields)


def arrange(
    rows: Store, b: Store | None, n_clusters: int, rng: np.random.Generator, step: int, progress: Callable[[int], None]
) -> Arrangement:
    """Cluster the rows by direction in one pass, `step` rows at a time, and arrange them in blocks.

    The t-th rows of all clusters, in the order of `rows`, form block t. So writing the blocks reads `rows`
    sequentially within each cluster.
    """
    if n_clusters > rows.shape[0]:
        raise ValueError(f"`cluster` must be at most the number of rows, {rows.shape[0]}, got {n_clusters}.")
    sample = _system(rows, b, _sample(rows.shape[0], n_clusters, rng))
    clusters = cluster_stream(sample, _pieces(rows, b, step, progress), n_clusters, rng)
    members, starts = partition_across(clusters, None)
    order = np.concatenate([members, np.flatnonzero(clusters.labels < 0)])
    targets = clusters.targets if b is not None and b.shape[1] == 1 else None
    return Arrangement(order, clusters.labels[order], starts, clusters.centroids, targets)


def _sample(n_rows: int, n_clusters: int, rng: np.random.Generator) -> np.ndarray:
    """Return the rows from which the initial centroids are chosen: short runs at random places."""
    wanted = min(n_rows, sample_size(n_clusters))
    run = min(FEWEST_ROWS, max(1, wanted // n_clusters))
    firsts = rng.permutation(-(-n_rows // run))[: -(-wanted // run)] * run
    return np.minimum(np.sort(firsts)[:, None] + np.arange(run), n_rows - 1).reshape(-1)


def _pieces(rows: Store, b: Store | None, step: int, progress: Callable[[int], None]) -> Iterator[System]:
    for start, stop in slices(rows.shape[0], step):
        yield _system(rows, b, np.arange(start, stop))
        progress(stop)


def _system(rows: Store, b: Store | None, numbers: np.ndarray) -> System:
    """Return the equations with these indices; without b, all right-hand sides are zero."""
    part = rows.take(numbers)
    found = first_not_finite(part)
    if found is not None:
        column = column_words(rows.columns, found.column)
        raise ValueError(
            f"{rows.name}: row {numbers[found.row]} has {found.value} in {column}, so it cannot be clustered. Try "
            "removing or repairing such rows."
        )
    sides = np.zeros(numbers.size) if b is None else np.asarray(b.take(numbers), dtype=float)
    return System(open_rows(part), np.ascontiguousarray(sides[:, 0] if sides.shape[1:] == (1,) else sides))
