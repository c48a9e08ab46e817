from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from rowsolve.lstsq.state import compress, slopes_at


@pytest.mark.parametrize("make", [np.asarray, np.asfortranarray, sparse.csr_array, lambda A: A.astype(np.float32)])
@pytest.mark.parametrize("shape", [(1, 3), (7, 1), (40_000, 9), (300, 200)])
def test_state__is_that_of_the_products(make, shape):
    rng = np.random.default_rng(0)
    A, b = make(rng.standard_normal(shape)), rng.standard_normal((shape[0], 2))
    dense = (A.toarray() if sparse.issparse(A) else A).astype(float)
    state = compress(A, b, threads=2)
    np.testing.assert_allclose(np.triu(state.gram), np.triu(dense.T @ dense), atol=1e-9)
    np.testing.assert_allclose(state.sides, dense.T @ b, atol=1e-9)
    np.testing.assert_allclose(state.squares, (b**2).sum(axis=0))
    assert state.n_rows == shape[0]


def test_states__of_parts_add_up():
    rng = np.random.default_rng(1)
    A, b = rng.standard_normal((500, 8)), rng.standard_normal((500, 1))
    whole, parts = compress(A, b), [compress(A[i : i + 90], b[i : i + 90]) for i in range(0, 500, 90)]
    merged = parts[0]
    for part in parts[1:]:
        merged = merged.merge(part)
    for one, other in zip(merged, whole, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


def test_bits__do_not_depend_on_which_thread_is_first():
    rng = np.random.default_rng(2)
    A, b = rng.standard_normal((60_000, 40)), rng.standard_normal((60_000, 1))
    one = compress(A, b, threads=2)
    for _ in range(5):
        for mine, theirs in zip(compress(A, b, threads=2), one, strict=True):
            np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_slopes__are_those_of_two_products(make):
    rng = np.random.default_rng(3)
    dense, b, x = rng.standard_normal((30_000, 12)), rng.standard_normal((30_000, 2)), rng.standard_normal((12, 3))
    slope, squares = slopes_at(make(dense), b, x, threads=2)
    r = np.column_stack([b, np.zeros(30_000)]) - dense @ x  # the third has no right-hand side
    np.testing.assert_allclose(slope, dense.T @ r, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(squares, (r**2).sum(axis=0))


@pytest.mark.parametrize("p", [2, 7, 21, 30, 200, 300])
@pytest.mark.parametrize("order", ["C", "F"])
def test_state__is_that_of_the_products_whatever_the_number_of_columns(p, order):
    rng = np.random.default_rng(p)
    A, b = np.asarray(rng.standard_normal((60_000 // p, p)), order=order), rng.standard_normal((60_000 // p, 2))
    state = compress(A, b, threads=2)
    np.testing.assert_allclose(np.triu(state.gram), np.triu(A.T @ A), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(state.sides, A.T @ b, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(state.squares, (b**2).sum(axis=0))


@pytest.mark.compiled
@pytest.mark.parametrize("p", [24, 25, 48])  # panels have 24 columns
@pytest.mark.parametrize("k", [1, 7, 8, 9, 24, 40])
def test_state__is_that_of_the_products_whatever_the_number_of_sides(p, k):
    rng = np.random.default_rng(4)
    A, b = rng.standard_normal((3000, p)), rng.standard_normal((3000, k))
    state = compress(A, b)
    np.testing.assert_allclose(state.sides, A.T @ b, atol=1e-9)
    np.testing.assert_allclose(state.squares, (b**2).sum(axis=0))


def test_slopes__of_a_large_array_are_made_by_a_kernel():
    rng = np.random.default_rng(3)
    A, b, x = rng.standard_normal((60_000, 20)), rng.standard_normal((60_000, 1)), rng.standard_normal((20, 3))
    slope, squares = slopes_at(A, b, x, threads=2)
    r = np.column_stack([b, np.zeros((60_000, 2))]) - A @ x
    np.testing.assert_allclose(slope, A.T @ r, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(squares, (r**2).sum(axis=0))
