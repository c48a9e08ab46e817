"""Fast products and norms of vectors.

For short vectors, the overhead of most numpy functions exceeds the time of the computation. For long ones, BLAS uses
several threads, which keep spinning for a while afterwards, on cores that our own threads need.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from rowsolve.policy.thresholds import LONG_VECTOR, ROWS_TO_COMPARE

__all__ = ["norm", "norms", "pairs_of", "products", "rows_for_the_tail", "sum_of_squares"]

_CACHE_LINE = 64 // np.dtype(float).itemsize  # consecutive rows that are read together in Fortran order
_GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0  # its multiples modulo 1 are evenly distributed


def sum_of_squares(vector: np.ndarray) -> float:
    """Return ``sum(vector**2)`` at the speed of memory; it may overflow or underflow."""
    return float(vector.dot(vector) if vector.size < LONG_VECTOR else np.einsum("i,i", vector, vector))


def pairs_of(indptr: np.ndarray) -> float:
    """Return the number of pairs of entries in the same row, for sparse rows with this `indptr`."""
    return sum_of_squares(np.diff(indptr).astype(float))


def norm(vector: np.ndarray) -> float:
    """Return the norm of a short vector."""
    return math.sqrt(vector.dot(vector))


def products(vectors: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Return the inner products of the rows of `vectors` with the corresponding rows of `others`."""
    if vectors.shape[1] < LONG_VECTOR:
        return np.vecdot(vectors, others)
    return np.einsum("cj,cj->c", vectors, others)


def norms(vectors: np.ndarray) -> np.ndarray:
    """Return the norms of the rows of `vectors`."""
    return np.sqrt(products(vectors, vectors))


@lru_cache(maxsize=16)  # computing them takes as long as a small solve
def rows_for_the_tail(n_rows: int) -> Any:
    """Return the rows whose residuals are checked for outliers: all, or a sample that is spread evenly."""
    if n_rows < 2 * ROWS_TO_COMPARE:
        return slice(None)
    firsts = np.arange(ROWS_TO_COMPARE // _CACHE_LINE) * _GOLDEN % 1.0 * (n_rows // _CACHE_LINE)
    rows = (_CACHE_LINE * firsts.astype(np.int64)[:, None] + np.arange(_CACHE_LINE)).ravel()
    rows.flags.writeable = False
    return rows
