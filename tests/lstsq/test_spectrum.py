"""The singular values of A, estimated from a few rows."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import gaussian, relative_error
from scipy import sparse

import rowsolve
from rowsolve import Status
from rowsolve.lstsq.spectrum import Spectrum, look_at_spectrum, outliers_of
from rowsolve.policy.least_squares import spectrum_estimate_pays
from rowsolve.problem.system import System
from rowsolve.sources import open_rows

pytestmark = pytest.mark.compiled  # sizes for which a look is worth it

N, P = 6000, 400
X = np.random.default_rng(8).standard_normal(P)


def look(A, damp=0.0, seed=0):
    """Return the spectrum estimated from some rows, and the outlying directions confirmed by all rows."""
    system = System(open_rows(A), A @ X, damp=damp)
    spectrum = look_at_spectrum(system, np.random.default_rng(seed))
    assert look_at_spectrum(system, np.random.default_rng(seed + 1)) is spectrum  # one look is enough
    return spectrum, outliers_of(system, spectrum.common_directions)


def clustered(n_clusters, spread, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n_clusters, P))[rng.integers(0, n_clusters, N)] + spread * rng.standard_normal((N, P))


def with_noise(A, noise=0.1, seed=1):
    rng = np.random.default_rng(seed)
    b = A @ rng.standard_normal(A.shape[1])
    return b + noise * np.std(b) * rng.standard_normal(len(b))


@pytest.mark.parametrize("seed", range(4))
def test_gaussian_rows__have_no_outlying_singular_values(seed):
    assert look(gaussian(N, P, seed=seed)[0], seed=seed) == (Spectrum(), None)


@pytest.mark.parametrize("tail", [1.5, 3.0])
@pytest.mark.parametrize("seed", range(3))
def test_rows_of_very_different_norms__do_not_start_a_search_for_outliers(tail, seed):
    lengths = np.random.default_rng(seed).pareto(tail, N)[:, None]
    assert look(gaussian(N, P)[0] * lengths)[0].even


@pytest.mark.parametrize(("n_clusters", "spread"), [(1, 0.01), (1, 1.0), (4, 0.1), (4, 1.0), (9, 0.1)])
@pytest.mark.parametrize("damp", [0.0, 20.0])
def test_outliers__are_those_of_all_rows(n_clusters, spread, damp):
    A = clustered(n_clusters, spread)
    spectrum, outliers = look(A, damp)
    values, vectors = np.linalg.eigh(A.T @ A + damp**2 * np.eye(P))
    largest = vectors[:, -n_clusters:].T
    assert spectrum.even
    np.testing.assert_allclose(spectrum.common_directions.equations @ X, spectrum.common_directions.targets, rtol=1e-10)
    assert outliers.vectors.shape == (n_clusters, P)
    assert np.linalg.svd(outliers.vectors @ largest.T, compute_uv=False)[-1] > 0.999
    np.testing.assert_allclose(outliers.vectors @ outliers.vectors.T, np.eye(n_clusters), atol=1e-12)
    assert outliers.largest == pytest.approx(values[-1], rel=0.01)
    expected = np.mean(values[:-n_clusters]) / values[-n_clusters:]
    np.testing.assert_allclose(np.sort(outliers.weights), np.sort(expected), rtol=0.1)


def test_outliers__scale_the_gradients():
    A = clustered(4, 0.1)
    _, outliers = look(A)
    levelled = A.T @ A
    outliers.level(levelled)
    values = np.sort(np.linalg.eigvals(levelled).real)
    edge = np.sqrt(P / N)
    assert values[-1] / values[0] < 1.2 * ((1 + edge) / (1 - edge)) ** 2


@pytest.mark.parametrize("rank", [5, 33, 90])
def test_low_rank__is_even_if_what_the_rows_reach_is(rank):
    rng = np.random.default_rng(rank)
    left, right = rng.standard_normal((N, rank)), np.linalg.qr(rng.standard_normal((P, rank)))[0].T
    assert look(left @ right)[0].even
    assert look(left * np.geomspace(1.0, 1e-4, rank) @ right)[0].even == (rank == 5)  # few steps are all that takes


@pytest.mark.parametrize("condition", [10.0, 1e3, 1e6])
def test_values_that_decay__are_not_even(condition):
    rng = np.random.default_rng(0)
    V = np.linalg.qr(rng.standard_normal((P, P)))[0]
    A = rng.standard_normal((N, P)) * np.geomspace(1, 1 / condition, P) @ V
    spectrum, _ = look(A)
    assert spectrum.common_directions is None
    assert spectrum.unevenness == pytest.approx(np.log(condition), rel=0.2)
    assert not spectrum.even
    assert look(A, damp=10.0 * np.sqrt(N))[0].even  # all values are that of the damping


def test_directions__that_all_rows_do_not_confirm_are_not_used():
    A = clustered(2, 0.1)
    A[17] = 1e7 * np.random.default_rng(1).standard_normal(P)  # in no sample but by chance
    spectrum, outliers = look(A)
    assert len(spectrum.common_directions.equations) == 2
    assert outliers is None


def test_spectrum__is_not_estimated_for_small_or_sparse_systems():
    assert not spectrum_estimate_pays(System(open_rows(gaussian(500, 100)[0]), np.zeros(500)))
    assert not spectrum_estimate_pays(System(open_rows(gaussian(100_000, 30)[0]), np.zeros(100_000)))
    assert not spectrum_estimate_pays(System(open_rows(sparse.csr_array(gaussian(N, P)[0])), np.zeros(N)))
    assert spectrum_estimate_pays(System(open_rows(gaussian(N, P)[0]), np.zeros(N)))


@pytest.mark.parametrize("store", [np.ascontiguousarray, np.asfortranarray, np.float32], ids=["c", "fortran", "single"])
@pytest.mark.parametrize(("n_clusters", "spread"), [(1, 0.01), (5, 0.1)])
def test_refined__continues_without_outlying_directions(store, n_clusters, spread):
    A = store(clustered(n_clusters, spread))
    b = with_noise(A)
    solution, plain = (rowsolve.solve(A, b, rowsolve.Refined(kind), rng=0) for kind in ("auto", "none"))
    error = relative_error(solution.x, np.linalg.lstsq(A.astype(float), b)[0])
    assert solution.status is Status.CONVERGED
    assert error < 2e-6
    assert error / 3 < solution.error_estimate < 10 * error
    assert solution.passes < 0.8 * plain.passes


def test_refined__scales_gradients_for_several_right_hand_sides():
    A = clustered(3, 0.1)
    b = np.stack([with_noise(A, seed=seed) for seed in range(3)], axis=1)
    solution = rowsolve.solve(A, b, rowsolve.Refined(), rng=0)
    assert solution.status is Status.CONVERGED
    errors = [relative_error(*pair) for pair in zip(solution.x.T, np.linalg.lstsq(A, b)[0].T, strict=True)]
    assert max(errors) < 2e-6
