"""Several chains of projections side by side, brought together again and again.

All chains start from the same x, on different rows. A chain that has moved by ``d`` with squared steps summing up to
``S`` knows ``<d, x* - x> = (S + norm(d)**2) / 2``, although nobody knows ``x*``. So the point of the span of all moves
that is nearest to ``x*`` is found by a projection, as if each chain were a row of a block.

Between two meetings every chain goes one leg of its way (see `rowsolve.kernels.rounds`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rowsolve._atomic import offer_core, read
from rowsolve._jit import kernel
from rowsolve.kernels.blocks import BlockRoom, block_room, factor_gram, project_blocks, solve_for_steps
from rowsolve.kernels.rounds import (
    copy,
    first_place,
    furthest,
    is_called_off,
    is_over,
    n_places_of,
    place_of,
    places_of,
    reach,
    show,
    take,
)
from rowsolve.kernels.rows import product_of_moves
from rowsolve.kernels.sweep import sweep_first


class Legs(NamedTuple):
    """Where legs are gone: x and the probe, what they gained, odd rows. Two sets take turns from round to round."""

    iterates: np.ndarray  # (2, n_places, 2, p)
    gained: np.ndarray  # (2, n_places, 2)
    odd: np.ndarray  # (2, n_places, 3)


class Posts(NamedTuple):
    """Where a thread keeps what all chains have come to at the start of a round. Two sets take turns."""

    start: np.ndarray  # (2, n_chains, 2, p)
    drops: np.ndarray  # (2, n_chains, 2)
    odd: np.ndarray  # (2, n_chains, 3)


class ChainRoom(NamedTuple):
    """Where one thread works."""

    moves: np.ndarray  # (n_chains, p)
    dots: BlockRoom
    places: np.ndarray  # (n_chains,)
    block: BlockRoom


def chain_rooms(n_chains: int, n_columns: int, block_size: int) -> tuple[Legs, Posts, list[ChainRoom]]:
    """Return arrays for `n_chains` to be gone by as many threads."""
    n_places = n_places_of(n_chains)
    legs = Legs(np.empty((2, n_places, 2, n_columns)), np.empty((2, n_places, 2)), np.empty((2, n_places, 3), np.int64))
    posts = Posts(
        np.empty((2, n_chains, 2, n_columns)), np.empty((2, n_chains, 2)), np.empty((2, n_chains, 3), np.int64)
    )
    rooms = [
        ChainRoom(
            moves=np.empty((n_chains, n_columns)),
            dots=block_room(n_chains, 1),
            places=np.empty(n_chains, np.int64),
            block=block_room(block_size, n_columns),
        )
        for _ in range(n_chains)
    ]
    return legs, posts, rooms


@kernel
def run_chains(rows, b, order, edges, per_round, patience, me, meeting, legs, posts, room):
    """Be thread `me` of those that run chains over `order`, which come together after `per_round` units of each.

    A unit is a row, or a block: unit ``t`` is ``order[edges[t]:edges[t + 1]]``; `edges` is empty for rows. All set out
    from what is in the posts of thread 0, for round 0. Its posts hold the result in the end, for the round that is
    returned. A leg that another has taken is taken again after so many looks whether it has ended: `patience`.
    """
    n_chains = room.moves.shape[0]
    n_units = edges.size - 1 if edges.size > 0 else order.size
    share = (n_units + n_chains - 1) // n_chains
    n_rounds = (share + per_round - 1) // per_round
    n_places = legs.gained.shape[1]
    t = _join(me, meeting, n_places, posts)
    while t < n_rounds and not is_called_off(meeting):
        _go_legs(rows, b, order, edges, n_units, share, per_round, patience, t, me, meeting, legs, posts, room)
        _bring_all_together(rows, t, me, meeting, legs, posts, room)
        if is_over(t + 1, meeting, n_places):  # what was read may have been written over meanwhile
            t = _join(me, meeting, n_places, posts)
        else:
            t += 1
            reach(me, t, meeting)
    return n_rounds


@kernel
def _join(me, meeting, n_places, posts):  # posts: INOUT
    """Copy the posts of the thread that is furthest; return its round."""
    while True:
        other = furthest(meeting)
        t = read(meeting.reached, other)
        turn = t % 2
        if other != me:
            for c in range(2):
                copy(posts.start[turn, other, c], posts.start[turn, me, c])
            copy(posts.drops[turn, other], posts.drops[turn, me])
            copy(posts.odd[turn, other], posts.odd[turn, me])
        if not is_over(t + 1, meeting, n_places):  # else it may have been written over meanwhile
            reach(me, t, meeting)
            return t


@kernel
def _go_legs(rows, b, order, edges, n_units, share, per_round, patience, t, me, meeting, legs, posts, room):
    """Take legs of round `t` until all have ended, or are called off."""
    turn, n_places, place = t % 2, legs.gained.shape[1], first_place(me, meeting)
    beyond = place + places_of(me, meeting)
    looks, times = 0, 0
    while not is_over(t, meeting, n_places) and not is_called_off(meeting):
        c = take(t, times, me, meeting, n_places) if place < beyond else -1
        if c >= 0:
            end = min((c + 1) * share, n_units)
            low = min(c * share + t * per_round, end)
            iterates, gained, odd = legs.iterates[turn, place], legs.gained[turn, place], legs.odd[turn, place]
            for k in range(2):
                copy(posts.start[turn, me, k], iterates[k])
            odd[:] = -1
            _project(rows, b, order, edges, low, min(low + per_round, end), end, iterates, gained, odd, room)
            show(t, c, place, meeting, n_places)
            place += 1
        else:
            looks += 1
            if looks > patience:
                looks, times = 0, times + 1
            if times > 0:
                offer_core()


@kernel
def _project(rows, b, order, edges, low, high, end, iterates, gains, odd, room):
    if edges.size == 0:
        sweep_first(rows, b, order[low:end], high - low, iterates, gains, odd)
    else:
        sizes = edges[low + 1 : high + 1] - edges[low:high]
        project_blocks(rows, b, order[edges[low] : edges[high]], sizes, iterates, gains, room.block, odd)


@kernel
def _bring_all_together(rows, t, me, meeting, legs, posts, room):  # posts: INOUT
    """Find out what all chains have come to at the end of round `t`."""
    n_chains, n_places, turn, after = meeting.taken.size, legs.gained.shape[1], t % 2, (t + 1) % 2
    copy(posts.odd[turn, me], posts.odd[after, me])
    for c in range(n_chains):
        place = place_of(t, c, meeting, n_places)
        room.places[c] = place
        for sort in range(3):
            posts.odd[after, me, sort] = max(posts.odd[after, me, sort], legs.odd[turn, place, sort])
    for c in range(2):
        gain = _bring_together(
            rows, legs.iterates[turn, :, c], legs.gained[turn, :, c], posts.start[turn, me, c],
            posts.start[after, me, c], room,
        )  # fmt: skip
        posts.drops[after, me, c] = posts.drops[turn, me, c] + gain


@kernel
def _bring_together(rows, ends, sums, start, best, room):  # best: OUT
    """Find the `best` point of the span of the chains' moves from `start`; return what its squared error loses."""
    moves, dots = room.moves, room.dots
    count = 0
    for place in room.places:
        move, end = moves[count], ends[place]
        for j in range(start.size):
            move[j] = end[j] - start[j]
        length_sq = product_of_moves(rows, move, move)
        if length_sq > 0.0:
            dots.scale[count] = 1.0 / np.sqrt(length_sq)
            dots.gaps[0, count] = 0.5 * (sums[place] + length_sq) * dots.scale[count]
            count += 1
    for c in range(count):
        dots.gram[c, c] = 1.0
        for k in range(c):
            product = product_of_moves(rows, moves[c], moves[k]) * dots.scale[c] * dots.scale[k]
            dots.gram[c, k] = product
            dots.gram[k, c] = product
    factor_gram(count, dots.gram, dots.factor)
    gain = solve_for_steps(count, dots, 0)
    copy(start, best)
    for c in range(count):
        move, step = moves[c], dots.steps[0, c] * dots.scale[c]
        for j in range(start.size):
            best[j] += step * move[j]
    return gain
