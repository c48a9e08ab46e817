"""Rows compressed to the sums that least squares needs, and the pass that certifies an x.

The compressed state has p x p numbers, whatever the number of rows, and states of different rows can be added: row
blocks on several threads, chunks of a file, rows added later.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from rowsolve.kernels.gradient import add_gradients, add_products_of_sparse
from rowsolve.kernels.gram import add_products, place_of_sides, zeros_for_products
from rowsolve.kernels.rows import CSRRows, DenseRows, frozen
from rowsolve.parallel.blas import blas_threads
from rowsolve.parallel.pool import run_together
from rowsolve.policy.prices import GRAM_ENTRY, GRAM_NUMBER, PRODUCT, pairs_in_gram
from rowsolve.policy.thresholds import FEW_COLUMNS, FEW_NUMBERS, WORK_PER_THREAD

__all__ = ["Compressed", "compress", "compress_sparse", "is_short", "on_threads", "rows_of", "slopes_at"]

_BLOCK_NUMBERS = 1 << 16  # of a block of rows: 512 KB, which stay in the cache of a core
_READING = GRAM_NUMBER / PRODUCT  # multiplications in the time that it takes to read a number from memory


class Compressed(NamedTuple):
    """``A'A``, ``A'b`` and ``b'b`` of some rows.

    Attributes
    ----------
    gram : ndarray of shape (p, p), or Band
        Only its upper triangle counts.
    sides : ndarray of shape (p, k)
        ``A'b``, a column for each right-hand side.
    squares : ndarray of shape (k,)
        ``sum(b**2)`` of each right-hand side.
    n_rows : int
    """

    gram: Any
    sides: np.ndarray
    squares: np.ndarray
    n_rows: int

    def merge(self, other: Compressed) -> Compressed:
        """Return the state of both sets of rows together."""
        sums = self.gram + other.gram, self.sides + other.sides, self.squares + other.squares
        return Compressed(*sums, self.n_rows + other.n_rows)


def compress(A: Any, b: np.ndarray, threads: int = 1) -> Compressed:
    """Compress the rows of `A`, an array or a sparse matrix, with the right-hand sides `b` of shape (n, k)."""
    if not isinstance(A, np.ndarray):
        p = A.shape[1]
        gram, sums, squares = compress_sparse(A, b, (p, p), add_products_of_sparse, threads)
        return Compressed(gram, sums, squares, A.shape[0])
    p, k = A.shape[1], b.shape[1]
    if is_short(len(A), p):
        rows = A.astype(float, copy=False)
        return Compressed(rows.T @ rows, rows.T @ b, np.vecdot(b.T, b.T), len(A))
    work = len(A) * (p + k) * max(_READING, float(p))
    parts = on_threads(partial(_products_of_part, frozen(A), frozen(np.ascontiguousarray(b))), len(A), work, threads)
    total = parts[0]
    for part in parts[1:]:  # the same sum in any order of the threads
        total += part
    first = place_of_sides(p, k)
    with_squares = first == p and len(total) >= p + k  # not of many sides
    squares = total.diagonal()[p : p + k].copy() if with_squares else np.einsum("ij,ij->j", b, b)
    return Compressed(total[:p, :p], np.ascontiguousarray(total[:p, first : first + k]), squares, len(A))


def slopes_at(A: Any, b: np.ndarray, x: np.ndarray, threads: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Return ``A'(b - A x)`` and the sum of squares of each column of ``b - A x``; make one pass.

    Columns of `x` beyond those of `b` have a right-hand side of zero.
    """
    parts = on_threads(partial(_slopes_of_part, A, b, x), A.shape[0], A.size * max(_READING, 2.0 * x.shape[1]), threads)
    slope, squares = parts[0]
    for more, further in parts[1:]:
        slope, squares = slope + more, squares + further
    return slope, squares


def is_short(n_rows: int, n_columns: int) -> bool:
    """Return whether BLAS uses one thread for such a matrix by itself, in no more time than a kernel takes."""
    return n_rows * n_columns <= FEW_NUMBERS and n_columns <= FEW_COLUMNS


