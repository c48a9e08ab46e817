from __future__ import annotations

import naive
import numpy as np
import pytest

from rowsolve.kernels.greedy import project_on_furthest
from rowsolve.kernels.rows import frozen
from rowsolve.kernels.sweep import sweep
from rowsolve.sources import open_rows


def system(seed=0, n_rows=40, n_columns=13):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((n_rows, n_columns)) * (rng.random((n_rows, n_columns)) < 0.7)
    A[4] = 0.0
    return A, rng.standard_normal(n_rows), rng.standard_normal((2, n_columns)), rng.integers(0, n_rows, 61)


@pytest.mark.parametrize("n_candidates", [2, 7, 8, 61, 100])
def test_furthest__matches_naive(store, n_candidates):
    A, b, iterates, order = system()
    kept = store(A)
    exact = kept.astype(np.float64) if isinstance(kept, np.ndarray) else A
    expected, drops = iterates.copy(), np.empty(2)
    expected_drops = naive.project_on_furthest(exact, b, order, n_candidates, expected)
    project_on_furthest(open_rows(kept).rows, frozen(b), order, n_candidates, iterates, drops, np.full(3, -1))
    np.testing.assert_allclose(iterates, expected, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(drops, expected_drops, rtol=1e-10)


def test_one_candidate__is_a_sweep(store):
    A, b, iterates, order = system(1)
    rows, other, drops, other_drops = open_rows(store(A)).rows, iterates.copy(), np.empty(2), np.empty(2)
    project_on_furthest(rows, frozen(b), order, 1, iterates, drops, np.full(3, -1))
    sweep(rows, frozen(b), order, other, other_drops, np.full(3, -1))
    np.testing.assert_allclose(iterates, other, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(drops, other_drops, rtol=1e-10)


def test_odd_rows__are_noted_and_left_out():
    A, b, iterates, _ = system(2)
    A[7, 3], b[4] = np.nan, 1.0
    before, drops, flagged_rows = iterates.copy(), np.empty(2), np.full(3, -1)
    project_on_furthest(open_rows(A).rows, frozen(b), np.array([7, 4]), 2, iterates, drops, flagged_rows)
    assert flagged_rows.tolist() == [7, 4, -1]
    np.testing.assert_array_equal(iterates, before)
    assert drops.tolist() == [0.0, 0.0]
