"""Cholesky's factor of ``A'A`` for sparse rows, as sparse as it can be: neither is ever written out in full.

To eliminate a column from the equations makes its neighbours, the columns that it meets in some row, neighbours of each
other. Whoever takes the column with the fewest neighbours each time (Tinney and Walker 1967) keeps them few, if A is
the graph of something: a network that was measured, a mesh, a calendar. Neighbours are kept as bits, 64 to a word, so
that a whole set is made part of another in a few steps. What a set holds when its column goes is the pattern of R.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rowsolve._jit import kernel
from rowsolve._simd import count_bits

_LOST = 1e-14  # of a diagonal entry of A'A: what is left of it is rounding
_DENSE = 0.25  # of all pairs of columns: if so many meet, no order helps
_FEW = 64  # columns whose sets are a word: no order takes long
_ONE, _WORD, _BIT = np.uint64(1), np.uint64(6), np.uint64(63)  # a bit; how far to shift for a word; which bit of it


class SparseTriangle(NamedTuple):
    """R with ``R'R = A'A``, by rows: the t-th to be eliminated was column ``columns[t]``, with ``diagonal[t]``.

    The other numbers of row t stand from ``starts[t]`` to ``starts[t + 1]``, that of ``columns[q]`` where places has q.
    """

    columns: np.ndarray
    diagonal: np.ndarray
    starts: np.ndarray
    places: np.ndarray
    values: np.ndarray


@kernel
def factor_sparse(rows, order, n_columns, damp_sq, most):
    """Return the parts of R with ``R'R = A'A + damp_sq`` for the `rows` in `order`, and the norms of its columns.

    These are in the order of elimination. There are none if R takes more than `most` multiplications, or if there are
    not digits enough.
    """
    columns, near, counts = _eliminate(rows, order, n_columns, most)
    triangle, norms = _factor(rows, order, columns, near, counts, damp_sq)
    return triangle.columns, triangle.diagonal, triangle.starts, triangle.places, triangle.values, norms


@kernel
def _eliminate(rows, order, n_columns, most):
    """Put the columns of the `rows` in `order` in a good order; return it, and what each meets when its turn comes.

    As bits, with their number. If the factor takes more than `most` multiplications, the order is empty. All that have
    as few neighbours as any go in one round, unless they get more before their turn (Liu 1985).
    """
    near, counts = np.zeros((n_columns, (n_columns + 63) // 64), np.uint64), np.zeros(n_columns, np.int64)
    columns, members, work = np.empty(n_columns, np.int64), np.empty(n_columns, np.int64), 0.0
    if not _note_neighbours(rows, order, near, counts):
        return columns[:0], near, counts
    left, n_left, t = np.arange(n_columns), n_columns, 0
    while n_left > 0:
        fewest, n_before, n_left = counts[left[:n_left]].min(), n_left, 0
        for v in left[:n_before]:
            if counts[v] > fewest:
                left[n_left] = v
                n_left += 1
                continue
            columns[t] = v
            t += 1
            work += (counts[v] + 1.0) ** 2
            if work > most:
                return columns[:0], near, counts
            for u in members[: _list_bits(near[v], members)]:
                counts[u] = _join(near[u], near[v], u, v)
    return columns, near, counts


@kernel
def _note_neighbours(rows, order, near, counts):
    """Fill the sets; return False as soon as it is clear that they are dense."""
    p, n_seen = counts.size, 0.0
    for i in order:
        first, last = np.uint64(rows.indptr[i]), np.uint64(rows.indptr[i + 1])
        for k in range(first, last):
            bits, m = near[np.uint64(rows.indices[k])], first
            while m < last:
                j = np.uint64(rows.indices[m])
                bits[j >> _WORD] |= _ONE << (j & _BIT)
                m += _ONE
        before = n_seen
        n_seen += float(last - first) ** 2
        if p > _FEW and before < 0.5 * p * p <= n_seen and _count(near.ravel()) > _DENSE * p * p:
            return False
    for v in range(p):
        _clear(near[v], v)
        counts[v] = _count(near[v])
    return True


@kernel
def _clear(bits, j):
    place = np.uint64(j)
    bits[place >> _WORD] &= ~(_ONE << (place & _BIT))


@kernel
def _count(bits):
    total = 0
    for word in bits:
        total += count_bits(word)
    return total


@kernel
def _join(bits, others, own, gone):
    """Add `others` to the neighbours of `own`, but for `gone`; return how many there are."""
    total = 0
    for w in range(bits.size):
        bits[w] |= others[w]
        total += count_bits(bits[w])
    _clear(bits, own)
    _clear(bits, gone)
    return total - 2


@kernel
def _list_bits(bits, out):
    """Fill `out` with the places of the bits that are set; return their number."""
    count = 0
    for w in range(bits.size):
        word = bits[w]
        while word:
            rest = word & (word - _ONE)  # without its lowest bit
            out[count] = 64 * w + count_bits((word ^ rest) - _ONE)
            word = rest
            count += 1
    return count


@kernel
def _factor(rows, order, columns, near, counts, damp_sq):
    """Return R, and the norms of its columns if there are digits enough.

    Each column takes up what those that it meets have left (Davis 2006, chapter 4); those of A'A are made when their
    turn comes.
    """
    p = columns.size
    place, triangle, met_starts, met = _lay_out(columns, near, counts)
    diagonal, starts, places, values = triangle.diagonal, triangle.starts, triangle.places, triangle.values
    ends, here, norms = starts[:-1].copy(), np.zeros(p + 1), np.empty(p)
    if p == 0:
        return triangle, norms
    column_starts, column_rows, column_values = _by_columns(rows, order, p)
    for k in range(p):
        for s in range(column_starts[columns[k]], column_starts[columns[k] + 1]):
            i, value = column_rows[s], column_values[s]
            m, last = np.uint64(rows.indptr[i]), np.uint64(rows.indptr[i + 1])
            while m < last:  # what comes later is put where it does no harm
                here[min(place[np.uint64(rows.indices[m])], np.uint64(k + 1))] += value * rows.data[m]
                m += _ONE
        whole = here[k] + damp_sq
        rest, here[k], here[k + 1] = whole, 0.0, 0.0
        for s in range(met_starts[k], met_starts[k + 1]):
            t = met[s]
            step = here[t] / diagonal[t]
            for e in range(starts[t], ends[t]):
                here[places[e]] -= step * values[e]
            places[ends[t]], values[ends[t]], here[t] = k, step, 0.0
            ends[t] += 1
            rest -= step * step
        if not _LOST * whole < rest < np.inf:
            return triangle, norms[:0]
        diagonal[k], norms[k] = np.sqrt(rest), np.sqrt(whole)
    return triangle, norms


@kernel
def _lay_out(columns, near, counts):
    """Return the place of each column, room for R, and for each column of R the rows with a number in it, in order."""
    p = columns.size
    place, starts, met_starts = np.empty(p, np.uint64), np.zeros(p + 1, np.int64), np.zeros(p + 1, np.int64)
    for t in range(p):
        place[columns[t]] = np.uint64(t)
        starts[t + 1] = starts[t] + counts[columns[t]]
    members, met, places = np.empty(p, np.int64), np.empty(starts[p], np.int64), np.empty(starts[p], np.int64)
    for t in range(p):
        for e in range(_list_bits(near[columns[t]], members)):
            places[starts[t] + e] = place[members[e]]
            met_starts[place[members[e]] + 1] += 1
    met_starts[:] = np.cumsum(met_starts)
    ends = met_starts[:-1].copy()
    for t in range(p):
        for e in range(starts[t], starts[t + 1]):
            met[ends[places[e]]] = t
            ends[places[e]] += 1
    triangle = SparseTriangle(columns, np.empty(p), starts, places, np.empty(starts[p]))
    return place, triangle, met_starts, met


@kernel
def _by_columns(rows, order, n_columns):
    """Return the `rows` in `order` column by column: where each begins, the rows, the numbers."""
    starts, total = np.zeros(n_columns + 1, np.int64), 0
    for i in order:
        total += rows.indptr[i + 1] - rows.indptr[i]
        k, last = np.uint64(rows.indptr[i]), np.uint64(rows.indptr[i + 1])
        while k < last:
            starts[np.uint64(rows.indices[k]) + _ONE] += 1
            k += _ONE
    starts[:] = np.cumsum(starts)
    ends, at, values = starts[:-1].copy(), np.empty(total, np.int64), np.empty(total)
    for i in order:
        k, last = np.uint64(rows.indptr[i]), np.uint64(rows.indptr[i + 1])
        while k < last:
            column = np.uint64(rows.indices[k])
            end = np.uint64(ends[column])
            at[end], values[end] = i, rows.data[k]
            ends[column] += 1
            k += _ONE
    return starts, at, values


@kernel
def solve_eliminated(triangle, vectors, halfway):  # vectors: INOUT
    """Replace each of `vectors` by ``(R'R)**-1`` times it.

    Or only by ``R'**-1`` times it, in the order in which columns were eliminated.
    """
    diagonal, starts, places, values = triangle.diagonal, triangle.starts, triangle.places, triangle.values
    p = diagonal.size
    for vector in vectors:
        here = vector[triangle.columns]
        for t in range(p):
            here[t] /= diagonal[t]
            for e in range(starts[t], starts[t + 1]):
                here[places[e]] -= values[e] * here[t]
        if halfway:
            vector[:] = here
            continue
        for t in range(p - 1, -1, -1):
            for e in range(starts[t], starts[t + 1]):
                here[t] -= values[e] * here[places[e]]
            here[t] /= diagonal[t]
            vector[triangle.columns[t]] = here[t]
