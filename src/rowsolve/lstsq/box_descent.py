"""Conjugate gradients for least squares within bounds, with one pass over A for each step."""

from __future__ import annotations

import math
from typing import Any, ClassVar, NamedTuple

import numpy as np

from rowsolve.checkpoint.state import Kind, array, fill, flag, named, number, packed, state_of
from rowsolve.estimate.estimator import ErrorEstimator
from rowsolve.kernels.rows import CSRRows
from rowsolve.lstsq.box import slopes_inwards
from rowsolve.lstsq.conjugate import RESIDUAL, VECTORS, Residual, Vectors
from rowsolve.lstsq.factor import find_odd_rows
from rowsolve.lstsq.passes import Passes
from rowsolve.lstsq.probe import Probe
from rowsolve.lstsq.rounding import of_numbers
from rowsolve.parallel.vectors import norm, norms, products
from rowsolve.policy.thresholds import (
    EPS,
    LONG_SUM,
    ORDER_OF_MAGNITUDE,
    ROUNDED,
    SHORTEST_PROBE,
    SLOWEST_SETTLED,
    SPENT_PROBE,
)
from rowsolve.problem.system import System

__all__ = ["BoxDescent"]

_PARTS = ("estimator", "passes", "probe")


class _Goal(NamedTuple):
    """Where a gradient step from x leads within the bounds.

    Attributes
    ----------
    best : ndarray of shape (p,)
        The minimizer of the model within the bounds.
    x : ndarray of shape (p,)
        The same, except for entries that stay on their bound.
    free : ndarray of shape (p,)
        Which entries of `x` are free.
    lands : bool
        Whether entries that are free now are on a bound there, or the other way round.
    """

    best: np.ndarray
    x: np.ndarray
    free: np.ndarray
    lands: bool


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


