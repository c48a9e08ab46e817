"""The Gram matrix by tiles, compared with the matrix product."""

import numpy as np
import pytest

from rowsolve.kernels.gradient import add_gradients
from rowsolve.kernels.gram import add_products, place_of_sides, zeros_for_products
from rowsolve.kernels.rows import DenseRows, frozen

SHAPES = [
    (1, 1, 1),
    (3, 1, 1),
    (9, 2, 3),
    (51, 8, 1),
    (300, 23, 2),
    (200, 24, 1),
    (77, 47, 30),
    (70, 80, 0),
    (90, 3, 8),
    (60, 24, 7),
    (300, 10, 35),
]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("order", ["C", "F", "strided"])
@pytest.mark.parametrize(("n", "p", "k"), SHAPES)
def test_adds_the_products_of_all_columns(n, p, k, order, dtype):
    rng = np.random.default_rng(n + p)
    values = rng.standard_normal((2 * n, p)).astype(dtype)[::2]
    values = frozen(values if order == "strided" else np.array(values, order=order))
    sides, first = frozen(rng.standard_normal((n, k))), n // 3
    out, at = zeros_for_products(p, k), place_of_sides(p, k)
    add_products(values, sides, at, 0, first, out)
    add_products(values, sides, at, first, n, out)
    A = values.astype(float)
    np.testing.assert_allclose(np.triu(out[:p, :p]), np.triu(A.T @ A), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(out[:p, at : at + k], A.T @ sides, rtol=1e-12, atol=1e-12)
    if at == p:  # a few sides
        np.testing.assert_allclose(np.triu(out[p : p + k, p : p + k]), np.triu(sides.T @ sides), rtol=1e-12, atol=1e-12)


def test_numbers_beyond_a_row_count_for_nothing():
    """Whole vectors are read: the numbers after a row must not matter, and nothing after the last row is read."""
    values = np.ones((100, 3))
    values[60:] = np.nan
    out = zeros_for_products(3, 1)
    add_products(frozen(values), frozen(np.ones((100, 1))), 3, 0, 60, out)
    np.testing.assert_array_equal(np.triu(out[:4, :4]), np.triu(np.full((4, 4), 60.0)))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("p", [1, 2, 7, 8, 9, 16, 23, 24, 25])
@pytest.mark.parametrize("n", [1, 700])
def test_narrow_rows_give_the_gradient(n, p, dtype):
    rng = np.random.default_rng(n + p)
    A, b, vectors = rng.standard_normal((n, p)).astype(dtype), rng.standard_normal(n), rng.standard_normal((2, p))
    out, squares = np.zeros((2, p)), np.zeros(2)
    add_gradients(DenseRows(frozen(A)), frozen(b), 0.5, 0, n // 2, vectors, out, squares)
    add_gradients(DenseRows(frozen(A)), frozen(b), 0.5, n // 2, n, vectors, out, squares)
    off = np.array([0.5 * b - A @ vectors[0], -A @ vectors[1]])
    np.testing.assert_allclose(out, off @ A, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(squares, np.sum(off**2, axis=1), rtol=1e-11)
