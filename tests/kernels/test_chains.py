from __future__ import annotations

import threading
from functools import partial

import naive
import numpy as np
import pytest
from conftest import DENSE_OR_CSR, JIT

import rowsolve
from rowsolve.kernels import rounds
from rowsolve.methods.drawing import ONE_BY_ONE
from rowsolve.methods.oblivious import ObliviousPlan
from rowsolve.problem.system import System
from rowsolve.sources import open_rows


def plan_with_chains(A, b, n_chains, per_round, block_size=1):
    plan = ObliviousPlan(System(open_rows(A), b, threads=n_chains), block_size)
    plan.distribute(n_chains)
    plan.chains.units_of_a_round = per_round
    return plan


@DENSE_OR_CSR
@pytest.mark.parametrize(("n_chains", "n_rows_taken"), [(1, 40), (2, 7), (2, 41), (3, 40), (5, 1), (5, 41)])
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
def test_chains__return_exact_drops(sizes, n_chains):
    rng = np.random.default_rng(3)
    A, x_true = rng.standard_normal((60, 30)), rng.standard_normal(30)
    plan = plan_with_chains(A, A @ x_true, n_chains, 3, block_size=max(sizes, default=1))
    order, drops = rng.permutation(60)[: sum(sizes) or 36], np.empty(2)
    iterates = rng.standard_normal((2, 30))
    before = np.sum((x_true - iterates[0]) ** 2), np.sum(iterates[1] ** 2)
    plan.project(order, np.array(sizes) if sizes else ONE_BY_ONE, iterates, drops)
    after = np.sum((x_true - iterates[0]) ** 2), np.sum(iterates[1] ** 2)
    np.testing.assert_allclose(drops, np.subtract(before, after), rtol=1e-11)


def test_chains__support_parallel_rows():
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
        plan.system.check_flagged()


class Burst:
    """A burst of chains, repeated, and its result with all threads."""

    def __init__(self, n_chains, monkeypatch):
        rng = np.random.default_rng(n_chains)
        A = rng.standard_normal((400, 20))
        self.order, self.start = rng.permutation(400), rng.standard_normal((2, 20))
        self.plan, self.patch = plan_with_chains(A, A @ rng.standard_normal(20), n_chains, 8), monkeypatch
        self.run_rounds = rowsolve.methods.oblivious.run_rounds
        self.expected = self.result()

    def result(self, thread=None):
        """Return the result if `thread`, called with `me` and the next action, decides what each thread does."""

        def run(work, patience, me, progress):
            return thread(me, partial(self.run_rounds, work, patience, me, progress), progress, work.legs)

        iterates, drops = self.start.copy(), np.empty(2)
        with self.patch.context() as patch:
            if thread is not None:
                patch.setattr("rowsolve.methods.oblivious.run_rounds", run)
            self.plan.project(self.order, ONE_BY_ONE, iterates, drops)
        return [*iterates.ravel(), *drops]


@pytest.fixture(params=[2, 3, 5])
def burst(request, monkeypatch):
    return Burst(request.param, monkeypatch)


def test_chains__are_the_same_bits_when_no_other_thread_comes(burst):
    go, given_up = threading.Event(), []

    def late(me, proceed, *_):
        if me > 0 and not go.wait(30):
            given_up.append(me)
        return proceed()

    assert burst.result(late) == burst.expected
    assert burst.result() == burst.expected  # while some may still be late
    assert not given_up  # nobody waits for threads whose cores are busy
    go.set()
    assert burst.result() == burst.expected


def test_chains__are_the_same_bits_when_others_do_the_work_of_the_first(burst):
    over = threading.Semaphore(0)

    def late(me, proceed, *_):
        if me == 0:
            assert over.acquire(timeout=30)
        last = proceed()
        over.release()
        return last

    assert burst.result(late) == burst.expected


def test_chains__are_the_same_bits_when_a_thread_is_lost_in_the_middle_of_a_leg(burst):
    n_chains, begun, go, given_up = burst.plan.chains.n_chains, threading.Event(), threading.Event(), []

    def late(me, proceed, progress, legs):
        if me == 1:
            own = slice(n_chains, n_chains + 2)
            assert rounds.claim(0, 0, me, progress) == 1
            legs.iterates[:, own] = np.nan
            begun.set()
            if not go.wait(30):
                given_up.append(me)
            legs.iterates[:, own] = np.inf
            rounds.publish(0, 1, n_chains, progress)
        assert begun.wait(30)
        return proceed()

    assert burst.result(late) == burst.expected
    assert not given_up
    go.set()
    assert burst.result() == burst.expected


def test_chains__are_the_same_bits_when_threads_that_lost_their_core_come_back(burst):
    """Many threads lose their core: there are more threads than cores, and none waits for another."""
    burst.plan.chains.patience = 0
    for _ in range(200 if JIT else 3):
        assert burst.result() == burst.expected


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_chains__no_thread_is_left_behind_when_the_first_fails(burst, error):
    inside, begun = [], threading.Barrier(burst.plan.chains.n_chains, timeout=30)

    def fail(me, proceed, *_):
        inside.append(me)
        begun.wait()
        if me == 0:
            raise error
        proceed()
        inside.remove(me)
        return 0

    with pytest.raises(error):
        burst.result(fail)
    assert inside == [0]
    assert burst.result() == burst.expected


def test_chains__do_without_a_thread_that_fails(burst):
    def fail(me, proceed, *_):
        if me > 0:
            raise MemoryError
        return proceed()

    assert burst.result(fail) == burst.expected
