"""Least squares within bounds from a triangle of all rows, by exchanging free entries of x until x is optimal."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from rowsolve.estimate.estimator import ErrorEstimator
from rowsolve.lstsq.normal import GramFactor, Slopes, factor_gram, noise_of, norms
from rowsolve.lstsq.orthogonal import Orthogonal, scaled_columns
from rowsolve.lstsq.state import Compressed, slopes_at
from rowsolve.lstsq.triangle import Triangle, triangle_of
from rowsolve.parallel.vectors import norm
from rowsolve.policy.thresholds import AS_GIVEN, BY_ROUNDING, CHANCES, EPS, ROUNDED, SHRINKS, STEPS, SUM, SURE

__all__ = ["BoxFit", "fit_within", "slopes_inwards"]

_WORTH = math.sqrt(BY_ROUNDING)  # of the residual


class BoxFit(NamedTuple):
    """The least-squares solution within bounds, and its properties.

    Attributes
    ----------
    x : ndarray of shape (p,)
    error : float
        Estimated distance to the nearest x that is optimal.
    residual_sq : float
        ``norm(b - A x)**2``, without the damping.
    optimality : float
        The largest entry of the gradient that points inwards, divided by the norms of its column and of b; 0 at an
        optimum.
    is_optimal : bool
        Whether `optimality` is zero up to rounding.
    unique : bool
        Whether the solution within the bounds is unique.
    """

    x: np.ndarray
    error: float
    residual_sq: float
    optimality: float
    is_optimal: bool
    unique: bool


def fit_within(
    state: Triangle | Compressed,
    bounds: tuple[np.ndarray, np.ndarray],
    estimator: ErrorEstimator,
    damp: float,
    slopes: Slopes,
    has_time: Callable[[], bool] = lambda: True,
) -> BoxFit | None:
    """Minimise ``norm(A x - b)**2 + damp**2 norm(x)**2`` for x within `bounds`.

    Entries of x are free or on a bound (Stark and Parker 1995). The problem is solved for the free entries, which stop
    at the first bound that they meet; if all are within the bounds, the entry on a bound with the steepest slope
    inwards becomes free. At first many entries are exchanged at once. All of this uses a triangle; then a pass over A
    computes the slope at x, which shows whether x is optimal. If it is not, because of rounding, exchanges continue
    with that slope.

    Parameters
    ----------
    state : Triangle or Compressed
        Of all rows; a triangle is damped already.
    bounds : pair of ndarrays of shape (p,)
    estimator : ErrorEstimator
        With the initial x, which is within the bounds. x is corrected until its error is allowed, or until corrections
        are due to rounding.
    damp : float
    slopes : callable
        One pass: ``slopes(x)`` returns ``A'(b - A x)`` and the squared norm of the residual, for x as a column.
    has_time : callable
        As soon as it returns False, the best x so far is returned as not optimal.

    Returns
    -------
    BoxFit or None
        None if the squares of A, which are all that a compressed state has, do not determine x.
    """
    if isinstance(state, Triangle):
        box = _Exchange(_Scaled.of(state, bounds), estimator.x0[0])
        return _optimum(box, bounds, estimator, damp, slopes, has_time)
    factor = factor_gram(state.gram, damp)
    if factor is None:
        return None
    passes = _WithNullVectors(factor, slopes) if factor.deficient else None
    box = _Exchange(_Scaled.of(triangle_of(state, factor), bounds), estimator.x0[0])
    found = _optimum(box, bounds, estimator, damp, passes or slopes, has_time)
    if not has_time():
        return found
    sure = passes is None or passes.are_null(found.x, max(state.n_rows, len(found.x)) * EPS)
    return found if found.is_optimal and sure else None


def _optimum(
    box: _Exchange, bounds: tuple[np.ndarray, np.ndarray], estimator: ErrorEstimator, damp: float, slopes: Slopes,
    has_time: Any,
) -> BoxFit:  # fmt: skip
    """Exchange entries on the triangle, and certify x by passes (see `fit_within`)."""
    error, problem = math.inf, box.problem
    for _ in range(STEPS):
        box.run(has_time)
        x = box.x_within(bounds)
        if not has_time():
            left = problem.squares + problem.size**2 * box.cost() - damp * damp * float(x @ x)
            return BoxFit(x, math.nan, max(left, 0.0), math.nan, is_optimal=False, unique=True)
        slope, residual_sq = slopes(x[:, None])
        box.renew(slope[:, 0] - damp * damp * x)
        residual = math.sqrt(float(residual_sq[0]) + damp * damp * float(x @ x))
        rounding = ROUNDED * problem.unit_of_rounding(residual, box.x)
        steepest, before, error = box.steepest(), error, box.error()
        is_optimal = steepest <= rounding < math.inf
        enough = SURE * float(estimator.allowed(np.array([norm(x)]))[0])
        if is_optimal and (error <= enough or error >= SHRINKS * before):
            break
    error = max(error, box.floor(estimator.tolerance.eps, residual))
    optimality, unique = steepest * problem.size / problem.norm_b, box.is_unique(rounding)
    return BoxFit(x, error, float(residual_sq[0]), optimality, is_optimal, unique)


class _WithNullVectors:
    """Passes that also check two random null vectors of a Gram matrix, which has only half of the digits."""

    def __init__(self, factor: GramFactor, slopes: Slopes) -> None:
        noise = noise_of(len(factor.lengths))[:, :2]
        self.factor, self.slopes, self.vectors = factor, slopes, noise - factor.project(noise)
        self.left = math.inf

    def __call__(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Make one pass for x and for the null vectors v, note the size of A v, and correct v as x would be."""
        slope, squares = self.slopes(np.hstack([x, self.vectors]))
        self.left = float((np.sqrt(squares[1:]) / norms(self.factor.lengths * self.vectors)).max())
        self.vectors = self.vectors + self.factor.solve(slope[:, 1:])
        return slope[:, :1], squares[:1]

    def are_null(self, x: np.ndarray, limit: float) -> bool:
        """Return whether A v is zero up to rounding, after further passes at x if it was not yet."""
        for _ in range(STEPS):
            if self.left > limit:
                self(x[:, None])
        return self.left <= limit