class BoxDescent:
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

    Parameters
    ----------
    system, estimator, rng
        See `Descent`; `start` must be called before anything else.

    Attributes
    ----------
    vectors, residual, passes, probe
        See `Descent`.
    drift : ndarray of shape (1,)
        The possible error of x due to rounding of a gradient that is only updated.
    fresh : bool
        Whether the gradient was computed at the current x, rather than updated.
    """

    factor: ClassVar[None] = None  # a preconditioner would turn the bounds

    def __init__(self, system: System, estimator: ErrorEstimator, rng: np.random.Generator) -> None:
        assert system.bounds is not None
        self.system, self.estimator, self.vectors = system, estimator, Vectors.of(estimator.x0, None)
        self.residual, self.passes, self.probe = (
            Residual.computed(np.zeros(1)), Passes(system), Probe(system, estimator, rng)
        )  # fmt: skip
        self.drift, self.fresh = np.zeros(1), False
        low, high = system.bounds
        self._goal = _Goal(estimator.x0[0], estimator.x0[0], low < high, lands=False)
        self._size = 1.0  # of the model, ``M = I / size``
        self._changed = False  # whether z has other free entries than x
        self._most = 0.0  # the largest amplification, in units of the model

    def start(self) -> None:
        """Recompute the gradient at x (one pass) and restart from it."""
        at = self.vectors.at
        if norm(at[-1]) < SPENT_PROBE:
            at[-1] = self.probe.drawn_within(self._goal.free)
        slope, energies = self.passes.gradients(1.0, at)
        self.vectors, self.residual, self.fresh = (
            self.vectors._replace(slope=slope), Residual.computed(energies[:-1]), True
        )  # fmt: skip
        self.estimator.start_at(self.vectors.x)
        self.estimator.record(0.0)
        self._set_out()

    def advance(self, _: np.ndarray, __: np.ndarray) -> list[np.ndarray]:
        """Take a step; return the `steepness` after it."""
        self.step()
        return [self.vectors.steepness]

    def step(self) -> None:
        """Move x along the direction to the minimum or to a bound, and compute the next direction; make one pass."""
        vectors, renewed = self.vectors, self._changed
        z, direction = vectors.at[1], vectors.direction
        if renewed:
            direction[1] = z[:] = self.probe.drawn_within(self._goal.free)
        change, curvatures = self.passes.gradients(0.0, direction)
        curvature, gain = float(curvatures[0]), float(vectors.slope[0] @ direction[0])
        best = max(gain, 0.0) / curvature if curvature > 0.0 else 0.0
        length = self._go(best)
        vectors.slope[0] += length * change[0]
        if renewed:
            vectors.slope[1] = change[1]
            self.estimator.start_at(vectors.x)
            self.estimator.record(0.0)
        elif curvatures[1] > 0.0 and norm(z) > SHORTEST_PROBE:
            probe_length = vectors.worth[1] / curvatures[1]
            z += probe_length * direction[1]
            vectors.slope[1] += probe_length * change[1]
        self.residual = self.residual.lowered(np.array([length * (2.0 * gain - length * curvature)]))
        vectors.last_step[0], self.fresh = length * norm(direction[0]), False
        before = vectors.worth.copy()
        self._look()
        ratios = np.divide(vectors.worth, before, out=np.zeros(2), where=before > 0.0)
        ratios *= [length == best and not self._changed, not renewed]
        direction[:] = vectors.downhill + ratios[:, None] * direction

    def _go(self, best: float) -> float:
        """Move x by `best` times the direction, or as far as the bounds allow; return the length of the step.

        So that entries are exactly on the bound that they reach, x moves all the way to the goal unless that increases
        the squares. If it would, the model is too flat.
        """
        x, way = self.vectors.at[0], self.vectors.direction[0]
        low, high = self._bounds
        if self._goal.lands:
            if best > 0.5:  # the squares are lower there than at the start
                x[:] = self._goal.x
                return 1.0
            self._size *= max(best, 0.1)
        with np.errstate(divide="ignore", invalid="ignore"):
            room = np.where(way > 0.0, high - x, low - x) / way
        room[way == 0.0] = math.inf
        length = min(best, float(room.min()))
        x[:] = np.clip(x + length * way, low, high)
        x[:] = np.where(room <= length, np.where(way > 0.0, high, low), x)
        return length

    @property
    def _bounds(self) -> tuple[np.ndarray, np.ndarray]:
        assert self.system.bounds is not None
        return self.system.bounds

    def _set_out(self) -> None:
        """Choose the size of the model, and start in the direction of its minimizer."""
        vectors = self.vectors
        largest = float(np.abs(vectors.slope[-1]).max())
        if largest == 0.0:
            find_odd_rows(self.system, np.arange(self.system.n_rows))
        unit = 1.0 / (largest or 1.0)  # keeps squares in range
        self._size = unit * (norm(vectors.at[-1]) / norm(unit * vectors.slope[-1]) if largest > 0.0 else 1.0)
        self._look()
        vectors.direction[:] = vectors.downhill
        most = math.sqrt(self._size * self.estimator.amplification)
        self.drift = LONG_SUM * EPS * norms(most * np.where(self._goal.free, vectors.slope[:1], 0.0)) * most

    def _look(self) -> None:
        """Compute the minimizer of the model at x, and estimate the error."""
        vectors, free = self.vectors, self._goal.free
        (x, z), (slope, probe_slope), (low, high) = vectors.at, vectors.slope, self._bounds
        vectors.downhill[1] = np.where(free, self._size * probe_slope, 0.0)
        self._goal, probe_norm = _goal_from(x, slope, self._size, low, high), norm(vectors.downhill[1])
        least = self.estimator.amplification
        self.estimator.measure(norm(z), probe_norm, least=least if probe_norm > 0.0 else max(least, 1.0))
        vectors.downhill[0] = self._goal.x - x
        vectors.worth[:] = products(vectors.downhill, vectors.slope)
        self._changed = self._goal.lands or not np.array_equal(self._goal.free, free)
        # An entry that should leave its bound may do so in the slowest direction, which z shows only at its end.
        self._most = max(self._most, self.estimator.amplification * self._size)
        off, inside = self._goal.best - x, (low < x) & (x < high)
        of_free = self.estimator.of_change(norm(off[inside]))
        vectors.error[0] = math.hypot(of_free, norm(off[~inside]) * (self._most / self._size))

    def certify(self, allowed: float) -> tuple[float, bool]:
        """Return the deviation of x from optimality (see `Solution`), and whether x is optimal.

        It is if the recomputed gradient points inwards no more than an error of `allowed` explains.
        """
        if not self.fresh:
            self.start()
        x, system = self.vectors.x[0], self.system
        lengths = column_lengths(system)
        inwards = np.abs(slopes_inwards(self.vectors.slope[0], x, *self._bounds))
        steepest = float(np.divide(inwards, lengths, out=np.zeros_like(inwards), where=lengths > 0.0).max())
        rounding = ROUNDED * EPS * (math.sqrt(float(self.residual.sq[0])) + norm(lengths * x))
        is_optimal = steepest <= ORDER_OF_MAGNITUDE * allowed * norm(lengths) + rounding
        return steepest / system.facts.norm_b, is_optimal

    def needs_new_gradient(self, tolerated: np.ndarray) -> bool:
        """Return whether the gradient has been updated so often that it may be wrong by more than `tolerated`."""
        return not self.fresh and bool((self.drift > tolerated).any())

    def is_below(self, enough: np.ndarray) -> np.ndarray:
        """Return whether the error is at most `enough`, by the estimate (see `Descent.is_below`).

        When its free entries are found, x starts again with an error in slow directions. If no steps are left to do, z
        has not been slowed down by these since, and the slowest direction seen so far is used.
        """
        vectors, below = self.vectors, self.vectors.error <= enough
        satisfied = np.sqrt(self.residual.sq) <= ROUNDED * EPS * self.system.facts.norms_b
        if satisfied or vectors.error == 0.0:  # 0: all entries are on a bound
            return below
        worst = self.estimator.of_unlucky_start(vectors.x, norm(vectors.at[-1]))
        slowest = norm(self._goal.best - vectors.x[0]) * (self._most / self._size)
        return below & (((worst <= enough) & (not self._changed)) | (slowest <= SLOWEST_SETTLED * enough))

    def rounding_error(self, eps: float, *, at_its_end: bool = False) -> np.ndarray:
        """Return the error of x due to rounding; `eps` is the relative precision of A and b as given."""
        found: np.ndarray = self.estimator.floor(norms(self.vectors.x), of_numbers(self.system, eps))
        return found

    saved: ClassVar[dict[str, Kind]] = {
        "vectors": VECTORS,
        "residual": RESIDUAL,
        **dict.fromkeys(("_changed", "fresh"), flag),
        **dict.fromkeys(("_size", "_most"), number),
        "drift": array("k"),
        "_goal": named(_Goal, best=array("p"), x=array("p"), free=array("p", dtype=bool), lands=flag),
    }
    derived: ClassVar[tuple[str, ...]] = ("system", *_PARTS)

    def state(self) -> dict[str, Any]:
        """Return the state of the descent, which is always between two passes."""
        return {**state_of(self), **{name: packed(getattr(self, name)) for name in _PARTS}}

    def restore(self, state: Any, _: np.ndarray) -> None:
        """Restore a state."""
        fill(self, state, self.system.sizes, besides=_PARTS)
        for name in ("estimator", "probe"):
            getattr(self, name).restore(state[name], self.system.sizes)
        self.passes.restore(state["passes"], self.system.sizes, 0)


def _goal_from(x: np.ndarray, slope: np.ndarray, size: float, low: np.ndarray, high: np.ndarray) -> _Goal:
    """Return the goal of a gradient step. Entries on a bound stay there unless they gain more than the free ones.

    Each change of the free entries restarts the conjugate directions, so it must pay (Moré and Toraldo 1991; Dostál
    and Schöberl 2005).
    """
    best = np.clip(x + size * slope, low, high)
    inside, gain = (low < x) & (x < high), (best - x) ** 2
    y = best if gain[~inside].sum() > gain[inside].sum() else np.where(inside, best, x)
    free = (low < y) & (y < high)
    return _Goal(best, y, free, lands=bool(np.any((y - x)[~free])))
