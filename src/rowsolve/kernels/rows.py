"""The types of rows that kernels work on, and the primitive operations with a row.

A kernel is written once, in terms of `row_dot`, `add_row` and `row_norm_sq`. Numba selects the implementation for the
type of the rows at compile time, without run-time overhead. Two fused operations are for the inner loop, where a row
acts on x and on the probe: `measure_row` reads a row once for its norm and both products, `add_row_to_both` once for
both updates. Entries may be float32 or float64; sums and vectors are always float64. `DeflatedRows` act on longer
vectors (see there), the inner products of which are computed by `product_of_moves`.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np

from rowsolve.compiled.jit import kernel, row_primitive

# A smaller squared norm is inaccurate or zero because of underflow. Norms of 1e-150 and 1e150 are in range.
SMALLEST_NORM_SQ = 1e-305
PARALLEL = 1e-12  # squared sine of the angle of a row to another one, or to a span, that may be mere rounding
ROWS_AT_ONCE = 16  # rows that stay in the cache while they are multiplied by several sets of vectors


class RowFlag(IntEnum):
    """Why a row does not define a hyperplane; an index of `flagged_rows`, which has the last such row of each kind."""

    NON_FINITE = 0
    ZERO_AGAINST_B = 1  # a row of zeros whose right-hand side is not zero
    ZERO = 2


class DenseRows(NamedTuple):
    """Rows of a two-dimensional array."""

    values: np.ndarray


class CSRRows(NamedTuple):
    """Rows in CSR format without duplicate entries."""

    data: np.ndarray
    indices: np.ndarray
    indptr: np.ndarray


class DeflatedRows(NamedTuple):
    """Rows projected onto the orthogonal complement of r orthonormal vectors, the rows of Q.

    The projected rows are never formed. They act on vectors ``[z, s]`` of p + r numbers, which represent ``z + Q' s``.
    With ``w_i = Q a_i``, a row is ``[a_i, w_i]`` in a product (which is that of ``a_i`` with the vector represented),
    and ``[a_i, -w_i]`` in an addition (which adds ``a_i - Q' w_i`` to the vector represented). Its squared norm is
    ``norm(a_i)**2 - norm(w_i)**2``. For a row inside the span it is that of ``a_i`` instead, so that the row does not
    change x, but its gap is still taken into account.
    """

    rows: Any  # DenseRows or CSRRows
    parts: np.ndarray  # (n, r): w_i, for the rows that are used


def frozen(array: np.ndarray) -> np.ndarray:
    """Return a read-only view, so that memory maps and arrays share a compiled kernel, which cannot write to them."""
    view = np.asarray(array).view()
    view.flags.writeable = False
    return view


def _dense_dot(rows, i, x):
    total = 0.0
    for j in range(x.size):
        total += rows.values[i, j] * x[j]
    return total


def _csr_dot(rows, i, x):
    total = 0.0
    for k in range(rows.indptr[i], rows.indptr[i + 1]):
        total += rows.data[k] * x[rows.indices[k]]
    return total


def _dense_add(rows, i, step, x):
    for j in range(x.size):
        x[j] += step * rows.values[i, j]


def _csr_add(rows, i, step, x):
    for k in range(rows.indptr[i], rows.indptr[i + 1]):
        x[rows.indices[k]] += step * rows.data[k]


def _dense_touch(rows, i, counts, entries):
    length = 0.0
    for j in range(counts.size):
        length += 1.0 if rows.values[i, j] != 0.0 else 0.0
    for j in range(counts.size):
        touched = 1.0 if rows.values[i, j] != 0.0 else 0.0  # without a branch, so that the loop is vectorized
        counts[j] += touched
        entries[j] += touched * length


def _csr_touch(rows, i, counts, entries):
    first, last = rows.indptr[i], rows.indptr[i + 1]
    for k in range(first, last):
        counts[rows.indices[k]] += 1.0
        entries[rows.indices[k]] += last - first


def _dense_norm_sq(rows, i):
    total = 0.0
    for j in range(rows.values.shape[1]):
        value = np.float64(rows.values[i, j])
        total += value * value
    return total


def _csr_norm_sq(rows, i):
    total = 0.0
    for k in range(rows.indptr[i], rows.indptr[i + 1]):
        value = np.float64(rows.data[k])
        total += value * value
    return total


def _dense_measure(rows, i, x, z):
    norm_sq, dot_x, dot_z = 0.0, 0.0, 0.0
    for j in range(x.size):
        value = np.float64(rows.values[i, j])
        norm_sq += value * value
        dot_x += value * x[j]
        dot_z += value * z[j]
    return norm_sq, dot_x, dot_z


def _csr_measure(rows, i, x, z):
    norm_sq, dot_x, dot_z = 0.0, 0.0, 0.0
    for k in range(rows.indptr[i], rows.indptr[i + 1]):
        value = np.float64(rows.data[k])
        norm_sq += value * value
        dot_x += value * x[rows.indices[k]]
        dot_z += value * z[rows.indices[k]]
    return norm_sq, dot_x, dot_z


def _dense_add_to_both(rows, i, step_x, step_z, x, z):
    for j in range(x.size):
        value = np.float64(rows.values[i, j])
        x[j] += step_x * value
        z[j] += step_z * value


def _csr_add_to_both(rows, i, step_x, step_z, x, z):
    for k in range(rows.indptr[i], rows.indptr[i + 1]):
        value = np.float64(rows.data[k])
        x[rows.indices[k]] += step_x * value
        z[rows.indices[k]] += step_z * value


def _dense_add_and_measure(rows, i, step, x):
    norm_sq, dot = 0.0, 0.0
    for j in range(x.size):
        value, before = np.float64(rows.values[i, j]), x[j]
        norm_sq += value * value
        dot += value * before
        x[j] = before + step * value
    return norm_sq, dot


def _csr_add_and_measure(rows, i, step, x):
    norm_sq, dot = 0.0, 0.0
    for k in range(rows.indptr[i], rows.indptr[i + 1]):
        value, before = np.float64(rows.data[k]), x[rows.indices[k]]
        norm_sq += value * value
        dot += value * before
        x[rows.indices[k]] = before + step * value
    return norm_sq, dot


def _dense_products(rows, order, start, stop, vectors, out):
    n_vectors, n_columns = vectors.shape
    for t in range(start, stop - 1, 2):
        a, c = rows.values[order[t]], rows.values[order[t + 1]]
        for g in range(0, n_vectors - 1, 2):
            v, w = vectors[g], vectors[g + 1]
            av, aw, cv, cw = 0.0, 0.0, 0.0, 0.0  # each number loaded is used twice
            for j in range(n_columns):
                av += np.float64(a[j]) * v[j]
                aw += np.float64(a[j]) * w[j]
                cv += np.float64(c[j]) * v[j]
                cw += np.float64(c[j]) * w[j]
            out[t - start, g], out[t - start, g + 1] = av, aw
            out[t - start + 1, g], out[t - start + 1, g + 1] = cv, cw
        if n_vectors % 2:
            out[t - start, n_vectors - 1] = row_dot(rows, order[t], vectors[n_vectors - 1])
            out[t - start + 1, n_vectors - 1] = row_dot(rows, order[t + 1], vectors[n_vectors - 1])
    if (stop - start) % 2:
        for g in range(n_vectors):
            out[stop - 1 - start, g] = row_dot(rows, order[stop - 1], vectors[g])


def _csr_products(rows, order, start, stop, vectors, out):
    by_column = vectors.T
    for t in range(start, stop):
        products = out[t - start]
        products[:] = 0.0
        for k in range(rows.indptr[order[t]], rows.indptr[order[t] + 1]):
            value, column = np.float64(rows.data[k]), by_column[rows.indices[k]]
            for g in range(products.size):
                products[g] += value * column[g]


def _deflated_dot(rows, i, x):
    p = x.size - rows.parts.shape[1]
    total = row_dot(rows.rows, i, x[:p])
    for j in range(p, x.size):
        total += rows.parts[i, j - p] * x[j]
    return total


def _deflated_add(rows, i, step, x):
    p = x.size - rows.parts.shape[1]
    add_row(rows.rows, i, step, x[:p])
    for j in range(p, x.size):
        x[j] -= step * rows.parts[i, j - p]


def _deflated_measure(rows, i, x, z):
    p, inside_sq = x.size - rows.parts.shape[1], 0.0
    norm_sq, dot_x, dot_z = measure_row(rows.rows, i, x[:p], z[:p])
    for j in range(p, x.size):
        part = rows.parts[i, j - p]
        inside_sq += part * part
        dot_x += part * x[j]
        dot_z += part * z[j]
    return norm_sq_outside(norm_sq, inside_sq), dot_x, dot_z


def _deflated_add_to_both(rows, i, step_x, step_z, x, z):
    p = x.size - rows.parts.shape[1]
    add_row_to_both(rows.rows, i, step_x, step_z, x[:p], z[:p])
    for j in range(p, x.size):
        x[j] -= step_x * rows.parts[i, j - p]
        z[j] -= step_z * rows.parts[i, j - p]


def _plain_product(_rows, move, other):
    total = 0.0
    for j in range(move.size):
        total += move[j] * other[j]
    return total


def _deflated_product(rows, move, other):
    p = move.size - rows.parts.shape[1]
    return product_of_moves(rows.rows, move[:p], other[:p]) - product_of_moves(rows.rows, move[p:], other[p:])


_DOT: dict[type, Any] = {DenseRows: _dense_dot, CSRRows: _csr_dot, DeflatedRows: _deflated_dot}
_ADD: dict[type, Any] = {DenseRows: _dense_add, CSRRows: _csr_add, DeflatedRows: _deflated_add}
_TOUCH: dict[type, Any] = {DenseRows: _dense_touch, CSRRows: _csr_touch}
_NORM_SQ: dict[type, Any] = {DenseRows: _dense_norm_sq, CSRRows: _csr_norm_sq}
_MEASURE: dict[type, Any] = {DenseRows: _dense_measure, CSRRows: _csr_measure, DeflatedRows: _deflated_measure}
_ADD_TO_BOTH: dict[type, Any] = {
    DenseRows: _dense_add_to_both, CSRRows: _csr_add_to_both, DeflatedRows: _deflated_add_to_both,
}  # fmt: skip
_ADD_AND_MEASURE: dict[type, Any] = {DenseRows: _dense_add_and_measure, CSRRows: _csr_add_and_measure}
_PRODUCTS: dict[type, Any] = {DenseRows: _dense_products, CSRRows: _csr_products}
_MOVES: dict[type, Any] = {DenseRows: _plain_product, CSRRows: _plain_product, DeflatedRows: _deflated_product}


@row_primitive(_DOT)
def row_dot(rows, i, x):
    """Return ``<a_i, x>``."""
    return _DOT[type(rows)](rows, i, x)


@row_primitive(_ADD)
def add_row(rows, i, step, x):  # x: INOUT
    """Add ``step * a_i`` to `x`."""
    _ADD[type(rows)](rows, i, step, x)


@row_primitive(_TOUCH)
def touch_columns(rows, i, counts, entries):  # counts, entries: INOUT
    """Add 1 to `counts`, and the number of entries of ``a_i`` to `entries`, for each column where it has an entry."""
    _TOUCH[type(rows)](rows, i, counts, entries)


@row_primitive(_NORM_SQ)
def row_norm_sq(rows, i):
    """Return ``norm(a_i)**2``."""
    return _NORM_SQ[type(rows)](rows, i)


@row_primitive(_MEASURE)
def measure_row(rows, i, x, z):
    """Return ``norm(a_i)**2``, ``<a_i, x>`` and ``<a_i, z>``."""
    return _MEASURE[type(rows)](rows, i, x, z)


@row_primitive(_ADD_TO_BOTH)
def add_row_to_both(rows, i, step_x, step_z, x, z):  # x, z: INOUT
    """Add ``step_x * a_i`` to `x` and ``step_z * a_i`` to `z`."""
    _ADD_TO_BOTH[type(rows)](rows, i, step_x, step_z, x, z)


@row_primitive(_ADD_AND_MEASURE)
def add_and_measure_row(rows, i, step, x):  # x: INOUT
    """Add ``step * a_i`` to `x`; return ``norm(a_i)**2``, and ``<a_i, x>`` with x before the addition."""
    return _ADD_AND_MEASURE[type(rows)](rows, i, step, x)


@row_primitive(_PRODUCTS)
def row_products(rows, order, start, stop, vectors, out):  # out: INOUT
    """Fill ``out[t - start, g]`` with ``<a_i, vectors[g]>``, where i = order[t], for t from `start` to `stop`.

    Rows are processed in pairs: rounding depends on which are paired, so work must be split after an even number.
    """
    _PRODUCTS[type(rows)](rows, order, start, stop, vectors, out)


@row_primitive(_MOVES)
def product_of_moves(rows, move, other):
    """Return the inner product of two linear combinations of rows, in the representation of `add_row`."""
    return _MOVES[type(rows)](rows, move, other)


def zeros_for_vectors(rows: DenseRows | CSRRows, count: int, n_columns: int) -> np.ndarray:
    """Return zeros for `count` vectors in the memory layout that is fastest for `row_products`."""
    return np.zeros((count, n_columns), order="F" if isinstance(rows, CSRRows) else "C")


@kernel
def is_valid_csr(indices, indptr, n_columns):
    """Return whether CSR arrays are valid: consecutive rows, with increasing column indices, all of them in range."""
    if indptr[0] != 0 or indptr[-1] != indices.size or not _are_ascending(indptr):
        return False
    outside = 0
    for k in range(indices.size):
        outside += 1 if indices[k] < 0 or indices[k] >= n_columns else 0
    return outside == 0 and _descents(indices) == _descents_between_rows(indices, indptr)


@kernel
def _are_ascending(indptr):
    for i in range(indptr.size - 1):  # noqa: SIM110 (not in a kernel)
        if indptr[i + 1] < indptr[i]:
            return False
    return True


@kernel
def _descents(indices):
    """Count the entries whose index is not larger than that of the entry before; the loop is vectorized."""
    count = 0
    for k in range(1, indices.size):
        count += 1 if indices[k] <= indices[k - 1] else 0
    return count


@kernel
def _descents_between_rows(indices, indptr):
    """Count those among them that begin a row."""
    count = 0
    for i in range(indptr.size - 1):
        first = indptr[i]
        if 0 < first < indptr[i + 1] and indices[first] <= indices[first - 1]:
            count += 1
    return count


@kernel
def norm_sq_outside(norm_sq, inside_sq):
    """Return the squared norm of a deflated row; that of the whole row if it lies in the span (see `PARALLEL`)."""
    outside_sq = norm_sq - inside_sq
    return outside_sq if outside_sq > max(PARALLEL * norm_sq, SMALLEST_NORM_SQ) else norm_sq


@kernel
def is_usable(norm_sq, b, i, flagged_rows):  # flagged_rows: INOUT
    """Return whether row ``i`` defines a hyperplane in the range of float64; record it in `flagged_rows` if not."""
    if SMALLEST_NORM_SQ < norm_sq < np.inf:
        return True
    if not norm_sq < np.inf:
        flagged_rows[RowFlag.NON_FINITE] = i
    elif b[i] != 0.0:
        flagged_rows[RowFlag.ZERO_AGAINST_B] = i
    else:
        flagged_rows[RowFlag.ZERO] = i
    return False


@kernel
def usable_norm_sq(rows, b, i, flagged_rows):  # flagged_rows: INOUT
    """Return ``norm(a_i)**2``, or 0 for a row that does not define a hyperplane, which is recorded as flagged."""
    norm_sq = row_norm_sq(rows, i)
    return norm_sq if is_usable(norm_sq, b, i, flagged_rows) else 0.0


@kernel
def norms_of(rows, b, start, stop, norms_sq, flagged_rows):  # norms_sq, flagged_rows: INOUT
    """Fill ``norms_sq[start:stop]``, with 0 for rows that do not define a hyperplane."""
    for i in range(start, stop):
        norms_sq[i] = usable_norm_sq(rows, b, i, flagged_rows)


@kernel
def norms_at(rows, b, order, norms_sq, flagged_rows):  # norms_sq, flagged_rows: INOUT
    """Fill `norms_sq` for the rows in `order`, with 0 for rows that do not define a hyperplane."""
    for t in range(order.size):
        norms_sq[t] = usable_norm_sq(rows, b, order[t], flagged_rows)


@kernel
def residuals(rows, b, order, x, out):  # out: INOUT
    """Fill `out` with ``b_i - <a_i, x>`` for the rows in `order`."""
    for t in range(order.size):
        out[t] = b[order[t]] - row_dot(rows, order[t], x)


@kernel
def distances(rows, b, order, x, out, scale, flagged_rows):  # out, flagged_rows: INOUT
    """Fill `out` with the distance of `x` from the hyperplane of each row in `order`, or 0 for a zero row.

    Return ``sum((scale * r_i)**2)`` over these rows, where ``r = b - A x``; `scale` prevents overflow.
    """
    total = 0.0
    for t in range(order.size):
        i = order[t]
        norm_sq, dot, _ = measure_row(rows, i, x, x)
        gap = b[i] - dot
        total += (scale * gap) * (scale * gap)
        out[t] = abs(gap) / np.sqrt(norm_sq) if is_usable(norm_sq, b, i, flagged_rows) else 0.0
    return total


@kernel
def inspect_rows(
    rows, b, start, x, limit, scale, off, gradient, touched, flagged_rows
):  # off, gradient, touched, flagged_rows: INOUT
    """Check ``off.size`` rows from `start` on, reading each once.

    Fill `off` with whether the distance of x from the hyperplane of a row exceeds `limit`, and add ``r_i * a_i`` to
    `gradient`, where ``r = b - A x``. For each column, ``touched[1]`` counts the rows that are off and have an entry
    there, and their entries (see `touch_columns`); ``touched[0]`` counts the same for the other rows. Return
    ``sum((scale * r_i)**2)``.
    """
    total = 0.0
    for t in range(off.size):
        i = start + t
        norm_sq, dot, _ = measure_row(rows, i, x, x)
        gap = b[i] - dot
        total += (scale * gap) * (scale * gap)
        add_row(rows, i, gap, gradient)
        off[t] = is_usable(norm_sq, b, i, flagged_rows) and not abs(gap) / np.sqrt(norm_sq) <= limit
        counts = touched[1 if off[t] else 0]
        touch_columns(rows, i, counts[0], counts[1])
    return total


@kernel
def write_out(rows, start, stop, out):  # out: OUT
    """Fill `out` with the sparse rows `start` to `stop` as dense rows."""
    for i in range(start, stop):
        row = out[i]
        for j in range(row.size):
            row[j] = 0.0
        for k in range(rows.indptr[i], rows.indptr[i + 1]):
            row[rows.indices[k]] = rows.data[k]


@kernel
def look_at_sides(b, largest, lowest, highest):  # largest, lowest, highest: OUT
    """Find the largest absolute value in each row of `b`, and the rows of the minimum and maximum of each column."""
    low, high = b[0].copy(), b[0].copy()
    lowest[:] = 0
    highest[:] = 0
    for i in range(b.shape[0]):
        row, most = b[i], 0.0
        for c in range(row.size):
            value = row[c]
            most = max(most, abs(value))
            if value < low[c]:
                low[c], lowest[c] = value, i
            elif value > high[c]:
                high[c], highest[c] = value, i
        largest[i] = most
