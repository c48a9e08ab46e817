"""How narrow a band the Gram matrix of sparse rows is, with their columns as they come or in another order."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from rowsolve.kernels.gradient import widest_row
from rowsolve.kernels.ordering import order_columns
from rowsolve.kernels.rows import CSRRows

__all__ = ["NARROW", "Layout", "look_for_band", "narrow_band"]

NARROW = 64  # columns: a band so narrow needs no better order
_BANDED = 4  # times its width, that a band has columns to be worth while
_FEW_COLUMNS = 128  # of a Gram matrix that is not worth the trouble of a band


class Layout(NamedTuple):
    """How wide a band is with its columns in some `order` (None: as they come)."""

    width: int
    order: np.ndarray | None = None


def look_for_band(rows: CSRRows, n_columns: int, widest: int, limit: float = math.inf) -> Layout:
    """Return the narrowest layout that is easily found for rows of at most `widest` columns.

    One wider than `limit` is not looked for.
    """
    if widest <= NARROW:
        return Layout(widest)
    order, width = order_columns(rows.indices, rows.indptr, n_columns, min(limit, n_columns))
    return Layout(width, order) if 0 <= width < widest else Layout(widest)


def narrow_band(rows: Any, n_columns: int) -> Layout | None:
    """Return the band that sparse rows are as they come, if it is narrow and there are many columns."""
    if n_columns <= _FEW_COLUMNS or (widest := widest_row(rows)) > NARROW or _BANDED * widest > n_columns:
        return None
    return Layout(widest)
