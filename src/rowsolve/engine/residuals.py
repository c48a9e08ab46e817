"""Residuals in some rows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rowsolve._solution import RowCheck
from rowsolve.kernels.rows import frozen, residuals
from rowsolve.lstsq.state import rows_of
from rowsolve.parallel.vectors import norm
from rowsolve.policy.thresholds import ROWS_TO_CHECK
from rowsolve.problem.system import System

__all__ = ["residual_of_some", "residuals_in", "residuals_of"]


def residuals_of(system: System, order: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return ``b_i - <a_i, x>`` for the rows in `order`."""
    found = [np.empty(0)]
    for part in system.parts(order):
        found.append(np.empty(part.order.size))
        residuals(part.rows, part.of(system.b), part.order, x, found[-1])
    system.counter.add(order.size)
    return np.concatenate(found)


def residual_of_some(A: Any, b: np.ndarray, x: np.ndarray, norm_b: float) -> RowCheck:
    """Return the residual in evenly spaced rows of a matrix; `x` has a row for each right-hand side."""
    step, sides = max(1, len(b) // ROWS_TO_CHECK), b.reshape(len(b), -1)
    rows = slice(0, step * min(len(b), ROWS_TO_CHECK), step)
    right, off = sides[rows] / norm_b, 0.0
    for column, one in zip(sides.T, x, strict=True):
        r = residuals_in(A, column, rows, one) / norm_b
        off += float(r @ r)
    expected = norm(right.ravel()) or math.sqrt(len(right) / len(b))  # if b is nonzero only in other rows
    of_all = math.sqrt(off * len(b) / len(right)) * norm_b
    return RowCheck(of_all, math.sqrt(off) / expected, len(right), 0, full=len(right) == len(b))


def residuals_in(A: Any, b: np.ndarray, rows: Any, x: np.ndarray) -> np.ndarray:
    """Return ``b - A x`` in some rows of a matrix; rows of a sparse one are not extracted, which would be slow."""
    if isinstance(A, np.ndarray):
        return b[rows] - A[rows] @ x
    order = np.arange(b.size)[rows]
    out = np.empty(order.size)
    residuals(rows_of(A), frozen(np.ascontiguousarray(b)), order, np.ascontiguousarray(x), out)
    return out
