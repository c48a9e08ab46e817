"""Bounds on x, for the systems of scipy's tests of `nnls` and `lsq_linear`: no worse than scipy, or reported.

Those that can be said in a line are built here. The others are tables of numbers: they are caught from scipy's tests of
`nnls` as these call it, if the installed scipy has its tests.
"""

from __future__ import annotations

import numpy as np
import pytest
from judge import cost
from scipy import optimize, sparse

import rowsolve
from rowsolve import Status

INF = np.inf
A_OF_LSQ_LINEAR = np.array([[0.171, -0.057], [-0.049, -0.248], [-0.166, 0.054]])
B_OF_LSQ_LINEAR = np.array([0.074, 1.014, -0.383])

SEED_OF_NNLS, SEED_OF_LARGE = 1685225766635251, 1290209


def assert_no_worse(A, b, bounds, theirs):
    """Check that x is within the bounds, and that its cost is theirs at most; nearly so if the status is PRECISION."""
    solution = rowsolve.solve(A, b, bounds=bounds, rtol=1e-10, rng=0)
    full = A.toarray() if sparse.issparse(A) else np.asarray(A, dtype=float)
    low, high = (np.broadcast_to(one, full.shape[1]) for one in bounds)
    assert (solution.x >= low).all()
    assert (solution.x <= high).all()
    assert solution.status in (Status.CONVERGED, Status.PRECISION)
    more = 1e-10 if solution.status is Status.CONVERGED else 1e-6
    rounding = (np.finfo(float).eps * np.linalg.norm(full) * np.linalg.norm(solution.x)) ** 2
    assert cost(full, b, solution.x) <= cost(full, b, theirs) * (1 + more) + more**2 * (b @ b) + rounding


def assert_no_worse_than_nnls(A, b):
    assert_no_worse(A, b, (0.0, INF), optimize.nnls(A, b)[0])


def assert_no_worse_than_lsq_linear(A, b, low, high):
    full = A.toarray() if sparse.issparse(A) else A
    found = [optimize.lsq_linear(full, b, (low, high), method=method, tol=1e-14).x for method in ("bvls", "trf")]
    assert_no_worse(A, b, (low, high), min(found, key=lambda x: cost(full, b, x)))


def nonnegative_solution(n, p):
    """Return a system whose solution has a zero in every other place."""
    rng = np.random.default_rng(SEED_OF_NNLS)
    A, x = rng.uniform(-10, 10, (n, p)), np.abs(rng.uniform(-2, 2, p))
    x[::2] = 0.0
    return A, A @ x


def test_nnls__of_rank_two():
    A = np.arange(25.0).reshape(5, 5)
    assert_no_worse_than_nnls(A, A @ np.arange(5.0))


@pytest.mark.parametrize("shape", [(50, 10), (100, 120)])
def test_nnls__with_a_solution_that_satisfies_the_equations(shape):
    assert_no_worse_than_nnls(*nonnegative_solution(*shape))


def test_nnls__with_rows_of_zeros_and_more_columns_than_rows():
    rng = np.random.RandomState(42)
    A = rng.randn(5, 12)
    A[:2] = 0.0
    assert_no_worse_than_nnls(A, rng.randn(5))


def test_nnls__that_fits_increasing_shares_to_counts():
    rng = np.random.default_rng(0)
    for _ in range(5):
        size = np.round(200 * np.exp(-(((np.arange(67) - 40) / 14.0) ** 2)) * rng.random(67))
        events = rng.binomial(size.astype(int), 1 / (1 + np.exp(-(np.arange(67) - 33) / 5.0))) * 0.72
        A, empty = size[:, None] * np.tri(67), np.flatnonzero(size == 0)
        A[empty, empty] = 1.0
        A[empty, np.minimum(empty + 1, 66)] = -1.0
        weight = np.where(size == 0, 1.0, np.sqrt(size))
        assert_no_worse_than_nnls(weight[:, None] * A, weight * np.where(size == 0, 0.0, events))


