"""Drawing rows: O(1) for each, whatever their number and weights."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rowsolve.compiled.jit import kernel


class Deck(NamedTuple):
    """Rows in groups, each group with an alias table (Walker 1977), so that a weighted draw is O(1).

    Group ``g`` holds ``members[starts[g]:starts[g + 1]]``. Position ``t`` of a group is kept with
    probability ``keep[t]`` and otherwise sends the draw to position ``other[t]``.
    """

    members: np.ndarray
    starts: np.ndarray
    keep: np.ndarray
    other: np.ndarray


@kernel
def fill_alias_table(weights, keep, other):  # keep, other: INOUT
    """Fill the alias table of `weights` (not negative, not all zero) by Vose's method."""
    n = weights.size
    mean = 0.0
    largest = weights.max()
    for i in range(n):
        mean += weights[i] / largest / n  # weights near 1e300 must not overflow
    waiting = np.empty(n, np.int64)  # the light ones from the left, the heavy ones from the right
    n_light = 0
    n_heavy = 0
    for i in range(n):
        keep[i] = weights[i] / largest / mean
        other[i] = i
        if keep[i] < 1.0:
            waiting[n_light] = i
            n_light += 1
        else:
            n_heavy += 1
            waiting[n - n_heavy] = i
    while n_light > 0 and n_heavy > 0:
        light = waiting[n_light - 1]
        n_light -= 1
        heavy = waiting[n - n_heavy]
        other[light] = heavy
        keep[heavy] -= 1.0 - keep[light]
        if keep[heavy] < 1.0:
            n_heavy -= 1
            waiting[n_light] = heavy
            n_light += 1
    # What is left differs from 1 by rounding only.
    for t in range(n_light):
        keep[waiting[t]] = 1.0
    for t in range(n_heavy):
        keep[waiting[n - 1 - t]] = 1.0


def deck_by_weight(weights: np.ndarray) -> Deck:
    """Return a deck with one group, all of ``range(weights.size)``; drawn uniformly if all weights are zero."""
    n = weights.size
    deck = Deck(np.arange(n), np.array([0, n]), np.ones(n), np.arange(n))
    if weights.any():
        fill_alias_table(weights, deck.keep, deck.other)
    return deck


@kernel
def _member(deck, start, size, uniform):
    """Return the row that a number in [0, 1) draws from the group of `size` rows that begins at `start`.

    The whole part of ``uniform * size`` is a place in the table; the fraction, uniform as well, tosses the coin.
    """
    level = uniform * size
    spot = min(np.int64(level), size - 1)
    other = deck.other[start + spot]  # read in any case: a branch around it is as hard to predict as the coin
    if level - spot >= deck.keep[start + spot]:
        spot = other
    return deck.members[start + spot]


@kernel
def draw_one(deck, group, rng):
    """Return a row of `group`, drawn by weight."""
    start = deck.starts[group]
    return _member(deck, start, deck.starts[group + 1] - start, rng.random())


@kernel
def draw_into(deck, group, rng, uniforms, order):  # uniforms, order: INOUT
    """Fill `order` with rows of `group`, drawn by weight with replacement; `uniforms` is room for as many numbers.

    All numbers first, then all rows: calls of the generator between look-ups keep them from overlapping.
    """
    start = deck.starts[group]
    size = deck.starts[group + 1] - start
    for t in range(order.size):
        uniforms[t] = rng.random()
    for t in range(order.size):
        order[t] = _member(deck, start, size, uniforms[t])


@kernel
def draw_many(deck, group, rng, order):  # order: INOUT
    """Fill `order` with rows of `group`, drawn by weight with replacement."""
    draw_into(deck, group, rng, np.empty(order.size), order)


def new_cards(n: int) -> np.ndarray:
    """Return a pack of the cards 0, 1, … in order: each card as its distance from its place.

    All zero, so that the pack takes no time and no memory before it is dealt from, however large it is.
    """
    return np.zeros(n, np.int64)


@kernel
def deal(cards, first, uniforms, out):  # cards, out: INOUT
    """Draw distinct cards from ``cards[first:]``, one for each of `uniforms`; they end up in front and in `out`.

    A few steps of the Fisher-Yates shuffle, O(1) each: the rest of the cards is not touched. See `new_cards`. The
    random numbers, in [0, 1), come as an array: to hand over a generator takes as long as a hundred cards.
    """
    for t in range(out.size):
        place = (first + t) % cards.size  # after the last card, the next round
        left = cards.size - place
        pick = place + min(np.int64(uniforms[t] * left), left - 1)
        card = pick + cards[pick]
        cards[pick] = place + cards[place] - pick
        cards[place] = card - place
        out[t] = card


@kernel
def deal_blocks(cards, uniforms, blocks):  # cards, blocks: INOUT
    """Fill each row of `blocks` with distinct cards, drawn from all."""
    for t in range(blocks.shape[0]):
        deal(cards, 0, uniforms[t], blocks[t])
