"""Drawing random rows in O(1) per row, independent of their number and weights."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rowsolve.compiled.jit import kernel


class Deck(NamedTuple):
    """Groups of rows, each with an alias table (Walker 1977), with which a weighted draw is O(1).

    Group ``g`` consists of ``members[starts[g]:starts[g + 1]]``. A uniform draw of position ``t`` of a group is kept
    with probability ``keep[t]``, and replaced by position ``other[t]`` otherwise.
    """

    members: np.ndarray
    starts: np.ndarray
    keep: np.ndarray
    other: np.ndarray


@kernel
def fill_alias_table(weights, keep, other):  # keep, other: INOUT
    """Fill the alias table for `weights` (nonnegative, not all zero) by Vose's method."""
    n = weights.size
    mean = 0.0
    largest = weights.max()
    for i in range(n):
        mean += weights[i] / largest / n  # weights near 1e300 must not overflow
    waiting = np.empty(n, np.int64)  # light entries from the left, heavy entries from the right
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
    # The remaining entries differ from 1 by rounding only.
    for t in range(n_light):
        keep[waiting[t]] = 1.0
    for t in range(n_heavy):
        keep[waiting[n - 1 - t]] = 1.0


def deck_by_weight(weights: np.ndarray) -> Deck:
    """Return a deck with a single group, ``range(weights.size)``; draws are uniform if all weights are zero."""
    n = weights.size
    deck = Deck(np.arange(n), np.array([0, n]), np.ones(n), np.arange(n))
    if weights.any():
        fill_alias_table(weights, deck.keep, deck.other)
    return deck


@kernel
def _member(deck, start, size, uniform):
    """Return the row that a uniform number in [0, 1) selects from the group of `size` rows that begins at `start`.

    The integer part of ``uniform * size`` is a position in the table; the fraction, which is uniform, too, decides
    whether it is kept.
    """
    level = uniform * size
    spot = min(np.int64(level), size - 1)
    other = deck.other[start + spot]  # always read, because a branch around it could not be predicted
    if level - spot >= deck.keep[start + spot]:
        spot = other
    return deck.members[start + spot]


@kernel
def draw_one(deck, group, rng):
    """Return a row of `group`, drawn with its weight."""
    start = deck.starts[group]
    return _member(deck, start, deck.starts[group + 1] - start, rng.random())


@kernel
def draw_into(deck, group, rng, uniforms, order):  # uniforms, order: INOUT
    """Fill `order` with rows of `group`, drawn by weight with replacement; `uniforms` is a workspace of the same size.

    All random numbers are drawn first: calls of the generator between look-ups would prevent these from overlapping.
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
    """Return the identity permutation of ``range(n)``, stored as the differences between the entries and their indices.

    These are all zero, so that the array takes no time and no memory until it is used, whatever its size.
    """
    return np.zeros(n, np.int64)


@kernel
def deal(cards, first, uniforms, out):  # cards, out: INOUT
    """Draw distinct entries of a permutation (see `new_cards`) from ``cards[first:]``, one for each of `uniforms`.

    They are moved to the front and written to `out`, by O(1) steps of the Fisher-Yates shuffle, which leave the other
    entries unchanged. The random numbers, in [0, 1), are passed as an array, because passing a generator takes as long
    as drawing a hundred entries.
    """
    for t in range(out.size):
        place = (first + t) % cards.size  # after the last entry, start again
        left = cards.size - place
        pick = place + min(np.int64(uniforms[t] * left), left - 1)
        card = pick + cards[pick]
        cards[pick] = place + cards[place] - pick
        cards[place] = card - place
        out[t] = card


@kernel
def deal_blocks(cards, uniforms, blocks):  # cards, blocks: INOUT
    """Fill each row of `blocks` with distinct entries of the permutation `cards`."""
    for t in range(blocks.shape[0]):
        deal(cards, 0, uniforms[t], blocks[t])
