"""Online k-means (King 2012) over rows, in O(k) dot products a row.

A centroid is stored as ``weight * vector`` with its squared norm, so that moving it towards a row touches
only the row's entries. By direction, the row ``a`` acts as ``sign * a / norm(a)``, its sign turned towards
the centroid, because ``a`` and ``-a`` are the same hyperplane; by Euclidean distance it acts as it is. By pattern
(Jaccard, Hamming) rows are given as zeros and ones, with their number of ones in the place of b.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rowsolve._jit import kernel
from rowsolve.kernels.rows import add_row, row_dot, row_norm_sq, usable_norm_sq

EUCLIDEAN, DIRECTION, JACCARD, HAMMING = 0, 1, 2, 3  # how rows are compared
SAME = 1e-12  # squared sine, or relative squared distance, below which two rows are the same
_SMALL, _LARGE = 1e-100, 1e280  # a constant rate shrinks `weight` without end: rescale outside this range


class Centroids(NamedTuple):
    """``k`` centroids, each ``weight * vector`` with the right-hand side ``weight * target``."""

    vector: np.ndarray
    target: np.ndarray
    weight: np.ndarray
    vector_sq: np.ndarray  # norm(vector)**2
    n_members: np.ndarray


def empty_centroids(k: int, n_columns: int) -> Centroids:
    """Return room for `k` centroids."""
    return Centroids(np.zeros((k, n_columns)), np.zeros(k), np.ones(k), np.zeros(k), np.zeros(k, np.int64))


@kernel
def _likeness(rows, i, norm_sq, metric, centroids, group):
    """Return the likeness of row ``i`` to a centroid (larger is closer) and the sign to take it with.

    For zeros and ones against a mean c of such, the Hamming distance is ``sum(a) + sum(c) - 2 <a, c>``, and the
    Jaccard likeness is continued to ``<a, c> / (<a, a> + <c, c> - <a, c>)``.
    """
    dot = row_dot(rows, i, centroids.vector[group])
    vector_sq = centroids.vector_sq[group]
    if metric == DIRECTION:
        if vector_sq == 0.0:
            return 0.0, 1.0
        cosine = dot / np.sqrt(norm_sq) / np.sqrt(vector_sq)
        return abs(cosine), 1.0 if cosine >= 0.0 else -1.0
    weight = centroids.weight[group]
    dot *= weight
    if metric == EUCLIDEAN:
        return 2.0 * dot - weight * weight * vector_sq, 1.0
    if metric == HAMMING:
        return 2.0 * dot - weight * centroids.target[group], 1.0
    return dot / (norm_sq + weight * weight * vector_sq - dot), 1.0


@kernel
def _pull(rows, b, i, scaled, rate, centroids, group):
    """Move a centroid equation by ``rate`` towards ``scaled`` times equation ``i``."""
    if rate >= 1.0:
        centroids.vector[group, :] = 0.0
        centroids.target[group] = 0.0
        centroids.vector_sq[group] = 0.0
        centroids.weight[group] = 1.0
        push = scaled
    else:
        centroids.weight[group] *= 1.0 - rate
        push = scaled * rate / centroids.weight[group]
    dot = row_dot(rows, i, centroids.vector[group])
    add_row(rows, i, push, centroids.vector[group])
    centroids.target[group] += push * b[i]
    centroids.vector_sq[group] += push * (2.0 * dot + push * row_norm_sq(rows, i))
    if centroids.weight[group] < _SMALL or centroids.vector_sq[group] > _LARGE:
        centroids.vector[group] *= centroids.weight[group]
        centroids.target[group] *= centroids.weight[group]
        centroids.vector_sq[group] *= centroids.weight[group] ** 2
        centroids.weight[group] = 1.0


@kernel
def distances_to_none(rows, b, sample, metric, far, odd):  # far, odd: INOUT
    """Fill `far` for the rows in `sample` before there is a centroid: 1, or the squared norm; 0 for a zero row."""
    for t in range(sample.size):
        norm_sq = usable_norm_sq(rows, b, sample[t], odd)
        far[t] = 1.0 if norm_sq > 0.0 and metric in (DIRECTION, JACCARD) else norm_sq


@kernel
def add_seed(rows, b, sample, metric, draws, far, least, centroids, group):  # far, centroids: INOUT
    """Make a row of `sample` the next centroid by k-means++; return False if none is different from those so far.

    `far` holds the squared sine or distance of each row to its nearest centroid; below `least`, rows are the same.
    A candidate is drawn by it for each uniform number in `draws`, and the one that leaves the least of it is
    taken: a single draw misses a whole cluster now and then.
    """
    best, least_left = -1, np.inf
    for draw in draws:
        chosen = _weighted_pick(far, draw * far.sum())
        if far[chosen] > least:
            _start_at(rows, b, sample[chosen], metric, centroids, group)
            left = 0.0
            for t in range(sample.size):
                left += _distance_with(rows, sample[t], far[t], metric, centroids, group)
            if left < least_left:
                best, least_left = chosen, left
    if best < 0:
        return False
    _start_at(rows, b, sample[best], metric, centroids, group)
    for t in range(sample.size):
        far[t] = _distance_with(rows, sample[t], far[t], metric, centroids, group)
    return True


@kernel
def _start_at(rows, b, i, metric, centroids, group):
    unit = 1.0 / np.sqrt(row_norm_sq(rows, i))
    _pull(rows, b, i, unit if metric == DIRECTION else 1.0, 1.0, centroids, group)


@kernel
def _distance_with(rows, i, far, metric, centroids, group):
    """Return the distance of row ``i`` to its nearest centroid, which was `far`, with one more."""
    if far == 0.0:
        return 0.0
    norm_sq = row_norm_sq(rows, i)
    like, _ = _likeness(rows, i, norm_sq, metric, centroids, group)
    now = norm_sq - like
    if metric == DIRECTION:
        now = 1.0 - like * like
    elif metric == JACCARD:
        now = 1.0 - like
    return min(far, max(0.0, now))


@kernel
def _weighted_pick(weights, level):
    """Return the first place at which the running sum of `weights` exceeds `level`."""
    best = 0
    for t in range(weights.size):
        if weights[t] > 0.0:
            best = t
            level -= weights[t]
            if level < 0.0:
                break
    return best


@kernel
def online_kmeans(rows, b, order, metric, rate, centroids, k, labels, odd):  # centroids, labels, odd: INOUT
    """Visit the rows in `order` once: label each with its nearest centroid, which moves towards it.

    `rate` 0 stands for ``1 / count``. Zero rows get label -1.
    """
    for i in order:
        norm_sq = usable_norm_sq(rows, b, i, odd)
        labels[i] = -1
        if norm_sq == 0.0:
            continue
        nearest, best, sign = 0, -np.inf, 1.0
        for group in range(k):
            like, turned = _likeness(rows, i, norm_sq, metric, centroids, group)
            if like > best:
                nearest, best, sign = group, like, turned
        labels[i] = nearest
        centroids.n_members[nearest] += 1
        pull = 1.0 / centroids.n_members[nearest] if rate == 0.0 else rate
        scaled = sign / np.sqrt(norm_sq) if metric == DIRECTION else 1.0
        _pull(rows, b, i, scaled, pull, centroids, nearest)
