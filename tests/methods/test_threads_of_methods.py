"""The contract of all methods on several threads."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import gaussian, relative_error
from scipy import sparse

import rowsolve
from rowsolve.methods import oblivious

pytestmark = pytest.mark.compiled
METHODS = sorted(rowsolve.METHODS)
CHAINED = [name for name in METHODS if issubclass(rowsolve.METHODS[name], oblivious.Oblivious)]


@pytest.fixture(autouse=True)
def _chains_for_small_systems(monkeypatch):
    monkeypatch.setattr(oblivious, "NUMBERS_IN_CACHE", 0)


@pytest.mark.parametrize("name", METHODS)
def test_every_method__estimates_its_error_on_threads_and_gives_the_same_bits(name):
    A, b, x_true = gaussian(3000, 120, seed=5)
    one, two = (rowsolve.solve(A, b, name, rng=1, threads=2) for _ in range(2))
    np.testing.assert_array_equal(one.x, two.x)
    assert one.history.drop == two.history.drop
    error = relative_error(one.x, x_true)
    assert one.status is rowsolve.Status.CONVERGED
    assert error <= 2e-6
    assert error / 3 <= one.error_estimate <= 3 * error + 1e-13  # of rounding


@pytest.mark.parametrize("name", CHAINED)
def test_chained_methods__do_use_the_threads(name):
    A, b, _ = gaussian(3000, 120, seed=5)
    one, two = (rowsolve.solve(A, b, name, rng=1, threads=threads) for threads in (1, 2))
    assert not np.array_equal(one.x, two.x)


@pytest.mark.parametrize("name", CHAINED)
def test_chained_methods__never_claim_convergence_on_inconsistent_systems(name):
    A, b, _ = gaussian(3000, 120, noise=0.1, seed=6)
    reference = np.linalg.lstsq(A, b)[0]
    solution = rowsolve.solve(A, b, name, rng=1, threads=2)
    error = relative_error(solution.x, reference)
    assert solution.status is rowsolve.Status.INCONSISTENT
    assert error < 0.08
    assert error / 4 <= solution.error_estimate <= 4 * error


@pytest.mark.parametrize("name", CHAINED)
def test_chained_methods__solve_sparse_systems(name):
    A = sparse.random_array((4000, 150), density=0.1, rng=np.random.default_rng(0), format="csr")
    x_true = np.random.default_rng(1).standard_normal(150)
    solution = rowsolve.solve(A, A @ x_true, name, rng=1, threads=2)
    assert solution.status is rowsolve.Status.CONVERGED
    assert relative_error(solution.x, x_true) <= 2e-6


@pytest.mark.parametrize("scale", [1e-140, 1e140])
def test_chains__work_at_the_ends_of_the_scale(scale):
    A, b, x_true = gaussian(2000, 80, seed=2)
    solution = rowsolve.solve(A * scale, b * scale, rng=1, threads=2)
    assert solution.status is rowsolve.Status.CONVERGED
    assert relative_error(solution.x, x_true) <= 2e-6
    solution = rowsolve.solve(A, b * scale, rng=1, threads=2)
    assert solution.status is rowsolve.Status.CONVERGED
    assert relative_error(solution.x / scale, x_true) <= 2e-6


def test_chains__detect_rank_deficiency():
    A, _, x_true = gaussian(3000, 100, seed=3)
    A[:, 99] = A[:, 0]
    solution = rowsolve.solve(A, A @ x_true, rng=1, threads=2)
    assert solution.status is rowsolve.Status.CONVERGED
    assert relative_error(solution.x, np.linalg.lstsq(A, A @ x_true)[0]) <= 2e-6
