"""Least squares within bounds from a triangle of all rows, by exchanging free entries of x until x is optimal."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from rowsolve.lstsq.normal import GramFactor, Slopes, factor_gram, noise_of, norms
from rowsolve.lstsq.orthogonal import Orthogonal, scaled_columns
from rowsolve.lstsq.state import Compressed, slopes_at
from rowsolve.lstsq.triangle import Triangle, triangle_of
from rowsolve.parallel.vectors import norm

__all__ = ["BoxFit", "fit_within", "slopes_inwards"]

_EPS = float(np.finfo(float).eps)
_ROUNDING = 2.0  # units of rounding in a gradient
_FAR = 30.0  # times that: an x with such a gradient is not optimal
_EXCHANGES = 10  # times p, at most
_CHANCES = 5  # exchanges of many entries without fewer wrong ones, before they are exchanged one by one
_WORTH = 1e-5  # of the residual: its square is lower by 1e-10
_SURE = 0.1  # of the error allowed: an x with a smaller error needs no further pass
_PASSES = 4  # to determine the error of x, at most
_SHRINKS = 0.5  # of the last error: otherwise it is due to rounding
_ROOTS = 4.0  # units of rounding in a product of some terms
_AS_GIVEN = 0.3  # of a unit, the rounding error of the numbers of a row
_CORRECTED = 2  # times, at most, that null vectors are checked
_SOLVES = 2  # with a Gram matrix: the second restores the accuracy lost by its squares


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
    x0: np.ndarray,
    damp: float,
    tolerance: Any,
    slopes: Slopes,
    has_time: Callable[[], bool] = lambda: True,
) -> BoxFit | None:
    """Minimise ``norm(A x - b)**2 + damp**2 norm(x)**2`` for x within `bounds`, starting from `x0` within them.

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
    x0 : ndarray of shape (p,)
    damp : float
    tolerance : Tolerance
        x is corrected until it is met, or until corrections are due to rounding.
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
        return _optimum(_Exchange(state, bounds, x0), bounds, damp, tolerance, slopes, has_time)
    factor = factor_gram(state.gram, damp)
    if factor is None:
        return None
    passes = _WithNullVectors(factor, slopes) if factor.deficient else None
    box = _Exchange(triangle_of(state, factor), bounds, x0)
    found = _optimum(box, bounds, damp, tolerance, passes or slopes, has_time)
    if not has_time():
        return found
    sure = passes is None or passes.are_null(found.x, max(state.n_rows, len(x0)) * _EPS)
    return found if found.is_optimal and sure else None


def _optimum(
    box: _Exchange, bounds: tuple[np.ndarray, np.ndarray], damp: float, tolerance: Any, slopes: Slopes, has_time: Any
) -> BoxFit:
    """Exchange entries on the triangle, and certify x by passes (see `fit_within`)."""
    error = math.inf
    for _ in range(_PASSES):
        box.run(has_time)
        x = box.x_within(bounds)
        if not has_time():
            left = box.squares + box.size**2 * box.cost() - damp * damp * float(x @ x)
            return BoxFit(x, math.nan, max(left, 0.0), math.nan, is_optimal=False, unique=True)
        slope, residual_sq = slopes(x[:, None])
        box.renew(slope[:, 0] - damp * damp * x)
        residual = math.sqrt(float(residual_sq[0]) + damp * damp * float(x @ x))
        rounding = _FAR * box.rounding(residual)
        steepest, before, error = box.steepest(), error, box.error()
        is_optimal = steepest <= rounding < math.inf
        enough = _SURE * tolerance.at(norm(x), 0.0)
        if is_optimal and (error <= enough or error >= _SHRINKS * before):
            break
    error = max(error, box.floor(tolerance.eps, residual))
    optimality, unique = steepest * box.size / box.norm_b, box.is_unique(rounding)
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
        for _ in range(_CORRECTED):
            if self.left > limit:
                self(x[:, None])
        return self.left <= limit


