"""Steps of conjugate gradients for least squares, many in one call and on several threads.

Each step is a pass over the rows, slices of which are the legs of a round (see `rowsolve.kernels.rounds`). The work on
vectors of p numbers is repeated by every thread, so that no thread waits for another.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np

from rowsolve.compiled.jit import kernel
from rowsolve.kernels.gradient import add_gradients
from rowsolve.kernels.rounds import Work, copy, n_places_of, place_of, register


class Scalar(IntEnum):
    """Indices of `Course.scalars`."""

    GRADIENT_SQ_X = 0  # squared norm of the gradient, times `Limits.unit`
    GRADIENT_SQ_Z = 1
    ENDED_X = 2  # nonzero once the search direction is orthogonal to all rows up to rounding
    ENDED_Z = 3
    RESIDUAL_SQ = 4
    LARGEST_CURVATURE = 5
    AMPLIFICATION = 6  # the largest ratio of the norm of z to that of its gradient
    LAST_STEP = 7  # norm of the last step of x
    IS_OVER = 8


class Course(NamedTuple):
    """The state of x and the probe z at the start of a step, a copy per thread; two sets alternate between steps."""

    vectors: np.ndarray  # (2, n_threads, 3, 2, p): x and z; their negative gradients; their search directions
    scalars: np.ndarray  # (2, n_threads, len(Scalar))
    seen: np.ndarray  # (n_threads, n_steps, 3): squared norm of z, norms of the gradients of z and x, after each step


class Sums(NamedTuple):
    """The sums over slices of a pass; two sets alternate between steps."""

    change: np.ndarray  # (2, n_places, 2, p)
    squares: np.ndarray  # (2, n_places, 2)


class Limits(NamedTuple):
    """Parameters, which do not change from step to step."""

    damp_sq: float
    unit: float  # scale of gradients, chosen so that their squares do not overflow
    error: float  # the steps end when the estimated error of x is at most this
    drift: float  # the error of x that may be due to rounding of gradients, which are updated but not recomputed
    probe_gradient: float  # a smaller gradient of the probe is rounding
    share: float  # of the largest curvature, which determines the rounding of sums over rows
    flat: float  # a curvature counts as zero below this multiple of the largest one
    rounding: float  # relative rounding error of a gradient
    probe_norm: float  # a shorter probe gives no more information
    finished: bool  # whether the probe gives no more information anyway


def step_workspace(n_threads: int, n_steps: int, n_columns: int) -> tuple[Course, Sums]:
    """Return workspaces for up to `n_steps` steps of `n_threads` threads."""
    n_places = n_places_of(n_threads)
    course = Course(
        np.empty((2, n_threads, 3, 2, n_columns)),
        np.zeros((2, n_threads, len(Scalar))),
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
    return t >= work.course.seen.shape[1] or work.course.scalars[t % 2, me, Scalar.IS_OVER] != 0.0


def _copy_state(work, t, other, me):
    course, turn = work.course, t % 2
    copy(course.vectors[turn, other].ravel(), course.vectors[turn, me].ravel())
    copy(course.scalars[turn, other], course.scalars[turn, me])
    for step in range(t):
        copy(course.seen[other, step], course.seen[me, step])


def _run_leg(work, t, c, place, me, progress):
    """Sum over one slice of the rows; there are as many slices as legs."""
    n_rows, n_slices, turn, directions = work.b.size, progress.claims.size, t % 2, work.course.vectors[t % 2, me, 2]
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


def _combine(work, t, me, progress):
    """Minimise along the search directions, compute the next ones, and decide whether to stop."""
    limits, course, turn, after = work.limits, work.course, t % 2, (t + 1) % 2
    scalars = course.scalars[after, me]
    copy(course.scalars[turn, me], scalars)
    for v in range(2):
        _move(v, limits, t, me, progress, course, work.sums)
    iterates, gradients = course.vectors[after, me, 0], course.vectors[after, me, 1]
    x_norm, z_norm = np.sqrt(_dot(iterates[0], iterates[0])), np.sqrt(_dot(iterates[1], iterates[1]))
    x_gradient = limits.unit * np.sqrt(_dot(gradients[0], gradients[0]))
    z_gradient = limits.unit * np.sqrt(_dot(gradients[1], gradients[1]))
    reliable = max(z_gradient, limits.probe_gradient)
    if not limits.finished and z_norm >= limits.probe_norm and reliable > 0.0:
        scalars[Scalar.AMPLIFICATION] = max(scalars[Scalar.AMPLIFICATION], z_norm / reliable)
    error = x_gradient * scalars[Scalar.AMPLIFICATION]
    lost = limits.rounding * limits.unit * np.sqrt(scalars[Scalar.LARGEST_CURVATURE] * limits.share)
    a_norm = np.sqrt(scalars[Scalar.LARGEST_CURVATURE])
    rounded = (
        scalars[Scalar.ENDED_X] != 0.0
        or x_gradient <= lost * (np.sqrt(scalars[Scalar.RESIDUAL_SQ]) + a_norm * x_norm)
        or (scalars[Scalar.ENDED_Z] == 0.0 and z_gradient <= lost * a_norm * z_norm)
    )
    if error <= limits.error or rounded or limits.drift > 0.1 * max(error, limits.error) or not error < np.inf:
        scalars[Scalar.IS_OVER] = 1.0
    seen = course.seen[me, t]
    seen[0], seen[1], seen[2] = z_norm * z_norm, reliable, x_gradient


@kernel
def _move(v, limits, t, me, progress, course, sums):  # course: INOUT
    """Move x (``v = 0``) or the probe (``v = 1``) along its search direction, and compute the next direction."""
    turn, after = t % 2, (t + 1) % 2
    scalars = course.scalars[after, me]
    old, new = course.vectors[turn, me], course.vectors[after, me]
    direction, change = old[2, v], new[1, v]
    size_sq = _dot(direction, direction)
    curvature = limits.damp_sq * size_sq
    for j in range(direction.size):
        change[j] = -limits.damp_sq * direction[j]
    for c in range(progress.claims.size):  # the order of the sum does not depend on the threads
        place = place_of(t, c, progress)
        curvature += sums.squares[turn, place, v]
        part = sums.change[turn, place, v]
        for j in range(direction.size):
            change[j] += part[j]
    gradient_sq = scalars[Scalar.GRADIENT_SQ_X + v]
    if size_sq > 0.0:
        scalars[Scalar.LARGEST_CURVATURE] = max(scalars[Scalar.LARGEST_CURVATURE], curvature / size_sq)
    if curvature <= limits.flat * scalars[Scalar.LARGEST_CURVATURE] * size_sq:
        scalars[Scalar.ENDED_X + v] = 1.0
    length = gradient_sq / curvature if curvature > 0.0 and scalars[Scalar.ENDED_X + v] == 0.0 else 0.0
    for j in range(direction.size):
        new[0, v, j] = old[0, v, j] + length * direction[j]
        change[j] = old[1, v, j] + length * change[j]
    now = limits.unit * _dot(change, change)
    further = now / gradient_sq if gradient_sq > 0.0 else 0.0
    for j in range(direction.size):
        new[2, v, j] = further * direction[j] + limits.unit * change[j]
    scalars[Scalar.GRADIENT_SQ_X + v] = now
    if v == 0:
        scalars[Scalar.RESIDUAL_SQ] = max(0.0, scalars[Scalar.RESIDUAL_SQ] - length * gradient_sq)
        scalars[Scalar.LAST_STEP] = length * np.sqrt(size_sq)


register(Steps, Work(_run_leg, _combine, _copy_state, _is_done))
