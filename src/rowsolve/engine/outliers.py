"""Outliers among the rows of a least-squares solution, and the stage that looks for an x without them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rowsolve._solution import Status
from rowsolve.checkpoint.state import Kind, StateError, array, named, number, optional, packed, row_numbers, text
from rowsolve.engine.check import CHECK_RESULT
from rowsolve.engine.messages import far_rows
from rowsolve.engine.outcome import Checked, Outcome, Outlook
from rowsolve.engine.residuals import residuals_of
from rowsolve.engine.stage import Stage, Task
from rowsolve.estimate.step import FINDINGS
from rowsolve.methods import Method, Quantile, Refined
from rowsolve.parallel.vectors import rows_for_the_tail
from rowsolve.policy.auto import is_plain
from rowsolve.policy.thresholds import CLEAN, FEW_COLUMNS, ROWS_TO_LEAVE_OUT, TALL
from rowsolve.problem.system import System

__all__ = ["OutlierSearch", "outliers_among"]

_CHECKED = named(Checked, result=optional(CHECK_RESULT), off=row_numbers(), zero_rows=row_numbers())
# What is saved of a least-squares solution of a single right-hand side.
_KEPT: dict[str, Kind] = {"x": array("p"), "errors": array(1), "findings": FINDINGS, "checked": _CHECKED}


def outliers_among(system: System, outcome: Outcome) -> str:
    """Return a clause on the outliers that a least-squares solution shows; an empty string if there are none."""
    found = isinstance(outcome.method, Refined) and outcome.status is Status.CONVERGED
    if not found or system.n_rhs > 1 or not is_plain(system):  # 'quantile' takes only one b
        return ""
    residual_norm = outcome.findings.residual_norm
    if residual_norm <= CLEAN * system.facts.norm_b:
        return ""
    if system.n_rows < TALL * system.n_columns:  # some rows could be satisfied whatever their b
        return ""
    order = np.arange(system.n_rows)[rows_for_the_tail(system.n_rows)]
    return far_rows(residuals_of(system, order, outcome.x), system.n_rows, residual_norm)


@dataclass(frozen=True)
class OutlierSearch:
    """A stage by 'quantile' that looks for an x without outliers.

    Attributes
    ----------
    least_squares : Outcome
        The solution with all rows, in case there is no such x.
    seen : str
        A clause on the outliers.
    most_rows : float
        The number of rows that may have been read at its end: it has a limit of its own.
    """

    least_squares: Outcome
    seen: str
    most_rows: float

    @classmethod
    def begun(cls, system: System, least_squares: Outcome, seen: str) -> OutlierSearch:
        """Return a stage that begins now."""
        most = ROWS_TO_LEAVE_OUT * max(system.n_columns, FEW_COLUMNS)
        return cls(least_squares, seen, float(system.counter.rows_read + most))

    def stage(self, task: Task) -> Stage:
        """Return the stage; it checks all rows, so that all outliers are listed."""
        most, findings = min(task.max_rows, self.most_rows), self.least_squares.findings
        return Stage(Quantile(), task.x0, most, "full", findings=findings, may_fail=True)

    @property
    def why(self) -> str:
        """The beginning of a sentence on why it was begun."""
        return f"{self.seen}, so 'quantile' searched for a solution without them"

    def ending(self, outcome: Outcome) -> tuple[Outcome, str]:
        """Return the x without outliers or, if there is none, the least-squares solution; and the end of the sentence.

        The least-squares solution has converged, unless the user has ended the solve.
        """
        status = outcome.status
        if status is Status.CONVERGED and outcome.checked.off.size:
            return outcome, "."
        end = "x is the least-squares solution of all rows."
        if status in (Status.CONVERGED, Status.INCONSISTENT, Status.SLOW, Status.PRECISION):
            return self.least_squares, f", but the other rows are inconsistent too: {end}"
        ended = status in (Status.STOPPED, Status.INTERRUPTED)
        kept = self.least_squares._replace(status=status) if ended else self.least_squares
        return kept, f", but was stopped early: {end}"

    def state(self) -> dict[str, Any]:
        """Return the state for a checkpoint."""
        kept = {name: packed(getattr(self.least_squares, name)) for name in _KEPT}
        return {"least_squares": kept, "seen": self.seen, "most_rows": self.most_rows}

    @classmethod
    def from_state(cls, state: Any, system: System, method: Method) -> OutlierSearch:
        """Return a stage with that state, after `method`."""
        if not isinstance(method, Refined) or system.n_rhs > 1 or not is_plain(system):
            raise StateError("outlier_search: expected none")

        def outcome(**kept: Any) -> Outcome:
            return Outcome(method, Status.CONVERGED, probe=np.empty(0), outlook=Outlook(), **kept)

        kind = named(cls, least_squares=named(outcome, **_KEPT), seen=text, most_rows=number)
        found: OutlierSearch = kind(state, system.sizes)
        return found
