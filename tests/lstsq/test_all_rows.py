from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize, sparse

import rowsolve
from rowsolve import Refined, Status
from rowsolve.checkpoint.state import StateError
from rowsolve.estimate.estimator import ErrorEstimator
from rowsolve.estimate.tolerance import Tolerance
from rowsolve.lstsq.all_rows import AllRows
from rowsolve.policy.least_squares import makes_a_band
from rowsolve.problem.system import System
from rowsolve.sources import open_rows

EPS = np.finfo(float).eps


def network(n_rows, n_columns, rng):
    """Return differences of columns near each other, and some rows with a single entry."""
    first = rng.integers(0, n_columns - 3, n_rows)
    second = np.where(rng.random(n_rows) < 0.1, first, first + rng.integers(1, 4, n_rows))
    entries = np.r_[rng.uniform(0.5, 2.0, n_rows), rng.uniform(-2.0, -0.5, n_rows)]
    return sparse.coo_array(
        (entries, (np.tile(np.arange(n_rows), 2), np.r_[first, second])), (n_rows, n_columns)
    ).tocsr()


def system_of(A, b=None, damp=0.0):
    return System(open_rows(A), np.ones(A.shape[0]) if b is None else b, damp=damp)


def reference(A, b, damp=0.0):
    dense = A.toarray()
    if damp:
        dense, b = np.vstack([dense, damp * np.eye(A.shape[1])]), np.r_[b, np.zeros((A.shape[1], *b.shape[1:]))]
    return np.linalg.lstsq(dense, b, rcond=None)[0]


def error_of(x, right):
    return np.linalg.norm(x - right) / np.linalg.norm(right)


def assert_right(solution, A, b, damp=0.0):
    """Check the error of x, and its estimate up to the rounding of the reference."""
    error = error_of(solution.x, reference(A, b, damp))
    condition = np.linalg.cond(A.toarray())
    assert solution.status is Status.CONVERGED
    assert error <= 1e-6
    assert error / 3 <= solution.error_estimate + 30 * EPS * condition**2
    bound = 1e5 if A.shape[0] == 401 else 100  # with a row that leaves no sparse factor, LAPACK tells a bound only
    assert solution.error_estimate <= 10 * error + bound * EPS * condition**2


def dense_row(A, rng):
    return sparse.vstack([A, sparse.csr_array(rng.standard_normal((1, A.shape[1])))]).tocsr()


def twice(A, _):
    return sparse.vstack([A, A]).tocsr()


def zero_rows(A, _):
    return sparse.vstack([A, sparse.csr_array((5, A.shape[1]))]).tocsr()


def uneven_columns(A, rng):
    return (A @ sparse.diags_array(10.0 ** rng.uniform(-3, 3, A.shape[1]))).tocsr()


def same(A, _):
    return A


PATTERNS = [same, dense_row, twice, zero_rows, uneven_columns]


@pytest.mark.parametrize("change", PATTERNS)
@pytest.mark.parametrize("scale", [1.0, 1e-40, 1e40])
@pytest.mark.parametrize("noise", [0.0, 0.5])
def test_sparse_systems__are_solved_exactly(change, scale, noise):
    rng = np.random.default_rng(7)
    A = change(network(400, 90, rng), rng)
    b = A @ rng.standard_normal(90) + noise * rng.standard_normal(A.shape[0])
    A, b = (scale * A).tocsr(), scale * b
    assert makes_a_band(system_of(A)) == (change is not dense_row)
    solution = rowsolve.solve(A, b, Refined("all"), rng=0)
    assert_right(solution, A, b)
    assert solution.rank == 90
    if change is dense_row:
        return
    assert solution.row_check.full or noise == 0.0  # of a consistent one sums over all rows may not tell
    residual = np.linalg.norm((b - A @ solution.x) / scale) / np.linalg.norm(b / scale)
    assert solution.row_check.relative == pytest.approx(residual, rel=1e-6, abs=1e-13)


@pytest.mark.parametrize("scale", [1e-120, 1e120])
def test_sparse_systems__of_extreme_scale_use_another_method(scale):
    rng = np.random.default_rng(7)
    A = network(400, 90, rng)
    b = A @ rng.standard_normal(90)
    solution = rowsolve.solve((scale * A).tocsr(), scale * b, Refined("all"), rng=0)
    assert solution.status is Status.CONVERGED
    assert error_of(solution.x, reference(A, b)) <= 1e-6


@pytest.mark.parametrize("damp", [1e-3, 1.0, 30.0])
@pytest.mark.parametrize("shape", [(400, 90), (60, 90)])
def test_damping__is_part_of_the_factor(damp, shape):
    rng = np.random.default_rng(3)
    A, b = network(*shape, rng), rng.standard_normal(shape[0])
    solution = rowsolve.solve(A, b, Refined("all"), damp=damp, rng=0)
    assert solution.status is Status.CONVERGED
    assert error_of(solution.x, reference(A, b, damp)) <= max(1e-6, 3 * solution.error_estimate)


@pytest.mark.parametrize("seed", range(8))
def test_systems_without_such_a_factor__use_another_method(seed):
    rng = np.random.default_rng(seed)
    A = network(300, 60, rng).toarray()
    if seed % 2:
        A[:, rng.integers(0, 60, 3)] = 0.0  # columns that no row touches
    else:
        A[:, 5] = A[:, 50]  # two that no row tells apart
    A = sparse.csr_array(A)
    b = A @ rng.standard_normal(60) + 0.1 * rng.standard_normal(300)
    solution = rowsolve.solve(A, b, Refined("all"), rng=0)
    assert solution.status is Status.CONVERGED
    assert solution.rank == np.linalg.matrix_rank(A.toarray())
    assert error_of(solution.x, reference(A, b)) <= 1e-6


