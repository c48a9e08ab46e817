"""Least squares within bounds on small systems: never worse than scipy, and optimal if reported."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy import optimize

from rowsolve.estimate.estimator import ErrorEstimator
from rowsolve.estimate.tolerance import Tolerance
from rowsolve.lstsq import box
from rowsolve.lstsq.box import slopes_inwards
from rowsolve.lstsq.state import compress, slopes_at
from rowsolve.lstsq.triangle import triangulate

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


class Passes:
    """Passes over rows in memory, which are counted."""

    def __init__(self, A, b):
        self.A, self.b, self.count = A, b[:, None], 0

    def __call__(self, x):
        self.count += 1
        return slopes_at(self.A, self.b, x)


def fit_within(A, b, bounds, x0, damp, rtol=1e-12, **more):
    """Fit rows in memory, by their triangle."""
    state = triangulate(A, b[:, None]).damped(damp)
    estimator = ErrorEstimator(Tolerance(rtol, 0.0, EPS), x0[None])
    return box.fit_within(state, bounds, estimator, damp, Passes(A, b), **more)


def fit_by_squares(A, b, bounds, x0, damp=0.0, rtol=1e-12, passes=None):
    """Fit rows in memory, by their Gram matrix."""
    estimator = ErrorEstimator(Tolerance(rtol, 0.0, EPS), x0[None])
    return box.fit_within(compress(A, b[:, None]), bounds, estimator, damp, passes or Passes(A, b))


def best_of_all(A, b, low, high):
    """Try all combinations of entries that are free, on their lower and on their upper bound."""
    best = np.clip(0.0, low, high)
    for places in product((-1, 0, 1), repeat=len(low)):
        place = np.array(places)
        x = np.where(place < 0, low, high)
        free = place == 0
        if not np.isfinite(x[~free]).all():
            continue
        x[free] = np.linalg.lstsq(A[:, free], b - A[:, ~free] @ x[~free])[0]
        if ((low <= x) & (x <= high)).all() and cost(A, b, x) < cost(A, b, best):
            best = x
    return best


@pytest.mark.parametrize("sides", ["nonnegative", "box", "one-sided", "fixed"])
@pytest.mark.parametrize("fit", [fit_within, fit_by_squares])
def test_tiny_systems__have_the_best_of_all_combinations(sides, fit):
    rng = np.random.default_rng(len(sides))
    for _ in range(10):
        A, b, (low, high) = rng.standard_normal((12, 4)), rng.standard_normal(12), bounds_of(sides, 4, rng)
        found = fit(A, b, (low, high), np.clip(0.0, low, high), 0.0)
        np.testing.assert_allclose(found.x, best_of_all(A, b, low, high), atol=1e-12)
        assert found.unique


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


def test_many_solutions__are_reported():
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


def test_gradients_that_point_outwards_at_a_bound__do_not_count():
    low, high = np.array([0.0, 0.0, 0.0, 1.0]), np.array([1.0, 1.0, 1.0, 1.0])
    slope, x = np.array([-2.0, 3.0, 4.0, 5.0]), np.array([0.0, 1.0, 0.5, 1.0])
    np.testing.assert_array_equal(slopes_inwards(slope, x, low, high), [0.0, 0.0, 4.0, 0.0])
    np.testing.assert_array_equal(slopes_inwards(-slope, x, low, high), [2.0, -3.0, -4.0, 0.0])


@pytest.mark.parametrize("kind", ["gaussian", "one-hot", "repeated"])
def test_gram_matrix__gives_the_same_with_one_or_two_passes_more(kind):
    rng = np.random.default_rng(4)
    A, b, (low, high) = matrix(kind, 400, 12, rng), rng.standard_normal(400), bounds_of("box", 12, rng)
    passes, start = Passes(A, b), np.clip(0.0, low, high)
    found, expected = fit_by_squares(A, b, (low, high), start, passes=passes), fit_within(A, b, (low, high), start, 0.0)
    assert found.is_optimal
    assert found.residual_sq == pytest.approx(expected.residual_sq, rel=1e-12)
    assert found.unique == expected.unique
    assert passes.count <= (1 if kind == "gaussian" else 2)


def test_gram_matrix__that_loses_a_direction_is_not_used():
    """Columns that differ by 1e-9 are equal in a Gram matrix; a pass shows that they are not."""
    rng = np.random.default_rng(5)
    A = rng.standard_normal((300, 4))
    A[:, 3] = A[:, 2] + 1e-9 * A[:, 3]
    b, low, high = A @ np.array([1.0, -1.0, 1e3, -1e3]), np.full(4, -INF), np.array([INF, -0.5, INF, INF])
    assert fit_by_squares(A, b, (low, high), low.clip(-1), rtol=1e-6) is None
    found = fit_within(A, b, (low, high), np.full(4, -1.0), 0.0, rtol=1e-6)
    assert found.is_optimal
    np.testing.assert_allclose(found.x, [1.0, -1.0, 1e3, -1e3], rtol=1e-5)


def test_columns_that_are_all_but_dependent__do_not_hide_a_better_x():
    """Gradients are below rounding, and yet the cost decreases: never worse than brute force."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        A = rng.standard_normal((40, 1)) + 1e-8 * rng.standard_normal((40, 4))
        b, low, high = rng.standard_normal(40), np.full(4, -INF), np.where(rng.random(4) < 0.5, 0.0, INF)
        found = fit_within(A, b, (low, high), np.zeros(4), 0.0)
        assert cost(A, b, found.x) <= cost(A, b, best_of_all(A, b, low, high)) * (1 + 1e-6)


