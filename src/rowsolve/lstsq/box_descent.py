"""Conjugate gradients for least squares within bounds, with one pass over A for each step."""

from __future__ import annotations

import math
from typing import Any, ClassVar, NamedTuple

import numpy as np

from rowsolve.checkpoint.state import Kind, StateError, array, flag, named, number
from rowsolve.kernels.rows import CSRRows
from rowsolve.lstsq.box import slopes_inwards
from rowsolve.lstsq.descent import Descent
from rowsolve.lstsq.factor import find_odd_rows
from rowsolve.parallel.vectors import norm, norms, products
from rowsolve.problem.system import System

__all__ = ["BoxDescent"]

_EPS = float(np.finfo(float).eps)
_UNLUCKY = 1e3  # see `Descent.is_below`
_ROUNDED = 64.0  # units of rounding of b: all equations are satisfied
_GOES_DOWN = 0.6  # of the way to the goal, at the minimum of the squares: above 0.5 the goal is lower than the start
_AT_ITS_END = 1e-13  # see `Descent.step`
_AT_REST = 1e-4  # of the error allowed, as estimated from the gradient for the slowest direction
_EXPLAINED = 10.0  # times the slope that the error allowed explains


class _Goal(NamedTuple):
    """The minimizer y of a model within the bounds, the direction to it, and which entries are then free."""

    best: np.ndarray
    x: np.ndarray
    free: np.ndarray


def column_lengths(system: System) -> np.ndarray:
    """Return the norm of each column of A with its damping; make one pass."""
    found = np.full(system.n_columns, system.damp**2)
    for piece in system.pieces():
        if isinstance(piece.rows, CSRRows):
            part = slice(piece.rows.indptr[piece.start], piece.rows.indptr[piece.stop])
            squares = piece.rows.data[part].astype(float) ** 2
            found += np.bincount(piece.rows.indices[part], squares, system.n_columns)
        else:
            rows = piece.rows.values[piece.start : piece.stop]
            found += np.einsum("ij,ij->j", rows, rows, dtype=float)
    return np.sqrt(found)


