"""Vectors of the null space of sparse rows that their structure shows."""

from __future__ import annotations

import math

import numpy as np

from rowsolve.kernels.rows import CSRRows
from rowsolve.policy.thresholds import FEW_COLUMNS, SPOTS

__all__ = ["obvious_null_space"]


def obvious_null_space(rows: CSRRows, n_columns: int) -> np.ndarray | None:
    """Return an orthonormal basis, in columns, of directions that no row reaches; None if the structure shows none.

    The rows of differences sum to zero. Dummy variables have rows with an entry of the same size in each of several
    groups of columns, so that a constant can be added to one group and subtracted from another.
    """
    (data, indices, indptr), n, p = rows, rows.indptr.size - 1, n_columns
    each = int(indptr[1] - indptr[0])
    if not 2 <= each <= FEW_COLUMNS or data.size != each * n or (np.diff(indptr) != each).any():
        return None
    values, columns = data.reshape(n, each), indices.reshape(n, each)
    if not values[0].sum() and not (values @ np.ones(each)).any():
        return np.full((p, 1), 1.0 / math.sqrt(p))
    if _groups_of(values[:SPOTS], columns[:SPOTS]) is None:  # mostly a few rows show that there are none
        return None
    groups = _groups_of(values, columns)
    if groups is None:
        return None
    sums = np.zeros((p, groups.size))
    for c, k in enumerate(groups):
        sums[columns[:, k], c] = 1.0 / values[0, k]  # contributes 1 to each row
    return np.linalg.qr(sums[:, 1:] - sums[:, :1])[0]


def _groups_of(values: np.ndarray, columns: np.ndarray) -> np.ndarray | None:
    """Return the entries of a row that are those of dummy variables, with the same value in every row.

    None if there are fewer than two, or if the columns of an entry and of the next one overlap.
    """
    groups = np.flatnonzero((values == values[0]).all(axis=0))
    apart = (columns.max(axis=0)[:-1] < columns.min(axis=0)[1:]).all()
    return groups if groups.size > 1 and apart else None
