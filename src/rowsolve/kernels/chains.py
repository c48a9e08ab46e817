"""Several chains of projections side by side, brought together again and again.

All chains start from the same x, on different rows. A chain that has moved by ``d`` with squared steps summing up to
``S`` knows ``<d, x* - x> = (S + norm(d)**2) / 2``, although nobody knows ``x*``. So the point of the span of all moves
that is nearest to ``x*`` is found by a projection, as if each chain were a row of a block.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rowsolve._barrier import meet
from rowsolve._jit import kernel
from rowsolve.kernels.blocks import BlockRoom, block_room, factor_gram, project_blocks, solve_for_steps
from rowsolve.kernels.rows import product_of_moves
from rowsolve.kernels.sweep import sweep_first


class ChainRoom(NamedTuple):
    """Where one chain works, and where it shows the others what it has done."""

    start: np.ndarray  # (2, p): x and the probe at the last meeting
    moves: np.ndarray  # (n_chains, p)
    dots: BlockRoom
    drops: np.ndarray  # (2,)
    odd: np.ndarray  # (3,)
    block: BlockRoom


def chain_room(n_chains: int, n_columns: int, block_size: int) -> ChainRoom:
    """Return working arrays for one of `n_chains`."""
    return ChainRoom(
        start=np.empty((2, n_columns)),
        moves=np.empty((n_chains, n_columns)),
        dots=block_room(n_chains, 1),
        drops=np.zeros(2),
        odd=np.full(3, -1),
        block=block_room(block_size, n_columns),
    )


@kernel
def run_chain(rows, b, order, edges, per_round, me, iterates, shown, gained, meeting, room):
    """Run chain `me` over its part of `order`, meeting the others after every round of `per_round` units for each.

    A unit is a row, or a block: unit ``t`` is ``order[edges[t]:edges[t + 1]]``; `edges` is empty for rows. Every chain
    finds the same new start by itself, so they meet once a round; two sets of `shown` and `gained` take turns. What
    the first chain ends with is the result: its `start` and `drops`.
    """
    n_chains = room.moves.shape[0]
    n_units = edges.size - 1 if edges.size > 0 else order.size
    share = (n_units + n_chains - 1) // n_chains
    first, end = min(me * share, n_units), min((me + 1) * share, n_units)
    room.start[:] = iterates
    room.drops[:] = 0.0
    for turn in range((share + per_round - 1) // per_round):
        place = turn % 2
        mine = shown[place, me]
        mine[:] = room.start
        low = min(first + turn * per_round, end)
        _project(rows, b, order, edges, low, min(low + per_round, end), end, mine, gained[place, me], room)
        meet(meeting, (turn + 1) * n_chains)
        for c in range(2):
            room.drops[c] += _bring_together(rows, shown[place, :, c], gained[place, :, c], room.start[c], room)


@kernel
def _project(rows, b, order, edges, low, high, end, iterates, gains, room):
    if edges.size == 0:
        sweep_first(rows, b, order[low:end], high - low, iterates, gains, room.odd)
    else:
        sizes = edges[low + 1 : high + 1] - edges[low:high]
        project_blocks(rows, b, order[edges[low] : edges[high]], sizes, iterates, gains, room.block, room.odd)


@kernel
def _bring_together(rows, ends, sums, start, room):  # start: INOUT
    """Move `start` to the best point of the span of the chains' moves; return what its squared error loses."""
    moves, dots = room.moves, room.dots
    count = 0
    for c in range(ends.shape[0]):
        move, end = moves[count], ends[c]
        for j in range(start.size):
            move[j] = end[j] - start[j]
        length_sq = product_of_moves(rows, move, move)
        if length_sq > 0.0:
            dots.scale[count] = 1.0 / np.sqrt(length_sq)
            dots.gaps[0, count] = 0.5 * (sums[c] + length_sq) * dots.scale[count]
            count += 1
    for c in range(count):
        dots.gram[c, c] = 1.0
        for k in range(c):
            product = product_of_moves(rows, moves[c], moves[k]) * dots.scale[c] * dots.scale[k]
            dots.gram[c, k] = product
            dots.gram[k, c] = product
    factor_gram(count, dots.gram, dots.factor)
    gain = solve_for_steps(count, dots, 0)
    for c in range(count):
        move, step = moves[c], dots.steps[0, c] * dots.scale[c]
        for j in range(start.size):
            start[j] += step * move[j]
    return gain
