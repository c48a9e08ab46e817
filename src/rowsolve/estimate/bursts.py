"""The drops of x and of the probe in each burst of rows."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from rowsolve.checkpoint.state import Kind, StateError, fill, integer, listed, number, state_of
from rowsolve.policy.thresholds import FEW_COLUMNS, PATIENCE, SHRINKS, SLOW_RATE

__all__ = ["Bursts"]


class Bursts:
    """The rows of each burst, and its drops: the decrease of the squared error of x and of the probe.

    Attributes
    ----------
    rows : list of int
    drops, probe_drops : list of float
    n_rows : int
        The sum of `rows`.
    """

    def __init__(self) -> None:
        self.rows: list[int] = []
        self.drops: list[float] = []
        self.probe_drops: list[float] = []
        self.n_rows = 0

    def add(self, n_rows: int, drop: float, probe_drop: float) -> None:
        """Append a burst."""
        self.rows.append(n_rows)
        self.drops.append(drop)
        self.probe_drops.append(probe_drop)
        self.n_rows += n_rows

    def newest(self, stillness: float, usual: float, long: float) -> tuple[float, float, int, bool]:
        """Return the drops of x and of the probe over the last rows, their number, and whether the probe is still.

        The sums are taken over the `usual` number of rows. If the probe has not moved in these, as its drop is at most
        `stillness` for each, they are taken over `long` rows, since very sparse rows seldom touch a column.
        """
        drop, probe_drop, n_seen = 0.0, 0.0, 0
        for n_rows, one, probe_one in zip(
            reversed(self.rows), reversed(self.drops), reversed(self.probe_drops), strict=True
        ):
            drop, probe_drop, n_seen = drop + one, probe_drop + probe_one, n_seen + n_rows
            still = probe_drop <= n_seen * stillness
            if n_seen >= (long if still else usual):
                break
        return drop, probe_drop, n_seen, still

    @property
    def rate(self) -> tuple[float, float]:
        """The decay of log(drop of the probe) per row, and three times its standard deviation; NaN if not known."""
        if len(self.rows) < 2:
            return math.nan, math.nan
        width = max(1, len(self.rows) // 3)
        s1, s2 = sum(self.probe_drops[-2 * width : -width]), sum(self.probe_drops[-width:])
        n1, n2 = sum(self.rows[-2 * width : -width]), sum(self.rows[-width:])
        return _decay(s1, n1, s2, n2), 3.0 * math.sqrt(4.0 / n2) / n2

    def is_slow(self, n_columns: int, min_rows: float) -> bool:
        """Return whether the rate of convergence is known and far below that of well-conditioned rows.

        It is not known before `min_rows` rows, and some more.
        """
        if self.n_rows < max(min_rows, PATIENCE * max(n_columns, FEW_COLUMNS)):
            return False
        return sum(self.rate) < SLOW_RATE / n_columns

    @property
    def falls(self) -> bool:
        """Whether the squared move of x per row has decreased to less than half of what it was earlier."""
        width = len(self.rows) // 4
        then, now = slice(-3 * width, -2 * width), slice(-width, None)
        pace_then = sum(self.drops[then]) / max(1, sum(self.rows[then]))
        return width > 0 and sum(self.drops[now]) / sum(self.rows[now]) < SHRINKS * pace_then

    def memory(self, n_rows: int) -> float:
        """Return the factor by which a squared deviation of x decays in `n_rows` at the current rate of the probe."""
        rate, _ = self.rate
        return math.exp(-min(max(rate, 0.0) * n_rows, 1.0)) if not math.isnan(rate) else 1.0

    def extrapolated(self, n_columns: int, *, along_a_path: bool) -> float:
        """Return the error extrapolated from the two shortest usable adjacent windows; infinity if there are none.

        The ratio is increased by three times its standard deviation, ``sqrt(2 / rows)`` for sums of squared distances.
        `along_a_path` says that all steps may have the same direction.
        """
        width, drops = 1, self.drops
        while 2 * width <= len(drops):
            s1, s2 = sum(drops[-2 * width : -width]), sum(drops[-width:])
            n1, n2 = sum(self.rows[-2 * width : -width]), sum(self.rows[-width:])
            spread = math.sqrt(2.0 / min(n2, max(n_columns, 8)))
            q = math.exp(-_decay(s1, n1, s2, n2) * n2) * (1.0 + 3.0 * spread)
            if q <= SHRINKS:
                return _path(s2, q, width) if along_a_path else math.sqrt(s2 * q / (1.0 - q))
            width += max(1, width // 2)
        return math.inf

    saved: ClassVar[dict[str, Kind]] = {
        "rows": listed(integer()),
        **dict.fromkeys(("drops", "probe_drops"), listed(number)),
        "n_rows": integer(),
    }
    derived: ClassVar[tuple[str, ...]] = ()

    def state(self) -> dict[str, Any]:
        """Return the bursts."""
        return state_of(self)

    def restore(self, state: Any) -> None:
        """Restore the bursts of an earlier run."""
        fill(self, state, {})
        if not len(self.rows) == len(self.drops) == len(self.probe_drops):
            raise StateError("rows, drops, probe_drops: expected equal lengths")


def _path(drop: float, ratio: float, n_bursts: int) -> float:
    """Return the remaining length of the path of x, if a burst moves x by the square root of its drop.

    Projections on bounds decrease the squared error by more than their squared length, so all steps may have the same
    direction.
    """
    ratio_of_moves = ratio ** (0.5 / n_bursts)
    return math.sqrt(drop / n_bursts) * ratio_of_moves / (1.0 - ratio_of_moves)


def _decay(s1: float, n1: int, s2: float, n2: int) -> float:
    """Return the rate of exponential decay of a quantity that decreases by `s1` over `n1` rows, then by `s2` over `n2`.

    The solution r of ``(exp(r n1) - 1) / (1 - exp(-r n2)) = s1 / s2``, ``log(s1 / s2) / n`` if ``n1 = n2 = n``.
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
