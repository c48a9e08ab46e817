"""The gradient of least squares, and products with ``A'A``, in a single pass over the rows.

Computing ``A'(A v)`` by two products reads A twice. Here each row is read once: it is multiplied by v and then, while
it is still in the cache, added with that factor. Two vectors are processed together, x and the probe.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rowsolve.compiled.jit import kernel, row_primitive
from rowsolve.compiled.simd import (
    LANES,
    PANEL,
    STRIP,
    add_four_vectors,
    add_narrow_rows,
    add_strip,
    measure_four_vectors,
    takes_blocks,
    takes_narrow_rows,
    whole_vectors,
)
from rowsolve.kernels.rows import CSRRows, DenseRows, add_row_to_both, measure_row
from rowsolve.kernels.turned import turn

# Rows that are summed separately before their sum is added to that of the other rows. Adding n rows one after another
# would make the rounding error of the sum sqrt(n) times as large as necessary.
ROWS_OF_A_SUM = 256
_ENTRIES_OF_A_SUM = ROWS_OF_A_SUM // 4  # the same for sparse rows, by columns; dense rows are added four at a time


@kernel
def _add_and_clear(g, h, out):  # g, h, out: INOUT
    for j in range(g.size):
        out[0, j] += g[j]
        out[1, j] += h[j]
        g[j], h[j] = 0.0, 0.0


@kernel
def _gradient_by_columns(turned, b, weight, start, stop, vectors, out, squares):
    """Process rows in Fortran order strip by strip, column by column; a strip stays in the cache.

    `turned` is the transpose, whose rows are the columns. The remaining rows are copied into C order.
    """
    p = turned.shape[0]
    sums, first, n_summed = np.zeros((2, p, LANES)), start, 0
    if takes_blocks(turned, sums):
        while first + STRIP <= stop:
            of_x, of_probe = add_strip(turned, b, weight, first, vectors, sums)
            squares[0] += of_x
            squares[1] += of_probe
            first += STRIP
            n_summed += STRIP // LANES
            if n_summed >= ROWS_OF_A_SUM or first + STRIP > stop:
                _add_lanes(sums, out)
                n_summed = 0
    for i in range(first, stop, STRIP):
        tile = np.empty((min(STRIP, stop - i), p))
        turn(turned, i, i + len(tile), tile)
        _gradient_by_rows(tile, b[i : i + len(tile)], weight, 0, len(tile), vectors, out, squares)


@kernel
def _add_lanes(sums, out):  # sums, out: INOUT
    for c in range(2):
        for j in range(out.shape[1]):
            total = 0.0
            for k in range(LANES):
                total += sums[c, j, k]
                sums[c, j, k] = 0.0
            out[c, j] += total


@kernel
def _narrow_gradient(values, b, weight, start, stop, vectors, out, squares):
    """Process rows with few columns, each of which fits into a few registers; return the first remaining row."""
    n, p = values.shape
    padded, sums = np.zeros((2, PANEL)), np.zeros((2, PANEL))
    padded[:, :p] = vectors
    first, safe = start, min(stop, n - -(-LANES // p))
    while first + 1 < safe:
        count = min(ROWS_OF_A_SUM, safe - first) // 2 * 2
        sums[:] = 0.0
        of_x, of_probe = add_narrow_rows(values, b, weight, first, count, padded, sums)
        out += sums[:, :p]
        squares[0] += of_x
        squares[1] += of_probe
        first += count
    return first


def _dense_gradient(rows, b, weight, start, stop, vectors, out, squares):
    if rows.values.strides[0] < rows.values.strides[1]:
        _gradient_by_columns(rows.values.T, b, weight, start, stop, vectors, out, squares)
    else:
        _gradient_by_rows(rows.values, b, weight, start, stop, vectors, out, squares)


@kernel
def _gradient_by_rows(values, b, weight, start, stop, vectors, out, squares):
    """Process four rows at a time, because loading and storing the vectors costs as much as reading a row.

    The next four rows are prefetched, two while the current ones are measured and two while they are added.
    """
    rows = DenseRows(values)
    x, z, g, h = vectors[0], vectors[1], np.zeros_like(out[0]), np.zeros_like(out[1])
    if takes_narrow_rows(values) and x.size <= PANEL:
        start = _narrow_gradient(values, b, weight, start, stop, vectors, out, squares)
    fours, last = start + (stop - start) // 4 * 4, stop - 1
    done = whole_vectors(values, x.size)
    for i in range(start, fours, 4):
        if (i - start) % ROWS_OF_A_SUM == 0:
            _add_and_clear(g, h, out)
        places = (i, i + 1, i + 2, i + 3, min(i + 4, last), min(i + 5, last))
        ax, az, cx, cz, dx, dz, ex, ez = measure_four_vectors(values, places, x, z, done)
        a, c, d, e = values[i], values[i + 1], values[i + 2], values[i + 3]
        for j in range(done, x.size):
            first, second, third, fourth = np.float64(a[j]), np.float64(c[j]), np.float64(d[j]), np.float64(e[j])
            ax += first * x[j]
            az += first * z[j]
            cx += second * x[j]
            cz += second * z[j]
            dx += third * x[j]
            dz += third * z[j]
            ex += fourth * x[j]
            ez += fourth * z[j]
        ax, cx = weight * b[i] - ax, weight * b[i + 1] - cx
        dx, ex = weight * b[i + 2] - dx, weight * b[i + 3] - ex
        places = (i, i + 1, i + 2, i + 3, min(i + 6, last), min(i + 7, last))
        add_four_vectors(values, places, (ax, -az, cx, -cz, dx, -dz, ex, -ez), g, h, done)
        for j in range(done, x.size):
            first, second, third, fourth = np.float64(a[j]), np.float64(c[j]), np.float64(d[j]), np.float64(e[j])
            g[j] += ax * first + cx * second + dx * third + ex * fourth
            h[j] -= az * first + cz * second + dz * third + ez * fourth
        squares[0] += ax * ax + cx * cx + dx * dx + ex * ex
        squares[1] += az * az + cz * cz + dz * dz + ez * ez
    for i in range(fours, stop):
        _, dot, probe_dot = measure_row(rows, i, x, z)
        gap = weight * b[i] - dot
        add_row_to_both(rows, i, gap, -probe_dot, g, h)
        squares[0] += gap * gap
        squares[1] += probe_dot * probe_dot
    _add_and_clear(g, h, out)


def _csr_gradient(rows, b, weight, start, stop, vectors, out, squares):
    """Interleave x and z, and their gradients, so that an entry of a row accesses two places in memory, not four.

    Indices are unsigned, because Numba would check signed ones for negative values, and loops use `while`, because rows
    are too short for the vectorized code that the compiler generates for a range. Together this halves the time.
    """
    p, one = vectors.shape[1], np.uint64(1)
    pairs, sums = np.empty((p, 2)), np.zeros((p, 2))
    pairs[:, 0], pairs[:, 1] = vectors[0], vectors[1]
    total, probe_total, last = 0.0, 0.0, np.uint64(rows.indptr[start])
    full = rows.indptr[start] + _ENTRIES_OF_A_SUM * p
    for i in range(start, stop):
        if rows.indptr[i] > full:
            _add_and_clear(sums[:, 0], sums[:, 1], out)
            full = rows.indptr[i] + _ENTRIES_OF_A_SUM * p
        first, last = last, np.uint64(rows.indptr[i + 1])
        dot, probe_dot, k = 0.0, 0.0, first
        while k < last:
            pair, value = pairs[np.uint64(rows.indices[k])], np.float64(rows.data[k])
            dot += value * pair[0]
            probe_dot += value * pair[1]
            k += one
        gap, k = weight * b[i] - dot, first
        while k < last:
            pair, value = sums[np.uint64(rows.indices[k])], np.float64(rows.data[k])
            pair[0] += gap * value
            pair[1] -= probe_dot * value
            k += one
        total += gap * gap
        probe_total += probe_dot * probe_dot
    _add_and_clear(sums[:, 0], sums[:, 1], out)
    squares[0] += total
    squares[1] += probe_total


_GRADIENT: dict[type, Any] = {DenseRows: _dense_gradient, CSRRows: _csr_gradient}


@row_primitive(_GRADIENT)
def _gradient(rows, b, weight, start, stop, vectors, out, squares):
    _GRADIENT[type(rows)](rows, b, weight, start, stop, vectors, out, squares)


@kernel
def add_gradients(rows, b, weight, start, stop, vectors, out, squares):  # out, squares: INOUT
    """Add ``sum(r_i * a_i)`` over rows `start` to `stop` to `out`, and ``sum(r_i**2)`` to `squares`.

    For ``vectors[0]``, an x, ``r_i = weight * b_i - <a_i, x>``; for ``vectors[1]``, a probe, ``r_i = -<a_i, z>``. With
    a weight of 1 this is minus half the gradient of least squares, with a weight of 0 the product with ``-A'A``.
    """
    _gradient(rows, b, weight, start, stop, vectors, out, squares)


@kernel
def add_gram(rows, order, out):  # out: INOUT
    """Add the upper triangle of ``sum(a_i a_i')`` over the sparse rows in `order`, with sorted columns, to `out`."""
    for i in order:
        for k in range(rows.indptr[i], rows.indptr[i + 1]):
            row, value = out[rows.indices[k]], np.float64(rows.data[k])
            for m in range(k, rows.indptr[i + 1]):
                row[rows.indices[m]] += value * rows.data[m]


@kernel
def add_products_of_sparse(rows, b, start, stop, gram, sides):  # gram, sides: INOUT
    """Add the upper triangle of ``A'A``, and ``A'b``, over sparse rows `start` to `stop`, with sorted columns."""
    for i in range(start, stop):
        last = rows.indptr[i + 1]
        for k in range(rows.indptr[i], last):
            j, value = rows.indices[k], np.float64(rows.data[k])
            for m in range(k, last):
                gram[j, rows.indices[m]] += value * rows.data[m]
            for c in range(b.shape[1]):
                sides[j, c] += value * b[i, c]


@kernel
def widest_row(rows):
    """Return the largest distance between the first and the last column of a sparse row, with sorted columns."""
    widest = 0
    for i in range(rows.indptr.size - 1):
        first, last = rows.indptr[i], rows.indptr[i + 1]
        if last > first:
            widest = max(widest, rows.indices[last - 1] - rows.indices[first])
    return widest


@kernel
def add_band(rows, b, places, start, stop, out, sides):  # out, sides: INOUT
    """Add ``A'A``, as a band matrix, and ``A'b`` over sparse rows `start` to `stop`.

    The entry for the columns at places j and j + d is ``out[j, d]``.
    """
    for i in range(start, stop):
        last = rows.indptr[i + 1]
        for k in range(rows.indptr[i], last):
            column, value = rows.indices[k], np.float64(rows.data[k])
            j = places[column]
            for m in range(k, last):
                other = places[rows.indices[m]]
                out[min(j, other), abs(other - j)] += value * rows.data[m]
            for c in range(b.shape[1]):
                sides[column, c] += value * b[i, c]


@kernel
def solve_transposed(factor, vectors):  # vectors: INOUT
    """Multiply each of an even number of `vectors` by the inverse of ``R'``; `factor` is the upper triangle R.

    BLAS is not used, because its threads keep spinning for a while on the cores that the next pass needs.
    """
    p = factor.shape[0]
    for c in range(0, vectors.shape[0], 2):
        v, w = vectors[c], vectors[c + 1]
        for i in range(p):  # subtract the contribution of y_i from all following entries
            row = factor[i]
            one, two = v[i] / row[i], w[i] / row[i]
            v[i], w[i] = one, two
            for j in range(i + 1, p):
                v[j] -= one * row[j]
                w[j] -= two * row[j]


@kernel
def solve_upper(factor, vectors):  # vectors: INOUT
    """Multiply each of an even number of `vectors` by the inverse of R; `factor` is the upper triangle R."""
    p = factor.shape[0]
    for c in range(0, vectors.shape[0], 2):
        v, w = vectors[c], vectors[c + 1]
        for i in range(p - 1, -1, -1):
            row = factor[i]
            one, two = v[i], w[i]
            for j in range(i + 1, p):
                one -= row[j] * v[j]
                two -= row[j] * w[j]
            v[i], w[i] = one / row[i], two / row[i]


@kernel
def solve_factored(factor, vectors):  # vectors: INOUT
    """Multiply each of an even number of `vectors` by the inverse of ``R'R``; `factor` is the upper triangle R."""
    solve_transposed(factor, vectors)
    solve_upper(factor, vectors)
