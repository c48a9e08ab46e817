"""Least squares within bounds, of dense rows in memory: by exchanging free entries of x until x is optimal."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from rowsolve.lstsq.orthogonal import Orthogonal, scaled_columns

__all__ = ["BoxFit", "fit_within", "slopes_inwards"]

_EPS = float(np.finfo(float).eps)
_ROUNDING = 2.0  # units of rounding in a gradient
_FAR = 30.0  # times that: an x with such a gradient is not optimal
_EXCHANGES = 10  # times p, at most
_CHANCES = 5  # exchanges of many entries at once that may leave as many wrong, before they are exchanged one by one


class BoxFit(NamedTuple):
    """The best x within bounds, and what is known of it.

    Attributes
    ----------
    x : ndarray of shape (p,)
    error : float
        Estimated distance to the nearest x that is optimal.
    residual_sq : float
        ``norm(b - A x)**2``, without the damping.
    optimality : float
        The largest entry of the gradient that leads inwards, over the norms of its column and of b: 0 at an optimum.
    is_optimal : bool
        Whether that is nothing but rounding.
    unique : bool
        Whether no other x within the bounds is as good.
    n_reads : int
        How often A was read.
    """

    x: np.ndarray
    error: float
    residual_sq: float
    optimality: float
    is_optimal: bool
    unique: bool
    n_reads: int


def fit_within(
    A: np.ndarray,
    b: np.ndarray,
    bounds: tuple[np.ndarray, np.ndarray],
    x0: np.ndarray,
    damp: float,
    has_time: Callable[[], bool] = lambda: True,
) -> BoxFit:
    """Minimise ``norm(A x - b)**2 + damp**2 norm(x)**2`` for x within `bounds`, starting from `x0` within them.

    The rows are reduced to a triangle. Entries of x are free or on a bound (Stark and Parker 1995): the free ones are
    solved for, and stopped at the first bound that they meet; when all are within, the entry on a bound whose slope
    leads inwards the most becomes free. At first many are exchanged at once. The best x so far is returned as soon as
    `has_time` returns False.
    """
    from scipy.linalg import qr

    whole = np.vstack([A, damp * np.eye(len(x0))]) if damp else A
    right = np.concatenate([b, np.zeros(len(x0))]) if damp else b
    lengths, size = scaled_columns(whole), float(np.abs(right).max()) or 1.0  # squares of b may leave the range
    both = qr(np.column_stack([whole / lengths, right / size]), mode="r", check_finite=False)[0][: len(x0) + 1]
    low, high = (bound * lengths / size for bound in bounds)
    state = _Exchange(both[:, :-1], both[:, -1], low, high, np.clip(x0 * lengths / size, low, high))
    state.run(has_time)
    x = np.clip(state.x / lengths * size, *bounds)
    x[state.place < 0], x[state.place > 0] = bounds[0][state.place < 0], bounds[1][state.place > 0]
    r = right - whole @ x
    slope = whole.T @ (r / size) / lengths
    inwards = slopes_inwards(slope, x, *bounds)
    rounding = _FAR * _rounding(float(np.linalg.norm(r / size)), float(np.linalg.norm(x * lengths / size)))
    optimality = float(np.abs(inwards).max() / np.linalg.norm(right / size)) if right.any() else 0.0
    error = state.error_of(whole, r)
    r = r[: len(A)]
    is_optimal = bool((np.abs(inwards) <= rounding).all())
    return BoxFit(x, error, float(r @ r), optimality, is_optimal, state.is_unique(slope, rounding), 5)


def slopes_inwards(slope: np.ndarray, x: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return the entries of a downhill `slope` that x may follow; 0 for those that press against a bound."""
    inwards = np.where(x <= low, np.maximum(slope, 0.0), slope)
    inwards = np.where(x >= high, np.minimum(inwards, 0.0), inwards)
    return np.where(low < high, inwards, 0.0)


def _rounding(residual: float, size: float) -> float:
    """Return what rounding may make of a gradient, for columns of unit norm."""
    return _ROUNDING * _EPS * (residual + size)


