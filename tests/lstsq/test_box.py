"""Least squares within bounds on small systems: never worse than scipy, and optimal where it says so."""

from __future__ import annotations

from functools import partial
from itertools import product

import numpy as np
import pytest
from scipy import optimize

from rowsolve._monitor import Tolerance
from rowsolve.lstsq import box
from rowsolve.lstsq.box import slopes_inwards
from rowsolve.lstsq.normal import factor_gram
from rowsolve.lstsq.state import compress, slopes_at
from rowsolve.lstsq.triangle import triangle_of, triangulate

INF = np.inf
EPS = float(np.finfo(float).eps)
KINDS = ["gaussian", "one-hot", "positive", "repeated", "low rank"]


def matrix(kind, n, p, rng):
    if kind == "one-hot":
        A = np.eye(p)[rng.integers(0, p, n)]
        A[:, 0] = 1.0
        return A
    if kind == "low rank":
        return rng.standard_normal((n, 2)) @ rng.standard_normal((2, p))
    A = rng.standard_normal((n, p))
    if kind == "repeated":
        return A[:, rng.integers(0, p, p)]
    return np.abs(A) if kind == "positive" else A


def bounds_of(sides, p, rng):
    if sides == "nonnegative":
        return np.zeros(p), np.full(p, INF)
    low = -rng.random(p)
    high = low + rng.random(p) + 1e-3
    if sides == "one-sided":
        low[rng.random(p) < 0.5] = -INF
    if sides == "fixed":
        high[::3] = low[::3]
    return low, high


def cost(A, b, x, damp=0.0):
    return np.sum((A @ x - b) ** 2) + damp**2 * x @ x


def best_of_scipy(A, b, low, high):
    if (low == 0).all() and (high == INF).all():
        return optimize.nnls(A, b, maxiter=100 * A.shape[1])[0]
    x, free = low.copy(), low < high
    right = b - A[:, ~free] @ low[~free]
    x[free] = optimize.lsq_linear(A[:, free], right, (low[free], high[free]), "bvls", tol=1e-14, max_iter=1000).x
    return x


def fit_within(A, b, bounds, x0, damp, rtol=1e-12, state=None, **more):
    """Fit rows in memory: by their triangle, or by another state."""
    b = b[:, None]
    state = triangulate(A, b).damped(damp) if state is None else state
    return box.fit_within(state, bounds, x0, damp, Tolerance(rtol, 0.0, EPS), partial(slopes_at, A, b), **more)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sides", ["nonnegative", "box", "one-sided", "fixed"])
def test_cost__is_at_least_as_low_as_that_of_scipy(kind, sides):
    rng = np.random.default_rng([KINDS.index(kind), len(sides)])
    for turn in range(20):
        n, p = rng.integers(1, 30, 2)
        A, (low, high) = matrix(kind, n, p, rng), bounds_of(sides, p, rng)
        b = rng.standard_normal(n) if turn % 2 else A @ np.clip(rng.standard_normal(p), low, high)
        found = fit_within(A, b, (low, high), np.clip(0.0, low, high), 0.0)
        assert ((low <= found.x) & (found.x <= high)).all()
        assert cost(A, b, found.x) <= cost(A, b, best_of_scipy(A, b, low, high)) * (1 + 1e-10) + 1e-20 * (b @ b)
        assert found.is_optimal
        assert found.optimality < 1e-13
        assert found.residual_sq == pytest.approx(cost(A, b, found.x), rel=1e-9, abs=1e-25)


def test_start__does_not_matter_where_there_is_one_solution():
    rng = np.random.default_rng(1)
    A, b = rng.standard_normal((60, 12)), rng.standard_normal(60)
    low, high = np.full(12, -0.05), np.full(12, 0.05)
    starts = [low, high, np.zeros(12), np.clip(rng.standard_normal(12), low, high)]
    found = [fit_within(A, b, (low, high), start, 0.0) for start in starts]
    for one in found:
        np.testing.assert_allclose(one.x, found[0].x, rtol=1e-12)
        assert one.unique
        assert one.error < 1e-14


def test_many_solutions__are_told():
    A = np.repeat(np.random.default_rng(2).standard_normal((20, 3)), 2, axis=1)
    found = fit_within(A, A @ np.ones(6), (np.zeros(6), np.full(6, INF)), np.zeros(6), 0.0)
    assert found.is_optimal
    assert not found.unique
    assert found.residual_sq < 1e-25


@pytest.mark.parametrize("damp", [0.1, 10.0])
def test_damping__is_a_row_for_each_column(damp):
    rng = np.random.default_rng(3)
    A, b = rng.standard_normal((10, 15)), rng.standard_normal(10)
    low, high = np.zeros(15), np.full(15, INF)
    found = fit_within(A, b, (low, high), low, damp)
    expected = optimize.nnls(np.vstack([A, damp * np.eye(15)]), np.r_[b, np.zeros(15)])[0]
    np.testing.assert_allclose(found.x, expected, atol=1e-12)


def test_slopes_that_press_against_a_bound__do_not_count():
    low, high = np.array([0.0, 0.0, 0.0, 1.0]), np.array([1.0, 1.0, 1.0, 1.0])
    slope, x = np.array([-2.0, 3.0, 4.0, 5.0]), np.array([0.0, 1.0, 0.5, 1.0])
    np.testing.assert_array_equal(slopes_inwards(slope, x, low, high), [0.0, 0.0, 4.0, 0.0])
    np.testing.assert_array_equal(slopes_inwards(-slope, x, low, high), [2.0, -3.0, -4.0, 0.0])
