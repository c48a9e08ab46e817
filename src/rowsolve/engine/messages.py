"""What happened, in words."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from rowsolve._solution import Residual, Status
from rowsolve.engine.run import Run
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
_SUSPICION = "It seems that the equations contradict each other as well, or that x* is very large. "


def message_of(run: Run, status: Status, decisions: Sequence[str]) -> str:
    """Return what was decided on the way and the status as sentences, with figures and the way out."""
    parts = [
        *decisions, _main(run, status), _columns(run, status), _zero_row(run), _checked(run, status), _rank(run),
    ]  # fmt: skip
    return " ".join(part for part in parts if part)


def _main(run: Run, status: Status) -> str:
    error, rtol = run.worst_error, run.tolerance.rtol
    about = _about(error)
    if status is Status.CONVERGED:
        return converged(error)
    if status is Status.INCONSISTENT:
        return _inconsistent(run)
    if status is Status.SLOW:
        others = "'direct' or 'refined'" if run.bounds is None else "'refined'"
        return (
            f"{status.value} At least {_number(run.monitor.fewest_rows_left / run.system.n_rows)} more passes would be "
            f"needed; now: {about}. {_SUSPICION if run.monitor.suspicious else ''}"
            f"Way out: a looser rtol, more max_passes, or method={others}."
        )
    if status is Status.PRECISION:
        return too_precise(error, rtol)
    if status is Status.INTERRUPTED or status is Status.STOPPED:
        return f"{status.value[:-1]}: {about}."
    limit = "max_passes" if status is Status.MAX_PASSES else "max_seconds"
    if not run.history.rows_read:
        return f"{status.value} It ran out while the method was preparing, so x is x0. Way out: a larger {limit}."
    left = run.monitor.rows_left / run.system.n_rows
    more = f" About {_number(left)} more passes would be needed." if math.isfinite(left) and left > 0 else ""
    return f"{status.value} Now: {about}.{more} Way out: a larger {limit}, or a looser rtol."


def _columns(run: Run, status: Status) -> str:
    """Say which of several right-hand sides are not solved to the tolerance."""
    if run.system.n_rhs == 1 or status is Status.CONVERGED:
        return ""
    missed = [str(c) for c, each in enumerate(run.monitors) if not each.error <= each.allowed]
    if not missed:
        return ""
    columns = ", ".join(missed[:5]) + (", …" if len(missed) > 5 else "")
    return f"This is about {len(missed)} of {run.system.n_rhs} right-hand sides (columns of b): {columns}."


def _inconsistent(run: Run) -> str:
    error = run.monitor.relative_error
    if run.bounds is not None and not run.off.size:
        return (
            "x did not come to rest: no x within the bounds satisfies the equations, as far as can be seen; this x "
            "means little. Way out: method='refined' for the least-squares solution within the bounds."
        )
    if run.off.size:
        full = run.finding is not None and run.finding.residual.full
        return (
            f"The equations contradict each other: x satisfies {'all' if full else 'the'} others that were "
            f"{'checked' if full else 'used'} to the tolerance, but is off at {_rows_off(run)}."
            + (" These are too many to tell which are right: the error is not known." if math.isnan(error) else "")
        )
    words = Status.INCONSISTENT.value
    if run.method.share_it_stands:
        words = (
            "The equations contradict each other, and not only a few of them; x is within the noise of the "
            "least-squares solution of those that were used."
        )
    if not error < 0.5:
        words = "The equations contradict each other, so no x satisfies them all; this x means little."
    if isinstance(run.method, StepMethod):
        return (
            f"{words} Estimated relative error {run.monitor.relative_error:.1e}. Way out: method='refined' for the "
            "exact least-squares solution."
        )
    noise = run.monitor.noise / run.monitor.norm_x if run.monitor.norm_x else math.inf
    if 0.0 < run.passes_to_average < math.inf:
        words = f"{words} About {_number(run.passes_to_average)} more passes would bring the mean to the tolerance."
    return (
        f"{words} A row moves x by {noise:.1e} * norm(x), however often it is used. "
        "Way out: method='refined' for the exact least-squares solution."
    )


def _rank(run: Run) -> str:
    """Say that many x fit equally well, if they do."""
    rank, p = run.system.rank, run.system.n_columns
    if run.system.bounds is not None:
        return "" if run.system.unique else "x is not unique: other x within the bounds fit equally well."
    if rank is None or run.system.damp:
        return ""
    return by_rank(rank, p, has_start=bool(run.x0.any()), is_clear=run.system.rank_is_clear)


def by_rank(rank: int, n_columns: int, *, has_start: bool, is_clear: bool) -> str:
    """Say which of many solutions x is, if there are many."""
    if rank >= n_columns:
        return ""
    which = "nearest to x0" if has_start else "of the least norm"
    words = f"A has rank {rank:,} of {n_columns:,} columns, so many x fit equally well; this is the one {which}."
    if not is_clear:
        words += " Its singular values have no gap there: x depends on which of them count as zero."
    return words


def converged(error: float) -> str:
    """Say that the tolerance is met."""
    return f"{Status.CONVERGED.value[:-1]}: {_about(error)}."


def too_precise(error: float, rtol: float) -> str:
    """Say that less is reached than was asked for."""
    return f"{Status.PRECISION.value} Now: {_about(error)}; asked: {rtol:.1e}."


def by_least_squares(residual: Residual, within: str = "") -> str:
    """Say that x is the least-squares solution."""
    return f"This is the least-squares solution{within}; its relative residual is {residual}."


def _about(error: float) -> str:
    return f"estimated relative error {error:.1e}" if math.isfinite(error) else "error not known"


def far_rows(off: np.ndarray, n_rows: int, residual_norm: float) -> str:
    """Say whether a few rows are further off than the noise of the others would put them; nothing if not.

    By the residuals `off` of some rows against their median, or by the norm of the whole residual, which knows all.
    """
    off = np.abs(off)
    usual = float(np.partition(off, off.size // 2)[off.size // 2])  # the median, without its overhead
    n_far = int(np.count_nonzero(off > _FAR * usual))
    if n_far:
        looked_at = f"{off.size:,} rows" if off.size == n_rows else f"{off.size:,} sampled rows"
        return f"{n_far:,} of {looked_at} are far off (residual above {_FAR:.0f} times the median)"
    heavy = residual_norm > _HEAVY * usual * math.sqrt(n_rows)
    return "A few rows make up most of the residual" if heavy else ""


def _rows_off(run: Run) -> str:
    """Return how many rows are off, and the first of them."""
    rows = ", ".join(str(i) for i in np.sort(run.off)[:5]) + (", …" if run.off.size > 5 else "")
    return f"{run.off.size:,} row(s): {rows}"


def _zero_row(run: Run) -> str:
    i = run.system.contradiction
    if i is None or run.method.least_squares:
        return ""
    value = f"{run.system.b[i]:g}" if run.system.n_rhs == 1 else "not"
    return (
        f"Row {i} of A is all zero but b[{i}] is {value}: no x satisfies it, and it has no say in x; "
        "such rows are left out."
    )


def _checked(run: Run, status: Status) -> str:
    if run.off.size and status in (Status.CONVERGED, Status.PRECISION):
        return (
            f"x contradicts {_rows_off(run)} ({run.off.size / run.system.n_rows:.2%} of all; solution.rows_off lists "
            "them), which were left out; all other rows were checked and agree."
        )
    if status is not Status.CONVERGED or run.finding is None:
        return ""
    residual = run.finding.residual
    if run.method.least_squares:
        return by_least_squares(residual, "" if run.bounds is None else " within the bounds")
    if run.tail is not None:
        return (
            "The equations contradict each other: x is the mean of the last "
            f"{_number(run.tail.count * run.monitor.rows[-1])} steps, which tends to the least-squares solution; its "
            f"relative residual is {residual}."
        )
    if residual.full:
        return f"All {residual.n_rows:,} rows were checked and agree."
    n_places = run.finding.n_places
    if residual.n_fresh < 100 or n_places < _FEWEST_PLACES:
        return f"{residual.n_rows:,} rows were checked again and agree."
    places = f", from {n_places:,} places," if n_places < residual.n_fresh else ""
    return (
        f"{residual.n_fresh:,} rows never used before{places} agree, so at most {3 / n_places:.1%} of all rows "
        "are off (95% confidence)."
    )


def _number(value: float) -> str:
    if value < 10:
        return f"{value:.2g}"
    return f"{value:,.0f}" if value < 1e6 else f"{value:.0e}"
