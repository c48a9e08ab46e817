"""Steps of conjugate gradients for least squares, many in one call and on several threads.

Each step is a pass over the rows, slices of which are the legs of a round (see `rowsolve.kernels.rounds`). The work on
vectors of p numbers is repeated by every thread, so that no thread waits for another.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rowsolve.compiled.jit import kernel
from rowsolve.kernels.gradient import add_gradients
from rowsolve.kernels.rounds import Work, copy, n_places_of, place_of, register

EPS = float(np.finfo(float).eps)
FLAT = 64.0  # units of rounding, relative to the largest curvature, below which a curvature counts as zero
LOST = 6.0  # units of rounding below which a gradient is mere rounding
AT_ITS_END = 1e-13  # the length from which on a probe can hardly get shorter
# Indices of the numbers in a `Course`.
WORTH, STILL, RESIDUAL_SQ, TOP, AMPLIFICATION, LAST_STEP, IS_OVER, N_NUMBERS = 0, 2, 4, 5, 6, 7, 8, 9


class Course(NamedTuple):
    """The state of x and the probe z at the start of a step, a copy per thread; two sets alternate between steps."""

    vectors: np.ndarray  # (2, n_threads, 3, 2, p): x and z; their negative gradients; their search directions
    numbers: np.ndarray  # (2, n_threads, N_NUMBERS)
    seen: np.ndarray  # (n_threads, n_steps, 3): squared norm of z, norms of the gradients of z and x, after each step


class Sums(NamedTuple):
    """The sums over slices of a pass; two sets alternate between steps."""

    change: np.ndarray  # (2, n_places, 2, p)
    squares: np.ndarray  # (2, n_places, 2)


class Limits(NamedTuple):
    """Parameters, which do not change from step to step."""

    damp_sq: float
    unit: float  # scale of gradients, chosen so that their squares do not overflow
    enough: float  # the error of x at which the steps end
    drift: float  # the error of x that may be due to rounding of gradients, which are updated but not recomputed
    least_worth: float  # a smaller gradient of the probe is rounding
    share: float  # of the largest curvature, which determines the rounding of sums over rows
    finished: bool  # whether the probe can give no more information


def room_for_steps(n_threads: int, n_steps: int, n_columns: int) -> tuple[Course, Sums]:
    """Return workspaces for up to `n_steps` steps of `n_threads` threads."""
    n_places = n_places_of(n_threads)
    course = Course(
        np.empty((2, n_threads, 3, 2, n_columns)),
        np.zeros((2, n_threads, N_NUMBERS)),
        np.empty((n_threads, n_steps, 3)),
    )
    return course, Sums(np.empty((2, n_places, 2, n_columns)), np.empty((2, n_places, 2)))


class Steps(NamedTuple):
    """Steps until x is accurate enough, at most the length of `Course.seen`; each step is a round."""

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
    """Sum over one slice of the rows; there are as many slices as legs."""
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
    """Minimise along the search directions, compute the next ones, and decide whether to stop."""
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
    """Move x (``v = 0``) or the probe (``v = 1``) along its search direction, and compute the next direction."""
    turn, after = t % 2, (t + 1) % 2
    numbers = course.numbers[after, me]
    old, new = course.vectors[turn, me], course.vectors[after, me]
    direction, change = old[2, v], new[1, v]
    size_sq = _dot(direction, direction)
    curvature = limits.damp_sq * size_sq
    for j in range(direction.size):
        change[j] = -limits.damp_sq * direction[j]
    for c in range(meeting.taken.size):  # the order of the sum does not depend on the threads
        place = place_of(t, c, meeting)
        curvature += sums.squares[turn, place, v]
        part = sums.change[turn, place, v]
        for j in range(direction.size):
            change[j] += part[j]
    worth = numbers[WORTH + v]
    if size_sq > 0.0:
        numbers[TOP] = max(numbers[TOP], curvature / size_sq)
    if curvature <= FLAT * EPS * numbers[TOP] * size_sq:  # the direction is orthogonal to all rows up to rounding
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
