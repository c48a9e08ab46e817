"""Small systems by LAPACK: the solution, and its error estimate."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import relative_error

from rowsolve.estimate.tolerance import Tolerance
from rowsolve.lstsq import dense
from rowsolve.lstsq.dense import fit

EPS = float(np.finfo(float).eps)


def fitted(A, b, rtol=1e-6, damp=0.0, x0=None, eps=EPS):
    b = b.reshape(len(A), -1)
    x0 = np.zeros((b.shape[1], A.shape[1])) if x0 is None else x0
    return fit(A, b, x0, damp, Tolerance(rtol, 0.0, eps))


@pytest.mark.parametrize("shape", [(50, 3), (500, 30), (2000, 60), (20, 20), (6, 30), (1, 1), (1, 7), (9, 1)])
@pytest.mark.parametrize("noise", [0.0, 1.0])
@pytest.mark.parametrize("k", [1, 3])
def test_fit__is_that_of_lapack(shape, noise, k):
    rng = np.random.default_rng(shape)
    A = rng.standard_normal(shape)
    b = A @ rng.standard_normal((shape[1], k)) + noise * rng.standard_normal((shape[0], k))
    found = fitted(A, b)
    expected = np.linalg.lstsq(A, b)[0]
    assert relative_error(found.x.T, expected) < 1e-12
    assert found.rank == min(shape)
    residual_sq = np.sum((b - A @ found.x.T) ** 2, axis=0)
    known = ~np.isnan(found.residual_sq)
    assert known.all() or (residual_sq <= 1e-11 * np.sum(b * b, axis=0)).all()
    np.testing.assert_allclose(found.residual_sq[known], residual_sq[known], rtol=1e-9, atol=1e-24)
    assert (found.error <= 1e-10 * np.linalg.norm(expected)).all()


@pytest.mark.parametrize("damp", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("shape", [(400, 30), (40, 30), (5, 30)])
def test_damping__is_a_row_for_each_column(damp, shape):
    rng = np.random.default_rng(1)
    A, b = rng.standard_normal(shape), rng.standard_normal(shape[0])
    expected = np.linalg.solve(A.T @ A + damp**2 * np.eye(30), A.T @ b)
    found = fitted(A, b, damp=damp)
    assert relative_error(found.x[0], expected) < 1e-8  # of the normal equations
    assert found.residual_sq[0] == pytest.approx(np.sum((b - A @ expected) ** 2), rel=1e-6, abs=1e-9)


def test_many_solutions__give_the_one_nearest_to_the_start():
    rng = np.random.default_rng(2)
    A = np.repeat(rng.standard_normal((300, 20)), 2, axis=1)
    b, x0 = rng.standard_normal(300), rng.standard_normal((1, 40))
    found = fitted(A, b, x0=x0)
    expected = x0[0] + np.linalg.lstsq(A, b - A @ x0[0])[0]
    assert relative_error(found.x[0], expected) < 1e-12
    assert (found.rank, found.has_gap) == (20, True)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_estimate__is_near_the_error_that_rounding_leaves(seed, noise):
    """Cauchy matrices, whose exact solution by rational arithmetic is too far away: one by extended precision."""
    rng = np.random.default_rng(seed)
    A = 1.0 / (rng.uniform(0.1, 5.0, (40, 1)) + np.linspace(0.3, 3.0, 8))
    b = A @ rng.standard_normal(8) + noise * rng.standard_normal(40)
    found = fitted(A, b, rtol=1e-15)
    exact, error = in_extended_precision(A, b), found.error[0]
    true = np.linalg.norm(found.x[0] - exact)
    assert true / 4 < error < 100 * true + 10 * EPS * np.linalg.norm(exact)


def in_extended_precision(A, b):
    """Refine with residuals in extended precision, and x and the residual together."""
    Q, R = np.linalg.qr(A)
    A, b = A.astype(np.longdouble), b.astype(np.longdouble)
    x, r = np.zeros(A.shape[1], np.longdouble), np.zeros(len(b), np.longdouble)
    for _ in range(30):
        f, g = (b - r - A @ x).astype(float), (A.T @ r).astype(float)
        w = np.linalg.solve(R.T, g)
        x, r = x + np.linalg.solve(R, Q.T @ f + w), r + f - Q @ (Q.T @ f + w)
    return x.astype(float)


def test_single_precision__is_as_exact_as_its_numbers():
    rng = np.random.default_rng(3)
    A = rng.standard_normal((40, 10)).astype(np.float32).astype(float)
    b = A @ rng.standard_normal(10)
    eps = float(np.finfo(np.float32).eps)
    found = fitted(A, b, eps=eps)
    assert 1e-9 < found.error[0] / np.linalg.norm(found.x) < 1e-6


def test_consistent_equations_without_a_full_rank__are_satisfied_to_rounding():
    """Nearly dependent cosines, which LAPACK satisfies to 2e-15."""
    t = np.sort(np.random.default_rng(0).random(200))
    for phase in (0.0, 0.1, 0.5):
        A = np.cos(np.pi * t[:, None] * 0.4 * np.arange(35) + phase)
        b = A @ np.random.default_rng(1).standard_normal(35)
        found = fitted(A, b)
        assert found.rank < 35
        assert np.sqrt(found.residual_sq[0]) < 1e-12 * np.linalg.norm(b)


@pytest.mark.parametrize("size", [1e-140, 1e-100, 1e100, 1e140])
def test_scales__do_not_matter(size):
    rng = np.random.default_rng(4)
    A, b = rng.standard_normal((300, 20)), rng.standard_normal(300)
    found = fitted(size * A, size * b)
    assert relative_error(found.x[0], np.linalg.lstsq(A, b)[0]) < 1e-12


def test_units_of_columns__do_not_matter():
    rng = np.random.default_rng(5)
    A, units = rng.standard_normal((400, 30)), 10.0 ** rng.uniform(-6, 6, 30)
    b = A @ rng.standard_normal(30) + rng.standard_normal(400)
    found = fitted(A * units, b)
    np.testing.assert_allclose(found.x[0] * units, np.linalg.lstsq(A, b)[0], rtol=1e-10)


@pytest.mark.parametrize("n", [9, 60])
def test_deficient_systems_with_columns_of_any_unit__have_the_solution_nearest_to_the_start(n):
    A = np.random.default_rng(0).standard_normal((n, 5))[:, [0, 1, 2, 3, 4, 0, 2]]
    A *= [1.0, 1e3, 1.0, 1.0, 1e-3, 2.0, 5.0]
    b, x0 = np.random.default_rng(1).standard_normal((n, 2)), np.random.default_rng(2).standard_normal((2, 7))
    found = fitted(A, b, x0=x0)
    naive = x0.T + np.linalg.pinv(A) @ (b - A @ x0.T)
    assert found.rank == 5
    assert relative_error(found.x.T, naive) < 1e-12
    np.testing.assert_allclose(found.residual_sq, ((b - A @ naive) ** 2).sum(axis=0), rtol=1e-9)
    assert (np.linalg.norm(found.x.T - naive, axis=0) <= 10 * found.error).all()


@pytest.mark.parametrize("shape", [(20, 15), (10, 9), (110, 60)])
@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_barely_tall_systems__take_one_factor(shape, noise, monkeypatch):
    rng = np.random.default_rng(5)
    A, b = rng.standard_normal(shape), noise * rng.standard_normal((shape[0], 4))
    b += A @ rng.standard_normal((shape[1], 4))
    monkeypatch.setattr(dense, "_by_squares", None)  # would be called if one factor left a doubt
    found, expected = fitted(A, b), np.linalg.lstsq(A, b)[0]
    assert found.n_reads == 1
    assert (np.linalg.norm(found.x.T - expected, axis=0) <= found.error).all()
    assert (found.error <= 1e-9 * np.linalg.norm(expected, axis=0)).all()
    np.testing.assert_allclose(found.residual_sq, ((b - A @ expected) ** 2).sum(axis=0), rtol=1e-9, atol=1e-20)


@pytest.mark.parametrize("k", [0, 2])
def test_sample__agrees_only_if_others_satisfy_its_solution(k):
    rng = np.random.default_rng(0)
    A = rng.standard_normal((400, 12))
    x = rng.standard_normal((12, k) if k else 12)
    assert dense.sample_agrees(A, A @ x)
    assert dense.sample_agrees(np.asfortranarray(A * 10.0 ** rng.uniform(-3, 3, 12)), A @ x)  # for another x
    assert not dense.sample_agrees(A, A @ x + 1e-6 * rng.standard_normal((A @ x).shape))
    for repeated in (A[:, [0, *range(11)]], A * (np.arange(12) > 0)):  # singular: x is arbitrary, or huge
        assert not dense.sample_agrees(repeated, repeated @ x + rng.standard_normal((A @ x).shape))


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("place", [(0, 0), (0, 1), (-1, -1), "b"])
@pytest.mark.parametrize("shape", [(30, 3), (400, 20), (3000, 40)])
def test_numbers_that_are_not_finite__are_found_before_lapack_complains(shape, place, value, capfd):
    rng = np.random.default_rng(0)
    A, b = rng.standard_normal(shape), rng.standard_normal((shape[0], 1))
    (b if place == "b" else A)[-1 if place == "b" else place] = value
    with np.errstate(all="ignore"):
        assert dense.fit(A, b, None, 0.0, Tolerance(1e-6, 0.0, 2.2e-16)) is None
    assert capfd.readouterr() == ("", "")
