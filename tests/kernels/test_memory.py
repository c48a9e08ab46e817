from __future__ import annotations

import naive
import numpy as np
import pytest
from conftest import DENSE_OR_CSR
from hypothesis import given
from hypothesis import strategies as st

from rowsolve.kernels.memory import best_with_memory
from rowsolve.methods.drawing import ONE_BY_ONE
from rowsolve.methods.oblivious import ObliviousPlan
from rowsolve.problem.system import System
from rowsolve.sources import open_rows

P = 20


def orthonormal(rng, count):
    return np.linalg.qr(rng.standard_normal((P, count)))[0].T


@given(seed=st.integers(0, 10**6), n_kept=st.integers(0, 6), parallel=st.sampled_from([0.0, 1.0, 30.0]))
def test_best__matches_naive_and_leaves_an_error_orthogonal_to_all(seed, n_kept, parallel):
    rng = np.random.default_rng(seed)
    kept = np.zeros((7, P))
    kept[:n_kept] = orthonormal(rng, n_kept)
    error = rng.standard_normal(P)
    error -= kept.T @ (kept @ error)
    start = rng.standard_normal(P)
    move = 0.1 * error + rng.standard_normal(P) + parallel * kept.T @ rng.standard_normal(7)
    drop = 2 * move @ error - move @ move
    expected, gain = naive.best_of_span(start, move, move @ error, list(kept[:n_kept]))
    best = np.empty(P)
    found = best_with_memory(start, start + move, drop, kept, n_kept, 6, best)
    left = start + error - best
    scale = max(1.0, parallel) ** 2
    np.testing.assert_allclose(best, expected, atol=1e-8 * scale)
    assert found == pytest.approx(gain, rel=1e-8 * scale)
    assert found == pytest.approx(error @ error - left @ left, rel=1e-8 * scale)
    np.testing.assert_allclose(kept @ left, 0.0, atol=1e-11 * scale)
    used = kept[[*range(n_kept), 6]]
    np.testing.assert_allclose(used @ used.T, np.eye(n_kept + 1), atol=1e-12 * scale)


@pytest.mark.parametrize("new", [0.0, 1e-13])
def test_best__skips_a_dependent_move(new):
    rng = np.random.default_rng(0)
    basis = orthonormal(rng, 4)
    kept, best = basis.copy(), np.full(P, 7.0)
    move = basis[0] + 2.0 * basis[1] + new * basis[3]
    assert best_with_memory(np.zeros(P), move, 1.0, kept, 3, 3, best) < 0.0
    np.testing.assert_array_equal(best, 7.0)
    np.testing.assert_array_equal(kept, basis)


def test_best__skips_a_move_at_rounding_level():
    start = np.random.default_rng(0).standard_normal(P)
    end = start * (1.0 + 1e-15)
    assert best_with_memory(start, end, 1.0, np.zeros((1, P)), 0, 0, np.empty(P)) < 0.0


@DENSE_OR_CSR
@pytest.mark.parametrize("memory", [1, 3, 50])
def test_sweep_with_memory__matches_naive_and_returns_exact_drops(store, memory):
    rng = np.random.default_rng(1)
    A = rng.standard_normal((200, 40)) + 3.0
    kept = store(A)
    A = kept.astype(np.float64) if isinstance(kept, np.ndarray) else A
    x_true, iterates = rng.standard_normal(40), rng.standard_normal((2, 40))
    b, order, drops = A @ x_true, rng.permutation(200)[:140], np.empty(2)
    expected = iterates.copy()
    plan = ObliviousPlan(System(open_rows(kept), b))
    plan.remember(memory)
    plan.directions.rows_of_a_round = 20
    expected_drops = naive.sweep_with_memory(A, b, order, 7, memory, expected)
    before = np.sum((x_true - iterates[0]) ** 2), np.sum(iterates[1] ** 2)
    plan.project(order, ONE_BY_ONE, iterates, drops)
    after = np.sum((x_true - iterates[0]) ** 2), np.sum(iterates[1] ** 2)
    np.testing.assert_allclose(iterates, expected, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(drops, expected_drops, rtol=1e-9)
    np.testing.assert_allclose(drops, np.subtract(before, after), rtol=1e-9)
