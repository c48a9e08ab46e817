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
two neighbouring windows with sums ``s1 > s2``, ``s2 q / (1 - q)`` with ``q = s2 / s1``, must agree.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from rowsolve._solution import Status

__all__ = ["Monitor", "Tolerance"]

# A random unit vector has less than 1/100 of its expected part in a given direction with probability 0.8%:
# hence 100**2; and 10 for a solution up to 3 times as far away as x has moved.
_CONTRADICTION = 1e5
_SUSPICION = 1e3
_HIDDEN = 100.0  # times more of z is left than seems to be shrinking
_ROUNDING = 8.0  # a row is satisfied if x is within this many units of rounding of its hyperplane
_WINDOW_RATIO = 0.5  # an extrapolation is trusted if one window falls at least this far below the other
_MOST_BURSTS = 512  # in a window of the prediction
_PATIENCE = 24  # bursts before a prediction may end the run
_EPS = float(np.finfo(float).eps)


@dataclass(frozen=True)
class Tolerance:
    """Stop when ``norm(x - x*) <= rtol * norm(x) + atol``.

    `eps` is the relative precision of A and b as given. A solution of zero has no relative error, so
    ``norm(x)`` counts as at least ``eps * norm(x0)``.
    """

    rtol: float
    atol: float
    eps: float

    def at(self, norm_x: float, norm_x0: float) -> float:
        """Return the absolute error allowed."""
        return self.rtol * max(norm_x, self.eps * norm_x0) + self.atol


