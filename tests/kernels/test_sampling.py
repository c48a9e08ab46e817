from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowsolve.kernels.sampling import (
    Deck,
    deal,
    deal_blocks,
    deck_by_weight,
    draw_many,
    draw_one,
    fill_alias_table,
    new_cards,
)


def probabilities(keep, other):
    """The exact probabilities of the alias table."""
    out = np.zeros(keep.size)
    for i in range(keep.size):
        out[i] += keep[i] / keep.size
        out[other[i]] += (1 - keep[i]) / keep.size
    return out


@given(weights=st.lists(st.floats(0, 1e6), min_size=1, max_size=30).filter(lambda w: max(w) > 1e-3))
def test_alias_table__draws_by_weight_exactly(weights):
    weights = np.array(weights)
    keep, other = np.empty(weights.size), np.empty(weights.size, np.int64)
    fill_alias_table(weights, keep, other)
    assert ((keep >= 0) & (keep <= 1)).all()
    np.testing.assert_allclose(probabilities(keep, other), weights / weights.sum(), atol=1e-12)


def test_alias_table__takes_weights_near_the_end_of_the_range():
    keep, other = np.empty(3), np.empty(3, np.int64)
    fill_alias_table(np.array([1e307, 1e307, 2e307]), keep, other)
    np.testing.assert_allclose(probabilities(keep, other), [0.25, 0.25, 0.5])


def test_draws__stay_in_their_group_and_never_take_weight_zero():
    weights = [np.array([1.0, 0.0, 3.0]), np.array([2.0, 2.0])]
    deck = Deck(np.array([7, 8, 9, 3, 4]), np.array([0, 3, 5]), np.empty(5), np.empty(5, np.int64))
    fill_alias_table(weights[0], deck.keep[:3], deck.other[:3])
    fill_alias_table(weights[1], deck.keep[3:], deck.other[3:])
    order = np.empty(4000, np.int64)
    draw_many(deck, 0, np.random.default_rng(0), order)
    assert set(order.tolist()) == {7, 9}
    assert np.mean(order == 9) == pytest.approx(0.75, abs=0.03)
    draw_many(deck, 1, np.random.default_rng(0), order)
    assert set(order.tolist()) == {3, 4}


def test_draws__use_one_random_number_each():
    weights = np.array([0.5, 4.0, 0.0, 1.0, 1.5, 3.0, 0.25])
    deck, order = deck_by_weight(weights), np.empty(40_000, np.int64)
    draw_many(deck, 0, np.random.default_rng(0), order)
    counts, expected = np.bincount(order, minlength=7), order.size * weights / weights.sum()
    assert counts[2] == 0
    likely = expected > 0
    assert ((counts - expected)[likely] ** 2 / expected[likely]).sum() < 20.5  # chi squared, 5 degrees: 1 in 1000
    rng = np.random.default_rng(0)
    assert [draw_one(deck, 0, rng) for _ in range(50)] == order[:50].tolist()


@given(first=st.integers(0, 9), count=st.integers(1, 10), seed=st.integers(0, 10**6))
def test_deal__takes_distinct_cards_and_loses_none(first, count, seed):
    count = min(count, 10 - first)
    cards, out = new_cards(10), np.empty(count, np.int64)
    deal(cards, first, np.random.default_rng(seed).random(count), out)
    pack = cards + np.arange(10)
    assert sorted(pack.tolist()) == list(range(10))
    assert pack[:first].tolist() == list(range(first))
    assert pack[first : first + count].tolist() == out.tolist()
    assert len(set(out.tolist())) == count
    assert set(out.tolist()) <= set(range(first, 10))


def test_deal_blocks__every_pair_is_equally_likely():
    blocks, cards = np.empty((6000, 2), np.int64), new_cards(4)
    deal_blocks(cards, np.random.default_rng(0).random(blocks.shape), blocks)
    pairs = np.sort(blocks, axis=1) @ [10, 1]
    values, counts = np.unique(pairs, return_counts=True)
    assert values.tolist() == [1, 2, 3, 12, 13, 23]
    assert np.abs(counts / 6000 - 1 / 6).max() < 0.03