def on_threads(call: Callable[[int, int], Any], n_rows: int, work: float, threads: int) -> list[Any]:
    """Call `call` with the edges of each part of the rows, one for each thread that pays; return the results."""
    count = max(1, min(threads, int(work / WORK_PER_THREAD), n_rows))
    edges = [n_rows * part // count for part in range(count + 1)]
    with blas_threads(math.inf, 1) if count > 1 else nullcontext():
        return run_together([partial(call, edges[i], edges[i + 1]) for i in range(count)])


def _products_of_part(A: np.ndarray, b: np.ndarray, start: int, stop: int) -> np.ndarray:
    """Return ``A'A`` and ``A'b`` of some rows, side by side (see `add_products`)."""
    p, k = A.shape[1], b.shape[1]
    out = zeros_for_products(p, k)
    add_products(A, b, place_of_sides(p, k), start, stop, out)
    return out


def rows_of(A: Any) -> Any:
    """Return an array or a CSR matrix in the form that kernels accept."""
    return DenseRows(frozen(A)) if isinstance(A, np.ndarray) else CSRRows(*map(frozen, (A.data, A.indices, A.indptr)))


def compress_sparse(A: Any, b: np.ndarray, shape: tuple[int, int], add: Callable[..., None], threads: int) -> Any:
    """Return the Gram matrix of a CSR matrix, stored in this `shape`, ``A'b`` and ``b'b``.

    `add` is a kernel: it is called with rows, b, the edges of a part, and the sums to add to.
    """
    (n, p), rows, sides = A.shape, rows_of(A), frozen(np.ascontiguousarray(b))

    def sums_of_part(start: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
        gram, sums = np.zeros(shape), np.zeros((p, sides.shape[1]))
        add(rows, sides, start, stop, gram, sums)
        return gram, sums

    n_entries = math.prod(shape)
    price = pairs_in_gram(A.data.size * (A.data.size / n + b.shape[1]) / 2, math.sqrt(n_entries))  # at least
    work = price / PRODUCT if price > 2.0 * GRAM_ENTRY * n_entries else 0.0  # else half of it is no more than the sum
    (gram, sums), *others = on_threads(sums_of_part, n, work, threads)
    for more, further in others:  # the same sum in any order of the threads
        gram += more
        sums += further
    return gram, sums, np.vecdot(b.T, b.T)


def _slopes_by_kernel(A: Any, b: np.ndarray, x: np.ndarray, start: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the slopes of a part by a kernel, which takes an x and a column without a right-hand side at a time."""
    (p, m), k, rows = x.shape, b.shape[1], rows_of(A)
    slope, squares = np.zeros((p, m)), np.zeros(m)
    for c in range(max(k, m - k)):
        pair = [(place, column) for place, column in enumerate((c, k + c)) if column < (k, m)[place]]
        vectors, out, square = np.zeros((2, p)), np.zeros((2, p)), np.zeros(2)
        for place, column in pair:
            vectors[place] = x[:, column]
        side = frozen(np.ascontiguousarray(b[:, min(c, k - 1)]))
        add_gradients(rows, side, 1.0 if c < k else 0.0, start, stop, vectors, out, square)
        for place, column in pair:
            slope[:, column], squares[column] = out[place], square[place]
    return slope, squares


def _slopes_of_part(A: Any, b: np.ndarray, x: np.ndarray, start: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
    (p, k), n_sides = x.shape, b.shape[1]
    few = max(n_sides, k - n_sides) <= 2  # passes of a kernel: BLAS reads A twice, too
    if not isinstance(A, np.ndarray) or (few and not is_short(*A.shape) and A.flags.forc):
        return _slopes_by_kernel(A, b, x, start, stop)
    slope, squares = np.zeros((p, k)), np.zeros(k)
    step = max(1, _BLOCK_NUMBERS // p)
    for first in range(start, stop, step):
        last = min(first + step, stop)
        rows = A[first:last].astype(float, copy=False)
        if k == 1:  # vectors take less time than matrices of one column
            off = b[first:last, 0] - rows @ x[:, 0]
            slope[:, 0] += off @ rows
            squares[0] += off @ off
            continue
        r = -(rows @ x)
        r[:, :n_sides] += b[first:last]
        slope += rows.T @ r
        squares += np.einsum("ij,ij->j", r, r)
    return slope, squares