def slopes_inwards(slope: np.ndarray, x: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return the descent direction `slope` with 0 for the entries that point out of the bounds."""
    inwards = np.where(x <= low, np.maximum(slope, 0.0), slope)
    inwards = np.where(x >= high, np.minimum(inwards, 0.0), inwards)
    return np.where(low < high, inwards, 0.0)


class _Scaled(NamedTuple):
    """A least-squares problem within bounds, with columns of unit norm and entries of the right-hand side up to 1.

    Attributes
    ----------
    R, c : ndarrays of shape (rank, p) and (rank,)
        Minimise ``norm(R x - c)``.
    gram : ndarray of shape (p, p)
        ``R'R``.
    low, high : ndarrays of shape (p,)
    lengths : ndarray of shape (p,)
        The norms of the columns before they were scaled.
    size : float
        The factor of the right-hand side.
    squares : float
        The squared residual that no x reduces, not scaled.
    norm_b : float
        The norm of b, not scaled.
    n_rows : int
        The number of rows of A.
    """

    R: np.ndarray
    c: np.ndarray
    gram: np.ndarray
    low: np.ndarray
    high: np.ndarray
    lengths: np.ndarray
    size: float
    squares: float
    norm_b: float
    n_rows: int

    @classmethod
    def of(cls, state: Triangle, bounds: tuple[np.ndarray, np.ndarray]) -> _Scaled:
        """Return the problem of a triangle of all rows."""
        lengths, sides, squares = scaled_columns(state.triangle), state.sides[:, 0], float(state.squares[0])
        size, norm_b = float(np.abs(sides).max()) or 1.0, math.hypot(*sides, math.sqrt(squares)) or 1.0
        rank = int(np.flatnonzero(state.triangle.any(axis=1)).max(initial=0)) + 1  # or more: the others are zero
        R, c = state.triangle[:rank] / lengths, sides[:rank] / size
        low, high = (bound * lengths / size for bound in bounds)
        return cls(R, c, R.T @ R, low, high, lengths, size, squares, norm_b, max(1, state.n_rows))

    @property
    def movable(self) -> np.ndarray:
        """The entries whose bounds are not equal."""
        return self.low < self.high

    def left(self, x: np.ndarray) -> np.ndarray:
        """Return ``c - R x``."""
        return self.c - self.R @ x

    def unit_of_rounding(self, residual: float, x: np.ndarray) -> float:
        """Return a unit of rounding of a slope at x, if the residual before scaling has that norm."""
        return EPS * (residual / self.size + norm(x))


class _Factors:
    """Factors of some columns of R; the last one is kept."""

    def __init__(self, problem: _Scaled) -> None:
        self._problem, self._columns, self._factor = problem, np.zeros(len(problem.low), dtype=bool), None

    def of(self, columns: np.ndarray) -> Any:
        """Return a factor of the Gram matrix of some columns; an orthogonal one if squares hide the rank."""
        if self._factor is None or not np.array_equal(self._columns, columns):
            R = self._problem.R
            tall = np.count_nonzero(columns) <= len(R)
            factor: Any = factor_gram(self._problem.gram[np.ix_(columns, columns)]) if tall else None
            if factor is None or (factor.deficient and not self._is_null(factor, R[:, columns])):
                factor = Orthogonal(R[:, columns], self._problem.n_rows)
            self._columns, self._factor = columns, factor
        return self._factor

    def _is_null(self, factor: GramFactor, R: np.ndarray) -> bool:
        """Return whether columns of R that are dependent by their squares are really dependent."""
        passes = _WithNullVectors(factor, partial(slopes_at, R, self._problem.c[:, None]))
        return passes.are_null(np.zeros(R.shape[1]), max(self._problem.n_rows, len(self._columns)) * EPS)


class _Exchange:
    """The free entries of x, and those on a bound.

    Attributes
    ----------
    problem : _Scaled
    x : ndarray of shape (p,)
    place : ndarray of shape (p,)
        -1 on the lower bound, 1 on the upper one, 0 free.
    off : ndarray of shape (p,)
        The difference of the slope from that of the triangle.
    """

    def __init__(self, problem: _Scaled, x0: np.ndarray) -> None:
        self.problem, self._factors = problem, _Factors(problem)
        self.x = x = np.clip(x0 * problem.lengths / problem.size, problem.low, problem.high)
        self.off = np.zeros_like(x)
        self.place = np.where(x <= problem.low, -1, np.where(x >= problem.high, 1, 0))

    def run(self, has_time: Callable[[], bool]) -> None:
        """Exchange entries until no slope points inwards, or until the limit that stops cycles due to rounding."""
        if not self._in_blocks(has_time):
            self._settle(has_time)
        barred, tried = np.zeros((2, self.place.size), dtype=bool)
        for _ in range(2 * CHANCES * self.place.size):
            wanted = self._wanted() & ~barred
            steep = wanted.any()
            wanted = wanted if steep else self._promising() & ~tried
            if not wanted.any() or not has_time():
                return
            j = int(np.argmax(np.where(wanted, np.abs(self._slope_at(self.x)), 0.0)))
            before, cost = self.place[j], self.cost()
            self.place[j] = 0
            self._settle(has_time)
            gained = self.cost() < cost
            tried = tried & (self.cost() > (1.0 - _WORTH) * cost)
            tried[j] |= not steep
            barred = barred & (not gained)
            barred[j] |= not gained
            if not gained and self.place[j] == 0 and self.x[j] in (self.problem.low[j], self.problem.high[j]):
                self.place[j] = before

    def x_within(self, bounds: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
        """Return x in its own units, with the exact values of the bounds."""
        x = np.clip(self.x / self.problem.lengths * self.problem.size, *bounds)
        return np.where(self.place < 0, bounds[0], np.where(self.place > 0, bounds[1], x))

    def renew(self, slope: np.ndarray) -> None:
        """Replace the slope at x by `slope`, which was computed from A."""
        self.off = np.zeros_like(self.x)
        self.off = slope / self.problem.lengths / self.problem.size - self._slope_at(self.x)

    def error(self) -> float:
        """Return the distance of the free entries of x from their optimum."""
        return norm((self._target() - self.x) / self.problem.lengths) * self.problem.size

    def floor(self, eps: float, residual: float) -> float:
        """Return the error of x due to rounding of the products A x and of the sums in ``A'(b - A x)``.

        `eps` is the precision of A and b as given. The amplification of rounding errors, by ``(R'R)**-1`` in units of x
        and by a square root of it, is estimated with random vectors. If columns are dependent, their null space is
        known up to the singular values that count as zero. Entries whose bounds are so close, relative to their column,
        that any value is accurate enough are left out.
        """
        problem, free = self.problem, self.place == 0
        if not free.any():
            return 0.0
        matters = (problem.high - problem.low)[free] > SUM * problem.unit_of_rounding(residual, self.x)
        units, noise = (matters / problem.lengths[free])[:, None], noise_of(int(free.sum()))
        k, factor, both = noise.shape[1], self._factors.of(free), np.hstack([noise, units * noise])
        of_null = 0.0
        if isinstance(factor, Orthogonal):
            found = factor.correct(np.zeros((len(problem.R), 2 * k)), both)[0]
            of_null = factor.next_value * factor.condition * norm(units[:, 0] * self.x[free]) * problem.size
        else:
            found = factor.solve(both)
        of_sums = float(np.linalg.norm(units * found[:, :k])) * residual
        of_products = math.sqrt(max(float(np.vdot(found[:, k:], both[:, k:])), 0.0)) * norm(self.x) * problem.size
        as_given = AS_GIVEN * eps
        of_both = max(EPS, as_given) * of_sums + max(SUM * EPS, as_given) * of_products
        return max(of_null, of_both / math.sqrt(k * problem.n_rows))

    def steepest(self) -> float:
        """Return the largest slope that points inwards."""
        inwards = slopes_inwards(self._slope_at(self.x), self.x, self.problem.low, self.problem.high)
        return float(np.abs(inwards).max())

    def _slope_at(self, x: np.ndarray) -> np.ndarray:
        """Return the negative gradient."""
        return self.problem.R.T @ self.problem.left(x) + self.off

    def cost(self) -> float:
        """Return the objective, up to a constant."""
        r = self.problem.left(self.x)
        return float(r @ r - 2.0 * (self.off @ self.x))

    def _wanted(self) -> np.ndarray:
        """Return which entries on a bound have a slope that points inwards."""
        problem, r = self.problem, self.problem.left(self.x)
        limit = SUM * problem.unit_of_rounding(norm(r) * problem.size, self.x)
        return problem.movable & (-self.place * (problem.R.T @ r + self.off) > limit)

    def _promising(self) -> np.ndarray:
        """Return which entries on a bound may lower the cost significantly although rounding hides their slope.

        That is so if columns are nearly dependent: the slope is small, the step is long, and x is large. So the slope
        is computed without x, from the part of the other columns that is orthogonal to the free ones.
        """
        problem, free, found = self.problem, self.place == 0, np.zeros(self.place.size, dtype=bool)
        factor = self._factors.of(free) if free.any() else None
        if not isinstance(factor, Orthogonal) or factor.rank < factor.p:
            return found
        r = factor.orthogonal_part(problem.left(np.where(free, 0.0, self.x))[:, None])
        slope = problem.R.T @ r[:, 0]
        inwards = np.flatnonzero(problem.movable & (-self.place * slope > 0.0))
        beside = norms(factor.orthogonal_part(problem.R[:, inwards]))
        found[inwards] = np.abs(slope[inwards]) > _WORTH * beside * norms(r) + EPS * norm(problem.c)
        return found

    def _target(self) -> np.ndarray:
        """Return the optimum of the free entries without bounds; if it is not unique, the one nearest to x."""
        free, x = self.place == 0, self.x.copy()
        if not free.any():
            return x
        factor = self._factors.of(free)
        if isinstance(factor, Orthogonal):
            x[free] += factor.correct(self.problem.left(x)[:, None], self.off[free, None])[0][:, 0]
            return x
        x[free] += factor.solve(self._slope_at(x)[free, None])[:, 0]
        x[free] += factor.solve(self._slope_at(x)[free, None])[:, 0]  # what squares have lost
        return x

    def _in_blocks(self, has_time: Callable[[], bool]) -> bool:
        """Exchange all wrong entries at once, as long as their number decreases (Júdice and Pires 1994).

        A free entry is wrong if it is beyond a bound, others are if their slope points inwards. The best x within the
        bounds is kept. Return whether it has no wrong entries.
        """
        low, high = self.problem.low, self.problem.high
        best, least, place = self.x, self.cost(), self.place.copy()
        fewest, chances, count = self.place.size + 1, CHANCES, -1
        while chances >= 0 and has_time():
            self.x = self._target()
            below, above = ((self.place == 0) & wrong for wrong in (self.x < low, self.x > high))
            inwards = self._wanted()
            count = int(np.count_nonzero(below | above | inwards))
            self.x = np.clip(self.x, low, high)
            self.place = np.where(below, -1, np.where(above, 1, self.place))
            cost = self.cost()
            if cost <= least or count == 0:
                best, least, place = self.x, cost, self.place.copy()
            if count == 0:
                break
            chances = CHANCES if count < fewest else chances - 1
            fewest = min(fewest, count)
            self.place[inwards] = 0
            self.x = np.where(self.place < 0, low, np.where(self.place > 0, high, self.x))
        self.x, self.place = best, place
        return count == 0

    def _settle(self, has_time: Callable[[], bool]) -> None:
        """Move x to the optimum of the free entries; those that meet a bound on the way stay there."""
        low, high = self.problem.low, self.problem.high
        while has_time():
            target = self._target()
            way, free = target - self.x, self.place == 0
            with np.errstate(divide="ignore", invalid="ignore"):
                room = np.where(way > 0.0, high - self.x, low - self.x) / way
            room[~free | (way == 0.0)] = math.inf
            length = float(room.min(initial=math.inf))
            if length >= 1.0:
                self.x = target
                return
            self.x = np.where(free, self.x + length * way, self.x)
            stopped = room <= length
            self.place[stopped] = np.where(way[stopped] > 0.0, 1, -1)
            self.x = np.where(stopped, np.where(way > 0.0, high, low), self.x)

    def is_unique(self, rounding: float) -> bool:
        """Return whether the columns of entries that may change at no cost are independent."""
        loose = self.problem.movable & ((self.place == 0) | (np.abs(self._slope_at(self.x)) <= rounding))
        return not loose.any() or self._factors.of(loose).rank == int(loose.sum())
