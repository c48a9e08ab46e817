"""Events for the callback, and lines of the history."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from rowsolve._solution import Event
from rowsolve.checkpoint.state import Kind, fill, integer, number, state_of
from rowsolve.engine.iterates import Iterates
from rowsolve.engine.stage import Context, Stage
from rowsolve.estimate.monitor import rows_left
from rowsolve.methods.base import StepMethod
from rowsolve.policy.thresholds import TRIES

__all__ = ["Progress", "StoppedByCallback"]


class StoppedByCallback(Exception):
    """The callback has returned True."""


class Progress:
    """The events and the history of a stage while it runs.

    Attributes
    ----------
    rows_prepared : int
        The number of rows read before the end of the preparation.
    prepared_at : float
        The time of the end of the preparation, in seconds.
    """

    def __init__(self, context: Context, stage: Stage, iterates: Iterates) -> None:
        self._context, self._method, self._iterates = context, stage.method, iterates
        self.rows_prepared, self.prepared_at = 0, 0.0

    def end_of_preparation(self) -> None:
        """Set the time and the number of rows at the end of the preparation."""
        system = self._context.system
        self.rows_prepared, self.prepared_at = system.counter.rows_read, system.clock.elapsed

    @property
    def rows_a_second(self) -> float:
        """The rows read per second since the preparation; NaN if not known yet."""
        system = self._context.system
        done, spent = system.counter.rows_read - self.rows_prepared, system.clock.elapsed - self.prepared_at
        return done / spent if done else math.nan

    def record(self, drop: float) -> None:
        """Add a line to the history, and call the callback."""
        system, iterates = self._context.system, self._iterates
        iterates.make_sure_of_range()
        self._context.history.add(
            self._method.name, system.counter.rows_read, system.clock.elapsed, drop, iterates.worst_error
        )
        self.report("solve")

    def report(self, stage: str) -> None:
        """Call the callback with an event; raise `StoppedByCallback` if it returns True."""
        if self._context.callback is None:
            return
        system, n_left = self._context.system, self._rows_left()
        done = system.counter.rows_read - self.rows_prepared
        pace = (system.clock.elapsed - self.prepared_at) / done if stage == "solve" and done else np.nan
        x = self._iterates.x.T.view()
        x.flags.writeable = False
        event = Event(
            stage=stage,
            rows_read=system.counter.rows_read,
            passes=system.counter.rows_read / system.n_rows,
            bytes_read=system.reader.bytes_read,
            seconds=system.clock.elapsed,
            error_estimate=self._iterates.worst_error,
            passes_left=n_left / system.n_rows,
            seconds_left=n_left * pace,
            x=x,
        )
        answer = self._context.callback(event)
        if isinstance(answer, bool | np.bool_) and answer:
            raise StoppedByCallback

    def _rows_left(self) -> float:
        """Return the predicted number of rows left, by the monitor or else by the last steps; NaN if unknown."""
        monitor, history = self._iterates.monitor, self._context.history
        if not isinstance(self._method, StepMethod):
            return rows_left(monitor)
        errors, rows = history.error_estimate[-TRIES:], history.rows_read[-TRIES:]
        ours = [name == self._method.name for name in history.method[-TRIES:]]
        if len(errors) < TRIES or not all(ours) or not errors[0] > errors[-1] > 0.0:
            return math.nan
        return math.log(max(monitor.error_ratio, 1.0)) / math.log(errors[0] / errors[-1]) * (rows[-1] - rows[0])

    saved: ClassVar[dict[str, Kind]] = {"rows_prepared": integer(), "prepared_at": number}
    derived: ClassVar[tuple[str, ...]] = ("_context", "_method", "_iterates")

    def state(self) -> dict[str, Any]:
        """Return the state at the end of the preparation."""
        return state_of(self)

    def restore(self, state: Any) -> None:
        """Restore the state at the end of the preparation."""
        fill(self, state, {})
