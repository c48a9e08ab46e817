"""Clustering of the rows by online k-means, in one pass over the rows in random order."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Literal

import numpy as np

from rowsolve.kernels.kmeans import (
    MetricCode,
    add_seed,
    distances_to_none,
    empty_centroids,
    label_rows,
    move_centroids,
    online_kmeans,
)
from rowsolve.kernels.rows import PARALLEL, CSRRows, frozen
from rowsolve.kernels.sampling import deal, new_cards
from rowsolve.parallel.pool import run_together
from rowsolve.policy.thresholds import NUMBERS_IN_CACHE, SAMPLE_ROWS_EACH
from rowsolve.problem.system import System

__all__ = [
    "EQUATION_METRICS",
    "METRICS",
    "Clusters",
    "Metric",
    "cluster_rows",
    "cluster_stream",
    "partition_across",
    "partition_within",
    "sample_size",
]

Metric = Literal["direction", "euclidean", "jaccard", "hamming"]
METRICS = tuple(code.name.lower() for code in MetricCode)
EQUATION_METRICS = ("direction", "euclidean")  # those whose centroids are equations

_ONE_BY_ONE = 512  # rows before the first batch: at the start every row moves its centroid far
_SHARE_OF_SEEN = 1 / 16  # size of a batch relative to the rows before it, so that it moves the centroids only a little
# The mean of many rows is shorter than a row and so, in these metrics, nearer to all other rows: processed one by one,
# nearly all rows would end up in the cluster that got the first few. Batches of some rows per cluster avoid that.
_LENGTH_COUNTS = ("euclidean", "jaccard")


@dataclass(frozen=True)
class Clusters:
    """The clusters of the rows, and the centroid equations.

    Attributes
    ----------
    labels : ndarray of shape (n,)
        The cluster of each row; -1 for a row of zeros.
    centroids : ndarray of shape (k, p)
    targets : ndarray of shape (k,)
        A centroid is a mean of (signed, normalised) rows, and its target is the same mean of their entries of b:
        ``<centroids[l], x> = targets[l]`` holds for the solution of a consistent system. (With ``"jaccard"`` and
        ``"hamming"``, a centroid is a mean of vectors of zeros and ones, and its target the mean number of ones.)
    """

    labels: np.ndarray
    centroids: np.ndarray
    targets: np.ndarray

    @property
    def n_clusters(self) -> int:
        """The number of clusters, all of which have rows."""
        return self.targets.size

    def members(self) -> list[np.ndarray]:
        """Return the rows of each cluster."""
        by_label = np.argsort(self.labels, kind="stable")
        edges = np.searchsorted(self.labels[by_label], np.arange(self.n_clusters + 1))
        return [by_label[a:z] for a, z in pairwise(edges)]


def cluster_rows(
    system: System,
    n_clusters: int,
    rng: np.random.Generator,
    *,
    metric: Metric = "direction",
    rate: float | Literal["count"] = "count",
) -> Clusters:
    """Cluster the rows of `system` by online k-means: k-means++ on a sample, then one pass over the rows.

    The hyperplanes of ``a`` and ``-a`` are the same, so by default rows are compared by the absolute cosine, and signs
    are flipped towards the centroid; ``metric="euclidean"`` follows the paper to the letter. ``"jaccard"`` and
    ``"hamming"`` compare the patterns of sparse rows, that is, which entries are nonzero. The nearest centroid is moved
    by ``rate * (row - centroid)``; ``rate="count"`` is one over the number of rows in its cluster so far. Fewer than
    `n_clusters` clusters are returned if there are fewer different rows.

    With ``rate="count"``, the rows of a batch are compared with the centroids before the batch, which are moved
    afterwards. So several rows are compared at once, on several threads, and the result is bitwise independent of the
    number of threads. A batch has a sixteenth of the rows before it. By direction and Hamming distance, the first 512
    rows are processed one by one; otherwise a batch has at least 16 rows per cluster (see `_LENGTH_COUNTS`).

    Reads the n rows and, for the initial centroids, a sample of ``32 k`` rows (at most 1024, at least ``2 k``).
    """
    if n_clusters > system.n_rows:
        raise ValueError(
            f"`n_clusters` must be at most the number of rows, {system.n_rows}, got {n_clusters}: "
            f"choose fewer clusters."
        )
    if system.stored:
        return _cluster_stored(system, n_clusters, rng, metric, rate)
    rows, b = (system.rows, system.facts.b_magnitude) if metric in EQUATION_METRICS else _patterns(system, metric)
    cards = new_cards(system.n_rows)
    sample = np.empty(min(system.n_rows, sample_size(n_clusters)), np.int64)
    deal(cards, 0, rng.random(sample.size), sample)
    moving = _CentroidState(system, rows, b, sample, n_clusters, rng, metric, rate)
    labels = np.empty(system.n_rows, np.int64)
    for piece in system.pieces(times_used=1 + moving.k // 8):  # several products per number that is loaded
        order = np.empty(piece.n_rows, np.int64)
        deal(cards, piece.start, rng.random(order.size), order)
        moving.take(system, rows, b, order, labels)
    return moving.clusters(labels)


def cluster_stream(sample: System, pieces: Iterable[System], n_clusters: int, rng: np.random.Generator) -> Clusters:
    """Cluster rows by direction as `cluster_rows` does, where the rows come in consecutive `pieces`.

    The initial centroids are chosen from the rows of `sample`. The order of the rows is random only within a piece.
    """
    rows, b = sample.rows, sample.facts.b_magnitude
    moving = _CentroidState(sample, rows, b, np.arange(sample.n_rows), n_clusters, rng, "direction", "count")
    labels = [np.empty(0, np.int64)]
    for piece in pieces:
        labels.append(np.empty(piece.n_rows, np.int64))
        moving.take(piece, piece.rows, piece.facts.b_magnitude, rng.permutation(piece.n_rows), labels[-1])
        piece.check_flagged()
    return moving.clusters(np.concatenate(labels))


def _cluster_stored(system, n_clusters, rng, metric, rate) -> Clusters:
    """Do the same for rows that are not in memory: chunk by chunk in order, in random order within a chunk."""
    wanted = min(system.n_rows, sample_size(n_clusters), system.reader.rows_at_once)
    for part in system.parts(system.sample(wanted, rng)[0]):  # there is but one
        b = part.of(system.facts.b_magnitude)
        moving = _CentroidState(system, part.rows, b, part.order, n_clusters, rng, metric, rate)
    labels = np.empty(system.n_rows, np.int64)
    for piece in system.pieces(times_used=1 + moving.k // 8):
        order, b = rng.permutation(piece.n_rows), piece.of(system.facts.b_magnitude)
        moving.take(system, piece.rows, b, order, piece.of(labels))
    return moving.clusters(labels)


def sample_size(n_clusters: int) -> int:
    """Return the number of rows in the sample from which the initial centroids are chosen."""
    return max(2 * n_clusters, min(32 * n_clusters, 1024))


class _CentroidState:
    """The `k` centroids while they are moved; `n_seen` rows have been processed."""

    def __init__(self, system, rows, b, sample, n_clusters, rng, metric, rate):
        self.code, self.rate = METRICS.index(metric), 0.0 if rate == "count" else rate
        self.n_single_rows = 0 if metric in _LENGTH_COUNTS else _ONE_BY_ONE
        if self.rate:  # a constant rate moves the centroids as far at the end as at the start
            self.n_single_rows = system.n_rows
        self.found = empty_centroids(n_clusters, system.n_columns, rows)
        self.k = _seed(system, rows, b, sample, self.code, rng, self.found)
        self.n_seen = 0

    def take(self, system, rows, b, order, labels):  # labels: INOUT
        """Label the rows in `order` and move the centroids."""
        start = self.n_seen
        self.n_seen += order.size
        for first, last in _batches(start, self.n_seen, self.n_single_rows, self.k, system.entries_per_row):
            batch = order[first - start : last - start]
            if last <= self.n_single_rows:
                online_kmeans(
                    rows, b, batch, self.code, self.rate, self.found, self.k, labels, system.counter.flagged_rows
                )
            else:
                _take_batch(system, rows, b, batch, self.code, self.found, self.k, labels)

    def clusters(self, labels) -> Clusters:
        """Return the clusters, without those that have no rows."""
        kept = np.flatnonzero(self.found.n_members[: self.k])
        renumber = np.full(self.k + 1, -1)
        renumber[kept] = np.arange(kept.size)
        scale = self.found.weight[kept]
        return Clusters(renumber[labels], self.found.vector[kept] * scale[:, None], self.found.target[kept] * scale)


def _batches(start, stop, n_single_rows, k, entries_per_row):
    """Split rows `start` to `stop` of the pass into those before `n_single_rows`, and growing batches of the others."""
    least, largest = 1 if n_single_rows else SAMPLE_ROWS_EACH * k, NUMBERS_IN_CACHE / entries_per_row
    while start < stop:
        size = n_single_rows - start if start < n_single_rows else max(least, int(min(start * _SHARE_OF_SEEN, largest)))
        yield start, min(start + size, stop)
        start += size


def _take_batch(system, rows, b, order, code, found, k, labels) -> None:
    """Label the rows in `order`, then move the centroids, on as many threads as that pays for."""
    scales, numbers = np.empty(order.size), order.size * system.entries_per_row
    system.in_slices(
        lambda start, stop, flagged: label_rows(rows, b, order, start, stop, code, found, k, labels, scales, flagged),
        0, order.size, numbers * (1 + k / 12),
    )  # fmt: skip
    n_parts = min(k, system.limits.threads_for(numbers))
    move = partial(move_centroids, rows, b, order, 0, order.size, 0.0, found, labels, scales)
    run_together([partial(move, part, n_parts) for part in range(n_parts)])


def _patterns(system, metric) -> tuple[CSRRows, np.ndarray]:
    """Return the rows as zeros and ones, and the number of ones in each."""
    if not isinstance(system.rows, CSRRows):
        raise ValueError(
            f"`metric={metric!r}` compares the patterns of sparse rows, but `A` is dense. Try 'direction', or pass "
            "`scipy.sparse.csr_array(A)`."
        )
    system.reader.flagged.check_all()  # which cannot be seen from the patterns
    ones = (system.rows.data != 0).astype(float)
    rows = CSRRows(frozen(ones), system.rows.indices, system.rows.indptr)
    counts = np.concatenate([[0.0], np.cumsum(ones)])
    return rows, frozen(counts[rows.indptr[1:]] - counts[rows.indptr[:-1]])


def _seed(system, rows, b, sample, code, rng, found) -> int:
    """Choose the initial centroids among the rows of `sample`; return their number, at least 1."""
    far = np.empty(sample.size)
    distances_to_none(rows, b, sample, code, far, system.counter.flagged_rows)
    system.counter.add(sample.size)
    system.check_flagged()
    least = PARALLEL * far.max()
    tries = 2 + int(math.log(found.target.size))
    work = sample.size * system.entries_per_row * (1 + tries / 12)

    def share(call, n_items):
        system.in_slices(lambda start, stop, _: call(start, stop), 0, n_items, work)

    for group in range(found.target.size):
        if not add_seed(rows, b, sample, code, rng.random(tries), far, least, found, group, share):
            return max(group, 1)  # if all sampled rows are zero, the first nonzero row becomes the centroid
        system.clock.check()
    return found.target.size


def partition_across(clusters: Clusters, rng: np.random.Generator | None) -> tuple[np.ndarray, np.ndarray]:
    """Partition the rows into blocks with one row of each cluster, at random, or in order if `rng` is None.

    Once the smallest cluster is exhausted, blocks have one row of each of the other clusters, and so on down to blocks
    of one row: every nonzero row is in exactly one block.

    Returns
    -------
    members : ndarray
        The indices of the rows, block by block.
    starts : ndarray
        Block ``t`` is ``members[starts[t]:starts[t + 1]]``.
    """
    members, rank = _shuffled(clusters, rng)
    by_rank = np.argsort(rank, kind="stable")  # the t-th rows of all clusters form block t
    n_blocks = int(rank.max(initial=-1)) + 1
    return members[by_rank], np.searchsorted(rank[by_rank], np.arange(n_blocks + 1))


def partition_within(clusters: Clusters, block_size: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Partition the rows into blocks of `block_size` random rows of the same cluster; its last one may be smaller.

    Returns
    -------
    members, starts : ndarray
        As for `partition_across`.
    """
    members, rank = _shuffled(clusters, rng)
    return members, np.append(np.flatnonzero(rank % block_size == 0), members.size)


def _shuffled(clusters: Clusters, rng: np.random.Generator | None) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows cluster by cluster, shuffled within a cluster if `rng` is given, and their ranks in it."""
    none = np.empty(0, np.int64)
    shuffled = [rows if rng is None else rng.permutation(rows) for rows in clusters.members()]
    return np.concatenate([none, *shuffled]), np.concatenate([none, *(np.arange(rows.size) for rows in shuffled)])
