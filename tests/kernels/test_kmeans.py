from __future__ import annotations

import naive
import numpy as np
import pytest
from scipy import sparse

from rowsolve.kernels.kmeans import (
    MetricCode,
    add_seed,
    distances_to_none,
    empty_centroids,
    label_rows,
    move_centroids,
    online_kmeans,
)
from rowsolve.kernels.rows import PARALLEL, frozen
from rowsolve.sources import open_rows

DIRECTION, EUCLIDEAN, JACCARD, HAMMING = (int(code) for code in MetricCode)


def seed_centroids(rows, b, sample, metric, draws, centroids, flagged_rows):
    far = np.empty(sample.size)
    distances_to_none(rows, frozen(b), sample, metric, far, flagged_rows)
    least = PARALLEL * far.max()
    for group, draw in enumerate(draws):
        if not add_seed(rows, frozen(b), sample, metric, np.array([draw, 1.0 - draw]), far, least, centroids, group):
            return group
    return draws.size


def clustered(seed=0, n_rows=60, n_columns=8, k=3):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((k, n_columns))[rng.integers(0, k, n_rows)] + 0.2 * rng.standard_normal((n_rows, n_columns))
    A *= rng.choice([-1.0, 1.0], n_rows)[:, None] * rng.uniform(0.5, 2.0, n_rows)[:, None]
    A[7] = 0.0
    return A, rng.standard_normal(n_rows), rng.permutation(n_rows)


