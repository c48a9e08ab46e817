"""The exact rate, compared with a direct formula and with runs."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from rowsolve.theory import expected_rate, paving_constants


def mean_projection(A, probabilities, blocks):
    return sum(q * np.linalg.pinv(A[rows]) @ A[rows] for q, rows in zip(probabilities, blocks, strict=True))


def matrix(n, p, seed):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, p)) * rng.uniform(0.1, 3.0, (n, 1))


@given(st.integers(1, 12), st.integers(1, 6), st.integers(0, 10**6))
def test_rate_of_rows__agrees_with_the_mean_projection(n, p, seed):
    A = matrix(n + p, p, seed)
    singles = [[i] for i in range(n + p)]
    norms = np.sum(A**2, axis=1) / np.sum(A**2)
    given_ones = np.random.default_rng(seed).dirichlet(np.ones(n + p))
    for name, q in [("norms", norms), ("uniform", np.full(n + p, 1 / (n + p))), (given_ones, given_ones)]:
        least = np.linalg.eigvalsh(mean_projection(A, q, singles))[0]
        assert expected_rate(A, name) == pytest.approx(1 - least, abs=1e-12)
        assert expected_rate(A, name, blocks=singles) == pytest.approx(1 - least, abs=1e-12)


@given(st.integers(2, 6), st.integers(1, 4), st.integers(0, 10**6))
def test_rate_of_blocks__agrees_with_the_mean_projection(n_blocks, size, seed):
    A = matrix(n_blocks * size, 5, seed)
    blocks = np.random.default_rng(seed).permutation(n_blocks * size).reshape(n_blocks, size)
    masses = np.array([np.sum(A[rows] ** 2) for rows in blocks])
    for name, q in [("uniform", np.full(n_blocks, 1 / n_blocks)), ("norms", masses / masses.sum())]:
        values = np.linalg.eigvalsh(mean_projection(A, q, blocks))
        rank = min(n_blocks * size, 5)
        assert expected_rate(A, name, blocks) == pytest.approx(1 - values[5 - rank], abs=1e-10)


def test_rate_by_norms__is_that_of_strohmer_and_vershynin():
    A = matrix(40, 7, 0)
    expected = 1 - np.linalg.svd(A, compute_uv=False)[-1] ** 2 / np.sum(A**2)
    assert expected_rate(A, "norms") == pytest.approx(expected, abs=1e-14)
    assert expected_rate(sparse.csr_array(A), "norms") == pytest.approx(expected, abs=1e-14)
    assert expected_rate(A * 1e-200, "norms") == pytest.approx(expected, abs=1e-14)


def test_rate__has_the_values_of_simple_matrices():
    assert expected_rate(np.eye(4), "uniform") == pytest.approx(0.75)
    assert expected_rate(np.eye(4), "uniform", [[0, 1], [2, 3]]) == pytest.approx(0.5)
    assert expected_rate(np.eye(2), [0.9, 0.1]) == pytest.approx(0.9)
    assert expected_rate(np.eye(3), "uniform", [range(3)]) == pytest.approx(0.0, abs=1e-14)


def test_rate__is_taken_over_the_row_space():
    A = np.array([[1.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 0.0], [3.0, 0.0, 0.0]])
    assert expected_rate(A, "uniform") == pytest.approx(0.75)  # the second axis is drawn one time in four
    assert expected_rate(A, "norms") == pytest.approx(1 - 4 / 14)


def test_rate__is_one_if_a_direction_is_never_drawn():
    assert expected_rate(np.eye(3), [0.5, 0.5, 0.0]) == 1.0
    assert expected_rate(np.eye(3), "uniform", [[0, 1]]) == 1.0


def test_rate__is_attained_by_the_worst_error_and_by_no_other():
    A = matrix(30, 6, 1)
    projection = mean_projection(A, np.full(30, 1 / 30), [[i] for i in range(30)])
    _, vectors = np.linalg.eigh(projection)
    directions = A / np.linalg.norm(A, axis=1, keepdims=True)
    left = [np.mean([np.sum((e - (a @ e) * a) ** 2) for a in directions]) for e in vectors.T]
    assert left[0] == pytest.approx(expected_rate(A, "uniform"), rel=1e-12)
    assert max(left) == left[0]


@pytest.mark.parametrize("size", [1, 2])
def test_rate__bounds_the_mean_of_many_runs(size):
    A, rng = matrix(24, 6, 2), np.random.default_rng(0)
    blocks = np.arange(24).reshape(-1, size)
    projections = np.stack([np.linalg.pinv(A[rows]) @ A[rows] for rows in blocks])
    _, vectors = np.linalg.eigh(projections.mean(axis=0))
    rate = expected_rate(A, "uniform", blocks)
    errors = np.tile(vectors[:, 0], (20_000, 1))  # the worst start: here the first step has just this rate
    for j in range(1, 13):
        errors -= np.einsum("rpq,rq->rp", projections[rng.integers(len(blocks), size=len(errors))], errors)
        mean = np.mean(np.sum(errors**2, axis=1))
        assert mean <= rate**j * 1.01
        if j == 1:
            assert mean == pytest.approx(rate, rel=0.01)


def test_rate__of_orthogonal_rows_is_that_of_every_step():
    rng, p = np.random.default_rng(0), 5
    rate = expected_rate(np.eye(p), "uniform")
    errors = np.ones((20_000, p)) / np.sqrt(p)
    for _ in range(6):
        errors[np.arange(20_000), rng.integers(p, size=20_000)] = 0.0
    assert np.mean(np.sum(errors**2, axis=1)) == pytest.approx(rate**6, rel=0.03)


@given(st.integers(0, 10**6))
def test_rate__is_no_worse_than_what_the_paving_promises(seed):
    A = matrix(24, 6, seed)
    blocks = np.random.default_rng(seed).permutation(24).reshape(8, 3)
    m, _, beta = paving_constants(A, blocks)
    smallest = np.linalg.svd(A, compute_uv=False)[-1]
    assert expected_rate(A, "uniform", blocks) <= 1 - smallest**2 / (beta * m) + 1e-12


def test_rate__improves_with_larger_blocks_of_all_kinds():
    A = matrix(7, 4, 3)
    rates = [expected_rate(A, "uniform", combinations(range(7), size)) for size in range(1, 5)]
    assert rates == sorted(rates, reverse=True)
    assert rates[0] == pytest.approx(expected_rate(A, "uniform"))
    assert rates[-1] == pytest.approx(0.0, abs=1e-12)  # four rows fix four unknowns


@pytest.mark.parametrize(
    ("A", "probabilities", "blocks", "words"),
    [
        (np.zeros((2, 10_001)), "uniform", None, "at most 10000 columns, got 10001"),
        (np.zeros((2, 3)), "uniform", None, "`A` must have a nonzero row"),
        (np.eye(2), "norm", None, "must be 'norms', 'uniform' or an array, got 'norm'"),
        (np.eye(2), [1.0], None, r"one entry for each of 2 draws, got shape \(1,\)"),
        (np.eye(2), [0.5, 0.6], None, "at least 0 and sum to 1, got a sum of"),
        (np.eye(2), [1.5, -0.5], None, "at least 0 and sum to 1"),
        (np.eye(2), "uniform", [[0], [2]], "block 1 holds row 2"),
        ([[1.0, 0.0], [0.0, 0.0]], "norms", [[1]], "must have a nonzero row, as they are drawn by norm"),
        ([1.0, 2.0], "uniform", None, r"got shape \(2,\)"),
        (3.0, "uniform", None, r"got shape \(\)"),
    ],
)
def test_rate__refuses_bad_input(A, probabilities, blocks, words):
    with pytest.raises(ValueError, match=words):
        expected_rate(A, probabilities, blocks)
