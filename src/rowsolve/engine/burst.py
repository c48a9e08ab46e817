"""A burst: the rows that a method uses between two calls of the monitor, and the suspects."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rowsolve._solution import Status
from rowsolve.engine.chunks import InChunks
from rowsolve.engine.iterates import Iterates
from rowsolve.engine.progress import Progress
from rowsolve.engine.stage import Context, Stage
from rowsolve.estimate.monitor import rows_left
from rowsolve.methods.base import RowMethod
from rowsolve.methods.oblivious import sweep_rows
from rowsolve.policy.thresholds import (
    BURST_SHARE,
    FEW_COLUMNS,
    LONGEST_BURST,
    MUCH_MORE,
    WORK_OF_A_BURST,
    WORK_OF_A_LOOK,
)

__all__ = ["Burst"]


class Burst:
    """The bursts of rows of a stage.

    Attributes
    ----------
    plan : Plan or None
        The plan of the method.
    suspects : ndarray of int64
        Fresh rows that x did not satisfy; they are used in every burst.
    bounds : pair of ndarrays, or None
        The bounds that x is projected on after every burst.
    """

    def __init__(self, context: Context, stage: Stage, iterates: Iterates, progress: Progress) -> None:
        assert isinstance(stage.method, RowMethod)
        self.context, self._stage, self.iterates, self.progress = context, stage, iterates, progress
        chunked = context.system.stored and stage.method.can.in_chunks
        self._method = InChunks(stage.method) if chunked else stage.method
        self.bounds = context.system.bounds if stage.method.can.bounds else None
        self.suspects = np.empty(0, np.int64)
        self.plan: Any = None

    def prepare(self) -> None:
        """Let the method prepare."""
        self.plan = self._method.begin(self.context.system, self.context.rng)

    @property
    def rows_allowed(self) -> float:
        """The number of rows that may still be read."""
        return self._stage.rows_allowed(self.context.system)

    def take(self) -> Status | None:
        """Take a burst of rows; return the verdict of the monitors, or None."""
        order = self.advance()
        self.iterates.observe(self.plan, order.size, self.rows_allowed)
        self.progress.record(sum(self.iterates.drops[:-1].tolist()))
        return None if self._is_misled() else self.iterates.verdict

    def suspect(self, rows: np.ndarray) -> None:
        """Use `rows` in every burst from now on."""
        self.suspects = np.union1d(self.suspects, rows)

    def release_suspects(self) -> np.ndarray:
        """Return the suspects and use them no more; chains and memory, which assume a consistent system, may return."""
        released, self.suspects = self.suspects, np.empty(0, np.int64)
        self.plan.trust()
        return released

    def _is_misled(self) -> bool:
        """Return whether chains or memory may have misled x because the system is inconsistent."""
        return self.plan.assumes_consistency and any(monitor.suspicious for monitor in self.iterates.monitors)

    def advance(self) -> np.ndarray:
        """Let the method take a burst of rows, then take the suspects; return all rows taken.

        If the system seems inconsistent, plain projections continue from the current x, with a new estimate.
        """
        plan, system, values, drops = self.plan, self.context.system, self.iterates.values, self.iterates.drops
        if self._is_misled():
            plan.distrust()
            self.iterates.restart_monitors()
        n_rows = self._rows_of_a_burst()
        order = self._method.advance(plan, values, n_rows, self.context.rng, drops)
        if self.suspects.size:
            own = np.zeros_like(drops)
            sweep_rows(system, self.suspects, values, own)
            drops += own
            order = np.concatenate([order, self.suspects])
        if self.bounds is not None:
            self._keep_within(*self.bounds)
        system.count(order)
        return order

    def _keep_within(self, low: np.ndarray, high: np.ndarray) -> None:
        """Project x on its bounds: the squared distance to any solution within them decreases at least by the drop."""
        x = self.iterates.values[0]
        within = np.clip(x, low, high)
        moved = x - within
        self.iterates.drops[0] += moved @ moved
        x[:] = within

    def _rows_of_a_burst(self) -> int:
        """Return the number of rows of the next burst, from the work per row and at most as many as may be read.

        It depends on the clock only if there is a deadline, so that results are reproducible for a given seed.
        """
        plan, system, monitor = self.plan, self.context.system, self.iterates.monitor
        n_chains = plan.n_chains
        rows: float = max(system.n_columns, FEW_COLUMNS) * min(n_chains, 4)
        if not monitor.bursts.rows and not monitor.estimator.warm:
            # Even well-conditioned rows need twice as many. In small systems the monitor takes most of the time.
            few = system.n_columns * -math.log(self.context.tolerance.rtol or 1.0)
            rows = max(rows, min(few, WORK_OF_A_LOOK / plan.work_per_row, self.rows_allowed / 4))
        if not self.suspects.size:
            rows = max(rows, monitor.bursts.n_rows * BURST_SHARE)
            if system.n_columns >= FEW_COLUMNS and len(monitor.bursts.rows) > 1:
                rows = self._towards_the_end(rows)
        rows = min(rows, WORK_OF_A_BURST * n_chains / plan.work_per_row, self.rows_allowed / plan.price_of_row)
        if system.clock.left < np.inf:
            pace = self.progress.rows_a_second
            rows = min(rows, system.clock.left * pace if not math.isnan(pace) else rows / 16)
        steps = int(rows) // plan.rows_per_step
        return max(1, steps) * plan.rows_per_step

    def _towards_the_end(self, rows: float) -> float:
        """Return more than `rows` while convergence is far, and as many as are needed when it is near.

        A call of the monitor takes as long as some hundred rows. With many columns the error decreases steadily, so
        long bursts are safe unless the system seems inconsistent. With a tolerance of zero (as in experiments) bursts
        stay short.
        """
        monitor, tolerance = self.iterates.monitor, self.context.tolerance
        left = 1.05 * rows_left(monitor)
        if not 0.0 < left < math.inf or tolerance.rtol == tolerance.atol == 0.0:
            return rows
        if left < rows:
            return max(left, self.context.system.n_columns / 4)
        if monitor.excesses[0] > MUCH_MORE:
            return rows
        return max(rows, min(left / 2, LONGEST_BURST * rows, 2 * monitor.bursts.rows[-1]))

    def saved_plan(self) -> Any:
        """Return the state of the plan for a checkpoint."""
        return self._method.save(self.plan)

    def restore_plan(self, state: Any) -> None:
        """Restore the plan of an earlier run."""
        self.plan = self._method.resume(self.context.system, state)
