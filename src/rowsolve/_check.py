"""Looking at rows that the solve never used, or at all of them, before x is given back."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from rowsolve._solution import Residual
from rowsolve._system import System
from rowsolve.kernels.rows import add_gradient, distances

__all__ = ["Finding", "distances_of", "full_check", "rows_off", "rows_that_reach", "sampled_check"]

_ORTHOGONAL = 1e-11  # cosine between a row and a vector of the null space, as rounding leaves it
ROWS_TO_CHECK = 256  # when all agree, at most 3 / 256 of all rows are off, with 95% confidence


@dataclass(frozen=True)
class Finding:
    """The residual, and the rows from whose hyperplanes x is further away than it may be."""

    residual: Residual
    off: np.ndarray


def distances_of(system: System, order: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return the distance of `x` from the hyperplane of each row in `order`."""
    out = np.empty(order.size)
    distances(system.rows, system.b, order, x, out, 0.0, system.odd)
    system.rows_read += order.size
    system.look_at_odd_rows()
    return out


def rows_off(system: System, order: np.ndarray, x: np.ndarray, limit: float) -> tuple[np.ndarray, float]:
    """Return those rows of `order` from whose hyperplanes `x` is further away than `limit`.

    And ``sum(r**2)`` in units of ``system.norm_b**2``.
    """
    out = np.empty(order.size)
    total = distances(system.rows, system.b, order, x, out, 1.0 / system.norm_b, system.odd)
    system.rows_read += order.size
    system.look_at_odd_rows()
    return order[~(out <= limit)], float(total)


def sampled_check(system: System, x: np.ndarray, limit: float, rng: np.random.Generator) -> Finding:
    """Look at 256 random rows, never used before as far as there are such."""
    order, n_fresh = system.sample(ROWS_TO_CHECK, rng)
    off, total = rows_off(system, order, x, limit)
    relative = _relative(total, system, order)
    return Finding(Residual(relative, order.size, n_fresh, full=order.size == system.n_rows), off)


def full_check(system: System, x: np.ndarray, limit: float) -> Finding:
    """Make one pass over A: the residual, ``norm(A.T @ r)``, and every row that is off."""
    total, off = 0.0, []
    gradient = np.zeros(system.n_columns)
    for start, stop in system.pieces():
        order, out = np.arange(start, stop), np.empty(stop - start)
        total += distances(system.rows, system.b, order, x, out, 1.0 / system.norm_b, system.odd)
        add_gradient(system.rows, system.b, order, x, gradient)
        off.append(order[~(out <= limit)])
    relative = _relative(total, system, slice(None))
    residual = Residual(relative, system.n_rows, 0, full=True, gradient=_norm(gradient))
    return Finding(residual, np.concatenate(off))


def rows_that_reach(system: System, z: np.ndarray) -> np.ndarray:
    """Make one pass over A; return the rows that are not orthogonal to `z`."""
    zero, limit = np.zeros(system.n_rows), _ORTHOGONAL * float(np.linalg.norm(z))
    found = []
    for start, stop in system.pieces():
        order, out = np.arange(start, stop), np.empty(stop - start)
        distances(system.rows, zero, order, z, out, 1.0, system.odd)
        found.append(order[~(out <= limit)])
    return np.concatenate(found)


def _relative(residual_sq: float, system: System, rows: np.ndarray | slice) -> float:
    norm_b = float(np.linalg.norm(system.b[rows] / system.norm_b))
    if norm_b > 0.0:
        return math.sqrt(residual_sq) / norm_b
    return 0.0 if residual_sq == 0.0 else math.inf


def _norm(vector: np.ndarray) -> float:
    """Return the norm without squaring what is too large or too small to be squared."""
    largest = float(np.abs(vector).max())
    return largest * float(np.linalg.norm(vector / largest)) if 0.0 < largest < math.inf else largest
