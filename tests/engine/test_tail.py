"""The mean of iterates, and its error estimated from batches."""

from __future__ import annotations

import numpy as np
import pytest

from rowsolve.engine.tail import Tail


@pytest.mark.parametrize("count", [1, 7, 16, 17, 100, 1000])
def test_mean__is_that_of_all(count):
    values, tail = np.random.default_rng(count).standard_normal((count, 5)), Tail(5)
    for value in values:
        tail.add(value)
    np.testing.assert_allclose(tail.mean, values.mean(axis=0), rtol=1e-9, atol=1e-12)
    assert tail.count == count


def walk(memory, n_columns, count, seed):
    """Return an autoregressive series with coefficient `memory`, variance 1 and mean 0."""
    rng = np.random.default_rng(seed)
    news = np.sqrt(1 - memory**2) * rng.standard_normal((count, n_columns))
    values = [rng.standard_normal(n_columns)]
    for one in news[1:]:
        values.append(memory * values[-1] + one)
    return values


@pytest.mark.parametrize("memory", [0.0, 0.6, 0.95])
@pytest.mark.parametrize("n_columns", [2, 50])
def test_error__is_correct_for_correlated_iterates(memory, n_columns):
    count, squares, estimates = 400, [], []  # 8 times as long as what is remembered lasts, at least
    for seed in range(30):
        tail = Tail(n_columns)
        for value in walk(memory, n_columns, count, seed):
            tail.add(value)
        squares.append(np.sum(tail.mean**2))
        estimates.append(tail.error)
    true = np.sqrt(np.mean(squares))
    assert np.median(estimates) == pytest.approx(true, rel=0.5)
    assert min(estimates) > true / 4
    assert max(estimates) < true * 4


def test_error__of_one_is_not_known():
    tail = Tail(3)
    assert np.isnan(tail.error)
    tail.add(np.ones(3))
    assert np.isnan(tail.error)
    tail.add(np.ones(3))
    assert tail.error == 0.0
