"""The greedy choice of a row by sketched distances (RKA-JL), inside the furthest cluster (RKA-Cluster-JL)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rowsolve._jit import kernel
from rowsolve.kernels.rows import add_row, row_dot, usable_norm_sq
from rowsolve.kernels.sampling import draw_one


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
    for i in range(start, stop):
        sketch.norms_sq[i] = usable_norm_sq(rows, b, i, odd)
        sketch.length[i] = 0.0
        if sketch.norms_sq[i] > 0.0:
            total = 0.0
            for s in range(phi.shape[0]):
                value = row_dot(rows, i, phi[s])
                sketch.unit[i, s] = value
                total += value * value
            sketch.length[i] = np.sqrt(total)
        if sketch.length[i] > 0.0:
            sketch.target[i] = b[i] / sketch.length[i]
            for s in range(phi.shape[0]):
                sketch.unit[i, s] /= sketch.length[i]
            for group in range(centroids.shape[0]):
                sketch.overlaps[i, group] = row_dot(rows, i, centroids[group])


@kernel
def greedy_sweep(rows, b, sketch, deck, n_candidates, position, iterates, rng, drops, visited):
    """Take greedy steps until `visited` is full, two rows of A each; fill `drops`.

    Each step picks the furthest cluster by its centroid equation, then the candidate furthest by its
    sketched distance, compares it, exactly, with the first candidate drawn, and projects on the better.
    """
    drops[:] = 0.0
    for step_number in range(visited.size // 2):
        group = 0
        for g in range(1, position.centroid_gaps.size):
            if abs(position.centroid_gaps[g]) > abs(position.centroid_gaps[group]):
                group = g
        first, best = _furthest_candidate(sketch, deck, group, n_candidates, position.sketched, rng)
        gap = b[best] - row_dot(rows, best, iterates[0])
        first_gap = b[first] - row_dot(rows, first, iterates[0])
        visited[2 * step_number] = best
        visited[2 * step_number + 1] = first
        if first_gap * first_gap / sketch.norms_sq[first] > gap * gap / sketch.norms_sq[best]:
            best, gap = first, first_gap
        norm_sq = sketch.norms_sq[best]
        for c in range(iterates.shape[0]):
            if c > 0:
                gap = -row_dot(rows, best, iterates[c])
            add_row(rows, best, gap / norm_sq, iterates[c])
            drops[c] += gap * (gap / norm_sq)
            if c == 0:
                _move(sketch, best, gap / norm_sq, position)


@kernel
def _furthest_candidate(sketch, deck, group, n_candidates, sketched, rng):
    """Return the first candidate and the furthest; a group of no more than `n_candidates` is scored whole."""
    start = deck.starts[group]
    size = deck.starts[group + 1] - start
    first = draw_one(deck, group, rng)
    best = first
    furthest = -1.0
    for t in range(min(size, n_candidates)):
        if size <= n_candidates:
            i = deck.members[start + t]
        elif t == 0:
            i = first
        else:
            i = draw_one(deck, group, rng)
        gap = sketch.target[i]
        for s in range(sketched.size):
            gap -= sketch.unit[i, s] * sketched[s]
        if abs(gap) > furthest:
            furthest = abs(gap)
            best = i
    return first, best


@kernel
def _move(sketch, i, step, position):
    """Follow ``x += step * a_i``."""
    scaled = step * sketch.length[i]
    for s in range(position.sketched.size):
        position.sketched[s] += scaled * sketch.unit[i, s]
    for group in range(position.centroid_gaps.size):
        position.centroid_gaps[group] -= step * sketch.overlaps[i, group] / position.centroid_norms[group]