@pytest.mark.parametrize("beyond", [1e-14, 1e-13])
def test_rank__is_that_of_all_rows_and_not_of_their_triangle(beyond):
    """Singular values up to eps times the number of rows count as zero, as in numpy's lstsq; x is not huge."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        U, V = np.linalg.qr(rng.standard_normal((2000, 6)))[0], np.linalg.qr(rng.standard_normal((6, 6)))[0]
        A, b = U * np.array([1.0, 0.7, 1e-7, beyond, beyond, beyond]) @ V.T, rng.standard_normal(2000)
        found = fit_within(A, b, (np.full(6, -1e20), np.full(6, 1e20)), np.zeros(6), 0.0, rtol=1e-6)
        best, _, rank, _ = np.linalg.lstsq(A, b)
        off = U[:, :rank].T @ (b.astype(np.longdouble) - A.astype(np.longdouble) @ found.x) / [1.0, 0.7, 1e-7]
        assert rank == 3
        assert np.linalg.norm(found.x) < 10.0 * np.linalg.norm(best)
        assert np.linalg.norm(off.astype(float)) < 3.0 * found.error


@pytest.mark.parametrize("condition", [1e2, 1e5, 1e8])
@pytest.mark.parametrize("noise", [1e-9, 0.1])
def test_error__is_that_of_the_free_entries(condition, noise):
    for seed in range(5):
        rng = np.random.default_rng(seed)
        V = np.linalg.qr(rng.standard_normal((6, 6)))[0]
        A = rng.standard_normal((80, 6)) * np.geomspace(1.0, 1.0 / condition, 6) @ V
        b = A @ rng.standard_normal(6)
        b += noise * np.std(b) * rng.standard_normal(80)
        low, high = np.full(6, -0.5), np.full(6, INF)
        found = fit_within(A, b, (low, high), np.zeros(6), 0.0)
        free = found.x > low
        rows, right = A[:, free].astype(np.longdouble), b - A[:, ~free].astype(np.longdouble) @ low[~free]
        R = np.linalg.qr(A[:, free], mode="r")
        x = found.x[free].astype(np.longdouble)
        for _ in range(5):  # refined in extended precision
            r = right - rows @ x
            x += np.linalg.solve(R, np.linalg.solve(R.T, (rows.T @ r).astype(float)))
        assert np.linalg.norm((x - found.x[free]).astype(float)) <= 10 * found.error + 1e-15


def test_no_time__leaves_an_x_within_the_bounds_that_is_not_called_optimal():
    rng = np.random.default_rng(6)
    A, b, (low, high) = rng.standard_normal((50, 8)), rng.standard_normal(50), bounds_of("box", 8, rng)
    found = fit_within(A, b, (low, high), low, 0.0, has_time=lambda: False)
    assert not found.is_optimal
    assert ((low <= found.x) & (found.x <= high)).all()
    assert found.residual_sq == pytest.approx(cost(A, b, found.x))


@pytest.mark.parametrize("shape", [(5, 1), (4, 3)])
def test_rows_of_zeros__leave_x_where_it_is(shape):
    start = np.full(shape[1], 0.5)
    found = fit_within(np.zeros(shape), np.ones(shape[0]), (np.zeros(shape[1]), np.ones(shape[1])), start, 0.0)
    np.testing.assert_array_equal(found.x, start)
    assert found.is_optimal
    assert not found.unique
