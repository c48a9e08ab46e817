"""The obvious null space of sparse rows, and least squares with it."""

import numpy as np
import pytest
from scipy import sparse

from rowsolve.estimate.tolerance import Tolerance
from rowsolve.lstsq.dense import fit_sparse
from rowsolve.lstsq.normal import factor_gram
from rowsolve.lstsq.state import compress, rows_of
from rowsolve.problem.null_space import obvious_null_space


def one_hot(n, counts, rng):
    drawn = [rng.integers(0, count, n) for count in counts]
    blocks = [
        sparse.csr_array((np.ones(n), (np.arange(n), levels)), shape=(n, c))
        for levels, c in zip(drawn, counts, strict=True)
    ]
    return sparse.csr_array(sparse.hstack(blocks, format="csr"))


def pairs(n, p, rng, parts=1):
    """Differences of two columns of the same component."""
    one = rng.integers(0, p, n)
    other = (one + parts * rng.integers(1, p // parts, n)) % p
    A = sparse.coo_array(
        (np.tile([1.0, -1.0], (n, 1)).T.ravel(), (np.tile(np.arange(n), 2), np.r_[one, other])), (n, p)
    )
    return sparse.csr_array(A)


SYSTEMS = {
    "one-hot": one_hot(500, [1, 7, 20], np.random.default_rng(0)),
    "one-hot in units": 3.0 * one_hot(300, [4, 30], np.random.default_rng(1)),
    "pairs": pairs(400, 60, np.random.default_rng(2)),
    "pairs in two parts": pairs(400, 60, np.random.default_rng(3), parts=2),
}


@pytest.mark.parametrize("what", SYSTEMS)
def test_no_row_reaches_them(what):
    A = SYSTEMS[what]
    null = obvious_null_space(rows_of(A), A.shape[1])
    np.testing.assert_allclose(null.T @ null, np.eye(null.shape[1]), atol=1e-13)
    np.testing.assert_allclose(A @ null, 0.0, atol=1e-12)


@pytest.mark.parametrize("what", SYSTEMS)
def test_solution__is_that_of_least_norm(what):
    A, rng = SYSTEMS[what], np.random.default_rng(5)
    b = rng.standard_normal((A.shape[0], 2))
    found = fit_sparse(A, b, None, 0.0, Tolerance(1e-6, 0.0, 2.2e-16))
    expected = np.linalg.pinv(A.toarray()) @ b
    np.testing.assert_allclose(found.x.T, expected, rtol=1e-8, atol=1e-10)
    assert found.rank == np.linalg.matrix_rank(A.toarray())
    assert (np.linalg.norm(found.x.T - expected, axis=0) <= 3 * found.error + 1e-13).all()


def test_filled_gram_matrix__needs_no_pivoting():
    A = SYSTEMS["one-hot"]
    factor = factor_gram(compress(A, np.ones((500, 1))).gram, 0.0, obvious_null_space(rows_of(A), A.shape[1]))
    assert factor.columns is None
    assert factor.rank == A.shape[1] - 2


def test_general_rows__have_no_obvious_null_space():
    A = sparse.random_array((200, 30), density=0.1, rng=np.random.default_rng(0), format="csr")
    assert obvious_null_space(rows_of(A), 30) is None
