from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from rowsolve.kernels.gradient import (
    add_band,
    add_gradients,
    add_gram,
    add_products_of_sparse,
    solve_factored,
    solve_transposed,
)
from rowsolve.kernels.rows import CSRRows, DenseRows, frozen
from rowsolve.sources import open_rows


@pytest.mark.parametrize(
    ("p", "start", "stop", "weight"),  # some columns, whole vectors, whole cache lines and what is left of them
    [(3, 0, 40, 1.0), (3, 5, 36, 0.0), (9, 3, 4, 1.0), (9, 0, 40, 0.0), (37, 5, 36, 1.0), (37, 7, 7, 1.0)],
)
def test_gradients__are_those_of_two_products(store, weight, start, stop, p):
    rng = np.random.default_rng(0)
    A, b, vectors = rng.standard_normal((40, p)), rng.standard_normal(40), rng.standard_normal((2, p))
    kept = store(A)
    exact = kept.astype(np.float64) if isinstance(kept, np.ndarray) else A
    before = rng.standard_normal((2, p))
    out, squares = before.copy(), np.ones(2)
    add_gradients(open_rows(kept).rows, frozen(b), weight, start, stop, vectors, out, squares)
    part = exact[start:stop]
    r = weight * b[start:stop] - part @ vectors[0], -part @ vectors[1]
    np.testing.assert_allclose(out, before + np.array([part.T @ r[0], part.T @ r[1]]), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(squares, [1 + r[0] @ r[0], 1 + r[1] @ r[1]], rtol=1e-12)


def test_gram__of_sparse_rows_is_that_of_dense_ones():
    A = sparse.random_array((50, 12), density=0.3, rng=np.random.default_rng(1), format="csr")
    order, out = np.array([3, 40, 7, 7, 0]), np.ones((12, 12))
    add_gram(open_rows(A).rows, order, out)
    rows = A.toarray()[order]
    np.testing.assert_allclose(np.triu(out), np.triu(1 + rows.T @ rows), rtol=1e-12)
    assert (out[np.tril_indices(12, -1)] == 1.0).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("p", "count"), [(1, 2), (2, 4), (17, 2), (30, 6)])
def test_solve_factored__undoes_the_product(p, count, dtype):
    rng = np.random.default_rng(p)
    R = np.triu(rng.standard_normal((p, p)) / np.sqrt(p) + 3 * np.eye(p)).astype(dtype)
    wanted = rng.standard_normal((count, p))
    exact = R.astype(float)
    vectors = wanted @ exact.T @ exact
    R[np.tril_indices(p, -1)] = np.nan  # not to be looked at
    solve_factored(R, vectors)
    np.testing.assert_allclose(vectors, wanted, rtol=1e-9, atol=1e-11)


def test_solve_transposed__undoes_the_product():
    rng = np.random.default_rng(3)
    R, wanted = np.triu(rng.standard_normal((9, 9)) + 4 * np.eye(9)), rng.standard_normal((4, 9))
    vectors = wanted @ R
    solve_transposed(R, vectors)
    np.testing.assert_allclose(vectors, wanted, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("shape", [(1, 1), (7, 3), (70, 4), (700, 9), (40, 130), (2500, 11)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_gradients__of_rows_in_fortran_order_are_those_of_others(shape, dtype):
    rng = np.random.default_rng(shape)
    A, b, vectors = (
        rng.standard_normal(shape).astype(dtype),
        rng.standard_normal(shape[0]),
        rng.standard_normal((2, shape[1])),
    )
    found = []
    for order in ("C", "F"):
        out, squares = np.zeros((2, shape[1])), np.zeros(2)
        add_gradients(DenseRows(frozen(np.asarray(A, order=order))), frozen(b), 0.5, 0, shape[0], vectors, out, squares)
        found.append((out, squares))
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


def test_band__is_the_gram_matrix():
    A = sparse.diags_array([1.0, -2.0, 0.5], offsets=[0, 1, 3], shape=(30, 33)).tocsr()
    b, out, sides = np.linspace(-1.0, 2.0, 60).reshape(30, 2), np.zeros((33, 4)), np.zeros((33, 2))
    rows = CSRRows(*map(frozen, (A.data, A.indices, A.indptr)))
    for start, stop in ((0, 11), (11, 30)):
        add_band(rows, frozen(b), np.arange(33), start, stop, out, sides)
    gram = (A.T @ A).toarray()
    for d in range(4):
        np.testing.assert_allclose(out[: 33 - d, d], gram.diagonal(d))
    np.testing.assert_allclose(sides, A.T @ b)


def test_products_of_sparse_rows__are_the_gram_matrix_and_the_sides():
    A = sparse.random_array((40, 7), density=0.4, rng=np.random.default_rng(2), dtype=np.float32).tocsr()
    b, gram, sides = np.linspace(-1.0, 2.0, 120).reshape(40, 3), np.zeros((7, 7)), np.zeros((7, 3))
    rows = CSRRows(*map(frozen, (A.data, A.indices, A.indptr)))
    for start, stop in ((0, 17), (17, 40)):
        add_products_of_sparse(rows, frozen(b), start, stop, gram, sides)
    exact = A.astype(float).toarray()
    np.testing.assert_allclose(gram, np.triu(exact.T @ exact), rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(sides, exact.T @ b, rtol=1e-13, atol=1e-13)
