"""Several right-hand sides at once."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import JIT, N_COLUMNS, N_ROWS, gaussian, relative_error
from scipy import io, sparse

import rowsolve
from rowsolve import Status
from rowsolve.methods.base import RowMethod

MANY = sorted(name for name, method in rowsolve.METHODS.items() if method().can.many_b)
OTHERS = sorted(set(rowsolve.METHODS) - set(MANY))
ROW_METHODS = [name for name in MANY if issubclass(rowsolve.METHODS[name], RowMethod)]
STORES = pytest.mark.parametrize("store", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
FACTOR, ROUNDING = 3 if JIT else 10, 1e-14


def several(n_rows=N_ROWS, n_columns=N_COLUMNS, n_rhs=4, seed=0):
    """Return A, B and the X from which B was computed; its columns differ by many orders of magnitude."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((n_rows, n_columns))
    X = rng.standard_normal((n_columns, n_rhs)) * 10.0 ** (10 * np.arange(n_rhs))
    return A, A @ X, X


def errors_of(solution, X):
    return np.array([relative_error(solution.x[:, c], X[:, c]) if X[:, c].any() else 0.0 for c in range(X.shape[1])])


@STORES
@pytest.mark.parametrize("name", ["auto", *MANY])
def test_every_column__is_solved_to_its_own_norm(name, store):
    A, B, X = several()
    solution = rowsolve.solve(store(A), B, name, rng=0)
    errors = errors_of(solution, X)
    assert solution.status is Status.CONVERGED
    assert solution.converged
    assert solution.x.shape == X.shape
    assert solution.x.flags.c_contiguous
    assert (errors <= 2e-6).all()
    assert (errors / FACTOR <= solution.error_estimates).all()
    # An x that is done moves on with the rest, but its estimate stays.
    assert (solution.error_estimates <= 3 * FACTOR * np.maximum(errors, ROUNDING)).all()
    assert solution.error_estimate == solution.error_estimates.max()
    assert len(solution.history) > 0
    assert solution.row_check.relative < 1e-5


@STORES
@pytest.mark.parametrize("name", ["auto", *MANY])
def test_every_column__equals_the_single_solve(name, store):
    A, B, _ = several(400, 20, n_rhs=3, seed=1)
    together = rowsolve.solve(store(A), B, name, rng=0)
    for c in range(3):
        alone = rowsolve.solve(store(A), B[:, c], name, rng=0)
        assert alone.error_estimates.shape == (1,)
        assert relative_error(together.x[:, c], alone.x) < 4e-6


@pytest.mark.parametrize("name", ROW_METHODS)
def test_row_methods__read_each_row_once_for_all_columns(name):
    A, B, _ = several(n_rhs=8, seed=2)
    together, alone = rowsolve.solve(A, B, name, rng=0), rowsolve.solve(A, B[:, 0], name, rng=0, threads=1)
    assert together.rows_read < 1.5 * alone.rows_read


@STORES
@pytest.mark.parametrize("name", ["auto", *MANY])
def test_zero__is_a_right_hand_side_too(name, store):
    A, B, X = several(400, 20, seed=3)
    B[:, 1], X[:, 1] = 0.0, 0.0
    solution = rowsolve.solve(store(A), B, name, rng=0)
    assert solution.status is Status.CONVERGED
    assert not solution.x[:, 1].any()
    assert solution.error_estimates[1] == 0.0
    assert (errors_of(solution, X) <= 2e-6).all()


@STORES
@pytest.mark.parametrize("name", ["auto", *MANY])
def test_one_noisy_column__does_no_harm_to_the_others(name, store):
    A, B, X = several(seed=4)
    B[:, 2] += 0.1 * np.std(B[:, 2]) * np.random.default_rng(4).standard_normal(len(B))
    X[:, 2] = np.linalg.lstsq(A, B[:, 2])[0]
    solution = rowsolve.solve(store(A), B, name, rng=0)
    errors, others = errors_of(solution, X), [0, 1, 3]
    assert (errors[others] <= 2e-6).all()
    assert (solution.error_estimates[others] <= 1e-6).all()
    if name in ("auto", "refined"):
        assert solution.status is Status.CONVERGED
        assert solution.method == "refined"
        assert errors[2] <= 2e-6
        assert "least-squares solution" in solution.message
    else:
        assert solution.status is Status.INCONSISTENT
        assert "The tolerance is not met for 1 of 4 right-hand sides (columns of b): 2." in solution.message
        assert solution.error_estimate == solution.error_estimates[2] > 1e-3
        if name != "direct":  # of a few rows
            assert errors[2] < 0.2
            assert errors[2] / 4 <= solution.error_estimates[2] <= 4 * errors[2]


