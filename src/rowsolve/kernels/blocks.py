"""Projections onto several rows at once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rowsolve._jit import kernel
from rowsolve.kernels.rows import add_row, row_dot, usable_norm_sq

# A row whose squared sine to the span of the rows before it is below this says nothing that float64 can use: it is
# left out of its block. (A ridge instead would turn contradicting parallel rows into enormous steps.)
DEPENDENT = 1e-8


class BlockRoom(NamedTuple):
    """Working arrays for blocks of at most ``scale.size`` rows."""

    picked: np.ndarray  # the rows of the block that define a hyperplane
    scale: np.ndarray  # 1 / norm(a_i)
    gram: np.ndarray  # of the normalised rows
    factor: np.ndarray
    gaps: np.ndarray
    steps: np.ndarray
    spread: np.ndarray  # one row, written out in full


def block_room(block_size: int, n_columns: int) -> BlockRoom:
    """Return working arrays for blocks of up to `block_size` rows."""
    square = (block_size, block_size)
    return BlockRoom(
        picked=np.empty(block_size, np.int64),
        scale=np.empty(block_size),
        gram=np.empty(square),
        factor=np.empty(square),
        gaps=np.empty(block_size),
        steps=np.empty(block_size),
        spread=np.zeros(n_columns),
    )


@kernel
def project_blocks(rows, b, order, sizes, iterates, drops, room, odd):  # iterates, drops, room, odd: INOUT
    """Project each iterate onto one block of rows after another; fill `drops`.

    Blocks are consecutive pieces of `order` with the given `sizes`. The step is ``pinv(A_t) (b_t - A_t x)``,
    through the Gram matrix of the normalised rows, so that scaling an equation changes nothing.
    """
    drops[:] = 0.0
    start = 0
    for size in sizes:
        count = _pick_usable(rows, b, order[start : start + size], room, odd)
        start += size
        if count == 0:
            continue
        _fill_gram(rows, count, room)
        factor_gram(count, room)
        for c in range(iterates.shape[0]):
            for s in range(count):
                gap = -row_dot(rows, room.picked[s], iterates[c])
                if c == 0:
                    gap += b[room.picked[s]]
                room.gaps[s] = gap * room.scale[s]
            solve_for_steps(count, room)
            drops[c] += gain_of_steps(count, room)
            for s in range(count):
                add_row(rows, room.picked[s], room.steps[s] * room.scale[s], iterates[c])


@kernel
def _pick_usable(rows, b, block, room, odd):
    count = 0
    for i in block:
        norm_sq = usable_norm_sq(rows, b, i, odd)
        if norm_sq > 0.0:
            room.picked[count] = i
            room.scale[count] = 1.0 / np.sqrt(norm_sq)
            count += 1
    return count


@kernel
def _fill_gram(rows, count, room):
    """One row written out in full makes a product of two rows a `row_dot`, whatever the kind of rows."""
    for s in range(count):
        room.gram[s, s] = 1.0
        if s + 1 < count:
            add_row(rows, room.picked[s], 1.0, room.spread)
            for t in range(s + 1, count):
                product = row_dot(rows, room.picked[t], room.spread) * room.scale[s] * room.scale[t]
                room.gram[s, t] = product
                room.gram[t, s] = product
            add_row(rows, room.picked[s], -1.0, room.spread)  # back to zero, exactly


@kernel
def factor_gram(count, room):
    """Factor the Gram matrix by Cholesky; an infinite pivot leaves a dependent row out."""
    for s in range(count):
        for t in range(s + 1):
            total = room.gram[s, t]
            for k in range(t):
                total -= room.factor[s, k] * room.factor[t, k]
            if s > t:
                room.factor[s, t] = total / room.factor[t, t]
            elif total > DEPENDENT:
                room.factor[s, s] = np.sqrt(total)
            else:
                room.factor[s, s] = np.inf


@kernel
def solve_for_steps(count, room):
    """Fill ``room.steps`` from ``room.gaps``."""
    for s in range(count):
        total = room.gaps[s]
        for k in range(s):
            total -= room.factor[s, k] * room.steps[k]
        room.steps[s] = total / room.factor[s, s]
    for s in range(count - 1, -1, -1):
        total = room.steps[s]
        for k in range(s + 1, count):
            total -= room.factor[k, s] * room.steps[k]
        room.steps[s] = total / room.factor[s, s]


@kernel
def gain_of_steps(count, room):
    """Return ``2 <step, e> - norm(step)**2``, what the squared error loses by any step."""
    gain = 0.0
    for s in range(count):
        moved = 0.0
        for t in range(count):
            moved += room.gram[s, t] * room.steps[t]
        gain += room.steps[s] * (2.0 * room.gaps[s] - moved)
    return gain
