from __future__ import annotations

import naive
import numpy as np
import pytest

import rowsolve
from rowsolve._system import System
from rowsolve.methods.oblivious import ONE_BY_ONE, Chains, ObliviousPlan
from rowsolve.sources import open_rows


def plan_with_chains(A, b, n_chains, per_round, block_size=1):
    plan = ObliviousPlan(System(open_rows(A), b, threads=n_chains), block_size)
    plan.chains = Chains(plan, n_chains)
    plan.chains.units_of_a_round = per_round
    return plan


@pytest.mark.parametrize("n_rows_taken", [1, 7, 40, 41])
@pytest.mark.parametrize("n_chains", [1, 2, 3, 5])
def test_chains__match_naive(store, n_chains, n_rows_taken):
    rng = np.random.default_rng(n_chains)
    A, b, iterates = rng.standard_normal((60, 23)), rng.standard_normal(60), rng.standard_normal((2, 23))
    kept = store(A)
    exact = kept.astype(np.float64) if isinstance(kept, np.ndarray) else A
    order, drops = rng.permutation(60)[:n_rows_taken], np.empty(2)
    expected = iterates.copy()
    expected_drops = naive.chains(exact, b, order, n_chains, 4, expected)
    plan = plan_with_chains(kept, b, n_chains, 4)
    plan.project(order, ONE_BY_ONE, iterates, drops)
    np.testing.assert_allclose(iterates, expected, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(drops, expected_drops, rtol=1e-9)


@pytest.mark.parametrize("sizes", [(), (3,) * 12, (1, 5, 2, 4, 3) * 3], ids=["rows", "blocks", "blocks of all sizes"])
@pytest.mark.parametrize("n_chains", [2, 3])
def test_chains__know_exactly_what_the_error_loses(sizes, n_chains):
    rng = np.random.default_rng(3)
    A, x_true = rng.standard_normal((60, 30)), rng.standard_normal(30)
    plan = plan_with_chains(A, A @ x_true, n_chains, 3, block_size=max(sizes, default=1))
    order, drops = rng.permutation(60)[: sum(sizes) or 36], np.empty(2)
    iterates = rng.standard_normal((2, 30))
    before = np.sum((x_true - iterates[0]) ** 2), np.sum(iterates[1] ** 2)
    plan.project(order, np.array(sizes) if sizes else ONE_BY_ONE, iterates, drops)
    after = np.sum((x_true - iterates[0]) ** 2), np.sum(iterates[1] ** 2)
    np.testing.assert_allclose(drops, np.subtract(before, after), rtol=1e-11)


def test_chains__take_rows_that_say_the_same():
    A = np.tile(np.random.default_rng(0).standard_normal((1, 6)), (8, 1))
    iterates, drops = np.ones((2, 6)), np.empty(2)
    plan = plan_with_chains(A, A @ np.full(6, 3.0), 2, 2)
    plan.project(np.arange(8), ONE_BY_ONE, iterates, drops)
    np.testing.assert_allclose(A @ iterates[0], A @ np.full(6, 3.0))
    np.testing.assert_allclose(A @ iterates[1], 0.0, atol=1e-12)


@pytest.mark.parametrize("bad", [3, 12])
def test_chains__note_odd_rows_of_every_chain(bad):
    A = np.random.default_rng(0).standard_normal((16, 5))
    A[bad, 2] = np.nan
    plan = plan_with_chains(A, np.ones(16), 2, 4)
    plan.project(np.arange(16), ONE_BY_ONE, np.ones((2, 5)), np.empty(2))
    with pytest.raises(ValueError, match=f"row {bad} has nan in column 2"):
        plan.system.look_at_odd_rows()


@pytest.mark.parametrize("absent", [0, 1, 2])
def test_chains__no_thread_waits_for_one_that_will_not_come(monkeypatch, absent):
    plan = plan_with_chains(np.random.default_rng(0).standard_normal((1000, 20)), np.zeros(1000), 3, 8)
    plan.project(np.arange(1000), ONE_BY_ONE, np.ones((2, 20)), np.empty(2))

    def interrupted(*arguments):
        if arguments[5] == absent:
            raise KeyboardInterrupt if absent == 0 else MemoryError
        run_chain(*arguments)

    run_chain = rowsolve.methods.oblivious.run_chain
    monkeypatch.setattr("rowsolve.methods.oblivious.run_chain", interrupted)
    iterates = np.ones((2, 20))
    with pytest.raises(KeyboardInterrupt if absent == 0 else MemoryError):
        plan.project(np.arange(1000), ONE_BY_ONE, iterates, np.empty(2))
    np.testing.assert_array_equal(iterates, 1.0)
    monkeypatch.undo()
    plan.project(np.arange(1000), ONE_BY_ONE, iterates, np.empty(2))
    assert np.isfinite(iterates).all()
