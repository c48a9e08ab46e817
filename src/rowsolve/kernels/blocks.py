"""Projections onto blocks of rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rowsolve.compiled.jit import kernel, row_primitive
from rowsolve.kernels.rows import (
    CSRRows,
    DeflatedRows,
    DenseRows,
    add_row,
    add_row_to_both,
    is_usable,
    measure_row,
    row_dot,
)
from rowsolve.kernels.sweep import measure_two

# A row is left out of its block if its squared sine to the span of the previous rows is below this, as it then adds no
# information in float64. (With a ridge instead, inconsistent parallel rows would cause huge steps.)
DEPENDENT = 1e-8


class BlockWorkspace(NamedTuple):
    """Workspace for blocks of at most ``scale.size`` rows; the first axis of gaps and steps is for x and the probe."""

    scale: np.ndarray  # 1 / norm(a_i), or 0 for a row that does not define a hyperplane
    gram: np.ndarray  # of the normalised rows
    factor: np.ndarray
    gaps: np.ndarray
    steps: np.ndarray
    spread: np.ndarray  # one row as a dense vector


def block_workspace(block_size: int, n_columns: int, n_iterates: int = 2) -> BlockWorkspace:
    """Return a workspace for blocks of up to `block_size` rows and `n_iterates` iterates."""
    square = (block_size, block_size)
    return BlockWorkspace(
        scale=np.empty(block_size),
        gram=np.empty(square),
        factor=np.empty(square),
        gaps=np.empty((n_iterates, block_size)),
        steps=np.empty((n_iterates, block_size)),
        spread=np.zeros(n_columns),
    )


@kernel
def project_blocks(
    rows, b, order, sizes, iterates, drops, workspace, flagged_rows
):  # iterates, drops, workspace, flagged_rows: INOUT
    """Project x and the probe onto one block of rows after another; fill `drops`.

    Blocks are consecutive pieces of `order` with the given `sizes`. The step is ``pinv(A_t) (b_t - A_t x)``, computed
    from the Gram matrix of the normalised rows, so that the scale of an equation does not matter.
    """
    drops[:] = 0.0
    start = 0
    for size in sizes:
        measure_block(rows, b, order[start:], size, iterates[0], iterates[1], workspace, flagged_rows)
        factor_gram(size, workspace.gram, workspace.factor)
        for c in range(2):
            drops[c] += solve_for_steps(size, workspace, c)
            for s in range(size):
                workspace.steps[c, s] *= workspace.scale[s]
        add_block(rows, order[start : start + size], workspace.steps, iterates[0], iterates[1])
        start += size


@kernel
def _note_row(workspace, s, b, i, norm_sq, dot_x, dot_z, flagged_rows):
    scale = 1.0 / np.sqrt(norm_sq) if is_usable(norm_sq, b, i, flagged_rows) else 0.0
    workspace.scale[s] = scale
    workspace.gram[s, s] = 1.0
    workspace.gaps[0, s] = (b[i] - dot_x) * scale
    workspace.gaps[1, s] = -dot_z * scale


@kernel
def _note_product(workspace, s, t, product):
    workspace.gram[s, t] = product * workspace.scale[s] * workspace.scale[t]
    workspace.gram[t, s] = workspace.gram[s, t]


@kernel
def _four_products(values, i, k, u, v):
    """Return the products of rows i and k with rows u and v."""
    first, second, third, fourth = values[i], values[k], values[u], values[v]
    iu, iv, ku, kv = 0.0, 0.0, 0.0, 0.0
    for j in range(first.size):
        a, c = np.float64(third[j]), np.float64(fourth[j])
        iu += first[j] * a
        iv += first[j] * c
        ku += second[j] * a
        kv += second[j] * c
    return iu, iv, ku, kv


def _measure_dense(rows, b, order, size, x, z, workspace, flagged_rows):
    """Measure two rows at a time, prefetching those of the next block; then compute products of pairs of rows."""
    values, even = rows.values, size // 2 * 2
    for s in range(0, even, 2):
        i, k, ahead = order[s], order[s + 1], min(s + size, order.size - 2)
        places = (i, k, order[ahead], order[ahead + 1])
        norm_i, norm_k, cross, ix, kx, iz, kz = measure_two(values, places, x, z)
        _note_row(workspace, s, b, i, norm_i, ix, iz, flagged_rows)
        _note_row(workspace, s + 1, b, k, norm_k, kx, kz, flagged_rows)
        _note_product(workspace, s, s + 1, cross)
    for s in range(0, even, 2):
        for t in range(s + 2, even, 2):
            su, sv, tu, tv = _four_products(values, order[s], order[s + 1], order[t], order[t + 1])
            _note_product(workspace, s, t, su)
            _note_product(workspace, s, t + 1, sv)
            _note_product(workspace, s + 1, t, tu)
            _note_product(workspace, s + 1, t + 1, tv)
    if size > even:
        last = order[even]
        norm_sq, dot_x, dot_z = measure_row(rows, last, x, z)
        _note_row(workspace, even, b, last, norm_sq, dot_x, dot_z, flagged_rows)
        for s in range(0, even, 2):
            first, _, second, _ = _four_products(values, order[s], order[s + 1], last, last)
            _note_product(workspace, s, even, first)
            _note_product(workspace, s + 1, even, second)


def _measure_singly(rows, b, order, size, x, z, workspace, flagged_rows):
    """Write one row as a dense vector, so that the product of two rows is a `row_dot`."""
    for s in range(size):
        norm_sq, dot_x, dot_z = measure_row(rows, order[s], x, z)
        _note_row(workspace, s, b, order[s], norm_sq, dot_x, dot_z, flagged_rows)
        if s > 0:
            add_row(rows, order[s], 1.0, workspace.spread)
            for t in range(s):
                _note_product(workspace, s, t, row_dot(rows, order[t], workspace.spread))
            add_row(rows, order[s], -1.0, workspace.spread)  # back to zero, exactly


_MEASURE: dict[type, Any] = {DenseRows: _measure_dense, CSRRows: _measure_singly, DeflatedRows: _measure_singly}


@row_primitive(_MEASURE)
def measure_block(rows, b, order, size, x, z, workspace, flagged_rows):
    """Fill scale, gram and gaps for the first `size` rows of `order`; the rows after them may be prefetched."""
    _MEASURE[type(rows)](rows, b, order, size, x, z, workspace, flagged_rows)


def _add_dense(rows, block, steps, x, z):
    """Add four rows at a time, so that x and z are loaded and stored a quarter as often."""
    for s in range(0, block.size - 3, 4):
        first, second = rows.values[block[s]], rows.values[block[s + 1]]
        third, fourth = rows.values[block[s + 2]], rows.values[block[s + 3]]
        x0, x1, x2, x3 = steps[0, s], steps[0, s + 1], steps[0, s + 2], steps[0, s + 3]
        z0, z1, z2, z3 = steps[1, s], steps[1, s + 1], steps[1, s + 2], steps[1, s + 3]
        for j in range(x.size):
            a, b = np.float64(first[j]), np.float64(second[j])
            c, d = np.float64(third[j]), np.float64(fourth[j])
            x[j] += x0 * a + x1 * b + x2 * c + x3 * d
            z[j] += z0 * a + z1 * b + z2 * c + z3 * d
    for s in range(block.size // 4 * 4, block.size):
        add_row_to_both(rows, block[s], steps[0, s], steps[1, s], x, z)


def _add_singly(rows, block, steps, x, z):
    for s in range(block.size):
        add_row_to_both(rows, block[s], steps[0, s], steps[1, s], x, z)


_ADD: dict[type, Any] = {DenseRows: _add_dense, CSRRows: _add_singly, DeflatedRows: _add_singly}


@row_primitive(_ADD)
def add_block(rows, block, steps, x, z):  # x, z: INOUT
    """Add the rows of a block, each with its step, to x and to z."""
    _ADD[type(rows)](rows, block, steps, x, z)


@kernel
def factor_gram(count, gram, factor):  # factor: INOUT
    """Factor a Gram matrix by Cholesky, with inverse pivots on the diagonal; a zero pivot excludes a dependent row."""
    for s in range(count):
        row = factor[s]
        for t in range(s + 1):
            other, total = factor[t], gram[s, t]
            for k in range(t):
                total -= row[k] * other[k]
            if s > t:
                row[t] = total * other[t]
            else:
                row[s] = 1.0 / np.sqrt(total) if total > DEPENDENT else 0.0


@kernel
def solve_triangles(count, factor, steps):  # steps: INOUT
    """Solve for `steps` in place, from the right-hand side in `steps` and the factor of `factor_gram`."""
    for s in range(count):
        row, total = factor[s], steps[s]
        for k in range(s):
            total -= row[k] * steps[k]
        steps[s] = total * row[s]
    for s in range(count - 1, -1, -1):
        row = factor[s]
        steps[s] *= row[s]
        for k in range(s):
            steps[k] -= row[k] * steps[s]


@kernel
def solve_for_steps(count, workspace, c):
    """Fill the steps from the gaps of iterate `c`; return ``2 <step, e> - norm(step)**2``, the drop of its error."""
    gaps, steps = workspace.gaps[c], workspace.steps[c]
    steps[:count] = gaps[:count]
    solve_triangles(count, workspace.factor, steps)
    gain = 0.0
    for s in range(count):
        row, moved = workspace.gram[s], 0.0
        for t in range(count):
            moved += row[t] * steps[t]
        gain += steps[s] * (2.0 * gaps[s] - moved)
    return gain
