"""Small systems by the inverse of A'A: the solution, its error estimate, and None if it is uncertain."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import relative_error

from rowsolve.estimate.tolerance import Tolerance
from rowsolve.lstsq import inverse
from rowsolve.lstsq.inverse import by_inverse

EPS = np.finfo(float).eps
TOLERANCE = Tolerance(1e-6, 0.0, EPS)


def system(n=120, p=9, k=1, noise=0.1, seed=0):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((n, p))
    return A, A @ rng.standard_normal((p, k)) + noise * rng.standard_normal((n, k))


def exact(A, b, x0=None):
    """Return the solution nearest to `x0`, by refinement in extended precision, which is more accurate than LAPACK."""
    long, pseudo = A.astype(np.longdouble), np.linalg.pinv(A)
    x = np.zeros((A.shape[1], b.shape[1])) if x0 is None else x0.T
    for _ in range(8):
        x = x + pseudo @ (pseudo.T @ (long.T @ (b - long @ x)).astype(float))
    return x.astype(float)


@pytest.fixture(params=[True, False], ids=["short", "in blocks"])
def shape(request, monkeypatch):
    """Systems whose products BLAS makes in one call, and others."""
    if not request.param:
        monkeypatch.setattr(inverse, "is_short", lambda n, p: False)
    return 400, 12


@pytest.mark.parametrize("k", [1, 2, 7])
@pytest.mark.parametrize("noise", [0.0, 0.1, 30.0])
def test_x_and_residual__are_those_of_lapack(shape, k, noise):
    A, b = system(*shape, k, noise)
    found = by_inverse(A, b, None, TOLERANCE, 1)
    expected = exact(A, b)
    assert (np.linalg.norm(found.x.T - expected, axis=0) <= found.error).all()
    assert (found.error <= 1e-11 * np.linalg.norm(expected, axis=0)).all()
    np.testing.assert_allclose(found.squares, (b * b).sum(axis=0), rtol=1e-13)
    known = ~np.isnan(found.residual_sq)
    assert known.all() or noise == 0.0
    residual_sq = ((b - A @ expected) ** 2).sum(axis=0)
    np.testing.assert_allclose(found.residual_sq[known], residual_sq[known], rtol=1e-9, atol=1e-20)
    if found.off is not None:
        np.testing.assert_allclose(found.off[:, :k], b - A @ expected, atol=1e-10)


@pytest.mark.parametrize("condition", [1e1, 1e3, 1e5, 1e6, 1e7, 1e9])
@pytest.mark.parametrize("noise", [0.0, 1e-3, 1.0])
def test_error__is_true_up_to_the_condition_that_squares_can_bear(shape, condition, noise):
    n, p = shape
    rng = np.random.default_rng(3)
    left, right = np.linalg.qr(rng.standard_normal((n, p)))[0], np.linalg.qr(rng.standard_normal((p, p)))[0]
    A = left * np.geomspace(1.0, 1.0 / condition, p) @ right
    b = A @ rng.standard_normal((p, 1)) + noise * rng.standard_normal((n, 1))
    found = by_inverse(A, b, None, TOLERANCE, 1)
    if condition >= 1e7:
        assert found is None
    elif condition <= 1e3:
        assert found is not None
    if found is not None:
        assert np.linalg.norm(found.x.T - exact(A, b)) <= found.error[0]


def dummies(n=600, levels=(4, 6)):
    """An intercept and a column for each level of some factors: rank p - 2."""
    rng = np.random.default_rng(1)
    return np.hstack([np.ones((n, 1))] + [np.eye(m)[rng.integers(m, size=n)] for m in levels])


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("start", [False, True], ids=["from zero", "from x0"])
def test_null_space__x_is_the_nearest_to_x0(shape, k, start):
    A, rng = dummies(), np.random.default_rng(2)
    p, b = A.shape[1], rng.standard_normal((600, k))
    x0 = rng.standard_normal((k, p)) if start else None
    found = by_inverse(A, b, x0, TOLERANCE, 1)
    expected = exact(A, b, x0)
    assert found.rank == p - 2
    assert relative_error(found.x.T, expected) < 1e-13
    assert (np.linalg.norm(found.x.T - expected, axis=0) <= found.error).all()


@pytest.mark.parametrize("size", [1e-13, 1e-11, 1e-9, 1e-7, 1e-5])
def test_rank_in_doubt__needs_another_method(shape, size):
    A = dummies()
    A[:, -1] += size * np.random.default_rng(4).standard_normal(len(A))  # no longer what the others say
    found = by_inverse(A, np.ones((len(A), 1)) + A[:, 2:3] ** 2, None, TOLERANCE, 1)
    if found is not None:
        assert found.rank == np.linalg.matrix_rank(A)


def test_single_precision__is_included_in_the_estimate(shape):
    A, b = system(*shape, noise=1e-3)
    single = Tolerance(1e-6, 0.0, float(np.finfo(np.float32).eps))
    found = by_inverse(A, b, None, single, 1)
    rounded = np.linalg.lstsq(A.astype(np.float32).astype(float), b)[0]
    assert found.error[0] > by_inverse(A, b, None, TOLERANCE, 1).error[0]
    assert 0.1 * np.linalg.norm(rounded - found.x.T) < found.error[0] < 1e-6 * np.linalg.norm(rounded)


@pytest.mark.parametrize("scale", [1e-170, 1e-110, 1e110, 1e170, np.nan, np.inf])
def test_numbers_out_of_range__need_another_method(shape, scale):
    A, b = system(*shape)
    with np.errstate(all="ignore"):
        assert by_inverse(A * scale, b, None, TOLERANCE, 1) is None
        if not scale < 1.0:
            assert by_inverse(A, b * scale, None, TOLERANCE, 1) is None


def test_zero_column__needs_another_method(shape):
    A, b = system(*shape)
    A[:, 3] = 0.0
    assert by_inverse(A, b, None, TOLERANCE, 1) is None


def test_inputs__are_left_as_they_are(shape):
    A, b = dummies(), np.ones((600, 2))
    copies = A.copy(), b.copy()
    by_inverse(A, b, np.ones((2, A.shape[1])), TOLERANCE, 1)
    np.testing.assert_array_equal(A, copies[0])
    np.testing.assert_array_equal(b, copies[1])


@pytest.mark.parametrize("scale", [1e3, 1e6, 1e9])
def test_error__includes_the_rounding_of_a_distant_start(shape, scale):
    A, rng = dummies(), np.random.default_rng(6)
    null = np.linalg.qr(np.array([[1.0] + [-1.0] * 4 + [0.0] * 6, [1.0] + [0.0] * 4 + [-1.0] * 6]).T)[0]
    x0 = scale * (A.T @ rng.standard_normal((600, 1))).T
    for _ in range(2):
        x0 -= x0 @ null @ null.T  # nothing of it should be left in x
    found = by_inverse(A, rng.standard_normal((600, 1)), x0, TOLERANCE, 1)
    assert np.linalg.norm(found.x @ null) <= found.error[0] <= 1e-13 * np.linalg.norm(x0)
