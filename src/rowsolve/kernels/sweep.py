"""Projections onto one row after another."""

from __future__ import annotations

from typing import Any

import numpy as np

from rowsolve._jit import kernel, row_primitive
from rowsolve.kernels.rows import CSRRows, DenseRows, add_row_to_both, is_usable, measure_row


@kernel
def sweep(rows, b, order, iterates, drops, odd):  # iterates, drops, odd: INOUT
    """Project x and the probe onto the rows listed in `order`, one after another; fill `drops`.

    Eq. (1) of the paper, for ``A x = b`` with ``x = iterates[0]`` and for ``A z = 0`` with ``z = iterates[1]``.
    The drop is the sum of squared steps: what the squared error of each has lost. A zero row defines no
    hyperplane and is skipped.
    """
    drops[:] = 0.0
    t = 0
    while t + 1 < order.size:
        project_on_two(rows, b, order[t], order[t + 1], iterates, drops, odd)
        t += 2
    if t < order.size:
        project_on_one(rows, b, order[t], iterates, drops, odd)


@kernel
def project_on_one(rows, b, i, iterates, drops, odd):  # iterates, drops, odd: INOUT
    """Project x and the probe onto row ``i``; add to `drops`."""
    x, z = iterates[0], iterates[1]
    norm_sq, dot_x, dot_z = measure_row(rows, i, x, z)
    if is_usable(norm_sq, b, i, odd):
        gap = b[i] - dot_x
        step_x, step_z = gap / norm_sq, -dot_z / norm_sq
        add_row_to_both(rows, i, step_x, step_z, x, z)
        drops[0] += gap * step_x
        drops[1] -= dot_z * step_z


def _one_by_one(rows, b, i, k, iterates, drops, odd):
    project_on_one(rows, b, i, iterates, drops, odd)
    project_on_one(rows, b, k, iterates, drops, odd)


def _two_at_once(rows, b, i, k, iterates, drops, odd):
    """Do the same in one read of both rows.

    After the step along ``a_i`` the gap of row ``k`` has changed by the step times ``<a_i, a_k>``. Two rows
    come from memory side by side, and x and the probe are fetched and stored half as often.
    """
    x, z = iterates[0], iterates[1]
    norm_i, norm_k, cross = 0.0, 0.0, 0.0
    dot_ix, dot_kx, dot_iz, dot_kz = 0.0, 0.0, 0.0, 0.0
    for j in range(x.size):
        u, v = np.float64(rows.values[i, j]), np.float64(rows.values[k, j])
        norm_i += u * u
        norm_k += v * v
        cross += u * v
        dot_ix += u * x[j]
        dot_kx += v * x[j]
        dot_iz += u * z[j]
        dot_kz += v * z[j]
    if not (is_usable(norm_i, b, i, odd) and is_usable(norm_k, b, k, odd)):
        project_on_one(rows, b, i, iterates, drops, odd)
        project_on_one(rows, b, k, iterates, drops, odd)
        return
    gap_i, part_i = b[i] - dot_ix, -dot_iz
    step_i, turn_i = gap_i / norm_i, part_i / norm_i
    gap_k, part_k = b[k] - dot_kx - step_i * cross, -dot_kz - turn_i * cross
    step_k, turn_k = gap_k / norm_k, part_k / norm_k
    for j in range(x.size):
        u, v = np.float64(rows.values[i, j]), np.float64(rows.values[k, j])
        x[j] += step_i * u + step_k * v
        z[j] += turn_i * u + turn_k * v
    drops[0] += gap_i * step_i + gap_k * step_k
    drops[1] += part_i * turn_i + part_k * turn_k


_ON_TWO: dict[type, Any] = {DenseRows: _two_at_once, CSRRows: _one_by_one}


@row_primitive(_ON_TWO)
def project_on_two(rows, b, i, k, iterates, drops, odd):  # iterates, drops, odd: INOUT
    """Project x and the probe onto row ``i``, then onto row ``k``; add to `drops`."""
    _ON_TWO[type(rows)](rows, b, i, k, iterates, drops, odd)
