"""Estimates of the error of x, of the rows still needed, and of whether the system is consistent.

They are computed from three measured quantities, none of which requires the solution.

The *drop*. An exact projection on equations that ``x*`` satisfies decreases ``norm(x* - x)**2`` by exactly
``norm(step)**2``. So the squared error is the sum of all future drops.

The *probe*. In addition to x, the same rows act on a random vector z, as if on ``A z = 0``, whose error is known to
be ``norm(z)``. Both errors are decreased by the same projections, so

    norm(x* - x)**2  ~  drop of x  *  norm(z)**2 / drop of z.

Unlike an extrapolation of the drops alone, this takes account of the directions in which convergence is slow: z has a
component in each of them, which remains in ``norm(z)``. It also distinguishes slow convergence from inconsistency: in
an inconsistent system x keeps moving while z decreases; in an ill-conditioned one both decrease slowly.

The *windows*. After a warm start the error of x may lie in slow directions only, and then it does not resemble the
random z. So before x is declared converged its own drops must decrease, and the extrapolation from two adjacent windows
with sums ``s1 > s2``, ``s2 q / (1 - q)`` with ``q = s2 / s1``, must be within the tolerance too; and after a warm start
z must have decreased so far that the error is within the tolerance for any start.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar, NamedTuple

import numpy as np

from rowsolve._solution import Status
from rowsolve.checkpoint.state import Kind, amount, array, fill, flag, in_place, named, number, state_of, tuple_of
from rowsolve.estimate.bursts import Bursts
from rowsolve.estimate.tolerance import Tolerance

__all__ = ["Monitor", "fewest_rows_left", "rows_left"]

# With probability 0.8% the component of a random unit vector in a given direction is below 1/100 of what is expected,
# hence 100**2; and a factor of 10 allows for a solution up to 3 times as far away as x has moved.
_CONTRADICTION = 1e5
_UNLUCKY = 1e3
_SUSPICION = 1e3  # excess that is unlikely in a consistent system, but possible
_ODD, _LEAP = 30.0, 20.0  # the same for an excess that has grown by such a factor in two bursts; else it levels out
_ROUNDING = 8.0  # a row is satisfied if x is within this many units of rounding of its hyperplane
_BEHIND = 10.0  # factor by which the decrease of z may fall short of that required of x
_STILLNESS = 8  # times p rows without a move of z, after which z counts as spent
_SLOW = 0.25  # of the rate of well-conditioned rows, which is a factor of e per p rows
_PATIENCE = 24  # times p rows before a prediction may end the run
_EPS = float(np.finfo(float).eps)


class _Start(NamedTuple):
    """The initial x, its norm, and the squared norm of the probe; `warm` is whether x0 was given, rather than zero.

    The error of a given x0 need not resemble a random vector.
    """

    x0: np.ndarray
    norm: float
    probe_sq: float
    warm: bool


class _Precision(NamedTuple):
    """The attributes of a `Plan` that describe its steps; `eps` is at least that of A and b."""

    rounding: float
    window: float
    eps: float


class Monitor:
    """An estimate of the error of x, updated by `observe` after each burst, which returns a `Status` to stop with.

    Parameters
    ----------
    tolerance : Tolerance
    x0, probe : ndarray of shape (p,)
    warm : bool
        Whether x0 was given.
    patience : float
        Rows that must have been seen before a prediction may end the run.
    bounded : bool
        Whether x is projected on its bounds after every burst, which the probe is not.

    Attributes
    ----------
    error : float
        Estimated ``norm(x - x*)``; NaN if it is not known.
    noise : float
        The typical distance by which a row moves x, if the system is inconsistent.
    spent : bool
        Whether no row moves the probe any more.
    suspicious : bool
        Whether the system may be inconsistent.
    excesses : tuple of 3 floats
        The excess (see `_excess`) after the last burst and after the two before it.
    """

    def __init__(
        self, tolerance: Tolerance, x0: np.ndarray, probe: np.ndarray, *, warm: bool = False, patience: float = 0.0,
        bounded: bool = False,
    ) -> None:  # fmt: skip
        self.tolerance = tolerance
        self._limits = patience, bounded
        self.start = _Start(x0.copy(), math.sqrt(x0 @ x0), float(probe @ probe), warm)
        self.norm_x, self.probe_sq = self.start.norm, self.start.probe_sq
        self.bursts = Bursts()
        self.precision = _Precision(1.0, 1.0, tolerance.eps)
        self.error = self.noise = math.nan
        self.spent = self.suspicious = False
        self.excesses = (math.nan, math.nan, math.nan)

    @property
    def n_columns(self) -> int:
        """The number of entries of x."""
        return self.start.x0.size

    @property
    def margin(self) -> float:
        """The factor below the tolerance at which a run stops, because the estimate scatters around the error."""
        return 1.0 + 2.0 / math.sqrt(max(self.n_columns, 4))

    @property
    def allowed(self) -> float:
        """The absolute error allowed by the tolerance."""
        return self.tolerance.at(self.norm_x, self.start.norm)

    @property
    def relative_error(self) -> float:
        """The estimated error divided by ``norm(x)``, with the minimum of `Tolerance`; 0 / 0 is 0."""
        unit = max(self.norm_x, self.tolerance.eps * self.start.norm)
        if unit > 0.0:
            return self.error / unit
        return math.inf if self.error > 0.0 else self.error

    @property
    def shortfall(self) -> float:
        """The estimated error divided by the allowed one; infinity if it is not known."""
        if math.isnan(self.error) or self.error > 0.0 == self.allowed:
            return math.inf
        return self.error / self.allowed if self.error > 0.0 else 0.0

    @property
    def probe_vanished(self) -> bool:
        """Whether the probe has decreased about as much as x must, as it does if the same rows act on both."""
        return math.sqrt(self.probe_sq / self.start.probe_sq) * self.norm_x <= _BEHIND * self.allowed

    def observe(self, n_rows: int, drops: np.ndarray, x: np.ndarray, probe: np.ndarray, budget: float) -> Status | None:
        """Update the estimate with a burst of `n_rows`; return a status to stop with, or None to go on.

        `budget` is the number of rows that may still be read.
        """
        self.bursts.add(n_rows, *drops.tolist())
        self.norm_x, self.probe_sq = math.sqrt(x @ x), float(probe @ probe)
        unit = max(self.n_columns, 64)
        # If the probe has not moved for many rows, it is spent: the rest of it is in the null space of A.
        drop, probe_drop, n_seen, spent = self.bursts.newest(
            self._is_still, self.precision.window * unit, _STILLNESS * unit
        )
        self.spent, floor = spent, self._floor()
        exact = drop <= n_seen * (_ROUNDING * self.precision.rounding * self.precision.eps * self.norm_x) ** 2
        by_probe = 0.0 if spent else math.sqrt(drop / probe_drop * self.probe_sq)
        self.error = max(by_probe, floor)
        good = max(self.margin * by_probe, floor) <= self.allowed
        if good and not exact:
            unlucky = self._error_of_unlucky_start(x) if self.start.warm and not spent else 0.0
            self.error = max(self.error, self._extrapolated(), unlucky)
        if good and self.error <= self.allowed:
            return Status.CONVERGED
        return self._doubts(drop, probe_drop, n_seen, x, budget, exact=exact)

    def _doubts(
        self, drop: float, probe_drop: float, n_seen: int, x: np.ndarray, budget: float, *, exact: bool
    ) -> Status | None:  # fmt: skip
        """Return the status to stop with if x will not reach the tolerance; None if it may."""
        excess, before = _excess(self.start, drop, probe_drop, x), self.excesses[:2]
        self.excesses = (excess, *before)
        leaps = excess > _ODD and any(excess > _LEAP * earlier > 0.0 for earlier in before)
        self.suspicious = (leaps or excess > _SUSPICION) and not exact
        # If a solution exists, the drop of x is at most ``norm(M)**2 * norm(x* - x0)**2``, where M maps the initial
        # error to the current steps; and the drop of z is at least ``norm(M)**2 * norm(z0)**2 / p``, up to a random
        # factor. So a larger excess shows that there is no solution.
        contradictory = excess > _CONTRADICTION * self.n_columns
        if exact:
            return Status.PRECISION if contradictory or self.spent or drop == 0.0 else None
        status = self._noisy(math.sqrt(drop / n_seen)) if contradictory else None
        if status is None and self._is_slow() and fewest_rows_left(self) > budget:
            return Status.SLOW
        return status

    def record(self, x: np.ndarray, error: float) -> None:
        """Set x and its error estimate."""
        self.norm_x, self.error = math.sqrt(x @ x), error

    def set_precision(self, rounding: float, window: float, eps: float) -> None:
        """Set the attributes of the plan that describe its steps (see `Plan`)."""
        self.precision = _Precision(rounding, window, max(self.tolerance.eps, eps))

    def keep_best(self, error: float) -> None:
        """Keep the earlier `error` of an x that has converged, if that is smaller."""
        self.error, self.suspicious = min(error, self.error), False

    def _is_still(self, probe_drop: float, n_rows: int) -> bool:
        return probe_drop <= n_rows * (_ROUNDING * self.precision.rounding * _EPS) ** 2 * self.probe_sq

    def _floor(self) -> float:
        """Return the error due to rounding: that of A and b as given, and that of x over about p steps."""
        return self.norm_x * self.precision.rounding * max(self.tolerance.eps, _EPS * math.sqrt(self.n_columns))

    def _error_of_unlucky_start(self, x: np.ndarray) -> float:
        """Return the error for the worst start, whose error is in the direction that has decreased least.

        About 1 / p of the squared norm of a random z is in that direction (in one case of forty, less than a thousandth
        of that), so the error is at most ``s = sqrt(1000 p) norm(z) / norm(z0)`` times the error of the start, which
        in turn is at most the distance that x has moved plus the error.
        """
        share = math.sqrt(_UNLUCKY * self.n_columns * self.probe_sq / self.start.probe_sq)
        return share / (1.0 - share) * float(np.linalg.norm(x - self.start.x0)) if share < 1.0 else math.inf

    def _is_slow(self) -> bool:
        """Return whether the rate of convergence is known and far below that of well-conditioned rows."""
        if self.bursts.n_rows < max(self._limits[0], _PATIENCE * max(self.n_columns, 64)):
            return False
        return sum(self.bursts.rate) < _SLOW / self.n_columns

    def _extrapolated(self) -> float:
        return self.bursts.extrapolated(self.n_columns, along_a_path=self._limits[1] and self.spent)

    def _noisy(self, noise: float) -> Status | None:
        """Return `Status.INCONSISTENT` if z has settled in all directions that rows reach; otherwise None.

        Until then a distant solution, in directions in which convergence is slow, would have the same effect. `noise`
        is the distance that a row moves x. Half of its square is new error; in each direction the error gains as much
        as it loses.
        """
        if not self.spent and _CONTRADICTION * self.n_columns * self.probe_sq > self.start.probe_sq:
            return None
        self.noise = noise
        self.error = max(noise * math.sqrt(self.n_columns / 2.0), self._floor())
        if self._limits[1] and self.spent:
            self.error = max(self.error, self._extrapolated())
        return Status.CONVERGED if self.error <= self.allowed else Status.INCONSISTENT

    saved: ClassVar[dict[str, Kind]] = {
        "start": named(_Start, x0=array("p"), norm=number, probe_sq=number, warm=flag),
        "bursts": in_place,
        **dict.fromkeys(("norm_x", "probe_sq", "error", "noise"), number),
        "excesses": tuple_of(number, number, number),
        **dict.fromkeys(("spent", "suspicious"), flag),
        "precision": named(_Precision, rounding=amount, window=amount, eps=amount),
    }
    derived: ClassVar[tuple[str, ...]] = ("tolerance", "_limits")

    def state(self) -> dict[str, Any]:
        """Return the state of the monitor."""
        return state_of(self)

    def restore(self, state: Any) -> None:
        """Restore the state of the monitor."""
        fill(self, state, {"p": self.n_columns})


def rows_left(monitor: Monitor) -> float:
    """Return the number of rows still needed at the current rate of convergence; NaN if it is not known yet."""
    return _rows_to_go(monitor, monitor.bursts.rate[0])


def fewest_rows_left(monitor: Monitor) -> float:
    """Return a lower bound of the number of rows still needed, since convergence may slow down but not speed up."""
    rate, spread = monitor.bursts.rate
    return _rows_to_go(monitor, max(rate, 0.0) + spread)


def _rows_to_go(monitor: Monitor, rate: float) -> float:
    if math.isnan(rate) or math.isnan(monitor.error):
        return math.nan
    goal = max(monitor.allowed / monitor.margin, monitor._floor())
    if monitor.error <= goal:
        return 0.0
    if rate <= 0.0 or goal == 0.0:
        return math.inf
    return 2.0 * math.log(monitor.error / goal) / rate


def _excess(start: _Start, drop: float, probe_drop: float, x: np.ndarray) -> float:
    """Return the drop of x divided by that of the probe, each relative to its start; about 1 if consistent."""
    if drop == 0.0:
        return 0.0
    moved = x - start.x0 if start.norm > 0.0 else x
    calm = probe_drop / start.probe_sq * float(moved @ moved)
    return drop / calm if calm > 0.0 else math.inf
