"""Steps with memory: the best point that the last move and those before it span together.

A move ``d`` from x with the drop ``S`` knows ``<d, x* - x> = (S + norm(d)**2) / 2``. Directions that were followed as
far as it pays are orthogonal to the error. So of all points ``x + span(d, directions)`` the nearest to ``x*`` lies
along what is new in d, at a distance that is known; and that is the next direction (Gearhart and Koshy 1989 without
memory, Rieger 2022 with it).
"""

from __future__ import annotations

import numpy as np

from rowsolve.compiled.jit import kernel

_NOTHING_NEW = 1e-24  # squared length of what is new in a move, relative to that of the move
_ROUNDING = (64 * float(np.finfo(float).eps)) ** 2  # and to that of x: less is rounding


@kernel
def best_with_memory(start, end, drop, kept, n_kept, place, best):  # kept, best: INOUT
    """Fill `best` with the best point that the move from `start` to `end` and the directions kept span.

    Return what the squared error loses by it; a negative number if the move has nothing new. `drop` is what it loses by
    the move alone. The directions, the first `n_kept` rows of `kept`, are orthonormal; the new one goes to `place`.
    """
    move, length_sq, size_sq = np.empty(start.size), 0.0, 0.0
    for j in range(start.size):
        move[j] = end[j] - start[j]
        length_sq += move[j] * move[j]
        size_sq += end[j] * end[j]
    new_sq, before_sq = length_sq, np.inf
    while new_sq < 0.25 * before_sq:  # if little is left, rounding has left too much of the directions in it
        before_sq = new_sq
        new_sq = _take_away(move, kept[:n_kept])
        if not new_sq > max(_NOTHING_NEW * length_sq, _ROUNDING * size_sq):
            return -1.0
    gain = 0.5 * (drop + length_sq)
    step, scale = gain / new_sq, 1.0 / np.sqrt(new_sq)
    for j in range(start.size):
        best[j] = start[j] + step * move[j]
        kept[place, j] = scale * move[j]
    return gain * step


@kernel
def _take_away(move, kept):  # move: INOUT
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
