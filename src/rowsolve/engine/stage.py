"""A stage of a solve, and what holds for all of its stages: plain data."""

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
    """Let a method go on, whatever its monitor says."""
    return None


@dataclass(frozen=True)
class Context:
    """What all stages of a solve share.

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
        """Save the state if that is wanted."""
        if self.save is not None:
            self.save()


@dataclass(frozen=True)
class Stage:
    """One method, where it starts, and when it must end.

    Attributes
    ----------
    max_rows : float
        How many rows may have been read at its end, by all stages.
    check : {"sampled", "full"}
    give_up : callable
        Asked after each burst of rows; a status ends the stage.
    probe : ndarray, optional
        A vector that the error of x0 is like, if one is known.
    findings : Findings
        Those of earlier stages.
    """

    method: Method
    x0: np.ndarray
    max_rows: float = math.inf
    check: str = "sampled"
    give_up: Callable[[Monitor], Status | None] = never_stop
    probe: np.ndarray | None = None
    findings: Findings = NOTHING_YET

    def rows_allowed(self, system: System) -> float:
        """Return how many more rows may be read."""
        return self.max_rows - system.rows_read
