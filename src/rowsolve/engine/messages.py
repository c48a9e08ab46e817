"""The message of a solution."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from rowsolve._solution import RowCheck, Status
from rowsolve.engine.check import CheckResult
from rowsolve.engine.outcome import Checked, Outcome
from rowsolve.engine.stage import Context
from rowsolve.estimate.step import Findings
from rowsolve.methods.base import StepMethod
from rowsolve.policy.thresholds import FAR_OUT, MUCH_MORE, SPOTS
from rowsolve.problem.system import System

__all__ = [
    "FOR_FAR_ROWS",
    "by_least_squares",
    "by_rank",
    "converged",
    "far_rows",
    "message_of",
    "too_precise",
]

FOR_FAR_ROWS = "{}. Try outliers='drop' for a solution without them."
_SUSPICION = "The system also seems to be inconsistent, or the norm of its solution is very large. "


def message_of(context: Context, outcome: Outcome, decisions: Sequence[str], *, has_start: bool) -> str:
    """Return sentences with the decisions taken, the status with its figures, and what to try.

    `has_start` is whether the solve began at an x0 other than zero.
    """
    parts = [
        *decisions, _main(context, outcome), _columns(context, outcome), _zero_row(context.system, outcome),
        _checked(context.system, outcome), _rank(context.system, outcome.findings, has_start=has_start),
    ]  # fmt: skip
    return " ".join(part for part in parts if part)


def _main(context: Context, outcome: Outcome) -> str:
    """Return sentences on the status."""
    status, error = outcome.status, outcome.worst_error
    match status:
        case Status.CONVERGED:
            return converged(error)
        case Status.INCONSISTENT:
            return _inconsistent(context.system, outcome)
        case Status.SLOW:
            return _slow(context.system, outcome)
        case Status.PRECISION:
            return too_precise(error, context.tolerance.rtol)
        case Status.INTERRUPTED | Status.STOPPED:
            return f"{status.value[:-1]}: {_about(error)}."
        case Status.MAX_PASSES:
            return _limited(context, outcome, "max_passes")
        case _:
            return _limited(context, outcome, "max_seconds")


def _slow(system: System, outcome: Outcome) -> str:
    others = "'direct' or 'refined'" if not _bounded(system, outcome) else "'refined'"
    n_passes = _number(outcome.outlook.fewest_rows_left / system.n_rows)
    return (
        f"{outcome.status.value} At least {n_passes} more passes would be needed; {_about(outcome.worst_error)}. "
        f"{_SUSPICION if outcome.outlook.suspicious else ''}"
        f"Try a larger rtol, a larger max_passes, or method={others}."
    )


def _limited(context: Context, outcome: Outcome, limit: str) -> str:
    status, about = outcome.status, _about(outcome.worst_error)
    if not context.history.rows_read:
        return f"{status.value} The method was still preparing, so x is x0. Try a larger {limit}."
    left = outcome.outlook.rows_left / context.system.n_rows
    more = f" About {_number(left)} more passes would be needed." if math.isfinite(left) and left > 0 else ""
    return f"{status.value} {about[0].upper()}{about[1:]}.{more} Try a larger {limit}, or a larger rtol."


def _bounded(system: System, outcome: Outcome) -> bool:
    """Return whether the method keeps x within bounds."""
    return system.bounds is not None and outcome.method.can.bounds


def _columns(context: Context, outcome: Outcome) -> str:
    """Return a sentence on which of several right-hand sides are not solved to the tolerance."""
    n_rhs, missed = context.system.n_rhs, outcome.outlook.missed
    if n_rhs == 1 or outcome.status is Status.CONVERGED or not missed:
        return ""
    columns = ", ".join(map(str, missed[:5])) + (", …" if len(missed) > 5 else "")
    return f"The tolerance is not met for {len(missed)} of {n_rhs} right-hand sides (columns of b): {columns}."


def _inconsistent(system: System, outcome: Outcome) -> str:
    if outcome.checked.off.size:
        return _inconsistent_with(outcome.checked, outcome.outlook.error)
    if _bounded(system, outcome):
        return (
            "The iterates did not settle: probably no x within the bounds satisfies the equations, and this x is not a "
            "solution. Try method='refined' for the least-squares solution within the bounds."
        )
    error, outlook = outcome.outlook.error, outcome.outlook
    words = f"{Status.INCONSISTENT.value} x approximates the least-squares solution."
    if outcome.method.can.max_outlier_fraction:
        words = (
            "The system is inconsistent, and not only because of outliers. x approximates the least-squares "
            "solution of the rows that were used."
        )
    if not error < 0.5:
        words = "The system is inconsistent: no x satisfies all equations, and this x is not a useful approximation."
    left = outlook.rows_left_of_mean / system.n_rows
    if isinstance(outcome.method, StepMethod):
        words += f" Estimated relative error {error:.1e}."
    elif 0.0 < left < math.inf:
        words += f" About {_number(left)} more passes would be needed for the mean of the iterates to converge."
    if not isinstance(outcome.method, StepMethod):
        words += f" A projection still changes x by about {outlook.noise:.1e} * norm(x)."
    return f"{words} Try method='refined' for the exact least-squares solution."


def _inconsistent_with(checked: Checked, error: float) -> str:
    """Return a sentence on the rows that x does not satisfy."""
    others = "all other rows" if checked.is_full else "the other rows that were used"
    unsure = " They are too many to identify the correct rows: the error is unknown." if math.isnan(error) else ""
    return (
        f"The system is inconsistent: to the tolerance, x satisfies {others}, but not {_rows_off(checked.off)}.{unsure}"
    )


def _rank(system: System, findings: Findings, *, has_start: bool) -> str:
    """Return a sentence on the rank if the solution is not unique."""
    if system.bounds is not None:
        return "" if findings.unique else "x is not unique: other x within the bounds fit equally well."
    if findings.rank is None or system.damp:
        return ""
    return by_rank(findings.rank, system.n_columns, has_start=has_start, is_clear=findings.rank_is_clear)


def by_rank(rank: int, n_columns: int, *, has_start: bool, is_clear: bool) -> str:
    """Return sentences on the rank, and on which of several solutions x is."""
    if rank >= n_columns:
        return ""
    which = "the solution nearest to x0" if has_start else "the minimum-norm solution"
    words = f"A has rank {rank:,} and {n_columns:,} columns, so the solution is not unique; x is {which}."
    if not is_clear:
        words += " The singular values have no clear gap, so x depends on which of them are treated as zero."
    return words


def converged(error: float) -> str:
    """Return a sentence that says that the tolerance is met."""
    return f"{Status.CONVERGED.value[:-1]}: {_about(error)}."


def too_precise(error: float, rtol: float) -> str:
    """Return a sentence that says that the precision of the data limits the error."""
    return f"{Status.PRECISION.value[:-1]}: {_about(error)}, rtol {rtol:.1e}."


def by_least_squares(row_check: RowCheck, within: str = "") -> str:
    """Return a sentence that says that x is the least-squares solution."""
    return f"x is the least-squares solution{within}; its relative residual is {row_check}."


def _about(error: float) -> str:
    return f"estimated relative error {error:.1e}" if math.isfinite(error) else "unknown error"


def far_rows(off: np.ndarray, n_rows: int, residual_norm: float) -> str:
    """Return a clause on outliers, rows with residuals that noise does not explain; an empty string if there are none.

    The residuals `off` of some rows are compared with their median, and so is the norm of the whole residual, to which
    all rows contribute.
    """
    off = np.abs(off)
    usual = float(np.partition(off, off.size // 2)[off.size // 2])  # the median, without its overhead
    n_far = int(np.count_nonzero(off > FAR_OUT * usual))
    if n_far:
        looked_at = f"{off.size:,} rows" if off.size == n_rows else f"{off.size:,} sampled rows"
        return f"{n_far:,} of {looked_at} look like outliers (residual above {FAR_OUT:.0f} times the median)"
    heavy = residual_norm > MUCH_MORE * usual * math.sqrt(n_rows)
    return "A few rows account for most of the residual" if heavy else ""


def _rows_off(off: np.ndarray) -> str:
    """Return the number of rows that are off, and the first of them, in words."""
    rows = ", ".join(str(i) for i in np.sort(off)[:5]) + (", …" if off.size > 5 else "")
    return f"{off.size:,} row(s): {rows}"


def _zero_row(system: System, outcome: Outcome) -> str:
    i = system.counter.inconsistent_row
    if i is None or outcome.method.can.least_squares:
        return ""
    value = f"{system.b[i]:g}" if system.n_rhs == 1 else "not"
    return f"Row {i} of A is zero but b[{i}] is {value}: no x satisfies it. Such rows do not affect x and are left out."


def _checked(system: System, outcome: Outcome) -> str:
    """Return a sentence on the rows that x satisfies, or on its residual."""
    status, (result, off, _) = outcome.status, outcome.checked
    if off.size and status in (Status.CONVERGED, Status.PRECISION):
        return (
            f"Rows left out as outliers: {_rows_off(off)} ({off.size / system.n_rows:.2%} of all; see "
            "solution.rows_off). x satisfies all other rows, which were checked."
        )
    if status is not Status.CONVERGED or result is None:
        return ""
    if outcome.method.can.least_squares:
        return by_least_squares(result.row_check, "" if not _bounded(system, outcome) else " within the bounds")
    if outcome.outlook.rows_averaged:
        return (
            f"The system is inconsistent: x is the mean of the last {_number(outcome.outlook.rows_averaged)} "
            f"iterates, which converges to the least-squares solution; its relative residual is {result.row_check}."
        )
    return _satisfied(result)


def _satisfied(result: CheckResult) -> str:
    """Return a sentence on the rows that x satisfies."""
    row_check, n_places = result.row_check, result.n_places
    if row_check.full:
        return f"x satisfies all {row_check.n_rows:,} rows, which were checked."
    if n_places < SPOTS:
        return f"x satisfies {row_check.n_rows:,} rows that were checked again."
    places = f" (at {n_places:,} places)" if n_places < row_check.n_fresh else ""
    return (
        f"x satisfies {row_check.n_fresh:,} rows{places} that were not used before, so at most {3 / n_places:.1%} of "
        "all rows are inconsistent (95% confidence)."
    )


def _number(value: float) -> str:
    if value < 10:
        return f"{value:.2g}"
    return f"{value:,.0f}" if value < 1e6 else f"{value:.0e}"
