from __future__ import annotations

import numpy as np
import pytest
from conftest import gaussian, relative_error
from scipy import sparse

import rowsolve


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: rowsolve.Block(block_size=0), "`block_size` must be an integer of at least 1, got 0"),
        (lambda: rowsolve.Block(block_size=2.5), "`block_size` must be an integer"),
        (lambda: rowsolve.ClusterBlock(n_clusters=-1), "`n_clusters` must be an integer"),
        (lambda: rowsolve.ClusterBlock(metric="cosine"), "`metric` must be one of 'direction', 'euclidean', 'jaccard'"),
        (
            lambda: rowsolve.ClusterJL(metric="jaccard"),
            "`metric` must be one of 'direction', 'euclidean', got 'jaccard'",
        ),
        (lambda: rowsolve.ClusterBlock(pairing="inside"), "`pairing` must be one of 'across', 'within'"),
        (lambda: rowsolve.ClusterBlock(block_size=3), "`block_size` is for `pairing='within'`"),
        (lambda: rowsolve.JL(sketch_size=0), "`sketch_size` must be an integer"),
        (lambda: rowsolve.ClusterJL(n_candidates=True), "`n_candidates` must be an integer"),
        (lambda: rowsolve.JL(reference="new"), "`reference` must be one of 'origin', 'refresh'"),
        (lambda: rowsolve.JL(refresh_every=5), "`refresh_every` is for `reference='refresh'`"),
        (lambda: rowsolve.Randomized(weights="norm"), "`weights` must be one of 'norms', 'uniform'"),
        (lambda: rowsolve.Randomized(replace="no"), "`replace` must be True or False, got 'no'"),
        (lambda: rowsolve.Randomized(replace=False), "it needs `weights='uniform'`"),
        (lambda: rowsolve.Deflated("columns"), "`source` must be one of 'clusters', 'rows', got 'columns'"),
        (lambda: rowsolve.Deflated(n_clusters=0), "`n_clusters` must be an integer of at least 1, got 0"),
        (lambda: rowsolve.Deflated("rows", n_equations=2.0), "`n_equations` must be an integer of at least 1, got 2.0"),
        (lambda: rowsolve.Deflated(n_equations=5), "`n_equations` is for `source='rows'`, got `source='clusters'`"),
        (lambda: rowsolve.Deflated("rows", n_clusters=5), "`n_clusters` is for `source='clusters'`"),
    ],
)
def test_parameters__that_are_invalid_raise_an_error(make, words):
    with pytest.raises(ValueError, match=words):
        make()


@pytest.mark.parametrize(
    ("method", "words"),
    [
        (rowsolve.Block(31), "`block_size` must be at most the number of rows, 30, got 31"),
        (rowsolve.ClusterBlock(31), "`n_clusters` must be at most the number of rows, 30, got 31"),
        (rowsolve.ClusterJL(31), "`n_clusters` must be at most the number of rows, 30, got 31"),
        (rowsolve.Deflated(n_clusters=31), "`n_clusters` must be at most the number of rows, 30, got 31"),
        (
            rowsolve.Deflated("rows", n_equations=5),
            "`n_equations` must be at most the number of rows and of columns, 4, got 5",
        ),
    ],
)
def test_parameters__that_do_not_fit_the_system_raise_an_error(method, words):
    A, b, _ = gaussian(30, 4)
    with pytest.raises(ValueError, match=words):
        rowsolve.solve(A, b, method)


@pytest.mark.parametrize(
    "method",
    [
        rowsolve.Randomized(weights="uniform"),
        rowsolve.Randomized(weights="uniform", replace=False),
        rowsolve.Block(1),
        rowsolve.Block(7),
        rowsolve.Block(20),
        rowsolve.Block(33),
        rowsolve.JL(sketch_size=1, n_candidates=1),
        rowsolve.JL(sketch_size=20, n_candidates=500),
        rowsolve.JL(reference="refresh"),
        rowsolve.JL(sketch_size=8, reference="refresh", refresh_every=7),
        rowsolve.ClusterJL(n_clusters=1),
        rowsolve.ClusterJL(n_clusters=9, sketch_size=3, n_candidates=4, metric="euclidean"),
        rowsolve.ClusterBlock(n_clusters=1),
        rowsolve.ClusterBlock(n_clusters=30),
        rowsolve.ClusterBlock(n_clusters=6, metric="euclidean"),
        rowsolve.ClusterBlock(pairing="within"),
        rowsolve.ClusterBlock(n_clusters=3, pairing="within", block_size=11),
        rowsolve.Deflated(n_clusters=1),
        rowsolve.Deflated(n_clusters=40),
        rowsolve.Deflated("rows"),
        rowsolve.Deflated("rows", n_equations=1),
        rowsolve.Deflated("rows", n_equations=20),
    ],
    ids=repr,
)
def test_parameters__all_lead_to_the_solution(method):
    A, b, x_true = gaussian(400, 20, seed=1)
    solution = rowsolve.solve(A, b, method, rng=0)
    assert solution.status is rowsolve.Status.CONVERGED
    assert relative_error(solution.x, x_true) < 3e-6


