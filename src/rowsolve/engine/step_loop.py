"""The loop of a method that estimates its own error."""

from __future__ import annotations

import math
from typing import Any

from rowsolve._solution import Status
from rowsolve.checkpoint.state import StateError, packed
from rowsolve.engine.fresh import FreshRows
from rowsolve.engine.iterates import Iterates
from rowsolve.engine.progress import Progress
from rowsolve.engine.stage import Context, Stage
from rowsolve.estimate.step import Step
from rowsolve.methods.base import StepMethod

__all__ = ["StepLoop"]


class StepLoop:
    """A loop over the steps of a `StepMethod`, until x is accurate enough or cannot be improved.

    Attributes
    ----------
    findings : Findings
        The findings of the steps and of earlier stages.
    clipped : bool
        Whether x was clipped to its bounds, because the method does not support bounds.
    averaging : None
        The iterates are never averaged.
    """

    averaging = None

    def __init__(
        self, context: Context, stage: Stage, iterates: Iterates, fresh: FreshRows, progress: Progress
    ) -> None:
        self._context, self._stage, self._iterates = context, stage, iterates
        self._fresh, self._progress = fresh, progress
        self.findings, self.clipped = stage.findings, False
        self._steps: Any = None

    def go(self) -> Status:
        """Take steps; return the status at the end."""
        context, system = self._context, self._context.system
        system.counter.watch(self._on_piece, self._stage.max_rows)
        if self._steps is None:
            self._steps = self._new_steps()
        for step in self._steps:
            self._take(step)
            status = self._status_after(step)
            if status is not None:
                return status
            if self._stage.rows_allowed(system) < system.n_rows:  # a step is a pass
                return Status.MAX_PASSES
            system.clock.check()
            context.offer_to_save()
        raise AssertionError("the last step of a method must have a status")

    def _new_steps(self) -> Any:
        method, stage, context = self._stage.method, self._stage, self._context
        assert isinstance(method, StepMethod)
        return method.steps(context.system, stage.x0, context.tolerance, context.rng, stage.probe)

    def _take(self, step: Step) -> None:
        system = self._context.system
        ignored = system.bounds if not self._stage.method.can.bounds else None
        self.clipped = self._iterates.take_step(step, ignored)
        self.findings = self.findings.updated(step.findings)
        self._progress.record(math.nan)

    def _status_after(self, step: Step) -> Status | None:
        """Return the status with which a step ends the loop; None if the loop goes on."""
        if step.status not in (Status.CONVERGED, Status.PRECISION) or self.clipped:
            return step.status
        if self._stage.method.can.least_squares and step.residual is not None and self._stage.check == "sampled":
            self._fresh.set_residual_norm(step.residual)
            return step.status
        disagreeing = self._fresh.check_rows()
        self._fresh.blame(disagreeing)
        return Status.INCONSISTENT if disagreeing.size else step.status

    def _on_piece(self) -> None:
        """Call the callback; save the state if the step can be resumed."""
        self._progress.report("solve")
        if getattr(self._steps, "can_be_saved", False):
            self._context.offer_to_save()

    def state(self) -> Any:
        """Return the state of the steps."""
        return packed(self._steps)

    def restore(self, state: Any) -> None:
        """Restore the state of the steps."""
        if state is None:
            raise StateError("loop: expected one")
        self._steps = self._new_steps()
        if not hasattr(self._steps, "restore"):
            raise StateError(f"loop: {self._stage.method.name} has no state")
        self._steps.restore(state)
