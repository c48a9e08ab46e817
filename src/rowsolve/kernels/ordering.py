"""The Cuthill-McKee algorithm: an order of the columns that reduces the bandwidth of the Gram matrix of sparse rows.

Columns that have an entry in the same row are neighbours. Starting from a column at the edge of this graph, neighbours
are numbered level by level, so that the columns of a row are in at most two consecutive levels. The Gram matrix itself
is not needed.
"""

from __future__ import annotations

import numpy as np

from rowsolve.compiled.jit import kernel


@kernel
def _rows_of_columns(indices, indptr, n_columns):
    """Return the start of the list of rows of each column, and the concatenated lists."""
    starts = np.zeros(n_columns + 1, dtype=np.int64)
    for j in indices:
        starts[j + 1] += 1
    for j in range(n_columns):
        starts[j + 1] += starts[j]
    rows, free = np.empty(indices.size, dtype=np.int64), starts[:-1].copy()
    for i in range(indptr.size - 1):
        for k in range(indptr[i], indptr[i + 1]):
            j = indices[k]
            rows[free[j]] = i
            free[j] += 1
    return starts, rows


@kernel
def _number_from(first, mark, indices, indptr, starts, rows, order, n_done, seen_columns, seen_rows):
    """Assign numbers to all columns reachable from `first`; return how many, and the width of the widest level.

    `order`, `seen_columns` and `seen_rows` are updated; `mark` labels the columns and rows that have been visited.
    """
    order[n_done], seen_columns[first] = first, mark
    place, done, level_end, widest = n_done, n_done + 1, n_done + 1, 1
    while place < done:
        j = order[place]
        for k in range(starts[j], starts[j + 1]):
            i = rows[k]
            if seen_rows[i] != mark:
                seen_rows[i] = mark
                for m in range(indptr[i], indptr[i + 1]):
                    other = indices[m]
                    if seen_columns[other] != mark:
                        seen_columns[other] = mark
                        order[done] = other
                        done += 1
        place += 1
        if place == level_end:
            widest = max(widest, done - level_end)
            level_end = done
    return done, widest


@kernel
def order_columns(indices, indptr, n_columns, limit):
    """Return an order of the columns, and the resulting bandwidth: the largest distance of two columns of a row.

    The bandwidth is -1, and the order invalid, if a level has more than `limit` columns: no better order is expected.
    """
    starts, rows = _rows_of_columns(indices, indptr, n_columns)
    order, seen_columns = np.empty(n_columns, dtype=np.int64), np.zeros(n_columns, dtype=np.int8)
    seen_rows, n_done = np.zeros(indptr.size - 1, dtype=np.int8), 0
    for j in range(n_columns):
        if seen_columns[j] == 0:
            first = j
            for mark in (1, 2):  # the last column reached from any column is at the edge of the graph
                done, widest = _number_from(
                    first, mark, indices, indptr, starts, rows, order, n_done, seen_columns, seen_rows
                )
                if widest > limit:
                    return order, -1
                first = order[done - 1]
            n_done = done
    return order, _width(indices, indptr, order)


@kernel
def _width(indices, indptr, order):
    places, width = np.empty_like(order), 0
    for place in range(order.size):
        places[order[place]] = place
    for i in range(indptr.size - 1):
        if indptr[i + 1] > indptr[i]:
            least = most = places[indices[indptr[i]]]
            for k in range(indptr[i] + 1, indptr[i + 1]):
                least, most = min(least, places[indices[k]]), max(most, places[indices[k]])
            width = max(width, most - least)
    return width
