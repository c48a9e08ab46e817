"""Condition number, rank, noise and outliers of systems for which they are known."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
from conftest import gaussian
from scipy import sparse

from rowsolve._validate import system_of
from rowsolve.inspection import sample as module
from rowsolve.inspection.sample import condition_of, fit, rows_to_factor, take_sample
from rowsolve.problem.system import System


def with_condition(n_rows, n_columns, condition, seed=0):
    """Singular values that decay geometrically; b is that of a random x."""
    rng = np.random.default_rng(seed)
    V = np.linalg.qr(rng.standard_normal((n_columns, n_columns)))[0]
    A = rng.standard_normal((n_rows, n_columns)) * condition ** -np.linspace(0.0, 1.0, n_columns) @ V.T
    return A, A @ rng.standard_normal(n_columns)


def look(A, b, n_rows=None):
    """Return the results of a sample of some rows, by default of all."""
    source, vector, eps = system_of(A, b)
    n_rows = n_rows or source.shape[0]
    norms, sample = take_sample(System(source, vector), n_rows, np.random.default_rng(1))
    found = fit(sample, eps)
    return norms, condition_of(sample, found.factor, n_rows / source.shape[0]), found.noise


@pytest.mark.parametrize("condition", [1.0, 30.0, 1e4, 1e10])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_condition__of_all_rows_is_in_the_range_that_a_sample_gives(condition, seed):
    A, b = with_condition(6000, 12, condition, seed)
    _, found, _ = look(A, b, 300)
    assert found.n_rows == 300
    assert found.least <= np.linalg.cond(A) <= found.most
    assert found.most / found.least < 6.0


def test_condition__of_all_rows_is_known_to_some_20_percent():
    A, b = with_condition(300, 12, 50.0)
    _, found, _ = look(A, b)
    assert found.least == found.sampled
    assert 0.75 * np.linalg.cond(A) < found.sampled < 1.01 * np.linalg.cond(A)
    assert found.sampled <= np.linalg.cond(A) <= found.most * 1.01


def test_condition__of_random_rows_may_be_1():
    A, b, _ = gaussian(20_000, 40)
    _, found, _ = look(A, b, 160)
    assert found.sampled == pytest.approx(3.0, rel=0.2)  # (1 + 1/2) / (1 - 1/2)
    assert 1.0 <= found.least < np.linalg.cond(A) < found.most


def test_condition__of_all_rows_is_not_widened_by_zero_rows():
    A, b = with_condition(300, 12, 50.0)
    A[::3], b[::3] = 0.0, 0.0
    _, found, _ = look(A, b)
    assert (found.n_rows, found.least) == (200, found.sampled)


def test_condition__allows_for_rows_of_very_different_norms():
    A, _, x = gaussian(4000, 20)
    A *= 10.0 ** np.random.default_rng(5).uniform(-3, 3, 4000)[:, None]
    _, found, _ = look(A, A @ x, 600)
    assert found.least <= np.linalg.cond(A)
    assert found.most is None or np.linalg.cond(A) <= found.most


def test_widening__is_one_for_all_rows_and_the_formula_of_many_rows():
    assert module._condition_widening(1.0, 0.3) == 1.0
    assert module._condition_widening(1e-9, 0.25e-9) == pytest.approx(3.0)
    assert module._condition_widening(0.1, 0.1) == math.inf  # p rows tell nothing
    assert module._condition_widening(0.5, 0.125) == pytest.approx((math.sqrt(7) + 1) / (math.sqrt(7) - 1))


@pytest.mark.parametrize("store", [np.asarray, sparse.csr_array])
def test_rank__of_repeated_and_zero_columns(store):
    A, _, x = gaussian(300, 12)
    A[:, 3], A[:, 5] = A[:, 4], 0.0
    _, found, noise = look(store(A), A @ x)
    assert found.rank == 10
    assert found.sampled < 5.0  # of the directions that there are
    assert noise.relative == 0.0


@pytest.mark.parametrize("level", [1e-8, 0.01, 0.3])
@pytest.mark.parametrize("condition", [1.0, 1e4])
def test_noise__is_estimated_from_the_rows_beyond_p(level, condition):
    A, b = with_condition(900, 12, condition)
    size = np.sqrt(np.mean(b**2))
    noisy = b + level * size * np.random.default_rng(2).standard_normal(900)
    _, _, noise = look(A, noisy, 400)
    assert noise.relative == pytest.approx(level / math.hypot(1.0, level), rel=0.1)
    assert (noise.n_wild, noise.n_rows) == (0, 400)


@pytest.mark.parametrize("condition", [1.0, 1e4, 1e8, 1e12])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_noise__is_none_beyond_rounding_where_equations_agree(condition, dtype):
    A, b = with_condition(900, 12, condition)
    assert look(A.astype(dtype), b.astype(dtype))[2].relative == 0.0


@pytest.mark.parametrize("scale", [1e-140, 1e140])
def test_sample__at_the_ends_of_the_range(scale):
    A, b, _ = gaussian(300, 12, noise=0.1)
    _, found, noise = look(A * scale, b * scale)
    assert found.sampled == pytest.approx(np.linalg.cond(A), rel=0.25)
    assert noise.relative == pytest.approx(0.1, rel=0.2)


@pytest.mark.parametrize("n_rows", [12, 8])
def test_noise__is_not_known_without_rows_beyond_the_rank(n_rows):
    A, b, _ = gaussian(n_rows, 12)
    _, found, noise = look(A, b)
    assert noise.relative is None
    assert found.rank == n_rows


@pytest.mark.parametrize(("level", "share"), [(0.0, 0.02), (0.0, 0.15), (0.01, 0.02), (0.01, 0.1)])
def test_outliers__are_counted_and_left_out_of_the_noise(level, share):
    A, b, _ = gaussian(1000, 12)
    rng = np.random.default_rng(3)
    size, wrong = np.std(b), rng.choice(1000, round(1000 * share), replace=False)
    b += level * size * rng.standard_normal(1000)
    b[wrong] += size * rng.choice([-1, 1], wrong.size) * rng.uniform(5.0, 50.0, wrong.size)
    _, _, noise = look(A, b)
    assert noise.n_wild == wrong.size
    assert noise.relative == pytest.approx(level, rel=0.1)


def test_outliers__are_not_found_in_noise_proportional_to_the_norms_nor_in_uniform_noise():
    A, _, x = gaussian(1000, 12)
    norms = 10.0 ** np.random.default_rng(5).uniform(-2, 2, 1000)
    A *= norms[:, None]
    noise = np.random.default_rng(6).standard_normal(1000)
    assert look(A, A @ x + 0.1 * norms * noise)[2].n_wild == 0
    assert look(A, A @ x + 0.1 * noise)[2].n_wild == 0


def test_outliers__are_few_or_none():
    A, b, _ = gaussian(1000, 12)
    b[:300] *= 50.0
    assert look(A, b)[2].n_wild == 0


def test_norms__count_zero_rows_and_find_one_with_a_nonzero_b():
    A, b, _ = gaussian(400, 6)
    A[::4], b[::4] = 0.0, 0.0
    b[8] = 1.0
    found, condition, noise = look(A, b)
    norms = np.linalg.norm(A[A.any(axis=1)], axis=1)
    assert (found.n_rows, found.n_zero, found.contradiction) == (400, 100, 8)
    assert (found.least, found.most) == pytest.approx((norms.min(), norms.max()))
    assert (condition.n_rows, noise.relative) == (300, 0.0)


def test_norms__of_zero_rows_only():
    source, vector, _ = system_of(np.zeros((5, 2)), np.zeros(5))
    found, sample = take_sample(System(source, vector), 5, np.random.default_rng(0))
    assert sample is None
    assert (found.n_rows, found.n_zero, found.least) == (5, 5, None)


@pytest.mark.parametrize(
    ("n_rows", "n_columns", "count"),
    [(100, 50, 100), (10**6, 10, 16 * 10 + 256), (10**6, 1000, 6750 + 256), (10**6, 1500, 3256)],
)
def test_rows_to_factor__are_never_more_than_there_are_nor_fewer_than_twice_p(n_rows, n_columns, count):
    assert rows_to_factor(SimpleNamespace(n_rows=n_rows, n_columns=n_columns)) == count
