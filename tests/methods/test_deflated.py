from __future__ import annotations

import numpy as np
import pytest
from conftest import JIT, check_solution, gaussian, relative_error
from corpus import with_spectrum
from scipy import sparse

import rowsolve
from rowsolve import Deflated, Status
from rowsolve.experiments.problems import clustered_system
from rowsolve.methods import deflated
from rowsolve.problem.system import System
from rowsolve.sources import open_rows

SMALL = (1200, 60) if JIT else (320, 16)
SOURCES = [Deflated(), Deflated("rows", n_equations=8)]


def rows_of_solving(A, b, method, **options):
    """Solve; return the solution and the rows that were read after the preparation, without the last check."""
    prepared = [0]

    def note(event):
        if event.stage == "prepare":
            prepared.append(event.rows_read)

    solution = rowsolve.solve(A, b, method, callback=note, **options)
    return solution, solution.rows_read - prepared[-1] - 256


def plan_of(A, b, method, seed=0):
    system, rng = System(open_rows(A), b), np.random.default_rng(seed)
    return method.prepare(system, rng), system, rng


@pytest.mark.compiled
@pytest.mark.parametrize(("separation", "noise"), [("tight", 0.1), ("tight", 0.2), ("tight", 0.01), (0.1, 0.1)])
def test_clusters__of_the_paper_are_solved_in_few_rows_whatever_their_separation(separation, noise):
    A, b, x_true, _ = clustered_system(10_000, 1_000, 4, separation, "A", noise, 3)
    for threads in (1, 2):
        solution, rows = rows_of_solving(A, b, "deflated", rng=0, threads=threads)
        error = relative_error(solution.x, x_true)
        assert solution.status is Status.CONVERGED
        assert error <= 1e-6
        assert error / 3 <= solution.error_estimate <= 3 * error
        assert rows <= 45 * 1_000
        assert solution.rows_read <= 45 * 1_000


@pytest.mark.compiled
@pytest.mark.parametrize("n_clusters", [None, "as many as there are"])
@pytest.mark.parametrize("k", [2, 5, 8])
@pytest.mark.parametrize("separation", [0.05, 1.0, 5.0])
def test_clusters__of_any_number_are_solved_within_45_p_rows_in_all(n_clusters, k, separation):
    rng = np.random.default_rng(k)
    p = 100
    centres = rng.standard_normal(p) + separation * rng.standard_normal((k, p))
    A = centres[rng.integers(0, k, 10 * p)] + 0.1 * rng.standard_normal((10 * p, p))
    x_true = rng.standard_normal(p)
    rtol = 0.9e-6  # with a hundred columns the estimate scatters by a tenth
    solution = rowsolve.solve(A, A @ x_true, Deflated(n_clusters=n_clusters and k), rtol=rtol, rng=0)
    error = relative_error(solution.x, x_true)
    assert solution.status is Status.CONVERGED
    assert error <= 1e-6
    assert error / 3 <= solution.error_estimate
    assert solution.rows_read <= 45 * p


@pytest.mark.compiled
def test_rows__take_outlying_singular_values_away():
    values = np.ones(400)
    values[:50] = 100.0
    A = with_spectrum((12_000, 400), values, np.random.default_rng(0))
    x_true = np.random.default_rng(1).standard_normal(400)
    for method in (Deflated("rows"), Deflated("rows", n_equations=50)):
        solution, rows = rows_of_solving(A, A @ x_true, method, rng=0, threads=1)
        error = relative_error(solution.x, x_true)
        assert solution.status is Status.CONVERGED
        assert error <= 1e-6
        assert error / 3 <= solution.error_estimate <= 3 * error
        assert rows <= 60 * 400


