"""The run of one stage: prepare, iterate, check."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from rowsolve._solution import Status
from rowsolve.checkpoint.state import Sizes, array, check_keys, flag, in_place, optional, packed
from rowsolve.engine.fresh import FreshRows
from rowsolve.engine.iterates import Iterates
from rowsolve.engine.progress import Progress, StoppedByCallback
from rowsolve.engine.row_loop import RowLoop
from rowsolve.engine.stage import Context, Stage
from rowsolve.engine.step_loop import StepLoop
from rowsolve.estimate.step import FINDINGS, Findings
from rowsolve.methods.base import Method, StepMethod
from rowsolve.problem.clock import OutOfTime

__all__ = ["Run"]


class Run:
    """A stage while it runs, and its results.

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

    @property
    def may_read_all(self) -> bool:
        """Whether a pass over all rows is still allowed."""
        system = self.context.system
        return self.stage.rows_allowed(system) >= system.n_rows

    def go(self) -> Status:
        """Iterate and check; return the status. Ctrl-C ends the run with the current x."""
        try:
            status = self.loop.go()
            self.fresh.certify(status, averaged=self.loop.averaging is not None)
        except KeyboardInterrupt:
            return Status.INTERRUPTED
        except OutOfTime:
            return Status.MAX_SECONDS
        except StoppedByCallback:
            return Status.STOPPED
        return status

    def state(self, *, done: bool = False) -> dict[str, Any]:
        """Return the state of the run; only what is needed of a finished run if it is `done`."""
        stage, loop = self.stage, self.loop
        return {
            "x0": stage.x0, "probe": stage.probe, "findings": packed(self.findings), "cut_off": loop.cut_off,
            "iterates": packed(self.iterates), "fresh": packed(self.fresh), "progress": packed(self.progress),
            "loop": loop.state(done=done),
        }  # fmt: skip

    def restore(self, state: Any, *, done: bool = False) -> None:
        """Restore the state of the run."""
        sizes = self.context.system.sizes
        check_keys(state, ("x0", "probe", "findings", "cut_off", "iterates", "fresh", "progress", "loop"))
        probe, findings = optional(array("p"))(state["probe"], sizes), FINDINGS(state["findings"], sizes)
        self.stage = replace(self.stage, x0=_start(state["x0"], sizes), probe=probe, findings=findings)
        self._set_up()
        self.loop.cut_off = flag(state["cut_off"], sizes)
        self.iterates.restore(in_place(state["iterates"], sizes), sizes)
        self.fresh.restore(in_place(state["fresh"], sizes), sizes)
        self.progress.restore(in_place(state["progress"], sizes))
        self.loop.restore(state["loop"], done=done)


def _start(value: Any, sizes: Sizes) -> np.ndarray:
    return array(*(("p",) if sizes["k"] == 1 else ("k", "p")))(value, sizes)
