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
from rowsolve.checkpoint.state import Kind, amount, fill, flag, named, number, state_of, tuple_of
from rowsolve.estimate.bursts import Bursts
from rowsolve.estimate.estimator import ErrorEstimator
from rowsolve.estimate.tolerance import Tolerance
from rowsolve.policy.thresholds import (
    CONTRADICTION,
    EPS,
    EXCESS_LEAP,
    FEW_COLUMNS,
    LONG_SUM,
    ORDER_OF_MAGNITUDE,
    STILL_ROWS,
    UNLUCKY,
)

__all__ = ["Monitor", "fewest_rows_left", "rows_left"]


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
    min_rows : float
        Rows that must have been seen before a prediction may end the run.
    bounded : bool
        Whether x is projected on its bounds after every burst, which the probe is not.

    Attributes
    ----------
    estimator : ErrorEstimator
    error : float
        Estimated ``norm(x - x*)``; NaN if it is not known.
    noise : float
        The typical distance by which a row moves x, if the system is inconsistent.
    probe_settled : bool
        Whether no row moves the probe any more.
    suspicious : bool
        Whether the system may be inconsistent.
    excesses : tuple of 3 floats
        The drop of x divided by that of the probe, each relative to its start, after the last burst and after the two
        before it. It is about 1 if the system is consistent.
    """

    def __init__(
        self, tolerance: Tolerance, x0: np.ndarray, probe: np.ndarray, *, warm: bool = False, min_rows: float = 0.0,
        bounded: bool = False,
    ) -> None:  # fmt: skip
        self.estimator = ErrorEstimator(tolerance, x0, warm=warm)
        self._limits = min_rows, bounded
        self.norm_x, self.probe_sq = self.estimator.norm_x0, float(probe @ probe)
        self._probe_sq_at_start = self.probe_sq
        self.bursts = Bursts()
        self.precision = _Precision(1.0, 1.0, tolerance.eps)
        self.error = self.noise = math.nan
        self.probe_settled = self.suspicious = False
        self.excesses = (math.nan, math.nan, math.nan)

    @property
    def allowed(self) -> float:
        """The absolute error allowed by the tolerance."""
        return self.estimator.allowed(self.norm_x)

    @property
    def floor(self) -> float:
        """The error due to rounding: that of A and b as given, and that of x over about p steps."""
        return self.estimator.floor(self.norm_x, self.estimator.tolerance.eps) * self.precision.rounding

    @property
    def relative_error(self) -> float:
        """The estimated error divided by ``norm(x)``, with the minimum of `Tolerance`; 0 / 0 is 0."""
        unit = max(self.norm_x, self.estimator.tolerance.eps * self.estimator.norm_x0)
        if unit > 0.0:
            return self.error / unit
        return math.inf if self.error > 0.0 else self.error

    @property
    def error_ratio(self) -> float:
        """The estimated error divided by the allowed one; infinity if it is not known."""
        if math.isnan(self.error) or self.error > 0.0 == self.allowed:
            return math.inf
        return self.error / self.allowed if self.error > 0.0 else 0.0

    @property
    def probe_left(self) -> float:
        """The fraction of the norm of the probe that is left."""
        return math.sqrt(self.probe_sq / self._probe_sq_at_start)

    @property
    def probe_vanished(self) -> bool:
        """Whether the probe has decreased about as much as x must, as it does if the same rows act on both."""
        return self.probe_left * self.norm_x <= ORDER_OF_MAGNITUDE * self.allowed

    def observe(self, n_rows: int, drops: np.ndarray, x: np.ndarray, probe: np.ndarray, budget: float) -> Status | None:
        """Update the estimate with a burst of `n_rows`; return a status to stop with, or None to go on.

        `budget` is the number of rows that may still be read.
        """
        self.bursts.add(n_rows, *drops.tolist())
        self.norm_x, self.probe_sq = math.sqrt(x @ x), float(probe @ probe)
        rounding, window, eps = self.precision
        unit = max(self.estimator.n_columns, FEW_COLUMNS)
        # If the probe has not moved for many rows, it has settled: the rest of it is in the null space of A.
        still = (LONG_SUM * rounding * EPS) ** 2 * self.probe_sq
        drop, probe_drop, n_seen, self.probe_settled = self.bursts.newest(still, window * unit, STILL_ROWS * unit)
        self.estimator.measure(math.sqrt(self.probe_sq), 0.0 if self.probe_settled else math.sqrt(probe_drop))
        by_probe, floor = self.estimator.of_change(math.sqrt(drop)), self.floor
        exact = drop <= n_seen * (LONG_SUM * rounding * eps * self.norm_x) ** 2
        self.error = max(by_probe, floor)
        good = max(self.estimator.margin * by_probe, floor) <= self.allowed
        if good and not exact:
            warm = self.estimator.warm and not self.probe_settled
            unlucky = self.estimator.of_unlucky_start(x, self.probe_left) if warm else 0.0
            along_a_path = self._limits[1] and self.probe_settled
            path = self.bursts.extrapolated(self.estimator.n_columns, along_a_path=along_a_path)
            self.error = max(self.error, path, unlucky)
        if good and self.error <= self.allowed:
            return Status.CONVERGED
        return self._failure_status(drop, probe_drop, n_seen, x, budget, exact=exact)

    def _failure_status(
        self, drop: float, probe_drop: float, n_seen: int, x: np.ndarray, budget: float, *, exact: bool
    ) -> Status | None:  # fmt: skip
        """Return the status to stop with if x will not reach the tolerance; None if it may."""
        calm = probe_drop / self._probe_sq_at_start * self.estimator.moved_sq(x)
        excess = _excess(drop, calm)
        self.excesses = (excess, *self.excesses[:2])
        self.suspicious = not exact and (excess > UNLUCKY or _excess_jumps(self.excesses))
        # If a solution exists, the drop of x is at most ``norm(M)**2 * norm(x* - x0)**2``, where M maps the initial
        # error to the current steps; and the drop of z is at least ``norm(M)**2 * norm(z0)**2 / p``, up to a random
        # factor. So a larger excess shows that there is no solution.
        contradictory = excess > CONTRADICTION * self.estimator.n_columns
        if exact:
            return Status.PRECISION if contradictory or self.probe_settled or drop == 0.0 else None
        status = self._noisy(math.sqrt(drop / n_seen)) if contradictory else None
        is_slow = status is None and self.bursts.is_slow(self.estimator.n_columns, self._limits[0])
        return Status.SLOW if is_slow and fewest_rows_left(self) > budget else status

    def record(self, x: np.ndarray, error: float) -> None:
        """Set x and its error estimate."""
        self.norm_x, self.error = math.sqrt(x @ x), error

    def set_precision(self, rounding: float, window: float, eps: float) -> None:
        """Set the attributes of the plan that describe its steps (see `Plan`)."""
        self.precision = _Precision(rounding, window, max(self.estimator.tolerance.eps, eps))

    def keep_smaller_error(self, error: float) -> None:
        """Keep the earlier `error` of an x that has converged, if that is smaller."""
        self.error, self.suspicious = min(error, self.error), False

    def _noisy(self, noise: float) -> Status | None:
        """Return `Status.INCONSISTENT` if z has settled in all directions that rows reach; otherwise None.

        Until then a distant solution, in directions in which convergence is slow, would have the same effect. `noise`
        is the distance that a row moves x. Half of its square is new error; in each direction the error gains as much
        as it loses.
        """
        p = self.estimator.n_columns
        if not self.probe_settled and CONTRADICTION * p * self.probe_sq > self._probe_sq_at_start:
            return None
        self.noise = noise
        self.error = max(noise * math.sqrt(p / 2.0), self.floor)
        if self._limits[1] and self.probe_settled:
            self.error = max(self.error, self.bursts.extrapolated(p, along_a_path=True))
        return Status.CONVERGED if self.error <= self.allowed else Status.INCONSISTENT

    saved: ClassVar[dict[str, Kind]] = {
        **dict.fromkeys(("norm_x", "probe_sq", "_probe_sq_at_start", "error", "noise"), number),
        "excesses": tuple_of(number, number, number),
        **dict.fromkeys(("probe_settled", "suspicious"), flag),
        "precision": named(_Precision, rounding=amount, window=amount, eps=amount),
    }
    derived: ClassVar[tuple[str, ...]] = ("_limits", "estimator", "bursts")

    def state(self) -> dict[str, Any]:
        """Return the state of the monitor."""
        return {**state_of(self), "estimator": self.estimator.state(), "bursts": self.bursts.state()}

    def restore(self, state: Any) -> None:
        """Restore the state of the monitor."""
        fill(self, state, {}, besides=("estimator", "bursts"))
        self.estimator.restore(state["estimator"], {"p": self.estimator.n_columns})
        self.bursts.restore(state["bursts"])


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
    goal = max(monitor.allowed / monitor.estimator.margin, monitor.floor)
    if monitor.error <= goal:
        return 0.0
    if rate <= 0.0 or goal == 0.0:
        return math.inf
    return 2.0 * math.log(monitor.error / goal) / rate


def _excess(drop: float, calm: float) -> float:
    """Return a drop of x divided by the one expected from the probe; 0 / 0 is 0."""
    if drop == 0.0:
        return 0.0
    return drop / calm if calm > 0.0 else math.inf


def _excess_jumps(excesses: tuple[float, ...]) -> bool:
    """Return whether the last excess is large and far above one of those before, rather than levelling out."""
    return excesses[0] > EXCESS_LEAP and any(excesses[0] > EXCESS_LEAP * earlier > 0.0 for earlier in excesses[1:])
