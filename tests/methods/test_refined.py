"""Least squares to any accuracy, and the preconditioner."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import JIT, gaussian, relative_error
from scipy import sparse

import rowsolve
from rowsolve import Status
from rowsolve.lstsq.factor import factor_of
from rowsolve.problem.system import System
from rowsolve.sources import open_rows

KINDS = ["auto", "none", "sample", "all"]


def with_spectrum(n, values, seed=0, noise=0.0):
    """Return A with these singular values (up to a constant), b with noise, and the least-squares solution."""
    rng = np.random.default_rng(seed)
    p = len(values)
    U, V = np.linalg.qr(rng.standard_normal((n, p)))[0], np.linalg.qr(rng.standard_normal((p, p)))[0]
    A = U * values @ V.T
    b = A @ rng.standard_normal(p)
    b += noise * np.std(b) * rng.standard_normal(n)
    return A, b, np.linalg.lstsq(A, b)[0]


@pytest.mark.parametrize("store", [np.asarray, np.asfortranarray, sparse.csr_array], ids=["c", "fortran", "csr"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_preconditioner__leads_to_the_least_squares_solution(kind, store):
    A, b, reference = with_spectrum(400, np.geomspace(1, 0.05, 12), noise=0.1)
    solution = rowsolve.solve(store(A), b, rowsolve.Refined(kind), rtol=1e-9, rng=0)
    error = relative_error(solution.x, reference)
    assert solution.status is Status.CONVERGED
    assert error <= 2e-9
    assert error / 4 <= solution.error_estimate or error < 1e-12
    assert "x is the least-squares solution" in solution.message
    assert solution.rank == (None if kind == "none" else 12)


@pytest.mark.compiled
@pytest.mark.parametrize("condition", [1e2, 1e4, 1e6, 1e8])
@pytest.mark.parametrize("seed", range(3))
def test_refined__agrees_with_lapack_as_far_as_the_condition_allows(condition, seed):
    A, b, reference = with_spectrum(1500, np.geomspace(1, 1 / condition, 40), seed, noise=1e-3 / condition)
    solution = rowsolve.solve(A, b, "refined", rng=seed)
    error = relative_error(solution.x, reference)
    assert solution.status is Status.CONVERGED
    assert error <= 2e-6
    assert error / 5 <= solution.error_estimate or error < 1e-12  # of the reference


@pytest.mark.parametrize("seed", range(5))
def test_refined__reports_the_limit_of_precision(seed):
    A, b, _ = with_spectrum(300, np.geomspace(1, 1e-12, 15), seed)
    solution = rowsolve.solve(A, b, "refined", rtol=1e-9, rng=seed)
    assert solution.status is Status.PRECISION
    assert "does not reach the tolerance" in solution.message


@pytest.mark.parametrize("store", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
@pytest.mark.parametrize("noise", [0.0, 0.1])
@pytest.mark.parametrize("method", ["auto", "refined", "direct"])
def test_rank_deficient__gives_the_minimum_norm_solution_and_the_rank(store, noise, method):
    A, b, _ = with_spectrum(200, np.r_[np.linspace(2, 1, 9), np.zeros(4)], noise=noise)
    reference = np.linalg.lstsq(A, b, rcond=1e-10)[0]
    solution = rowsolve.solve(store(A), b, method, rng=0)
    if noise and method == "direct":
        assert solution.status is Status.INCONSISTENT
        assert solution.rank is None  # a sample shows the contradiction; whether it has all directions is left open
        return
    assert solution.rank == 9
    assert solution.status is Status.CONVERGED
    assert relative_error(solution.x, reference) < 2e-6


@pytest.mark.parametrize("store", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("damp", [1e-3, 1.0, 30.0])
def test_damp__is_that_of_the_augmented_system(store, kind, damp):
    A, b, _ = with_spectrum(150, np.r_[np.geomspace(5, 0.1, 8), 0.0], noise=0.2)
    augmented = np.vstack([A, damp * np.eye(9)]), np.r_[b, np.zeros(9)]
    solution = rowsolve.solve(store(A), b, rowsolve.Refined(kind), damp=damp, rtol=1e-8, rng=0)
    assert solution.status is Status.CONVERGED
    assert relative_error(solution.x, np.linalg.lstsq(*augmented)[0]) < 2e-8


def test_damp__is_supported_by_auto_and_raises_an_error_elsewhere():
    A, b, _ = gaussian(100, 5)
    assert rowsolve.solve(A, b, damp=1.0, rng=0).method == "refined"
    with pytest.raises(ValueError, match=r"'randomized' does not support `damp` .* Try 'refined' or 'auto'"):
        rowsolve.solve(A, b, "randomized", damp=1.0)
    for bad in (-1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match="`damp` must be a finite number of at least 0"):
            rowsolve.solve(A, b, damp=bad)


@pytest.mark.parametrize("store", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
def test_factor__is_that_of_all_rows_as_the_sample_stands_for_them(store):
    A, _, _ = gaussian(60, 7)
    system = System(open_rows(store(A)), np.zeros(60))
    order = np.arange(0, 60, 2)
    factor = factor_of(system, order)
    vectors = np.random.default_rng(1).standard_normal((4, 7))
    expected = np.linalg.solve(2 * A[order].T @ A[order], vectors.T).T
    factor.solve(vectors)
    np.testing.assert_allclose(vectors, expected, rtol=1e-9, atol=1e-12)
    values = np.linalg.svd(A[order], compute_uv=False)
    assert factor.condition == pytest.approx(values[0] / values[-1], rel=0.2)
    assert factor.rank == 7
    assert system.counter.rows_read == 30
    assert 0.4 < factor.inverse_norm / np.linalg.norm(1 / (np.sqrt(2) * values)) < 2.5


@pytest.mark.parametrize("scale", [np.ones(8), np.geomspace(1e-12, 1e12, 8)], ids=["even", "uneven"])
@pytest.mark.parametrize("rows", ["all", "sample"])
def test_factor__does_not_mind_the_units_of_the_columns(scale, rows):
    A, _, x_true = gaussian(100, 8)
    solution = rowsolve.solve(A * scale, A @ x_true, rowsolve.Refined(rows), rng=0)
    np.testing.assert_allclose(solution.x * scale, x_true, rtol=1e-5, atol=1e-5)


@pytest.mark.compiled
@pytest.mark.parametrize("condition", [10.0, 1e4])
def test_factor__is_as_good_as_the_sample_allows(condition):
    A, _, _ = with_spectrum(9000, np.geomspace(1, 1 / condition, 300))
    A *= 1e3
    factor = factor_of(System(open_rows(A), np.zeros(9000)), np.arange(0, 9000, 3))
    product = A.T @ A
    factor.solve(product)
    values = np.sort(np.linalg.eigvals(product).real)
    assert values[-1] / values[0] < 10


@pytest.mark.compiled
def test_sample__is_solved_to_begin_with():
    A, b, reference = with_spectrum(20_000, np.geomspace(1, 1e-2, 600), noise=1e-4)
    solution = rowsolve.solve(A, b, rowsolve.Refined("sample"), rng=0)
    assert relative_error(solution.x, reference) < 2e-6
    assert solution.history.error_estimate[0] < 1e-2
    assert len(solution.history) < 9


def test_odd_rows__are_found_wherever_they_come_in():
    A, b, _ = gaussian(500, 10)
    A[400, 3] = np.inf
    for kind in KINDS:
        with pytest.raises(ValueError, match="row 400 has inf in column 3"), np.errstate(all="ignore"):
            rowsolve.solve(A, b, rowsolve.Refined(kind), rng=0)


@pytest.mark.parametrize("condition", [30, 1000] if JIT else [10])
@pytest.mark.parametrize("seed", range(3))
def test_no_preconditioner__converges_for_symmetric_spectra(seed, condition):
    # x has no error in half of all directions, the probe in all: with the steps of x it would tell nothing.
    p = 60 if JIT else 8
    even, flagged_rows = (with_spectrum(200, np.geomspace(1, 1 / condition, p), 2 * seed + k)[0] for k in range(2))
    A = np.block([[even, even], [flagged_rows, -flagged_rows]])
    x = np.tile(np.random.default_rng(seed).standard_normal(p), 2)
    solution = rowsolve.solve(A, A @ x, rowsolve.Refined("none"), rng=seed)
    true = np.linalg.norm(solution.x - x) / np.linalg.norm(x)
    assert solution.status is Status.CONVERGED
    assert true < 3e-6
    assert true < 3 * solution.error_estimate


@pytest.mark.parametrize("noise", [0.0, 1e-3, 1.0])
@pytest.mark.parametrize("seed", range(4))
def test_no_preconditioner__stays_at_the_minimum_norm_solution_of_a_deficient_system(seed, noise):
    # What is left of the gradient there is rounding: a step along it would lead far into the null space.
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((60, 3)) @ rng.standard_normal((3, 10))
    b = A @ np.ones(10) + noise * rng.standard_normal(60)
    solution = rowsolve.solve(A, b, rowsolve.Refined("none"), rng=seed, max_passes=150)
    assert solution.status is Status.CONVERGED
    assert relative_error(solution.x, np.linalg.lstsq(A, b, rcond=1e-10)[0]) < 1e-9


@pytest.mark.parametrize("condition", [1e6, 1e7, 1e9])
@pytest.mark.parametrize("seed", range(4))
def test_no_preconditioner__does_not_claim_an_error_below_rounding(seed, condition):
    A, b, reference = with_spectrum(60, np.geomspace(1, 1 / condition, 5), seed)
    solution = rowsolve.solve(A, b, rowsolve.Refined("none"), rng=seed, max_passes=300)
    assert solution.status is not Status.CONVERGED or relative_error(solution.x, reference) < 5e-6


def cauchy(n, p, *seed):
    """Return a Cauchy matrix with condition number about ``10**p``, a consistent b, and the solution."""
    rng = np.random.default_rng(seed)
    A = 1 / (5 * rng.random((n, 1)) + np.linspace(0.3, 3, p))
    x = rng.standard_normal(p)
    return A, A @ x, x


@pytest.mark.parametrize("p", [2, 6, 10])
@pytest.mark.parametrize("seed", range(3))
def test_effect_of_noise__is_estimated_for_unlucky_random_vectors(p, seed):
    # One singular value is nearly all of it, and its direction in R is much the same for all of these.
    A, b, _ = cauchy(300, p, seed)
    factor = factor_of(System(open_rows(A), b), np.arange(300))
    inverse = np.linalg.inv(np.linalg.qr(A)[1])
    assert 0.9 < factor.inverse_norm / np.linalg.norm(inverse) < 2.5
    assert 0.9 < factor.harm / np.linalg.norm(inverse @ inverse.T * np.linalg.norm(A, axis=0)) < 2.5


@pytest.mark.compiled
@pytest.mark.parametrize("method", ["refined", "auto"])
@pytest.mark.parametrize("rtol", [1e-3, 1e-4, 1e-6])
@pytest.mark.parametrize("seed", [(10, 0, 11), (0,), (1,), (2,), (3,)])
def test_a_condition_of_1e10__gives_neither_a_wrong_x_nor_an_endless_run(method, rtol, seed):
    A, b, x = cauchy(1500, 10, *seed)
    solution = rowsolve.solve(A, b, method, rtol=rtol, rng=0)
    error = relative_error(solution.x, x)
    assert solution.status in (Status.CONVERGED, Status.PRECISION)
    assert solution.status is Status.PRECISION or error <= 5 * rtol
    assert error <= 10 * solution.error_estimate  # b is rounded as well
    assert solution.passes < 50


@pytest.mark.compiled
@pytest.mark.parametrize("rtol", [1e-8, 1e-10])
def test_single_precision__is_not_used_for_a_factor_dominated_by_rounding(rtol):
    A, b, _ = with_spectrum(3000, np.append(np.ones(299), 1e-8), noise=0.1)
    U, values, V = np.linalg.svd(A, full_matrices=False)
    solution = rowsolve.solve(A, b, rtol=rtol, rng=0)
    error = relative_error(solution.x, V.T @ (U.T @ b / values))
    assert solution.status is Status.PRECISION or error <= 5 * rtol
    assert error <= 3 * solution.error_estimate + 1e-7  # of the reference
    assert solution.passes < 30


@pytest.mark.compiled
@pytest.mark.parametrize("n", [300, 3000, 20_000])
@pytest.mark.parametrize("seed", range(3))
def test_rounding_of_long_sums__is_in_the_estimate(n, seed):
    A, b, _ = with_spectrum(n, np.array([1, 1, 1, 1, 1e-8]), seed, noise=1.0)
    solution = rowsolve.solve(A, b, "refined", rtol=1e-12, rng=seed)
    x, residual, rows = solution.x.astype(np.longdouble), b - A @ solution.x, A.astype(np.longdouble)
    Q, R = np.linalg.qr(A)
    for _ in range(3):  # the exact solution, by refinement of the augmented system in higher precision
        off, gradient = (b - residual - rows @ x).astype(float), -(rows.T @ residual).astype(float)
        inside = np.linalg.solve(R.T, gradient)
        x = x + np.linalg.solve(R, Q.T @ off - inside)
        residual = residual + off - Q @ (Q.T @ off) + Q @ inside
    error = relative_error(solution.x, x.astype(float))
    assert solution.status is Status.PRECISION
    assert error / 3 <= solution.error_estimate <= 100 * error + 1e-12


def test_sparse_rows_of_condition_1e8__are_factored_if_conjugate_gradients_stall():
    A, b, reference = with_spectrum(600, np.append(np.ones(19), 1e-8), noise=1.0)
    solution = rowsolve.solve(sparse.csr_array(A), b, "refined", rng=0)
    assert relative_error(solution.x, reference) <= 3 * solution.error_estimate <= 1e-3
    assert solution.rank == 20


@pytest.mark.compiled
@pytest.mark.parametrize("seed", range(4))
def test_units_of_the_columns__do_not_make_the_error_look_large(seed):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((800, 20))
    b = A @ rng.standard_normal(20) + rng.standard_normal(800)
    units = 10.0 ** rng.uniform(-5, 5, 20)
    solution = rowsolve.solve(A * units, b, rtol=1e-10, rng=seed)
    assert solution.status is Status.CONVERGED
    assert relative_error(solution.x * units, np.linalg.lstsq(A, b)[0]) < 1e-9
    assert solution.error_estimate < 1e-11


@pytest.mark.compiled
@pytest.mark.parametrize(
    ("n", "p", "noise", "seed"),
    [(900, 300, 1e-3, 0), (900, 300, 1.0, 1), (7800, 520, 5.0, 1), (5600, 700, 1e-3, 2), (7200, 900, 1.0, 0)],
)
def test_noise_in_the_smallest_singular_direction__is_estimated_at_a_loose_tolerance(n, p, noise, seed):
    # Nearly all of x* is in one direction, which steps reach last and of which a random probe has little.
    A, b, reference = with_spectrum(n, np.append(np.geomspace(1, 0.2, p - 1), 1e-5), seed, noise=noise)
    solution = rowsolve.solve(A, b, rtol=1e-3, rng=seed)
    error = relative_error(solution.x, reference)
    assert solution.status is Status.CONVERGED
    assert error < 5e-3
    assert error < 3 * solution.error_estimate


@pytest.mark.compiled
@pytest.mark.parametrize("kind", ["auto", "sample"])
@pytest.mark.parametrize("seed", range(3))
def test_sample_without_the_longest_rows__is_not_reported_as_rounding(kind, seed):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((6000, 300)) * rng.pareto(1.2, 6000)[:, None]
    b = A @ rng.standard_normal(300)
    b += np.std(b) * rng.standard_normal(6000)
    solution = rowsolve.solve(A, b, rowsolve.Refined(kind), rtol=1e-3, rng=seed)
    assert solution.status is Status.CONVERGED
    assert relative_error(solution.x, np.linalg.lstsq(A, b)[0]) < 2e-3
