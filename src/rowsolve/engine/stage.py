"""What a solve is asked for, its context, and its stages, as plain data."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rowsolve._solution import Event, History, Status
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
from rowsolve.engine.saver import Saver
from rowsolve.estimate.monitor import Monitor
from rowsolve.estimate.step import NOTHING_YET, Findings
from rowsolve.estimate.tolerance import Tolerance
from rowsolve.lstsq.spectrum import SPECTRUM
from rowsolve.methods.base import Method
from rowsolve.problem.system import System

__all__ = ["Context", "Stage", "Task", "never_stop"]

_NUMBERS = listed(number)
_HISTORY = named(
    History, method=listed(text), rows_read=listed(integer()), seconds=_NUMBERS, drop=_NUMBERS, error_estimate=_NUMBERS
)


def never_stop(_: Monitor) -> Status | None:
    """Return None, so that the stage does not end early."""
    return None


@dataclass(frozen=True)
class Context:
    """The context of all stages of a solve.

    Attributes
    ----------
    callback : callable, optional
        Gets an `Event` after each burst or step; True stops the solve.
    saver : Saver, optional
        Saves the solve while it runs.
    """

    system: System
    tolerance: Tolerance
    rng: np.random.Generator
    history: History
    callback: Callable[[Event], Any] | None = None
    saver: Saver | None = None

    def offer_to_save(self) -> None:
        """Save the state if there is a checkpoint, and it is due."""
        if self.saver is not None:
            self.saver.offer()

    def state(self) -> dict[str, Any]:
        """Return what changes during the solve."""
        system = self.system
        return {
            "rng": state_of_generator(self.rng),
            "clock": system.clock.state(),
            "counter": system.counter.state(),
            "spectrum": packed(system.facts.spectrum),
            "bytes_read": float(system.reader.bytes_read),
            "history": packed(self.history),
        }

    def resumed(self, state: Any) -> Context:
        """Return the context with the generator and the history of a saved state."""
        check_keys(state, ("rng", "clock", "counter", "spectrum", "bytes_read", "history"))
        history = _HISTORY(state["history"], {})
        if len({len(column) for _, column in history.columns()}) > 1:
            raise StateError("history: expected columns of equal length")
        return replace(self, rng=generator_of(state["rng"]), history=history)

    def restore(self, state: Any) -> None:
        """Restore what the creation of objects changes: the counts, the clock and the generator."""
        system = self.system
        system.counter.restore(state["counter"], system.sizes)
        system.facts.restore(optional(SPECTRUM)(state["spectrum"], system.sizes))
        system.reader.restore_bytes(number(state["bytes_read"], {}))
        system.clock.restore(state["clock"])
        restart(self.rng, state["rng"])


@dataclass(frozen=True)
class Stage:
    """One method, where it starts, and when it must end.

    Attributes
    ----------
    max_rows : float
        The number of rows that all stages together may have read at its end.
    check : {"sampled", "full"}
    give_up : callable
        Called after each burst of rows; if it returns a status, the stage ends.
    probe : ndarray, optional
        A vector that resembles the error of x0, if one is known.
    findings : Findings
        The findings of earlier stages.
    may_fail : bool
        Whether an x out of range is an outcome, and not an error: there is another x to fall back on.
    """

    method: Method
    x0: np.ndarray
    max_rows: float = math.inf
    check: str = "sampled"
    give_up: Callable[[Monitor], Status | None] = never_stop
    probe: np.ndarray | None = None
    findings: Findings = NOTHING_YET
    may_fail: bool = False

    def rows_allowed(self, system: System) -> float:
        """Return the number of rows that may still be read."""
        return self.max_rows - system.counter.rows_read


@dataclass(frozen=True)
class Task:
    """What a solve is asked for, besides the system and the tolerance.

    Attributes
    ----------
    method : Method or None
        None stands for ``"auto"``.
    max_rows : float
        The number of rows that may be read.
    check : {"sampled", "full"}
    drop : bool
        Whether outliers may be left out.
    """

    method: Method | None
    x0: np.ndarray
    max_rows: float
    check: str
    drop: bool = False

    def stage(self, method: Method) -> Stage:
        """Return the first stage of the solve, with this method."""
        return Stage(method, self.x0, self.max_rows, self.check)
