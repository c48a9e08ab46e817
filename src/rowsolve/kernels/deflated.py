"""Deflation: equations ``Q x = y`` with orthonormal Q stay satisfied, as rows are projected onto its complement.

See `rowsolve.kernels.rows.DeflatedRows` for the representation of vectors.
"""

from __future__ import annotations

import numpy as np

from rowsolve.compiled.jit import kernel
from rowsolve.kernels.rows import ROWS_AT_ONCE, add_row, norm_sq_outside, row_norm_sq, row_products, usable_norm_sq


@kernel
def write_unit_rows(rows, b, order, units, targets, flagged_rows):  # units, targets, flagged_rows: INOUT
    """Fill ``units[t]`` with ``a_i / norm(a_i)`` and ``targets[t]`` with ``b_i / norm(a_i)``, where i = order[t].

    Both are zero for a row that does not define a hyperplane.
    """
    for t in range(order.size):
        i = order[t]
        norm_sq = usable_norm_sq(rows, b, i, flagged_rows)
        units[t] = 0.0
        targets[t] = 0.0
        if norm_sq > 0.0:
            scale = 1.0 / np.sqrt(norm_sq)
            add_row(rows, i, scale, units[t])
            targets[t] = b[i] * scale


@kernel
def find_parts(rows, order, start, stop, basis, parts, ratios):  # parts, ratios: INOUT
    """Fill ``parts[i]`` with ``Q a_i`` for the rows ``i = order[t]``, t from `start` to `stop`.

    Fill ``ratios[t]`` with the ratio of the squared norm of the row to that of the deflated row.
    """
    products = np.empty((ROWS_AT_ONCE, basis.shape[0]))
    for first in range(start, stop, ROWS_AT_ONCE):
        last = min(first + ROWS_AT_ONCE, stop)
        row_products(rows, order, first, last, basis, products)
        for t in range(first, last):
            norm_sq, inside_sq = row_norm_sq(rows, order[t]), 0.0
            for k in range(basis.shape[0]):
                part = products[t - first, k]
                parts[order[t], k] = part
                inside_sq += part * part
            ratios[t] = norm_sq / norm_sq_outside(norm_sq, inside_sq) if norm_sq > 0.0 else 1.0


@kernel
def lift(basis, targets, iterates, lifted, drops):  # lifted, drops: INOUT
    """Represent x by ``[x, y - Q x]`` and the probe by ``[z, -Q z]``, which satisfy ``Q x = y`` and ``Q z = 0``.

    Fill `drops` with the decrease of their squared errors by that projection.
    """
    p = iterates.shape[1]
    for c in range(2):
        iterate, out = iterates[c], lifted[c]
        out[:p] = iterate
        drops[c] = 0.0
        for k in range(targets.size):
            gap = targets[k] if c == 0 else 0.0
            for j in range(p):
                gap -= basis[k, j] * iterate[j]
            out[p + k] = gap
            drops[c] += gap * gap


@kernel
def lower(basis, lifted, iterates):  # iterates: INOUT
    """Fill `iterates` with the vectors that `lifted` represents: ``z + Q' s`` for ``[z, s]``."""
    p = iterates.shape[1]
    for c in range(2):
        iterate, vector = iterates[c], lifted[c]
        iterate[:] = vector[:p]
        for k in range(basis.shape[0]):
            share = vector[p + k]
            for j in range(p):
                iterate[j] += share * basis[k, j]
