from __future__ import annotations

import naive
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rowsolve.kernels.rows import frozen
from rowsolve.kernels.sweep import Gate, guarded_sweep, lets_through, sweep
from rowsolve.sources import open_rows


def system(seed, n_rows=15, n_columns=6):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((n_rows, n_columns)) * (rng.random((n_rows, n_columns)) < 0.7)
    return A, rng.standard_normal(n_rows), rng.standard_normal((2, n_columns)), rng.integers(0, n_rows, 40)


def test_sweep__matches_naive(store):
    A, b, iterates, order = system(1)
    A[4], b[4] = 0.0, 0.0
    kept = store(A)
    exact = kept.astype(np.float64) if isinstance(kept, np.ndarray) else A
    expected, drops = iterates.copy(), np.empty(2)
    expected_drops = naive.sweep(exact, b, order, expected)
    sweep(open_rows(kept).rows, frozen(b), order, iterates, drops, np.full(3, -1))
    np.testing.assert_allclose(iterates, expected, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(drops, expected_drops, rtol=1e-10)


@given(
    seed=st.integers(0, 10**6),
    n_columns=st.integers(1, 70),
    n_steps=st.integers(0, 9),
    dtype=st.sampled_from(["f4", "f8"]),
)
def test_sweep__any_width_and_number_of_rows(seed, n_columns, n_steps, dtype):
    """Numbers of columns and rows for which the loops end differently."""
    rng = np.random.default_rng(seed)
    A, b = rng.standard_normal((5, n_columns)).astype(dtype), rng.standard_normal(5)
    A[rng.integers(0, 5)] *= rng.integers(0, 2)  # a zero row in half of the cases
    iterates, order, drops = rng.standard_normal((2, n_columns)), rng.integers(0, 5, n_steps), np.empty(2)
    expected = iterates.copy()
    expected_drops = naive.sweep(A.astype(float), b, order, expected)
    sweep(open_rows(A).rows, frozen(b), order, iterates, drops, np.full(3, -1))
    np.testing.assert_allclose(iterates, expected, rtol=1e-9, atol=1e-9 * (1 + np.abs(expected).max()))
    np.testing.assert_allclose(drops, expected_drops, rtol=1e-9, atol=1e-15 * (1 + np.abs(expected_drops).max()))


@given(seed=st.integers(0, 10**6), steps=st.integers(1, 60))
def test_sweep__error_never_grows_and_drops_add_up(seed, steps):
    A, _, iterates, _ = system(seed)
    rng = np.random.default_rng(seed)
    x_true = rng.standard_normal(6)
    rows, b = open_rows(A).rows, A @ x_true
    start = np.sum((x_true - iterates[0]) ** 2)
    error, total, drops = start, 0.0, np.empty(2)
    for i in rng.integers(0, 15, steps):
        sweep(rows, frozen(b), np.array([i]), iterates, drops, np.full(3, -1))
        now = np.sum((x_true - iterates[0]) ** 2)
        assert now <= error * (1 + 1e-12)
        error, total = now, total + drops[0]
    np.testing.assert_allclose(total + error, start, rtol=1e-10)


@given(seed=st.integers(0, 10**6), exponent=st.integers(-60, 60))
def test_sweep__scaling_an_equation_changes_nothing(seed, exponent):
    A, b, iterates, order = system(seed)
    scaled, scaled_b, other = A.copy(), b.copy(), iterates.copy()
    scaled[3] *= 2.0**exponent
    scaled_b[3] *= 2.0**exponent
    drops, other_drops = np.empty(2), np.empty(2)
    sweep(open_rows(A).rows, frozen(b), order, iterates, drops, np.full(3, -1))
    sweep(open_rows(scaled).rows, frozen(scaled_b), order, other, other_drops, np.full(3, -1))
    np.testing.assert_array_equal(iterates, other)  # a power of two: to the last bit
    np.testing.assert_array_equal(drops, other_drops)


def test_guarded_sweep__matches_naive(store):
    A, b, iterates, order = system(1)
    A[4], b[4] = 0.0, 0.0
    kept = store(A)
    exact = kept.astype(np.float64) if isinstance(kept, np.ndarray) else A
    expected, drops, gate = iterates.copy(), np.empty(2), Gate(np.array([0.3, 0.01]), 2.0, 1.2, 0.8)
    expected_drops, level = naive.guarded_sweep(exact, b, order, expected, 0.3, 0.01, 2.0, 1.2, 0.8)
    everything = naive.sweep(exact, b, order, iterates.copy())
    guarded_sweep(open_rows(kept).rows, frozen(b), order, iterates, drops, np.full(3, -1), gate)
    np.testing.assert_allclose(iterates, expected, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(drops, expected_drops, rtol=1e-10)
    np.testing.assert_allclose(gate.level, [level, 0.01], rtol=1e-10)
    assert not np.allclose(drops, everything, rtol=0.1)  # some rows were left out


def test_gate__converges_to_the_quantile_of_the_distances():
    for quantile in (0.5, 0.8):
        gate = Gate(np.array([50.0, 0.0]), 1.0, np.exp(0.02 * quantile), np.exp(-0.02 * (1 - quantile)))
        through = [lets_through(gate, distance) for distance in np.random.default_rng(0).exponential(1.0, 6000)]
        np.testing.assert_allclose(np.mean(through[2000:]), quantile, atol=0.02)
        np.testing.assert_allclose(gate.level[0], -np.log(1 - quantile), rtol=0.3)


def test_gate__is_bounded_below():
    gate = Gate(np.array([1.0, 1e-9]), 1.0, 1.5, 0.5)
    for _ in range(99):
        assert lets_through(gate, 0.0)
    assert gate.level[0] == 1e-9
