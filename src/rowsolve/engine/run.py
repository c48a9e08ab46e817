"""The run of one stage: prepare, iterate, check, and report what was found."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from rowsolve._solution import Status
from rowsolve.checkpoint.state import Sizes, array, check_keys, in_place, optional, packed
from rowsolve.engine.fresh import FreshRows
from rowsolve.engine.iterates import Iterates, OutOfRange
from rowsolve.engine.outcome import Outcome, Outlook
from rowsolve.engine.progress import Progress, StoppedByCallback
from rowsolve.engine.row_loop import RowLoop
from rowsolve.engine.stage import Context, Stage
from rowsolve.engine.step_loop import StepLoop
from rowsolve.estimate.step import FINDINGS, Findings
from rowsolve.methods.base import Method, StepMethod
from rowsolve.problem.clock import OutOfTime

__all__ = ["Run"]


class Run:
    """A stage while it runs.

    Attributes
    ----------
    iterates : Iterates
        x, the probe, and their monitors.
    fresh : FreshRows
        The checks of fresh rows.
    loop : RowLoop or StepLoop
    """

    def __init__(self, context: Context, stage: Stage) -> None:
        self.context, self.stage = context, stage
        self._set_up()

    def _set_up(self) -> None:
        common = self.context, self.stage
        self.iterates = Iterates(*common)
        self.fresh = FreshRows(*common, self.iterates)
        self.progress = Progress(*common, self.iterates)
        kind = StepLoop if isinstance(self.method, StepMethod) else RowLoop
        self.loop: RowLoop | StepLoop = kind(*common, self.iterates, self.fresh, self.progress)

    @property
    def method(self) -> Method:
        """The method of the stage."""
        return self.stage.method

    @property
    def findings(self) -> Findings:
        """The findings of this stage and of earlier stages."""
        return self.loop.findings

    def go(self) -> Outcome:
        """Iterate and check; return what was found. Ctrl-C ends the run with the current x."""
        try:
            status = self.loop.go()
            self.fresh.certify(status, averaged=self.loop.averaging is not None)
        except KeyboardInterrupt:
            return self._outcome(Status.INTERRUPTED)
        except OutOfTime:
            return self._outcome(Status.MAX_SECONDS)
        except StoppedByCallback:
            return self._outcome(Status.STOPPED)
        except OutOfRange:
            if not self.stage.may_fail:
                raise
            return self._outcome(Status.INCONSISTENT)
        return self._outcome(status)

    def _outcome(self, status: Status) -> Outcome:
        iterates, loop = self.iterates, self.loop
        outlook = Outlook.of(iterates.monitors, iterates.monitor)
        if loop.averaging is not None:
            rows_averaged, rows_left_of_mean = loop.averaging.n_rows, loop.averaging.rows_left
            outlook = outlook._replace(rows_averaged=rows_averaged, rows_left_of_mean=rows_left_of_mean)
        return Outcome(
            self.method, status, iterates.x, iterates.probe, iterates.relative_errors, self.findings,
            self.fresh.checked, outlook, loop.clipped,
        )  # fmt: skip

    def state(self) -> dict[str, Any]:
        """Return the state of the run."""
        stage = self.stage
        return {
            "x0": stage.x0, "probe": stage.probe, "findings": packed(self.findings), "iterates": packed(self.iterates),
            "fresh": packed(self.fresh), "progress": packed(self.progress), "loop": packed(self.loop),
        }  # fmt: skip

    def restore(self, state: Any) -> None:
        """Restore the state of the run."""
        sizes = self.context.system.sizes
        check_keys(state, ("x0", "probe", "findings", "iterates", "fresh", "progress", "loop"))
        probe, findings = optional(array("p"))(state["probe"], sizes), FINDINGS(state["findings"], sizes)
        self.stage = replace(self.stage, x0=_start(state["x0"], sizes), probe=probe, findings=findings)
        self._set_up()
        self.iterates.restore(in_place(state["iterates"], sizes), sizes)
        self.fresh.restore(in_place(state["fresh"], sizes), sizes)
        self.progress.restore(in_place(state["progress"], sizes))
        self.loop.restore(state["loop"])


def _start(value: Any, sizes: Sizes) -> np.ndarray:
    return array(*(("p",) if sizes["k"] == 1 else ("k", "p")))(value, sizes)
