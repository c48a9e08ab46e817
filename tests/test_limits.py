"""Other ends of a solve than convergence: time, rounding, a null space; and their messages."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import JIT, gaussian, relative_error
from scipy import sparse

import rowsolve
from rowsolve import Status

N, P = (6000, 240) if JIT else (500, 12)


def one_hot(n, sizes, seed=0):
    """Return a column of ones and a column for each value of some attributes, as CSR."""
    rng = np.random.default_rng(seed)
    parts = [sparse.csr_array(np.ones((n, 1)))]
    parts += [sparse.csr_array(np.eye(size)[rng.integers(0, size, n)]) for size in sizes]
    return sparse.hstack(parts, format="csr")


def dependent(n, p, seed=0):
    """Return a matrix of rank p - 10."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((n, p))
    A[:, -10:] = A[:, :10]
    return A


def least_norm(A, b):
    return np.linalg.lstsq(A.toarray() if sparse.issparse(A) else A, b)[0]


@pytest.fixture
def slow_machine(monkeypatch):
    """Make the predicted time of every factorization hours."""
    monkeypatch.setattr("rowsolve.problem.clock.ORTHOGONAL_PRODUCT", 1e9)


@pytest.mark.parametrize("store", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_factors_that_take_too_long__are_not_begun_and_passes_go_on(slow_machine, store, noise):
    A = dependent(N, P)
    rng = np.random.default_rng(1)
    b = A @ rng.standard_normal(P) + noise * rng.standard_normal(N)
    solution = rowsolve.solve(store(A), b, rng=0, max_seconds=100)
    assert solution.status is Status.CONVERGED
    assert relative_error(solution.x, least_norm(A, b)) < 2e-6
    assert solution.rank is None


def test_a_sample_that_takes_too_long_to_factor__is_reported(slow_machine):
    A, b, _ = gaussian(20 * N, P) if JIT else gaussian(500, 12)
    solution = rowsolve.solve(A, b, "direct", rng=0, max_seconds=100)
    assert solution.status is Status.MAX_SECONDS
    assert not solution.x.any()
    if JIT:
        auto = rowsolve.solve(A, b, rng=0, max_seconds=100)
        assert auto.status is Status.CONVERGED
        assert "would take longer than `max_seconds`: 'refined'" in auto.message


def test_time_that_is_used_up__leaves_an_x_with_an_estimate(slow_machine):
    A = one_hot(N, [P // 2, P // 4, 5])
    b = A @ np.ones(A.shape[1]) + np.random.default_rng(0).standard_normal(N)
    ends = iter([False] * 3 + [True] * 10**6)  # some passes, whatever the machine
    solution = rowsolve.solve(
        A, b, rowsolve.Refined("none"), rng=0, max_seconds=100, callback=lambda _: next(ends), rtol=1e-14
    )
    assert solution.status is Status.STOPPED
    assert np.isfinite(solution.error_estimate)
    assert relative_error(solution.x, least_norm(A, b)) < 1.0


@pytest.mark.parametrize("sizes", [[5], [20, 8], [P // 2, P // 4, 5]])
@pytest.mark.parametrize("store", [sparse.csr_array, lambda A: A.toarray()], ids=["csr", "dense"])
def test_dummy_variables__give_the_minimum_norm_solution_and_the_rank_is_reported(sizes, store):
    A = one_hot(N, sizes)
    rng = np.random.default_rng(1)
    b = A @ rng.standard_normal(A.shape[1]) + rng.standard_normal(N)
    solution = rowsolve.solve(store(A), b, rng=0)
    assert solution.status is Status.CONVERGED
    assert relative_error(solution.x, least_norm(A, b)) < 2e-6
    rank, p = A.shape[1] - len(sizes), A.shape[1]
    assert solution.rank == rank
    assert f"A has rank {rank:,} and {p:,} columns, so the solution is not unique; x is the minimum-norm solution" in (
        solution.message
    )
    start = rowsolve.solve(store(A), b, rng=0, x0=np.ones(p))
    assert "x is the solution nearest to x0" in start.message
    assert relative_error(start.x - 1.0, least_norm(A, b - A @ np.ones(p))) < 2e-6


def test_rank__of_values_without_a_gap_is_reported():
    U, V = (np.linalg.qr(np.random.default_rng(seed).standard_normal((60, 30)))[0] for seed in (0, 1))
    A = (U * np.logspace(0, -20, 30)) @ V[:30]
    message = rowsolve.solve(A, A @ np.ones(30), rng=0).message
    assert "The singular values have no clear gap, so x depends on which of them are treated as zero" in message


@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_directions_that_few_rows_have__are_found_among_all_rows(noise):
    """Two equal columns make every sample deficient; only three rows have an entry in a third column."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((20 * P, P))
    A[:, 1], A[:, 2] = A[:, 0], 0.0
    A[[3, 700 % (20 * P), 20 * P - 1], 2] = 1.0, 2.0, -1.0
    b = A @ rng.standard_normal(P) + noise * rng.standard_normal(20 * P)
    for method in ("auto", "direct") if noise == 0.0 else ("auto",):
        solution = rowsolve.solve(A, b, method, rng=0)
        assert solution.status is Status.CONVERGED
        assert solution.rank == P - 1
        assert relative_error(solution.x, least_norm(A, b)) < 2e-6


def test_residual__that_is_known_is_given_exactly():
    A, b, _ = gaussian(30 * P, P, noise=0.3)
    for method in ("auto", "refined", rowsolve.Refined("none")):
        solution = rowsolve.solve(A, b, method, rng=0)
        assert solution.row_check.full
        expected = np.linalg.norm(b - A @ solution.x) / np.linalg.norm(b)
        assert solution.row_check.relative == pytest.approx(expected, rel=1e-9)
        assert f"{expected:.2g} over all {30 * P:,} rows" in solution.message


def test_rows_of_passes__are_not_called_fresh():
    A, b, _ = gaussian(30 * P, P)
    solution = rowsolve.solve(A, b, rowsolve.Refined("none"), rng=0)
    assert solution.row_check.n_fresh == 0


def test_float32__is_read_as_it_is_and_x_is_float64():
    A, b, _ = gaussian(300, 10)
    A, b = A.astype(np.float32), b.astype(np.float32)
    assert rowsolve.solve(A, b, rng=0).x.dtype == np.float64


@pytest.mark.parametrize("seed", range(5))
def test_columns_in_units_of_ten_decades__have_their_own_rank(seed):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((400, 12)) * 10.0 ** rng.uniform(-10, 10, 12)
    b = A @ (rng.standard_normal(12) / np.linalg.norm(A, axis=0)) + 1e-3 * rng.standard_normal(400)
    solution = rowsolve.solve(A, b, rng=0)
    assert solution.rank == 12
    scaled = np.linalg.lstsq(A / np.linalg.norm(A, axis=0), b)[0] / np.linalg.norm(A, axis=0)
    assert relative_error(solution.x, scaled) < 1e-6


def test_bounds__on_wide_and_dependent_rows_are_optimal():
    from scipy import optimize

    rng = np.random.default_rng(0)
    wide = rng.standard_normal((5, 8))
    for A, b in (
        (wide, wide @ np.abs(rng.standard_normal(8))),
        (one_hot(51, [50, 12]).toarray(), rng.standard_normal(51)),
        (one_hot(51, [50, 12]), rng.standard_normal(51)),
    ):
        solution = rowsolve.solve(A, b, bounds=(0, np.inf), rng=0)
        full = A.toarray() if sparse.issparse(A) else A
        assert solution.status is Status.CONVERGED
        assert np.linalg.norm(full @ solution.x - b) <= optimize.nnls(full, b)[1] * (1 + 1e-10) + 1e-14
        assert solution.optimality < 1e-14
        assert "x is not unique: other x within the bounds fit equally well" in solution.message
