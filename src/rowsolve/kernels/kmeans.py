"""Online k-means (King 2012) of rows, with O(k) inner products per row.

A centroid is stored as ``weight * vector``, with its squared norm, so that moving it towards a row changes only the
nonzero entries of that row. By direction, a row ``a`` is replaced by ``sign * a / norm(a)``, where the sign is that of
its product with the centroid, because ``a`` and ``-a`` define the same hyperplane; by Euclidean distance it is used as
it is. By pattern (Jaccard, Hamming), rows consist of zeros and ones, and their number of ones takes the place of b.

A batch of rows is processed in two steps, which can be distributed over threads: `label_rows` compares the rows with
fixed centroids, `move_centroids` moves these towards the rows, in the order of the rows.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np

from rowsolve.compiled.jit import kernel
from rowsolve.kernels.rows import (
    ROWS_AT_ONCE,
    add_and_measure_row,
    row_norm_sq,
    row_products,
    usable_norm_sq,
    zeros_for_vectors,
)

IN_RANGE = 1e100  # a constant rate decreases `weight` without bound: rescale before a norm exceeds this


class MetricCode(IntEnum):
    """How rows are compared; kernels get its value, since each enumeration is a type of its own."""

    DIRECTION = 0
    EUCLIDEAN = 1
    JACCARD = 2
    HAMMING = 3


class Centroids(NamedTuple):
    """``k`` centroids, each ``weight * vector`` with the right-hand side ``weight * target``."""

    vector: np.ndarray
    target: np.ndarray
    weight: np.ndarray
    vector_sq: np.ndarray  # norm(vector)**2
    n_members: np.ndarray


def empty_centroids(k: int, n_columns: int, rows: Any = None) -> Centroids:
    """Return arrays for `k` centroids, in the memory layout for this type of `rows` if given."""
    return Centroids(zeros_for_vectors(rows, k, n_columns), np.zeros(k), np.ones(k), np.zeros(k), np.zeros(k, np.int64))


@kernel
def _similarity(dot, norm_sq, metric, centroids, group):
    """Return the similarity of a row and a centroid (larger is closer) and the sign with which to use the row.

    `dot` is the product of the row with the vector of the centroid, `norm_sq` the squared norm of the row. For a vector
    a of zeros and ones and a mean c of such vectors, the Hamming distance is ``sum(a) + sum(c) - 2 <a, c>``, and the
    Jaccard similarity is generalized to ``<a, c> / (<a, a> + <c, c> - <a, c>)``.
    """
    vector_sq = centroids.vector_sq[group]
    if metric == MetricCode.DIRECTION:
        if vector_sq == 0.0:
            return 0.0, 1.0
        cosine = dot / np.sqrt(norm_sq) / np.sqrt(vector_sq)
        return abs(cosine), 1.0 if cosine >= 0.0 else -1.0
    weight = centroids.weight[group]
    dot *= weight
    if metric == MetricCode.EUCLIDEAN:
        return 2.0 * dot - weight * weight * vector_sq, 1.0
    if metric == MetricCode.HAMMING:
        return 2.0 * dot - weight * centroids.target[group], 1.0
    return dot / (norm_sq + weight * weight * vector_sq - dot), 1.0


@kernel
def _move_towards(rows, b, i, scaled, rate, centroids, group):
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
    norm_sq, dot = add_and_measure_row(rows, i, push, centroids.vector[group])
    centroids.target[group] += push * b[i]
    centroids.vector_sq[group] += push * (2.0 * dot + push * norm_sq)
    if centroids.weight[group] < 1.0 / IN_RANGE or centroids.vector_sq[group] > IN_RANGE**2:
        centroids.vector[group] *= centroids.weight[group]
        centroids.target[group] *= centroids.weight[group]
        centroids.vector_sq[group] *= centroids.weight[group] ** 2
        centroids.weight[group] = 1.0


@kernel
def distances_to_none(rows, b, sample, metric, far, flagged_rows):  # far, flagged_rows: INOUT
    """Fill `far` for the rows in `sample` without any centroid: with 1 or the squared norm, or 0 for a zero row."""
    for t in range(sample.size):
        norm_sq = usable_norm_sq(rows, b, sample[t], flagged_rows)
        far[t] = 1.0 if norm_sq > 0.0 and metric in (MetricCode.DIRECTION, MetricCode.JACCARD) else norm_sq


def _in_one_call(call: Callable[[int, int], None], n_items: int) -> None:
    call(0, n_items)


def add_seed(rows, b, sample, metric, draws, far, least, centroids, group, share=_in_one_call):
    """Choose a row of `sample` as the next centroid by k-means++; return False if all rows equal previous centroids.

    `far` is the squared sine of the angle, or the squared distance, between each row and its nearest centroid; below
    `least` they are considered equal. For each uniform number in `draws`, a candidate is drawn with probability
    proportional to `far`, and the one that minimises the sum of `far` is chosen, because a single draw sometimes misses
    a whole cluster. ``share(call, n)`` may distribute ``call(0, n)`` over threads.
    """
    running = np.cumsum(far)
    chosen = np.minimum(np.searchsorted(running, draws * running[-1], side="right"), far.size - 1)
    chosen = chosen[far[chosen] > least]
    if not chosen.size:
        return False
    candidates = empty_centroids(chosen.size, centroids.vector.shape[1], rows)
    for c, t in enumerate(chosen):
        start_at(rows, b, sample[t], metric, candidates, c)
    left = np.empty((sample.size, chosen.size))
    share(lambda start, stop: distances_with(rows, sample, start, stop, metric, candidates, far, left), sample.size)
    best = int(np.argmin(left.sum(axis=0)))
    start_at(rows, b, sample[chosen[best]], metric, centroids, group)
    far[:] = left[:, best]
    return True


@kernel
def start_at(rows, b, i, metric, centroids, group):  # centroids: INOUT
    """Set a centroid to row ``i``."""
    unit = 1.0 / np.sqrt(row_norm_sq(rows, i))
    _move_towards(rows, b, i, unit if metric == MetricCode.DIRECTION else 1.0, 1.0, centroids, group)


@kernel
def distances_with(rows, sample, start, stop, metric, candidates, far, left):  # left: INOUT
    """Fill ``left[t, c]`` with the distance of row ``sample[t]`` to its nearest centroid if candidate c is added."""
    for first in range(start, stop, ROWS_AT_ONCE):
        last = min(first + ROWS_AT_ONCE, stop)
        row_products(rows, sample, first, last, candidates.vector, left[first:last])
        for t in range(first, last):
            norm_sq = row_norm_sq(rows, sample[t]) if far[t] > 0.0 else 0.0
            for c in range(left.shape[1]):
                left[t, c] = _distance_with(left[t, c], norm_sq, far[t], metric, candidates, c)


@kernel
def _distance_with(dot, norm_sq, far, metric, centroids, group):
    if far == 0.0:
        return 0.0
    similarity, _ = _similarity(dot, norm_sq, metric, centroids, group)
    now = norm_sq - similarity
    if metric == MetricCode.DIRECTION:
        now = 1.0 - similarity * similarity
    elif metric == MetricCode.JACCARD:
        now = 1.0 - similarity
    return min(far, max(0.0, now))


@kernel
def label_rows(
    rows, b, order, start, stop, metric, centroids, k, labels, scales, flagged_rows
):  # the last three: INOUT
    """Label the rows ``order[start:stop]`` with the nearest of the first `k` centroids; zero rows with -1.

    ``scales[t]`` is the factor of row ``order[t]`` when a centroid is moved towards it.
    """
    dots = np.empty((min(ROWS_AT_ONCE, stop - start), centroids.target.size))
    for first in range(start, stop, ROWS_AT_ONCE):
        last = min(first + ROWS_AT_ONCE, stop)
        row_products(rows, order, first, last, centroids.vector, dots)
        for t in range(first, last):
            i = order[t]
            norm_sq = usable_norm_sq(rows, b, i, flagged_rows)
            labels[i] = -1
            if norm_sq > 0.0:
                labels[i], sign = _nearest(dots[t - first], norm_sq, metric, centroids, k)
                scales[t] = sign / np.sqrt(norm_sq) if metric == MetricCode.DIRECTION else 1.0


@kernel
def _nearest(dots, norm_sq, metric, centroids, k):
    nearest, best, sign = 0, -np.inf, 1.0
    for group in range(k):
        similarity, turned = _similarity(dots[group], norm_sq, metric, centroids, group)
        if similarity > best:
            nearest, best, sign = group, similarity, turned
    return nearest, sign


@kernel
def move_centroids(rows, b, order, start, stop, rate, centroids, labels, scales, part, n_parts):  # centroids: INOUT
    """Move each centroid towards the rows in ``order[start:stop]`` that have its label, one after another.

    A `rate` of 0 means ``1 / count``. This call moves every `n_parts`-th centroid, from `part` on. Each centroid is
    moved by one thread in the order of its rows, so the result is bitwise independent of the number of threads.
    """
    for t in range(start, stop):
        group = labels[order[t]]
        if group >= 0 and group % n_parts == part:
            centroids.n_members[group] += 1
            pull = 1.0 / centroids.n_members[group] if rate == 0.0 else rate
            _move_towards(rows, b, order[t], scales[t], pull, centroids, group)


@kernel
def online_kmeans(
    rows, b, order, metric, rate, centroids, k, labels, flagged_rows
):  # centroids, labels, flagged_rows: INOUT
    """Process the rows in `order` one by one: label each with its nearest centroid, which is then moved towards it."""
    scales, part, n_parts = np.empty(order.size), np.int64(0), np.int64(1)  # literals would be compiled separately
    for t in range(order.size):
        label_rows(rows, b, order, t, t + 1, metric, centroids, k, labels, scales, flagged_rows)
        move_centroids(rows, b, order, t, t + 1, rate, centroids, labels, scales, part, n_parts)
