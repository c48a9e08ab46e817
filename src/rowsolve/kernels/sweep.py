"""Sequential projections onto rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rowsolve.compiled.jit import kernel, row_primitive
from rowsolve.compiled.simd import measure_vectors, move_and_measure_vectors, whole_vectors
from rowsolve.kernels.rows import (
    CSRRows,
    DeflatedRows,
    DenseRows,
    add_row_to_both,
    is_usable,
    measure_row,
    norm_sq_outside,
)


class Gate(NamedTuple):
    """A filter that accepts rows near x, by a running quantile of their distances.

    The level, a squared distance, is multiplied by `up` if a row lies above it, and by `down` if it lies below. With
    ``log(up) / -log(down) = q / (1 - q)`` it converges to the q-quantile of the distances (Robbins and Monro 1951).
    """

    level: np.ndarray  # (2,): the level and its lower bound
    slack_sq: float  # rows are accepted up to this multiple of the level
    up: float
    down: float


@kernel
def lets_through(gate, distance_sq):  # gate: INOUT
    """Return whether a row at this squared distance is accepted, and update the level."""
    level = gate.level[0]
    factor = gate.up if distance_sq > level else gate.down
    gate.level[0] = max(level * factor, gate.level[1])
    return distance_sq <= gate.slack_sq * level


@kernel
def _inverse(norm_sq, gap, b, i, flagged_rows, gate):
    """Return ``1 / norm_sq``, or 0 for a row that does not define a hyperplane or that the gate, if any, rejects."""
    if not is_usable(norm_sq, b, i, flagged_rows):
        return 0.0
    if gate is not None and not lets_through(gate, gap * (gap / norm_sq)):
        return 0.0
    return 1.0 / norm_sq


@kernel
def project_on_one(rows, b, i, iterates, drops, flagged_rows, gate):  # iterates, drops, flagged_rows, gate: INOUT
    """Project x and the probe onto row ``i``; add to `drops`."""
    x, z = iterates[0], iterates[1]
    norm_sq, dot_x, dot_z = measure_row(rows, i, x, z)
    gap = b[i] - dot_x
    inverse = _inverse(norm_sq, gap, b, i, flagged_rows, gate)
    if inverse > 0.0:
        step_x, step_z = gap * inverse, -dot_z * inverse
        add_row_to_both(rows, i, step_x, step_z, x, z)
        drops[0] += gap * step_x
        drops[1] -= dot_z * step_z


def _dense_move_and_measure(rows, places, x, z, steps):
    values, i, k = rows.values, places[0], places[1]
    done = whole_vectors(values, x.size)
    products = move_and_measure_vectors(values, places, x, z, steps, done)
    for j in range(done, x.size):
        first, second = np.float64(values[i, j]), np.float64(values[k, j])
        x[j] += steps[0] * first + steps[1] * second
        z[j] += steps[2] * first + steps[3] * second
    return _measure_rest(values, places[2], places[3], x, z, done, products)


def _deflated_move_and_measure(rows, places, x, z, steps):
    parts, p = rows.parts, x.size - rows.parts.shape[1]
    norm_u, norm_v, cross, ux, vx, uz, vz = move_and_measure(rows.rows, places, x[:p], z[:p], steps)
    i, k, u, v = places[0], places[1], places[2], places[3]
    inside_u, inside_v = 0.0, 0.0
    for j in range(parts.shape[1]):
        x_here = x[p + j] - (steps[0] * parts[i, j] + steps[1] * parts[k, j])
        z_here = z[p + j] - (steps[2] * parts[i, j] + steps[3] * parts[k, j])
        x[p + j], z[p + j] = x_here, z_here
        first, second = parts[u, j], parts[v, j]
        inside_u += first * first
        inside_v += second * second
        cross -= first * second
        ux += first * x_here
        vx += second * x_here
        uz += first * z_here
        vz += second * z_here
    return norm_sq_outside(norm_u, inside_u), norm_sq_outside(norm_v, inside_v), cross, ux, vx, uz, vz


_MOVE_AND_MEASURE: dict[type, Any] = {DenseRows: _dense_move_and_measure, DeflatedRows: _deflated_move_and_measure}


@row_primitive(_MOVE_AND_MEASURE)
def move_and_measure(rows, places, x, z, steps):  # x, z: INOUT
    """Add two rows to x and to z; return all products of two other rows with each other, with x and with z.

    See `move_and_measure_vectors`, which does most of the work.
    """
    return _MOVE_AND_MEASURE[type(rows)](rows, places, x, z, steps)


@kernel
def measure_two(values, places, x, z):
    """Return all products of two rows with each other, with x and with z."""
    done = whole_vectors(values, x.size)
    products = measure_vectors(values, places, x, z, done)
    return _measure_rest(values, places[0], places[1], x, z, done, products)


@kernel
def _measure_rest(values, u, v, x, z, done, products):
    """Add the columns from `done` on to the products of rows ``u`` and ``v``."""
    norm_u, norm_v, cross, ux, vx, uz, vz = products
    for j in range(done, x.size):
        first, second = np.float64(values[u, j]), np.float64(values[v, j])
        norm_u += first * first
        norm_v += second * second
        cross += first * second
        ux += first * x[j]
        vx += second * x[j]
        uz += first * z[j]
        vz += second * z[j]
    return norm_u, norm_v, cross, ux, vx, uz, vz


def _singly(_kind, rows, b, order, count, iterates, drops, flagged_rows, gate):
    for i in order[:count]:
        project_on_one(rows, b, i, iterates, drops, flagged_rows, gate)


def _in_pairs(_kind, rows, b, order, count, iterates, drops, flagged_rows, gate):
    """Process two rows at a time, in a pipeline: one loop adds the previous pair to x and measures the next pair.

    So x and the probe are loaded and stored once for two rows, and arithmetic overlaps with reading rows from memory.
    The step along the first row of a pair changes the gap of the second by the step times their product. The step of a
    row that is skipped is zero.
    """
    x, z = iterates[0], iterates[1]
    last = order.size - 2
    i, k = order[0], order[0]
    steps = (0.0, 0.0, 0.0, 0.0)
    for t in range(0, count - 1, 2):
        u, v, ahead = order[t], order[t + 1], min(t + 4, last)  # the pair after the next is prefetched
        places = (i, k, u, v, order[ahead], order[ahead + 1])
        norm_u, norm_v, cross, ux, vx, uz, vz = move_and_measure(rows, places, x, z, steps)
        gap_u, part_u = b[u] - ux, -uz
        inverse_u = _inverse(norm_u, gap_u, b, u, flagged_rows, gate)
        step_u, turn_u = gap_u * inverse_u, part_u * inverse_u
        gap_v, part_v = b[v] - vx - step_u * cross, -vz - turn_u * cross
        inverse_v = _inverse(norm_v, gap_v, b, v, flagged_rows, gate)
        step_v, turn_v = gap_v * inverse_v, part_v * inverse_v
        drops[0] += gap_u * step_u + gap_v * step_v
        drops[1] += part_u * turn_u + part_v * turn_v
        i, k, steps = u, v, (step_u, step_v, turn_u, turn_v)
    add_row_to_both(rows, i, steps[0], steps[2], x, z)
    add_row_to_both(rows, k, steps[1], steps[3], x, z)
    if count % 2:
        project_on_one(rows, b, order[count - 1], iterates, drops, flagged_rows, gate)


def _as_those_inside(kind, rows, b, order, count, iterates, drops, flagged_rows, gate):
    _project_on_each(kind.rows, rows, b, order, count, iterates, drops, flagged_rows, gate)


_SWEEP: dict[type, Any] = {DenseRows: _in_pairs, CSRRows: _singly, DeflatedRows: _as_those_inside}


@row_primitive(_SWEEP)
def _project_on_each(
    kind, rows, b, order, count, iterates, drops, flagged_rows, gate
):  # iterates, drops, flagged_rows, gate: INOUT
    """Project on the `rows` by the implementation for `kind`: the rows, or those inside of `DeflatedRows`."""
    _SWEEP[type(kind)](kind, rows, b, order, count, iterates, drops, flagged_rows, gate)


@kernel
def sweep_first(rows, b, order, count, iterates, drops, flagged_rows):  # iterates, drops, flagged_rows: INOUT
    """Do the same as `sweep` for the first `count` rows of `order`; the rows after them are prefetched."""
    drops[:] = 0.0
    if count > 0:
        _project_on_each(rows, rows, b, order, count, iterates, drops, flagged_rows, None)


@kernel
def sweep(rows, b, order, iterates, drops, flagged_rows):  # iterates, drops, flagged_rows: INOUT
    """Project x and the probe onto the rows in `order`, one after another; fill `drops`.

    This is Eq. (1) of the paper, for ``A x = b`` with ``x = iterates[0]`` and for ``A z = 0`` with ``z = iterates[1]``.
    A drop is the sum of the squared steps, which is the decrease of the squared error. Zero rows, which do not define a
    hyperplane, are skipped.
    """
    sweep_first(rows, b, order, order.size, iterates, drops, flagged_rows)


@kernel
def guarded_sweep(rows, b, order, iterates, drops, flagged_rows, gate):  # iterates, drops, flagged_rows, gate: INOUT
    """Do the same as `sweep`, but skip the rows that `gate` rejects, both for x and for the probe."""
    drops[:] = 0.0
    if order.size > 0:
        _project_on_each(rows, rows, b, order, order.size, iterates, drops, flagged_rows, gate)
