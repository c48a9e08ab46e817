"""The contract of all methods with `n_directions`."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from conftest import JIT, N_COLUMNS, N_ROWS, gaussian, relative_error
from corpus import with_spectrum
from scipy import sparse

import rowsolve
from rowsolve import Status
from rowsolve.experiments.problems import clustered_system
from rowsolve.methods import oblivious
from rowsolve.methods.drawing import ONE_BY_ONE
from rowsolve.methods.oblivious import Oblivious
from rowsolve.problem.system import System
from rowsolve.sources import open_rows

METHODS = [kind(n_directions=10) for kind in rowsolve.METHODS.values() if issubclass(kind, Oblivious)]
UNIFORM = rowsolve.Randomized("uniform", replace=False, n_directions=20)
every_method = pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)


def plan_of(A, b, method):
    system, rng = System(open_rows(A), b), np.random.default_rng(0)
    return method.begin(system, rng), rng


def test_memory__is_a_parameter_of_every_oblivious_method_and_checked():
    assert {method.name for method in METHODS} >= {
        "cyclic", "randomized", "block", "cluster-block", "paving", "deflated",
    }  # fmt: skip
    for method in METHODS:
        assert list(method.parameters())[-1] == "n_directions"
        with pytest.raises(ValueError, match="`n_directions` must be an integer of at least 0, got -1"):
            replace(method, n_directions=-1)
    assert rowsolve.Block(8).n_directions == 0


@every_method
def test_memory__finds_the_solution_and_estimates_its_error(method):
    A, b, x_true = gaussian(seed=1)
    solution = rowsolve.solve(A, b, method, rng=1)
    error = relative_error(solution.x, x_true)
    assert solution.status is Status.CONVERGED
    assert error <= 2e-6
    assert error / 3 <= solution.error_estimate <= (3 if JIT else 10) * error


@every_method
def test_memory__never_claims_convergence_on_inconsistent_systems(method):
    A, b, _ = gaussian(noise=0.1, seed=4)
    solution = rowsolve.solve(A, b, method, rng=4)
    error = relative_error(solution.x, np.linalg.lstsq(A, b)[0])
    assert solution.status is Status.INCONSISTENT
    assert error < 0.08
    assert error / 4 <= solution.error_estimate <= 4 * error


@pytest.mark.parametrize("noise", [1e-2, 1e-4])
def test_memory__detects_inconsistent_tight_clusters(noise):
    A, b, _, _ = clustered_system(N_ROWS // 2, N_COLUMNS // 4, 4, "tight", "b", noise, 1, spread=0.3)
    solution = rowsolve.solve(A, b, UNIFORM, rng=0)
    assert solution.status is Status.INCONSISTENT
    assert relative_error(solution.x, np.linalg.lstsq(A, b)[0]) <= 4 * solution.error_estimate


@every_method
def test_memory__of_more_directions_than_there_are_is_harmless(method):
    many = replace(method, n_directions=50)
    A, _, x_true = gaussian(300, 12, seed=7)
    A[:, 3], A[:, 5] = A[:, 4], 0.0
    b, x0 = A @ x_true, np.linspace(0, 1, 12)
    nearest = x0 + np.linalg.lstsq(A, b - A @ x0)[0]
    solution = rowsolve.solve(A, b, many, x0=x0, rng=0)
    assert solution.status is Status.CONVERGED
    assert relative_error(solution.x, nearest) < 2e-6
    solution = rowsolve.solve(A, b, many, rtol=0.0, rng=0)
    assert solution.status is Status.PRECISION
    assert relative_error(solution.x, np.linalg.lstsq(A, b)[0]) < 1e-12


@pytest.mark.parametrize("scale", [1e-150, 1e150])
def test_memory__is_indifferent_to_scale(scale):
    A, b, x_true = gaussian(400, 20, seed=9)
    for solution in (
        rowsolve.solve(A * scale, b * scale, UNIFORM, rng=0).x,
        rowsolve.solve(A, b * scale, UNIFORM, rng=0).x / scale,
    ):
        assert relative_error(solution, x_true) < 2e-6


def test_memory__works_on_sparse_rows():
    A = sparse.random_array((N_ROWS, N_COLUMNS // 4), density=0.2, rng=np.random.default_rng(0), format="csr")
    x_true = np.random.default_rng(1).standard_normal(A.shape[1])
    solution = rowsolve.solve(A, A @ x_true, UNIFORM, rng=0)
    assert solution.status is Status.CONVERGED
    assert relative_error(solution.x, x_true) < 2e-6


@pytest.mark.compiled
@pytest.mark.parametrize("method", [UNIFORM, rowsolve.ClusterBlock(n_directions=20)], ids=lambda method: method.name)
def test_memory__needs_less_than_a_third_of_the_rows_on_tight_clusters(method):
    A, b, x_true, _ = clustered_system(4000, 200, 4, "tight", "A", 0.1, 2)
    with_it = rowsolve.solve(A, b, method, rng=0, threads=1)
    without = rowsolve.solve(A, b, replace(method, n_directions=0), rng=0, threads=1)
    error = relative_error(with_it.x, x_true)
    assert with_it.status is without.status is Status.CONVERGED
    assert error <= 1.5e-6
    assert error / 3 <= with_it.error_estimate <= 3 * error
    assert with_it.rows_read < without.rows_read / 3


@pytest.mark.compiled
def test_memory__needs_far_fewer_rows_with_outlying_singular_values():
    values = np.ones(200)
    values[:20] = 100.0
    A = with_spectrum((6000, 200), values, np.random.default_rng(0))
    x_true = np.random.default_rng(1).standard_normal(200)
    solution = rowsolve.solve(A, A @ x_true, UNIFORM, rng=0)
    error = relative_error(solution.x, x_true)
    assert solution.status is Status.CONVERGED
    assert error <= 1.5e-6
    assert error / 3 <= solution.error_estimate <= 3 * error
    assert solution.rows_read < 200 * 200


@every_method
def test_memory__drops_are_exact_even_after_x_is_changed(method):
    A, x_true = np.random.default_rng(0).standard_normal((300, 40)) + 1.0, np.random.default_rng(1).standard_normal(40)
    plan, rng = plan_of(A, A @ x_true, method)
    iterates, drops = np.random.default_rng(2).standard_normal((2, 40)), np.empty(2)
    for burst in range(8):
        if burst == 4:
            iterates += 0.1 * rng.standard_normal((2, 40))
        before = np.sum((x_true - iterates[0]) ** 2), np.sum(iterates[1] ** 2)
        method.advance(plan, iterates, 80, rng, drops)
        after = np.sum((x_true - iterates[0]) ** 2), np.sum(iterates[1] ** 2)
        np.testing.assert_allclose(drops, np.subtract(before, after), rtol=1e-7)


def test_memory__is_disabled_while_the_system_seems_inconsistent():
    A, b, _ = gaussian(300, 30)
    starts, results = np.random.default_rng(3).standard_normal((2, 30)), []
    for method in (UNIFORM, replace(UNIFORM, n_directions=0)):
        plan, rng = plan_of(A, b, method)
        plan.distrust()
        iterates, drops = starts.copy(), np.empty(2)
        method.advance(plan, iterates, 100, rng, drops)
        results.append((iterates, drops))
    np.testing.assert_array_equal(results[0][0], results[1][0])
    np.testing.assert_array_equal(results[0][1], results[1][1])


def test_memory__discards_directions_that_increase_the_probe():
    A, b, _ = gaussian(300, 40)
    plan, rng = plan_of(A, b, UNIFORM)
    iterates, drops = np.random.default_rng(3).standard_normal((2, 40)), np.empty(2)
    UNIFORM.advance(plan, iterates, 40, rng, drops)
    directions = plan.directions
    directions.kept[1, 0] = iterates[1] / np.linalg.norm(iterates[1])  # nothing is less orthogonal to the error
    directions.rows_of_a_round = 40
    order, plain, plain_drops = plan.draw(40, rng)[0], iterates.copy(), np.empty(2)
    plan.project_once(order, ONE_BY_ONE, plain, plain_drops)
    plan.project(order, ONE_BY_ONE, iterates, drops)
    assert directions.n_followed == 0
    np.testing.assert_array_equal(iterates, plain)
    np.testing.assert_array_equal(drops, plain_drops)


@pytest.mark.compiled
def test_memory__uses_one_thread(monkeypatch):
    monkeypatch.setattr(oblivious, "NUMBERS_IN_CACHE", 0)
    A, b, _ = gaussian(2000, 100)
    one, two = (rowsolve.solve(A, b, UNIFORM, rng=0, threads=threads).x for threads in (1, 2))
    np.testing.assert_array_equal(one, two)
