"""The check of fresh rows: whether x satisfies them."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from rowsolve._solution import Status
from rowsolve.checkpoint.state import Kind, Sizes, fill, optional, row_numbers, state_of
from rowsolve.engine.check import (
    CHECK_RESULT,
    CheckResult,
    check_of_used_rows,
    check_result_of,
    full_check,
    is_confirmed,
    outlier_distance,
    rows_off,
    sampled_check,
)  # fmt: skip
from rowsolve.engine.iterates import Iterates
from rowsolve.engine.outcome import Checked
from rowsolve.engine.stage import Context, Stage
from rowsolve.lstsq.factor import rows_that_reach
from rowsolve.policy.thresholds import ORDER_OF_MAGNITUDE, ROWS_TO_CHECK

__all__ = ["FreshRows"]

_NO_ROWS = np.empty(0, np.int64)


class FreshRows:
    """The checks of a stage.

    Attributes
    ----------
    result : CheckResult or None
        The result of the last check of the current x.
    off : ndarray of int64
        Rows that are inconsistent with the others.
    zero_rows : ndarray of int64
        Rows of zeros with a nonzero b.
    """

    def __init__(self, context: Context, stage: Stage, iterates: Iterates) -> None:
        self._context, self._stage, self._iterates = context, stage, iterates
        self.off, self.zero_rows = _NO_ROWS, _NO_ROWS
        self.result: CheckResult | None = None

    @property
    def checked(self) -> Checked:
        """The result of the checks."""
        return Checked(self.result, self.off, self.zero_rows)

    def blame(self, rows: np.ndarray) -> None:
        """Set the rows that are inconsistent with the others."""
        self.off = rows

    def forget(self) -> None:
        """Forget the result, as x is about to change."""
        self.result = None

    def set_residual_norm(self, residual: float) -> None:
        """Set the norm of the residual over all rows, which a least-squares method has computed itself."""
        self.result = check_result_of(self._context.system, residual)

    def check_rows(self) -> np.ndarray:
        """Check fresh rows, then all rows if requested; return some of the rows that are off.

        If x has converged but the probe has not, there may be rows that were never used and carry new information;
        these are returned. If there are none and the method tolerates outliers, the rows that x does not satisfy are
        put into `off` instead.
        """
        system, method, x = self._context.system, self._stage.method, self._iterates.x
        if method.can.least_squares and not system.stored:
            self.result = check_of_used_rows(system, x)
        else:
            self.result = sampled_check(system, x, self._iterates.limit, self._context.rng)
        if method.can.least_squares:
            return _NO_ROWS  # no row needs to be satisfied
        rows, robust = self.result.off, method.can.max_outlier_fraction > 0.0
        news = self.never_used() if robust or not rows.size else _NO_ROWS
        if news.size:
            rows = news
        elif (robust and rows.size) or (not rows.size and self._stage.check == "full"):
            self.result = full_check(system, x, self._iterates.limit)
            rows = self.result.off
            if robust:
                self.off, rows = rows, _NO_ROWS
        return self._context.rng.permutation(rows)[: max(system.n_columns, ROWS_TO_CHECK)]

    def never_used(self) -> np.ndarray:
        """Return the rows that reach the remaining probe although the used rows do not.

        If the probe has settled at a nonzero vector, A seems to be rank-deficient; but the rank depends on all rows, so
        all are checked. A method that skips outliers may have skipped all rows that reach some direction: these rows
        then stand out, and x does not satisfy them.
        """
        system, z, robust = (
            self._context.system,
            self._iterates.probe,
            self._stage.method.can.max_outlier_fraction > 0.0,
        )
        if any(monitor.probe_settled for monitor in self._iterates.monitors) and z.any():
            rows = rows_that_reach(system, z)
        elif robust and not self._iterates.monitor.probe_vanished:
            rows = rows_that_reach(system, z, outlier_distance(system, z, self._context.rng))
        else:
            return _NO_ROWS
        return rows_off(system, rows, self._iterates.x, self._iterates.limit)[0] if robust else rows

    def confirm_null_space(self) -> bool:
        """Return whether x satisfies all rows or none of them reaches the remaining probe, by passes over the data."""
        system, iterates = self._context.system, self._iterates
        if not full_check(system, iterates.x, iterates.limit).off.size:
            return True
        return not rows_that_reach(system, iterates.probe).size

    def can_be_left_out(self) -> bool:
        """Return whether the rows in `off` can be left out: few rows in every column, and the others determine x."""
        assert self.result is not None
        system, most = self._context.system, self._stage.method.can.max_outlier_fraction
        share = max(self.off.size / system.n_rows, self.result.largest_share)
        if not (share < most and self._iterates.monitor.error <= ORDER_OF_MAGNITUDE * self._iterates.limit[0]):
            return False
        return is_confirmed(system, self.off, most, self._context.rng, self._stage.findings.rank)

    def certify(self, status: Status, *, averaged: bool) -> None:
        """Compute the residual unless the last check has; `averaged` says that x has become a mean since that check."""
        system, x, limit = self._context.system, self._iterates.x, self._iterates.limit
        if self.off.size:
            self.off, _ = rows_off(system, self.off, x, limit)
        if self._stage.check == "full" and status is not Status.MAX_SECONDS:
            if self.result is None or not self.result.row_check.full or averaged or status is Status.INCONSISTENT:
                self.result = full_check(system, x, limit)
            if self.off.size:
                self.off = self.result.off
        elif averaged or status not in (Status.CONVERGED, Status.PRECISION):
            self.result = sampled_check(system, x, limit, self._context.rng)
        self.zero_rows = self._rows_of_zeros()

    def _rows_of_zeros(self) -> np.ndarray:
        """Return rows of zeros with a nonzero b: all of them after a full check, otherwise one if any has been read.

        No x satisfies them. They affect neither x nor the status.
        """
        system = self._context.system
        if system.counter.inconsistent_row is None or self._stage.method.can.least_squares:
            return _NO_ROWS
        if self._stage.check != "full":
            return np.array([system.counter.inconsistent_row])
        return np.flatnonzero((system.norms_sq() == 0.0) & (system.facts.b_magnitude != 0.0))

    saved: ClassVar[dict[str, Kind]] = {
        **dict.fromkeys(("off", "zero_rows"), row_numbers()),
        "result": optional(CHECK_RESULT),
    }
    derived: ClassVar[tuple[str, ...]] = ("_context", "_stage", "_iterates")

    def state(self) -> dict[str, Any]:
        """Return the results of the checks."""
        return state_of(self)

    def restore(self, state: Any, sizes: Sizes) -> None:
        """Restore the results of the checks."""
        fill(self, state, sizes)
