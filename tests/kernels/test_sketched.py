from __future__ import annotations

from itertools import pairwise

import naive
import numpy as np
import pytest

from rowsolve.kernels.rows import frozen
from rowsolve.kernels.sampling import Deck, draw_one, fill_alias_table
from rowsolve.kernels.sketched import Position, Sketch, greedy_sweep, sketch_rows
from rowsolve.sources import open_rows


@pytest.fixture
def problem():
    rng = np.random.default_rng(0)
    A, x_true = rng.standard_normal((24, 8)), rng.standard_normal(8)
    phi, centroids = rng.standard_normal((3, 8)), rng.standard_normal((2, 8))
    return A, A @ x_true, x_true, phi, centroids, rng


def empty_sketch(n, size, k):
    return Sketch(np.zeros((n, size)), np.zeros(n), np.zeros(n), np.zeros(n), np.zeros((n, k)))


def test_sketch__matches_naive(store, problem):
    A, b, _, phi, centroids, _ = problem
    sketch = empty_sketch(24, 3, 2)
    rows = open_rows(store(A)).rows
    sketch_rows(rows, frozen(b), 0, 10, phi, centroids, sketch, np.full(3, -1))
    sketch_rows(rows, frozen(b), 10, 24, phi, centroids, sketch, np.full(3, -1))
    for found, expected in zip(sketch, naive.sketch(A, b, phi, centroids), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("n_candidates", [5, 100])
@pytest.mark.parametrize("n_groups", [1, 2])
def test_greedy_sweep__matches_naive(problem, n_candidates, n_groups):
    A, b, x_true, phi, centroids, rng = problem
    centroids = centroids[:n_groups]
    targets, norms = centroids @ x_true, np.linalg.norm(centroids, axis=1)
    sketch = empty_sketch(24, 3, n_groups)
    rows = open_rows(A).rows
    sketch_rows(rows, frozen(b), 0, 24, phi, centroids, sketch, np.full(3, -1))
    groups = np.split(rng.permutation(24), [10][: n_groups - 1])
    deck = Deck(np.concatenate(groups), np.cumsum([0, *map(len, groups)]), np.empty(24), np.empty(24, np.int64))
    for start, stop in pairwise(deck.starts):
        weights = sketch.norms_sq[deck.members[start:stop]]
        fill_alias_table(weights, deck.keep[start:stop], deck.other[start:stop])
    iterates = rng.standard_normal((2, 8))
    expected = iterates.copy()
    position = Position(phi @ iterates[0], (targets - centroids @ iterates[0]) / norms, norms)
    visited, drops = np.empty(40, np.int64), np.empty(2)
    greedy_sweep(
        rows, frozen(b), sketch, deck, n_candidates, position, iterates, np.random.default_rng(5), drops, visited
    )

    alpha, draws, expected_drops = A @ phi.T, np.random.default_rng(5), np.zeros(2)
    for step in range(20):
        group = int(np.argmax(np.abs(targets - centroids @ expected[0]) / norms))
        first = draw_one(deck, group, draws)
        members = groups[group]
        candidates = members
        if len(members) > n_candidates:
            candidates = np.array([first] + [draw_one(deck, group, draws) for _ in range(n_candidates - 1)])
        best = naive.furthest_candidate(alpha, b, phi @ expected[0], candidates)
        assert visited[2 * step : 2 * step + 2].tolist() == [best, first]
        distance = np.abs(b - A @ expected[0]) / np.linalg.norm(A, axis=1)
        naive.project(A, b, first if distance[first] > distance[best] else best, expected, expected_drops)
    np.testing.assert_allclose(iterates, expected, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(drops, expected_drops, rtol=1e-9)
    np.testing.assert_allclose(position.sketched, phi @ expected[0], rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(position.centroid_gaps, (targets - centroids @ expected[0]) / norms, atol=1e-10)


def test_greedy_sweep__draws_candidates_by_squared_norm():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((6, 4)) * np.array([0.5, 1, 1, 2, 2, 3])[:, None]
    sketch, rows = empty_sketch(6, 2, 0), open_rows(A).rows
    sketch_rows(rows, frozen(np.zeros(6)), 0, 6, rng.standard_normal((2, 4)), np.zeros((0, 4)), sketch, np.full(3, -1))
    deck = Deck(np.arange(6), np.array([0, 6]), np.empty(6), np.empty(6, np.int64))
    fill_alias_table(sketch.norms_sq, deck.keep, deck.other)
    position = Position(np.zeros(2), np.zeros(0), np.zeros(0))  # all distances are 0: the first candidate is taken
    visited = np.empty(8000, np.int64)
    greedy_sweep(rows, frozen(np.zeros(6)), sketch, deck, 2, position, np.zeros((1, 4)), rng, np.empty(1), visited)
    assert visited[::2].tolist() == visited[1::2].tolist()
    expected = 4000 * sketch.norms_sq / sketch.norms_sq.sum()
    assert ((np.bincount(visited[::2], minlength=6) - expected) ** 2 / expected).sum() < 20.5  # 1 in 1000
