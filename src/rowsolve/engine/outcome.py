"""What a run has found, as plain data: the next stage, the message and the solution are made from it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rowsolve._solution import Status
from rowsolve.engine.check import CheckResult
from rowsolve.estimate.monitor import Monitor, fewest_rows_left, rows_left
from rowsolve.estimate.step import Findings
from rowsolve.methods.base import Method

__all__ = ["Checked", "Outcome", "Outlook"]


class Checked(NamedTuple):
    """The result of the checks of rows.

    Attributes
    ----------
    result : CheckResult or None
        The result of the last check of x.
    off : ndarray of int64
        Rows that are inconsistent with the others.
    zero_rows : ndarray of int64
        Rows of zeros with a nonzero b.
    """

    result: CheckResult | None
    off: np.ndarray
    zero_rows: np.ndarray

    @property
    def is_full(self) -> bool:
        """Whether all rows were checked."""
        return self.result is not None and self.result.row_check.full


class Outlook(NamedTuple):
    """How far x is from the tolerance, and why; NaN for what is not known.

    Attributes
    ----------
    error : float
        The estimated relative error of the x furthest from convergence.
    rows_left, fewest_rows_left : float
        The predicted number of rows still needed for it, and a lower bound of that.
    noise : float
        The distance by which each row still moves that x, divided by its norm.
    suspicious : bool
        Whether any x did not settle, so that the system seems to be inconsistent.
    missed : tuple of int
        The right-hand sides that are not solved to the tolerance.
    rows_averaged : int
        The number of rows that x is the mean over; 0 if it is no mean.
    rows_left_of_mean : float
        The predicted number of rows until the mean is accurate enough.
    """

    error: float = math.nan
    rows_left: float = math.nan
    fewest_rows_left: float = math.nan
    noise: float = math.nan
    suspicious: bool = False
    missed: tuple[int, ...] = ()
    rows_averaged: int = 0
    rows_left_of_mean: float = math.nan

    @classmethod
    def of(cls, monitors: Sequence[Monitor], furthest: Monitor) -> Outlook:
        """Return the outlook according to the monitor of each x; one of them is `furthest` from convergence."""
        return cls(
            error=furthest.relative_error,
            rows_left=rows_left(furthest),
            fewest_rows_left=fewest_rows_left(furthest),
            noise=furthest.noise / furthest.norm_x if furthest.norm_x else math.inf,
            suspicious=any(monitor.suspicious for monitor in monitors),
            missed=tuple(c for c, monitor in enumerate(monitors) if not monitor.error <= monitor.allowed),
        )


class Outcome(NamedTuple):
    """What a run has found.

    Attributes
    ----------
    x : ndarray of shape (p,) or (n_rhs, p)
    probe : ndarray of shape (p,)
        The remaining probe.
    errors : ndarray of shape (n_rhs,)
        The estimated relative error of each x.
    clipped : bool
        Whether x was clipped to its bounds, because the method does not support bounds.
    """

    method: Method
    status: Status
    x: np.ndarray
    probe: np.ndarray
    errors: np.ndarray
    findings: Findings
    checked: Checked
    outlook: Outlook
    clipped: bool = False

    @property
    def worst_error(self) -> float:
        """The largest of the errors; NaN if any is NaN."""
        return float(self.errors.max())

    @property
    def rows_off(self) -> np.ndarray:
        """The rows that are known to be inconsistent with the others, in order."""
        off, zero_rows = self.checked.off, self.checked.zero_rows
        if self.status not in (Status.CONVERGED, Status.PRECISION, Status.INCONSISTENT):
            off = off[:0]
        return np.union1d(off, zero_rows) if off.size or zero_rows.size else off
