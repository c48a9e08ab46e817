"""The loop of a method that projects on rows: a burst of rows, the verdict of the monitors, and an event."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from rowsolve._solution import Status
from rowsolve.checkpoint.state import Sizes, StateError, check_keys, integer, packed, row_numbers
from rowsolve.engine.averaging import Averaging
from rowsolve.engine.burst import Burst
from rowsolve.engine.fresh import FreshRows
from rowsolve.engine.iterates import Iterates
from rowsolve.engine.progress import Progress
from rowsolve.engine.stage import Context, Stage
from rowsolve.methods.base import RowMethod
from rowsolve.policy.thresholds import FEW_COLUMNS, MANY_ROWS, ORDER_OF_MAGNITUDE

__all__ = ["RowLoop"]

_NO_ROWS = np.empty(0, np.int64)


class RowLoop:
    """A loop over bursts of rows until the monitors have a verdict, with a check of fresh rows after convergence.

    Attributes
    ----------
    burst : Burst
        Takes the rows.
    averaging : Averaging or None
        The mean of the iterates, if the system is inconsistent.
    """

    clipped = False

    def __init__(
        self, context: Context, stage: Stage, iterates: Iterates, fresh: FreshRows, progress: Progress
    ) -> None:
        self._context, self._stage, self._iterates = context, stage, iterates
        self._fresh, self._progress = fresh, progress
        self.findings = stage.findings
        self.burst = Burst(context, stage, iterates, progress)
        self.averaging: Averaging | None = None
        self._rows_to_look_again = 0

    def go(self) -> Status:
        """Prepare, iterate, and average if the system is inconsistent; return how it ended."""
        context, method = self._context, self._stage.method
        assert isinstance(method, RowMethod)
        if self.burst.plan is None:
            context.system.counter.watch(partial(self._progress.report, "prepare"))
            self.burst.prepare()
            self._progress.end_of_preparation()
        context.system.counter.watch(partial(self._progress.report, "check"))
        if self.averaging is None:
            status = self._iterate()
            if status is Status.INCONSISTENT and self.burst.bounds is not None:
                return self._inconsistent(unsure=True)  # the mean does not converge to the solution within them
            if status is not Status.INCONSISTENT or self._fresh.off.size:
                return status
            self.averaging = Averaging.of(self._iterates, method)
        return self.averaging.go(self.burst)

    def _iterate(self) -> Status:
        """Take bursts until the loop ends; return how it ended.

        If x seems to have converged but does not satisfy some fresh rows, these either carry new information or are
        inconsistent with the others. They become suspects, which are used in every burst from then on: in the first
        case x converges to satisfy them; in the second the monitor finds the inconsistency, and x is computed without
        them. A method that tolerates outliers has already computed x without them.
        """
        clock = self._context.system.clock
        while True:
            self._context.offer_to_save()
            if clock.left <= 0.0:
                return Status.MAX_SECONDS
            if self._stage.rows_allowed(self._context.system) < 1:
                return Status.MAX_PASSES
            verdict = self.burst.take() or next(filter(None, map(self._stage.give_up, self._iterates.monitors)), None)
            if verdict is Status.CONVERGED and self._stage.method.can.least_squares and not self._has_seen_enough():
                self._iterates.forget_verdicts()
                continue
            if verdict in (Status.CONVERGED, Status.PRECISION):
                status = self._after_convergence(verdict)
            else:
                status = self._after(verdict)
            if status is not None:
                return status

    def _after_convergence(self, verdict: Status) -> Status | None:
        """Check fresh rows when x seems to have converged; return how the loop ends, or None if it goes on."""
        fresh, burst = self._fresh, self.burst
        if fresh.off.size:
            return self._inconsistent(unsure=fresh.never_used().size > 0)
        disagreeing = fresh.check_rows()
        if fresh.off.size:
            return verdict if fresh.can_be_left_out() else self._inconsistent(unsure=True)
        if not disagreeing.size:
            return verdict
        if np.isin(disagreeing, burst.suspects).all():
            if self._stage.method.can.max_outlier_fraction:  # no others reach these directions
                fresh.blame(burst.suspects)
                return self._inconsistent(unsure=True)
            return Status.PRECISION  # all were in the last burst, so only rounding keeps x from satisfying them
        burst.suspect(disagreeing)
        fresh.forget()
        self._iterates.restart_monitors()
        return None

    def _after(self, verdict: Status | None) -> Status | None:
        """Handle any other verdict; return how the loop ends, or None if it goes on."""
        fresh, burst, inconsistent = self._fresh, self.burst, verdict is Status.INCONSISTENT
        if inconsistent and self._stage.method.can.max_outlier_fraction and self._iterates.monitor.bursts.falls:
            self._iterates.restart_monitors()  # outliers slowed x down at first, but not the probe
        elif inconsistent and burst.bounds is not None and self._still_comes_nearer():
            pass
        elif inconsistent and burst.suspects.size:
            fresh.blame(burst.release_suspects())
            self._iterates.restart_monitors()
        elif verdict is not None:
            fresh.blame(_NO_ROWS)
            return verdict
        return None

    def _has_seen_enough(self) -> bool:
        """Return whether the rows used have reached all directions; a check of fresh rows may not show that.

        That is so if the probe has decreased as much as x must, or if x satisfies all rows or none of them reaches the
        remaining probe, which takes passes over the data.
        """
        monitor, tolerance, system = self._iterates.monitor, self._context.tolerance, self._context.system
        shrunk = monitor.probe_left
        if shrunk <= ORDER_OF_MAGNITUDE * max(tolerance.rtol, tolerance.eps):
            return True
        if monitor.bursts.n_rows < self._rows_to_look_again:
            return False
        self._rows_to_look_again = 2 * monitor.bursts.n_rows + system.n_rows
        return self._fresh.confirm_null_space()

    def _still_comes_nearer(self) -> bool:
        """Return whether x may still converge to a solution within its bounds.

        If A has a null space, the probe settles in it and gives no information on the bounds. Then the system is
        inconsistent only if x keeps moving over many rows and its moves do not decrease.
        """
        monitor, long = self._iterates.monitor, MANY_ROWS * max(self._context.system.n_columns, FEW_COLUMNS)
        self._iterates.forget_verdicts()
        return monitor.probe_settled and (monitor.bursts.n_rows < long or monitor.bursts.falls)

    def _inconsistent(self, *, unsure: bool) -> Status:
        """Return the status; if x is `unsure`, because rows that were left out may be correct, set its error to NaN."""
        if unsure:
            self._iterates.monitor.record(self._iterates.x, math.nan)
        return Status.INCONSISTENT

    def state(self) -> dict[str, Any]:
        """Return the state of the loop."""
        return {
            "suspects": self.burst.suspects,
            "rows_to_look_again": self._rows_to_look_again,
            "averaging": packed(self.averaging),
            "plan": packed(self.burst.saved_plan()),
        }

    def restore(self, state: Any) -> None:
        """Restore the state of the loop."""
        sizes: Sizes = self._context.system.sizes
        check_keys(state, ("suspects", "rows_to_look_again", "averaging", "plan"))
        self.burst.suspect(row_numbers()(state["suspects"], sizes))
        self._rows_to_look_again = integer()(state["rows_to_look_again"], sizes)
        if state["averaging"] is not None:
            self.averaging = Averaging.from_state(state["averaging"], sizes, self._iterates, self._stage.method)
        if state["plan"] is None:
            raise StateError("plan: expected one")
        self.burst.restore_plan(state["plan"])
