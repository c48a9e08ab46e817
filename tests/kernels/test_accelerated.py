from __future__ import annotations

import naive
import numpy as np
import pytest

from rowsolve.kernels.accelerated import factor_block, factor_workspace, project_on_factored
from rowsolve.kernels.rows import frozen
from rowsolve.sources import open_rows


@pytest.mark.parametrize(("size", "ridge"), [(1, 0.1), (2, 0.0), (5, 0.1), (8, 0.0)])
def test_factored_block__matches_naive(store, size, ridge):
    rng = np.random.default_rng(size)
    A, b = rng.standard_normal((20, 9)) * (rng.random((20, 9)) < 0.8), rng.standard_normal(20)
    kept, block, iterates = store(A), rng.permutation(20)[:size], rng.standard_normal((2, 9))
    rows, workspace = open_rows(kept).rows, factor_workspace(open_rows(kept).rows, 8, 9)
    exact = kept.astype(np.float64) if isinstance(kept, np.ndarray) else A
    expected, moves = iterates.copy(), np.ones((2, 9))
    for _ in range(2):  # the second time in used rooms
        scale, factor = np.empty(size), np.full((size, size), np.nan)
        factor_block(rows, frozen(b), block, ridge, scale, factor, workspace, np.full(3, -1))
        project_on_factored(rows, frozen(b), block, scale, factor, iterates, moves, workspace)
    naive.ridge_blocks(exact, b, [block], ridge, expected)
    np.testing.assert_allclose(iterates + moves, expected, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(scale, 1 / np.linalg.norm(exact[block], axis=1), rtol=1e-12)


def test_wide_rows__are_multiplied_strip_by_strip():
    A = np.random.default_rng(0).standard_normal((7, 1300))
    rows, workspace = open_rows(A).rows, factor_workspace(open_rows(A).rows, 7, 1300)
    scale, factor = np.empty(7), np.zeros((7, 7))
    factor_block(rows, frozen(np.ones(7)), np.arange(7), 0.0, scale, factor, workspace, np.full(3, -1))
    unit = A * scale[:, None]
    expected = np.linalg.cholesky(unit @ unit.T)
    expected[np.diag_indices(7)] = 1 / np.diag(expected)
    np.testing.assert_allclose(factor, expected, rtol=1e-10, atol=1e-12)


def test_odd_rows__are_noted_and_left_out(store):
    A, b = np.random.default_rng(0).standard_normal((6, 5)), np.ones(6)
    A[2], b[2] = 0.0, 0.0
    rows, workspace = open_rows(store(A)).rows, factor_workspace(open_rows(store(A)).rows, 3, 5)
    scale, factor, moves, flagged_rows = np.empty(3), np.zeros((3, 3)), np.empty((2, 5)), np.full(3, -1)
    factor_block(rows, frozen(b), np.array([1, 2, 4]), 1e-6, scale, factor, workspace, flagged_rows)
    project_on_factored(rows, frozen(b), np.array([1, 2, 4]), scale, factor, np.zeros((2, 5)), moves, workspace)
    assert flagged_rows.tolist() == [-1, -1, 2]
    assert scale[1] == 0.0
    np.testing.assert_allclose(A[[1, 4]] @ moves[0], [1.0, 1.0], rtol=1e-4)
