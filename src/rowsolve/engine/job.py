"""One solve as a whole: it runs one stage after another, and makes the solution."""

from __future__ import annotations

import math
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import numpy as np

from rowsolve import __version__
from rowsolve._solution import Cost, Event, Solution
from rowsolve.checkpoint.file import Checkpoint, digest
from rowsolve.checkpoint.state import StateError, check_keys
from rowsolve.compiled.jit import hash_of_kernel_sources
from rowsolve.engine.messages import message_of
from rowsolve.engine.outcome import Outcome
from rowsolve.engine.run import Run
from rowsolve.engine.saver import Saver
from rowsolve.engine.stage import Context, Stage, Task
from rowsolve.engine.stages import Auto
from rowsolve.engine.warmup import warm_up
from rowsolve.policy.thresholds import SPOTS

__all__ = ["Job"]


class Job:
    """The owner of a solve: each stage is run here, and its outcome decides on the next."""

    def __init__(self, context: Context, task: Task) -> None:
        self._context, self._task = context, task
        self._auto = Auto(context, task) if task.method is None else None
        self._run: Run | None = None

    def kept_in(self, checkpoint: Checkpoint) -> Job:
        """Return this job, to be saved in `checkpoint`; if the file exists, its state is restored from it."""
        state, context = checkpoint.load(), replace(self._context, saver=Saver(checkpoint))
        if state is None:
            return Job(context, self._task)
        with checkpoint.looked_at():
            check_keys(state, ("context", "run", "auto"))
            job = Job(context.resumed(state["context"]), self._task)
            job._restore(state)
        return job

    def fingerprint(self, **more: Any) -> dict[str, Any]:
        """Return what a checkpoint must have in common with this solve."""
        system, task, tolerance = self._context.system, self._task, self._context.tolerance
        n = system.n_rows
        places = np.unique(np.linspace(0, n - 1, SPOTS).astype(int))
        rows = [system.source.row(int(i)) for i in places]
        return {
            "rowsolve": f"{__version__} {hash_of_kernel_sources()}",
            "A": f"{n} x {system.n_columns} {system.rows[0].dtype} {digest(*rows)} {system.source.stamp}",
            "b": digest(system.b),
            "x0": digest(task.x0),
            "bounds": None if system.bounds is None else digest(*system.bounds),
            "rtol, atol": [tolerance.rtol, tolerance.atol],
            "damp": system.damp,
            "check": task.check,
            "outliers": "drop" if task.drop else "keep",
            "threads": system.limits.threads,
            **more,
        }

    def go(self) -> Solution:
        """Solve the system, or resume a solve; return the solution."""
        saver = self._context.saver
        with nullcontext() if saver is None or self._run is None else saver.looked_at():
            self._announce()
            return self._solution(self._outcome())

    def _outcome(self) -> Outcome:
        """Run one stage after another; return the outcome of the solve."""
        run = self._run or self._begin(self._first_stage())
        while True:
            outcome = run.go()
            following = outcome if self._auto is None else self._auto.after(outcome)
            if isinstance(following, Outcome):
                return following
            run = self._begin(following)

    def _first_stage(self) -> Stage:
        if self._auto is not None:
            return self._auto.first()
        assert self._task.method is not None
        return self._task.stage(self._task.method)

    def _begin(self, stage: Stage) -> Run:
        """Load the kernels of a stage; return its run."""
        context = self._context
        system = context.system
        system.clock.pause(warm_up(stage.method, system.source, system.limits.threads, many=system.n_rhs > 1))
        self._run = Run(context, stage)
        if context.saver is not None:
            context.saver.keep(context=context, run=self._run, auto=self._auto)
        return self._run

    def _announce(self) -> None:
        """Report how rows that are not in memory will be read, before the first is read."""
        system, callback = self._context.system, self._context.callback
        if system.stored and callback is not None:
            nothing = np.zeros_like(self._task.x0.T)
            note = system.source.memory.words(system.source.store)  # type: ignore[attr-defined]
            nan = math.nan
            callback(Event("open", system.counter.rows_read, 0.0, 0.0, 0.0, nan, nan, nan, nothing, note))

    def _restore(self, state: Any) -> None:
        """Restore a saved state; the rows, the callback and the limits are those of this call.

        All objects are created as in a new solve, and then their state is set. The counts and the random generator,
        which that changes, are set last.
        """
        if (state["auto"] is None) is not (self._auto is None):
            raise StateError("auto: expected a state if and only if the method is 'auto'")
        with self._context.system.clock.without_deadline():
            stage = self._first_stage() if self._auto is None else self._auto.restored(state["auto"])
            self._begin(stage).restore(state["run"])
        self._context.restore(state["context"])

    def _solution(self, outcome: Outcome) -> Solution:
        context, system = self._context, self._context.system
        words, remark = ([], "") if self._auto is None else (self._auto.words, self._auto.remark)
        message = message_of(context, outcome, words, has_start=bool(self._task.x0.any()))
        trouble = "" if context.saver is None else context.saver.trouble
        result, n_read = outcome.checked.result, system.counter.rows_read
        clock, n_bytes = system.clock, system.reader.bytes_read
        return Solution(
            x=outcome.x.T.copy(),
            status=outcome.status,
            message=" ".join(filter(None, [message, remark, trouble])),
            error_estimates=outcome.errors,
            rank=outcome.findings.rank,
            optimality=outcome.findings.optimality,
            row_check=result.row_check if result else None,
            method=outcome.method.name,
            cost=Cost(n_read, n_read / system.n_rows, n_bytes, clock.elapsed, clock.paused),
            rows_off=outcome.rows_off,
            history=context.history,
        )  # fmt: skip
