from __future__ import annotations

import naive
import numpy as np
import pytest
from bursts import assert_taken, burst_of
from conftest import check_solution, gaussian

from rowsolve import Randomized

UNIFORM, SHUFFLED = Randomized(weights="uniform"), Randomized(weights="uniform", replace=False)


@pytest.mark.parametrize("method", [Randomized(), UNIFORM, SHUFFLED], ids=repr)
def test_step__is_the_projection_on_the_row_drawn(method):
    A, b, _ = gaussian(40, 7)
    burst = burst_of(method, A, b, 60)
    assert burst.order.size == 60
    assert_taken(burst, naive.sweep, A, b, burst.order)


def test_without_replacement__each_row_is_visited_once_a_pass():
    A, b, _ = gaussian(130, 3)
    burst, rng = burst_of(SHUFFLED, A, b, 64), np.random.default_rng(0)
    orders = [burst.order] + [burst.plan.draw(64, rng)[0] for _ in range(39)]  # more than drawn at once
    assert {order.size for order in orders} == {64}
    for first in range(0, 40 * 64 - 130, 130):
        assert sorted(np.concatenate(orders)[first : first + 130].tolist()) == list(range(130))


def test_by_norms__rows_are_drawn_by_squared_norm():
    burst = burst_of(Randomized(), np.diag([1.0, 2.0, 3.0]), np.zeros(3), 14_000)
    np.testing.assert_allclose(np.bincount(burst.order) / 14_000, np.array([1, 4, 9]) / 14, atol=0.015)
    assert burst.system.counter.rows_read == 3  # the pass for the norms; bursts are counted by the driver


def test_uniform__rows_are_drawn_alike_whatever_their_norm():
    burst = burst_of(UNIFORM, np.diag([1.0, 2.0, 3.0]), np.zeros(3), 14_000)
    np.testing.assert_allclose(np.bincount(burst.order) / 14_000, 1 / 3, atol=0.015)
    assert burst.system.counter.rows_read == 0


@pytest.mark.parametrize("method", [UNIFORM, SHUFFLED], ids=repr)
def test_parameters__all_lead_to_the_solution(method):
    check_solution(method)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Randomized(weights="norm"), "`weights` must be one of 'norms', 'uniform'"),
        (lambda: Randomized(replace="no"), "`replace` must be True or False, got 'no'"),
        (lambda: Randomized(replace=False), "it needs `weights='uniform'`"),
    ],
)
def test_parameters__that_are_invalid_raise_an_error(make, words):
    with pytest.raises(ValueError, match=words):
        make()
