from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from rowsolve.estimate.tolerance import Tolerance
from rowsolve.lstsq.normal import factor_gram, fit_normal
from rowsolve.lstsq.state import compress, slopes_at

EPS = float(np.finfo(float).eps)


def fitted(A, b, x0=None, damp=0.0, rtol=1e-6, eps=EPS):
    state = compress(A, b)
    factor = factor_gram(state.gram, damp)
    x0 = np.zeros((b.shape[1], A.shape[1])) if x0 is None else x0
    tolerance = Tolerance(rtol, 0.0, eps)
    return factor and fit_normal(state, factor, x0, damp, tolerance, partial(slopes_at, A, b))


def dummies(rng, n=800, levels=6):
    blocks = [np.eye(levels)[rng.integers(0, levels, n)] for _ in range(2)]
    return np.hstack([np.ones((n, 1)), *blocks, np.zeros((n, 1)), rng.random((n, 2)) + 100.0])


@pytest.mark.parametrize("k", [1, 4])
def test_noisy_system__needs_one_read(k):
    rng = np.random.default_rng(0)
    A, b = rng.standard_normal((500, 20)), rng.standard_normal((500, k))
    found = fitted(A, b)
    expected = np.linalg.lstsq(A, b)[0]
    np.testing.assert_allclose(found.x.T, expected, rtol=1e-10, atol=1e-13)
    assert (found.n_reads, found.rank) == (1, 20)
    assert (np.linalg.norm(found.x.T - expected, axis=0) <= found.error).all()
    np.testing.assert_allclose(found.residual_sq, ((b - A @ expected) ** 2).sum(axis=0), rtol=1e-9)


def test_consistent_system__needs_one_read_which_does_not_tell_the_residual():
    rng = np.random.default_rng(1)
    A = rng.standard_normal((500, 20))
    found = fitted(A, A @ np.ones((20, 1)))
    assert found.n_reads == 1
    assert np.isnan(found.residual_sq).all()
    assert np.linalg.norm(found.x[0] - 1.0) <= found.error
    np.testing.assert_allclose(found.x[0], 1.0, rtol=1e-13)


@pytest.mark.parametrize("condition", [1e2, 1e4, 1e5])
def test_condition__is_made_up_for_by_passes(condition):
    rng = np.random.default_rng(2)
    U, V = np.linalg.qr(rng.standard_normal((600, 15)))[0], np.linalg.qr(rng.standard_normal((15, 15)))[0]
    A, x = (U * np.geomspace(1, 1 / condition, 15)) @ V.T, rng.standard_normal((15, 1))
    found = fitted(A, A @ x, rtol=1e-8)
    error = np.linalg.norm(found.x.T - x) / np.linalg.norm(x)
    assert error <= 1e-8
    assert error * np.linalg.norm(x) <= 3 * found.error[0]


def test_gram_matrix__that_loses_small_singular_values_is_not_used():
    rng = np.random.default_rng(3)
    A = rng.standard_normal((300, 6))
    A[:, 5] = A[:, 4] + 1e-9 * A[:, 5]
    assert fitted(A, rng.standard_normal((300, 1))) is None


@pytest.mark.parametrize("start", [0.0, 3.0])
def test_dependent_columns__leave_the_nearest_solution(start):
    rng = np.random.default_rng(4)
    A = dummies(rng)
    b, x0 = rng.standard_normal((800, 2)), start * rng.standard_normal((2, A.shape[1]))
    found = fitted(A, b, x0)
    expected = x0.T + np.linalg.lstsq(A, b - A @ x0.T, rcond=None)[0]
    assert (found.rank, found.n_reads) == (np.linalg.matrix_rank(A), 2)
    np.testing.assert_allclose(found.x.T, expected, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("rank", [2, 9])  # the basis is that of the rows, or of what they leave out
def test_low_rank__leaves_the_minimum_norm_solution(rank):
    rng = np.random.default_rng(5)
    A, b = rng.standard_normal((400, rank)) @ rng.standard_normal((rank, 12)), rng.standard_normal((400, 1))
    found = fitted(A, b)
    np.testing.assert_allclose(found.x.T, np.linalg.lstsq(A, b, rcond=None)[0], rtol=1e-9, atol=1e-12)
    assert found.rank == rank


def test_damping__is_added_to_the_diagonal():
    rng = np.random.default_rng(6)
    A, b = rng.standard_normal((300, 10)), rng.standard_normal((300, 1))
    found = fitted(A, b, damp=5.0)
    expected = np.linalg.solve(A.T @ A + 25.0 * np.eye(10), A.T @ b)
    np.testing.assert_allclose(found.x.T, expected, rtol=1e-11)
    np.testing.assert_allclose(found.residual_sq, ((b - A @ expected) ** 2).sum(axis=0), rtol=1e-10)


def test_units__do_not_matter():
    rng = np.random.default_rng(7)
    A, b, units = rng.standard_normal((300, 10)), rng.standard_normal((300, 1)), 10.0 ** rng.uniform(-40, 40, 10)
    np.testing.assert_allclose(fitted(A * units, b).x * units, fitted(A, b).x, rtol=1e-10)


def test_data_in_single_precision__have_its_error():
    rng = np.random.default_rng(8)
    A, x = rng.standard_normal((400, 10)), rng.standard_normal((10, 1))
    rounded = A.astype(np.float32).astype(float)
    found = fitted(rounded, A @ x, eps=float(np.finfo(np.float32).eps))
    error = np.linalg.norm(found.x.T - x)
    assert error / 3 <= found.error[0] <= 30 * error
