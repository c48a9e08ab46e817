"""An order of the rows in which every block of `cluster-block` is one contiguous read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from rowsolve.partition.clusters import cluster_stream, partition_across, sample_size
from rowsolve.problem.system import System
from rowsolve.sources import Store, open_rows
from rowsolve.sources.finite import column_words, first_not_finite

__all__ = ["ARRAYS", "BYTES_PER_ROW", "Arrangement", "arrange"]

BYTES_PER_ROW = 64  # of memory: the label, the number and the rank of a row, sorted and not
_RUN = 32  # rows of the sample that are next to each other, so that few places are read


class Arrangement(NamedTuple):
    """Rows in blocks with one row of each cluster.

    Attributes
    ----------
    rows : ndarray of shape (n,)
        The row of the source that comes first, second, …; rows of zeros, which are in no block, come last.
    labels : ndarray of shape (n,)
        Their clusters; -1 for a row of zeros.
    starts : ndarray
        Block ``t`` is rows ``starts[t]`` to ``starts[t + 1]`` of the target.
    centroids : ndarray of shape (k, p)
    targets : ndarray of shape (k,) or None
        ``<centroids[l], x> = targets[l]`` holds for the solution of a consistent system. None without one b.
    """

    rows: np.ndarray
    labels: np.ndarray
    starts: np.ndarray
    centroids: np.ndarray
    targets: np.ndarray | None

    def arrays(self) -> dict[str, np.ndarray]:
        """Return those that there are, by name."""
        return {name: values for name, values in self._asdict().items() if values is not None}


ARRAYS = list(Arrangement._fields)


def arrange(
    rows: Store, b: Store | None, n_clusters: int, rng: np.random.Generator, step: int, progress: Callable[[int], None]
) -> Arrangement:
    """Cluster the rows by direction in one pass, `step` of them at a time, and put them in blocks.

    The t-th rows of all clusters, in the order of `rows`, form block t. So whoever writes the blocks reads `rows`
    front to back for each cluster, and not here and there.
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
    """Return rows to start from: short runs at random places."""
    wanted = min(n_rows, sample_size(n_clusters))
    run = min(_RUN, max(1, wanted // n_clusters))
    firsts = rng.permutation(-(-n_rows // run))[: -(-wanted // run)] * run
    return np.minimum(np.sort(firsts)[:, None] + np.arange(run), n_rows - 1).reshape(-1)


def _pieces(rows: Store, b: Store | None, step: int, progress: Callable[[int], None]) -> Iterator[System]:
    for start, stop in rows.pieces(step):
        yield _system(rows, b, np.arange(start, stop))
        progress(stop)


def _system(rows: Store, b: Store | None, numbers: np.ndarray) -> System:
    """Return some of the equations; without b, all right-hand sides are zero."""
    part = rows.take(numbers)
    odd = first_not_finite(part)
    if odd is not None:
        raise ValueError(
            f"{rows.name}: row {numbers[odd.row]} has {odd.value} in {column_words(rows.columns, odd.column)}, and so "
            "belongs to no cluster: remove or repair such rows."
        )
    sides = np.zeros(numbers.size) if b is None else np.asarray(b.take(numbers), dtype=float)
    return System(open_rows(part), np.ascontiguousarray(sides[:, 0] if sides.shape[1:] == (1,) else sides))
