"""Steps of conjugate gradients for least squares, many in one call and on several threads.

Each step is one pass over the rows, whose slices are the legs of a round (see `rowsolve.kernels.rounds`). What is done
with the sums, in p numbers, every thread does for itself, so that no one waits for another.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rowsolve.compiled.jit import kernel
from rowsolve.kernels.gradient import add_gradients
from rowsolve.kernels.rounds import Work, copy, n_places_of, place_of, register

EPS = float(np.finfo(float).eps)
FLAT = 64.0  # units of rounding of a curvature beside the largest
LOST = 6.0  # units of rounding in which a gradient is nothing but that
AT_ITS_END = 1e-13  # the length of a probe that takes its own steps and can hardly get shorter
# The numbers of a `Course`.
WORTH, STILL, RESIDUAL_SQ, TOP, AMPLIFICATION, LAST_STEP, IS_OVER, N_NUMBERS = 0, 2, 4, 5, 6, 7, 8, 9


class Course(NamedTuple):
    """Where x and the probe are at the start of a step, as each thread has it. Two sets take turns."""

    vectors: np.ndarray  # (2, n_threads, 3, 2, p): x and z; their gradients, downhill; their directions
    numbers: np.ndarray  # (2, n_threads, N_NUMBERS)
    seen: np.ndarray  # (n_threads, n_steps, 3): squared norm of z, and how far z and x would go downhill, after a step


class Sums(NamedTuple):
    """What slices of a pass add up to. Two sets take turns."""

    change: np.ndarray  # (2, n_places, 2, p)
    squares: np.ndarray  # (2, n_places, 2)


class Limits(NamedTuple):
    """What does not change from step to step."""

    damp_sq: float
    unit: float  # of gradients: any that keeps their squares in range
    enough: float  # the error of x at which there is no need for another step
    drift: float  # what the rounding of gradients that are only updated may be worth in x
    least_worth: float  # of a gradient of the probe: less is rounding
    share: float  # of the largest curvature, by which sums over rows are rounded
    finished: bool  # whether the probe has told all that it can


def room_for_steps(n_threads: int, n_steps: int, n_columns: int) -> tuple[Course, Sums]:
    """Return arrays for some steps of so many threads."""
    n_places = n_places_of(n_threads)
    course = Course(
        np.empty((2, n_threads, 3, 2, n_columns)),
        np.zeros((2, n_threads, N_NUMBERS)),
        np.empty((n_threads, n_steps, 3)),
    )
    return course, Sums(np.empty((2, n_places, 2, n_columns)), np.empty((2, n_places, 2)))


class Steps(NamedTuple):
    """Steps until x is good enough, as many as `Course.seen` has room for; a round is one of them."""

    rows: Any
    b: np.ndarray
    limits: Limits
    course: Course
    sums: Sums


def _is_done(work, t, me):
    return t >= work.course.seen.shape[1] or work.course.numbers[t % 2, me, IS_OVER] != 0.0


def _follow(work, t, other, me):
    course, turn = work.course, t % 2
    copy(course.vectors[turn, other].ravel(), course.vectors[turn, me].ravel())
    copy(course.numbers[turn, other], course.numbers[turn, me])
    for step in range(t):
        copy(course.seen[other, step], course.seen[me, step])


def _go_leg(work, t, c, place, me, meeting):
    """Pass over one of as many slices of the rows as there are legs."""
    n_rows, n_slices, turn, directions = work.b.size, meeting.taken.size, t % 2, work.course.vectors[t % 2, me, 2]
    change, squares = work.sums.change[turn, place], work.sums.squares[turn, place]
    change[:] = 0.0
    squares[:] = 0.0
    start, stop = n_rows * c // n_slices, n_rows * (c + 1) // n_slices
    add_gradients(work.rows, work.b, 0.0, start, stop, directions, change, squares)


@kernel
def _dot(v, w):
    total = 0.0
    for j in range(v.size):
        total += v[j] * w[j]
    return total


def _meet(work, t, me, meeting):
    """Go as far as the gradient falls along the direction, and turn."""
    limits, course, turn, after = work.limits, work.course, t % 2, (t + 1) % 2
    before, numbers = course.numbers[turn, me], course.numbers[after, me]
    copy(before, numbers)
    for v in range(2):
        _move(v, limits, t, me, meeting, course, work.sums)
    at, slopes = course.vectors[after, me, 0], course.vectors[after, me, 1]
    probe_norm, worth = np.sqrt(_dot(at[1], at[1])), limits.unit * np.sqrt(_dot(slopes[1], slopes[1]))
    steepness = limits.unit * np.sqrt(_dot(slopes[0], slopes[0]))
    telling = max(worth, limits.least_worth)
    if not limits.finished and probe_norm >= AT_ITS_END and telling > 0.0:
        numbers[AMPLIFICATION] = max(numbers[AMPLIFICATION], probe_norm / telling)
    error = steepness * numbers[AMPLIFICATION]
    lost = LOST * EPS * limits.unit * np.sqrt(numbers[TOP] * limits.share)
    root_top = np.sqrt(numbers[TOP])
    size = np.sqrt(_dot(at[0], at[0]))
    rounded = (
        numbers[STILL] != 0.0
        or steepness <= lost * (np.sqrt(numbers[RESIDUAL_SQ]) + root_top * size)
        or (numbers[STILL + 1] == 0.0 and worth <= lost * root_top * probe_norm)
    )
    if error <= limits.enough or rounded or limits.drift > 0.1 * max(error, limits.enough) or not error < np.inf:
        numbers[IS_OVER] = 1.0
    seen = course.seen[me, t]
    seen[0], seen[1], seen[2] = probe_norm * probe_norm, telling, steepness


@kernel
def _move(v, limits, t, me, meeting, course, sums):  # course: INOUT
    """Move x (0) or the probe (1) along its direction, and find the next one."""
    turn, after = t % 2, (t + 1) % 2
    numbers = course.numbers[after, me]
    old, new = course.vectors[turn, me], course.vectors[after, me]
    direction, change = old[2, v], new[1, v]
    size_sq = _dot(direction, direction)
    curvature = limits.damp_sq * size_sq
    for j in range(direction.size):
        change[j] = -limits.damp_sq * direction[j]
    for c in range(meeting.taken.size):  # the same sum whoever went a leg
        place = place_of(t, c, meeting)
        curvature += sums.squares[turn, place, v]
        part = sums.change[turn, place, v]
        for j in range(direction.size):
            change[j] += part[j]
    worth = numbers[WORTH + v]
    if size_sq > 0.0:
        numbers[TOP] = max(numbers[TOP], curvature / size_sq)
    if curvature <= FLAT * EPS * numbers[TOP] * size_sq:  # a direction that no row reaches is one of rounding
        numbers[STILL + v] = 1.0
    length = worth / curvature if curvature > 0.0 and numbers[STILL + v] == 0.0 else 0.0
    for j in range(direction.size):
        new[0, v, j] = old[0, v, j] + length * direction[j]
        change[j] = old[1, v, j] + length * change[j]
    now = limits.unit * _dot(change, change)
    further = now / worth if worth > 0.0 else 0.0
    for j in range(direction.size):
        new[2, v, j] = further * direction[j] + limits.unit * change[j]
    numbers[WORTH + v] = now
    if v == 0:
        numbers[RESIDUAL_SQ] = max(0.0, numbers[RESIDUAL_SQ] - length * worth)
        numbers[LAST_STEP] = length * np.sqrt(size_sq)


register(Steps, Work(_go_leg, _meet, _follow, _is_done))
