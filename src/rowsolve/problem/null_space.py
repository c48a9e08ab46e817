"""Vectors of the null space of sparse rows that their structure shows."""

from __future__ import annotations

import math

import numpy as np

from rowsolve.kernels.rows import CSRRows

__all__ = ["obvious_null_space"]

_MOST_GROUPS = 16  # of dummy variables
_FEW_ROWS = 64  # that are examined first


def obvious_null_space(rows: CSRRows, n_columns: int) -> np.ndarray | None:
    """Return an orthonormal basis, in columns, of directions that no row reaches; None if the structure shows none.

    The rows of differences sum to zero. Dummy variables have rows with an entry of the same size in each of several
    groups of columns, so that a constant can be added to one group and subtracted from another.
    """
    (data, indices, indptr), n, p = rows, rows.indptr.size - 1, n_columns
    each = int(indptr[1] - indptr[0])
    if not 2 <= each <= _MOST_GROUPS or data.size != each * n or (np.diff(indptr) != each).any():
        return None
    values, columns = data.reshape(n, each), indices.reshape(n, each)
    if not values[0].sum() and not (values @ np.ones(each)).any():
        return np.full((p, 1), 1.0 / math.sqrt(p))
    for some in (
        slice(_FEW_ROWS),
        slice(None),
    ):  # mostly a few rows show that there are none
        groups = [k for k in range(each) if (values[some, k] == values[0, k]).all()]
        first, last = ([end(columns[some, k]) for k in range(each)] for end in (np.min, np.max))
        if len(groups) < 2 or any(a >= b for a, b in zip(last[:-1], first[1:], strict=True)):
            return None
    sums = np.zeros((p, len(groups)))
    for c, k in enumerate(groups):
        sums[columns[:, k], c] = 1.0 / values[0, k]  # contributes 1 to each row
    return np.linalg.qr(sums[:, 1:] - sums[:, :1])[0]
