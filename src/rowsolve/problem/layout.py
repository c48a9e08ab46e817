"""The band of the Gram matrix of sparse rows, with the columns in their given order or in another one."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from rowsolve.kernels.gradient import widest_row
from rowsolve.kernels.ordering import order_columns
from rowsolve.kernels.rows import CSRRows
from rowsolve.policy.thresholds import FEW_COLUMNS

__all__ = ["Layout", "look_for_band", "narrow_band"]

_BANDED = 4  # times its width: with fewer columns a band does not pay


class Layout(NamedTuple):
    """The width of a band with the columns in some `order` (None for the given order)."""

    width: int
    order: np.ndarray | None = None


def look_for_band(rows: CSRRows, n_columns: int, widest: int, limit: float = math.inf) -> Layout:
    """Return the narrowest layout that is found cheaply, for rows that span at most `widest` columns.

    No layout wider than `limit` is looked for.
    """
    if widest <= FEW_COLUMNS:  # so narrow that no better order is looked for
        return Layout(widest)
    order, width = order_columns(rows.indices, rows.indptr, n_columns, min(limit, n_columns))
    return Layout(width, order) if 0 <= width < widest else Layout(widest)


def narrow_band(rows: Any, n_columns: int) -> Layout | None:
    """Return the band of sparse rows in the given order of columns, if it is narrow and there are many columns."""
    if n_columns <= 2 * FEW_COLUMNS or (widest := widest_row(rows)) > FEW_COLUMNS or _BANDED * widest > n_columns:
        return None
    return Layout(widest)
