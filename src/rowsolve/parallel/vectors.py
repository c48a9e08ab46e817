"""Products and norms of vectors in little time.

Where vectors are short, most of numpy's functions take longer to find out what they are given than to compute it. And
of long ones BLAS computes products on several threads, which go on spinning for a while on the cores that ours are
about to need.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

__all__ = ["norm", "norms", "pairs_of", "products", "rows_for_the_tail", "sum_of_squares"]

_LONG = 10_000  # numbers in a vector, for which BLAS takes several threads
_ROWS_FOR_THE_TAIL, _IN_A_ROW = 1024, 8  # of which so many follow each other: a cache line, if in columns
_GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0  # its multiples are spread evenly between the integers


def sum_of_squares(vector: np.ndarray) -> float:
    """Return ``sum(vector**2)`` at the speed of memory; it may leave the range of float64."""
    return float(vector.dot(vector) if vector.size < _LONG else np.einsum("i,i", vector, vector))


def pairs_of(indptr: np.ndarray) -> float:
    """Return how many pairs of numbers are in one row, of sparse rows that begin at these places."""
    return sum_of_squares(np.diff(indptr).astype(float))


def norm(vector: np.ndarray) -> float:
    """Return the norm of a short vector."""
    return math.sqrt(vector.dot(vector))


def products(vectors: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Return the product of each of `vectors` with the one of `others` in the same row."""
    if vectors.shape[1] < _LONG:
        return np.vecdot(vectors, others)
    return np.einsum("cj,cj->c", vectors, others)


def norms(vectors: np.ndarray) -> np.ndarray:
    """Return the norm of each of `vectors`."""
    return np.sqrt(products(vectors, vectors))


@lru_cache(maxsize=16)  # to make them takes as long as a small solve
def rows_for_the_tail(n_rows: int) -> Any:
    """Return the rows whose residuals tell whether some are far off: all, or some that are spread evenly."""
    if n_rows < 2 * _ROWS_FOR_THE_TAIL:
        return slice(None)
    firsts = np.arange(_ROWS_FOR_THE_TAIL // _IN_A_ROW) * _GOLDEN % 1.0 * (n_rows // _IN_A_ROW)
    rows = (_IN_A_ROW * firsts.astype(np.int64)[:, None] + np.arange(_IN_A_ROW)).ravel()
    rows.flags.writeable = False
    return rows
