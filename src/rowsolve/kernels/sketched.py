"""The greedy choice of a row by sketched distances (RKA-JL), inside the furthest cluster (RKA-Cluster-JL)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rowsolve.compiled.jit import kernel
from rowsolve.kernels.rows import add_row, row_dot, row_products, usable_norm_sq
from rowsolve.kernels.sampling import draw_into, draw_one

_TILE = 32  # rows that stay in the cache while they are multiplied with Phi, then with the centroids


class Sketch(NamedTuple):
    """What is known of every row without reading it again.

    ``unit[i]`` is ``Phi a_i`` normalised and ``length[i]`` its norm (0: never a candidate); ``target[i]``
    is ``b_i / length[i]``; ``norms_sq[i]`` is ``norm(a_i)**2``; ``overlaps[i, l]`` is ``<c_l, a_i>``.
    """

    unit: np.ndarray
    length: np.ndarray
    target: np.ndarray
    norms_sq: np.ndarray
    overlaps: np.ndarray


class Position(NamedTuple):
    """Where x is, as far as the choice of rows can see."""

    sketched: np.ndarray  # Phi x
    centroid_gaps: np.ndarray  # beta_l - <c_l, x>, over norm(c_l)
    centroid_norms: np.ndarray


@kernel
def sketch_rows(rows, b, start, stop, phi, centroids, sketch, odd):  # sketch, odd: INOUT
    """Fill rows `start` to `stop` of `sketch` in one read of each row."""
    order = np.arange(start, stop)
    for first in range(0, order.size, _TILE):
        last = min(first + _TILE, order.size)
        row_products(rows, order, first, last, phi, sketch.unit[start + first : start + last])
        row_products(rows, order, first, last, centroids, sketch.overlaps[start + first : start + last])
        for i in range(start + first, start + last):
            sketch.norms_sq[i] = usable_norm_sq(rows, b, i, odd)
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
    """Take greedy steps until `visited` is full, two rows of A each; fill `drops`.

    Each step picks the furthest cluster by its centroid equation, then the candidate furthest by its
    sketched distance, compares it, exactly, with the first candidate drawn, and projects on the better.
    """
    drops[:] = 0.0
    room = min(n_candidates, deck.members.size)
    candidates, uniforms = np.empty(room, np.int64), np.empty(room)
    for step_number in range(visited.size // 2):
        best, first = choose_two(sketch, deck, n_candidates, position, rng, uniforms, candidates)
        visited[2 * step_number] = best
        visited[2 * step_number + 1] = first
        step_to_better(rows, b, best, first, sketch, best, first, position, iterates, drops)


@kernel
def choose_two(sketch, deck, n_candidates, position, rng, uniforms, candidates):  # the last two: INOUT, for scratch
    """Return the candidate that is furthest by its sketched distance, and the first one drawn."""
    group = 0
    for g in range(1, position.centroid_gaps.size):
        if abs(position.centroid_gaps[g]) > abs(position.centroid_gaps[group]):
            group = g
    start, stop = deck.starts[group], deck.starts[group + 1]
    if stop - start > n_candidates:
        draw_into(deck, group, rng, uniforms, candidates)
        return _furthest(sketch, candidates, position.sketched), candidates[0]
    # score the whole group
    first = draw_one(deck, group, rng)
    return _furthest(sketch, deck.members[start:stop], position.sketched), first


@kernel
def step_to_better(rows, b, best, first, sketch, number, first_number, position, iterates, drops):
    """Project on that one of two rows which is further away, exactly; add to `drops`, follow in `position`.

    They are rows `best` and `first` of `rows`, whose sketches have the numbers given.
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
    """Follow ``x += step * a_i``."""
    scaled = step * sketch.length[i]
    for s in range(position.sketched.size):
        position.sketched[s] += scaled * sketch.unit[i, s]
    for group in range(position.centroid_gaps.size):
        position.centroid_gaps[group] -= step * sketch.overlaps[i, group] / position.centroid_norms[group]
