"""The check of rows that were not used: whether they agree with x."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from rowsolve._solution import Status
from rowsolve.checkpoint.state import Kind, Sizes, fill, optional, row_numbers, state_of
from rowsolve.engine.check import (
    FINDING,
    ROWS_TO_CHECK,
    Finding,
    check_of_used_rows,
    far_from_usual,
    finding_of,
    full_check,
    is_backed,
    rows_off,
    rows_that_reach,
    sampled_check,
)  # fmt: skip
from rowsolve.engine.iterates import Iterates
from rowsolve.engine.stage import Context, Stage

__all__ = ["FreshRows"]

_NO_ROWS = np.empty(0, np.int64)
_NEAR = 10.0  # times how far x may be from a row: no more can be asked where rounding ends the run


class FreshRows:
    """The checks of a stage.

    Attributes
    ----------
    finding : Finding or None
        What the last check has found of x as it is now.
    off : ndarray of int64
        Rows that are inconsistent with the others.
    zero_rows : ndarray of int64
        Rows of zeros whose b is not.
    """

    def __init__(self, context: Context, stage: Stage, iterates: Iterates) -> None:
        self._context, self._stage, self._iterates = context, stage, iterates
        self.off, self.zero_rows = _NO_ROWS, _NO_ROWS
        self.finding: Finding | None = None

    def take_residual(self, residual: float) -> None:
        """Take over the norm of the residual over all rows, which a least-squares method has found itself."""
        self.finding = finding_of(self._context.system, residual)

    def that_disagree(self) -> np.ndarray:
        """Check fresh rows, then all if asked to; return some of those from which x is too far away.

        Where x converged but the probe did not, there may be rows that were never used; they are news. If there are
        none, the rows that contradict x are put into `off` if the method tolerates outliers.
        """
        system, method, x = self._context.system, self._stage.method, self._iterates.x
        if method.can.least_squares and not system.stored:
            self.finding = check_of_used_rows(system, x)
        else:
            self.finding = sampled_check(system, x, self._iterates.limit, self._context.rng)
        if method.can.least_squares:
            return _NO_ROWS  # no row needs to be satisfied
        rows, robust = self.finding.off, method.max_outlier_fraction > 0.0
        news = self.never_used() if robust or not rows.size else _NO_ROWS
        if news.size:
            rows = news
        elif (robust and rows.size) or (not rows.size and self._stage.check == "full"):
            self.finding = full_check(system, x, self._iterates.limit)
            rows = self.finding.off
            if robust:
                self.off, rows = rows, _NO_ROWS
        return self._context.rng.permutation(rows)[: max(system.n_columns, ROWS_TO_CHECK)]

    def never_used(self) -> np.ndarray:
        """Return the rows that reach what is left of the probe while those used do not.

        Where it settled short of zero, A seems to be rank-deficient; but that is a statement about all rows, so all are
        asked. A method that leaves rows out may have left out all that reach some direction: these then stand out, and
        x contradicts them.
        """
        system, z, robust = self._context.system, self._iterates.probe, self._stage.method.max_outlier_fraction > 0.0
        if any(monitor.spent for monitor in self._iterates.monitors) and z.any():
            rows = rows_that_reach(system, z)
        elif robust and not self._iterates.monitor.probe_vanished:
            rows = rows_that_reach(system, z, far_from_usual(system, z, self._context.rng))
        else:
            return _NO_ROWS
        return rows_off(system, rows, self._iterates.x, self._iterates.limit)[0] if robust else rows

    def reach_the_rest(self) -> bool:
        """Tell, by a pass, whether x satisfies all rows, or none of them reaches what is left of the probe."""
        system, iterates = self._context.system, self._iterates
        if not full_check(system, iterates.x, iterates.limit).off.size:
            return True
        return not rows_that_reach(system, iterates.probe).size

    def can_be_left_out(self) -> bool:
        """Tell whether x can do without the rows in `off`: few everywhere, and the others suffice."""
        assert self.finding is not None
        system, most = self._context.system, self._stage.method.max_outlier_fraction
        share = max(self.off.size / system.n_rows, self.finding.largest_share)
        if not (share < most and self._iterates.monitor.error <= _NEAR * self._iterates.limit[0]):
            return False
        return is_backed(system, self.off, most, self._context.rng, self._stage.findings.rank)

    def certify(self, status: Status, *, averaged: bool) -> None:
        """Find out the residual, unless the last check has; `averaged` tells that x was a mean, and is not any more."""
        system, x, limit = self._context.system, self._iterates.x, self._iterates.limit
        if self.off.size:
            self.off, _ = rows_off(system, self.off, x, limit)
        if self._stage.check == "full" and status is not Status.MAX_SECONDS:
            if self.finding is None or not self.finding.row_check.full or averaged or status is Status.INCONSISTENT:
                self.finding = full_check(system, x, limit)
            if self.off.size:
                self.off = self.finding.off
        elif averaged or status not in (Status.CONVERGED, Status.PRECISION):
            self.finding = sampled_check(system, x, limit, self._context.rng)
        self.zero_rows = self._rows_of_zeros()

    def _rows_of_zeros(self) -> np.ndarray:
        """Return the rows of zeros whose b is not: one, if any has been read; all of them if all are to be checked.

        They do not affect x, and so not the status; no x satisfies them.
        """
        system = self._context.system
        if system.counter.contradiction is None or self._stage.method.can.least_squares:
            return _NO_ROWS
        if self._stage.check != "full":
            return np.array([system.counter.contradiction])
        return np.flatnonzero((system.norms_sq() == 0.0) & (system.facts.b_magnitude != 0.0))

    saved: ClassVar[dict[str, Kind]] = {
        **dict.fromkeys(("off", "zero_rows"), row_numbers()),
        "finding": optional(FINDING),
    }
    derived: ClassVar[tuple[str, ...]] = ("_context", "_stage", "_iterates")

    def state(self) -> dict[str, Any]:
        """Return what the checks have found."""
        return state_of(self)

    def restore(self, state: Any, sizes: Sizes) -> None:
        """Take that over."""
        fill(self, state, sizes)
