"""The residual of conjugate gradients, which is updated by subtraction, and what the probe shows."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rowsolve.estimate.estimator import ErrorEstimator
from rowsolve.estimate.tolerance import Tolerance
from rowsolve.lstsq.conjugate import Residual, Vectors
from rowsolve.lstsq.probe import Probe
from rowsolve.problem.system import System
from rowsolve.sources import open_rows


def test_residual__is_unknown_once_subtraction_has_left_no_digits():
    residual = Residual.computed(np.array([4.0, 9.0])).lowered(np.array([1.0]), np.array([True, False]))
    np.testing.assert_array_equal(residual.sq, [3.0, 9.0])
    assert residual.norm(np.array([0.5, 0.5])) == pytest.approx(math.sqrt(11.0))
    assert residual.certain_norm == pytest.approx(math.sqrt(12.0))
    residual = residual.lowered(np.array([3.0, 9.0 - 1e-13]))
    assert residual.norm(np.zeros(2)) is None
    assert residual.certain_norm < 1e-6
    assert (residual.lowered(np.array([1.0, 1.0])).sq == 0.0).all()


def test_moving__leaves_out_what_is_accurate_and_a_probe_that_has_vanished():
    vectors, wanted = Vectors.of(np.ones((2, 3)), np.ones(3)), np.array([True, False])
    np.testing.assert_array_equal(vectors.moving(wanted), [True, False, True])
    vectors.at[-1] = 1e-14
    np.testing.assert_array_equal(vectors.moving(wanted), [True, False, False])
    assert vectors.moving(None) == slice(None)
    assert Vectors.of(np.ones((1, 3)), None).moving(np.array([False])) == slice(None)


def probe_of(p=4):
    estimator = ErrorEstimator(Tolerance(1e-6, 0.0, 2.2e-16), np.zeros((1, p)))
    system = System(open_rows(np.eye(p)), np.ones(p))
    return Probe(system, estimator, np.random.default_rng(0)), estimator


def test_amplification__is_that_beside_the_null_space_once_it_is_known():
    probe, estimator = probe_of()
    for part, change in ((0.8, 0.4), (0.3, 0.1), (1e-7, 1e-9)):  # of a probe whose part in the null space is 0.6
        probe.look(math.hypot(part, 0.6), change)
    assert estimator.amplification > 1e8
    probe.find_null_space(0.36)
    assert estimator.amplification == pytest.approx(3.0)
    probe.look(0.6, 1e-12)  # nothing more is learned
    assert estimator.amplification == pytest.approx(3.0)


def test_probe__is_stuck_if_its_gradient_decreases_alone():
    probe, _ = probe_of()
    for step in range(5):
        assert not probe.is_stuck
        probe.look(1.0 - 0.01 * step, 0.5**step)
    assert probe.is_stuck
    probe, _ = probe_of()
    for step in range(9):
        probe.look(0.5**step, 0.5**step)
    assert not probe.is_stuck


def test_new_probes__have_unit_norm_and_free_entries_only():
    probe, _ = probe_of()
    free = np.array([True, False, True, False])
    drawn = probe.drawn_within(free)
    assert np.linalg.norm(drawn) == pytest.approx(1.0)
    assert (drawn[~free] == 0.0).all()
    assert not probe.drawn_within(np.zeros(4, dtype=bool)).any()
    assert np.linalg.norm(probe.drawn(None)) == pytest.approx(1.0)
