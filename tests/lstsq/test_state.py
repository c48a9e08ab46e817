from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from rowsolve.lstsq.state import compress, compress_sparse, slopes_at


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


def test_sparse_state__keeps_the_gram_matrix_sparse():
    A = sparse.random_array((200, 30), density=0.1, rng=np.random.default_rng(4), format="csr")
    state = compress_sparse(A, np.ones((200, 1)))
    assert sparse.issparse(state.gram)
    np.testing.assert_allclose(state.gram.toarray(), (A.T @ A).toarray())
