"""Several chains of projections side by side, brought together again and again.

All chains start from the same x, on different rows. A chain that has moved by ``d`` with squared steps summing up to
``S`` knows ``<d, x* - x> = (S + norm(d)**2) / 2``, although nobody knows ``x*``. So the point of the span of all moves
that is nearest to ``x*`` is found by a projection, as if each chain were a row of a block.

Between two meetings every chain goes one leg of its way. No leg belongs to a thread, for a thread may lose its core at
any moment, for longer than all the legs take: each takes the legs that nobody has taken, and then those that others
have taken but do not come back from. What comes of a leg is the same whoever goes it, so the bits do not tell. A thread
that comes late finds that the others have gone on, and joins them where they are. It may still write then, so each
thread writes into its own places only, and shows in a word of memory which of them hold what.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rowsolve._atomic import offer_core, read, replace, write
from rowsolve._jit import kernel
from rowsolve.kernels.blocks import BlockRoom, block_room, factor_gram, project_blocks, solve_for_steps
from rowsolve.kernels.rows import product_of_moves
from rowsolve.kernels.sweep import sweep_first

_PLACES_OF_A_THREAD = 2  # for legs of one round; the first thread has one for each, so that it can go them all
_MOST_TIMES = 1 << 20  # that a leg may be taken


class Meeting(NamedTuple):
    """Words that tell how far the chains are; new ones for each burst, so that who is late finds its own."""

    taken: np.ndarray  # (n_chains,): the round whose leg was taken, times `_MOST_TIMES`, and how often it was
    ended: np.ndarray  # (2 * n_chains,): the round whose leg has ended, times the number of places, and its place
    reached: np.ndarray  # (n_chains,): the last round for which a thread has its `Posts`
    called_off: np.ndarray  # (1,)


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


def new_meeting(n_chains: int) -> Meeting:
    """Return words that say: the first thread is at the start of round 0."""
    reached = np.full(n_chains, -1)
    reached[0] = 0
    return Meeting(np.full(n_chains, -1), np.full(2 * n_chains, -1), reached, np.zeros(1, np.int64))


def call_off(meeting: Meeting) -> None:
    """Let all threads come to an end soon."""
    meeting.called_off[0] = 1


def chain_rooms(n_chains: int, n_columns: int, block_size: int) -> tuple[Legs, Posts, list[ChainRoom]]:
    """Return arrays for `n_chains` to be gone by as many threads."""
    n_places = n_chains + (n_chains - 1) * _PLACES_OF_A_THREAD
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
    t = _join(me, meeting, legs, posts)
    while t < n_rounds and read(meeting.called_off, 0) == 0:
        _go_legs(rows, b, order, edges, n_units, share, per_round, patience, t, me, meeting, legs, posts, room)
        _bring_all_together(rows, t, me, meeting, legs, posts, room)
        if _is_over(t + 1, meeting, legs):  # what was read may have been written over meanwhile
            t = _join(me, meeting, legs, posts)
        else:
            t += 1
            write(meeting.reached, me, t)
    return n_rounds


@kernel
def _copy(values, out):  # a loop compiles faster than an assignment of arrays
    for j in range(values.size):
        out[j] = values[j]


@kernel
def _join(me, meeting, legs, posts):  # posts: INOUT
    """Copy the posts of the thread that is furthest; return its round."""
    while True:
        other = 0
        for k in range(meeting.reached.size):
            if read(meeting.reached, k) > read(meeting.reached, other):
                other = k
        t = read(meeting.reached, other)
        turn = t % 2
        if other != me:
            for c in range(2):
                _copy(posts.start[turn, other, c], posts.start[turn, me, c])
            _copy(posts.drops[turn, other], posts.drops[turn, me])
            _copy(posts.odd[turn, other], posts.odd[turn, me])
        if not _is_over(t + 1, meeting, legs):  # else it may have been written over meanwhile
            write(meeting.reached, me, t)
            return t


@kernel
def _has_ended(t, c, meeting, legs):
    """Tell whether leg `c` of round `t` has ended."""
    return read(meeting.ended, t % 2 * meeting.taken.size + c) >= t * legs.gained.shape[1]


@kernel
def _is_over(t, meeting, legs):
    """Tell whether all legs of round `t` have ended."""
    for c in range(meeting.taken.size):  # noqa: SIM110 (not in a kernel)
        if not _has_ended(t, c, meeting, legs):
            return False
    return True


@kernel
def _go_legs(rows, b, order, edges, n_units, share, per_round, patience, t, me, meeting, legs, posts, room):
    """Take legs of round `t` until all have ended, or are called off."""
    n_chains, turn = meeting.taken.size, t % 2
    place = 0 if me == 0 else n_chains + (me - 1) * _PLACES_OF_A_THREAD
    beyond = place + (n_chains if me == 0 else _PLACES_OF_A_THREAD)
    looks, times = 0, 0
    while not _is_over(t, meeting, legs) and read(meeting.called_off, 0) == 0:
        c = _take(t, times, me, meeting, legs) if place < beyond else -1
        if c >= 0:
            end = min((c + 1) * share, n_units)
            low = min(c * share + t * per_round, end)
            iterates, gained, odd = legs.iterates[turn, place], legs.gained[turn, place], legs.odd[turn, place]
            for k in range(2):
                _copy(posts.start[turn, me, k], iterates[k])
            odd[:] = -1
            _project(rows, b, order, edges, low, min(low + per_round, end), end, iterates, gained, odd, room)
            _show(t, c, place, meeting, legs)
            place += 1
        else:
            looks += 1
            if looks > patience:
                looks, times = 0, times + 1
            if times > 0:
                offer_core()


@kernel
def _take(t, times, me, meeting, legs):  # meeting: INOUT
    """Return a leg of round `t` that has not ended and was taken at most so many `times`, the own first; -1 if none."""
    n_chains = meeting.taken.size
    for k in range(n_chains):
        c = (me + k) % n_chains
        before = read(meeting.taken, c)
        free = before <= t * _MOST_TIMES + times and not _has_ended(t, c, meeting, legs)
        if free and replace(meeting.taken, c, before, max(before, t * _MOST_TIMES) + 1):
            return c
    return -1


@kernel
def _show(t, c, place, meeting, legs):  # meeting: INOUT
    """Let all see that leg `c` of round `t` has ended and is in `place`, unless another thread has been faster."""
    word = t % 2 * meeting.taken.size + c
    before = read(meeting.ended, word)
    if before < t * legs.gained.shape[1]:
        replace(meeting.ended, word, before, t * legs.gained.shape[1] + place)


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
    _copy(posts.odd[turn, me], posts.odd[after, me])
    for c in range(n_chains):
        place = read(meeting.ended, turn * n_chains + c) % n_places
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
    _copy(start, best)
    for c in range(count):
        move, step = moves[c], dots.steps[0, c] * dots.scale[c]
        for j in range(start.size):
            best[j] += step * move[j]
    return gain
