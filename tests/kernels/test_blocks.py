from __future__ import annotations

import naive
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowsolve.kernels.blocks import block_workspace, project_blocks
from rowsolve.kernels.rows import frozen
from rowsolve.sources import open_rows


def run(A, b, order, sizes, iterates):
    drops, workspace = np.empty(len(iterates)), block_workspace(max(sizes), A.shape[1])
    rows = open_rows(A).rows
    project_blocks(rows, frozen(b), np.asarray(order), np.asarray(sizes), iterates, drops, workspace, np.full(3, -1))
    assert not workspace.spread.any()  # left as it was found
    return drops


def test_blocks__match_naive(store):
    rng = np.random.default_rng(0)
    A = rng.standard_normal((30, 9)) * (rng.random((30, 9)) < 0.8)
    b, iterates = rng.standard_normal(30), rng.standard_normal((2, 9))
    order, sizes = rng.permutation(30)[:14], [4, 1, 3, 6]
    kept = store(A)
    exact = kept.astype(np.float64) if isinstance(kept, np.ndarray) else A
    expected = iterates.copy()
    expected_drops = naive.project_blocks(exact, b, order, sizes, expected)
    drops = run(kept, b, order, sizes, iterates)
    np.testing.assert_allclose(iterates, expected, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(drops, expected_drops, rtol=1e-8)


@given(seed=st.integers(0, 10**6), size=st.integers(1, 12))
def test_blocks__error_never_grows_and_drops_add_up(seed, size):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((12, 5))
    A[1] = A[0]  # duplicate
    A[3] = -2 * A[2]  # parallel
    A[4] = 0.0
    x_true, iterates = rng.standard_normal(5), np.zeros((2, 5))
    order = rng.permutation(12)[:size]
    drops = run(A, A @ x_true, order, [size], iterates)
    error = np.sum((x_true - iterates[0]) ** 2)
    assert np.isfinite(iterates).all()
    assert error <= np.sum(x_true**2) * (1 + 1e-12)
    np.testing.assert_allclose(drops[0] + error, np.sum(x_true**2), rtol=1e-8)


def test_blocks__with_as_many_independent_rows_as_columns_solve_at_once():
    rng = np.random.default_rng(2)
    A, x_true = rng.standard_normal((20, 6)), rng.standard_normal(6)
    for size in (6, 10, 20):  # the last two are more rows than columns: a singular Gram matrix
        iterates = np.zeros((2, 6))
        run(A, A @ x_true, np.arange(size), [size], iterates)
        np.testing.assert_allclose(iterates[0], x_true, rtol=1e-6)


@pytest.mark.parametrize("scale", [1e-150, 1e150])
def test_blocks__scale_does_not_matter(scale):
    rng = np.random.default_rng(3)
    A, x_true = rng.standard_normal((8, 8)), rng.standard_normal(8)
    weights = np.where(np.arange(8) % 2, 1.0, scale)
    iterates = np.zeros((2, 8))
    run(A * weights[:, None], A @ x_true * weights, np.arange(8), [8], iterates)
    np.testing.assert_allclose(iterates[0], x_true, rtol=1e-6)


def test_blocks__with_contradicting_parallel_rows_take_no_enormous_steps():
    A = np.array([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0]])
    iterates = np.zeros((2, 2))
    drops = run(A, np.array([1.0, 4.0, 1.0]), np.arange(3), [3], iterates)
    np.testing.assert_allclose(iterates[0], [1.0, 1.0])  # the first of the two is taken
    assert drops[0] == pytest.approx(2.0)
