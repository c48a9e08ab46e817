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
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from rowsolve._solution import Status
from rowsolve.checkpoint.state import (
    Kind,
    StateError,
    amount,
    array,
    fill,
    flag,
    integer,
    listed,
    number,
    state_of,
    tuple_of,
)

__all__ = ["Monitor", "Tolerance"]

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
_WINDOW_RATIO = 0.5  # an extrapolation is trusted if one window falls at least this far below the other
_MOST_BURSTS = 512  # in a window of the prediction
_PATIENCE = 24  # times p rows before a prediction may end the run
_EPS = float(np.finfo(float).eps)


def _decay(s1: float, n1: int, s2: float, n2: int) -> float:
    """Return the rate at which something decays that loses `s1` over `n1` rows and then `s2` over `n2`.

    The solution of ``(exp(r n1) - 1) / (1 - exp(-r n2)) = s1 / s2``, which is ``log(s1 / s2) / n`` for windows alike.
    """
    if s1 <= 0.0 or s2 <= 0.0:
        return math.inf
    if n1 == n2:
        return math.log(s1 / s2) / n1
    rate = math.log((s1 / n1) / (s2 / n2)) * 2.0 / (n1 + n2)  # exact when slow
    for _ in range(50):
        if abs(rate) * max(n1, n2) < 1e-6 or rate * n1 > 600.0 or rate * n2 < -600.0:
            break
        gone, left = math.expm1(rate * n1), -math.expm1(-rate * n2)
        miss = math.log(gone / left * s2 / s1)
        step = miss / (n1 * (gone + 1.0) / gone - n2 * (1.0 - left) / left)
        rate -= step
        if abs(step) * max(n1, n2) < 1e-6:
            break
    return rate


@dataclass(frozen=True)
class Tolerance:
    """Stop when ``norm(x - x*) <= rtol * norm(x) + atol``.

    `eps` is the relative precision of A and b as given. A solution of zero has no relative error, so
    ``norm(x)`` counts as at least ``eps * norm(x0)``.
    """

    rtol: float
    atol: float
    eps: float

    def at(self, norm_x: Any, norm_x0: Any) -> Any:
        """Return the absolute error allowed: for one x, or for an array of norms."""
        least = self.eps * norm_x0
        larger = np.maximum(norm_x, least) if isinstance(norm_x, np.ndarray) else max(norm_x, least)
        return self.rtol * larger + self.atol


