"""The error estimate of the monitor, compared with the true error."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import gaussian, relative_error

import rowsolve
from rowsolve.estimate.monitor import Monitor, rows_left
from rowsolve.estimate.tolerance import Tolerance

UNIFORM = rowsolve.Randomized(weights="uniform")


def with_spectrum(values, n_rows, seed=0):
    rng = np.random.default_rng(seed)
    p = len(values)
    basis, _ = np.linalg.qr(rng.standard_normal((p, p)))
    A = rng.standard_normal((n_rows, p)) * values @ basis
    x = rng.choice([-1.0, 1.0], p) @ basis  # the same part in every direction
    return A, A @ x, x


def ratios(A, b, x_true, **options):
    """Return the estimated error divided by the true error after every burst."""
    found = []

    def note(event):
        found.append(event.error_estimate * np.linalg.norm(event.x) / np.linalg.norm(event.x - x_true))

    solution = rowsolve.solve(A, b, UNIFORM, callback=note, rng=1, **options)
    return solution, np.array(found)


@pytest.mark.compiled
@pytest.mark.parametrize(
    "values",
    [np.ones(200), np.logspace(0, -1, 200), np.append(np.ones(199), 1e-2), np.append(10 * np.ones(5), np.ones(195))],
    ids=["flat", "decaying", "one weak direction", "outliers"],
)
def test_estimate__is_correct_throughout_for_any_spectrum(values):
    A, b, x_true = with_spectrum(values, 4000)
    _, found = ratios(A, b, x_true, max_passes=30.0)
    settled = found[3:]
    assert np.median(settled) == pytest.approx(1.0, abs=0.4)
    assert np.quantile(settled, 0.02) > 1 / 3
    assert np.quantile(settled, 0.98) < 5


@pytest.mark.compiled
def test_estimate__includes_directions_with_small_drops():
    # The rows barely touch one direction, so the steps become tiny while x is still off.
    A, b, x_true = with_spectrum(np.append(np.ones(199), 1e-6), 4000)
    solution = rowsolve.solve(A, b, UNIFORM, rtol=1e-4, rng=1)
    error = relative_error(solution.x, x_true)
    assert error > 1e-3
    assert solution.status is rowsolve.Status.SLOW
    assert solution.error_estimate == pytest.approx(error, rel=0.2)
    assert "more passes" in solution.message


@pytest.mark.compiled
def test_warm_start__in_slow_directions_is_not_mistaken_for_the_solution():
    A, b, x_true = with_spectrum(np.append(np.ones(199), 1e-2), 4000)
    start = rowsolve.solve(A, b, UNIFORM, rtol=0.0, max_passes=5.0, rng=0).x  # all of its error is in one direction
    before = relative_error(start, x_true)
    solution = rowsolve.solve(A, b, UNIFORM, x0=start, rtol=before / 5, max_passes=20.0, rng=1)
    assert not solution.converged
    assert relative_error(solution.x, x_true) > before / 5


@pytest.mark.compiled
def test_continuing_an_unfinished_run__does_not_forget_its_slow_part():
    wrong = 0
    for seed in range(12):
        A, b, x_true = with_spectrum(np.append(np.ones(99), 1e-3), 2000, seed)
        start = rowsolve.solve(A, b, UNIFORM, max_passes=0.8, rng=seed).x
        solution = rowsolve.solve(A, b, UNIFORM, x0=start, rtol=1e-3, rng=seed + 100)
        wrong += solution.converged and relative_error(solution.x, x_true) > 5e-3
    assert wrong <= 1  # one case of forty is allowed for


@pytest.mark.compiled
@pytest.mark.parametrize("name", sorted(rowsolve.METHODS))
def test_a_line_against_the_year__is_never_called_inconsistent(name):
    A = np.column_stack([np.ones(200), np.linspace(2000, 2020, 200)])
    solution = rowsolve.solve(A, A @ [-4000.0, 2.0], name, rng=0)
    assert solution.status in (rowsolve.Status.SLOW, rowsolve.Status.CONVERGED)


@pytest.mark.parametrize("p", [1, 2, 3, 4])
def test_noise__is_found_with_very_few_columns(p):
    for seed in range(6):
        A, b, _ = gaussian(200, p, seed=seed, noise=0.1)
        solution = rowsolve.solve(A, b, UNIFORM, rng=seed)
        assert solution.status is rowsolve.Status.INCONSISTENT
        assert solution.passes < 20
        assert solution.error_estimate > 0.1 * relative_error(solution.x, np.linalg.lstsq(A, b)[0])


def test_a_short_budget__is_not_called_slow():
    A, b, _ = gaussian(2000, 100)
    solution = rowsolve.solve(A, b, UNIFORM, rng=0, max_passes=1.2)
    assert solution.status is rowsolve.Status.MAX_PASSES


@pytest.mark.compiled
def test_long_runs__of_small_systems_take_few_bursts():
    A, b, _ = with_spectrum(np.array([1.0, 1.0, 1.0, 1.0, 0.01]), 1000)
    solution = rowsolve.solve(A, b, UNIFORM, rng=0)
    assert solution.converged
    assert solution.rows_read > 100_000
    assert len(solution.history) < 1500


@pytest.mark.compiled
def test_slow_but_consistent__is_never_called_inconsistent():
    values = np.logspace(0, -4, 40)
    for seed in range(2):
        A, b, _ = with_spectrum(values, 400, seed)
        assert rowsolve.solve(A, b, UNIFORM, rng=seed).status is rowsolve.Status.SLOW


@pytest.mark.compiled
def test_a_distant_solution_in_a_weak_direction__is_not_called_inconsistent():
    values = np.append(np.ones(39), 1e-6)
    rng = np.random.default_rng(0)
    basis, _ = np.linalg.qr(rng.standard_normal((40, 40)))
    A = rng.standard_normal((800, 40)) * values @ basis
    b = A @ (np.append(np.ones(39), 1e6) @ basis)  # consistent, but x has to go a million times as far
    for seed in range(5):
        solution = rowsolve.solve(A, b, UNIFORM, rng=seed)
        assert solution.status is rowsolve.Status.SLOW


def test_inconsistent_and_slow__is_reported_as_possible():
    A, b, _ = with_spectrum(np.append(np.ones(39), 1e-6), 800)
    b = b + 0.1 * np.std(b) * np.random.default_rng(2).standard_normal(800)
    solution = rowsolve.solve(A, b, UNIFORM, rng=0)
    assert solution.status is rowsolve.Status.SLOW
    assert "also seems to be inconsistent" in solution.message
    assert solution.error_estimate > 1  # the least-squares solution is far away along the weak direction


@pytest.mark.parametrize("noise", [1e-1, 1e-3, 1e-5])
def test_noise__is_found_at_any_level_above_the_tolerance(noise):
    A, b, _ = gaussian(noise=noise, seed=3)
    solution = rowsolve.solve(A, b, UNIFORM, rtol=noise / 100, rng=0)
    assert solution.status is rowsolve.Status.INCONSISTENT
    assert relative_error(solution.x, np.linalg.lstsq(A, b)[0]) < noise


def test_noise__below_the_tolerance_does_not_matter():
    A, b, _ = gaussian(noise=1e-9, seed=3)
    solution = rowsolve.solve(A, b, UNIFORM, rtol=1e-6, rng=0)
    assert solution.status is rowsolve.Status.CONVERGED
    assert relative_error(solution.x, np.linalg.lstsq(A, b)[0]) < 2e-6


def test_precision__is_the_status_if_the_tolerance_is_zero():
    A, b, x_true = gaussian(seed=1)
    solution = rowsolve.solve(A, b, UNIFORM, rtol=0.0, rng=0)
    assert solution.status is rowsolve.Status.PRECISION
    assert relative_error(solution.x, x_true) < 1e-14
    assert solution.error_estimate < 1e-13


def test_precision__of_float32_data_is_respected():
    A, _, x_true = gaussian(seed=1)
    A, x_true = A.astype(np.float32), x_true.astype(np.float32)
    solution = rowsolve.solve(A, A @ x_true, UNIFORM, rtol=1e-10, rng=0)
    assert solution.status is rowsolve.Status.PRECISION
    assert relative_error(solution.x, x_true) < 1e-6
    exact = A.astype(float) @ x_true  # b in float64: the rows are then exact numbers, and so is the answer
    assert relative_error(rowsolve.solve(A, exact, UNIFORM, rtol=1e-10, rng=0).x, x_true) < 2e-10


def test_prediction__of_the_rows_still_needed_is_about_right():
    A, b, _ = gaussian(seed=0)
    totals = []
    rowsolve.solve(A, b, UNIFORM, rng=0, callback=lambda event: totals.append(event.passes + event.passes_left))
    used = totals[-1]
    middle = totals[len(totals) // 2]
    assert middle == pytest.approx(used, rel=0.25)


def test_tolerance__counts_relative_and_absolute_error():
    tolerance = Tolerance(rtol=1e-3, atol=0.5, eps=1e-16)
    assert tolerance.at(norm_x=10.0, norm_x0=0.0) == pytest.approx(0.51)
    assert tolerance.at(norm_x=0.0, norm_x0=1.0) == pytest.approx(0.5)


def test_monitor__has_no_estimate_before_the_first_burst():
    monitor = Monitor(Tolerance(1e-6, 0.0, 2e-16), np.zeros(3), np.ones(3))
    assert np.isnan(monitor.relative_error)
    assert np.isnan(rows_left(monitor))
