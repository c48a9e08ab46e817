from __future__ import annotations

import numpy as np
import pytest
from bursts import burst_of
from conftest import JIT, gaussian, relative_error
from scipy import sparse

import rowsolve
from rowsolve import Extended


@pytest.mark.parametrize("store", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
def test_copy_of_b__is_the_residual_at_first_and_tends_to_that_of_the_least_squares_solution(store):
    A, b, _ = gaussian(40, 5, noise=0.3)
    kept, drops = store(A), np.empty(2)
    burst = burst_of(Extended(), kept, b, 1)
    start = Extended().begin(burst.system, np.random.default_rng(0)).residual_at(burst.start[0])
    np.testing.assert_allclose(start, b - A @ burst.start[0], rtol=1e-12)
    Extended().advance(burst.plan, burst.iterates, 2000, np.random.default_rng(2), drops)
    best = np.linalg.lstsq(A, b)[0]
    np.testing.assert_allclose(burst.plan.residual, b - A @ best, atol=1e-9)
    np.testing.assert_allclose(burst.iterates, [best, np.zeros(5)], atol=1e-9)


def test_columns__are_counted_in_rows():
    A, b, _ = gaussian(40, 5)
    burst = burst_of(Extended(), A, b, 10)
    assert burst.system.counter.rows_read == 40 + 40 + 40 + 10 * 8  # two passes, the residual at x, the columns
    assert burst.plan.price_of_row == 9.0


def test_convergence__is_not_claimed_before_rows_are_used_that_are_seldom_drawn():
    rng = np.random.default_rng(0)
    A = np.zeros((400, 20))
    A[:200, :10], A[200:, 10:] = rng.standard_normal((200, 10)), 0.1 * rng.standard_normal((200, 10))
    x = np.r_[np.zeros(10), np.ones(10)]
    solution = rowsolve.solve(A, A @ x, "extended", rng=0, max_passes=4000 if JIT else 20)
    assert solution.status.name != "CONVERGED" or relative_error(solution.x, x) < 5e-6
