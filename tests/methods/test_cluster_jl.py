from __future__ import annotations

import naive
import numpy as np
import pytest
from bursts import burst_of
from conftest import check_solution, gaussian

import rowsolve
from rowsolve import ClusterJL


def test_step__is_on_a_row_of_the_cluster_whose_centroid_equation_is_furthest():
    rng, truth = np.random.default_rng(0), np.repeat(np.arange(4), 30)
    A = rng.standard_normal((4, 10))[truth] + 0.05 * rng.standard_normal((120, 10))
    b = A @ rng.standard_normal(10)
    burst = burst_of(ClusterJL(4, sketch_size=6, n_candidates=50), A, b, 2)
    (centroids, targets), deck = burst.plan.equations, burst.plan.deck
    x, phi, (best, first) = burst.start[0], burst.plan.phi, burst.order
    furthest = int(np.argmax(np.abs(targets - centroids @ x) / np.linalg.norm(centroids, axis=1)))
    group = deck.members[deck.starts[furthest] : deck.starts[furthest + 1]]
    assert len(set(truth[group])) == 1
    assert group.size == 30
    assert first in group
    assert best == naive.furthest_candidate(A @ phi.T, b, phi @ x, group)
    distances = np.abs(b - A @ x) / np.linalg.norm(A, axis=1)
    expected, drops = burst.start.copy(), np.zeros(2)
    naive.project(A, b, best if distances[best] >= distances[first] else first, expected, drops)
    np.testing.assert_allclose(burst.iterates, expected, rtol=1e-9)
    np.testing.assert_allclose(burst.drops, drops, rtol=1e-9)


@pytest.mark.parametrize(
    "method",
    [ClusterJL(n_clusters=1), ClusterJL(n_clusters=9, sketch_size=3, n_candidates=4, metric="euclidean")],
    ids=repr,
)
def test_parameters__all_lead_to_the_solution(method):
    check_solution(method)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ClusterJL(metric="jaccard"), "`metric` must be one of 'direction', 'euclidean', got 'jaccard'"),
        (lambda: ClusterJL(n_candidates=True), "`n_candidates` must be an integer"),
        (
            lambda: rowsolve.solve(*gaussian(30, 4)[:2], ClusterJL(31)),
            "`n_clusters` must be at most the number of rows, 30, got 31",
        ),
    ],
)
def test_parameters__that_are_invalid_raise_an_error(make, words):
    with pytest.raises(ValueError, match=words):
        make()
