from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from scipy import sparse

from rowsolve.estimate.tolerance import Tolerance
from rowsolve.kernels.gradient import widest_row
from rowsolve.lstsq.band import column_of, compress_to_band, factor_band
from rowsolve.lstsq.normal import fit_normal
from rowsolve.lstsq.state import rows_of, slopes_at
from rowsolve.problem.layout import look_for_band


def differences(p):
    first = sparse.diags_array([1.0, -1.0], offsets=[0, 1], shape=(p - 1, p))
    return sparse.vstack([first, 0.1 * sparse.eye_array(p)]).tocsr()


def grid(a, b, rng=None):
    """Differences of neighbours and a multiple of the identity; in random order if a generator is given."""
    points = np.arange(a * b) if rng is None else rng.permutation(a * b)
    points = points.reshape(a, b)
    pairs = np.column_stack(
        [np.r_[points[1:].ravel(), points[:, 1:].ravel()], np.r_[points[:-1].ravel(), points[:, :-1].ravel()]]
    )
    rows = np.repeat(np.arange(len(pairs)), 2)
    first = sparse.csr_array((np.tile([1.0, -1.0], len(pairs)), (rows, pairs.ravel())), shape=(len(pairs), a * b))
    return first, sparse.vstack([first, 0.1 * sparse.eye_array(a * b)]).tocsr()


def fitted(A, b, damp=0.0):
    layout = look_for_band(rows_of(A), A.shape[1], widest_row(rows_of(A)))
    state = compress_to_band(A, b, layout)
    factor = factor_band(state.gram, damp)
    slopes, tolerance = partial(slopes_at, A, b), Tolerance(1e-6, 0.0, float(np.finfo(float).eps))
    x0 = np.zeros((b.shape[1], A.shape[1]))
    return layout, None if factor is None else fit_normal(state, factor, x0, damp, tolerance, slopes)


SYSTEMS = {
    "series": differences(200),
    "grid": grid(20, 11)[1],
    "grid in random order": grid(20, 11, np.random.default_rng(5))[1],
    "wide grid": grid(70, 3, np.random.default_rng(5))[1],
}


@pytest.mark.parametrize("damp", [0.0, 0.5])
@pytest.mark.parametrize("what", SYSTEMS)
def test_fit__is_that_of_dense_rows(what, damp):
    A = SYSTEMS[what]
    (n, p), rng = A.shape, np.random.default_rng(0)
    b = rng.standard_normal((n, 3))
    layout, found = fitted(A, b, damp)
    dense = A.toarray()
    expected = np.linalg.solve(dense.T @ dense + damp**2 * np.eye(p), dense.T @ b)
    np.testing.assert_allclose(found.x.T, expected, rtol=1e-9, atol=1e-11)
    assert (np.linalg.norm(found.x.T - expected, axis=0) <= 3 * found.error + 1e-13).all()
    assert found.rank == p
    assert layout.width < 40


@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize("shuffled", [False, True])
def test_differences__have_one_null_vector_for_each_component_of_a_network(parts, shuffled):
    rng = np.random.default_rng(1)
    A = sparse.block_diag([grid(8, 11)[0]] * parts).tocsr()
    A = A[:, rng.permutation(A.shape[1])] if shuffled else A
    A = (A @ sparse.diags_array(10.0 ** rng.uniform(-1, 1, A.shape[1]))).tocsr()
    A.sort_indices()
    b = rng.standard_normal((A.shape[0], 2))
    _, found = fitted(A, b)
    expected = np.linalg.pinv(A.toarray()) @ b
    assert found.rank == A.shape[1] - parts
    np.testing.assert_allclose(found.x.T, expected, rtol=1e-8, atol=1e-9)


def test_band_that_is_nearly_singular__has_no_factor():
    A = sparse.diags_array([1.0, 1e-8 - 1.0], offsets=[0, 1], shape=(49, 50)).tocsr()
    assert fitted(sparse.vstack([A, 1e-9 * sparse.eye_array(50)]).tocsr(), np.ones((99, 1)))[1] is None
    assert fitted(sparse.csr_array((3, 3)), np.ones((3, 1)))[1] is None


def test_columns__of_a_band():
    A = grid(5, 3)[1]
    band = compress_to_band(
        A, np.ones((A.shape[0], 1)), look_for_band(rows_of(A), A.shape[1], widest_row(rows_of(A)))
    ).gram
    gram = (A.T @ A).toarray()
    for j in range(15):
        np.testing.assert_allclose(column_of(band.values, j), gram[j])


def test_widest_row__is_found_from_the_ends_of_rows():
    A = sparse.csr_array(np.array([[0, 1, 0, 1.0], [1, 0, 0, 0], [0, 0, 0, 0], [0, 0, 1, 1]]))
    assert widest_row(rows_of(A)) == 2
    empty = sparse.csr_array((3, 4))
    assert widest_row(rows_of(empty)) == 0


@pytest.mark.parametrize("uneven", [False, True])
def test_columns_without_a_number__are_zero_in_x(uneven):
    rng = np.random.default_rng(5)
    A = differences(60).tolil()
    A[:, [0, 17, 59]] = 0.0
    A = sparse.csr_array(A * (np.geomspace(1, 100, 60) if uneven else 1.0))
    A.eliminate_zeros()
    b = rng.standard_normal((A.shape[0], 1))
    state = compress_to_band(A, b, look_for_band(rows_of(A), A.shape[1], widest_row(rows_of(A))))
    factor = factor_band(state.gram)
    found = fit_normal(state, factor, np.zeros((1, 60)), 0.0, Tolerance(1e-8, 0.0, 2.0**-52), partial(slopes_at, A, b))
    assert found.rank == 57
    np.testing.assert_allclose(found.x.T, np.linalg.lstsq(A.toarray(), b, rcond=None)[0], rtol=1e-9, atol=1e-12)
