"""Least squares to a few digits: the limit of the mean, its error estimate, and when it is not used."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import JIT, gaussian, relative_error
from scipy import sparse

import rowsolve
from rowsolve import Status, TailAverage

N_ROWS, N_COLUMNS = (20_000, 100) if JIT else (1000, 8)


@pytest.mark.parametrize("store", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
@pytest.mark.parametrize("seed", range(3 if JIT else 1))
def test_noisy_equations__are_solved_to_a_few_digits(store, seed):
    A, b, _ = gaussian(N_ROWS, N_COLUMNS, noise=0.1, seed=seed)
    solution = rowsolve.solve(store(A), b, "tail-average", rtol=1e-2, rng=seed)
    error = relative_error(solution.x, np.linalg.lstsq(A, b)[0])
    assert solution.status is Status.CONVERGED
    assert error < 2e-2
    assert error / 3 <= solution.error_estimate <= 10 * error
    assert solution.error_estimate <= 1e-2
    assert "inconsistent: x is the mean of the last" in solution.message
    assert "converges to the least-squares solution" in solution.message
    assert solution.row_check.relative == pytest.approx(0.1, abs=0.03)


@pytest.mark.compiled
def test_more_digits__take_more_rows_by_the_square():
    A, b, _ = gaussian(2000, 30, noise=0.1, seed=1)
    reference = np.linalg.lstsq(A, b)[0]
    found = {rtol: rowsolve.solve(A, b, "tail-average", rtol=rtol, rng=0) for rtol in (1e-2, 2e-3)}
    for rtol, solution in found.items():
        assert solution.status is Status.CONVERGED
        assert relative_error(solution.x, reference) < 2 * rtol
    assert 8 < found[2e-3].rows_read / found[1e-2].rows_read < 40  # 25


@pytest.mark.compiled
def test_the_mean__tends_to_the_plain_least_squares_solution_not_to_a_weighted_one():
    rng = np.random.default_rng(0)
    A, b, _ = gaussian(4000, 20, seed=1)
    heavy = np.arange(4000) % 4 == 0
    A[heavy], b[heavy] = 5 * A[heavy], 5 * (b[heavy] + 2.0 * np.abs(A[heavy, 0]) * np.sign(A[heavy, 0]))
    b += 0.1 * np.std(b) * rng.standard_normal(4000)  # heavy rows want another x[0]
    plain = np.linalg.lstsq(A, b)[0]
    norms = np.linalg.norm(A, axis=1)
    weighted = np.linalg.lstsq(A / norms[:, None], b / norms)[0]
    solution = rowsolve.solve(A, b, "tail-average", rtol=1e-2, rng=0)
    assert solution.status is Status.CONVERGED
    assert relative_error(weighted, plain) > 0.1
    assert relative_error(solution.x, plain) < 2e-2


@pytest.mark.compiled
@pytest.mark.parametrize("values", [np.logspace(0, -1, 40), np.append(np.ones(39), 0.1)], ids=["decaying", "weak"])
def test_estimate__holds_where_some_directions_are_slow(values):
    for seed in range(4):
        A, b, _ = gaussian(5000, 40, seed=seed)
        A *= values
        b = A @ np.ones(40) + 0.1 * np.random.default_rng(seed + 9).standard_normal(5000)
        solution = rowsolve.solve(A, b, "tail-average", rtol=1e-2, rng=seed)
        error = relative_error(solution.x, np.linalg.lstsq(A, b)[0])
        assert solution.status is Status.CONVERGED
        assert error / 3 <= solution.error_estimate <= 10 * error


@pytest.mark.parametrize("options", [{"rtol": 1e-6}, {"rtol": 1e-3, "max_passes": 20.0}, {"rtol": 0.0}])
def test_tolerance_that_is_out_of_reach__is_reported_at_once(options):
    A, b, _ = gaussian(noise=0.1, seed=2)
    solution = rowsolve.solve(A, b, "tail-average", rng=0, **options)
    error = relative_error(solution.x, np.linalg.lstsq(A, b)[0])
    assert solution.status is Status.INCONSISTENT
    assert solution.passes < 20
    assert error / 4 <= solution.error_estimate <= 4 * error
    assert ("would be needed for the mean of the iterates to converge" in solution.message) == (options["rtol"] > 0.0)


def test_consistent_equations__are_solved_as_by_randomized():
    A, b, _ = gaussian(seed=3)
    mean, plain = rowsolve.solve(A, b, "tail-average", rng=0), rowsolve.solve(A, b, "randomized", rng=0)
    assert mean.converged
    np.testing.assert_array_equal(mean.x, plain.x)
    assert mean.rows_read == plain.rows_read


@pytest.mark.compiled
def test_stopping_early__returns_the_mean_so_far():
    A, b, _ = gaussian(4000, 50, noise=0.1, seed=4)
    reference = np.linalg.lstsq(A, b)[0]
    last = []

    def stop(event):
        last.append(event.x.copy())
        return event.passes > 30

    solution = rowsolve.solve(A, b, TailAverage(), rtol=1e-3, callback=stop, rng=0)
    assert solution.status is Status.STOPPED
    error = relative_error(solution.x, reference)
    assert error < relative_error(last[-1], reference) / 5
    assert error / 3 <= solution.error_estimate <= 10 * error
