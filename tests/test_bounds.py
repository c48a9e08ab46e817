"""Bounds on x: comparison with scipy, optimality conditions, and errors."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import JIT, N_COLUMNS, N_ROWS, gaussian, relative_error
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, sparse

import rowsolve
from rowsolve import Status
from rowsolve.estimate.estimator import ErrorEstimator
from rowsolve.estimate.tolerance import Tolerance
from rowsolve.lstsq.box_descent import BoxDescent
from rowsolve.lstsq.triangle import triangulate
from rowsolve.methods.base import RowMethod
from rowsolve.problem.system import System
from rowsolve.sources import open_rows

INF = np.inf
ABLE = sorted(name for name, method in rowsolve.METHODS.items() if method().can.bounds)
UNABLE = sorted(set(rowsolve.METHODS) - set(ABLE))
ROW_METHODS = [name for name in ABLE if issubclass(rowsolve.METHODS[name], RowMethod)]
STORES = pytest.mark.parametrize("store", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
KINDS = pytest.mark.parametrize("kind", ["auto", "none", "all"])
SIDES = ["nonnegative", "box", "outside", "fixed", "degenerate", "one-sided"]


def problem(sides, n_rows=200, n_columns=20, condition=1.0, noise=0.1, seed=0):
    """Return A, b, low and high."""
    rng = np.random.default_rng(seed)
    V = np.linalg.qr(rng.standard_normal((n_columns, n_columns)))[0]
    A = rng.standard_normal((n_rows, n_columns)) * np.geomspace(1, 1 / condition, n_columns) @ V
    x, error = rng.standard_normal(n_columns), rng.standard_normal(n_rows)
    low, high = np.zeros(n_columns), np.full(n_columns, INF)
    if sides in ("box", "fixed"):
        low, high = np.full(n_columns, -0.3), np.full(n_columns, 0.4)
    if sides == "fixed":
        high[::3] = low[::3]
    if sides == "outside":  # every entry presses against a bound
        low, high = rng.uniform(50, 60, n_columns), rng.uniform(60, 70, n_columns)
    if sides == "one-sided":
        low[::2], high[1::3] = -INF, 0.2
    if sides == "degenerate":  # on a bound without pressing against it
        x = np.maximum(x, 0.0)
        error -= A @ np.linalg.lstsq(A, error)[0]
    b = A @ x
    return A, b + noise * np.std(b) * error, low, high


def reference(A, b, low, high, damp=0.0):
    """Return the solution of scipy, which does not take equal bounds."""
    p = A.shape[1]
    A, b = np.vstack([A, damp * np.eye(p)]), np.concatenate([b, np.zeros(p)])
    x, free = low.copy(), low < high
    right, limits = b - A[:, ~free] @ low[~free], (low[free], high[free])
    x[free] = optimize.lsq_linear(A[:, free], right, limits, method="bvls", tol=1e-14, max_iter=1000).x
    return x


def is_optimal(A, b, x, low, high, damp=0.0, tolerance=1e-7):
    """Whether x satisfies the Karush-Kuhn-Tucker conditions."""
    assert (x >= low).all()
    assert (x <= high).all()
    downhill = A.T @ (b - A @ x) - damp**2 * x
    size = tolerance * (np.linalg.norm(A) * np.linalg.norm(b) + np.linalg.norm(A) ** 2 * np.linalg.norm(x))
    return (downhill[x < high] <= size).all() and (downhill[x > low] >= -size).all()


@STORES
@KINDS
@pytest.mark.parametrize("sides", SIDES)
def test_refined__agrees_with_scipy(sides, kind, store):
    for seed in range(3 if JIT else 1):
        A, b, low, high = problem(sides, seed=seed, noise=0.1 * (seed % 2))
        solution = rowsolve.solve(store(A), b, rowsolve.Refined(kind), bounds=(low, high), rtol=1e-8, rng=seed)
        expected = reference(A, b, low, high)
        error = relative_error(solution.x, expected)
        assert solution.status is Status.CONVERGED
        assert error <= 2e-8
        assert error / 5 <= solution.error_estimate or error < 1e-9
        assert is_optimal(A, b, solution.x, low, high)
        assert "x is the least-squares solution within the bounds" in solution.message


@pytest.mark.parametrize("condition", [1e2, 1e4])
@pytest.mark.parametrize("sides", SIDES)
@pytest.mark.parametrize("shape", [(60, 10), (400, 40)])
def test_refined__agrees_with_scipy_where_a_is_ill_conditioned(shape, sides, condition):
    A, b, low, high = problem(sides, *shape, condition=condition, seed=1)
    solution = rowsolve.solve(A, b, "refined", bounds=(low, high), rng=0)
    assert solution.status is Status.CONVERGED
    assert relative_error(solution.x, reference(A, b, low, high)) <= 2e-6


@pytest.mark.compiled
@pytest.mark.parametrize("sides", SIDES)
def test_refined__is_right_without_a_factor_too(sides):
    for seed in range(4):
        A, b, low, high = problem(sides, 400, 40, condition=100.0, seed=seed)
        solution = rowsolve.solve(A, b, rowsolve.Refined("none"), bounds=(low, high), rng=seed, max_passes=5000)
        assert solution.status is Status.CONVERGED
        assert relative_error(solution.x, reference(A, b, low, high)) <= 2e-6


def test_refined__agrees_with_nnls():
    A, b, _, _ = problem("nonnegative", 300, 30, seed=5)
    solution = rowsolve.solve(A, b, "refined", bounds=(0, INF), rtol=1e-10, rng=0)
    expected, residual = optimize.nnls(A, b)
    assert relative_error(solution.x, expected) < 1e-10
    np.testing.assert_array_equal(solution.x == 0.0, expected == 0.0)
    full = rowsolve.solve(A, b, "refined", bounds=(0, INF), check="full", rng=0)
    assert full.row_check.relative == pytest.approx(residual / np.linalg.norm(b), rel=1e-6)


@KINDS
def test_damp__goes_with_bounds(kind):
    A, b, low, high = problem("box", 100, 10)
    solution = rowsolve.solve(A, b, rowsolve.Refined(kind), bounds=(low, high), damp=5.0, rtol=1e-9, rng=0)
    assert solution.converged
    assert relative_error(solution.x, reference(A, b, low, high, damp=5.0)) < 2e-9


@KINDS
@STORES
def test_float32__is_taken_as_it_is(kind, store):
    A, b, low, high = problem("box", 300, 12)
    single = A.astype(np.float32)
    solution = rowsolve.solve(store(single), b, rowsolve.Refined(kind), bounds=(low, high), rtol=1e-5, rng=0)
    assert solution.converged
    assert relative_error(solution.x, reference(single.astype(float), b, low, high)) < 2e-5


@KINDS
@pytest.mark.parametrize("scale", [1e-140, 1e140])
def test_units__do_not_matter(kind, scale):
    A, b, low, high = problem("nonnegative", 100, 8)
    solution = rowsolve.solve(A * scale, b * scale, rowsolve.Refined(kind), bounds=(low, high), rng=0)
    assert solution.converged
    assert relative_error(solution.x, reference(A, b, low, high)) < 2e-6


@pytest.mark.compiled
@pytest.mark.parametrize("where", ["memory", "sparse", "file"])
@pytest.mark.parametrize("condition", [1.0, 1e9])
def test_tall_systems__are_read_two_or_three_times(where, condition, tmp_path):
    A, b, low, high = problem("nonnegative", 50_000, 60, condition=condition, seed=3)
    rows, options = A, {}
    if where == "sparse":
        A[np.random.default_rng(0).random(A.shape) < 0.9] = 0.0
        rows = sparse.csr_array(A)
    if where == "file":
        rows, options = tmp_path / "A.npy", {"memory": "8MB"}
        np.save(rows, A)
    solution = rowsolve.solve(rows, b, rowsolve.Refined("all"), bounds=(low, high), rng=0, **options)
    assert solution.status is Status.CONVERGED
    assert solution.passes <= 3
    assert relative_error(solution.x, optimize.nnls(A, b)[0]) < 1e-6
    assert solution.optimality < 1e-12


@KINDS
@STORES
@pytest.mark.parametrize("shape", [(300, 20), (15, 20)])
def test_equal_bounds__fix_the_entry(kind, store, shape):
    A, b, _, _ = problem("box", *shape)
    fixed = np.linspace(-1.0, 1.0, 20)
    solution = rowsolve.solve(store(A), b, rowsolve.Refined(kind), bounds=(fixed, fixed), rng=0)
    np.testing.assert_array_equal(solution.x, fixed)
    assert solution.converged


def test_gram_matrix_that_is_too_inaccurate__is_replaced_by_a_triangle(monkeypatch):
    A, b, low, high = problem("box", 400, 20, condition=1e9, seed=1)
    calls = []
    monkeypatch.setattr("rowsolve.lstsq.all_rows.triangulate", lambda *args: calls.append(args) or triangulate(*args))
    solution = rowsolve.solve(A, b, rowsolve.Refined("all"), bounds=(low, high), rng=0)
    assert calls
    assert solution.converged
    assert is_optimal(A, b, solution.x, low, high, tolerance=1e-14)


def test_time_limit_during_the_pivoting__leaves_an_x_within_the_bounds(monkeypatch, clock):
    A, b, low, high = problem("box", 400, 20)
    monkeypatch.setattr("rowsolve.lstsq.box._Exchange.run", lambda *_: setattr(clock, "now", 9.0))
    solution = rowsolve.solve(A, b, rowsolve.Refined("all"), bounds=(low, high), rng=0, max_seconds=8.0)
    assert solution.status is Status.MAX_SECONDS
    assert ((low <= solution.x) & (solution.x <= high)).all()


@pytest.mark.parametrize("kind", ["none", "all"])
@pytest.mark.parametrize("shape", [(12, 30), (200, 20)])
def test_one_of_many_solutions__is_as_good_as_any(kind, shape):
    A, b, low, high = problem("box", *shape, seed=2)
    A[:, 3], A[:, 7] = A[:, 4], 0.0
    solution = rowsolve.solve(A, b, rowsolve.Refined(kind), bounds=(low, high), rng=0, max_passes=5000)
    assert solution.converged
    assert is_optimal(A, b, solution.x, low, high)


@given(
    seed=st.integers(0, 2**32 - 1),
    shape=st.tuples(st.integers(1, 30), st.integers(1, 8)),
    damp=st.sampled_from([0.0, 0.5]),
    name=st.sampled_from(["auto", "refined"]),
)
def test_solution__cannot_be_bettered_within_the_bounds(seed, shape, damp, name):
    rng = np.random.default_rng(seed)
    A, b = rng.integers(-3, 4, shape).astype(float), rng.integers(-5, 6, shape[0]).astype(float)
    b[~A.any(axis=1)] = 0.0  # else the system is inconsistent whatever x is, and auto says so
    low = rng.choice([-INF, -1.0, 0.0, 0.5], shape[1])
    high = np.maximum(low, rng.choice([-0.5, 0.5, 1.0, INF], shape[1]))
    solution = rowsolve.solve(A, b, name, bounds=(low, high), damp=damp, rtol=1e-8, rng=0, max_passes=20_000)
    assert solution.status in (Status.CONVERGED, Status.PRECISION)
    assert is_optimal(A, b, solution.x, low, high, damp, tolerance=1e-6)


@pytest.mark.parametrize("name", ["auto", *rowsolve.METHODS])
def test_infinite_bounds__change_nothing(name):
    A, b, _ = gaussian(200, 10)
    free = rowsolve.solve(A, b, name, rng=0)
    bounded = rowsolve.solve(A, b, name, bounds=(np.full(10, -INF), INF), rng=0)
    np.testing.assert_array_equal(free.x, bounded.x)
    assert free.message == bounded.message


@pytest.mark.parametrize("name", ROW_METHODS)
@pytest.mark.parametrize("share", [0.0, 0.5])
def test_row_methods__find_the_solution_within_the_bounds_and_estimate_its_error(name, share):
    A, _, x_true = gaussian(seed=3)
    x_true = np.where(np.random.default_rng(3).random(N_COLUMNS) < share, 0.0, np.abs(x_true))
    solution = rowsolve.solve(A, A @ x_true, name, bounds=(0.0, INF), rng=0)
    error = relative_error(solution.x, x_true)
    assert solution.status is Status.CONVERGED
    assert (solution.x >= 0.0).all()
    assert error <= 2e-6
    assert error / 3 <= solution.error_estimate <= 10 * error


@pytest.mark.parametrize("name", ROW_METHODS)
def test_row_methods__report_that_no_x_within_the_bounds_satisfies_the_equations(name):
    A, b, x_true = gaussian(seed=4)
    assert (x_true < 0.0).any()
    solution = rowsolve.solve(A, b, name, bounds=(0.0, INF), rng=0)
    assert solution.status is Status.INCONSISTENT
    assert np.isnan(solution.error_estimate)
    assert "no x within the bounds satisfies the equations" in solution.message
    assert "method='refined' for the least-squares solution within the bounds" in solution.message
    assert (solution.x >= 0.0).all()


@pytest.mark.compiled
@pytest.mark.parametrize("name", ["cyclic", "randomized", "block"])
@pytest.mark.parametrize("memory", [0, 5])
def test_row_methods__find_one_of_many_solutions(name, memory):
    rng = np.random.default_rng(6)
    A, x = rng.standard_normal((40, 100)), np.maximum(rng.standard_normal(100), 0.0)
    b = A @ x
    method = rowsolve.METHODS[name](n_directions=memory)
    solution = rowsolve.solve(A, b, method, bounds=(0.0, INF), rng=0, max_passes=5000)
    assert solution.status is Status.CONVERGED
    assert (solution.x >= 0.0).all()
    assert np.linalg.norm(A @ solution.x - b) < 5e-6 * np.linalg.norm(b)
    least_norm = np.linalg.lstsq(A, b)[0]
    assert (least_norm < 0.0).any()


@pytest.mark.compiled
def test_chains__keep_x_within_the_bounds():
    A, _, x_true = gaussian(4000, 1100)
    x_true = np.maximum(x_true, 0.0)
    one, two = (rowsolve.solve(A, A @ x_true, "block", bounds=(0, INF), rng=0, threads=k) for k in (1, 2))
    for solution in (one, two):
        assert solution.converged
        assert (solution.x >= 0.0).all()
        assert relative_error(solution.x, x_true) < 2e-6


def test_start__is_brought_within_the_bounds():
    A, b, _ = gaussian(100, 5)
    seen = []
    rowsolve.solve(
        A, b, "cyclic", x0=np.full(5, 9.0), bounds=(-8, 8), callback=lambda event: seen.append(event.x.copy())
    )
    assert max(np.abs(x).max() for x in seen) <= 8.0
    stopped = rowsolve.solve(A, b, "refined", x0=np.full(5, 9.0), bounds=(-1, 1), callback=lambda _: True)
    assert np.abs(stopped.x).max() <= 1.0


@STORES
def test_auto__accepts_an_x_within_the_bounds_and_continues_otherwise(store):
    A, b, x_true = gaussian(N_ROWS, 12)
    inside = rowsolve.solve(store(A), b, bounds=(-10, 10), rng=0)
    assert relative_error(inside.x, x_true) < 1e-6
    np.testing.assert_allclose(inside.x, rowsolve.solve(store(A), b, rng=0).x, rtol=1e-12)
    outside = rowsolve.solve(store(A), b, bounds=(0, INF), rng=0)
    assert outside.method == "refined"
    assert outside.converged
    assert relative_error(outside.x, optimize.nnls(A, b)[0]) < 1e-6
    assert "'refined' computed the least-squares solution within the bounds" in outside.message
    assert outside.optimality < 1e-14


@pytest.mark.compiled
def test_auto__continues_if_the_solution_of_a_sample_is_outside_the_bounds():
    A, b, x_true = gaussian(30_000, 200)
    inside = rowsolve.solve(A, b, bounds=(-10, 10), rng=0)
    assert inside.method == "direct"
    assert relative_error(inside.x, x_true) < 1e-6
    outside = rowsolve.solve(A, b, bounds=(0, INF), rng=0)
    assert "x was outside the bounds" in outside.message
    assert relative_error(outside.x, optimize.nnls(A, b)[0]) < 1e-6


@pytest.mark.compiled
def test_auto__takes_rows_at_random_within_the_bounds():
    A, b, x_true = gaussian(12_000, 600)
    within = rowsolve.solve(A, A @ np.abs(x_true), bounds=(0, INF), rng=0)
    assert within.method == "randomized"
    assert relative_error(within.x, np.abs(x_true)) < 2e-6
    noisy = b + np.random.default_rng(1).standard_normal(12_000)
    solution = rowsolve.solve(A, noisy, bounds=(0, INF), rng=0)
    assert solution.method == "refined"
    assert solution.converged
    assert is_optimal(A, noisy, solution.x, 0.0, INF, tolerance=1e-6)


def test_outliers__stay_in_the_least_squares_solution_within_bounds():
    A, b, _ = gaussian(500, 10)
    b[3] += 1e4
    solution = rowsolve.solve(A, b, bounds=(0, INF), rng=0)
    assert solution.method == "refined"
    assert relative_error(solution.x, optimize.nnls(A, b)[0]) < 1e-6


@pytest.mark.parametrize("name", UNABLE)
def test_other_methods__raise_value_error(name):
    A, b, _ = gaussian(50, 5)
    with pytest.raises(ValueError, match=f"'{name}' does not support `bounds`. Try 'auto' or one of 'cyclic'"):
        rowsolve.solve(A, b, name, bounds=(0, INF))


@pytest.mark.parametrize(
    ("bounds", "error", "words"),
    [
        (0, ValueError, r"`bounds` must be a pair \(low, high\) of numbers or arrays, .* got 0\."),
        ((0, 1, 2), ValueError, r"`bounds` must be a pair .* got \(0, 1, 2\)"),
        ((0, [1, 1, -1, 1]), ValueError, r"`bounds` are infeasible for entry 2 of x: from 0 to -1\."),
        ((INF, INF), ValueError, r"`bounds` are infeasible for entry 0 of x: from inf to inf\."),
        (([0, 0, 0], 1), ValueError, r"the lower bound .* one entry per column of `A`, 4: got shape \(3,\)"),
        ((0, np.ones((4, 1))), ValueError, r"the upper bound .* got shape \(4, 1\)"),
        ((0, [1, np.nan, 1, 1]), ValueError, r"`bounds` must not be NaN, but the upper bound of entry 1 is\."),
        (("low", 1), TypeError, r"the lower bound must be a number or an array of numbers, got 'low'"),
    ],
)
def test_bad_bounds__are_explained(bounds, error, words):
    with pytest.raises(error, match=words):
        rowsolve.solve(np.ones((20, 4)), np.ones(20), bounds=bounds)


def test_several_right_hand_sides__raise_value_error():
    with pytest.raises(ValueError, match="`bounds` require a single right-hand side, got 3"):
        rowsolve.solve(np.ones((20, 4)), np.ones((20, 3)), bounds=(0, 1))


def test_factor_of_a_sample__raises_value_error():
    A, b, _ = gaussian(50, 5)
    with pytest.raises(ValueError, match="with `bounds` a factor of a sample"):
        rowsolve.solve(A, b, rowsolve.Refined("sample"), bounds=(0, 1))


@pytest.mark.parametrize(
    "limits", [{"rtol": 0.0}, {"rtol": 1e-3}, {"callback": lambda event: True}, {"max_passes": 0.01}, {"max_passes": 1}]
)
def test_auto__returns_an_x_within_the_bounds_for_every_status(limits):
    A = gaussian(500, 5)[0]
    seen = []
    callback = limits.pop("callback", lambda event: seen.append(event.x.min()))
    solution = rowsolve.solve(A, -A @ np.ones(5), bounds=(0, np.inf), rng=0, callback=callback, **limits)
    assert (solution.x >= 0).all()
    assert all(least >= 0 for least in seen)
    if not limits.get("max_passes") and seen:
        assert solution.method == "refined"
        assert not solution.x.any()


@STORES
@pytest.mark.parametrize("damp", [0.0, 3.0])
def test_optimality__is_computed_afresh_without_a_factor_too(store, damp):
    A, b, low, high = problem("nonnegative")
    solution = rowsolve.solve(store(A), b, rowsolve.Refined("none"), bounds=(low, high), damp=damp, rng=0)
    x = solution.x
    slope = A.T @ (b - A @ x) - damp**2 * x
    inwards = np.where(x > 0.0, np.abs(slope), np.maximum(slope, 0.0))
    lengths = np.sqrt(np.sum(A**2, axis=0) + damp**2)
    assert solution.status is Status.CONVERGED
    assert solution.optimality == pytest.approx(np.max(inwards / lengths) / np.linalg.norm(b), rel=1e-6, abs=1e-14)
    assert solution.optimality < 1e-5


@STORES
def test_a_point_that_is_not_optimal__is_detected(store):
    A, b, low, high = problem("nonnegative")
    for x, expected in ((np.ones(20), False), (reference(A, b, low, high), True)):
        system = System(open_rows(store(A)), b, bounds=(low, high))
        estimator = ErrorEstimator(Tolerance(1e-6, 0.0, 2.2e-16), x[None])
        descent = BoxDescent(system, estimator, np.random.default_rng(0))
        descent.start()
        optimality, is_optimal = descent.certify(1e-6)
        assert is_optimal == expected
        assert (optimality < 1e-10) == expected


def test_x_that_is_not_optimal__is_never_called_converged(monkeypatch):
    A, b, low, high = problem("box")
    with monkeypatch.context() as patch:
        patch.setattr("rowsolve.lstsq.box._Exchange.run", lambda *_: None)  # x stays where it is
        solution = rowsolve.solve(A, b, rowsolve.Refined("all"), bounds=(low, high), rng=0)
        assert solution.status is Status.PRECISION
        assert solution.error_estimate >= 1.0
    monkeypatch.setattr(BoxDescent, "certify", lambda *_: (1.0, False))
    monkeypatch.setattr("rowsolve.methods.refined.price_of_all", lambda _: INF)
    solution = rowsolve.solve(A, b, rowsolve.Refined("none"), bounds=(low, high), rng=0)
    assert solution.status is Status.PRECISION
