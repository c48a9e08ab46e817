"""The extended Kaczmarz method for least squares: columns project the right-hand side, rows project x."""

from __future__ import annotations

from rowsolve.compiled.jit import kernel
from rowsolve.kernels.rows import add_row, add_row_to_both, is_usable, measure_row, row_dot


@kernel
def residual_of(rows, b, start, stop, x, residual):  # residual: INOUT
    """Fill ``residual[start:stop]`` with ``b - A x``."""
    for i in range(start, stop):
        residual[i] = b[i] - row_dot(rows, i, x)


@kernel
def extended_sweep(rows, b, order, columns, column_norms_sq, column_order, residual, iterates, drops, flagged_rows):
    """Perform steps of the randomized extended Kaczmarz method; fill `drops`.

    A step first projects `residual` onto the orthogonal complement of a column, so that it converges to the component
    of b outside the range of A. Then it projects x onto ``<a_i, x> = b_i - residual_i``, and the probe onto
    ``<a_i, z> = 0``.
    """
    drops[:] = 0.0
    x, z = iterates[0], iterates[1]
    for t in range(order.size):
        j = column_order[t]
        if column_norms_sq[j] > 0.0:
            add_row(columns, j, -row_dot(columns, j, residual) / column_norms_sq[j], residual)
        i = order[t]
        norm_sq, dot_x, dot_z = measure_row(rows, i, x, z)
        if is_usable(norm_sq, b, i, flagged_rows):
            gap = b[i] - residual[i] - dot_x
            step_x, step_z = gap / norm_sq, -dot_z / norm_sq
            add_row_to_both(rows, i, step_x, step_z, x, z)
            drops[0] += gap * step_x
            drops[1] -= dot_z * step_z
