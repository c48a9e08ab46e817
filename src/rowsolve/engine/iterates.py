"""The current x of each right-hand side, the probe, and the verdicts of the monitors."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from rowsolve._solution import Status
from rowsolve.checkpoint.state import Kind, Sizes, array, fill, in_place, listed, member, optional, packed, state_of
from rowsolve.engine.stage import Context, Stage
from rowsolve.estimate.monitor import Monitor
from rowsolve.estimate.step import Step
from rowsolve.kernels.rows import zeros_for_vectors
from rowsolve.methods.base import Plan, RowMethod
from rowsolve.policy.thresholds import SMALLEST

__all__ = ["Iterates", "OutOfRange"]

# The verdict for several right-hand sides is the first of these that any of them has; None is no verdict yet.
_STATUS_PRIORITY = (Status.SLOW, None, Status.INCONSISTENT, Status.PRECISION, Status.CONVERGED)


class OutOfRange(ValueError):
    """x is out of the range of float64."""


class Iterates:
    """The vectors that a method moves; each x has its own monitor.

    Attributes
    ----------
    values : ndarray of shape (n_rhs + 1, p)
        The x of each right-hand side, and the probe.
    drops : ndarray of shape (n_rhs + 1,)
        The decrease of the squared error of each by the last burst.
    verdicts : list of Status or None
        The verdict of each monitor.
    """

    def __init__(self, context: Context, stage: Stage) -> None:
        system, method = context.system, stage.method
        self.n_rhs, p = system.n_rhs, system.n_columns
        self.values = np.empty((2, p)) if self.n_rhs == 1 else zeros_for_vectors(system.rows, self.n_rhs + 1, p)
        self.values[:-1] = stage.x0
        self.drops = np.zeros(self.n_rhs + 1)
        self._context, self._by_rows = context, isinstance(method, RowMethod)
        self._min_rows = system.n_rows if method.can.in_given_order else 0
        self._bounded = system.bounds is not None and method.can.bounds
        self.restart_monitors(warm=bool(stage.x0.any()))

    @property
    def x(self) -> np.ndarray:
        """The current x, of shape (p,); or one for each right-hand side, of shape (n_rhs, p)."""
        return self.values[0] if self.n_rhs == 1 else self.values[:-1]

    @property
    def probe(self) -> np.ndarray:
        """The probe."""
        return self.values[-1]

    @property
    def monitor(self) -> Monitor:
        """The monitor of the x furthest from convergence, preferably of one without a verdict."""
        if len(self.monitors) == 1:
            return self.monitors[0]
        undecided = [each for each, verdict in zip(self.monitors, self.verdicts, strict=True) if verdict is None]
        return max(undecided or self.monitors, key=lambda each: each.error_ratio)

    @property
    def relative_errors(self) -> np.ndarray:
        """The estimated relative error of each x."""
        return np.array([each.relative_error for each in self.monitors])

    @property
    def worst_error(self) -> float:
        """The largest relative error; NaN if any is NaN."""
        return self.monitors[0].relative_error if len(self.monitors) == 1 else float(self.relative_errors.max())

    @property
    def limit(self) -> np.ndarray:
        """The limit of each x: the allowed distance from a hyperplane, three times the allowed error plus rounding."""
        eps = self._context.tolerance.eps
        return np.array([3.0 * each.allowed + 16.0 * eps * each.norm_x for each in self.monitors])

    def restart_monitors(self, *, warm: bool = True) -> None:
        """Start new monitors at the current x, and a new probe (unless the method estimates its own error)."""
        probe = self.probe
        probe[:] = 0.0
        if self._by_rows:
            probe += self._context.rng.standard_normal(probe.size)
            probe /= math.sqrt(probe @ probe)
        self.monitors = [
            Monitor(self._context.tolerance, x, probe, warm=warm, min_rows=self._min_rows, bounded=self._bounded)
            for x in self.values[:-1]
        ]
        self.verdicts: list[Status | None] = [None] * len(self.monitors)

    def forget_verdicts(self) -> None:
        """Discard the verdicts of all monitors."""
        self.verdicts = [None] * len(self.verdicts)

    def observe(self, plan: Plan, n_rows: int, rows_allowed: float) -> None:
        """Pass a burst of `n_rows` rows to the monitors.

        An x that has converged moves on with the others; its estimate is updated, but its verdict stays.
        """
        drops = self.drops[:-1].tolist()
        for c, monitor in enumerate(self.monitors):
            _keep_in_range(drops[c])
            verdict = self.verdicts[c]
            if verdict not in (None, Status.CONVERGED):
                continue
            before = monitor.error
            monitor.set_precision(plan.rounding, plan.window, plan.eps)
            found = monitor.observe(n_rows, self.drops[[c, -1]], self.values[c], self.probe, rows_allowed)
            if verdict is None:
                self.verdicts[c] = found
            else:  # it has converged, and its error can only decrease
                monitor.keep_smaller_error(before)

    @property
    def verdict(self) -> Status | None:
        """The most severe verdict; None if a monitor has none yet and no verdict takes precedence."""
        return next(verdict for verdict in _STATUS_PRIORITY if verdict in self.verdicts)

    def take_step(self, step: Step, bounds: tuple[np.ndarray, np.ndarray] | None) -> bool:
        """Set x and its error; return whether x had to be clipped to `bounds`, so that its error is not known."""
        self.values[:-1] = step.x
        clipped = False
        if bounds is not None:
            np.clip(self.values[:-1], *bounds, out=self.values[:-1])
            clipped = bool(np.any(self.values[:-1] != step.x))
        errors = (np.zeros(len(self.monitors)) + step.error).tolist()
        for monitor, x, error in zip(self.monitors, self.values[:-1], errors, strict=True):
            _keep_in_range(error)
            monitor.record(x, math.nan if clipped else error)
        return clipped

    def make_sure_of_range(self) -> None:
        """Raise if an x is so small that its square underflows."""
        for monitor, x in zip(self.monitors, self.values[:-1], strict=True):
            if monitor.norm_x < SMALLEST and x.any():
                raise OutOfRange("x is too small for float64: rescale `A` or `b` so that it is well above 1e-150.")

    saved: ClassVar[dict[str, Kind]] = {
        "values": array("v", "p", order="many"),
        "drops": array("v"),
        "verdicts": listed(optional(member(Status)), "k"),
    }
    derived: ClassVar[tuple[str, ...]] = ("n_rhs", "_context", "_by_rows", "_min_rows", "_bounded", "monitors")

    def state(self) -> dict[str, Any]:
        """Return the state of the iterates and of their monitors."""
        return {**state_of(self), "monitors": packed(self.monitors)}

    def restore(self, state: Any, sizes: Sizes) -> None:
        """Restore the iterates and their monitors."""
        fill(self, state, sizes, besides=("monitors",))
        for monitor, each in zip(self.monitors, listed(in_place, "k")(state["monitors"], sizes), strict=True):
            monitor.restore(each)


def _keep_in_range(size: float) -> None:
    if not math.isfinite(size):
        raise OutOfRange("x is too large for float64: rescale `A` or `b` so that it is well below 1e150.")