@STORES
def test_least_squares__of_many_columns_of_noise(store):
    A, B, _ = several(N_ROWS // 2, n_rhs=5, seed=5)
    B *= 1.0 + 0.1 * np.random.default_rng(5).standard_normal(B.shape)
    X = np.linalg.lstsq(A, B)[0]
    for preconditioner in ("none", "sample", "all"):
        solution = rowsolve.solve(store(A), B, rowsolve.Refined(preconditioner), rtol=1e-8, rng=0)
        errors = errors_of(solution, X)
        assert solution.status is Status.CONVERGED
        assert (errors < 2e-8).all()
        assert (errors / 3 <= np.maximum(solution.error_estimates, 1e-14)).all()  # rounding is not told so finely


@pytest.mark.parametrize("name", ["auto", *MANY])
def test_solution__is_that_nearest_to_x0(name):
    A, B, X = several(300, 12, n_rhs=2, seed=7)
    A[:, 3], A[:, 5] = A[:, 4], 0.0
    x0 = np.linspace(0, 1, 24).reshape(12, 2)
    X *= 10.0 ** (-10 * np.arange(2))
    B = A @ X
    nearest = x0 + np.linalg.lstsq(A, B - A @ x0)[0]
    solution = rowsolve.solve(A, B, name, x0=x0, rng=0)
    assert solution.status is Status.CONVERGED
    assert (errors_of(solution, nearest) < 2e-6).all()


@pytest.mark.parametrize("name", MANY)
def test_every_method__stops_at_once_at_the_solution(name):
    A, B, X = several(seed=8)
    solution = rowsolve.solve(A, B, name, x0=X, rng=0)
    assert solution.status is Status.CONVERGED
    assert len(solution.history) == 1
    np.testing.assert_allclose(solution.x, X, rtol=1e-11)


@pytest.mark.parametrize("name", ["auto", *MANY])
def test_threads__give_the_same_bits(name):
    A, B, X = several(2000, 60 if JIT else 10, n_rhs=7, seed=9)
    one, two = (rowsolve.solve(A, B, name, rng=0, threads=threads) for threads in (1, 2))
    assert (errors_of(one, X) <= 2e-6).all()
    if name in ROW_METHODS:  # a sum of partial sums is rounded otherwise
        np.testing.assert_array_equal(one.x, two.x)
    np.testing.assert_array_equal(two.x, rowsolve.solve(A, B, name, rng=0, threads=2).x)


@pytest.mark.parametrize("name", [name for name in MANY if name != "refined"])
def test_a_wrong_row__of_one_column_is_found_and_named(name):
    A, B, X = several(20_000 if JIT else 6000, 8, n_rhs=3, seed=10)
    wrong = len(A) - 7
    B[wrong, 1] += 5e10
    solution = rowsolve.solve(A, B, name, check="full", rng=0)
    assert solution.status is Status.INCONSISTENT
    assert solution.rows_off.tolist() == [wrong]
    assert f"but not 1 row(s): {wrong}." in solution.message
    assert (errors_of(solution, X) <= 3e-6).all()


@pytest.mark.parametrize("name", ["cyclic", "randomized", "direct"])
def test_a_row_of_zeros__may_contradict_one_column(name):
    A, B, X = several(600, 10, n_rhs=3, seed=11)
    A[::3], B[::3] = 0.0, 0.0
    B[9::30, 1] = 4.0
    solution = rowsolve.solve(A, B, name, rng=0)
    assert solution.status is Status.CONVERGED
    assert "is zero but b[" in solution.message
    assert "] is not: no x satisfies it" in solution.message
    assert (errors_of(solution, X) <= 2e-6).all()


@STORES
def test_full_check__is_over_all_columns(store):
    A, B, _ = several(500, 10, n_rhs=3, seed=12)
    B *= 1.0 + 0.1 * np.random.default_rng(5).standard_normal(B.shape)
    solution = rowsolve.solve(store(A), B, "block", check="full", rng=0)
    residual = B - A @ solution.x
    assert solution.row_check.full
    assert solution.row_check.relative == pytest.approx(np.linalg.norm(residual) / np.linalg.norm(B))
    assert solution.row_check.gradient == pytest.approx(np.linalg.norm(A.T @ residual), rel=1e-6)


def test_event__has_x_in_the_shape_of_the_answer():
    A, B, _ = several(300, 10, n_rhs=3)
    seen = []
    rowsolve.solve(A, B, "randomized", callback=lambda event: seen.append((event.x.shape, event.x.flags.writeable)))
    assert set(seen) == {((10, 3), False)}


def test_files__may_hold_several_columns(tmp_path):
    A, B, X = several(300, 10, n_rhs=3)
    np.save(tmp_path / "A.npy", A)
    np.save(tmp_path / "B.npy", B)
    solution = rowsolve.solve(tmp_path / "A.npy", tmp_path / "B.npy", rng=0)
    assert (errors_of(solution, X) < 1e-6).all()


def test_float32__is_taken_as_it_is():
    A, B, X = several(n_rhs=3, seed=13)
    solution = rowsolve.solve(A.astype(np.float32), B, rtol=1e-3, rng=0)
    assert solution.status is Status.CONVERGED
    assert (errors_of(solution, X) < 2e-3).all()


@pytest.mark.parametrize("name", MANY)
def test_limits__are_kept(name):
    A, B, _ = several(seed=14)
    B *= 1.0 + 0.1 * np.random.default_rng(5).standard_normal(B.shape)
    method = rowsolve.Refined("none") if name == "refined" else name  # else so small a system is factored at once
    solution = rowsolve.solve(A, B, method, rtol=0.0, max_passes=1.0, rng=0)
    assert solution.passes < 4
    assert solution.x.shape == (A.shape[1], 4)
    assert solution.status in (Status.MAX_PASSES, Status.INCONSISTENT)


@pytest.mark.parametrize("name", OTHERS)
def test_other_methods__raise_value_error(name):
    A, B, _ = several(200, 10, n_rhs=3)
    with pytest.raises(ValueError, match=f"'{name}' requires a single right-hand side, got 3 .* Try 'auto' or one of"):
        rowsolve.solve(A, B, name)


def test_one_column__gives_one_column(tmp_path):
    A, b, x = gaussian(200, 10)
    shapes = []
    expected = rowsolve.solve(A, b, rng=0).x
    solution = rowsolve.solve(A, b[:, None], rng=0, callback=lambda event: shapes.append(event.x.shape))
    np.testing.assert_array_equal(solution.x, expected[:, None])
    assert set(shapes) == {(10, 1)}
    assert rowsolve.solve(A, b[:, None], x0=x[:, None], rng=0).x.shape == (10, 1)
    np.testing.assert_array_equal(rowsolve.solve(A, sparse.csr_array(b[:, None]), rng=0).x, expected[:, None])
    io.mmwrite(tmp_path / "b.mtx", b[:, None])
    np.testing.assert_allclose(rowsolve.solve(A, tmp_path / "b.mtx", rng=0).x, expected, rtol=1e-9)


@pytest.mark.parametrize(
    ("B", "x0", "words"),
    [
        (np.ones((20, 0)), None, r"`b` must have at least one column: got shape \(20, 0\)"),
        (np.ones((3, 20)), None, r"`b` must have one entry per row of `A`: expected 20, got 3\. Pass `b\.T`\."),
        (np.ones((19, 3)), None, r"`b` must have one entry per row of `A`: expected 20, got 19\."),
        (np.ones((20, 3, 1)), None, r"`b` must have one dimension, or two for several columns: got shape"),
        (np.ones((20, 3)), np.ones(4), r"`x0` must have the shape of x, \(4, 3\), got \(4,\)"),
        (np.ones((20, 3)), np.ones((4, 2)), r"`x0` must have the shape of x, \(4, 3\), got \(4, 2\)"),
        (np.ones(20), np.ones((4, 2)), r"`x0` must have the shape of x, \(4,\), got \(4, 2\)"),
        (np.ones((20, 3)) * [1.0, 1e-200, 1.0], None, r"`b` has entries up to 1\.0e-200"),
    ],
)
def test_bad_shapes__are_explained(B, x0, words):
    with pytest.raises(ValueError, match=words):
        rowsolve.solve(np.ones((20, 4)), B, x0=x0)


def test_an_entry_that_is_not_finite__is_named():
    B = np.ones((20, 3))
    B[7, 2] = np.nan
    with pytest.raises(ValueError, match=r"`b` must be finite: entry \(7, 2\) is nan"):
        rowsolve.solve(np.ones((20, 4)), B)