def slopes_inwards(slope: np.ndarray, x: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return the descent direction `slope` with 0 for the entries that point out of the bounds."""
    inwards = np.where(x <= low, np.maximum(slope, 0.0), slope)
    inwards = np.where(x >= high, np.minimum(inwards, 0.0), inwards)
    return np.where(low < high, inwards, 0.0)


class _Exchange:
    """The free entries of x, and those on a bound. Columns have unit norm, and the right-hand side has norm 1."""

    def __init__(self, state: Triangle, bounds: tuple[np.ndarray, np.ndarray], x0: np.ndarray) -> None:
        self.lengths, sides = scaled_columns(state.triangle), state.sides[:, 0]
        self.size, self.n_rows, self.squares = (
            float(np.abs(sides).max()) or 1.0,
            max(1, state.n_rows),
            float(state.squares[0]),
        )
        self.norm_b = math.hypot(*sides, math.sqrt(self.squares)) or 1.0
        rank = int(np.flatnonzero(state.triangle.any(axis=1)).max(initial=0)) + 1  # or more: the others are zero
        self.R, self.c = state.triangle[:rank] / self.lengths, sides[:rank] / self.size
        self.gram = self.R.T @ self.R
        self.low, self.high = (bound * self.lengths / self.size for bound in bounds)
        self.x = x = np.clip(x0 * self.lengths / self.size, self.low, self.high)
        self.off = np.zeros_like(x)  # the difference of the slope from that of the triangle
        self.movable = self.low < self.high
        self.place = np.where(x <= self.low, -1, np.where(x >= self.high, 1, 0))  # on the lower bound, the upper, free
        self._factored: tuple[np.ndarray, Any] = self.place < -1, None

    def run(self, has_time: Callable[[], bool]) -> None:
        """Exchange entries until no slope points inwards, or until the limit that stops cycles due to rounding."""
        if not self._in_blocks(has_time):
            self._settle(has_time)
        barred, tried = np.zeros((2, self.place.size), dtype=bool)
        for _ in range(_EXCHANGES * self.place.size):
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
            if not gained and self.place[j] == 0 and self.x[j] in (self.low[j], self.high[j]):
                self.place[j] = before

    def x_within(self, bounds: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
        """Return x in its own units, with the exact values of the bounds."""
        x = np.clip(self.x / self.lengths * self.size, *bounds)
        return np.where(self.place < 0, bounds[0], np.where(self.place > 0, bounds[1], x))

    def renew(self, slope: np.ndarray) -> None:
        """Replace the slope at x by `slope`, which was computed from A."""
        self.off = np.zeros_like(self.x)
        self.off = slope / self.lengths / self.size - self._slope_at(self.x)

    def error(self) -> float:
        """Return the distance of the free entries of x from their optimum."""
        return norm((self._target() - self.x) / self.lengths) * self.size

    def floor(self, eps: float, residual: float) -> float:
        """Return the error of x due to rounding of the products A x and of the sums in ``A'(b - A x)``.

        `eps` is the precision of A and b as given. The amplification of rounding errors, by ``(R'R)**-1`` in units of x
        and by a square root of it, is estimated with random vectors. Entries whose bounds are so close, relative to
        their column, that any value is accurate enough are left out.
        """
        free = self.place == 0
        if not free.any():
            return 0.0
        matters = (self.high - self.low)[free] > self.rounding(residual)
        units, noise = (matters / self.lengths[free])[:, None], noise_of(int(free.sum()))
        k, factor, both = noise.shape[1], self._factor_of(free), np.hstack([noise, units * noise])
        if isinstance(factor, Orthogonal):
            found = factor.correct(np.zeros((len(self.R), 2 * k)), both)[0]
        else:
            found = factor.solve(both)
        of_sums = float(np.linalg.norm(units * found[:, :k])) * residual
        of_products = math.sqrt(max(float(np.vdot(found[:, k:], both[:, k:])), 0.0)) * norm(self.x) * self.size
        as_given = _AS_GIVEN * eps
        of_both = max(_EPS, as_given) * of_sums + max(_ROOTS * _EPS, as_given) * of_products
        return of_both / math.sqrt(k * self.n_rows)

    def steepest(self) -> float:
        """Return the largest slope that points inwards."""
        inwards = slopes_inwards(self._slope_at(self.x), self.x, self.low, self.high)
        return float(np.abs(inwards).max())

    def rounding(self, residual: float) -> float:
        """Return the possible rounding error of a slope if the residual has that norm."""
        return _ROUNDING * _EPS * (residual / self.size + norm(self.x))

    def _slope_at(self, x: np.ndarray) -> np.ndarray:
        """Return the negative gradient."""
        return self.R.T @ (self.c - self.R @ x) + self.off

    def cost(self) -> float:
        """Return the objective, up to a constant."""
        r = self.c - self.R @ self.x
        return float(r @ r - 2.0 * (self.off @ self.x))

    def _wanted(self) -> np.ndarray:
        """Return which entries on a bound have a slope that points inwards."""
        r = self.c - self.R @ self.x
        limit = self.rounding(norm(r) * self.size)
        return self.movable & (-self.place * (self.R.T @ r + self.off) > limit)

    def _promising(self) -> np.ndarray:
        """Return which entries on a bound may lower the cost significantly although rounding hides their slope.

        That is so if columns are nearly dependent: the slope is small, the step is long, and x is large. So the slope
        is computed without x, from the part of the other columns that is orthogonal to the free ones.
        """
        free, found = self.place == 0, np.zeros(self.place.size, dtype=bool)
        factor = self._factor_of(free) if free.any() else None
        if not isinstance(factor, Orthogonal) or factor.rank < factor.p:
            return found
        r = factor.beside((self.c - self.R @ np.where(free, 0.0, self.x))[:, None])
        slope = self.R.T @ r[:, 0]
        inwards = np.flatnonzero(self.movable & (-self.place * slope > 0.0))
        beside = norms(factor.beside(self.R[:, inwards]))
        found[inwards] = np.abs(slope[inwards]) > _WORTH * beside * norms(r) + _EPS * norm(self.c)
        return found

    def _factor_of(self, columns: np.ndarray) -> Any:
        """Return a factor of the Gram matrix of some columns; an orthogonal one if squares hide the rank."""
        before, factor = self._factored
        if factor is None or not np.array_equal(before, columns):
            tall = np.count_nonzero(columns) <= len(self.R)
            factor = factor_gram(self.gram[np.ix_(columns, columns)]) if tall else None
            if factor is None or (factor.deficient and not self._is_null(factor, self.R[:, columns])):
                factor = Orthogonal(self.R[:, columns])
            self._factored = columns, factor
        return factor

    def _is_null(self, factor: GramFactor, R: np.ndarray) -> bool:
        """Return whether columns of R that are dependent by their squares are really dependent."""
        passes = _WithNullVectors(factor, partial(slopes_at, R, self.c[:, None]))
        return passes.are_null(np.zeros(R.shape[1]), max(self.n_rows, self.place.size) * _EPS)

    def _target(self) -> np.ndarray:
        """Return the optimum of the free entries without bounds; if it is not unique, the one nearest to x."""
        free, x = self.place == 0, self.x.copy()
        if not free.any():
            return x
        factor = self._factor_of(free)
        if isinstance(factor, Orthogonal):
            x[free] += factor.correct((self.c - self.R @ x)[:, None], self.off[free, None])[0][:, 0]
            return x
        for _ in range(_SOLVES):
            x[free] += factor.solve(self._slope_at(x)[free, None])[:, 0]
        return x

    def _in_blocks(self, has_time: Callable[[], bool]) -> bool:
        """Exchange all wrong entries at once, as long as their number decreases (Júdice and Pires 1994).

        A free entry is wrong if it is beyond a bound, others are if their slope points inwards. The best x within the
        bounds is kept. Return whether it has no wrong entries.
        """
        best, least, place = self.x, self.cost(), self.place.copy()
        fewest, chances, count = self.place.size + 1, _CHANCES, -1
        while chances >= 0 and has_time():
            self.x = self._target()
            below, above = ((self.place == 0) & wrong for wrong in (self.x < self.low, self.x > self.high))
            inwards = self._wanted()
            count = int(np.count_nonzero(below | above | inwards))
            self.x = np.clip(self.x, self.low, self.high)
            self.place = np.where(below, -1, np.where(above, 1, self.place))
            cost = self.cost()
            if cost <= least or count == 0:
                best, least, place = self.x, cost, self.place.copy()
            if count == 0:
                break
            chances = _CHANCES if count < fewest else chances - 1
            fewest = min(fewest, count)
            self.place[inwards] = 0
            self.x = np.where(self.place < 0, self.low, np.where(self.place > 0, self.high, self.x))
        self.x, self.place = best, place
        return count == 0

    def _settle(self, has_time: Callable[[], bool]) -> None:
        """Move x to the optimum of the free entries; those that meet a bound on the way stay there."""
        while has_time():
            target = self._target()
            way, free = target - self.x, self.place == 0
            with np.errstate(divide="ignore", invalid="ignore"):
                room = np.where(way > 0.0, self.high - self.x, self.low - self.x) / way
            room[~free | (way == 0.0)] = math.inf
            length = float(room.min(initial=math.inf))
            if length >= 1.0:
                self.x = target
                return
            self.x = np.where(free, self.x + length * way, self.x)
            stopped = room <= length
            self.place[stopped] = np.where(way[stopped] > 0.0, 1, -1)
            self.x = np.where(stopped, np.where(way > 0.0, self.high, self.low), self.x)

    def is_unique(self, rounding: float) -> bool:
        """Return whether the columns of entries that may change at no cost are independent."""
        loose = self.movable & ((self.place == 0) | (np.abs(self._slope_at(self.x)) <= rounding))
        return not loose.any() or self._factor_of(loose).rank == int(loose.sum())
