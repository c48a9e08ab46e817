"""One solve as a whole: its stages, its state in a checkpoint, its solution."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rowsolve import __version__
from rowsolve._auto import Auto
from rowsolve._checkpoint import Checkpoint, digest
from rowsolve._drive import Run, go_on
from rowsolve._jit import hash_of_kernel_sources
from rowsolve._monitor import Monitor, Tolerance
from rowsolve._solution import Event, History, Solution, Status
from rowsolve._system import System
from rowsolve._warmup import warm_up
from rowsolve._words import message_of
from rowsolve.methods import Method
from rowsolve.methods.chunked import InChunks

__all__ = ["Job"]

_ROWS_TO_REMEMBER = 64  # of A, in a fingerprint


class Job:
    """A solve that can be saved on its way: everything that changes hangs on this object.

    Attributes
    ----------
    method : Method or None
        None stands for ``"auto"``.
    auto : Auto or None
        The stages, if there are several.
    run : Run or None
        The only one, if there is but one.
    """

    def __init__(
        self, method: Method | None, x0: np.ndarray, system: System, tolerance: Tolerance, max_rows: float, check: str,
        rng: np.random.Generator, callback: Callable[[Event], Any] | None, *, drop: bool = False,
    ) -> None:  # fmt: skip
        self.method, self.x0, self.system, self.tolerance = method, x0, system, tolerance
        self.max_rows, self.check, self.rng, self.callback = max_rows, check, rng, callback
        self.history, self.bytes_read, self.drop = History(), 0.0, drop
        self.auto: Auto | None = None
        self.run: Run | None = None
        self._checkpoint: Checkpoint | None = None

    def go(self) -> Solution:
        """Solve, or go on."""
        self._announce()
        if self.method is not None:
            self.run = self.run or self.begin(self.method, self.x0)
            return self._solution(self.run, self.run.go())
        auto = self.auto = self.auto or Auto(
            self.system,
            self.x0,
            self.tolerance.rtol,
            self.begin,
            self.rng,
            drop=self.drop,
            rows_allowed=self.max_rows,
        )
        status = auto.go()
        assert auto.run is not None
        return self._solution(auto.run, status, auto.words, auto.remark)

    def begin(self, method: Method, x0: np.ndarray, give_up: Callable[[Monitor], Status | None] = go_on) -> Run:
        """Return a run of `method` from `x0`, its kernels loaded."""
        self._load_kernels(method)
        save = None if self._checkpoint is None else self.save
        return Run(
            method, self.system, self.tolerance, x0, self.max_rows, self.check, self.rng, self.callback, give_up,
            self.history, save,
        )  # fmt: skip

    def _load_kernels(self, method: Method) -> None:
        system = self.system
        system.clock.pause(warm_up(method, system.source, system.threads, many=system.n_rhs > 1))

    def _announce(self) -> None:
        """Tell the caller how rows that are not in memory will be read, before they are."""
        if self.system.stored and self.callback is not None:
            nothing = np.zeros_like(self.x0.T)
            note = self.system.source.memory.words(self.system.source.store)  # type: ignore[attr-defined]
            nan = math.nan
            self.callback(Event("open", self.system.rows_read, 0.0, 0.0, 0.0, nan, nan, nan, nothing, note))

    def fingerprint(self, **more: Any) -> dict[str, Any]:
        """Return what a checkpoint must have in common with this solve."""
        system, n = self.system, self.system.n_rows
        places = np.unique(np.linspace(0, n - 1, _ROWS_TO_REMEMBER).astype(int))
        rows = [system.source.row(int(i)) for i in places]
        return {
            "rowsolve": f"{__version__} {hash_of_kernel_sources()}",
            "A": f"{n} x {system.n_columns} {system.rows[0].dtype} {digest(*rows)} {system.source.stamp}",
            "b": digest(system.b),
            "x0": digest(self.x0),
            "bounds": None if system.bounds is None else digest(*system.bounds),
            "rtol, atol": [self.tolerance.rtol, self.tolerance.atol],
            "damp": system.damp,
            "check": self.check,
            "outliers": "drop" if self.drop else "keep",
            "threads": system.threads,
            **more,
        }

    def kept_in(self, checkpoint: Checkpoint) -> Job:
        """Return this job, or the one in the file if there is one, to be saved there on its way."""
        place = checkpoint.place()
        job = self if place is None else self._loaded(checkpoint, place)
        job._checkpoint = checkpoint
        return job

    @property
    def _current(self) -> Run | None:
        return self.run if self.auto is None else self.auto.run

    def save(self) -> None:
        """Write the state if it is time to."""
        checkpoint, run = self._checkpoint, self._current
        if checkpoint is None or not checkpoint.due or run is None:
            return
        self.bytes_read = self.system.bytes_read
        known, place = self._known(), None
        if isinstance(run.plan, InChunks):
            place, source = run.plan.place, run.plan.plan.system.source
            known |= {"chunk": source, "rows of the chunk": source.rows}
        checkpoint.save(self, known, [place])

    def _known(self) -> dict[str, Any]:
        source = self.system.source
        known = {"source": source, "rows": source.rows, "b": self.system.b, "callback": self.callback}
        return {**known, "checkpoint": self._checkpoint}

    def _loaded(self, checkpoint: Checkpoint, place: Any) -> Job:
        """Return the job in the file: with the rows of this one, and with its limits."""
        known, walk = {**self._known(), "checkpoint": checkpoint}, None
        if place[0] is not None:
            walk = self.system.source.endless(*place[0])  # type: ignore[attr-defined]
            _, source = next(walk)
            known |= {"chunk": source, "rows of the chunk": source.rows}
        job: Job = checkpoint.load(known, "" if self.method is None else type(self.method).__module__)
        job.system.restore_bytes(job.bytes_read)
        job.max_rows, job.system.clock.deadline = self.max_rows, self.system.clock.deadline
        run = job._current
        assert run is not None
        run.max_rows = self.max_rows
        if walk is not None:
            run.plan.walk = walk
        job._load_kernels(run.method)
        return job

    def _solution(self, run: Run, status: Status, decisions: Sequence[str] = (), remark: str = "") -> Solution:
        rows_off = run.off if status in (Status.CONVERGED, Status.PRECISION, Status.INCONSISTENT) else run.off[:0]
        rows_off = np.union1d(rows_off, run.zero_rows) if rows_off.size or run.zero_rows.size else rows_off
        trouble = "" if self._checkpoint is None else self._checkpoint.trouble
        return Solution(
            x=run.x.T.copy(),
            status=status,
            message=" ".join(filter(None, [message_of(run, status, decisions), remark, trouble])),
            error_estimate=run.worst_error,
            error_estimates=run.relative_errors,
            rank=run.system.rank,
            optimality=run.system.optimality,
            residual=run.finding.residual if run.finding else None,
            method=run.method.name,
            rows_read=run.system.rows_read,
            passes=run.system.rows_read / run.system.n_rows,
            bytes_read=run.system.bytes_read,
            seconds=run.clock.elapsed,
            compile_seconds=run.clock.paused,
            rows_off=rows_off,
            history=run.history,
        )