class _Exchange:
    """The free entries of x, and those on a bound; columns have unit norm."""

    def __init__(self, R: np.ndarray, c: np.ndarray, low: np.ndarray, high: np.ndarray, x: np.ndarray) -> None:
        self.R, self.c, self.low, self.high, self.x = R, c, low, high, x
        self.movable = low < high
        self.place = np.where(x <= low, -1, np.where(x >= high, 1, 0))  # on the lower bound, on the upper, free

    def run(self, has_time: Callable[[], bool]) -> None:
        """Exchange until no slope leads inwards, or until rounding makes it go on for ever."""
        self._in_blocks(has_time)
        self._settle()
        barred = np.zeros(self.place.size, dtype=bool)
        for _ in range(_EXCHANGES * self.place.size):
            wanted = self._wanted() & ~barred
            if not wanted.any() or not has_time():
                return
            j = int(np.argmax(np.where(wanted, np.abs(self.slope()), 0.0)))
            before, cost = self.place[j], self._cost()
            self.place[j] = 0
            self._settle()
            gained = self._cost() < cost
            barred = barred & (not gained)
            barred[j] |= not gained
            if not gained and self.place[j] == 0 and self.x[j] in (self.low[j], self.high[j]):
                self.place[j] = before

    def slope(self) -> np.ndarray:
        """Return the slope downhill."""
        return self.R.T @ (self.c - self.R @ self.x)

    def _cost(self) -> float:
        r = self.c - self.R @ self.x
        return float(r @ r)

    def _wanted(self) -> np.ndarray:
        """Return which entries on a bound have a slope that leads inwards."""
        r = self.c - self.R @ self.x
        limit = _rounding(float(np.linalg.norm(r)), float(np.linalg.norm(self.x)))
        return self.movable & (-self.place * (self.R.T @ r) > limit)

    def _target(self) -> np.ndarray:
        """Return the x that is best for the free entries, whatever their bounds; of many, the nearest."""
        free, x = self.place == 0, self.x.copy()
        if free.any():
            x[free] += Orthogonal(self.R[:, free]).solve((self.c - self.R @ x)[:, None])[:, 0]
        return x

    def _in_blocks(self, has_time: Callable[[], bool]) -> None:
        """Exchange all entries that are wrong at once, as long as there are fewer and fewer (Júdice and Pires 1994).

        Free ones are wrong beyond a bound, others with a slope that leads inwards. The best x within bounds is kept.
        """
        best, least, place = self.x, self._cost(), self.place.copy()
        fewest, chances = self.place.size + 1, _CHANCES
        while chances >= 0 and has_time():
            self.x = self._target()
            below, above = ((self.place == 0) & wrong for wrong in (self.x < self.low, self.x > self.high))
            inwards = self._wanted()
            count = int(np.count_nonzero(below | above | inwards))
            self.x = np.clip(self.x, self.low, self.high)
            self.place = np.where(below, -1, np.where(above, 1, self.place))
            cost = self._cost()
            if cost <= least:
                best, least, place = self.x, cost, self.place.copy()
            if count == 0:
                break
            chances = _CHANCES if count < fewest else chances - 1
            fewest = min(fewest, count)
            self.place[inwards] = 0
            self.x = np.where(self.place < 0, self.low, np.where(self.place > 0, self.high, self.x))
        self.x, self.place = best, place

    def _settle(self) -> None:
        """Go to the best point of the free entries; those that meet a bound on the way stay there."""
        while True:
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

    def error_of(self, A: np.ndarray, r: np.ndarray) -> float:
        """Return how far the free entries of x seem to be from their best values, by a fresh residual `r`."""
        free = self.place == 0
        if not free.any():
            return 0.0
        factor = Orthogonal(A[:, free])
        change, of_r = factor.correct(np.zeros((len(A), 1)), (A[:, free].T @ r)[:, None])
        again, _ = factor.correct(-(of_r + A[:, free] @ change), (A[:, free].T @ (r[:, None] + of_r)))
        return max(float(np.linalg.norm(change)), float(np.linalg.norm(again)))

    def is_unique(self, slope: np.ndarray, rounding: float) -> bool:
        """Tell whether the columns of entries that may move without loss are independent."""
        loose = self.movable & ((self.place == 0) | (np.abs(slope) <= rounding))
        n_loose = int(loose.sum())
        return n_loose == 0 or Orthogonal(self.R[:, loose]).rank == n_loose
