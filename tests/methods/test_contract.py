"""The contract of all methods; a new one in the registry is tested without further code.

The checks of `rowsolve.testing` apply to methods of a script, too; the others to methods of this package.
"""

from __future__ import annotations

import itertools
import tracemalloc

import numpy as np
import pytest
from conftest import (
    JIT,
    N_COLUMNS,
    N_ROWS,
    STORES,
    as_csr,
    as_dense,
    as_float32,
    gaussian,
    relative_error,
)
from extending import CoordinateDescent, RandomRuns
from scipy import sparse

import rowsolve
from rowsolve.methods.base import RowMethod
from rowsolve.problem.system import System
from rowsolve.sources import open_rows
from rowsolve.testing import CHECKS

METHODS = sorted(rowsolve.METHODS)
LEAST_SQUARES = [name for name in METHODS if rowsolve.METHODS[name]().can.least_squares]
FACTOR = 3 if JIT else 10  # a burst of the small systems is a few steps only
ROUNDING = 3e-14  # what is left of the error of a direct method is a matter of luck, and of a bound
NOT_RANDOM = {"cyclic", "refined"}  # refined: as long as it factors all rows
ROW_METHODS = [name for name in METHODS if issubclass(rowsolve.METHODS[name], RowMethod)]
OTHERS = [name for name in METHODS if name not in LEAST_SQUARES]
OF_A_SCRIPT = [RandomRuns(), CoordinateDescent()]  # nothing of them is registered


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", METHODS)
def test_every_method__passes_the_checks(name, check):
    check(rowsolve.METHODS[name]())


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("method", OF_A_SCRIPT, ids=lambda method: method.name)
def test_every_method_of_a_script__passes_the_checks(method, check):
    assert method.name not in rowsolve.METHODS
    check(method)


def kinds_of_rows():
    """Return each method with CSR and float32, and with one of the others: few kernels depend on the kind of rows."""
    others = itertools.cycle([kind for kind in STORES if kind not in (as_dense, as_csr, as_float32)] or [as_dense])
    return [(name, kind) for name in METHODS for kind in (as_csr, as_float32, next(others))]


@pytest.mark.parametrize(("name", "keep"), kinds_of_rows())
def test_every_method__takes_every_kind_of_rows(name, keep, tmp_path):
    A, b, x_true = gaussian(seed=11)
    rtol = 1e-3 if keep is as_float32 else 1e-6
    solution = rowsolve.solve(keep(A, tmp_path), b, name, rtol=rtol, rng=2, threads=2 if keep is as_csr else 1)
    error = relative_error(solution.x, x_true)
    assert solution.status is rowsolve.Status.CONVERGED
    assert error <= 2 * rtol
    assert error / FACTOR <= solution.error_estimate <= FACTOR * max(error, ROUNDING)
    assert solution.x.dtype == np.float64


@pytest.mark.parametrize("name", sorted(set(METHODS) - NOT_RANDOM))
def test_every_random_method__gives_other_bits_for_another_seed(name):
    A, b, _ = gaussian(500, 30)
    one, other = (rowsolve.solve(A, b, name, rng=seed) for seed in (7, 8))
    assert not np.array_equal(one.x, other.x)


