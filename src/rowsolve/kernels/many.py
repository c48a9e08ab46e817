"""Operations of rows with many vectors: those of several right-hand sides, and a common probe.

A row is read once for all vectors. Dense rows are processed four at a time with two vectors, so that a number loaded is
used several times; for sparse rows, the entries of all vectors in a column are contiguous (`laid_out`). The last vector
is the probe, whose right-hand side is zero: `b` has one column fewer than there are vectors.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rowsolve.compiled.jit import kernel, row_primitive
from rowsolve.kernels.blocks import BlockWorkspace, factor_gram, measure_block, solve_for_steps
from rowsolve.kernels.rows import ROWS_AT_ONCE, CSRRows, DenseRows, row_products


def laid_out(rows: DenseRows | CSRRows, vectors: np.ndarray) -> np.ndarray:
    """Return `vectors`, one in each row, in the memory layout of the kernels for this type of rows."""
    return np.asfortranarray(vectors) if isinstance(rows, CSRRows) else np.ascontiguousarray(vectors)


def _add_dense(rows, order, start, stop, steps, vectors):
    fours = start + (stop - start) // 4 * 4
    for t in range(start, fours, 4):
        a, b = rows.values[order[t]], rows.values[order[t + 1]]
        c, d = rows.values[order[t + 2]], rows.values[order[t + 3]]
        for g in range(0, vectors.shape[0] - 1, 2):
            _add_four(a, b, c, d, steps[g], steps[g + 1], t - start, vectors[g], vectors[g + 1])
        if vectors.shape[0] % 2:
            last = vectors.shape[0] - 1
            for s in range(t, t + 4):
                _add_one(rows.values[order[s]], steps[last, s - start], vectors[last])
    for t in range(fours, stop):
        for g in range(vectors.shape[0]):
            _add_one(rows.values[order[t]], steps[g, t - start], vectors[g])


@kernel
def _add_four(a, b, c, d, v_steps, w_steps, s, v, w):
    v0, v1, v2, v3 = v_steps[s], v_steps[s + 1], v_steps[s + 2], v_steps[s + 3]
    w0, w1, w2, w3 = w_steps[s], w_steps[s + 1], w_steps[s + 2], w_steps[s + 3]
    for j in range(v.size):
        first, second, third, fourth = np.float64(a[j]), np.float64(b[j]), np.float64(c[j]), np.float64(d[j])
        v[j] += v0 * first + v1 * second + v2 * third + v3 * fourth
        w[j] += w0 * first + w1 * second + w2 * third + w3 * fourth


@kernel
def _add_one(row, step, vector):
    for j in range(vector.size):
        vector[j] += step * np.float64(row[j])


def _add_csr(rows, order, start, stop, steps, vectors):
    by_column, own = vectors.T, np.empty(vectors.shape[0])
    for t in range(start, stop):
        for g in range(own.size):  # contiguous, as the entries of the vectors are
            own[g] = steps[g, t - start]
        for k in range(rows.indptr[order[t]], rows.indptr[order[t] + 1]):
            value, column = np.float64(rows.data[k]), by_column[rows.indices[k]]
            for g in range(own.size):
                column[g] += own[g] * value


_ADD: dict[type, Any] = {DenseRows: _add_dense, CSRRows: _add_csr}


@row_primitive(_ADD)
def add_rows(rows, order, start, stop, steps, vectors):  # vectors: INOUT
    """Add ``steps[g, t - start] * a_i`` to ``vectors[g]``, where i = order[t], for t from `start` to `stop`."""
    _ADD[type(rows)](rows, order, start, stop, steps, vectors)


@kernel
def products_of(rows, order, vectors, out):  # out: INOUT
    """Fill ``out[t, g]`` with ``<a_i, vectors[g]>``, where i = order[t]."""
    row_products(rows, order, 0, order.size, vectors, out)


@kernel
def add_gradients_of_many(rows, b, weight, order, vectors, out, squares):  # out, squares: INOUT
    """Do the same as `add_gradients` for many vectors, over the rows in `order`."""
    n_vectors = vectors.shape[0]
    products, gaps = np.empty((ROWS_AT_ONCE, n_vectors)), np.empty((n_vectors, ROWS_AT_ONCE))
    for start in range(0, order.size, ROWS_AT_ONCE):
        stop = min(start + ROWS_AT_ONCE, order.size)
        row_products(rows, order, start, stop, vectors, products)
        for t in range(stop - start):
            for g in range(n_vectors):
                target = weight * b[order[start + t], g] if g < n_vectors - 1 else 0.0
                gaps[g, t] = target - products[t, g]
                squares[g] += gaps[g, t] * gaps[g, t]
        add_rows(rows, order, start, stop, gaps, out)


@kernel
def project_many(
    rows, b, b_magnitude, first, order, sizes, in_turn, iterates, drops, workspace, flagged_rows
):  # iterates, ...: INOUT
    """Project many iterates onto one block of rows after another; fill `drops`.

    Blocks are consecutive pieces of `order` with the given `sizes`. The projection is on the whole block (see
    `project_blocks`) or, if `in_turn`, on its rows one after another. A step changes the gaps of the following rows, so
    the latter is a triangular system for the steps s: ``tril(A_t A_t') s = b_t - A_t x``. The iterates belong to the
    right-hand sides from column `first` of `b` on.
    """
    drops[:] = 0.0
    n_iterates, start = iterates.shape[0], 0
    products = np.empty((workspace.scale.size, n_iterates))
    for size in sizes:
        block = order[start : start + size]
        measure_block(rows, b_magnitude, order[start:], size, iterates[0], iterates[0], workspace, flagged_rows)
        row_products(rows, block, 0, size, iterates, products)
        for c in range(n_iterates):
            for s in range(size):
                target = b[block[s], first + c] if first + c < b.shape[1] else 0.0
                workspace.gaps[c, s] = (target - products[s, c]) * workspace.scale[s]
        if not in_turn:
            factor_gram(size, workspace.gram, workspace.factor)
        for c in range(n_iterates):
            drops[c] += _solve_in_turn(size, workspace, c) if in_turn else solve_for_steps(size, workspace, c)
            for s in range(size):
                workspace.steps[c, s] *= workspace.scale[s]
        add_rows(rows, block, 0, size, workspace.steps, iterates)
        start += size


@kernel
def _solve_in_turn(count, workspace: BlockWorkspace, c):
    """Fill the steps of iterate `c` for projections on one row after another; return the decrease of its error."""
    gaps, steps, gain = workspace.gaps[c], workspace.steps[c], 0.0
    for s in range(count):
        row, total = workspace.gram[s], gaps[s]
        for k in range(s):
            total -= row[k] * steps[k]
        steps[s] = total
        gain += total * total
    return gain
