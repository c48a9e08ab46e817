"""Systems with outliers in b: x, the rows listed, and when the result is not accepted."""

from __future__ import annotations

import naive
import numpy as np
import pytest
from bursts import burst_of
from conftest import JIT, N_COLUMNS, N_ROWS, gaussian, relative_error
from scipy import sparse

import rowsolve
from rowsolve import Quantile, Status

STORES = [np.asarray, sparse.csr_array]


def corrupted(share, size=1.0, *, cluster=False, seed=0):
    """Return A, b, x and the rows whose b is wrong; these may be nearly parallel."""
    rng = np.random.default_rng(seed)
    A, b, x = gaussian(seed=seed)
    wrong = np.sort(rng.choice(N_ROWS, round(share * N_ROWS), replace=False))
    if cluster:
        A[wrong] = rng.standard_normal(N_COLUMNS) + 0.05 * rng.standard_normal((wrong.size, N_COLUMNS))
        b = A @ x
    b[wrong] = size * np.std(b) * rng.standard_normal(wrong.size)
    return A, b, x, wrong


@pytest.mark.parametrize("store", STORES, ids=["dense", "csr"])
@pytest.mark.parametrize(
    ("share", "size", "cluster"),
    [
        (0.02, 10.0, False),
        (0.1, 1.0, False),
        (0.1, 10.0, False),
        (0.1, 1.0, True),
        (0.1, 10.0, True),
        (0.2, 1.0, False),
    ],
)
def test_wrong_rows__do_no_harm_and_are_listed(share, size, cluster, store):
    A, b, x_true, wrong = corrupted(share, size, cluster=cluster)
    solution = rowsolve.solve(store(A), b, "quantile", rng=1)
    error = relative_error(solution.x, x_true)
    assert solution.status is Status.CONVERGED
    assert error <= 2e-6
    assert error / 3 <= solution.error_estimate <= 10 * error
    np.testing.assert_array_equal(solution.rows_off, wrong)
    assert solution.rows_off.dtype == np.int64
    assert f"left out as outliers: {wrong.size} row(s): {wrong[0]}, {wrong[1]}" in solution.message
    assert "x satisfies all other rows, which were checked" in solution.message