def test_randomized__without_replacement_visits_each_row_once_a_pass():
    from rowsolve.problem.system import System
    from rowsolve.sources import open_rows

    A, b, _ = gaussian(130, 3)
    system, rng = System(open_rows(A), b), np.random.default_rng(0)
    method = rowsolve.Randomized(weights="uniform", replace=False)
    plan = method.prepare(system, rng)
    orders = [method.advance(plan, np.ones((2, 3)), 64, rng, np.empty(2)) for _ in range(40)]  # more than drawn at once
    assert {order.size for order in orders} == {64}
    for first in range(0, 40 * 64 - 130, 130):
        assert sorted(np.concatenate(orders)[first : first + 130].tolist()) == list(range(130))


def test_randomized__draws_by_squared_norm():
    from rowsolve.problem.system import System
    from rowsolve.sources import open_rows

    A = np.diag([1.0, 2.0, 3.0])
    system, rng = System(open_rows(A), np.zeros(3)), np.random.default_rng(0)
    method = rowsolve.Randomized()
    order = method.advance(method.prepare(system, rng), np.ones((2, 3)), 14_000, rng, np.empty(2))
    np.testing.assert_allclose(np.bincount(order) / 14_000, np.array([1, 4, 9]) / 14, atol=0.015)
    assert system.counter.rows_read == 3  # the pass for the norms; bursts are counted by the driver


@pytest.mark.compiled
def test_block__on_tight_clusters_beats_single_rows_by_far_and_across_does_not():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((4, 200))[rng.integers(0, 4, 4000)] + 0.1 * rng.standard_normal((4000, 200))
    b = A @ rng.standard_normal(200)
    rows = {name: rowsolve.solve(A, b, name, rng=0).rows_read for name in ("randomized", "block", "cluster-block")}
    assert rows["block"] < rows["randomized"] / 5
    assert rows["cluster-block"] > rows["block"] * 5  # the paper's claim turned round


@pytest.mark.compiled
def test_jl__needs_fewer_steps_than_random_rows_at_first():
    A, b, x_true = gaussian(4000, 200, seed=2)

    def error_after(method, n_rows):
        return relative_error(rowsolve.solve(A, b, method, rtol=0.0, max_passes=n_rows / 4000, rng=0).x, x_true)

    greedy = error_after(rowsolve.JL(sketch_size=100), 4000 + 2 * 200)  # a pass, then 200 steps of two rows
    plain = error_after(rowsolve.Randomized(weights="uniform"), 200)
    assert greedy < 0.75 * plain


@pytest.mark.compiled
def test_within__on_tight_clusters_is_far_faster_than_across():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((4, 200))[rng.integers(0, 4, 4000)] + 0.1 * rng.standard_normal((4000, 200))
    b = A @ rng.standard_normal(200)
    rows = {
        pairing: rowsolve.solve(A, b, rowsolve.ClusterBlock(pairing=pairing), rng=0).rows_read
        for pairing in ("across", "within")
    }
    assert rows["within"] < rows["across"] / 10


def test_within_by_pattern__beats_plain_cyclic_on_sparse_rows_that_share_columns():
    # Rows in random order, each touching most of one group of 6 neighbouring columns and one of the next group.
    rng = np.random.default_rng(1)
    n_groups, n_rows = 20, 1200
    group = rng.integers(0, n_groups, n_rows)
    A = sparse.lil_array((n_rows, 6 * n_groups))
    for i, g in enumerate(group):
        A[i, 6 * g + rng.permutation(6)[:5]] = 1 + 0.1 * rng.standard_normal(5)
        A[i, (6 * g + 6 + rng.integers(6)) % (6 * n_groups)] = 0.1
    A = A.tocsr()
    x_true = rng.standard_normal(6 * n_groups)
    for metric in ("jaccard", "hamming"):
        method = rowsolve.ClusterBlock(n_clusters=n_groups, metric=metric, pairing="within", block_size=6)
        within = rowsolve.solve(A, A @ x_true, method, rng=0)
        cyclic = rowsolve.solve(A, A @ x_true, "cyclic", rng=0)
        assert within.converged
        assert relative_error(within.x, x_true) < 3e-6
        assert within.rows_read < cyclic.rows_read / 2


@pytest.mark.compiled
def test_refresh__keeps_the_selection_accurate():
    A, b, x_true = gaussian(10_000, 250, seed=3)

    def error_after(method, steps):
        errors = []
        done = steps // 25  # bursts of 25 steps: p / 10

        def watch(event):
            if event.stage == "solve":
                errors.append(relative_error(event.x, x_true))
            return len(errors) == done

        rowsolve.solve(A, b, method, rtol=0.0, rng=0, callback=watch)
        return errors[-1]

    options = {"sketch_size": 32, "n_candidates": 100}
    refreshed = error_after(rowsolve.JL(**options, reference="refresh"), 1000)
    long_bursts = rowsolve.JL(**options)
    plain = relative_error(rowsolve.solve(A, b, long_bursts, rtol=0.0, max_passes=1 + 0.2, rng=0).x, x_true)
    assert refreshed < plain / 10  # after 4 p steps each