class Monitor:
    """Takes one burst after another with `observe`, which returns a `Status` when it is time to stop."""

    def __init__(
        self,
        tolerance: Tolerance,
        x0: np.ndarray,
        probe: np.ndarray,
        *,
        warm: bool = False,
        patience: float = 0.0,
        bounded: bool = False,
    ) -> None:
        self.bounded = bounded  # x is projected on its bounds after every burst, which z knows nothing of
        self.warm = warm  # x0 comes from somewhere: its error need not be like a random vector
        self.patience = patience  # rows that must have been seen before a prediction may end the run
        self.tolerance = tolerance
        self.x0 = x0.copy()
        self.norm_x0 = math.sqrt(x0 @ x0)
        self.norm_x = self.norm_x0
        self.probe_start_sq = self.probe_sq = float(probe @ probe)
        self.n_columns = x0.size
        # The estimate scatters around the error, more with few columns; the error is to be below the tolerance.
        self.margin = 1.0 + 2.0 / math.sqrt(max(x0.size, 4))
        self.n_rows_seen = 0
        self.rows: list[int] = []
        self.drops: list[float] = []
        self.probe_drops: list[float] = []
        self.spent = False  # whether the rows do not move z any more
        self.error = math.nan  # estimated norm(x - x*)
        self.noise = math.nan  # how far a row moves x, as a rule, when equations contradict
        self.suspicious = False  # whether they may do so
        self.excess = math.nan  # see `_excess`
        self.excesses_before = (math.nan, math.nan)  # after the last burst but one, and after the last
        self.rounding, self.window, self.eps = 1.0, 1.0, tolerance.eps  # see `Plan`

    def set_precision(self, rounding: float, window: float, eps: float) -> None:
        """Take over what the plan of the method says of its steps (see `Plan`)."""
        self.rounding, self.window, self.eps = rounding, window, max(self.tolerance.eps, eps)

    def keep_best(self, error: float) -> None:
        """Go on with an x that is good already: with its `error` from before, if that is smaller."""
        self.error, self.suspicious = min(error, self.error), False

    @property
    def allowed(self) -> float:
        """The absolute error at which to stop."""
        return self.tolerance.at(self.norm_x, self.norm_x0)

    @property
    def relative_error(self) -> float:
        """The estimated error over ``norm(x)``, which counts as in `Tolerance`; 0 over 0 is 0."""
        unit = max(self.norm_x, self.tolerance.eps * self.norm_x0)
        if unit > 0.0:
            return self.error / unit
        return math.inf if self.error > 0.0 else self.error

    @property
    def shortfall(self) -> float:
        """The estimated error over the allowed one; infinity if nothing is known."""
        if math.isnan(self.error) or self.error > 0.0 == self.allowed:
            return math.inf
        return self.error / self.allowed if self.error > 0.0 else 0.0

    def observe(self, n_rows: int, drops: np.ndarray, x: np.ndarray, probe: np.ndarray, budget: float) -> Status | None:
        """Take in a burst of `n_rows`; return a status to stop with, or None to go on.

        `budget` is the number of rows that may still be read.
        """
        self._take(n_rows, drops, x, probe)
        drop, probe_drop, n_seen, spent = self._newest()
        self.spent = spent
        exact = drop <= n_seen * (_ROUNDING * self.rounding * self.eps * self.norm_x) ** 2
        by_probe = 0.0 if spent else math.sqrt(drop / probe_drop * self.probe_sq)
        self.error = max(by_probe, self._floor())
        good = max(self.margin * by_probe, self._floor()) <= self.allowed
        if good and not exact:
            self.error = max(self.error, self._extrapolate(), self._worst(x) if self.warm and not spent else 0.0)
        if good and self.error <= self.allowed:
            return Status.CONVERGED
        before, self.excess = (self.excesses_before[1], self.excess), self._excess(drop, probe_drop, x)
        leaps = self.excess > _ODD and any(self.excess > _LEAP * earlier > 0.0 for earlier in before)
        self.excesses_before = before
        self.suspicious = (leaps or self.excess > _SUSPICION) and not exact
        contradictory = self._contradictory(self.excess)
        if exact:
            return Status.PRECISION if contradictory or spent or drop == 0.0 else None
        status = self._noisy(math.sqrt(drop / n_seen), spent) if contradictory else None
        if status is None and self._is_slow() and self.fewest_rows_left > budget:
            return Status.SLOW
        return status

    def settle(self, x: np.ndarray, error: float) -> None:
        """Take over an x, and an estimate of its error, that were made otherwise."""
        self.norm_x = math.sqrt(x @ x)
        self.error = error

    def _take(self, n_rows: int, drops: np.ndarray, x: np.ndarray, probe: np.ndarray) -> None:
        self.n_rows_seen += n_rows
        drop, probe_drop = drops.tolist()
        self.rows.append(n_rows)
        self.drops.append(drop)
        self.probe_drops.append(probe_drop)
        self.norm_x = math.sqrt(x @ x)
        self.probe_sq = float(probe @ probe)

    def _is_still(self, probe_drop: float, n_rows: int) -> bool:
        return probe_drop <= n_rows * (_ROUNDING * self.rounding * _EPS) ** 2 * self.probe_sq

    def _newest(self) -> tuple[float, float, int, bool]:
        """Return the drops of x and of z over the last rows, how many these are, and whether z is spent.

        Some p rows make a steady sum. If z has not moved in them, look back further: very sparse rows touch a
        column only now and then. If it has not moved for long, z is spent: what is left of it lies where no row
        reaches, in the null space of A.
        """
        drop, probe_drop, n_seen, unit = 0.0, 0.0, 0, max(self.n_columns, 64)
        for n_rows, one, probe_one in zip(
            reversed(self.rows), reversed(self.drops), reversed(self.probe_drops), strict=True
        ):
            drop, probe_drop, n_seen = drop + one, probe_drop + probe_one, n_seen + n_rows
            still = self._is_still(probe_drop, n_seen)
            if n_seen >= unit * (_STILLNESS if still else self.window):
                break
        return drop, probe_drop, n_seen, still

    def _floor(self) -> float:
        """Return the error that rounding leaves: of A and b as given, and of x over some p steps."""
        return self.norm_x * self.rounding * max(self.tolerance.eps, _EPS * math.sqrt(self.n_columns))

    def _worst(self, x: np.ndarray) -> float:
        """Return the error of an unlucky start: all of it in the direction that has shrunk least.

        A random z has about a p-th of its square there (less than a thousandth of that in one case of forty), so the
        error is at most ``s = sqrt(1000 p) norm(z) / norm(z0)`` of that at the start, which in turn is at most
        what x has moved plus the error.
        """
        share = math.sqrt(_UNLUCKY * self.n_columns * self.probe_sq / self.probe_start_sq)
        return share / (1.0 - share) * float(np.linalg.norm(x - self.x0)) if share < 1.0 else math.inf

    @property
    def pace(self) -> float:
        """The decay of the squared error a row, as the probe has it; NaN if it is not known yet."""
        return self._rate()[0]

    @property
    def rows_left(self) -> float:
        """The rows still needed at the present pace; NaN if it is not known yet."""
        return self._rows_to_go(self._rate()[0])

    @property
    def fewest_rows_left(self) -> float:
        """The rows still needed if the pace is as fast as its spread allows; it only ever slows down."""
        rate, spread = self._rate()
        return self._rows_to_go(max(rate, 0.0) + spread)

    @property
    def falls(self) -> bool:
        """Whether a row moves x less than it did some time ago: by half of the square."""
        width = len(self.rows) // 4
        then, now = slice(-3 * width, -2 * width), slice(-width, None)
        pace_then = sum(self.drops[then]) / max(1, sum(self.rows[then]))
        return width > 0 and sum(self.drops[now]) / sum(self.rows[now]) < 0.5 * pace_then

    @property
    def probe_vanished(self) -> bool:
        """Whether z has shrunk about as far as x must, as it does where both see the same rows."""
        return math.sqrt(self.probe_sq / self.probe_start_sq) * self.norm_x <= _BEHIND * self.allowed

    def _is_slow(self) -> bool:
        """Tell whether the pace is known, and far below that of well-conditioned rows."""
        if self.n_rows_seen < max(self.patience, _PATIENCE * max(self.n_columns, 64)):
            return False
        return sum(self._rate()) < _SLOW / self.n_columns

    def _extrapolate(self) -> float:
        """Return the error by two neighbouring windows, as short as they can be; infinity if none falls.

        The ratio is widened by three times its spread, ``sqrt(2 / rows)`` for sums of squared gaps.
        """
        width, drops = 1, self.drops
        while 2 * width <= len(drops):
            s1, s2 = sum(drops[-2 * width : -width]), sum(drops[-width:])
            n1, n2 = sum(self.rows[-2 * width : -width]), sum(self.rows[-width:])
            spread = math.sqrt(2.0 / min(n2, max(self.n_columns, 8)))
            q = math.exp(-_decay(s1, n1, s2, n2) * n2) * (1.0 + 3.0 * spread)
            if q <= _WINDOW_RATIO:
                return self._path(s2, q, width) if self.bounded and self.spent else math.sqrt(s2 * q / (1.0 - q))
            width += max(1, width // 2)
        return math.inf

    @staticmethod
    def _path(drop: float, ratio: float, n_bursts: int) -> float:
        """Return the length of the way still to go, if a burst moves x by the root of its drop.

        Projections on bounds lower the squared error by more than their squares: steps may all lead the same way.
        """
        ratio_of_moves = ratio ** (0.5 / n_bursts)
        return math.sqrt(drop / n_bursts) * ratio_of_moves / (1.0 - ratio_of_moves)

    def _excess(self, drop: float, probe_drop: float, x: np.ndarray) -> float:
        """Return how much more x still moves than z, each measured by its start; about 1 if the equations agree."""
        if drop == 0.0:
            return 0.0
        moved = x - self.x0 if self.norm_x0 > 0.0 else x
        calm = probe_drop / self.probe_start_sq * float(moved @ moved)
        return drop / calm if calm > 0.0 else math.inf

    def _contradictory(self, excess: float) -> bool:
        """Tell whether no solution can explain that x still moves so much.

        If one exists, the drop of x is at most ``norm(M)**2 * norm(x* - x0)**2``, where M takes the error at
        the start to the steps of now; and the drop of z is at least a p-th of ``norm(M)**2 * norm(z0)**2``,
        up to chance.
        """
        return excess > _CONTRADICTION * self.n_columns

    def _noisy(self, noise: float, spent: bool) -> Status | None:
        """Say that the system is inconsistent, if all of z that rows can reach has settled.

        Until then a solution far away, in directions that the rows barely see, explains as much. `noise` is the
        distance that x moves for a row; half of its square is new, and a direction keeps as much as it gets.
        """
        if not spent and _CONTRADICTION * self.n_columns * self.probe_sq > self.probe_start_sq:
            return None
        self.noise = noise
        self.error = max(noise * math.sqrt(self.n_columns / 2.0), self._floor())
        if self.bounded and spent:
            self.error = max(self.error, self._extrapolate())
        return Status.CONVERGED if self.error <= self.allowed else Status.INCONSISTENT

    def memory(self, n_rows: int) -> float:
        """Return how much of a deviation of x, by its square, is left after `n_rows` at the probe's last pace."""
        rate, _ = self._rate()
        return math.exp(-min(max(rate, 0.0) * n_rows, 1.0)) if not math.isnan(rate) else 1.0

    def _rate(self) -> tuple[float, float]:
        """Return the decay of log(drop of z) a row, and three times the spread of that figure."""
        if len(self.rows) < 2:
            return math.nan, math.nan
        width = min(max(1, len(self.rows) // 3), _MOST_BURSTS)
        s1, s2 = sum(self.probe_drops[-2 * width : -width]), sum(self.probe_drops[-width:])
        n1, n2 = sum(self.rows[-2 * width : -width]), sum(self.rows[-width:])
        return _decay(s1, n1, s2, n2), 3.0 * math.sqrt(4.0 / n2) / n2

    def _rows_to_go(self, rate: float) -> float:
        if math.isnan(rate) or math.isnan(self.error):
            return math.nan
        goal = max(self.allowed / self.margin, self._floor())
        if self.error <= goal:
            return 0.0
        if rate <= 0.0 or goal == 0.0:
            return math.inf
        return 2.0 * math.log(self.error / goal) / rate

    saved: ClassVar[dict[str, Kind]] = {
        "warm": flag,
        "x0": array("p"),
        **dict.fromkeys(("norm_x0", "norm_x", "probe_start_sq", "probe_sq", "error", "noise", "excess"), number),
        "excesses_before": tuple_of(number, number),
        "n_rows_seen": integer(),
        "rows": listed(integer()),
        "drops": listed(number),
        "probe_drops": listed(number),
        **dict.fromkeys(("spent", "suspicious"), flag),
        **dict.fromkeys(("rounding", "window", "eps"), amount),
    }
    derived: ClassVar[tuple[str, ...]] = ("bounded", "patience", "tolerance", "n_columns", "margin")

    def state(self) -> dict[str, Any]:
        """Return what it has seen."""
        return state_of(self)

    def restore(self, state: Any) -> None:
        """Take over what was seen before."""
        fill(self, state, {"p": self.n_columns})
        if not len(self.rows) == len(self.drops) == len(self.probe_drops):
            raise StateError("rows, drops, probe_drops: expected as many of each")