def test_step__skips_rows_that_are_further_than_the_level_allows():
    A, b, _, _ = corrupted(0.1, 10.0)
    burst = burst_of(Quantile(quantile=0.6, slack=2.0), A, b, 300)
    x, gate = burst.start[0], burst.plan.gate
    sample = np.random.default_rng(0).integers(0, N_ROWS, 64)
    level = np.quantile(np.abs(b - A @ x)[sample] / np.linalg.norm(A, axis=1)[sample], 0.6) ** 2
    floor = (np.finfo(float).eps * np.linalg.norm(x)) ** 2
    expected = burst.start.copy()
    drops, level = naive.guarded_sweep(A, b, burst.order, expected, level, floor, 4.0, gate.up, gate.down)
    assert gate.up ** (1 - 0.6) == pytest.approx(gate.down**-0.6)  # still where 60% of the rows are below it
    np.testing.assert_allclose(gate.level, [level, floor], rtol=1e-9)
    np.testing.assert_allclose(burst.iterates, expected, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(burst.drops, drops, rtol=1e-9)


def test_no_wrong_rows__none_are_listed():
    A, b, x_true = gaussian(seed=3)
    solution = rowsolve.solve(A, b, "quantile", rng=0)
    assert solution.converged
    assert solution.rows_off.size == 0
    assert "outliers" not in solution.message
    assert relative_error(solution.x, x_true) < 2e-6


def test_one_wrong_row__is_found_by_the_full_check():
    A, b, _ = gaussian(seed=3)
    b[7] += 1.0
    solution = rowsolve.solve(A, b, "quantile", check="full", rng=0)
    assert solution.converged
    assert solution.rows_off.tolist() == [7]


def test_rows_off__are_known_to_other_methods_too():
    A, b, _ = gaussian(20_000, 12, seed=2)
    b[777] += 100.0
    solution = rowsolve.solve(A, b, "randomized", rng=1, check="full")
    assert solution.status is Status.INCONSISTENT
    assert solution.rows_off.tolist() == [777]
    assert rowsolve.solve(A, b, "randomized", rng=1, max_passes=0.001).rows_off.size == 0


def test_the_price__is_the_rows_visited_and_a_pass_to_list_the_wrong_ones():
    A, b, _, wrong = corrupted(0.02)
    solution = rowsolve.solve(A, b, "quantile", rng=1)
    extremes = 2  # of b
    assert solution.rows_read == solution.history.rows_read[-1] + 256 + extremes + N_ROWS + wrong.size


@pytest.mark.parametrize("share", [0.4, 0.48, 0.6])
def test_too_many_wrong_rows__are_never_called_converged_at_a_wrong_x(share):
    for seed in range(3):
        A, b, x_true, wrong = corrupted(share, seed=seed)
        solution = rowsolve.solve(A, b, "quantile", rng=seed, max_passes=200)
        if solution.converged:
            assert relative_error(solution.x, x_true) < 2e-6
            np.testing.assert_array_equal(solution.rows_off, wrong)
        else:
            assert solution.status in (Status.INCONSISTENT, Status.MAX_PASSES, Status.SLOW)
    assert not rowsolve.solve(*corrupted(0.6)[:2], "quantile", rng=0, max_passes=200).converged


def test_wrong_rows_that_are_consistent__give_inconsistent_unless_they_are_found():
    A, b, x_true, wrong = corrupted(0.2, cluster=True)
    b = A @ x_true
    b[wrong] += 0.1 * np.std(b)
    for seed in range(3):
        solution = rowsolve.solve(A, b, "quantile", rng=seed)
        error = relative_error(solution.x, x_true)
        if solution.converged:
            assert error < 5e-6
            np.testing.assert_array_equal(solution.rows_off, np.sort(wrong))
        assert solution.error_estimate > error / 10


def test_hardly_more_rows_than_columns__need_confirmation_by_other_rows():
    for seed in range(6 if JIT else 1):  # each takes seconds in plain Python
        rng = np.random.default_rng(seed)
        A, b, _ = gaussian(36, 30, seed=seed)
        b[rng.choice(36, 3, replace=False)] += rng.standard_normal(3)
        assert not rowsolve.solve(A, b, "quantile", rng=seed).converged


def one_hot(seed, share):
    rng = np.random.default_rng(seed)
    n_rows, n_columns = (2000, 100) if JIT else (400, 20)
    columns = np.concatenate([np.arange(n_columns), rng.integers(0, n_columns, n_rows - n_columns)])
    A = sparse.csr_array((np.ones(n_rows), (np.arange(n_rows), columns)), shape=(n_rows, n_columns))
    x = rng.standard_normal(n_columns)
    b = A @ x
    b[rng.choice(n_rows, round(share * n_rows), replace=False)] += 1.0
    return A, b, x


def test_columns_with_few_entries__are_used_or_reported_as_doubtful():
    for seed in range(6):
        A, b, x_true = one_hot(seed, 0.0)
        solution = rowsolve.solve(A, b, "quantile", rng=seed)  # half of the distances are 0: so is the quantile
        assert solution.converged
        assert relative_error(solution.x, x_true) < 2e-6
        A, b, x_true = one_hot(seed, 0.1)
        solution = rowsolve.solve(A, b, "quantile", rng=seed)
        assert not solution.converged or relative_error(solution.x, x_true) < 2e-6


def test_the_published_form__works_too():
    A, b, x_true, wrong = corrupted(0.02)
    for quantile in (0.7, 0.8):
        solution = rowsolve.solve(A, b, Quantile(quantile=quantile, slack=1.0), rng=1)
        assert solution.converged
        assert relative_error(solution.x, x_true) < 4e-6
        np.testing.assert_array_equal(solution.rows_off, wrong)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Quantile(quantile=0.4), "`quantile` must be a number of at least 0.5 and below 1, got 0.4"),
        (lambda: Quantile(quantile=1.0), "`quantile` must be a number of at least 0.5 and below 1, got 1.0"),
        (lambda: Quantile(quantile="most"), "`quantile` must be a number"),
        (lambda: Quantile(slack=0.5), "`slack` must be a number of at least 1, got 0.5"),
        (lambda: Quantile(slack=float("nan")), "`slack` must be a number of at least 1, got nan"),
    ],
)
def test_parameters__that_are_invalid_raise_an_error(make, words):
    with pytest.raises(ValueError, match=words):
        make()
