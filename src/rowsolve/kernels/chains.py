"""Several chains of projections that run in parallel and are combined regularly.

All chains start from the same x, on different rows. For a chain that has moved by ``d``, with squared steps that sum to
``S``, ``<d, x* - x> = (S + norm(d)**2) / 2`` is known, although ``x*`` is not. So the point nearest to ``x*`` in the
span of all moves is computed by a projection, as if each chain were a row of a block.

A leg is the part of a chain between two such combinations (see `rowsolve.kernels.rounds`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rowsolve.compiled.jit import kernel
from rowsolve.kernels.blocks import BlockWorkspace, block_workspace, factor_gram, project_blocks, solve_for_steps
from rowsolve.kernels.rounds import Work, copy, n_places_of, place_of, register
from rowsolve.kernels.rows import product_of_moves
from rowsolve.kernels.sweep import sweep_first


class Legs(NamedTuple):
    """The results of legs: x and the probe, their drops, and flagged rows. Two sets alternate from round to round."""

    iterates: np.ndarray  # (2, n_places, 2, p)
    gained: np.ndarray  # (2, n_places, 2)
    flagged_rows: np.ndarray  # (2, n_places, 3)


class States(NamedTuple):
    """The combined state of all chains at the start of a round, a copy per thread. Two sets alternate."""

    start: np.ndarray  # (2, n_chains, 2, p)
    drops: np.ndarray  # (2, n_chains, 2)
    flagged_rows: np.ndarray  # (2, n_chains, 3)


class ChainWorkspace(NamedTuple):
    """The workspace of a thread."""

    moves: np.ndarray  # (n_chains, p)
    dots: BlockWorkspace
    places: np.ndarray  # (n_chains,)
    block: BlockWorkspace


def chain_workspaces(n_chains: int, n_columns: int, block_size: int) -> tuple[Legs, States, list[ChainWorkspace]]:
    """Return the arrays for `n_chains` chains on as many threads."""
    n_places = n_places_of(n_chains)
    legs = Legs(np.empty((2, n_places, 2, n_columns)), np.empty((2, n_places, 2)), np.empty((2, n_places, 3), np.int64))
    states = States(
        np.empty((2, n_chains, 2, n_columns)), np.empty((2, n_chains, 2)), np.empty((2, n_chains, 3), np.int64)
    )
    workspaces = [
        ChainWorkspace(
            moves=np.empty((n_chains, n_columns)),
            dots=block_workspace(n_chains, 1),
            places=np.empty(n_chains, np.int64),
            block=block_workspace(block_size, n_columns),
        )
        for _ in range(n_chains)
    ]
    return legs, states, workspaces


class Chains(NamedTuple):
    """Chains over the rows in `order`, which are combined after `per_round` units of each chain.

    A unit is a row or a block: unit ``t`` is ``order[edges[t]:edges[t + 1]]``, or ``order[t]`` if `edges` is empty.
    """

    rows: Any
    b: np.ndarray
    order: np.ndarray
    edges: np.ndarray
    per_round: int
    legs: Legs
    states: States
    workspace: ChainWorkspace


@kernel
def _units(work):
    """Return the number of units, and the number of units of a chain."""
    n_chains, n_units = work.workspace.moves.shape[0], work.edges.size - 1 if work.edges.size > 0 else work.order.size
    return n_units, (n_units + n_chains - 1) // n_chains


def _is_done(work, t, me):
    return t * work.per_round >= _units(work)[1]


def _copy_state(work, t, other, me):
    states, turn = work.states, t % 2
    for c in range(2):
        copy(states.start[turn, other, c], states.start[turn, me, c])
    copy(states.drops[turn, other], states.drops[turn, me])
    copy(states.flagged_rows[turn, other], states.flagged_rows[turn, me])


def _run_leg(work, t, c, place, me, progress):
    (n_units, share), legs, turn = _units(work), work.legs, t % 2
    end = min((c + 1) * share, n_units)
    low = min(c * share + t * work.per_round, end)
    iterates, gained, flagged_rows = (
        legs.iterates[turn, place],
        legs.gained[turn, place],
        legs.flagged_rows[turn, place],
    )
    for k in range(2):
        copy(work.states.start[turn, me, k], iterates[k])
    flagged_rows[:] = -1
    high = min(low + work.per_round, end)
    _project(work.rows, work.b, work.order, work.edges, low, high, end, iterates, gained, flagged_rows, work.workspace)


def _combine(work, t, me, progress):
    """Combine all chains at the end of round `t`."""
    legs, states, workspace, turn, after = work.legs, work.states, work.workspace, t % 2, (t + 1) % 2
    copy(states.flagged_rows[turn, me], states.flagged_rows[after, me])
    for c in range(progress.claims.size):
        place = place_of(t, c, progress)
        workspace.places[c] = place
        for sort in range(work.states.flagged_rows.shape[2]):
            states.flagged_rows[after, me, sort] = max(
                states.flagged_rows[after, me, sort], legs.flagged_rows[turn, place, sort]
            )
    for c in range(2):
        gain = _bring_together(
            work.rows, legs.iterates[turn, :, c], legs.gained[turn, :, c], states.start[turn, me, c],
            states.start[after, me, c], workspace,
        )  # fmt: skip
        states.drops[after, me, c] = states.drops[turn, me, c] + gain


register(Chains, Work(_run_leg, _combine, _copy_state, _is_done))


@kernel
def _project(rows, b, order, edges, low, high, end, iterates, gains, flagged_rows, workspace):
    if edges.size == 0:
        sweep_first(rows, b, order[low:end], high - low, iterates, gains, flagged_rows)
    else:
        sizes = edges[low + 1 : high + 1] - edges[low:high]
        project_blocks(rows, b, order[edges[low] : edges[high]], sizes, iterates, gains, workspace.block, flagged_rows)


@kernel
def _bring_together(rows, ends, sums, start, best, workspace):  # best: OUT
    """Fill `best` with the best point in the span of all moves from `start`; return the drop of its squared error."""
    moves, dots = workspace.moves, workspace.dots
    count = 0
    for place in workspace.places:
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
