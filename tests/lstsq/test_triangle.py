"""Rows reduced to a triangle: the same as QR of all rows, however they are divided and merged."""

from __future__ import annotations

from functools import reduce
from itertools import pairwise

import numpy as np
import pytest
from scipy import sparse

from rowsolve.lstsq.normal import factor_gram
from rowsolve.lstsq.state import compress
from rowsolve.lstsq.triangle import Triangle, triangle_of, triangulate


def system(n, p, k=1, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, p)), rng.standard_normal((n, k))


def assert_same_squares(found, A, b, tolerance=1e-12):
    """R'R, R'Q'b and the rest of b'b are those of all rows, and R is triangular."""
    p = A.shape[1]
    assert found.triangle.shape == (p, p)
    assert found.n_rows == len(A)
    np.testing.assert_allclose(found.triangle.T @ found.triangle, A.T @ A, atol=tolerance * np.sum(A**2))
    np.testing.assert_allclose(found.triangle.T @ found.sides, A.T @ b, atol=tolerance * np.sum(A**2))
    total = np.sum(found.sides**2, axis=0) + found.squares
    np.testing.assert_allclose(total, np.sum(b**2, axis=0), rtol=1e-12)


@pytest.mark.parametrize("shape", [(1, 1), (3, 7), (7, 7), (8, 7), (50, 3), (9000, 30)])
@pytest.mark.parametrize("n_sides", [1, 3])
def test_triangle__is_that_of_all_rows(shape, n_sides):
    A, b = system(*shape, n_sides)
    found = triangulate(A, b)
    assert_same_squares(found, A, b)
    np.testing.assert_array_equal(found.triangle, np.triu(found.triangle))
    x = np.linalg.lstsq(A, b)[0]
    np.testing.assert_allclose(found.squares, np.sum((A @ x - b) ** 2, axis=0), atol=1e-9)
    np.testing.assert_allclose(np.abs(found.triangle[: len(A)]), np.abs(np.linalg.qr(A, mode="r")), atol=1e-11)


@pytest.mark.parametrize("cuts", [[100], [1, 2, 3], [20, 25], [0, 300]])
def test_merging__gives_the_triangle_of_all_rows(cuts):
    A, b = system(300, 12, 2)
    edges = [0, *cuts, 300]
    parts = [triangulate(A[i:j], b[i:j]) for i, j in pairwise(edges) if j > i]
    assert_same_squares(reduce(Triangle.merge, parts), A, b)


def test_no_rows__change_nothing():
    A, b = system(30, 4)
    nothing, found = Triangle(np.zeros((4, 4)), np.zeros((4, 1)), np.zeros(1), 0), triangulate(A, b)
    for both in (nothing.merge(found), found.merge(nothing)):
        np.testing.assert_array_equal(both.triangle, found.triangle)
        assert both.n_rows == 30


def test_threads__share_the_rows():
    A, b = system(20_000, 40)
    assert_same_squares(triangulate(A, b, threads=2), A, b)


def test_sparse_and_single_rows__are_written_out_in_blocks():
    A = sparse.random_array((5000, 40), density=0.05, rng=0, format="csr")
    b = np.ones((5000, 1))
    assert_same_squares(triangulate(A, b), A.toarray(), b)
    single = A.toarray().astype(np.float32)
    assert_same_squares(triangulate(single, b), single.astype(float), b)


@pytest.mark.parametrize("shape", [(100, 8), (5, 8)])
def test_damping__is_a_row_for_each_column(shape):
    A, b = system(*shape)
    found = triangulate(A, b).damped(0.5)
    np.testing.assert_allclose(found.triangle.T @ found.triangle, A.T @ A + 0.25 * np.eye(8), atol=1e-12)
    np.testing.assert_allclose(found.triangle.T @ found.sides, A.T @ b, atol=1e-12)
    assert triangulate(A, b).damped(0.0).n_rows == len(A)


def test_small_singular_values__are_kept_that_a_gram_matrix_would_lose():
    rng = np.random.default_rng(1)
    values, V = np.geomspace(1.0, 1e-12, 6), np.linalg.qr(rng.standard_normal((6, 6)))[0]
    A = np.linalg.qr(rng.standard_normal((4000, 6)))[0] * values @ V
    found = np.linalg.svd(triangulate(A, A[:, :1]).triangle, compute_uv=False)
    np.testing.assert_allclose(found, values, rtol=1e-3)


@pytest.mark.parametrize("damp", [0.0, 2.0])
def test_gram_matrix__gives_a_triangle_too(damp):
    A, b = system(200, 9, 2)
    A *= 10.0 ** np.arange(-4, 5)
    state = compress(A, b)
    found = triangle_of(state, factor_gram(state.gram, damp))
    expected = triangulate(A, b).damped(damp)
    np.testing.assert_allclose(np.abs(found.triangle), np.abs(expected.triangle), rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(np.abs(found.sides), np.abs(expected.sides), rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(found.squares, expected.squares, rtol=1e-8)


def test_dependent_columns__have_rows_with_the_same_gram_matrix():
    A, b = system(200, 5)
    A = np.column_stack([A, A[:, 0] - A[:, 1], np.zeros(200), A[:, 3]])
    state = compress(A, b)
    factor = factor_gram(state.gram)
    assert factor.deficient
    found = triangle_of(state._replace(gram=np.triu(state.gram)), factor)  # only that counts
    assert not found.triangle[factor.rank :].any()
    assert_same_squares(found, A, b)
