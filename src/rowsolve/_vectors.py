"""Products and norms of vectors in little time.

Where vectors are short, most of numpy's functions take longer to find out what they are given than to compute it. And
of long ones BLAS computes products on several threads, which go on spinning for a while on the cores that ours are
about to need.
"""

from __future__ import annotations

import math

import numpy as np

__all__ = ["norm", "norms", "pairs_of", "products", "sum_of_squares"]

_LONG = 10_000  # numbers in a vector, for which BLAS takes several threads


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
