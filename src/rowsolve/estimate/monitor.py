"""How far x is from the solution, whether the equations agree, and how long it will take.

Three measured quantities decide everything; none of them needs the solution.

The *drop*. An exact projection onto equations that ``x*`` satisfies lowers ``norm(x* - x)**2`` by exactly
``norm(step)**2``. So the squared error is the sum of all drops still to come.

The *probe*. Next to x, the same rows act on a random vector z, as if on ``A z = 0``, whose error is known:
it is ``norm(z)``. Both errors shrink by the same projections, so

    norm(x* - x)**2  ~  drop of x  *  norm(z)**2 / drop of z.

Unlike an extrapolation of the drops alone, this sees the directions that the rows barely touch: z has a part
in each of them, and ``norm(z)`` does not forget it. It also tells slow from contradictory: contradicting
equations keep x moving while z goes on shrinking; badly conditioned ones hold up both.

The *windows*. x may start with an error that lies in slow directions only (a warm start), which z, being
random, does not mirror. So before x is declared good its own drops must fall, and the extrapolation of
two neighbouring windows with sums ``s1 > s2``, ``s2 q / (1 - q)`` with ``q = s2 / s1``, must agree; and after a warm
start z must have shrunk so far that no start, however unlike a random one, could still be off.
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

# A random unit vector has less than 1/100 of its expected part in a given direction with probability 0.8%:
# hence 100**2; and 10 for a solution up to 3 times as far away as x has moved.
_CONTRADICTION = 1e5
_UNLUCKY = 1e3
_SUSPICION = 1e3  # excess that would be odd if the equations agreed, but proves nothing
_ODD, _LEAP = 30.0, 20.0  # the same of one that has grown so many times in two bursts; in slow directions it levels out
_ROUNDING = 8.0  # a row is satisfied if x is within this many units of rounding of its hyperplane
_BEHIND = 10.0  # how much further x may have come than z
_STILLNESS = 8  # times p rows without a move of z, before what is left of it counts as out of reach of all rows
_SLOW = 0.25  # of the pace of well-conditioned rows, which is a factor e for p rows
_PATIENCE = 24  # times p rows before a prediction may end the run
_EPS = float(np.finfo(float).eps)


class _Start(NamedTuple):
    """Where x started, its norm, and the squared norm of the probe; `warm`: from a given x0, not from zero.

    The error of a given x0 need not be like a random vector.
    """

    x0: np.ndarray
    norm: float
    probe_sq: float
    warm: bool


class _Precision(NamedTuple):
    """What the plan of a method says of its steps (see `Plan`); `eps` is at least that of A and b."""

    rounding: float
    window: float
    eps: float


class Monitor:
    """Takes one burst after another with `observe`, which returns a `Status` when it is time to stop.

    Parameters
    ----------
    tolerance : Tolerance
    x0, probe : ndarray of shape (p,)
    warm : bool
        Whether x0 was given.
    patience : float
        Rows that must have been seen before a prediction may end the run.
    bounded : bool
        Whether x is projected on its bounds after every burst, which the probe knows nothing of.

    Attributes
    ----------
    error : float
        Estimated ``norm(x - x*)``; NaN if it is not known.
    noise : float
        How far a row moves x, as a rule, if the system is inconsistent.
    spent : bool
        Whether the rows do not move the probe any more.
    suspicious : bool
        Whether the system may be inconsistent.
    excesses : tuple of 3 floats
        How much more x moves than the probe, after the last burst and the two before (see `_excess`).
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
        """How many entries x has."""
        return self.start.x0.size

    @property
    def margin(self) -> float:
        """By how much the estimate scatters around the error, which is to be below the tolerance."""
        return 1.0 + 2.0 / math.sqrt(max(self.n_columns, 4))

    @property
    def allowed(self) -> float:
        """The absolute error at which to stop."""
        return self.tolerance.at(self.norm_x, self.start.norm)

    @property
    def relative_error(self) -> float:
        """The estimated error over ``norm(x)``, which counts as in `Tolerance`; 0 over 0 is 0."""
        unit = max(self.norm_x, self.tolerance.eps * self.start.norm)
        if unit > 0.0:
            return self.error / unit
        return math.inf if self.error > 0.0 else self.error

    @property
    def shortfall(self) -> float:
        """The estimated error over the allowed one; infinity if nothing is known."""
        if math.isnan(self.error) or self.error > 0.0 == self.allowed:
            return math.inf
        return self.error / self.allowed if self.error > 0.0 else 0.0

    @property
    def probe_vanished(self) -> bool:
        """Whether the probe has shrunk about as far as x must, as it does where both see the same rows."""
        return math.sqrt(self.probe_sq / self.start.probe_sq) * self.norm_x <= _BEHIND * self.allowed

    def observe(self, n_rows: int, drops: np.ndarray, x: np.ndarray, probe: np.ndarray, budget: float) -> Status | None:
        """Take in a burst of `n_rows`; return a status to stop with, or None to go on.

        `budget` is the number of rows that may still be read.
        """
        self.bursts.add(n_rows, *drops.tolist())
        self.norm_x, self.probe_sq = math.sqrt(x @ x), float(probe @ probe)
        unit = max(self.n_columns, 64)
        # If the probe has not moved for long, it is spent: what is left of it lies in the null space of A.
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
        """Return why x will not get as good as asked; None if it may."""
        excess, before = _excess(self.start, drop, probe_drop, x), self.excesses[:2]
        self.excesses = (excess, *before)
        leaps = excess > _ODD and any(excess > _LEAP * earlier > 0.0 for earlier in before)
        self.suspicious = (leaps or excess > _SUSPICION) and not exact
        # If a solution exists, the drop of x is at most ``norm(M)**2 * norm(x* - x0)**2``, where M takes the error at
        # the start to the steps of now; and the drop of z is at least a p-th of ``norm(M)**2 * norm(z0)**2``, up to
        # chance. So a larger excess tells that there is none.
        contradictory = excess > _CONTRADICTION * self.n_columns
        if exact:
            return Status.PRECISION if contradictory or self.spent or drop == 0.0 else None
        status = self._noisy(math.sqrt(drop / n_seen)) if contradictory else None
        if status is None and self._is_slow() and fewest_rows_left(self) > budget:
            return Status.SLOW
        return status

    def record(self, x: np.ndarray, error: float) -> None:
        """Take over x and its error estimate."""
        self.norm_x, self.error = math.sqrt(x @ x), error

    def set_precision(self, rounding: float, window: float, eps: float) -> None:
        """Take over what the plan of the method says of its steps (see `Plan`)."""
        self.precision = _Precision(rounding, window, max(self.tolerance.eps, eps))

    def keep_best(self, error: float) -> None:
        """Go on with an x that is good already: with its `error` from before, if that is smaller."""
        self.error, self.suspicious = min(error, self.error), False

    def _is_still(self, probe_drop: float, n_rows: int) -> bool:
        return probe_drop <= n_rows * (_ROUNDING * self.precision.rounding * _EPS) ** 2 * self.probe_sq

    def _floor(self) -> float:
        """Return the error that rounding leaves: of A and b as given, and of x over some p steps."""
        return self.norm_x * self.precision.rounding * max(self.tolerance.eps, _EPS * math.sqrt(self.n_columns))

    def _error_of_unlucky_start(self, x: np.ndarray) -> float:
        """Return the error of an unlucky start: all of it in the direction that has shrunk least.

        A random z has about a p-th of its square there (less than a thousandth of that in one case of forty), so the
        error is at most ``s = sqrt(1000 p) norm(z) / norm(z0)`` of that at the start, which in turn is at most
        what x has moved plus the error.
        """
        share = math.sqrt(_UNLUCKY * self.n_columns * self.probe_sq / self.start.probe_sq)
        return share / (1.0 - share) * float(np.linalg.norm(x - self.start.x0)) if share < 1.0 else math.inf

    def _is_slow(self) -> bool:
        """Tell whether the pace is known, and far below that of well-conditioned rows."""
        if self.bursts.n_rows < max(self._limits[0], _PATIENCE * max(self.n_columns, 64)):
            return False
        return sum(self.bursts.rate) < _SLOW / self.n_columns

    def _extrapolated(self) -> float:
        return self.bursts.extrapolated(self.n_columns, along_a_path=self._limits[1] and self.spent)

    def _noisy(self, noise: float) -> Status | None:
        """Say that the system is inconsistent, if all of z that rows can reach has settled.

        Until then a solution far away, in directions that the rows barely see, explains as much. `noise` is the
        distance that x moves for a row; half of its square is new, and a direction keeps as much as it gets.
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
        """Return what it has seen."""
        return state_of(self)

    def restore(self, state: Any) -> None:
        """Take over what was seen before."""
        fill(self, state, {"p": self.n_columns})


def rows_left(monitor: Monitor) -> float:
    """Return how many rows are still needed at the present pace; NaN if it is not known yet."""
    return _rows_to_go(monitor, monitor.bursts.rate[0])


def fewest_rows_left(monitor: Monitor) -> float:
    """Return how many rows are needed if the pace is as fast as its spread allows; it only ever slows down."""
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
    """Return how much more x still moves than the probe, each measured by its start; about 1 if consistent."""
    if drop == 0.0:
        return 0.0
    moved = x - start.x0 if start.norm > 0.0 else x
    calm = probe_drop / start.probe_sq * float(moved @ moved)
    return drop / calm if calm > 0.0 else math.inf