@pytest.mark.parametrize("condition", [1e2, 1e4, 1e6, 1e8, 1e10])
@pytest.mark.parametrize("seed", range(3))
def test_estimate__is_honest_whatever_the_condition(condition, seed):
    """A chain with one small coefficient, in any units: the estimate is honest."""
    rng = np.random.default_rng(seed)
    A = network(300, 60, rng).toarray()
    A[:, 30:] = 0.0
    A[:150, :30], A[150:, 30:] = network(150, 30, rng).toarray(), network(150, 30, rng).toarray()
    A[:, 29] = A[:, 28] + A[:, 29] / condition
    A = sparse.csr_array(A)
    b = A @ rng.standard_normal(60) + 1e-3 * rng.standard_normal(300)
    solution = rowsolve.solve(A, b, Refined("all"), rng=0)
    error = error_of(solution.x, reference(A, b))
    of_reference = EPS * np.linalg.cond(A.toarray()) ** 2 * 1e-2
    if solution.status is Status.CONVERGED:
        assert error <= 3e-6 + of_reference
    assert error <= 3 * solution.error_estimate + of_reference


def test_many_right_hand_sides__share_the_factor():
    rng = np.random.default_rng(5)
    A, B = network(500, 80, rng), rng.standard_normal((500, 3))
    solution = rowsolve.solve(A, B, Refined("all"), rng=0)
    assert solution.status is Status.CONVERGED
    for c in range(3):
        assert error_of(solution.x[:, c], reference(A, B[:, c])) <= 1e-6
    one = rowsolve.solve(A, B[:, 1], Refined("all"), rng=0)
    np.testing.assert_allclose(one.x, solution.x[:, 1], rtol=1e-9)


@pytest.mark.parametrize("A", [np.array([[2.0], [1.0], [0.0]]), np.array([[3.0]])])
def test_one_column__is_solved(A):
    b = np.arange(1.0, 1.0 + len(A))
    solution = rowsolve.solve(sparse.csr_array(A), b, rng=0)
    np.testing.assert_allclose(solution.x, np.linalg.lstsq(A, b, rcond=None)[0], rtol=1e-12)


def test_x0__may_be_anywhere():
    rng = np.random.default_rng(5)
    A, b, x0 = network(500, 80, rng), rng.standard_normal(500), 1e6 * rng.standard_normal(80)
    assert_right(rowsolve.solve(A, b, Refined("all"), x0=x0, rng=0), A, b)


def test_bad_numbers__are_found():
    rng = np.random.default_rng(5)
    A = network(100, 30, rng)
    A.data[A.indptr[40]] = np.nan
    with pytest.raises(ValueError, match="row 40 has nan"):
        rowsolve.solve(A, np.ones(100), Refined("all"))


def interrupted(make):
    """Return an object that was stopped after three pieces, and another that was resumed from its state."""
    cut = make()

    def interrupt():
        if cut.n_done == 3:
            raise KeyboardInterrupt

    cut.system.counter.watch(interrupt)
    with pytest.raises(KeyboardInterrupt):
        cut.step()
    again = make()
    again.restore(cut.state())
    return cut, again


@pytest.mark.parametrize("n_sides", [1, 3])
def test_compressing__is_resumed(n_sides, monkeypatch):
    """A pass that is interrupted after some pieces, and resumed by another object, ends with the same bits."""
    rng = np.random.default_rng(2)
    A, b = rng.standard_normal((300, 20)), rng.standard_normal((300, n_sides) if n_sides > 1 else 300)
    monkeypatch.setattr("rowsolve.problem.reader.WORK_OF_A_BURST", 1000)  # 50 rows a piece
    estimator = ErrorEstimator(Tolerance(1e-6, 0.0, EPS), np.zeros((n_sides, 20)))

    def make():
        return AllRows(system_of(A, b), estimator)

    _, again = interrupted(make)
    step = again.step()
    np.testing.assert_array_equal(step.x, make().step().x)
    np.testing.assert_allclose(step.x.T.reshape(20, -1), np.linalg.lstsq(A, b)[0].reshape(20, -1), rtol=1e-10)
    assert again.system.counter.rows_read == 300 - 3 * 50


@pytest.mark.parametrize("by_qr", [False, True])
def test_compressing_within_bounds__is_resumed(by_qr, monkeypatch):
    rng = np.random.default_rng(2)
    A, b, bounds = rng.standard_normal((300, 20)), rng.standard_normal(300), (np.zeros(20), np.full(20, np.inf))
    monkeypatch.setattr("rowsolve.problem.reader.WORK_OF_A_BURST", 1000)

    def make(by_qr=by_qr):
        system = System(open_rows(A), b, bounds=bounds)
        return AllRows(system, ErrorEstimator(Tolerance(1e-6, 0.0, EPS), np.zeros((1, 20))), by_qr=by_qr)

    cut, again = interrupted(make)
    step = again.step()
    np.testing.assert_array_equal(step.x, make().step().x)
    np.testing.assert_allclose(step.x, optimize.nnls(A, b)[0], atol=1e-12)
    assert again.system.counter.rows_read == 2 * 300 - 3 * 50
    with pytest.raises(StateError, match="is missing"):
        make(not by_qr).restore(cut.state())


def test_band__is_used_if_rows_are_narrow():
    rng = np.random.default_rng(0)
    narrow, wide = network(3000, 600, rng), sparse.random_array((3000, 600), density=0.005, rng=rng, format="csr")
    assert makes_a_band(system_of(narrow))
    assert not makes_a_band(system_of(wide))
    assert not makes_a_band(system_of(narrow.toarray()))
