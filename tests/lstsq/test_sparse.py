from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from scipy import sparse

from rowsolve._monitor import Tolerance
from rowsolve.lstsq.normal import fit_normal
from rowsolve.lstsq.sparse import factor_sparse_gram, widest_row
from rowsolve.lstsq.state import compress_sparse, slopes_at


def differences(p):
    first = sparse.diags_array([1.0, -1.0], offsets=[0, 1], shape=(p - 1, p))
    return sparse.vstack([first, 0.1 * sparse.eye_array(p)]).tocsr()


@pytest.mark.parametrize("damp", [0.0, 0.5])
def test_fit__is_that_of_dense_rows(damp):
    rng = np.random.default_rng(0)
    A, b = differences(200), rng.standard_normal((399, 3))
    state = compress_sparse(A, b)
    factor = factor_sparse_gram(state.gram, damp)
    slopes, tolerance = partial(slopes_at, A, b), Tolerance(1e-6, 0.0, float(np.finfo(float).eps))
    found = fit_normal(state, factor, np.zeros((3, 200)), damp, tolerance, slopes)
    dense = A.toarray()
    expected = np.linalg.solve(dense.T @ dense + damp**2 * np.eye(200), dense.T @ b)
    np.testing.assert_allclose(found.x.T, expected, rtol=1e-9, atol=1e-11)
    assert (np.linalg.norm(found.x.T - expected, axis=0) <= 3 * found.error + 1e-13).all()
    assert found.rank == 200


def test_singular_matrix__has_no_factor():
    A = sparse.diags_array([1.0, -1.0], offsets=[0, 1], shape=(49, 50)).tocsr()
    assert factor_sparse_gram((A.T @ A).tocsc()) is None
    zero = sparse.csr_array(np.diag([1.0, 0.0, 2.0]))
    assert factor_sparse_gram(zero.tocsc()) is None


def test_widest_row__is_told_by_the_ends_of_rows():
    A = sparse.csr_array(np.array([[0, 1, 0, 1.0], [1, 0, 0, 0], [0, 0, 0, 0], [0, 0, 1, 1]]))
    assert widest_row(A.indices, A.indptr) == 2
    empty = sparse.csr_array((3, 4))
    assert widest_row(empty.indices, empty.indptr) == 0