class Monitor:
    """Takes one burst after another with `observe`, which returns a `Status` when it is time to stop."""

    def __init__(self, tolerance: Tolerance, x0: np.ndarray, probe: np.ndarray, patience: float = 0.0) -> None:
        self.patience = patience  # rows that must have been seen before a prediction may end the run
        self.tolerance = tolerance
        self.x0 = x0.copy()
        self.norm_x0 = float(np.linalg.norm(x0))
        self.norm_x = self.norm_x0
        self.probe_start_sq = self.probe_sq = float(probe @ probe)
        self.n_columns = x0.size
        self.rows: list[int] = []
        self.drops: list[float] = []
        self.probe_drops: list[float] = []
        self.slowness: list[float] = []  # norm(z)**2 over its drop in a burst
        self.error = math.nan  # estimated norm(x - x*)
        self.rows_left = math.nan  # predicted
        self.noise = math.nan  # typical distance of x from a hyperplane, when equations contradict
        self.blurred = False  # whether they do so while A is also ill-conditioned
        self.suspicious = False  # whether they may, when the run is too slow to tell

    @property
    def allowed(self) -> float:
        """The absolute error at which to stop."""
        return self.tolerance.at(self.norm_x, self.norm_x0)

    @property
    def relative_error(self) -> float:
        """The estimated error over ``norm(x)``; 0 over 0 is 0."""
        if self.norm_x > 0.0:
            return self.error / self.norm_x
        return math.inf if self.error > 0.0 else self.error

    def observe(self, n_rows: int, drops: np.ndarray, x: np.ndarray, probe: np.ndarray, budget: float) -> Status | None:
        """Take in a burst of `n_rows`; return a status to stop with, or None to go on.

        `budget` is the number of rows that may still be read.
        """
        self._take(n_rows, drops, x, probe)
        window = self._newest_window()
        n_seen = sum(self.rows[-window:])
        drop, probe_drop = sum(self.drops[-window:]), sum(self.probe_drops[-window:])
        exact = drop <= n_seen * (_ROUNDING * self.tolerance.eps * self.norm_x) ** 2
        # What is left of z does not move any more: it lies where no row reaches, in the null space of A.
        spent = probe_drop <= n_seen * (_ROUNDING * _EPS) ** 2 * self.probe_sq
        by_probe = 0.0 if spent else math.sqrt(drop / probe_drop * self.probe_sq)
        self.error = max(by_probe, self._floor())
        if self.error <= self.allowed and not exact:
            self.error = max(self.error, self._extrapolate(self.drops))
        self.rows_left = self._rows_to_go(self._rate()[0])
        if self.error <= self.allowed:
            return Status.CONVERGED
        contradictory = self._contradictory(drop, probe_drop, x)
        if exact:
            return Status.PRECISION if contradictory or spent or drop == 0.0 else None
        if contradictory:
            return self._noisy(drop, probe_drop, n_seen, spent)
        if self._may_judge_pace() and self._fewest_rows_to_go() > budget:
            self.rows_left = self._fewest_rows_to_go()
            self.suspicious = self._excess(drop, probe_drop, x) > _SUSPICION
            return Status.SLOW
        return None

    def settle(self, x: np.ndarray, error: float) -> None:
        """Take over an x, and an estimate of its error, that were made otherwise."""
        self.norm_x = float(np.linalg.norm(x))
        self.error = max(self.error, error) if self.blurred else error

    def _take(self, n_rows: int, drops: np.ndarray, x: np.ndarray, probe: np.ndarray) -> None:
        self.rows.append(n_rows)
        self.drops.append(float(drops[0]))
        self.probe_drops.append(float(drops[1]))
        self.norm_x = float(np.linalg.norm(x))
        self.probe_sq = float(probe @ probe)
        self.slowness.append(self.probe_sq / drops[1] if drops[1] > 0.0 else math.inf)

    def _newest_window(self) -> int:
        """Return how many of the last bursts to look at: enough rows for a steady sum."""
        wanted, window = max(self.n_columns, 64), 0
        for n_rows in reversed(self.rows):
            window += 1
            wanted -= n_rows
            if wanted <= 0:
                break
        return window

    def _floor(self) -> float:
        """Return the error that rounding leaves: of A and b as given, and of x over some p steps."""
        return self.norm_x * max(self.tolerance.eps, _EPS * math.sqrt(self.n_columns))

    def _may_judge_pace(self) -> bool:
        return len(self.rows) >= _PATIENCE and sum(self.rows[-_MOST_BURSTS:]) >= self.patience

    def _extrapolate(self, drops: list[float]) -> float:
        """Return the error by two neighbouring windows, as short as they can be; infinity if none falls.

        The ratio is widened by three times its spread, ``sqrt(2 / rows)`` for sums of squared gaps.
        """
        width = 1
        while 2 * width <= len(drops):
            s1, s2 = sum(drops[-2 * width : -width]), sum(drops[-width:])
            spread = math.sqrt(2.0 / min(sum(self.rows[-width:]), max(self.n_columns, 8)))
            q = s2 / s1 * (1.0 + 3.0 * spread) if s1 > 0.0 else math.inf
            if q <= _WINDOW_RATIO:
                return math.sqrt(s2 * q / (1.0 - q))
            width += max(1, width // 2)
        return math.inf

    def _excess(self, drop: float, probe_drop: float, x: np.ndarray) -> float:
        """Return how much more x still moves than z, each measured by its start; about 1 if the equations agree."""
        moved_sq = float(np.sum((x - self.x0) ** 2))
        if moved_sq == 0.0 or drop == 0.0:
            return 0.0
        calm = probe_drop / self.probe_start_sq
        return drop / moved_sq / calm if calm > 0.0 else math.inf

    def _contradictory(self, drop: float, probe_drop: float, x: np.ndarray) -> bool:
        """Tell whether no solution can explain that x still moves so much.

        If one exists, the drop of x is at most ``norm(M)**2 * norm(x* - x0)**2``, where M takes the error at
        the start to the steps of now; and the drop of z is at least a p-th of ``norm(M)**2 * norm(z0)**2``,
        up to chance.
        """
        return self._excess(drop, probe_drop, x) > _CONTRADICTION * self.n_columns

    def _noisy(self, drop: float, probe_drop: float, n_rows: int, spent: bool) -> Status | None:
        """Say that the equations contradict each other, once it is known how good x is nevertheless.

        z keeps its part in the null space of A for ever, where x has no error. But what looks like it may be a
        direction that the rows barely see, where noise makes a large error: wait until that is told apart.
        """
        self.noise = math.sqrt(drop / n_rows)
        shrinking_sq = min(self.probe_sq, self._extrapolate(self.probe_drops) ** 2)
        hidden = self.probe_sq > _HIDDEN * shrinking_sq and not spent
        if hidden and not self._is_paced():
            return None
        self.blurred = hidden
        if not hidden and probe_drop > 0.0 and math.isfinite(shrinking_sq):
            self.error = max(math.sqrt(drop / probe_drop * shrinking_sq), self._floor())
        return Status.CONVERGED if self.error <= self.allowed else Status.INCONSISTENT

    def _is_paced(self) -> bool:
        """Tell whether the probe's pace has not changed much for the second half of the run."""
        return self.slowness[-1] < 1.5 * self.slowness[len(self.slowness) // 2]

    def _rate(self) -> tuple[float, float]:
        """Return the decay of log(drop of z) a row, and three times the spread of that figure."""
        width = min(max(1, len(self.rows) // 3), _MOST_BURSTS)
        if len(self.rows) < 2 * width:
            return math.nan, math.nan
        s1, s2 = sum(self.probe_drops[-2 * width : -width]), sum(self.probe_drops[-width:])
        n_rows = sum(self.rows[-width:])
        if s1 <= 0.0 or s2 <= 0.0:
            return math.inf, 0.0
        return math.log(s1 / s2) / n_rows, 3.0 * math.sqrt(4.0 / n_rows) / n_rows

    def _fewest_rows_to_go(self) -> float:
        """Return the rows still needed if the pace is as fast as its spread allows; it only ever slows down."""
        rate, spread = self._rate()
        return self._rows_to_go(max(rate, 0.0) + spread)

    def _rows_to_go(self, rate: float) -> float:
        goal = max(self.allowed, self._floor())
        if math.isnan(rate) or math.isnan(self.error):
            return math.nan
        if self.error <= goal:
            return 0.0
        if rate <= 0.0 or goal == 0.0:
            return math.inf
        return 2.0 * math.log(self.error / goal) / rate