@pytest.mark.parametrize("store", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
@pytest.mark.parametrize("name", LEAST_SQUARES)
def test_least_squares_methods__converge_on_inconsistent_systems(name, store):
    A, b, _ = gaussian(N_ROWS // 2, N_COLUMNS, noise=0.1, seed=4)
    solution = rowsolve.solve(store(A), b, name, rtol=1e-8, rng=4)
    error = relative_error(solution.x, np.linalg.lstsq(A, b)[0])
    assert solution.status is rowsolve.Status.CONVERGED
    assert error < 1e-8
    assert error / 3 <= solution.error_estimate <= 5 * error or error < ROUNDING
    assert "least-squares solution" in solution.message


@pytest.mark.parametrize("name", OTHERS)
def test_every_method__never_claims_convergence_on_inconsistent_systems(name):
    A, b, _ = gaussian(noise=0.1, seed=4)
    reference = np.linalg.lstsq(A, b)[0]
    solution = rowsolve.solve(A, b, name, rng=4)
    assert solution.status is rowsolve.Status.INCONSISTENT
    assert "system is inconsistent" in solution.message
    error = relative_error(solution.x, reference)
    assert error < 0.08 or name == "direct"  # which does without most rows
    assert error / 4 <= solution.error_estimate <= 4 * error


@pytest.mark.parametrize("name", METHODS)
def test_every_method__stops_at_once_at_the_solution(name):
    A, b, x_true = gaussian(seed=5)
    solution = rowsolve.solve(A, b, name, x0=x_true, rng=0)
    assert solution.status is rowsolve.Status.CONVERGED
    assert len(solution.history) == 1
    np.testing.assert_allclose(solution.x, x_true, rtol=1e-12)


@pytest.mark.parametrize("name", METHODS)
def test_every_method__finds_the_minimum_norm_solution_of_a_wide_system(name):
    A, b, _ = gaussian(20, 60, seed=6)
    solution = rowsolve.solve(A, b, name, rng=0)
    assert solution.status is rowsolve.Status.CONVERGED
    assert relative_error(solution.x, np.linalg.lstsq(A, b)[0]) < 2e-6


@pytest.mark.parametrize("name", METHODS)
def test_every_method__finds_the_solution_nearest_to_x0_when_columns_repeat(name):
    A, _, x_true = gaussian(300, 12, seed=7)
    A[:, 3], A[:, 5] = A[:, 4], 0.0
    b, x0 = A @ x_true, np.linspace(0, 1, 12)
    nearest = x0 + np.linalg.lstsq(A, b - A @ x0)[0]
    solution = rowsolve.solve(A, b, name, x0=x0, rng=0)
    assert solution.status is rowsolve.Status.CONVERGED
    assert relative_error(solution.x, nearest) < 2e-6


@pytest.mark.parametrize("name", METHODS)
def test_every_method__keeps_x0_when_all_is_zero(name):
    solution = rowsolve.solve(np.zeros((50, 3)), np.zeros(50), name, x0=[1.0, 2.0, 3.0])
    assert solution.x.tolist() == [1.0, 2.0, 3.0]
    assert solution.status is rowsolve.Status.CONVERGED


@pytest.mark.parametrize("name", METHODS)
def test_every_method__skips_zero_rows_and_reports_one_with_a_nonzero_b(name):
    A, b, x_true = gaussian(600, 10, seed=8)
    A[::3], b[::3] = 0.0, 0.0
    assert rowsolve.solve(A, b, name, rng=0).status is rowsolve.Status.CONVERGED
    b[9::30] = 4.0
    solution = rowsolve.solve(A, b, name, rng=0)
    assert solution.status is rowsolve.Status.CONVERGED  # they do not affect x
    if name in OTHERS:
        assert "is zero but b[" in solution.message
        assert solution.rows_off.size == 1
        full = rowsolve.solve(A, b, name, rng=0, check="full")
        assert full.status is rowsolve.Status.CONVERGED
        assert full.rows_off.tolist() == list(range(9, 600, 30))
    assert relative_error(solution.x, x_true) < 2e-6


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("name", METHODS)
def test_every_method__names_a_row_that_is_not_finite(name, bad):
    A, b, _ = gaussian(200, 10)
    A[37, 4] = bad
    with (
        pytest.raises(ValueError, match=r"`A` must be finite: row 37 has (nan|inf) in column 4"),
        np.errstate(all="ignore"),
    ):
        rowsolve.solve(A, b, name, rng=0)


@pytest.mark.parametrize("scale", [1e-150, 1e150])
@pytest.mark.parametrize("name", METHODS)
def test_every_method__is_indifferent_to_scale(name, scale):
    A, b, x_true = gaussian(400, 20, seed=9)
    solution = rowsolve.solve(A * scale, b * scale, name, rng=0)
    assert solution.status is rowsolve.Status.CONVERGED
    assert relative_error(solution.x, x_true) < 2e-6
    solution = rowsolve.solve(A, b * scale, name, rng=0)
    assert solution.status is rowsolve.Status.CONVERGED
    assert relative_error(solution.x / scale, x_true) < 2e-6


@pytest.mark.parametrize("name", ROW_METHODS)
def test_every_row_method__counts_every_row(name):
    A, b, _ = gaussian(300, 20)
    solution = rowsolve.solve(A, b, name, max_passes=4.0, rtol=0.0, rng=0)
    assert solution.rows_read == pytest.approx(300 * solution.passes)
    assert 4 * 300 - 16 <= solution.rows_read <= 4 * 300 + 256 + 16  # the check of 256 rows comes on top
    assert solution.status is rowsolve.Status.MAX_PASSES
    assert all(np.diff(solution.history.rows_read) > 0)


@pytest.mark.parametrize("name", sorted(set(METHODS) - set(ROW_METHODS)))
def test_every_step_method__counts_every_row_and_ends_at_the_precision(name):
    A, b, x_true = gaussian(300, 20)
    solution = rowsolve.solve(A, b, name, rtol=0.0, rng=0)
    assert solution.rows_read == pytest.approx(300 * solution.passes)
    assert all(np.diff(solution.history.rows_read) > 0)
    assert solution.status is rowsolve.Status.PRECISION
    assert relative_error(solution.x, x_true) < 1e-13


@pytest.mark.compiled
@pytest.mark.parametrize("name", ROW_METHODS)
def test_every_method__allocates_nothing_of_size_n_in_a_burst(name):
    n = 200_000
    A, b, _ = gaussian(n, 4)
    system, method, rng = System(open_rows(A), b), rowsolve.METHODS[name](), np.random.default_rng(0)
    plan, iterates, drops = method.prepare(system, rng), np.ones((2, 4)), np.empty(2)
    method.advance(plan, iterates, 64, rng, drops)
    tracemalloc.start()
    for _ in range(3):
        method.advance(plan, iterates, 64, rng, drops)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < n / 4
