from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from rowsolve.compiled.jit import kernel
from rowsolve.kernels.rows import (
    RowFlag,
    add_and_measure_row,
    distances,
    frozen,
    inspect_rows,
    is_valid_csr,
    norms_of,
    residuals,
    row_products,
    usable_norm_sq,
    zeros_for_vectors,
)
from rowsolve.sources import open_rows


def some_rows(seed=0):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((12, 7)) * (rng.random((12, 7)) < 0.6)
    A[3] = 0.0
    return A, rng.standard_normal(12), rng.standard_normal(7)


def test_norms__match_numpy(store):
    A, b, _ = some_rows()
    kept = store(A)
    norms_sq, flagged_rows = np.empty(12), np.full(3, -1)
    norms_of(open_rows(kept).rows, frozen(b), 0, 12, norms_sq, flagged_rows)
    rtol = 1e-6 if kept.dtype == np.float32 else 1e-13
    np.testing.assert_allclose(norms_sq, (A**2).sum(axis=1), rtol=rtol)
    assert flagged_rows.tolist() == [-1, 3, -1]


def test_distances__match_numpy_and_return_the_squared_residual(store):
    A, b, x = some_rows()
    order = np.array([5, 0, 3, 11, 5])
    out = np.empty(5)
    total = distances(open_rows(store(A)).rows, frozen(b), order, x, out, 0.5, np.full(3, -1))
    gaps = b - A @ x
    norms = np.linalg.norm(A, axis=1)
    expected = np.where(norms > 0, np.abs(gaps) / np.where(norms > 0, norms, 1), 0.0)
    np.testing.assert_allclose(out, expected[order], rtol=2e-6)
    assert total == pytest.approx(0.25 * (gaps[order] ** 2).sum(), rel=2e-6)


def test_inspection__matches_numpy(store):
    A, b, x = some_rows()
    off, gradient, flagged_rows = np.zeros(9, bool), np.ones(7), np.full(3, -1)
    touched = np.zeros((2, 2, 7))
    total = inspect_rows(open_rows(store(A)).rows, frozen(b), 2, x, 0.6, 0.5, off, gradient, touched, flagged_rows)
    A, b = A[2:11], b[2:11]  # one of them is a zero row
    gaps, norms = b - A @ x, np.linalg.norm(A, axis=1)
    there = A != 0
    entries = there * there.sum(axis=1)[:, None]
    expected = (norms > 0) & (np.abs(gaps) > 0.6 * norms)
    assert off.tolist() == expected.tolist()
    assert 0 < off.sum() < 8
    assert total == pytest.approx(0.25 * (gaps**2).sum(), rel=2e-6)
    np.testing.assert_allclose(gradient, 1 + A.T @ gaps, rtol=1e-5, atol=1e-6)
    for k, group in enumerate((~off, off)):
        np.testing.assert_array_equal(touched[k], [there[group].sum(axis=0), entries[group].sum(axis=0)])
    assert flagged_rows.tolist() == [-1, 3, -1]


@kernel
def all_products(rows, order, start, stop, vectors, out):
    row_products(rows, order, start, stop, vectors, out)


@pytest.mark.parametrize(
    ("n_vectors", "start", "stop"), [(0, 0, 8), (1, 1, 8), (4, 0, 8), (4, 3, 4), (5, 1, 8), (5, 3, 4)]
)
def test_products__match_numpy_for_even_and_odd_numbers(store, n_vectors, start, stop):
    A, _, _ = some_rows()
    rows, order = open_rows(store(A)).rows, np.array([5, 0, 3, 11, 5, 2, 1, 9])
    vectors = zeros_for_vectors(rows, n_vectors, 7)
    vectors[:] = np.random.default_rng(1).standard_normal((n_vectors, 7))
    out = np.full((stop - start, n_vectors), np.nan)
    all_products(rows, order, start, stop, vectors, out)
    np.testing.assert_allclose(out, A[order[start:stop]] @ vectors.T, rtol=1e-5, atol=1e-6)


@kernel
def pull(rows, i, step, x):
    return add_and_measure_row(rows, i, step, x)


def test_add_and_measure__adds_and_returns_the_product_from_before(store):
    A, _, x = some_rows()
    moved = x.copy()
    norm_sq, dot = pull(open_rows(store(A)).rows, 5, 0.5, moved)
    np.testing.assert_allclose(moved, x + 0.5 * A[5], rtol=1e-6)
    assert (norm_sq, dot) == pytest.approx((A[5] @ A[5], A[5] @ x), rel=1e-5)


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
@pytest.mark.parametrize(
    ("row", "b", "sort"),
    [
        ([np.nan, 1.0], 1.0, RowFlag.NON_FINITE),
        ([np.inf, 1.0], 0.0, RowFlag.NON_FINITE),
        ([1e200, 1.0], 0.0, RowFlag.NON_FINITE),
        ([0.0, 0.0], 1.0, RowFlag.ZERO_AGAINST_B),
        ([0.0, 0.0], 0.0, RowFlag.ZERO),
        ([1e-200, 0.0], 0.0, RowFlag.ZERO),
    ],
)
def test_usable_norm__notes_odd_rows(make, row, b, sort):
    rows = open_rows(make(np.array([[1.0, 2.0], row]))).rows
    flagged_rows = np.full(3, -1)
    with np.errstate(all="ignore"):  # plain Python warns where compiled code does not
        assert usable_norm_sq(rows, frozen(np.array([0.0, b])), 0, flagged_rows) == 5.0
        assert flagged_rows.tolist() == [-1, -1, -1]
        assert usable_norm_sq(rows, frozen(np.array([0.0, b])), 1, flagged_rows) == 0.0
    assert flagged_rows[sort] == 1
    assert (flagged_rows >= 0).sum() == 1


@pytest.mark.parametrize("scale", [1e-150, 1e150])
def test_usable_norm__takes_the_scales_that_are_promised(scale):
    rows = open_rows(np.full((1, 50), scale)).rows
    assert usable_norm_sq(rows, frozen(np.ones(1)), 0, np.full(3, -1)) == pytest.approx(50 * scale**2)


def test_residuals__match_numpy(store):
    A, b, x = some_rows()
    order, out = np.array([5, 0, 3, 11, 5]), np.empty(5)
    residuals(open_rows(store(A)).rows, frozen(b), order, x, out)
    np.testing.assert_allclose(out, (b - A @ x)[order], rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize(
    ("indices", "indptr", "answer"),
    [
        ([0, 2, 1, 3], [0, 2, 4], True),
        ([0, 2, 1, 3], [0, 0, 2, 4, 4], True),
        ([3, 2, 1, 0], [0, 1, 2, 3, 4], True),
        ([], [0, 0, 0], True),
        ([2, 0, 1, 3], [0, 2, 4], False),  # falls
        ([0, 0, 1, 3], [0, 2, 4], False),  # twice the same
        ([2, 0, 0, 3], [0, 1, 4], False),  # a fall at the start of a row is none, but the next one is
        ([0, 2, 1, 4], [0, 2, 4], False),  # no such column
        ([-1, 2, 1, 3], [0, 2, 4], False),
        ([0, 2, 1, 3], [1, 2, 4], False),
        ([0, 2, 1, 3], [0, 2, 3], False),
        ([0, 2, 1, 3], [0, 5, 4], False),
        ([0, 1, 2, 3], [0, 3, 2, 4], False),
    ],
)
def test_order_of_sparse_rows__is_checked(indices, indptr, answer, dtype):
    assert is_valid_csr(np.array(indices, dtype), np.array(indptr, dtype), 4) == answer
