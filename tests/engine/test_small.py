from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest
from conftest import gaussian
from scipy import sparse

import rowsolve


def both_ways(A, b, *args, **options):
    """Solve at once, and in stages as with a callback."""
    return rowsolve.solve(A, b, *args, **options), rowsolve.solve(A, b, *args, callback=lambda _: None, **options)


def assert_same(one, other):
    np.testing.assert_array_equal(one.x, other.x)
    assert one.message == other.message
    assert (one.status, one.rank, one.method) == (other.status, other.rank, other.method)
    assert one.error_estimate == pytest.approx(other.error_estimate, rel=1e-12)
    assert one.row_check.relative == pytest.approx(other.row_check.relative, rel=1e-9, abs=1e-15)
    assert (one.rows_read, one.passes) == (other.rows_read, other.passes)
    assert one.history.rows_read == other.history.rows_read


SYSTEMS = {
    "noisy": gaussian(300, 8, noise=0.1)[:2],
    "consistent": gaussian(300, 8)[:2],
    "squares": gaussian(900, 60, noise=0.1)[:2],
    "consistent squares": gaussian(900, 60)[:2],
    "tall, many": (gaussian(3000, 9)[0], gaussian(3000, 9)[0] @ np.ones((9, 2))),
    "wide": gaussian(5, 9)[:2],
    "many": (gaussian(200, 5)[0], np.random.default_rng(0).standard_normal((200, 3))),
    "single precision": (gaussian(200, 5)[0].astype(np.float32), gaussian(200, 5, noise=0.1)[1]),
    "Fortran": (np.asfortranarray(gaussian(200, 5)[0]), gaussian(200, 5, noise=0.1)[1]),
    "dummies": (np.repeat(np.eye(6), 30, axis=0)[:, [0, 1, 2, 3, 4, 5, 0]], np.arange(180.0) % 7),
    "outlier": (gaussian(300, 4)[0], gaussian(300, 4, noise=0.01)[1] + 100.0 * (np.arange(300) == 7)),
}


@pytest.mark.parametrize("what", SYSTEMS)
def test_small_systems__are_solved_the_same_at_once(what):
    assert_same(*both_ways(*SYSTEMS[what]))


@pytest.mark.parametrize("what", [name for name in SYSTEMS if name != "Fortran"])
def test_small_sparse_systems__are_solved_the_same_at_once(what):
    A, b = SYSTEMS[what]
    assert_same(*both_ways(sparse.csr_array(A * (np.abs(A) > 0.7)), b))


@pytest.mark.parametrize(
    "options", [{"damp": 3.0}, {"x0": np.ones(8)}, {"rtol": 1e-14}, {"threads": 1}, {"atol": 1e-3}]
)
@pytest.mark.parametrize("method", ["auto", "refined"])
def test_options__are_kept_to(options, method):
    A, b = SYSTEMS["noisy"]
    assert_same(*both_ways(A, b, method, **options))


def test_inputs__are_left_as_they_are():
    A, b = (array.copy() for array in SYSTEMS["squares"])
    solution = rowsolve.solve(A, b)
    solution.x[:] = 0.0
    np.testing.assert_array_equal(A, SYSTEMS["squares"][0])
    np.testing.assert_array_equal(b, SYSTEMS["squares"][1])


def test_message__can_be_replaced_and_pickled_before_it_is_read():
    A, b = SYSTEMS["outlier"]
    kept = pickle.loads(pickle.dumps(rowsolve.solve(A, b)))
    assert replace(rowsolve.solve(A, b), message="short").message == "short"
    assert "1 of 300 rows look like outliers" in kept.message
    assert "1 of 300 rows look like outliers" in " ".join(repr(kept).split())


def test_dense_rows_stored_as_sparse_ones__are_solved_as_dense():
    A, b, _ = gaussian(2000, 40, noise=0.1)
    np.testing.assert_array_equal(rowsolve.solve(sparse.csr_array(A), b).x, rowsolve.solve(A, b).x)


@pytest.mark.parametrize("scale", [1e-170, 1e170, np.nan, np.inf])
def test_numbers_out_of_range__raise(scale):
    A, b = SYSTEMS["noisy"]
    A = A.copy()
    A[3] *= scale
    with pytest.raises(ValueError, match="`A`"):
        rowsolve.solve(A if np.isnan(scale) or scale > 1 else A * scale, b)


def test_residual_of_a_consistent_system__is_that_of_some_rows():
    A = gaussian(6000, 40)[0]
    A[::23] = 0.0  # every row that is looked at
    solution = rowsolve.solve(A, A @ np.ones(40))
    assert (solution.row_check.n_rows, solution.row_check.full) == (256, False)
    assert solution.row_check.relative < 1e-14
    assert "256 sampled rows" in solution.message
    assert solution.passes == (6000 + 256) / 6000
