"""Conjugate gradients for least squares within bounds, each step one pass over A."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from rowsolve._blas import blas_threads
from rowsolve._state import Kind, StateError, array, check_keys, fill, flag, named, number, packed, state_of
from rowsolve._vectors import norm, norms, products
from rowsolve.kernels.rows import CSRRows
from rowsolve.lstsq.box import slopes_inwards
from rowsolve.methods.descent import Descent
from rowsolve.methods.factor import Factor, find_odd_rows

if TYPE_CHECKING:
    from rowsolve._system import System

__all__ = ["BoxDescent"]

_EPS = float(np.finfo(float).eps)
_UNLUCKY = 1e3  # see `Descent.is_below`
_ROUNDED = 64.0  # units of rounding of b: all equations are satisfied
_GOES_DOWN = 0.6  # of the way to the goal where the square is least: the goal is lower than the start from 0.5 on
_MOST_TURNS = 100  # of pivoting, which as a rule takes ten at most
_CHANCES = 3  # turns that may exchange more than one entry although there are no fewer wrong ones
_AT_ITS_END = 1e-13  # see `Descent.step`
_SPENT = 1e-6  # see `Descent.start`
_AT_REST = 1e-4  # of the error asked for, as the slowest direction makes it of the gradient
_EXPLAINED = 10.0  # times the slope that an error as large as allowed makes
_RIDGE = 1e-13  # of the diagonal, where rounding has made a matrix indefinite


class _Goal(NamedTuple):
    """The best point y within the bounds as a model has it, where to go, and which entries are then free."""

    best: np.ndarray
    x: np.ndarray
    free: np.ndarray


class _Multiple:
    """The model ``M = I / size``: its best point is one step downhill, cut off at the bounds."""

    def __init__(self, bounds: tuple[np.ndarray, np.ndarray], size: float) -> None:
        self.low, self.high = bounds
        self.size = size

    def goal(self, x: np.ndarray, slope: np.ndarray) -> _Goal:
        """Step downhill. Entries on a bound stay there unless they gain more than the free ones.

        Each change of the free entries starts the conjugate directions anew, so it must be worth it (Moré and Toraldo
        1991; Dostál and Schöberl 2005).
        """
        best = np.clip(x + self.size * slope, self.low, self.high)
        inside, gain = (self.low < x) & (x < self.high), (best - x) ** 2
        y = best if gain[~inside].sum() > gain[inside].sum() else np.where(inside, best, x)
        return _Goal(best, y, (self.low < y) & (y < self.high))

    def solve(self, slope: np.ndarray, free: np.ndarray) -> np.ndarray:
        """Return ``M**-1`` times `slope` for the free entries, 0 for the others."""
        return np.where(free, self.size * slope, 0.0)

    saved: ClassVar[dict[str, Kind]] = {"size": number}
    derived: ClassVar[tuple[str, ...]] = ("low", "high")

    def state(self) -> dict[str, Any]:
        """Return its size."""
        return state_of(self)

    @classmethod
    def from_state(cls, bounds: tuple[np.ndarray, np.ndarray], state: Any) -> _Multiple:
        """Return the model with that state."""
        model = cls(bounds, 1.0)
        fill(model, state, {})
        return model


class _Quadratic:
    """The model ``M = R'R / size``, whose best point within the bounds is found by block pivoting (Júdice, Pires 1994).

    Entries are free or on a bound. The free ones are solved for; those that leave the bounds are put on them, those on
    a bound with a slope that leads inwards become free, all at once; one by one where that does not make them fewer.
    """

    def __init__(self, bounds: tuple[np.ndarray, np.ndarray], factor: Factor) -> None:
        self.low, self.high = bounds
        self.size = 1.0
        self._gram, self._unit = factor.gram()
        self._place = np.zeros(len(self.low), np.int8)  # -1: on the lower bound, 1: on the upper, 0: free
        self._free, self._triangle = np.zeros(len(self.low), bool), np.empty((0, 0))

    def goal(self, x: np.ndarray, slope: np.ndarray) -> _Goal:
        """Return the best point; where pivoting does not end, the last one cut off at the bounds."""
        low, high, place, pull = self.low - x, self.high - x, self._place, self.size * slope / self._unit
        fewest, chances, movable = place.size + 1, 0, self.low < self.high
        place[:] = np.where(movable, place, -1)
        for _ in range(_MOST_TURNS):
            move = np.where(place < 0, low, np.where(place > 0, high, 0.0))
            free = place == 0
            move[free] = self._solve_free((pull - self._gram @ move)[free], free)
            product = self._gram @ move
            rounding = 8.0 * _EPS * np.sqrt(np.maximum(self._gram.diagonal() * (move @ product), 0.0))
            inwards = place * (product - pull) > rounding
            wrong = np.where(free, (move < low) | (move > high), inwards & movable)
            count = int(wrong.sum())
            if count == 0:
                break
            chances = _CHANCES if count < fewest else chances - 1
            fewest = min(count, fewest)
            if chances < 0:
                wrong[: np.flatnonzero(wrong)[-1]] = False
            place[wrong] = np.where(free, np.where(move < low, -1, 1), 0)[wrong]
        y = np.where(place < 0, self.low, np.where(place > 0, self.high, np.clip(x + move, self.low, self.high)))
        return _Goal(y, y, place == 0)

    def solve(self, slope: np.ndarray, free: np.ndarray) -> np.ndarray:
        """Return ``M**-1`` times `slope` for the free entries, 0 for the others."""
        found = np.zeros_like(slope)
        found[free] = self._solve_free(self.size * slope[free] / self._unit, free)
        return found

    def _solve_free(self, right: np.ndarray, free: np.ndarray) -> np.ndarray:
        from scipy.linalg import lapack

        if not right.size:
            return right
        if not np.array_equal(free, self._free):
            part, ridge, info = self._gram[np.ix_(free, free)], _RIDGE, 1
            while info != 0:
                self._triangle, info = lapack.dpotrf(part, lower=1)
                part.ravel()[:: len(part) + 1] *= 1.0 + ridge
                ridge *= 10.0
            self._free = free
        return lapack.dpotrs(self._triangle, right, lower=1)[0]

    saved: ClassVar[dict[str, Kind]] = {
        **dict.fromkeys(("size", "_unit"), number),
        "_gram": array("p", "p"),
        "_place": array("p", dtype=np.int8),
        "_free": array("p", dtype=bool),
        "_triangle": array("free", "free", order="F"),
    }
    derived: ClassVar[tuple[str, ...]] = ("low", "high")

    def state(self) -> dict[str, Any]:
        """Return all but the bounds."""
        return state_of(self)

    @classmethod
    def from_state(cls, bounds: tuple[np.ndarray, np.ndarray], state: Any) -> _Quadratic:
        """Return the model with that state."""
        model = cls.__new__(cls)
        model.low, model.high = bounds
        fill(model, state, {"p": len(model.low)})
        if len(model._triangle) != np.count_nonzero(model._free):
            raise StateError("_triangle: expected one of all free entries")
        if not np.isfinite(model._gram).all() or not (model._gram.diagonal() > 0.0).all():
            raise StateError("_gram: expected finite numbers, positive ones on the diagonal")
        return model


def column_lengths(system: System) -> np.ndarray:
    """Return the norm of each column of A and its damping: one pass."""
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
    """Conjugate gradients on the free entries of x; the others are on a bound that they press against.

    A model ``m(y) = <y - x, M (y - x)> / 2 - <y - x, A'(b - A x)>`` of the squares knows its best point y within the
    bounds. Without a factor M is a multiple of the identity and y one step downhill, cut off at the bounds; with one, M
    is ``R'R`` of all rows, and y is the solution but for rounding. While y has the same entries on the bounds as x,
    ``y - x`` is the preconditioned gradient of the free entries, and conjugate directions are made of it. When others
    come to a bound or leave it, x goes to y and directions begin anew. No step goes uphill, whatever M is. In the terms
    of Moré and Toraldo (1991) and of Dostál and Schöberl (2005): gradient projection, and conjugate gradients in the
    face.

    The error of x is estimated as ``norm(y - x)`` times the largest ``norm(z) / norm(v)`` so far. The probe z has only
    free entries and goes towards ``A'A z = 0``, as far as that concerns them, in steps of its own; ``v = M**-1 A'A z``
    there. When the free entries change there is a new z, whose gradient is computed in the pass that moves x.
    """

    def __init__(self, system: System, x0: np.ndarray, rng: np.random.Generator) -> None:
        assert system.bounds is not None
        self.low, self.high = system.bounds
        self._model: Any = None
        self._free = self.low < self.high
        self._changed = False  # whether z has other free entries than x
        self._most = 0.0  # the largest amplification, in units of the model
        super().__init__(system, x0, rng)

    def precondition(self, factor: Factor) -> None:
        """Go on from here with `factor`."""
        assert self.system.bounds is not None
        self._free = np.zeros_like(self._free)  # a new z, with the next step
        with blas_threads(self.system.n_columns**3, self.system.threads):
            self.factor, self._model, self._most = factor, _Quadratic(self.system.bounds, factor), 0.0
        self._set_out()

    def step(self, wanted: np.ndarray | None = None) -> None:
        """Go along the direction as far as the squares fall and the bounds allow, and turn: one pass."""
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
        """Move x by `best` times the direction or as far as may be; return how far that was.

        Entries that are to come to a bound shall be there exactly, so x goes all the way to the goal if that is not
        uphill. If it would be, the model was too flat.
        """
        x, way = self.at[0], self.direction[0]
        if self._lands:
            if best >= _GOES_DOWN:
                x[:] = self._goal.x
                return 1.0
            self._model.size *= max(best, 0.1)
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
        if self.factor is None:
            largest = float(np.abs(self.slope[-1]).max())
            if largest == 0.0:
                find_odd_rows(self.system, np.arange(self.system.n_rows))
            assert self.system.bounds is not None
            unit = 1.0 / (largest or 1.0)  # keeps squares in range
            size = norm(self.at[-1]) / norm(unit * self.slope[-1]) if largest > 0.0 else 1.0
            self._model = _Multiple(self.system.bounds, unit * size)
        self._downhill, self._changed, self.amplification = np.zeros_like(self.at), False, 0.0
        self._look(slice(None))
        self.direction = self._downhill.copy()
        most = self.factor.spread if self.factor is not None else math.sqrt(self._model.size * self.amplification)
        self._slope_at_start, self._inherited = np.where(self._free, self.slope[:1], 0.0), None
        self.drift = 8.0 * _EPS * norms(most * self._slope_at_start) * most

    def _look(self, moving: Any) -> None:
        """Find the best point of the model from x, and estimate the error."""
        (x, z), (slope, probe_slope) = self.at, self.slope
        with blas_threads(self.system.n_columns**3 / 3 if self.factor is not None else 0.0, self.system.threads):
            self._downhill[1] = self._model.solve(probe_slope, self._free)
            self._goal = self._model.goal(x, slope)
        probe_norm, spent = norm(self._downhill[1]), self.factor is not None and norm(z) < _SPENT
        if not spent:
            self.amplification = max(self.amplification, norm(z) / probe_norm if probe_norm > 0.0 else 1.0)
        self._downhill[0] = self._goal.x - x
        self._promises = products(self._downhill, self.slope)
        self._lands = bool(np.any(self._downhill[0][~self._goal.free]))
        self._changed = spent or self._lands or not np.array_equal(self._goal.free, self._free)
        self._free = self._goal.free
        # An entry that should leave its bound may do so in the slowest direction, which z knows only at its end.
        self._most = max(self._most, self.amplification * self._model.size)
        off, inside = self._goal.best - x, (self.low < x) & (x < self.high)
        most = self._most / self._model.size
        self.error = np.array([math.hypot(norm(off[inside]) * self.amplification, norm(off[~inside]) * most)])
        self._largest_error = norm(off) * most

    def is_optimal(self, allowed: float) -> bool:
        """Tell whether the gradient, computed afresh, leads inwards no more than an error of `allowed` explains.

        How far it does is noted as `optimality` of the system.
        """
        if not self.fresh:
            self.start()
        x, system = self.x[0], self.system
        lengths = self.factor.lengths if self.factor is not None else column_lengths(system)
        inwards = np.abs(slopes_inwards(self.slope[0], x, self.low, self.high))
        steepest = float(np.divide(inwards, lengths, out=np.zeros_like(inwards), where=lengths > 0.0).max())
        system.optimality = steepest / system.norm_b
        rounding = _ROUNDED * _EPS * (math.sqrt(float(self.residual_sq[0])) + norm(lengths * x))
        return steepest <= _EXPLAINED * allowed * norm(lengths) + rounding

    @property
    def seems_still(self) -> bool:
        """Never: what is left of a gradient presses against bounds."""
        return False

    def _look_for_rounding(self, energies: np.ndarray) -> None:
        """Do nothing, for the same reason."""

    def is_below(self, enough: np.ndarray) -> np.ndarray:
        """Tell whether the error is at most `enough`, as far as can be known (see `Descent.is_below`).

        Without a factor, x has started anew where its free entries were found, with an error in slow directions. If
        there was nothing left to do, z has seen none of these since; then the slowest that was ever seen must do.
        """
        below = self.error <= enough
        satisfied = np.sqrt(self.residual_sq) <= _ROUNDED * _EPS * self.system.norms_b
        if self.factor is not None or satisfied or self.error == 0.0:  # 0: all press against their bounds
            return below
        share = math.sqrt(_UNLUCKY * self.system.n_columns) * norm(self.at[-1])
        worst = share / (1.0 - share) * norm(self.x[0] - self._start) if share < 1.0 else math.inf
        return below & (((worst <= enough) & (not self._changed)) | (self._largest_error <= _AT_REST * enough))

    saved: ClassVar[dict[str, Kind]] = {
        **{
            name: kind for name, kind in Descent.saved.items() if name not in ("_worth", "_worth_at_start", "under_way")
        },
        **dict.fromkeys(("_changed", "_lands"), flag),
        **dict.fromkeys(("_most", "_largest_error"), number),
        "_free": array("p", dtype=bool),
        "_start": array("p"),
        "_promises": array("v"),
        "_goal": named(_Goal, best=array("p"), x=array("p"), free=array("p", dtype=bool)),
    }
    derived = (*Descent.derived, "low", "high", "_model", "under_way")

    def state(self) -> dict[str, Any]:
        """Return where it has got to."""
        return {**super().state(), "model": packed(self._model)}

    @classmethod
    def from_state(cls, system: System, rng: np.random.Generator, state: Any, wanted: np.ndarray) -> BoxDescent:
        """Return the descent that has got there; it is always between two passes."""
        check_keys(state, (*cls.saved, "factor", "outliers", "model"))
        rest = {key: value for key, value in state.items() if key != "model"}
        descent = super().from_state(system, rng, rest, wanted)
        assert isinstance(descent, cls)
        assert system.bounds is not None
        descent.low, descent.high = system.bounds
        model = _Multiple if descent.factor is None else _Quadratic
        descent._model = model.from_state(system.bounds, state["model"])
        return descent
