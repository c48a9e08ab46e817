"""Steps of conjugate gradients in one call: the same as one by one, for any threads."""

from __future__ import annotations

import math
import threading

import numpy as np
import pytest
from conftest import gaussian
from scipy import sparse

from rowsolve.estimate.estimator import ErrorEstimator
from rowsolve.estimate.tolerance import Tolerance
from rowsolve.lstsq import steps as module
from rowsolve.lstsq.descent import Descent
from rowsolve.problem.limits import Limits
from rowsolve.problem.system import System
from rowsolve.sources import open_rows


def begun(A, b, threads=1, damp=0.0):
    system = System(open_rows(A), b, threads=threads, damp=damp)
    estimator = ErrorEstimator(Tolerance(1e-6, 0.0, 2.2e-16), np.zeros((1, A.shape[1])))
    descent = Descent(system, estimator, np.random.default_rng(0))
    descent.start()
    return descent


def one_by_one(descent, count):
    steepness = []
    for _ in range(count):
        descent.step()
        steepness.append(descent.vectors.steepness)
    return steepness


def system(kind):
    A, b, _ = gaussian(300, 20, noise=0.3)
    if kind == "sparse":
        A = sparse.csr_array(A * (np.abs(A) > 0.8))
    if kind == "single":
        A = A.astype(np.float32)
    return A, b


@pytest.mark.parametrize("kind", ["dense", "single", "sparse"])
@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("damp", [0.0, 2.0])
def test_steps__are_those_that_are_taken_one_by_one(monkeypatch, kind, threads, damp):
    monkeypatch.setattr(Limits, "threads_for", lambda self, _: self.threads)
    A, b = system(kind)
    slow, fast = begun(A, b, damp=damp), begun(A, b, threads, damp)
    expected = one_by_one(slow, 6)
    found = fast.advance(np.array([True]), np.zeros(1))[:6]
    np.testing.assert_allclose(found, expected[: len(found)], rtol=1e-6)
    slow, fast = begun(A, b, damp=damp), begun(A, b, threads, damp)
    monkeypatch.setattr(module, "FEWEST_IN_MEAN", 4)
    one_by_one(slow, 4)
    assert len(fast.advance(np.array([True]), np.zeros(1))) == 4
    for name in ("at", "slope", "direction", "last_step", "error", "worth"):
        one, other = getattr(fast.vectors, name), getattr(slow.vectors, name)
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-12, err_msg=name)
    np.testing.assert_allclose(fast.residual.sq, slow.residual.sq, rtol=1e-8)
    np.testing.assert_allclose(fast.estimator.amplification, slow.estimator.amplification, rtol=1e-8)
    np.testing.assert_allclose(fast.rounding.top, slow.rounding.top, rtol=1e-8)
    np.testing.assert_allclose(fast.probe.state()["_seen"], slow.probe.state()["_seen"], rtol=1e-8)
    assert fast.system.counter.rows_read == slow.system.counter.rows_read
    assert not fast.rounding.fresh


def test_steps__end_when_the_error_is_small_enough():
    A, b = system("dense")
    descent = begun(A, b)
    taken = descent.advance(np.array([True]), np.array([1e-2 * np.linalg.norm(np.linalg.lstsq(A, b)[0])]))
    assert 1 < len(taken) < 8
    assert descent.vectors.error[0] <= 1e-2 * np.linalg.norm(descent.vectors.x)


def test_steps__keep_to_the_rows_that_may_be_read():
    A, b = system("dense")
    descent = begun(A, b)
    descent.system.counter.max_rows = 4 * 300
    assert len(descent.advance(np.array([True]), np.zeros(1))) == 3  # one pass was made to begin with


def test_steps__are_the_same_bits_when_a_thread_comes_late(monkeypatch):
    monkeypatch.setattr(Limits, "threads_for", lambda self, _: self.threads)
    A, b = system("dense")
    expected = begun(A, b, 2)
    expected.advance(np.array([True]), np.zeros(1))
    run, go = module.run_rounds, threading.Event()

    def late(work, patience, me, progress):
        if me == 1:
            go.wait(10)
        taken = run(work, patience, me, progress)
        go.set()
        return taken

    monkeypatch.setattr(module, "run_rounds", late)
    found = begun(A, b, 2)
    found.advance(np.array([True]), np.zeros(1))
    np.testing.assert_array_equal(found.vectors.at, expected.vectors.at)
    assert math.isfinite(found.vectors.error[0])


def test_steps__see_numbers_that_are_not_finite():
    A, b = system("dense")
    descent = begun(A.copy(), b)
    descent.vectors.direction[0, 0] = np.nan
    with pytest.raises(ValueError, match="out of the range of float64"):
        descent.advance(np.array([True]), np.zeros(1))