def test_nnls__of_three_by_three():
    A = np.array([[1.0, 0.5, -1.0], [1.0, 0.5, 0.0], [-1.0, 0.0, 1.0]])
    assert_no_worse_than_nnls(A, np.array([-1.0, 2.0, 2.0]))


@pytest.mark.parametrize(
    ("low", "high"),
    [
        ([-1, -10], [1, 0]), ([0, -INF], [INF, INF]), ([-1, 0], [INF, INF]), ([-INF, -INF], [INF, -5]),
        ([-INF, -INF], [-1, INF]), ([0, -4], [1, 0]),
    ],
)  # fmt: skip
def test_lsq_linear__of_two_columns(low, high):
    assert_no_worse_than_lsq_linear(A_OF_LSQ_LINEAR, B_OF_LSQ_LINEAR, np.array(low, float), np.array(high, float))


def test_lsq_linear__of_one_row():
    assert_no_worse_than_lsq_linear(np.array([[-0.307, -0.184]]), np.array([0.773]), np.full(2, -0.1), np.full(2, 0.1))


def test_lsq_linear__of_rank_one():
    A = np.outer([0.334, -0.516, 0.192], [1.0, 2.0])
    low, high = np.array([0.0, -1.0]), np.array([1.0, -0.5])
    assert_no_worse_than_lsq_linear(A, np.array([-1.436, 0.135, 0.909]), low, high)


def test_lsq_linear__of_three_by_three():
    A = np.array([[49.0, 41.0, -32.0], [-19.0, -32.0, -8.0], [-13.0, 10.0, 69.0]])
    low, high = np.array([31.0, -44.0, 26.0]), np.array([54.0, -32.0, 28.0])
    assert_no_worse_than_lsq_linear(A, np.array([-41.0, -90.0, 47.0]), low, high)


@pytest.mark.compiled
def test_lsq_linear__with_many_repeated_columns():
    rng = np.random.default_rng(SEED_OF_LARGE)
    p, n = 60, 200
    A, b = rng.integers(-99, 99, (n, p)).astype(float), rng.integers(-99, 99, n).astype(float)
    low, high = np.sort(rng.integers(-99, 99, (2, p)), axis=0) + np.array([[0.0], [1.0]])
    assert_no_worse_than_lsq_linear(A[:, rng.choice(p, p)], b, low, high)


def test_lsq_linear__of_sparse_rows_that_are_almost_dependent():
    A = sparse.csr_array([[1.0, 0.0, 1.0], [0.0, 1.0, 0.0], [1.0 + 1e-6, 0.0, 1.0]])
    for high in (INF, 1e5):
        assert_no_worse_than_lsq_linear(A, B_OF_LSQ_LINEAR, np.full(3, -high), np.full(3, high))


@pytest.mark.compiled
def test_lsq_linear__of_sparse_rows():
    rng = np.random.default_rng(0)
    A, b = sparse.random_array((600, 100), density=0.02, rng=rng, format="csr"), rng.standard_normal(600)
    low = rng.standard_normal(100)
    assert_no_worse_than_lsq_linear(A, b, low, low + 1.0)


def cases_of_nnls():
    """Return the names of scipy's tests with a small system; empty if they are not installed."""
    try:
        from scipy.optimize.tests import test_nnls
    except ImportError:
        return []
    return [name for name in dir(test_nnls.TestNNLS) if name.startswith("test_") and "warning" not in name]


@pytest.mark.parametrize("name", cases_of_nnls())
def test_nnls__of_a_test_of_scipy(name, monkeypatch):
    from scipy.optimize.tests import test_nnls

    calls = []

    def caught(A, b, **options):
        x, residual = optimize.nnls(A, b, **options)
        calls.append((np.asarray(A, dtype=float), np.ravel(b).astype(float), x))
        return x, residual

    monkeypatch.setattr(test_nnls, "nnls", caught)
    case = test_nnls.TestNNLS()
    case.setup_method()
    getattr(case, name)()
    for A, b, theirs in calls:
        assert_no_worse(A, b, (0.0, INF), theirs)
