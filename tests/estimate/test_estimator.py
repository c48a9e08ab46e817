"""The estimate of the error from a probe, the bound for an unlucky start, and the error that is allowed."""

from __future__ import annotations

import numpy as np
import pytest

from rowsolve.checkpoint.state import StateError
from rowsolve.estimate.estimator import ErrorEstimator
from rowsolve.estimate.tolerance import Tolerance

EPS = float(np.finfo(float).eps)


def estimator(x0, rtol=1e-6, atol=0.0):
    return ErrorEstimator(Tolerance(rtol, atol, EPS), np.asarray(x0, dtype=float))


def test_error__is_that_of_a_linear_method_whatever_its_rate():
    rng = np.random.default_rng(0)
    p = 400
    shrink = 1.0 - np.geomspace(1e-3, 1e-1, p)  # of each component of the error, in each step
    x_error, z = rng.standard_normal((2, p))
    found = estimator(np.zeros(p))
    for _ in range(200):
        x_error, z, x_before, z_before = shrink * x_error, shrink * z, x_error, z
        found.measure(np.linalg.norm(z), np.linalg.norm(z - z_before))
        error = found.of_change(np.linalg.norm(x_error - x_before))
        assert error == pytest.approx(np.linalg.norm(x_error), rel=0.3)


def test_amplification__is_at_least_what_it_is_told_and_0_without_a_change():
    found = estimator(np.zeros(3))
    found.measure(2.0, 4.0, least=0.7)
    assert found.amplification == 0.7
    found.measure(2.0, 0.0)
    assert found.amplification == 0.0
    assert found.of_change(5.0) == 0.0


def test_unlucky_start__is_covered_for_any_direction():
    """An error in the slowest direction alone is at most the bound, which a random probe gives in 39 of 40 cases."""
    rng = np.random.default_rng(1)
    p, left, covered = 30, np.append(np.full(29, 1e-9), 1e-3), 0
    for _ in range(200):
        z0 = rng.standard_normal(p)
        x_true = np.append(np.zeros(p - 1), 1.0)
        found, x = estimator(np.zeros(p)), (1.0 - left) * x_true
        share = np.linalg.norm(left * z0) / np.linalg.norm(z0)
        covered += np.linalg.norm(x - x_true) <= found.of_unlucky_start(x, share)
    assert covered >= 190
    assert found.of_unlucky_start(x, 1.0) == np.inf


def test_allowed__counts_each_x_and_the_size_of_its_start():
    one, several = estimator([3.0, 4.0], rtol=0.1, atol=0.5), estimator([[3.0, 4.0], [0.0, 0.0]], rtol=0.1)
    assert one.allowed(10.0) == pytest.approx(1.5)
    assert one.allowed(0.0) == pytest.approx(0.5, rel=1e-12)
    np.testing.assert_allclose(several.allowed(np.array([1.0, 2.0])), [0.1, 0.2])
    assert several.is_good(np.array([0.1, 0.2]), np.array([1.0, 2.0]))
    assert not several.is_good(np.array([0.1, 0.3]), np.array([1.0, 2.0]))


def test_floor__is_that_of_the_data_or_of_p_roundings():
    found = estimator(np.zeros(100))
    assert found.floor(2.0, 0.0) == 2.0 * EPS * 10.0
    assert found.floor(2.0, 1e-7) == 2e-7


def test_state__is_restored_and_must_fit():
    before, after = estimator([[3.0, 4.0]]), estimator(np.zeros((1, 2)))
    before.record(7.0)
    after.restore(before.state(), {"p": 2, "k": 1})
    assert after.amplification == 7.0
    np.testing.assert_array_equal(after.norm_x0, [5.0])
    with pytest.raises(StateError, match="shape"):
        estimator(np.zeros(2)).restore(before.state(), {"p": 2, "k": 1})
