"""Looking at rows that the solve never used, or at all of them, before x is given back."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from rowsolve._solution import Residual
from rowsolve._system import System
from rowsolve.kernels.rows import add_gradient, distances

__all__ = ["Finding", "full_check", "rows_off", "sampled_check"]

ROWS_TO_CHECK = 256  # when all agree, at most 3 / 256 of all rows are off, with 95% confidence


@dataclass(frozen=True)
class Finding:
    """The residual, and the rows from whose hyperplanes x is further away than it may be."""

    residual: Residual
    off: np.ndarray


def rows_off(system: System, order: np.ndarray, x: np.ndarray, limit: float) -> tuple[np.ndarray, float]:
    """Return those rows of `order` from whose hyperplanes `x` is further away than `limit`; and ``sum(r**2)``."""
    out = np.empty(order.size)
    total = distances(system.rows, system.b, order, x, out, system.odd)
    system.rows_read += order.size
    system.look_at_odd_rows()
    return order[~(out <= limit)], float(total)


def sampled_check(system: System, x: np.ndarray, limit: float, rng: np.random.Generator) -> Finding:
    """Look at 256 random rows, never used before as far as there are such."""
    order, n_fresh = system.sample(ROWS_TO_CHECK, rng)
    off, total = rows_off(system, order, x, limit)
    relative = _relative(total, system.b[order])
    return Finding(Residual(relative, order.size, n_fresh, full=order.size == system.n_rows), off)


def full_check(system: System, x: np.ndarray, limit: float) -> Finding:
    """Make one pass over A: the residual, ``norm(A.T @ r)``, and every row that is off."""
    total, off = 0.0, []
    gradient = np.zeros(system.n_columns)
    for start, stop in system.pieces():
        order, out = np.arange(start, stop), np.empty(stop - start)
        total += distances(system.rows, system.b, order, x, out, system.odd)
        add_gradient(system.rows, system.b, order, x, gradient)
        off.append(order[~(out <= limit)])
    residual = Residual(
        _relative(total, system.b), system.n_rows, 0, full=True, gradient=float(np.linalg.norm(gradient))
    )
    return Finding(residual, np.concatenate(off))


def _relative(residual_sq: float, b: np.ndarray) -> float:
    norm_b = float(np.linalg.norm(b))
    if norm_b > 0.0:
        return math.sqrt(residual_sq) / norm_b
    return 0.0 if residual_sq == 0.0 else math.inf