@pytest.mark.parametrize("store", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
@pytest.mark.parametrize("method", SOURCES, ids=repr)
def test_tight_clusters__are_solved_from_any_start(method, store):
    A, b, x_true, _ = clustered_system(*SMALL, 4, "tight", "A", 0.05, 1)
    for x0 in (None, 3.0 * np.ones(SMALL[1])):
        solution = rowsolve.solve(store(A), b, method, x0=x0, rng=0)
        error = relative_error(solution.x, x_true)
        assert solution.status is Status.CONVERGED
        assert error <= 1e-6
        assert error / 3 <= solution.error_estimate


@pytest.mark.parametrize("method", SOURCES, ids=repr)
def test_known_equations__hold_to_rounding_after_every_burst_and_the_drops_are_true(method):
    A, b, x_true, _ = clustered_system(*SMALL, 4, "tight", "A", 0.05, 2)
    plan, _, rng = plan_of(A, b, method)
    Q = np.array(plan.basis)
    np.testing.assert_allclose(Q @ Q.T, np.eye(len(Q)), atol=1e-14)
    np.testing.assert_allclose(plan.targets, Q @ x_true, atol=1e-12 * np.linalg.norm(x_true))
    iterates, drops = rng.standard_normal((2, SMALL[1])), np.empty(2)
    for _ in range(12):
        before = np.sum((x_true - iterates[0]) ** 2), np.sum(iterates[1] ** 2)
        method.advance(plan, iterates, SMALL[1], rng, drops)
        after = np.sum((x_true - iterates[0]) ** 2), np.sum(iterates[1] ** 2)
        np.testing.assert_allclose(drops, np.subtract(before, after), rtol=1e-8)
        np.testing.assert_allclose(Q @ iterates[0], plan.targets, atol=1e-13 * np.linalg.norm(x_true))
        np.testing.assert_allclose(Q @ iterates[1], 0.0, atol=1e-14 * np.sqrt(before[1]) / 0.05)  # as rows are tight


def test_known_equations__leave_out_those_that_follow_from_others():
    rng = np.random.default_rng(0)
    directions = rng.standard_normal((2, 6))
    A = directions[rng.integers(0, 2, 200)] * rng.choice([-1.0, 1.0, 2.0], (200, 1))
    x_true = rng.standard_normal(6)
    for method in (Deflated(n_clusters=5), Deflated("rows", n_equations=5)):
        plan, _, _ = plan_of(A, A @ x_true, method)
        assert plan.targets.size == 2
        solution = rowsolve.solve(A, A @ x_true, method, rng=0)
        assert solution.status is Status.CONVERGED
        assert relative_error(solution.x, np.linalg.lstsq(A, A @ x_true)[0]) < 1e-12


def test_known_equations__as_many_as_columns_solve_at_once():
    A, b, x_true = gaussian(400, 12)
    solution = rowsolve.solve(A, b, Deflated("rows", n_equations=12), rng=0)
    assert solution.status is Status.CONVERGED
    assert relative_error(solution.x, x_true) < 1e-12
    assert len(solution.history) <= 2


@pytest.mark.parametrize("spread", [0.05, 0.0], ids=["tight", "all rows of a cluster the same"])
@pytest.mark.parametrize("noise", [0.1, 1e-4])
@pytest.mark.parametrize("method", SOURCES, ids=repr)
def test_noise_in_b__is_always_found(method, noise, spread):
    A, b, _, _ = clustered_system(*SMALL, 4, "tight", "b", noise, 3, spread=spread)
    solution = rowsolve.solve(A, b, method, rng=0)
    assert solution.status is Status.INCONSISTENT
    error = relative_error(solution.x, np.linalg.lstsq(A, b)[0])
    assert error <= 4 * solution.error_estimate


@pytest.mark.parametrize("noise", [0.1, 1e-3, 1e-5])
@pytest.mark.parametrize("method", SOURCES, ids=repr)
def test_rounding__is_not_mistaken_for_inconsistency(method, noise):
    A, b, x_true, _ = clustered_system(*SMALL, 4, "tight", "A", noise, 4)
    solution = rowsolve.solve(A, b, method, rtol=0.0, rng=0)
    assert solution.status is Status.PRECISION
    assert relative_error(solution.x, x_true) < 1e-13 / noise


@pytest.mark.parametrize("noise", [0.1, 1e-3])
@pytest.mark.parametrize("method", SOURCES, ids=repr)
def test_rounding__does_not_hide_that_columns_repeat(method, noise):
    A, _, x_true, _ = clustered_system(*SMALL, 4, "tight", "A", noise, 5)
    A[:, 3], A[:, 5] = A[:, 4], 0.0
    b = A @ x_true
    solution = rowsolve.solve(A, b, method, rng=0)
    assert solution.status is Status.CONVERGED
    error = relative_error(solution.x, np.linalg.lstsq(A, b)[0])
    assert error < 1e-6
    assert error < 10 * solution.error_estimate


def test_pack__grows_after_each_traversal_until_it_has_all_rows(monkeypatch):
    monkeypatch.setattr(deflated, "PACK_ROWS", 2)
    A, b, _ = gaussian(40, 5)
    method = Deflated("rows", n_equations=2)
    plan, system, rng = plan_of(A, b, method)
    assert (plan.pack.size, system.counter.rows_read) == (10, 6)  # a sample of three rows an equation
    order = plan.draw(500, rng)[0]
    start, size = 0, 10
    while start + size <= 500:
        part = order[start : start + size]
        assert len(set(part.tolist())) == size
        start, size = start + size, min(40, size + size // 4)
    assert set(order.tolist()) == set(range(40))
    plan.inner.find(order)
    np.testing.assert_allclose(plan.rows.parts, A @ np.array(plan.basis).T, atol=1e-12)
    assert system.counter.rows_read == 6  # parts are found when rows are projected on, which counts


@pytest.mark.parametrize(
    "method",
    [
        Deflated(n_clusters=1), Deflated(n_clusters=40),
        Deflated("rows"), Deflated("rows", n_equations=1), Deflated("rows", n_equations=20),
    ],
    ids=repr,
)  # fmt: skip
def test_parameters__all_lead_to_the_solution(method):
    check_solution(method)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Deflated("columns"), "`source` must be one of 'clusters', 'rows', got 'columns'"),
        (lambda: Deflated(n_clusters=0), "`n_clusters` must be an integer of at least 1, got 0"),
        (lambda: Deflated("rows", n_equations=2.0), "`n_equations` must be an integer of at least 1, got 2.0"),
        (lambda: Deflated(n_equations=5), "`n_equations` requires source='rows', got source='clusters'"),
        (lambda: Deflated("rows", n_clusters=5), "`n_clusters` requires source='clusters'"),
        (
            lambda: rowsolve.solve(*gaussian(30, 4)[:2], Deflated(n_clusters=31)),
            "`n_clusters` must be at most the number of rows, 30, got 31",
        ),
        (
            lambda: rowsolve.solve(*gaussian(30, 4)[:2], Deflated("rows", n_equations=5)),
            "`n_equations` must be at most the number of rows and of columns, 4, got 5",
        ),
    ],
)
def test_parameters__that_are_invalid_raise_an_error(make, words):
    with pytest.raises(ValueError, match=words):
        make()
