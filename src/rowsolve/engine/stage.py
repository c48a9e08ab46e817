"""A stage of a solve, and the context of all of its stages, as plain data."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from rowsolve._solution import Event, History, Status
from rowsolve.estimate.monitor import Monitor
from rowsolve.estimate.step import NOTHING_YET, Findings
from rowsolve.estimate.tolerance import Tolerance
from rowsolve.methods.base import Method
from rowsolve.problem.system import System

__all__ = ["Context", "Stage", "never_stop"]


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
    save : callable, optional
        Called where the state can be saved.
    """

    system: System
    tolerance: Tolerance
    rng: np.random.Generator
    history: History
    callback: Callable[[Event], Any] | None = None
    save: Callable[[], Any] | None = None

    def offer_to_save(self) -> None:
        """Save the state if there is a checkpoint."""
        if self.save is not None:
            self.save()


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
    """

    method: Method
    x0: np.ndarray
    max_rows: float = math.inf
    check: str = "sampled"
    give_up: Callable[[Monitor], Status | None] = never_stop
    probe: np.ndarray | None = None
    findings: Findings = NOTHING_YET

    def rows_allowed(self, system: System) -> float:
        """Return the number of rows that may still be read."""
        return self.max_rows - system.counter.rows_read
