"""Online k-means by direction: one pass over the rows in random order."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Literal

import numpy as np

from rowsolve.kernels.kmeans import (
    DIRECTION,
    EUCLIDEAN,
    HAMMING,
    JACCARD,
    SAME,
    add_seed,
    distances_to_none,
    empty_centroids,
    label_rows,
    move_centroids,
    online_kmeans,
)
from rowsolve.kernels.rows import CSRRows, frozen
from rowsolve.kernels.sampling import deal, new_cards
from rowsolve.parallel.pool import run_together
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
_CODES = {"direction": DIRECTION, "euclidean": EUCLIDEAN, "jaccard": JACCARD, "hamming": HAMMING}
METRICS = tuple(_CODES)
EQUATION_METRICS = ("direction", "euclidean")  # those whose centroids are equations

_ONE_BY_ONE = 512  # rows before the first batch: at the start every row moves its centroid far
_SHARE_OF_SEEN = 1 / 16  # a batch, in the rows seen before it: so little does it move the centroids
_NUMBERS_OF_A_BATCH = 1_000_000  # at most, so that its rows are still in the cache when the centroids move
# The mean of many rows is shorter than a row and so, by these metrics, nearer to every other: taken one by one, nearly
# all rows end up with the centroid that got the first few. Batches of this many rows a cluster give each its share.
_LENGTH_COUNTS = ("euclidean", "jaccard")
_ROWS_A_CLUSTER = 16


@dataclass(frozen=True)
class Clusters:
    """Labels of the rows, and the centroid equations.

    Attributes
    ----------
    labels : ndarray of shape (n,)
        The cluster of each row; -1 for a row of zeros.
    centroids : ndarray of shape (k, p)
    targets : ndarray of shape (k,)
        The centroid is a mean of (signed, normalised) rows and its target the same mean of their b:
        ``<centroids[l], x> = targets[l]`` holds for the solution of a consistent system. (By pattern, a centroid
        is a mean of zeros and ones, and its target the mean of their number.)
    """

    labels: np.ndarray
    centroids: np.ndarray
    targets: np.ndarray

    @property
    def n_clusters(self) -> int:
        """How many clusters have rows."""
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
    """Cluster the rows of `system` by online k-means: a k-means++ start on a sample, then one pass.

    A hyperplane is ``+-a / norm(a)``, so by default rows are compared by the absolute cosine and their sign
    is turned towards the centroid; ``metric="euclidean"`` is the paper to the letter. ``"jaccard"`` and
    ``"hamming"`` compare the patterns of sparse rows: which columns they touch. The nearest centroid
    moves by ``rate * (row - centroid)``, ``rate="count"`` being one over the rows it has got so far.
    Fewer clusters than asked come back when there are not as many different rows.

    With ``rate="count"``, all rows of a batch are compared with the centroids as they were when it began, which then
    move: several rows are compared at once, on several threads, with the same bits for any number of threads.
    A batch has a sixteenth of the rows seen before it. By direction and Hamming distance the first 512 rows
    are taken one by one; otherwise a batch has at least 16 rows for each cluster (see `_LENGTH_COUNTS`).

    Reads the n rows, and before them a sample of ``32 k`` (no more than 1024, no fewer than ``2 k``) for the start.
    """
    if n_clusters > system.n_rows:
        raise ValueError(
            f"`n_clusters` must be at most the number of rows, {system.n_rows}, got {n_clusters}: "
            f"choose fewer clusters."
        )
    if system.stored:
        return _cluster_stored(system, n_clusters, rng, metric, rate)
    rows, b = (system.rows, system.facts.largest_b) if metric in EQUATION_METRICS else _patterns(system, metric)
    cards = new_cards(system.n_rows)
    sample = np.empty(min(system.n_rows, sample_size(n_clusters)), np.int64)
    deal(cards, 0, rng.random(sample.size), sample)
    moving = _Moving(system, rows, b, sample, n_clusters, rng, metric, rate)
    labels = np.empty(system.n_rows, np.int64)
    for piece in system.pieces(times_used=1 + moving.k // 8):  # several products for each number that is loaded
        order = np.empty(piece.n_rows, np.int64)
        deal(cards, piece.start, rng.random(order.size), order)
        moving.take(system, rows, b, order, labels)
    return moving.clusters(labels)


def cluster_stream(sample: System, pieces: Iterable[System], n_clusters: int, rng: np.random.Generator) -> Clusters:
    """Cluster rows by direction as `cluster_rows` does, when they come in `pieces`, one after another.

    The start is found among the rows of `sample`; the order is random only within a piece.
    """
    rows, b = sample.rows, sample.facts.largest_b
    moving = _Moving(sample, rows, b, np.arange(sample.n_rows), n_clusters, rng, "direction", "count")
    labels = [np.empty(0, np.int64)]
    for piece in pieces:
        labels.append(np.empty(piece.n_rows, np.int64))
        moving.take(piece, piece.rows, piece.facts.largest_b, rng.permutation(piece.n_rows), labels[-1])
        piece.look_at_odd_rows()
    return moving.clusters(np.concatenate(labels))


def _cluster_stored(system, n_clusters, rng, metric, rate) -> Clusters:
    """Do it for rows that are not in memory: a chunk at a time, in their order, at random within each."""
    wanted = min(system.n_rows, sample_size(n_clusters), system.rows_at_once)
    for part in system.parts(system.sample(wanted, rng)[0]):  # there is but one
        b = part.of(system.facts.largest_b)
        moving = _Moving(system, part.rows, b, part.order, n_clusters, rng, metric, rate)
    labels = np.empty(system.n_rows, np.int64)
    for piece in system.pieces(times_used=1 + moving.k // 8):
        order, b = rng.permutation(piece.n_rows), piece.of(system.facts.largest_b)
        moving.take(system, piece.rows, b, order, piece.of(labels))
    return moving.clusters(labels)


def sample_size(n_clusters: int) -> int:
    """Return how many rows are looked at for a start."""
    return max(2 * n_clusters, min(32 * n_clusters, 1024))


class _Moving:
    """Centroids that move as rows come: `k` of them, after the first `n_seen` rows."""

    def __init__(self, system, rows, b, sample, n_clusters, rng, metric, rate):
        self.code, self.pace = _CODES[metric], 0.0 if rate == "count" else rate
        self.alone = 0 if metric in _LENGTH_COUNTS else _ONE_BY_ONE
        if self.pace:  # a constant rate moves the centroids as far at the end as at the start
            self.alone = system.n_rows
        self.found = empty_centroids(n_clusters, system.n_columns, rows)
        self.k = _seed(system, rows, b, sample, self.code, rng, self.found)
        self.n_seen = 0

    def take(self, system, rows, b, order, labels):  # labels: INOUT
        """Label the rows in `order`, moving the centroids on the way."""
        start = self.n_seen
        self.n_seen += order.size
        for first, last in _batches(start, self.n_seen, self.alone, self.k, system.entries_per_row):
            batch = order[first - start : last - start]
            if last <= self.alone:
                online_kmeans(rows, b, batch, self.code, self.pace, self.found, self.k, labels, system.counter.odd)
            else:
                _take_batch(system, rows, b, batch, self.code, self.found, self.k, labels)

    def clusters(self, labels) -> Clusters:
        """Return the clusters that have rows."""
        kept = np.flatnonzero(self.found.n_members[: self.k])
        renumber = np.full(self.k + 1, -1)
        renumber[kept] = np.arange(kept.size)
        scale = self.found.weight[kept]
        return Clusters(renumber[labels], self.found.vector[kept] * scale[:, None], self.found.target[kept] * scale)


def _batches(start, stop, alone, k, entries_per_row):
    """Cut the rows from `start` to `stop` of the pass into those up to `alone`, and growing batches of the others."""
    least, largest = 1 if alone else _ROWS_A_CLUSTER * k, _NUMBERS_OF_A_BATCH / entries_per_row
    while start < stop:
        size = alone - start if start < alone else max(least, int(min(start * _SHARE_OF_SEEN, largest)))
        yield start, min(start + size, stop)
        start += size


def _take_batch(system, rows, b, order, code, found, k, labels) -> None:
    """Label the rows in `order`, then move the centroids, on as many threads as it is worth."""
    scales, numbers = np.empty(order.size), order.size * system.entries_per_row
    system.in_slices(
        lambda start, stop, odd: label_rows(rows, b, order, start, stop, code, found, k, labels, scales, odd),
        0, order.size, numbers * (1 + k / 12),
    )  # fmt: skip
    n_parts = min(k, system.threads_for(numbers))
    move = partial(move_centroids, rows, b, order, 0, order.size, 0.0, found, labels, scales)
    run_together([partial(move, part, n_parts) for part in range(n_parts)])


def _patterns(system, metric) -> tuple[CSRRows, np.ndarray]:
    """Return the rows as zeros and ones, and how many ones each has."""
    if not isinstance(system.rows, CSRRows):
        raise ValueError(
            f"`metric={metric!r}` compares the patterns of sparse rows, but `A` is dense: use 'direction', or pass "
            "`scipy.sparse.csr_array(A)`."
        )
    system.make_sure_finite()  # a pattern does not show it
    ones = (system.rows.data != 0).astype(float)
    rows = CSRRows(frozen(ones), system.rows.indices, system.rows.indptr)
    counts = np.concatenate([[0.0], np.cumsum(ones)])
    return rows, frozen(counts[rows.indptr[1:]] - counts[rows.indptr[:-1]])


def _seed(system, rows, b, sample, code, rng, found) -> int:
    """Choose starting centroids among the rows of `sample`; return how many, at least 1."""
    far = np.empty(sample.size)
    distances_to_none(rows, b, sample, code, far, system.counter.odd)
    system.counter.add(sample.size)
    system.look_at_odd_rows()
    least = SAME * far.max()
    tries = 2 + int(math.log(found.target.size))
    work = sample.size * system.entries_per_row * (1 + tries / 12)

    def share(call, n_items):
        system.in_slices(lambda start, stop, _: call(start, stop), 0, n_items, work)

    for group in range(found.target.size):
        if not add_seed(rows, b, sample, code, rng.random(tries), far, least, found, group, share):
            return max(group, 1)  # a sample of zero rows: the first other row becomes the centroid
        system.clock.check()
    return found.target.size


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
