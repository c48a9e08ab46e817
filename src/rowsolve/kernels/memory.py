"""Steps with memory: the best point in the span of the last move and of previous directions.

For a move ``d`` from x with the drop ``S``, ``<d, x* - x> = (S + norm(d)**2) / 2`` is known. The error is orthogonal to
directions along which it has been minimised. So the point of ``x + span(d, directions)`` nearest to ``x*`` lies along
the component of d orthogonal to the directions, at a known distance; that component is the next direction (Gearhart and
Koshy 1989 without memory, Rieger 2022 with it).
"""

from __future__ import annotations

import numpy as np

from rowsolve.compiled.jit import kernel

# The squared length of the new component of a move, relative to that of the move and to that of x, below which it is
# considered rounding.
_NOTHING_NEW = 1e-24
_ROUNDING = (64 * float(np.finfo(float).eps)) ** 2


@kernel
def best_with_memory(start, end, drop, kept, n_kept, place, best):  # kept, best: INOUT
    """Fill `best` with the best point in the span of the move from `start` to `end` and of the kept directions.

    Return the decrease of the squared error, or a negative number if the move is in the span of the directions. `drop`
    is the decrease by the move alone. The directions, the first `n_kept` rows of `kept`, are orthonormal; the new one
    is stored at `place`.
    """
    move, length_sq, size_sq = np.empty(start.size), 0.0, 0.0
    for j in range(start.size):
        move[j] = end[j] - start[j]
        length_sq += move[j] * move[j]
        size_sq += end[j] * end[j]
    new_sq, before_sq = length_sq, np.inf
    while new_sq < 0.25 * before_sq:  # if little remains, orthogonalize again because of rounding
        before_sq = new_sq
        new_sq = _orthogonalize(move, kept[:n_kept])
        if not new_sq > max(_NOTHING_NEW * length_sq, _ROUNDING * size_sq):
            return -1.0
    gain = 0.5 * (drop + length_sq)
    step, scale = gain / new_sq, 1.0 / np.sqrt(new_sq)
    for j in range(start.size):
        best[j] = start[j] + step * move[j]
        kept[place, j] = scale * move[j]
    return gain * step


@kernel
def _orthogonalize(move, kept):  # move: INOUT
    """Make `move` orthogonal to the directions; return its squared length."""
    for k in range(kept.shape[0]):
        direction, part = kept[k], 0.0
        for j in range(move.size):
            part += direction[j] * move[j]
        for j in range(move.size):
            move[j] -= part * direction[j]
    total = 0.0
    for j in range(move.size):
        total += move[j] * move[j]
    return total
