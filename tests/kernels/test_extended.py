from __future__ import annotations

import naive
import numpy as np

from rowsolve.kernels.extended import extended_sweep, residual_of
from rowsolve.kernels.rows import frozen, norms_of
from rowsolve.sources import open_rows


def test_extended__matches_naive(store):
    rng = np.random.default_rng(0)
    A = rng.standard_normal((20, 6)) * (rng.random((20, 6)) < 0.8)
    A[:, 2], A[5] = 0.0, 0.0
    b, iterates = rng.standard_normal(20), rng.standard_normal((2, 6))
    kept = store(A)
    exact = kept.astype(np.float64) if isinstance(kept, np.ndarray) else A
    order, column_order = rng.integers(0, 20, 50), rng.integers(0, 6, 50)
    source, residual, norms_sq = open_rows(kept), b.copy(), np.empty(6)
    columns = source.columns()
    norms_of(columns, frozen(np.zeros(6)), 0, 6, norms_sq, np.full(3, -1))
    np.testing.assert_allclose(norms_sq, (exact**2).sum(axis=0), rtol=1e-12)
    expected, expected_residual = iterates.copy(), b.copy()
    drops, flagged_rows = np.empty(2), np.full(3, -1)
    extended_sweep(
        source.rows, frozen(b), order, columns, norms_sq, column_order, residual, iterates, drops, flagged_rows
    )
    expected_drops = naive.extended_sweep(exact, b, order, column_order, expected_residual, expected)
    np.testing.assert_allclose(iterates, expected, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(residual, expected_residual, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(drops, expected_drops, rtol=1e-9)


def test_residual__matches_numpy(store):
    rng = np.random.default_rng(1)
    A, b, x = rng.standard_normal((9, 4)), rng.standard_normal(9), rng.standard_normal(4)
    residual = np.zeros(9)
    residual_of(open_rows(store(A)).rows, frozen(b), 2, 9, x, residual)
    np.testing.assert_allclose(residual[2:], (b - A @ x)[2:], rtol=1e-5, atol=1e-6)
    assert not residual[:2].any()
