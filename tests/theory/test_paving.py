"""Pavings: their constants compared with eigenvalues, their bound with runs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from rowsolve.theory import PavingConstants, paving_bound, paving_bound_as_printed, paving_constants


def random_paving(n, n_blocks, seed):
    return np.array_split(np.random.default_rng(seed).permutation(n), n_blocks)


def squared_errors(A, b, x_star, blocks, n_steps, n_runs, seed=0):
    """Return the mean squared error of block Kaczmarz from 0, before the first step and after each."""
    rng = np.random.default_rng(seed)
    inverses = np.stack([np.linalg.pinv(A[rows]) for rows in blocks])
    indices = np.stack(blocks)
    x = np.zeros((n_runs, A.shape[1]))
    means = [np.sum((x - x_star) ** 2) / n_runs]
    for _ in range(n_steps):
        drawn = rng.integers(len(blocks), size=n_runs)
        gaps = b[indices[drawn]] - np.einsum("rsp,rp->rs", A[indices[drawn]], x)
        x += np.einsum("rps,rs->rp", inverses[drawn], gaps)
        means.append(np.sum((x - x_star) ** 2) / n_runs)
    return np.array(means)


def noisy_system(noise, n=60, p=10, seed=0):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((n, p))
    b = A @ rng.standard_normal(p) + noise * rng.standard_normal(n)
    x_star = np.linalg.lstsq(A, b)[0]
    return A, b, x_star


@given(st.integers(1, 20), st.integers(1, 12), st.integers(1, 6), st.integers(0, 10**6))
def test_constants__are_the_extreme_eigenvalues_of_the_blocks(n, p, n_blocks, seed):
    A = np.random.default_rng(seed).standard_normal((n, p))
    blocks = random_paving(n, min(n, n_blocks), seed)
    values = np.concatenate([np.linalg.eigvalsh(A[rows] @ A[rows].T) for rows in blocks])
    m, alpha, beta = paving_constants(A, blocks)
    assert m == len(blocks)
    assert alpha == pytest.approx(values.min(), rel=1e-6, abs=1e-12)
    assert beta == pytest.approx(values.max(), rel=1e-12)


def test_constants__take_the_rows_as_they_are():
    A = np.diag([1.0, 2.0, 3.0, 4.0])
    assert paving_constants(A, [[0, 3], [2, 1]]) == PavingConstants(m=2, alpha=1.0, beta=16.0)
    assert paving_constants(A.tolist(), iter([[0, 1, 2, 3]])) == (1, 1.0, 16.0)


@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csc_matrix, sparse.coo_array])
def test_constants__of_a_sparse_matrix_are_those_of_the_dense(kind):
    A = np.random.default_rng(0).standard_normal((12, 7))
    blocks = random_paving(12, 3, 0)
    assert paving_constants(kind(A), blocks) == pytest.approx(paving_constants(A, blocks))


def test_constants__of_dependent_rows_have_alpha_zero():
    assert paving_constants([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0]], [[0, 1]]).alpha == 0.0
    assert paving_constants(np.random.default_rng(0).standard_normal((5, 3)), [range(5)]).alpha == 0.0
    assert paving_constants([[1.0, 0.0], [0.0, 0.0]], [[0], [1]]) == (2, 0.0, 1.0)


@pytest.mark.parametrize(
    ("blocks", "words"),
    [
        ([[0, 1], [3]], "exactly one block; row 2 is in none"),
        ([[0, 1], [2, 3, 1]], "exactly one block; row 1 occurs 2 times"),
        ([[0, 1], [2, 3, 4]], "block 1 holds row 4, but the rows of `A` are 0 to 3"),
        ([[0, -1], [1, 2]], "block 0 holds row -1"),
        ([[0, 1, 2, 3], []], r"block 1 must be a list of at least one row index, got \[\]"),
        ([[True, False, True, False]], "block 0 must be a list of at least one row index"),
        ([], "at least one block, got none"),
    ],
)
def test_constants__refuse_blocks_that_are_no_partition(blocks, words):
    with pytest.raises(ValueError, match=words):
        paving_constants(np.eye(4), blocks)


@pytest.mark.parametrize("noise", [0.0, 0.1, 1.0])
def test_bound__holds_for_the_mean_of_many_runs(noise):
    A, b, x_star = noisy_system(noise)
    blocks = random_paving(60, 15, 1)
    paving, noise_sq = paving_constants(A, blocks), np.sum((A @ x_star - b) ** 2)
    smallest = np.linalg.svd(A, compute_uv=False)[-1]
    errors = squared_errors(A, b, x_star, blocks, n_steps=60, n_runs=300)
    bounds = [paving_bound(j, errors[0], smallest, paving, noise_sq) for j in range(61)]
    assert (errors <= np.array(bounds) * (1 + 1e-9)).all()


def test_bound__is_attained_by_orthogonal_rows():
    A = np.eye(6)
    blocks = np.arange(6).reshape(3, 2)
    x_star = np.ones(6)
    paving = paving_constants(A, blocks)
    errors = squared_errors(A, x_star, x_star, blocks, n_steps=4, n_runs=20_000)
    for j in range(5):
        assert paving_bound(j, 6.0, 1.0, paving, 0.0) == pytest.approx(6 * (2 / 3) ** j)
        assert errors[j] == pytest.approx(6 * (2 / 3) ** j, rel=0.03)


def test_bound_as_printed__is_that_of_one_step_and_misses_the_convergence():
    A, b, x_star = noisy_system(0.0)
    blocks = random_paving(60, 15, 1)
    paving = paving_constants(A, blocks)
    smallest = np.linalg.svd(A, compute_uv=False)[-1]
    errors = squared_errors(A, b, x_star, blocks, n_steps=100, n_runs=100)
    printed = paving_bound_as_printed(errors[0], smallest, paving, 0.0)
    assert printed == paving_bound(1, errors[0], smallest, paving, 0.0)
    assert printed < errors[0]  # false before the first step: nothing says how many there were
    assert printed > 0.5 * errors[0]  # and it stays there …
    assert errors[-1] < 1e-6 * printed  # … while the error goes
    assert paving_bound(1000, errors[0], smallest, paving, 0.0) < 1e-6 * printed


def test_bound__has_the_value_of_the_formula():
    paving = PavingConstants(m=4, alpha=0.5, beta=2.0)
    assert paving_bound(3, 10.0, 2.0, paving, 0.6) == pytest.approx(10 * 0.5**3 + 4 * 0.6 / 4)
    assert paving_bound_as_printed(10.0, 2.0, paving, 0.6) == pytest.approx(10 * 0.5 + 4 * 0.6 / 4)
    assert paving_bound(10_000, 10.0, 2.0, paving, 0.6) == pytest.approx(0.6)  # what noise leaves


def test_bound__with_dependent_rows_promises_something_only_without_noise():
    paving = PavingConstants(m=4, alpha=0.0, beta=2.0)
    assert paving_bound(3, 10.0, 2.0, paving, 0.6) == math.inf
    assert paving_bound(3, 10.0, 2.0, paving, 0.0) == pytest.approx(1.25)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"j": -1}, "`j` must be an integer of at least 0, got -1"),
        ({"error0_sq": -1.0}, "`error0_sq` must be a finite number of at least 0, got -1.0"),
        ({"noise_sq": math.nan}, "`noise_sq` must be a finite number of at least 0, got nan"),
        ({"smallest_singular_value": 0.0}, "`smallest_singular_value` must be a finite number above 0"),
        ({"smallest_singular_value": 3.0}, r"must be at most beta \* m"),
        ({"paving": PavingConstants(4, 3.0, 2.0)}, "0 <= alpha <= beta, got alpha 3.0 and beta 2.0"),
        ({"paving": PavingConstants(0, 1.0, 2.0)}, "`m` must be an integer of at least 1, got 0"),
    ],
)
def test_bound__refuses_bad_input(changes, words):
    paving = PavingConstants(4, 0.5, 2.0)
    arguments = {"j": 1, "error0_sq": 1.0, "smallest_singular_value": 1.0, "paving": paving, "noise_sq": 0.0}
    with pytest.raises(ValueError, match=words):
        paving_bound(**(arguments | changes))
