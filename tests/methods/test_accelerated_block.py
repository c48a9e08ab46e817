"""Large blocks with momentum: the steps, their number of rows, and restarts."""

from __future__ import annotations

import naive
import numpy as np
import pytest
from conftest import gaussian, relative_error
from scipy import sparse

import rowsolve
from rowsolve import AcceleratedBlock
from rowsolve.methods import accelerated_block
from rowsolve.problem.system import System
from rowsolve.sources import open_rows


def with_spectrum(values, n_rows, seed=0):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((n_rows, values.size)) * values @ np.linalg.qr(rng.standard_normal((values.size,) * 2))[0]
    x = rng.standard_normal(values.size)
    return A, A @ x, x


@pytest.mark.parametrize("store", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
def test_steps__before_there_is_momentum_are_block_projections(store):
    A, b, _ = gaussian(100, 12)
    system, rng, drops = System(open_rows(store(A)), b), np.random.default_rng(0), np.empty(2)
    method = AcceleratedBlock(block_size=5, ridge=1e-3)
    plan, iterates = method.prepare(system, rng), rng.standard_normal((2, 12))
    expected = iterates.copy()
    order = method.advance(plan, iterates, 8 * 5, rng, drops)
    expected_drops = naive.ridge_blocks(A, b, order.reshape(8, 5), 1e-3, expected)
    np.testing.assert_allclose(iterates, expected, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(drops, expected_drops, rtol=1e-9)


def test_blocks__are_a_partition_of_the_rows():
    A, b, _ = gaussian(103, 4)
    system, rng = System(open_rows(A), b), np.random.default_rng(0)
    method = AcceleratedBlock(block_size=10)
    plan = method.prepare(system, rng)
    for _ in range(20):
        method.advance(plan, np.ones((2, 4)), 100, rng, np.empty(2))
    assert len(plan.blocks) == 11
    assert sorted(np.concatenate([block.rows for block in plan.blocks]).tolist()) == list(range(103))


def test_factors__that_do_not_fit_are_recomputed_with_the_same_result(monkeypatch):
    A = sparse.random_array((900, 60), density=0.05, rng=np.random.default_rng(0), format="csr")
    b = A @ np.ones(60)
    kept = rowsolve.solve(A, b, AcceleratedBlock(15), rng=0)
    monkeypatch.setattr(accelerated_block, "GATHERED", 0)
    plan = AcceleratedBlock(15).prepare(System(open_rows(A), b), np.random.default_rng(0))
    assert plan.factor_budget < 900 * 15 / 4
    again = rowsolve.solve(A, b, AcceleratedBlock(15), rng=0)
    assert again.converged
    np.testing.assert_array_equal(again.x, kept.x)


@pytest.mark.compiled
def test_decaying_spectrum__needs_a_small_part_of_the_rows_of_others():
    A, b, x_true = with_spectrum(np.logspace(0, -2, 120), 4800)
    methods = [AcceleratedBlock(), rowsolve.Block(4), rowsolve.Block(30), rowsolve.Randomized()]
    rows = {}
    for method in methods:
        solution = rowsolve.solve(A, b, method, rng=0, threads=1)
        assert solution.converged
        assert relative_error(solution.x, x_true) < 2e-6
        rows[method] = solution.rows_read
    accelerated, small, large, single = rows.values()
    assert accelerated < small / 20
    assert accelerated < single / 20
    assert accelerated < large / 5


@pytest.mark.compiled
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "values",
    [np.ones(120), np.logspace(0, -2, 120), np.append(100 * np.ones(12), np.ones(108))],
    ids=["flat", "decaying", "outliers"],
)
def test_estimate__is_correct_throughout_with_momentum_and_restarts(values, seed):
    A, b, x_true = with_spectrum(values, 4800, seed)
    ratios = []

    def note(event):
        ratios.append(event.error_estimate * np.linalg.norm(event.x) / np.linalg.norm(event.x - x_true))

    solution = rowsolve.solve(A, b, "accelerated-block", callback=note, rng=seed)
    assert solution.converged  # outliers: momentum with its first weight diverges
    settled = np.array(ratios[4:])
    assert np.median(settled) == pytest.approx(1.0, abs=0.3)
    assert np.quantile(settled, 0.02) > 1 / 3
    assert np.quantile(settled, 0.98) < 10


def test_momentum__that_makes_steps_grow_starts_again_with_half_its_weight():
    momentum = accelerated_block._Momentum(40, 10)
    momentum.moves[:] = 1.0
    for size in [1.0] * 8 + [0.5] * 8:
        momentum.learn(size)
    friction = momentum.friction
    assert friction == pytest.approx(np.sqrt(np.log(2.0) / 8))
    assert momentum.weight == 0.25
    for _ in range(momentum.window):
        momentum.learn(0.6)
    assert momentum.friction == friction
    assert momentum.weight == 0.125
    assert not momentum.moves.any()
    momentum.moves[:] = 1.0
    momentum.learn(1e6)  # at once
    assert momentum.weight == 0.0625
    assert not momentum.moves.any()


def test_moves__are_forgotten_when_others_have_moved_x_or_the_probe():
    momentum, iterates = accelerated_block._Momentum(3, 1), np.ones((2, 3))
    momentum.moves[:], momentum.left[:] = 1.0, iterates
    momentum.reset_if_changed(iterates)
    assert momentum.moves.all()
    iterates[1] = 2.0
    momentum.reset_if_changed(iterates)
    assert not momentum.moves.any()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: AcceleratedBlock(block_size=0), "`block_size` must be an integer of at least 1, got 0"),
        (lambda: AcceleratedBlock(ridge=-1.0), "`ridge` must be a number of at least 0 and below 1, got -1.0"),
        (
            lambda: rowsolve.solve(np.eye(3), np.ones(3), AcceleratedBlock(4)),
            "`block_size` must be at most the number of rows, 3, got 4",
        ),
    ],
)
def test_parameters__that_are_invalid_raise_an_error(make, words):
    with pytest.raises(ValueError, match=words):
        make()
