"""The message of a solution."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from rowsolve._solution import RowCheck, Status
from rowsolve.engine.run import Run
from rowsolve.estimate.monitor import fewest_rows_left, rows_left
from rowsolve.methods.base import StepMethod

__all__ = [
    "FOR_FAR_ROWS",
    "by_least_squares",
    "by_rank",
    "converged",
    "far_rows",
    "message_of",
    "too_precise",
]

_FEWEST_PLACES = 20
_FAR = 12.0  # times the median: a normal distribution reaches 5 in a thousand rows
_HEAVY = 3.0  # times the median: the root of the mean square of a normal distribution is 1.5
FOR_FAR_ROWS = "{}: outliers='drop' looks for a solution without them."
_SUSPICION = "The system also seems to be inconsistent, or the norm of its solution is very large. "


def message_of(run: Run, status: Status, decisions: Sequence[str]) -> str:
    """Return sentences with the decisions taken, the status with its figures, and what to try."""
    parts = [
        *decisions, _main(run, status), _columns(run, status), _zero_row(run), _checked(run, status), _rank(run),
    ]  # fmt: skip
    return " ".join(part for part in parts if part)


def _main(run: Run, status: Status) -> str:
    error, rtol = run.iterates.worst_error, run.context.tolerance.rtol
    about = _about(error)
    if status is Status.CONVERGED:
        return converged(error)
    if status is Status.INCONSISTENT:
        return _inconsistent(run)
    monitor, n_rows = run.iterates.monitor, run.context.system.n_rows
    if status is Status.SLOW:
        others = "'direct' or 'refined'" if not _bounded(run) else "'refined'"
        return (
            f"{status.value} At least {_number(fewest_rows_left(monitor) / n_rows)} more passes would be "
            f"needed; {about}. {_SUSPICION if monitor.suspicious else ''}"
            f"Try a larger rtol, a larger max_passes, or method={others}."
        )
    if status is Status.PRECISION:
        return too_precise(error, rtol)
    if status is Status.INTERRUPTED or status is Status.STOPPED:
        return f"{status.value[:-1]}: {about}."
    limit = "max_passes" if status is Status.MAX_PASSES else "max_seconds"
    if not run.context.history.rows_read:
        return f"{status.value} The method was still preparing, so x is x0. Try a larger {limit}."
    left = rows_left(monitor) / n_rows
    more = f" About {_number(left)} more passes would be needed." if math.isfinite(left) and left > 0 else ""
    return f"{status.value} {about[0].upper()}{about[1:]}.{more} Try a larger {limit}, or a larger rtol."


def _bounded(run: Run) -> bool:
    """Return whether the method keeps x within bounds."""
    return run.context.system.bounds is not None and run.method.can.bounds


def _columns(run: Run, status: Status) -> str:
    """Return a sentence on which of several right-hand sides are not solved to the tolerance."""
    if run.context.system.n_rhs == 1 or status is Status.CONVERGED:
        return ""
    missed = [str(c) for c, each in enumerate(run.iterates.monitors) if not each.error <= each.allowed]
    if not missed:
        return ""
    columns = ", ".join(missed[:5]) + (", …" if len(missed) > 5 else "")
    return f"This concerns {len(missed)} of {run.context.system.n_rhs} right-hand sides (columns of b): {columns}."


def _inconsistent(run: Run) -> str:
    error = run.iterates.monitor.relative_error
    if _bounded(run) and not run.fresh.off.size:
        return (
            "The iterates did not settle: probably no x within the bounds satisfies the equations, and this x is not a "
            "solution. Try method='refined' for the least-squares solution within the bounds."
        )
    if run.fresh.off.size:
        full = run.fresh.finding is not None and run.fresh.finding.row_check.full
        return (
            f"The system is inconsistent: x satisfies {'all other rows' if full else 'the other rows that were used'} "
            f"to the tolerance, but not {_rows_off(run)}."
            + (" These are too many to tell which are correct, so the error is not known." if math.isnan(error) else "")
        )
    words = Status.INCONSISTENT.value
    if run.method.can.max_outlier_fraction:
        words = (
            "The system is inconsistent, and not only in a few rows. x is the least-squares solution of the rows that "
            "were used, up to the noise."
        )
    if not error < 0.5:
        words = "The system is inconsistent: no x satisfies all equations, and this x is not a useful approximation."
    if isinstance(run.method, StepMethod):
        return (
            f"{words} Estimated relative error {error:.1e}. Try method='refined' for the exact least-squares solution."
        )
    noise = run.iterates.monitor.noise / run.iterates.monitor.norm_x if run.iterates.monitor.norm_x else math.inf
    averaging = run.loop.averaging
    left = math.nan if averaging is None else averaging.rows_left / run.context.system.n_rows
    if 0.0 < left < math.inf:
        words = f"{words} The mean of the iterates would need about {_number(left)} more passes."
    return (
        f"{words} Each row still moves x by {noise:.1e} * norm(x). "
        "Try method='refined' for the exact least-squares solution."
    )


def _rank(run: Run) -> str:
    """Return a sentence on the rank if the solution is not unique."""
    rank, p = run.findings.rank, run.context.system.n_columns
    if run.context.system.bounds is not None:
        return "" if run.findings.unique else "x is not unique: other x within the bounds fit equally well."
    if rank is None or run.context.system.damp:
        return ""
    return by_rank(rank, p, has_start=bool(run.stage.x0.any()), is_clear=run.findings.rank_is_clear)


def by_rank(rank: int, n_columns: int, *, has_start: bool, is_clear: bool) -> str:
    """Return sentences on the rank, and on which of several solutions x is."""
    if rank >= n_columns:
        return ""
    which = "the solution nearest to x0" if has_start else "the minimum-norm solution"
    words = f"A has rank {rank:,} and {n_columns:,} columns, so the solution is not unique; x is {which}."
    if not is_clear:
        words += " The singular values have no gap there, so x depends on which of them count as zero."
    return words


def converged(error: float) -> str:
    """Return a sentence that says that the tolerance is met."""
    return f"{Status.CONVERGED.value[:-1]}: {_about(error)}."


def too_precise(error: float, rtol: float) -> str:
    """Return a sentence that says that the precision of the data limits the error."""
    return f"{Status.PRECISION.value[:-1]}: {_about(error)}, rtol {rtol:.1e}."


def by_least_squares(row_check: RowCheck, within: str = "") -> str:
    """Return a sentence that says that x is the least-squares solution."""
    return f"This is the least-squares solution{within}; its relative residual is {row_check}."


def _about(error: float) -> str:
    return f"estimated relative error {error:.1e}" if math.isfinite(error) else "unknown error"


def far_rows(off: np.ndarray, n_rows: int, residual_norm: float) -> str:
    """Return a clause on outliers, rows with residuals that noise does not explain; an empty string if there are none.

    The residuals `off` of some rows are compared with their median, and so is the norm of the whole residual, to which
    all rows contribute.
    """
    off = np.abs(off)
    usual = float(np.partition(off, off.size // 2)[off.size // 2])  # the median, without its overhead
    n_far = int(np.count_nonzero(off > _FAR * usual))
    if n_far:
        looked_at = f"{off.size:,} rows" if off.size == n_rows else f"{off.size:,} sampled rows"
        return f"{n_far:,} of {looked_at} look like outliers (residual above {_FAR:.0f} times the median)"
    heavy = residual_norm > _HEAVY * usual * math.sqrt(n_rows)
    return "A few rows account for most of the residual" if heavy else ""


def _rows_off(run: Run) -> str:
    """Return the number of rows that are off, and the first of them, in words."""
    rows = ", ".join(str(i) for i in np.sort(run.fresh.off)[:5]) + (", …" if run.fresh.off.size > 5 else "")
    return f"{run.fresh.off.size:,} row(s): {rows}"


def _zero_row(run: Run) -> str:
    i = run.context.system.counter.inconsistent_row
    if i is None or run.method.can.least_squares:
        return ""
    value = f"{run.context.system.b[i]:g}" if run.context.system.n_rhs == 1 else "not"
    return f"Row {i} of A is zero but b[{i}] is {value}: no x satisfies it. Such rows do not affect x and are left out."


def _checked(run: Run, status: Status) -> str:
    if run.fresh.off.size and status in (Status.CONVERGED, Status.PRECISION):
        share = run.fresh.off.size / run.context.system.n_rows
        return (
            f"Rows left out as outliers: {_rows_off(run)} ({share:.2%} of all; see "
            "solution.rows_off). x satisfies all other rows, which were checked."
        )
    if status is not Status.CONVERGED or run.fresh.finding is None:
        return ""
    row_check = run.fresh.finding.row_check
    if run.method.can.least_squares:
        return by_least_squares(row_check, "" if not _bounded(run) else " within the bounds")
    if run.loop.averaging is not None:
        return (
            f"The system is inconsistent: x is the mean of the last {_number(run.loop.averaging.n_rows)} "
            f"iterates, which converges to the least-squares solution; its relative residual is {row_check}."
        )
    if row_check.full:
        return f"x satisfies all {row_check.n_rows:,} rows, which were checked."
    n_places = run.fresh.finding.n_places
    if row_check.n_fresh < 100 or n_places < _FEWEST_PLACES:
        return f"x satisfies {row_check.n_rows:,} rows that were checked again."
    places = f", from {n_places:,} places," if n_places < row_check.n_fresh else ""
    return (
        f"x satisfies {row_check.n_fresh:,} rows{places} that were not used before, so at most {3 / n_places:.1%} of "
        "all rows are inconsistent (95% confidence)."
    )


def _number(value: float) -> str:
    if value < 10:
        return f"{value:.2g}"
    return f"{value:,.0f}" if value < 1e6 else f"{value:.0e}"
