"""One solve as a whole: its stages, its state in a checkpoint, its solution."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rowsolve import __version__
from rowsolve._solution import Event, History, Solution, Status
from rowsolve.checkpoint.file import Checkpoint, digest
from rowsolve.checkpoint.state import (
    StateError,
    check_keys,
    generator_of,
    integer,
    listed,
    named,
    number,
    optional,
    packed,
    restart,
    state_of_generator,
    text,
)
from rowsolve.compiled.jit import hash_of_kernel_sources
from rowsolve.engine.messages import message_of
from rowsolve.engine.run import Run
from rowsolve.engine.stage import Context, Stage
from rowsolve.engine.stages import Auto
from rowsolve.engine.warmup import warm_up
from rowsolve.estimate.tolerance import Tolerance
from rowsolve.lstsq.spectrum import SPECTRUM
from rowsolve.methods import Method, Refined
from rowsolve.problem.system import System

__all__ = ["Job"]

_ROWS_TO_REMEMBER = 64  # of A, in a fingerprint
_ANY = Refined()  # until `Auto` has chosen one
_NUMBERS = listed(number)
_HISTORY = named(
    History, method=listed(text), rows_read=listed(integer()), seconds=_NUMBERS, drop=_NUMBERS, error_estimate=_NUMBERS
)


class Job:
    """A solve that can be saved while it runs: this object holds all of its state.

    Attributes
    ----------
    method : Method or None
        None stands for ``"auto"``.
    auto : Auto or None
        The stages, if there are several.
    run : Run or None
        The only run, if the method was given.
    """

    def __init__(
        self, method: Method | None, x0: np.ndarray, system: System, tolerance: Tolerance, max_rows: float, check: str,
        rng: np.random.Generator, callback: Callable[[Event], Any] | None, *, drop: bool = False,
    ) -> None:  # fmt: skip
        self.method, self.x0, self.system, self.tolerance = method, x0, system, tolerance
        self.max_rows, self.check, self.rng, self.callback = max_rows, check, rng, callback
        self.history, self.drop = History(), drop
        self.auto: Auto | None = None
        self.run: Run | None = None
        self._checkpoint: Checkpoint | None = None
        self._resumed = False

    def go(self) -> Solution:
        """Solve the system, or resume a solve; return the solution."""
        if self._checkpoint is None or not self._resumed:
            return self._go()
        with self._checkpoint.looked_at():
            return self._go()

    def _go(self) -> Solution:
        self._announce()
        if self.method is not None:
            self.run = self.run or self.begin(self._only_stage(self.method))
            return self._solution(self.run, self.run.go())
        auto = self.auto = self.auto or self._new_auto()
        status = auto.go()
        assert auto.run is not None
        return self._solution(auto.run, status, auto.words, auto.remark)

    def _new_auto(self) -> Auto:
        first = Stage(_ANY, self.x0, self.max_rows, self.check)
        return Auto(self.system, self.tolerance.rtol, self.begin, self.rng, first, drop=self.drop)

    def begin(self, stage: Stage) -> Run:
        """Load the kernels of a stage; return its run."""
        self._load_kernels(stage.method)
        save = None if self._checkpoint is None else self.save
        return Run(Context(self.system, self.tolerance, self.rng, self.history, self.callback, save), stage)

    def _only_stage(self, method: Method) -> Stage:
        return Stage(method, self.x0, self.max_rows, self.check)

    def _load_kernels(self, method: Method) -> None:
        system = self.system
        system.clock.pause(warm_up(method, system.source, system.limits.threads, many=system.n_rhs > 1))

    def _announce(self) -> None:
        """Report how rows that are not in memory will be read, before the first is read."""
        if self.system.stored and self.callback is not None:
            nothing = np.zeros_like(self.x0.T)
            note = self.system.source.memory.words(self.system.source.store)  # type: ignore[attr-defined]
            nan = math.nan
            self.callback(Event("open", self.system.counter.rows_read, 0.0, 0.0, 0.0, nan, nan, nan, nothing, note))

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
            "threads": system.limits.threads,
            **more,
        }

    def kept_in(self, checkpoint: Checkpoint) -> Job:
        """Return this job, to be saved in `checkpoint`; if the file exists, its state is restored from it."""
        state, self._checkpoint = checkpoint.load(), checkpoint
        if state is not None:
            with checkpoint.looked_at():
                self.restore(state)
        return self

    @property
    def _current(self) -> Run | None:
        return self.run if self.auto is None else self.auto.run

    def save(self) -> None:
        """Write the state if a save is due."""
        checkpoint = self._checkpoint
        if checkpoint is not None and checkpoint.due and self._current is not None:
            checkpoint.save(self.state)

    def state(self) -> dict[str, Any]:
        """Return everything that changes during the solve."""
        system = self.system
        return {
            "rng": state_of_generator(self.rng),
            "clock": system.clock.state(),
            "counter": system.counter.state(),
            "spectrum": packed(system.facts.spectrum),
            "bytes_read": float(system.reader.bytes_read),
            "history": packed(self.history),
            "run": packed(self.run),
            "auto": packed(self.auto),
        }

    def restore(self, state: Any) -> None:
        """Restore a saved state; the rows, the callback and the limits are those of this call.

        All objects are created as in a new solve, and then their state is set. The counts and the random generator,
        which that changes, are set last.
        """
        check_keys(state, ("rng", "clock", "counter", "spectrum", "bytes_read", "history", "run", "auto"))
        if state["run" if self.method is None else "auto"] is not None:
            raise StateError("run, auto: expected the one that goes with the method")
        system, clock = self.system, self.system.clock
        self.rng = generator_of(state["rng"])
        self.history = _HISTORY(state["history"], {})
        if len({len(column) for _, column in self.history.columns()}) > 1:
            raise StateError("history: expected as many entries in each column")
        with clock.without_deadline():
            if self.method is None:
                self.auto = self._new_auto()
                self.auto.restore(state["auto"])
            else:
                self.run = self.begin(self._only_stage(self.method))
                self.run.restore(state["run"])
        system.counter.restore(state["counter"], system.sizes)
        system.facts.restore(optional(SPECTRUM)(state["spectrum"], system.sizes))
        system.reader.restore_bytes(number(state["bytes_read"], {}))
        clock.restore(state["clock"])
        restart(self.rng, state["rng"])
        self._resumed = True

    def _solution(self, run: Run, status: Status, decisions: Sequence[str] = (), remark: str = "") -> Solution:
        rows_off = (
            run.fresh.off if status in (Status.CONVERGED, Status.PRECISION, Status.INCONSISTENT) else run.fresh.off[:0]
        )
        rows_off = np.union1d(rows_off, run.fresh.zero_rows) if rows_off.size or run.fresh.zero_rows.size else rows_off
        trouble = "" if self._checkpoint is None else self._checkpoint.trouble
        return Solution(
            x=run.iterates.x.T.copy(),
            status=status,
            message=" ".join(filter(None, [message_of(run, status, decisions), remark, trouble])),
            error_estimate=run.iterates.worst_error,
            error_estimates=run.iterates.relative_errors,
            rank=run.findings.rank,
            optimality=run.findings.optimality,
            row_check=run.fresh.finding.row_check if run.fresh.finding else None,
            method=run.method.name,
            rows_read=self.system.counter.rows_read,
            passes=self.system.counter.rows_read / self.system.n_rows,
            bytes_read=self.system.reader.bytes_read,
            seconds=self.system.clock.elapsed,
            compile_seconds=self.system.clock.paused,
            rows_off=rows_off,
            history=self.history,
        )
