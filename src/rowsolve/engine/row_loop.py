"""The loop of a method that projects on rows: a burst of rows, the verdict of the monitors, an event."""

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

__all__ = ["RowLoop"]

_NO_ROWS = np.empty(0, np.int64)
_LONG = 200  # times p rows, in which an x that comes nearer does so visibly
_SHRUNK = 30.0  # times the tolerance


class RowLoop:
    """Takes bursts of rows until something is settled; then checks fresh rows.

    Attributes
    ----------
    burst : Burst
        What takes the rows.
    averaging : Averaging or None
        The mean of the iterates, once the system has turned out to be inconsistent.
    """

    cut_off = False

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
            context.system.counter.watch(partial(self._progress.tell, "prepare"))
            self.burst.prepare()
            self._progress.end_of_preparation()
        context.system.counter.watch(partial(self._progress.tell, "check"))
        if self.averaging is None:
            status = self._iterate()
            if status is Status.INCONSISTENT and self.burst.bounds is not None:
                return self._inconsistent(unsure=True)  # the mean is not the least-squares solution within them
            if status is not Status.INCONSISTENT or self._fresh.off.size:
                return status
            self.averaging = Averaging.of(self._iterates, method)
        return self.averaging.go(self.burst)

    def _iterate(self) -> Status:
        """Take bursts until something is settled.

        Fresh rows that disagree with an x that looked good are news, or inconsistent. They are used in every burst from
        then on: if they are news, x converges with them; if not, the monitor finds the inconsistency, and x is found
        without them. A method that tolerates outliers has found x without them already.
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
        """Check fresh rows where x looks good; return how the loop ends, or None if it goes on."""
        fresh, burst = self._fresh, self.burst
        if fresh.off.size:
            return self._inconsistent(unsure=fresh.never_used().size > 0)
        disagreeing = fresh.that_disagree()
        if fresh.off.size:
            return verdict if fresh.can_be_left_out() else self._inconsistent(unsure=True)
        if not disagreeing.size:
            return verdict
        if np.isin(disagreeing, burst.suspects).all():
            if self._stage.method.max_outlier_fraction:  # no others reach there, and these are mutually inconsistent
                fresh.off = burst.suspects
                return self._inconsistent(unsure=True)
            return Status.PRECISION  # they were all used just now: only rounding can keep x from them
        burst.suspects, fresh.finding = np.union1d(burst.suspects, disagreeing), None
        self._iterates.judge_anew()
        return None

    def _after(self, verdict: Status | None) -> Status | None:
        """Do what any other verdict asks for; return how the loop ends, or None if it goes on."""
        fresh, burst, inconsistent = self._fresh, self.burst, verdict is Status.INCONSISTENT
        if inconsistent and self._stage.method.max_outlier_fraction and self._iterates.monitor.bursts.falls:
            self._iterates.judge_anew()  # outliers held x up at first, and the probe ran ahead
        elif inconsistent and burst.bounds is not None and self._still_comes_nearer():
            pass
        elif inconsistent and burst.suspects.size:
            fresh.off, burst.suspects = burst.suspects, _NO_ROWS
            burst.set_agreeing()
            self._iterates.judge_anew()
        elif verdict is not None:
            fresh.off = _NO_ROWS
            return verdict
        return None

    def _has_seen_enough(self) -> bool:
        """Tell whether all directions have been reached; fresh rows, which need not be satisfied, could not tell.

        They have if the probe has shrunk as x must. Or, as a pass shows, if x satisfies all rows, or if none of them
        reaches what is left of the probe.
        """
        monitor, tolerance, system = self._iterates.monitor, self._context.tolerance, self._context.system
        shrunk = math.sqrt(monitor.probe_sq / monitor.start.probe_sq)
        if shrunk <= _SHRUNK * max(tolerance.rtol, tolerance.eps):
            return True
        if monitor.bursts.n_rows < self._rows_to_look_again:
            return False
        self._rows_to_look_again = 2 * monitor.bursts.n_rows + system.n_rows
        return self._fresh.reach_the_rest()

    def _still_comes_nearer(self) -> bool:
        """Tell whether x may still find its way between the equations and its bounds.

        Where A has a null space, the probe settles in it and says nothing about the bounds. Then only an x that moves
        on and on, no less than before, shows that the system is inconsistent.
        """
        monitor, long = self._iterates.monitor, _LONG * max(self._context.system.n_columns, 64)
        self._iterates.forget_verdicts()
        return monitor.spent and (monitor.bursts.n_rows < long or monitor.bursts.falls)

    def _inconsistent(self, *, unsure: bool) -> Status:
        """Take the estimate back if x is `unsure`: rows that were left out may be right."""
        if unsure:
            self._iterates.monitor.record(self._iterates.x, math.nan)
        return Status.INCONSISTENT

    def state(self, *, done: bool = False) -> dict[str, Any]:
        """Return how far the loop has got; without what it takes to go on, if it is `done`."""
        return {
            "suspects": self.burst.suspects,
            "rows_to_look_again": self._rows_to_look_again,
            "averaging": packed(self.averaging),
            "plan": None if done else packed(self.burst.saved_plan()),
        }

    def restore(self, state: Any, *, done: bool = False) -> None:
        """Take over how far it had got."""
        sizes: Sizes = self._context.system.sizes
        check_keys(state, ("suspects", "rows_to_look_again", "averaging", "plan"))
        self.burst.suspects = row_numbers()(state["suspects"], sizes)
        self._rows_to_look_again = integer()(state["rows_to_look_again"], sizes)
        if state["averaging"] is not None:
            self.averaging = Averaging.from_state(state["averaging"], sizes, self._iterates, self._stage.method)
        if (state["plan"] is None) is not done:
            raise StateError(f"plan: expected {'none' if done else 'one'}")
        if not done:
            self.burst.restore_plan(state["plan"])