@pytest.mark.parametrize("metric", [DIRECTION, EUCLIDEAN])
@pytest.mark.parametrize("rate", [None, 0.05, 0.9])
def test_online_kmeans__matches_naive(store, metric, rate):
    A, b, order = clustered()
    b[7] = 0.0
    rows, flagged_rows = open_rows(store(A)).rows, np.full(3, -1)
    centroids = empty_centroids(3, 8)
    k = seed_centroids(rows, b, order[:20], metric, np.array([0.1, 0.5, 0.9]), centroids, flagged_rows)
    assert k == 3
    starts = centroids.vector * centroids.weight[:, None]
    start_targets = centroids.target * centroids.weight
    labels = np.empty(60, np.int64)
    args = (metric, rate or 0.0, centroids, 3, labels, flagged_rows)
    online_kmeans(rows, frozen(b), order[:25], *args)
    online_kmeans(rows, frozen(b), order[25:], *args)  # in chunks

    expected, vectors, targets = naive.online_kmeans(A, b, order, starts, by_direction=metric == DIRECTION, rate=rate)
    if rate is not None:  # the naive version starts its targets at zero
        counts = np.bincount(expected[expected >= 0], minlength=3)
        targets = targets + start_targets * (1 - rate) ** counts
    assert labels.tolist() == expected.tolist()
    assert labels[7] == -1
    scale = centroids.weight[:, None]
    np.testing.assert_allclose(centroids.vector * scale, vectors, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(centroids.target * centroids.weight, targets, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("metric", [DIRECTION, EUCLIDEAN])
def test_batches__match_naive_whatever_the_number_of_parts(store, metric):
    A, b, order = clustered(k=5)
    b[7] = 0.0
    rows, flagged_rows = open_rows(store(A)).rows, np.full(3, -1)
    found = []
    for n_parts in (1, 2, 3):
        centroids, labels, scales = empty_centroids(5, 8, rows), np.empty(60, np.int64), np.empty(60)
        assert seed_centroids(rows, b, order[:20], metric, np.linspace(0.1, 0.9, 5), centroids, flagged_rows) == 5
        starts = centroids.vector * centroids.weight[:, None]
        for start, stop in ((0, 10), (10, 33), (33, 60)):
            middle = start + 2 * ((stop - start) // (2 * n_parts))  # after an even number: the same pairs of rows
            for first, last in ((start, middle), (middle, stop)):
                label_rows(rows, frozen(b), order, first, last, metric, centroids, 5, labels, scales, flagged_rows)
            for part in range(n_parts):
                move_centroids(rows, frozen(b), order, start, stop, 0.0, centroids, labels, scales, part, n_parts)
        found.append((labels, *centroids))
    for other in found[1:]:
        for one, two in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(one, two)

    batches = np.split(order, [10, 33])
    expected, vectors, targets = naive.kmeans_in_batches(A, b, batches, starts, by_direction=metric == DIRECTION)
    assert found[0][0].tolist() == expected.tolist()
    np.testing.assert_allclose(centroids.vector * centroids.weight[:, None], vectors, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(centroids.target * centroids.weight, targets, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(centroids.vector_sq, (centroids.vector**2).sum(axis=1), rtol=1e-9)


def test_online_kmeans__a_constant_rate_runs_for_ever():
    A = np.array([[1.0, 0.0], [1.0, 0.1]])
    centroids, flagged_rows = empty_centroids(1, 2), np.full(3, -1)
    rows, order = open_rows(A).rows, np.tile([0, 1], 3000)
    seed_centroids(rows, np.ones(2), np.array([0]), EUCLIDEAN, np.array([0.5]), centroids, flagged_rows)
    online_kmeans(rows, frozen(np.ones(2)), order, EUCLIDEAN, 0.5, centroids, 1, np.empty(2, np.int64), flagged_rows)
    vector = centroids.vector[0] * centroids.weight[0]
    np.testing.assert_allclose(vector, [1.0, 0.1 * 2 / 3], rtol=1e-10)
    assert centroids.target[0] * centroids.weight[0] == pytest.approx(1.0)


def test_seeds__are_as_many_as_there_are_different_directions():
    A = np.array([[1.0, 0.0], [-2.0, 0.0], [0.0, 1.0], [0.0, 3.0], [0.0, 0.0]])
    rows = open_rows(A).rows
    for metric, n_different in ((DIRECTION, 2), (EUCLIDEAN, 4)):
        centroids, flagged_rows = empty_centroids(5, 2), np.full(3, -1)
        draws = np.linspace(0.05, 0.95, 5)
        assert seed_centroids(rows, np.ones(5), np.arange(5), metric, draws, centroids, flagged_rows) == n_different
    zero = open_rows(np.zeros((3, 2))).rows
    assert (
        seed_centroids(zero, np.zeros(3), np.arange(3), DIRECTION, np.ones(2) / 2, empty_centroids(2, 2), flagged_rows)
        == 0
    )


@pytest.mark.parametrize("scale", [1e-150, 1e150])
@pytest.mark.parametrize("metric", [DIRECTION, EUCLIDEAN])
def test_online_kmeans__scale_does_not_matter(scale, metric):
    A, b, order = clustered()
    labels, flagged_rows = np.empty((2, 60), np.int64), np.full(3, -1)
    for found, factor in zip(labels, (1.0, scale), strict=True):
        rows, centroids = open_rows(A * factor).rows, empty_centroids(3, 8)
        seed_centroids(rows, b, order[:20], metric, np.array([0.1, 0.5, 0.9]), centroids, flagged_rows)
        online_kmeans(rows, frozen(b), order, metric, 0.0, centroids, 3, found, flagged_rows)
        assert np.isfinite(centroids.vector).all()
    assert labels[0].tolist() == labels[1].tolist()


@pytest.mark.parametrize("metric", [JACCARD, HAMMING])
def test_online_kmeans__by_pattern_matches_naive(metric):
    rng = np.random.default_rng(3)
    A = (rng.random((50, 41)) < 0.4).astype(float)  # wide enough that no two distances are equal
    A[4] = 0.0
    counts, order = A.sum(axis=1), rng.permutation(50)
    rows, flagged_rows, centroids = open_rows(sparse.csr_array(A)).rows, np.full(3, -1), empty_centroids(3, 41)
    seed_centroids(rows, counts, order[:20], metric, np.array([0.2, 0.5, 0.8]), centroids, flagged_rows)
    starts, labels = centroids.vector.copy(), np.empty(50, np.int64)
    online_kmeans(rows, counts, order, metric, 0.0, centroids, 3, labels, flagged_rows)
    name = {JACCARD: "jaccard", HAMMING: "hamming"}[metric]
    expected, vectors = naive.online_kmeans_by_pattern(A, order, starts, name)
    assert labels.tolist() == expected.tolist()
    np.testing.assert_allclose(centroids.vector * centroids.weight[:, None], vectors, rtol=1e-10)