class BoxDescent(Descent):
    """Conjugate gradients on the free entries of x; the others are on a bound, with a slope that points outwards.

    The squares are modelled by ``m(y) = <y - x, M (y - x)> / 2 - <y - x, A'(b - A x)>``, where M is a multiple of the
    identity. The minimizer y of the model within the bounds is one gradient step, clipped to the bounds. While y has
    the same entries on the bounds as x, ``y - x`` is a multiple of the gradient in the free entries, from which
    conjugate directions are computed. When other entries reach a bound or leave it, x moves to y and the conjugate
    directions start again. No step increases the squares, whatever M is. In the terms of Moré and Toraldo (1991) and of
    Dostál and Schöberl (2005), these are gradient projection and conjugate gradients in the face.

    The error of x is estimated as ``norm(y - x)`` times the largest ``norm(z) / norm(v)`` so far. The probe z has only
    free entries and converges to a solution of ``A'A z = 0`` in these entries, with its own steps; there
    ``v = M**-1 A'A z``. When the free entries change, a new z is drawn, whose gradient is computed in the pass that
    moves x.
    """

    optimality: float | None = None  # the deviation of x from optimality, once computed

    def __init__(self, system: System, x0: np.ndarray, rng: np.random.Generator) -> None:
        assert system.bounds is not None
        self.low, self.high = system.bounds
        self._size = 1.0  # of the model, ``M = I / size``
        self._free = self.low < self.high
        self._changed = False  # whether z has other free entries than x
        self._most = 0.0  # the largest amplification, in units of the model
        super().__init__(system, x0, rng)

    def step(self, wanted: np.ndarray | None = None) -> None:
        """Move x along the direction to the minimum or to a bound, and compute the next direction; make one pass."""
        (x, z), renewed = self.at, self._changed
        if renewed:
            self.direction[1] = z[:] = self._new_probe()
        way = self.direction[0]
        change, squares = self._gradients(0.0, self.direction)
        curvatures = squares + self.system.damp**2 * products(self.direction, self.direction)
        curvature, gain = float(curvatures[0]), float(self.slope[0] @ way)
        best = max(gain, 0.0) / curvature if curvature > 0.0 else 0.0
        length = self._go(best)
        self.slope[0] += length * change[0]
        if renewed:
            self.slope[1], self._start, self.amplification = change[1], x.copy(), 0.0
        elif curvatures[1] > 0.0 and norm(z) > _AT_ITS_END:
            probe_length = self._promises[1] / curvatures[1]
            z += probe_length * self.direction[1]
            self.slope[1] += probe_length * change[1]
        self.residual_sq = np.maximum(self.residual_sq - length * (2.0 * gain - length * curvature), 0.0)
        self.last_step, self.fresh = np.array([length * norm(way)]), False
        before = self._promises
        self._look(slice(None))
        ratios = np.divide(self._promises, before, out=np.zeros(2), where=before > 0.0)
        ratios *= [length == best and not self._changed, not renewed]
        self.direction = self._downhill + ratios[:, None] * self.direction

    def _go(self, best: float) -> float:
        """Move x by `best` times the direction, or as far as the bounds allow; return the length of the step.

        So that entries are exactly on the bound that they reach, x moves all the way to the goal unless that increases
        the squares. If it would, the model is too flat.
        """
        x, way = self.at[0], self.direction[0]
        if self._lands:
            if best >= _GOES_DOWN:
                x[:] = self._goal.x
                return 1.0
            self._size *= max(best, 0.1)
        with np.errstate(divide="ignore", invalid="ignore"):
            room = np.where(way > 0.0, self.high - x, self.low - x) / way
        room[way == 0.0] = math.inf
        length = min(best, float(room.min()))
        x[:] = np.clip(x + length * way, self.low, self.high)
        x[:] = np.where(room <= length, np.where(way > 0.0, self.high, self.low), x)
        return length

    def _new_probe(self) -> np.ndarray:
        """Return a random vector of unit norm with free entries only; zero if there are none."""
        probe = np.where(self._free, self._rng.standard_normal(self.system.n_columns), 0.0)
        return probe / (norm(probe) or 1.0)

    def _set_out(self) -> None:
        self._start = self.x[0].copy()
        largest = float(np.abs(self.slope[-1]).max())
        if largest == 0.0:
            find_odd_rows(self.system, np.arange(self.system.n_rows))
        unit = 1.0 / (largest or 1.0)  # keeps squares in range
        self._size = unit * (norm(self.at[-1]) / norm(unit * self.slope[-1]) if largest > 0.0 else 1.0)
        self._downhill, self._changed, self.amplification = np.zeros_like(self.at), False, 0.0
        self._look(slice(None))
        self.direction = self._downhill.copy()
        most = math.sqrt(self._size * self.amplification)
        self._slope_at_start, self._inherited = np.where(self._free, self.slope[:1], 0.0), None
        self.drift = 8.0 * _EPS * norms(most * self._slope_at_start) * most

    def _look(self, moving: Any) -> None:
        """Compute the minimizer of the model at x, and estimate the error."""
        (x, z), (slope, probe_slope) = self.at, self.slope
        self._downhill[1] = np.where(self._free, self._size * probe_slope, 0.0)
        self._goal, probe_norm = self._goal_from(x, slope), norm(self._downhill[1])
        self.amplification = max(self.amplification, norm(z) / probe_norm if probe_norm > 0.0 else 1.0)
        self._downhill[0] = self._goal.x - x
        self._promises = products(self._downhill, self.slope)
        self._lands = bool(np.any(self._downhill[0][~self._goal.free]))
        self._changed = self._lands or not np.array_equal(self._goal.free, self._free)
        self._free = self._goal.free
        # An entry that should leave its bound may do so in the slowest direction, which z shows only at its end.
        self._most = max(self._most, self.amplification * self._size)
        off, inside = self._goal.best - x, (self.low < x) & (x < self.high)
        most = self._most / self._size
        self.error = np.array([math.hypot(norm(off[inside]) * self.amplification, norm(off[~inside]) * most)])
        self._largest_error = norm(off) * most

    def _goal_from(self, x: np.ndarray, slope: np.ndarray) -> _Goal:
        """Return the goal of a gradient step. Entries on a bound stay there unless they gain more than the free ones.

        Each change of the free entries restarts the conjugate directions, so it must pay (Moré and Toraldo 1991; Dostál
        and Schöberl 2005).
        """
        best = np.clip(x + self._size * slope, self.low, self.high)
        inside, gain = (self.low < x) & (x < self.high), (best - x) ** 2
        y = best if gain[~inside].sum() > gain[inside].sum() else np.where(inside, best, x)
        return _Goal(best, y, (self.low < y) & (y < self.high))

    def is_optimal(self, allowed: float) -> bool:
        """Return whether the recomputed gradient points inwards no more than an error of `allowed` explains.

        Set `optimality`.
        """
        if not self.fresh:
            self.start()
        x, system = self.x[0], self.system
        lengths = column_lengths(system)
        inwards = np.abs(slopes_inwards(self.slope[0], x, self.low, self.high))
        steepest = float(np.divide(inwards, lengths, out=np.zeros_like(inwards), where=lengths > 0.0).max())
        self.optimality = steepest / system.facts.norm_b
        rounding = _ROUNDED * _EPS * (math.sqrt(float(self.residual_sq[0])) + norm(lengths * x))
        return steepest <= _EXPLAINED * allowed * norm(lengths) + rounding

    @property
    def seems_still(self) -> bool:
        """Always False: the remaining gradient points out of the bounds."""
        return False

    def _look_for_rounding(self, energies: np.ndarray) -> None:
        """Do nothing, for the same reason."""

    def is_below(self, enough: np.ndarray) -> np.ndarray:
        """Return whether the error is at most `enough`, by the estimate (see `Descent.is_below`).

        When its free entries are found, x starts again with an error in slow directions. If no steps are left to do, z
        has not been slowed down by these since, and the slowest direction seen so far is used.
        """
        below = self.error <= enough
        satisfied = np.sqrt(self.residual_sq) <= _ROUNDED * _EPS * self.system.facts.norms_b
        if satisfied or self.error == 0.0:  # 0: all entries are on a bound
            return below
        share = math.sqrt(_UNLUCKY * self.system.n_columns) * norm(self.at[-1])
        worst = share / (1.0 - share) * norm(self.x[0] - self._start) if share < 1.0 else math.inf
        return below & (((worst <= enough) & (not self._changed)) | (self._largest_error <= _AT_REST * enough))

    saved: ClassVar[dict[str, Kind]] = {
        **{
            name: kind for name, kind in Descent.saved.items() if name not in ("_worth", "_worth_at_start", "under_way")
        },
        **dict.fromkeys(("_changed", "_lands"), flag),
        **dict.fromkeys(("_size", "_most", "_largest_error"), number),
        "_free": array("p", dtype=bool),
        "_start": array("p"),
        "_promises": array("v"),
        "_goal": named(_Goal, best=array("p"), x=array("p"), free=array("p", dtype=bool)),
    }
    derived = (*Descent.derived, "low", "high", "under_way", "optimality")

    @classmethod
    def from_state(cls, system: System, rng: np.random.Generator, state: Any, wanted: np.ndarray) -> BoxDescent:
        """Return the descent with that state, which is always between two passes."""
        descent = super().from_state(system, rng, state, wanted)
        assert isinstance(descent, cls)
        assert system.bounds is not None
        if descent.factor is not None:
            raise StateError("factor: expected none")
        descent.low, descent.high = system.bounds
        return descent
