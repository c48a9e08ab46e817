"""Projections onto the furthest of several rows, by exact distances."""

from __future__ import annotations

from typing import Any

from rowsolve.compiled.jit import kernel, row_primitive
from rowsolve.kernels.rows import CSRRows, DenseRows, add_row, is_usable, measure_row
from rowsolve.kernels.sweep import measure_two


@kernel
def _further(best, i, gap, norm_sq):
    """Return the further of `best` and row ``i``, as (row, step, squared distance); `best` on a tie."""
    step = gap / norm_sq
    return (i, step, gap * step) if gap * step > best[2] else best


def _furthest_dense(rows, b, order, start, stop, x, z, flagged_rows):
    """Measure two rows at a time and prefetch the next two, which may belong to the next step."""
    for_x, for_z, last = (order[start], 0.0, 0.0), (order[start], 0.0, 0.0), order.size - 2
    for t in range(start, stop - 1, 2):
        i, k, ahead = order[t], order[t + 1], min(t + 2, last)
        places = (i, k, order[ahead], order[ahead + 1])
        norm_i, norm_k, _, ix, kx, iz, kz = measure_two(rows.values, places, x, z)
        if is_usable(norm_i, b, i, flagged_rows):
            for_x, for_z = _further(for_x, i, b[i] - ix, norm_i), _further(for_z, i, -iz, norm_i)
        if is_usable(norm_k, b, k, flagged_rows):
            for_x, for_z = _further(for_x, k, b[k] - kx, norm_k), _further(for_z, k, -kz, norm_k)
    if (stop - start) % 2:
        i = order[stop - 1]
        norm_sq, dot_x, dot_z = measure_row(rows, i, x, z)
        if is_usable(norm_sq, b, i, flagged_rows):
            for_x, for_z = _further(for_x, i, b[i] - dot_x, norm_sq), _further(for_z, i, -dot_z, norm_sq)
    return for_x, for_z


def _furthest_csr(rows, b, order, start, stop, x, z, flagged_rows):
    for_x, for_z = (order[start], 0.0, 0.0), (order[start], 0.0, 0.0)
    for t in range(start, stop):
        i = order[t]
        norm_sq, dot_x, dot_z = measure_row(rows, i, x, z)
        if is_usable(norm_sq, b, i, flagged_rows):
            for_x, for_z = _further(for_x, i, b[i] - dot_x, norm_sq), _further(for_z, i, -dot_z, norm_sq)
    return for_x, for_z


_FURTHEST: dict[type, Any] = {DenseRows: _furthest_dense, CSRRows: _furthest_csr}


@row_primitive(_FURTHEST)
def _furthest(rows, b, order, start, stop, x, z, flagged_rows):  # flagged_rows: INOUT
    """Return the rows in ``order[start:stop]`` that are furthest from `x` and from `z` (see `_further`)."""
    return _FURTHEST[type(rows)](rows, b, order, start, stop, x, z, flagged_rows)


@kernel
def project_on_furthest(
    rows, b, order, n_candidates, iterates, drops, flagged_rows
):  # iterates, drops, flagged_rows: INOUT
    """Project x onto the furthest of the first `n_candidates` rows of `order`, then of the next ones, and so on.

    The probe has the same candidates, but its own choice: a choice made for x would reduce its error less, so that its
    drop would not be comparable with that of x. Fill `drops`.
    """
    drops[:] = 0.0
    x, z = iterates[0], iterates[1]
    for start in range(0, order.size, n_candidates):
        stop = min(start + n_candidates, order.size)
        for_x, for_z = _furthest(rows, b, order, start, stop, x, z, flagged_rows)
        if for_x[2] > 0.0:
            add_row(rows, for_x[0], for_x[1], x)
            drops[0] += for_x[2]
        if for_z[2] > 0.0:
            add_row(rows, for_z[0], for_z[1], z)
            drops[1] += for_z[2]
