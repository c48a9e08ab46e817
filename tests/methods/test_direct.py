"""What `direct` promises: x from a sample of the rows, and whether the other rows agree with it."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import gaussian, relative_error
from scipy import sparse

import rowsolve
from rowsolve import Direct, Status

N, P = 400, 12


def with_condition(condition, n=N, p=P, seed=0):
    """Return a matrix of Gaussian rows whose singular values decay geometrically."""
    rng = np.random.default_rng(seed)
    turned = np.linalg.qr(rng.standard_normal((p, p)))[0]
    return rng.standard_normal((n, p)) * np.geomspace(1.0, 1.0 / condition, p) @ turned


@pytest.mark.parametrize("condition", [1.0, 1e4, 1e8])
@pytest.mark.parametrize("seed", range(3))
def test_x_of_a_sample__is_exact_whatever_the_condition(condition, seed):
    A = with_condition(condition, seed=seed)
    x = np.random.default_rng(seed).standard_normal(P)
    solution = rowsolve.solve(A, A @ x, "direct", rng=seed)
    assert (solution.status, solution.rank, solution.method) == (Status.CONVERGED, P, "direct")
    error = relative_error(solution.x, x)
    assert error / 3 < solution.error_estimate < 1e-13 * condition
    assert solution.rows_read < N  # a sample, and 256 rows for the check


def test_accuracy_that_rounding_prevents__is_not_claimed():
    A = with_condition(1e11)
    x = np.random.default_rng(1).standard_normal(P)
    solution = rowsolve.solve(A, A @ x, Direct(), rtol=1e-9, rng=0)
    assert solution.status is Status.PRECISION
    assert relative_error(solution.x, x) < 10 * solution.error_estimate < 1e-2


@pytest.mark.parametrize("as_sparse", [False, True])
def test_dependent_columns__are_found_and_x_is_the_nearest_to_the_start(as_sparse):
    A = gaussian(N, P)[0][:, [*range(P), 0, 3]]
    b, x0 = A @ np.arange(14.0), np.random.default_rng(1).standard_normal(14)
    solution = rowsolve.solve(sparse.csr_array(A) if as_sparse else A, b, "direct", x0=x0, rng=0)
    assert (solution.status, solution.rank) == (Status.CONVERGED, P)
    assert relative_error(solution.x, x0 + np.linalg.pinv(A) @ (b - A @ x0)) < 1e-10


def test_sample_that_leaves_a_direction_open__grows_by_rows_that_reach_it():
    A, _, x = gaussian(5000, P)
    A[:, 0] = 0.0
    A[[77, 4321], 0] = [1.0, -3.0]  # the only rows that determine the first entry
    solution = rowsolve.solve(A, A @ x, "direct", rng=0)
    assert (solution.status, solution.rank) == (Status.CONVERGED, P)
    assert relative_error(solution.x, x) < 1e-10
    assert 1.0 < solution.passes < 2.0  # one pass found them


def test_few_rows__are_all_used_and_x_is_their_least_squares_solution():
    for noise, status in ((1e-9, Status.CONVERGED), (0.1, Status.INCONSISTENT)):
        A, b, _ = gaussian(P + 9, P, noise=noise)
        solution = rowsolve.solve(A, b, "direct", rng=0)
        assert solution.status is status
        assert relative_error(solution.x, np.linalg.lstsq(A, b)[0]) < 1e-12


def test_inconsistent_equations__are_noticed():
    A, b, x = gaussian(N, P, noise=0.1)
    solution = rowsolve.solve(A, b, "direct", rng=0)
    assert solution.status is Status.INCONSISTENT
    assert "inconsistent" in solution.message
    error = np.linalg.norm(solution.x - x) / np.linalg.norm(solution.x)
    assert error / 5 < solution.error_estimate < 20 * error


def test_inconsistent_rows_of_too_low_a_rank__are_noticed_without_a_pass():
    A, b, _ = gaussian(5000, 5, noise=0.1)
    solution = rowsolve.solve(A[:, [0, 1, 2, 3, 4, 0]], b, "direct", rng=0)
    assert solution.status is Status.INCONSISTENT
    assert solution.passes < 0.5


@pytest.mark.parametrize("noise", [1e-12, 1e-9, 1e-7])
def test_estimate__is_the_error_due_to_noise(noise):
    ratios = []
    for seed in range(12):
        A, b, x = gaussian(N, P, seed=seed, noise=noise)
        solution = rowsolve.solve(A, b, "direct", rtol=1e-3, rng=seed)
        assert solution.converged
        ratios.append(solution.error_estimate / relative_error(solution.x, x))
    assert 0.5 < np.median(ratios) < 4.0
    assert min(ratios) > 0.1


def test_several_right_hand_sides__are_solved_and_judged_one_by_one():
    A, b, x = gaussian(N, P)
    B = np.stack([b, 1e6 * b[::-1], 0.0 * b], axis=1)
    B[:, 1] = A @ (1e6 * x[::-1])
    solution = rowsolve.solve(A, B, "direct", rng=0)
    assert solution.converged
    for found, expected in zip(solution.x.T, (x, 1e6 * x[::-1], 0.0 * x), strict=True):
        assert np.linalg.norm(found - expected) <= 1e-12 * np.linalg.norm(expected)
    B[:, 1] += 1e5 * np.random.default_rng(0).standard_normal(N)
    noisy = rowsolve.solve(A, B, "direct", rng=0)
    assert noisy.status is Status.INCONSISTENT
    assert noisy.error_estimates[1] > 1e-3
    assert max(noisy.error_estimates[[0, 2]]) < 1e-10


def test_sparse_rows__are_solved_as_dense_ones():
    A = sparse.random_array((2000, 20), density=0.3, rng=np.random.default_rng(0), format="csr")
    x = np.random.default_rng(1).standard_normal(20)
    for rows in (A, A.toarray()):
        solution = rowsolve.solve(rows, A @ x, "direct", rng=0)
        assert (solution.status, solution.rank) == (Status.CONVERGED, 20)
        assert relative_error(solution.x, x) < 1e-12


def test_scales_of_rows__do_not_matter():
    A, _, x = gaussian(N, P)
    A *= 10.0 ** np.random.default_rng(0).uniform(-8, 8, (N, 1))
    solution = rowsolve.solve(A, A @ x, "direct", rng=0)
    assert solution.converged
    assert relative_error(solution.x, x) < 1e-11


def test_rows_of_zeros__have_the_start_as_their_solution():
    solution = rowsolve.solve(np.zeros((50, 3)), np.zeros(50), "direct", x0=np.arange(3.0), rng=0)
    np.testing.assert_array_equal(solution.x, np.arange(3.0))
    assert (solution.status, solution.rank) == (Status.CONVERGED, 0)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"damp": 1.0}, "method 'direct' does not support `damp`.*Try 'refined' or 'auto'"),
        ({"bounds": (0.0, 1.0)}, "method 'direct' does not support `bounds`. Try 'auto' or one of"),
        ({"outliers": "drop"}, "requires method='auto', got 'direct'"),
        ({"memory": "1kB"}, "not enough for the array: b, vectors, and the smallest read"),
    ],
)
def test_options_that_it_does_not_support__raise(options, words):
    A, b, _ = gaussian(N, P)
    with pytest.raises(ValueError, match=words):
        rowsolve.solve(A, b, "direct", **options)


def test_parameters__there_are_none():
    with pytest.raises(TypeError, match="takes 1 positional argument but 2 were given"):
        Direct(3)
