"""Validation of the arguments of the functions in this package."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

__all__ = [
    "as_blocks",
    "as_matrix",
    "check_count",
    "check_fraction",
    "check_not_negative",
    "check_positive",
    "rank_of",
    "unit_rows",
]


def check_count(name: str, value: Any, least: int = 1) -> None:
    """Raise ValueError unless `value` is an integer of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ValueError(f"`{name}` must be an integer of at least {least}, got {value!r}.")


def check_fraction(name: str, value: Any) -> None:
    """Raise ValueError unless `value` is a number from 0 to 1."""
    if not _is_real(value) or not 0.0 <= value <= 1.0:
        raise ValueError(f"`{name}` must be a number from 0 to 1, got {value!r}.")


def check_not_negative(name: str, value: Any) -> None:
    """Raise ValueError unless `value` is a finite number of at least 0."""
    if not _is_real(value) or not 0.0 <= value < math.inf:
        raise ValueError(f"`{name}` must be a finite number of at least 0, got {value!r}.")


def check_positive(name: str, value: Any) -> None:
    """Raise ValueError unless `value` is a finite number above 0."""
    if not _is_real(value) or not 0.0 < value < math.inf:
        raise ValueError(f"`{name}` must be a finite number above 0, got {value!r}.")


def _is_real(value: Any) -> bool:
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def as_matrix(A: Any) -> np.ndarray:
    """Return `A`, an array or a scipy sparse matrix, as a finite two-dimensional array of float64."""
    A = np.asarray(A.toarray() if hasattr(A, "toarray") else A)
    if A.dtype.kind not in "biuf":
        raise ValueError(f"`A` must be real, got dtype {A.dtype}.")
    if A.ndim != 2 or A.size == 0:
        raise ValueError(f"`A` must be a matrix with at least one row and one column, got shape {A.shape}.")
    A = A.astype(np.float64, copy=False)
    bad = ~np.isfinite(A).all(axis=1)
    if bad.any():
        raise ValueError(f"`A` must be finite; row {int(np.argmax(bad))} is not.")
    return A


def as_blocks(blocks: Iterable[Any], n_rows: int) -> list[np.ndarray]:
    """Return `blocks` as arrays of row indices; raise ValueError if one is empty or has an index out of range."""
    found = [np.asarray(block) for block in blocks]
    if not found:
        raise ValueError("`blocks` must contain at least one block, got none.")
    for t, rows in enumerate(found):
        if rows.ndim != 1 or rows.size == 0 or rows.dtype.kind not in "iu":
            raise ValueError(f"block {t} must be a list of at least one row index, got {rows.tolist()!r}.")
        wrong = rows[(rows < 0) | (rows >= n_rows)]
        if wrong.size:
            raise ValueError(f"block {t} holds row {wrong[0]}, but the rows of `A` are 0 to {n_rows - 1}.")
    return [rows.astype(np.intp) for rows in found]


def unit_rows(A: np.ndarray) -> np.ndarray:
    """Return the rows of `A` scaled to norm 1; rows of zeros are unchanged.

    Each row is divided by its largest entry first, as the squares of 1e200 and 1e-200 are out of the range of float64.
    """
    largest = np.abs(A).max(axis=1, keepdims=True)
    scaled = A / np.where(largest > 0.0, largest, 1.0)
    norms = np.linalg.norm(scaled, axis=1, keepdims=True)
    return scaled / np.where(norms > 0.0, norms, 1.0)


def rank_of(singular_values: np.ndarray, shape: tuple[int, ...]) -> int:
    """Return the number of singular values, the largest first, above the rounding error for a matrix of that shape."""
    return int(np.sum(singular_values > singular_values[0] * max(shape) * np.finfo(float).eps))
