"""The greedy choice of a row by sketched distances (RKA-JL), within the furthest cluster (RKA-Cluster-JL)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rowsolve.compiled.jit import kernel
from rowsolve.kernels.rows import ROWS_AT_ONCE, add_row, row_dot, row_products, usable_norm_sq
from rowsolve.kernels.sampling import draw_into, draw_one


class Sketch(NamedTuple):
    """The sketches of all rows.

    ``unit[i]`` is ``Phi a_i``, normalised, and ``length[i]`` its norm, 0 for a row that is never a candidate;
    ``target[i]`` is ``b_i / length[i]``; ``norms_sq[i]`` is ``norm(a_i)**2``; ``overlaps[i, l]`` is ``<c_l, a_i>``.
    """

    unit: np.ndarray
    length: np.ndarray
    target: np.ndarray
    norms_sq: np.ndarray
    overlaps: np.ndarray


class Position(NamedTuple):
    """The sketch of x and its gaps to the centroid equations, from which rows are chosen."""

    sketched: np.ndarray  # Phi x
    centroid_gaps: np.ndarray  # beta_l - <c_l, x>, over norm(c_l)
    centroid_norms: np.ndarray


@kernel
def sketch_rows(rows, b, start, stop, phi, centroids, sketch, flagged_rows):  # sketch, flagged_rows: INOUT
    """Fill rows `start` to `stop` of `sketch`, reading each row once."""
    order = np.arange(start, stop)
    for first in range(0, order.size, ROWS_AT_ONCE):
        last = min(first + ROWS_AT_ONCE, order.size)
        row_products(rows, order, first, last, phi, sketch.unit[start + first : start + last])
        row_products(rows, order, first, last, centroids, sketch.overlaps[start + first : start + last])
        for i in range(start + first, start + last):
            sketch.norms_sq[i] = usable_norm_sq(rows, b, i, flagged_rows)
            _normalise(sketch, b, i)


@kernel
def _normalise(sketch, b, i):
    total = 0.0
    for s in range(sketch.unit.shape[1]):
        total += sketch.unit[i, s] * sketch.unit[i, s]
    sketch.length[i] = np.sqrt(total) if sketch.norms_sq[i] > 0.0 else 0.0
    if sketch.length[i] > 0.0:
        sketch.target[i] = b[i] / sketch.length[i]
        for s in range(sketch.unit.shape[1]):
            sketch.unit[i, s] /= sketch.length[i]


@kernel
def greedy_sweep(rows, b, sketch, deck, n_candidates, position, iterates, rng, drops, visited):
    """Perform greedy steps, each of which reads two rows of A, until `visited` is full; fill `drops`.

    Each step chooses the furthest cluster by its centroid equation and then the furthest candidate by its sketched
    distance, compares it by exact distance with the first candidate drawn, and projects on the further one.
    """
    drops[:] = 0.0
    size = min(n_candidates, deck.members.size)
    candidates, uniforms = np.empty(size, np.int64), np.empty(size)
    for step_number in range(visited.size // 2):
        best, first = choose_two(sketch, deck, n_candidates, position, rng, uniforms, candidates)
        visited[2 * step_number] = best
        visited[2 * step_number + 1] = first
        step_to_better(rows, b, best, first, sketch, best, first, position, iterates, drops)


@kernel
def choose_two(sketch, deck, n_candidates, position, rng, uniforms, candidates):  # the last two: INOUT, for scratch
    """Return the furthest candidate by sketched distance, and the first candidate drawn."""
    group = 0
    for g in range(1, position.centroid_gaps.size):
        if abs(position.centroid_gaps[g]) > abs(position.centroid_gaps[group]):
            group = g
    start, stop = deck.starts[group], deck.starts[group + 1]
    if stop - start > n_candidates:
        draw_into(deck, group, rng, uniforms, candidates)
        return _furthest(sketch, candidates, position.sketched), candidates[0]
    # the group is small: score all of it
    first = draw_one(deck, group, rng)
    return _furthest(sketch, deck.members[start:stop], position.sketched), first


@kernel
def step_to_better(rows, b, best, first, sketch, number, first_number, position, iterates, drops):
    """Project on the further of two rows, by exact distance; add to `drops` and update `position`.

    The rows are `best` and `first` of `rows`; `number` and `first_number` are their indices in `sketch`.
    """
    gap, first_gap = b[best] - row_dot(rows, best, iterates[0]), b[first] - row_dot(rows, first, iterates[0])
    if first_gap * first_gap / sketch.norms_sq[first_number] > gap * gap / sketch.norms_sq[number]:
        best, number, gap = first, first_number, first_gap
    norm_sq = sketch.norms_sq[number]
    for c in range(iterates.shape[0]):
        if c > 0:
            gap = -row_dot(rows, best, iterates[c])
        add_row(rows, best, gap / norm_sq, iterates[c])
        drops[c] += gap * (gap / norm_sq)
        if c == 0:
            _move(sketch, number, gap / norm_sq, position)


@kernel
def _furthest(sketch, candidates, sketched):
    """Return the candidate with the largest sketched distance; the earliest on a tie."""
    best, furthest = candidates[0], -1.0
    for i in candidates:
        gap = sketch.target[i]
        for s in range(sketched.size):
            gap -= sketch.unit[i, s] * sketched[s]
        if abs(gap) > furthest:
            furthest = abs(gap)
            best = i
    return best


@kernel
def _move(sketch, i, step, position):
    """Update `position` for ``x += step * a_i``."""
    scaled = step * sketch.length[i]
    for s in range(position.sketched.size):
        position.sketched[s] += scaled * sketch.unit[i, s]
    for group in range(position.centroid_gaps.size):
        position.centroid_gaps[group] -= step * sketch.overlaps[i, group] / position.centroid_norms[group]
