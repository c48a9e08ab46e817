"""Small systems at once, dense or sparse: no stages and no monitor; the same x as `rowsolve.lstsq.all_rows` finds."""

from __future__ import annotations

import math
import sys
import time
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

import numpy as np

from rowsolve._solution import Cost, History, RowCheck, Solution, Status
from rowsolve.engine.messages import FOR_FAR_ROWS, by_least_squares, by_rank, converged, far_rows, too_precise
from rowsolve.engine.residuals import residual_of_some, residuals_in
from rowsolve.engine.stages import SAYS
from rowsolve.estimate.tolerance import Tolerance
from rowsolve.lstsq.dense import Fit, fit, fit_sparse, sample_agrees
from rowsolve.parallel.pool import available_cores
from rowsolve.parallel.vectors import norms, rows_for_the_tail
from rowsolve.policy.auto import DAMPED, SMALL
from rowsolve.policy.prices import compressed_at_once, worth_a_sample, worth_writing_out
from rowsolve.policy.thresholds import CLEAN, FEW_COLUMNS, FEW_NUMBERS, IN_RANGE, NUMBERS_IN_CACHE, TALL

__all__ = ["solve_at_once", "solve_small"]

_EPS = {kind: float(np.finfo(kind).eps) for kind in "fd"}  # single and double precision
_NOTHING, _NO_ROWS = np.empty(0), np.empty(0, np.int64)
_tolerance = lru_cache(maxsize=16)(Tolerance)


def solve_at_once(A: Any, b: Any, rtol: Any, atol: Any, threads: Any) -> Solution | None:
    """Return the solution if `A` and `b` are small arrays that need no further conversion; otherwise None."""
    if threads is not None or type(rtol) is not float or type(atol) is not float:
        return None
    if not (0.0 <= rtol < math.inf and atol == 0.0 and _are_plain(A, b) and _is_small(A, b)):
        return None
    tolerance = _tolerance(rtol, atol, max(_EPS[A.dtype.char], _EPS[b.dtype.char]))
    threads = available_cores() if A.shape[0] * A.shape[1] > FEW_NUMBERS else 1
    if b.shape[1:] == (1,):
        found = solve_small(A, b[:, 0].astype(float, copy=False), None, 0.0, tolerance, threads)
        return None if found is None else replace(found, x=found.x[:, None])
    return solve_small(A, b.astype(float, copy=False), None, 0.0, tolerance, threads)


def _are_plain(A: Any, b: Any) -> bool:
    """Return whether `A` and `b` are arrays of float32 or float64 that fit together; `A` may be small and sparse."""
    if type(b) is not np.ndarray or (type(A) is not np.ndarray and not _can_be_written_out(A)):
        return False
    if A.dtype.char not in _EPS or b.dtype.char not in _EPS or not A.dtype.isnative:
        return False
    return A.ndim == 2 and 1 <= b.ndim <= 2 and b.shape[0] == A.shape[0] and b.shape[1:] != (0,)


def _is_small(A: Any, b: np.ndarray) -> bool:
    """Return whether all rows are solved at once. For few numbers in few columns no price is computed."""
    n, p = A.shape
    if not n >= p > 0:
        return False
    if n * p <= FEW_NUMBERS and p <= FEW_COLUMNS:
        return True
    if not compressed_at_once(n, p, *b.shape[1:]):
        return False
    return not (type(A) is np.ndarray and worth_a_sample(n, p) and sample_agrees(A, b))


def _can_be_written_out(A: Any) -> bool:
    """Return whether A is a small sparse matrix of scipy."""
    sparse = sys.modules.get("scipy.sparse")  # if it is not imported, A is not one of its matrices
    return sparse is not None and sparse.issparse(A) and A.ndim == 2 and worth_writing_out(*A.shape)


def solve_small(
    A: Any, b: np.ndarray, x0: np.ndarray | None, damp: float, tolerance: Any, threads: int, *, auto: bool = True
) -> Solution | None:
    """Return the least-squares solution of rows that are all finite; None if the system needs the general code.

    Each line takes some microseconds when it is not in the cache, so there are few.
    """
    started = time.perf_counter()
    (n, p), sides, n_numbers, itemsize = A.shape, b.reshape(len(b), -1), A.size, A.dtype.itemsize
    with np.errstate(all="ignore"):
        found = _fit(A, sides, None if x0 is None else np.atleast_2d(x0), damp, tolerance, threads)
    if found is None or not IN_RANGE**-2 < (square := sum(found.squares.tolist())) < IN_RANGE**2:
        return None
    errors, good = _errors_of(found, x0, tolerance)
    if not math.isfinite(error := max(errors)):
        return None
    rows_read = found.n_reads * n
    history = History()
    history.add("refined", rows_read, time.perf_counter() - started, math.nan, error)
    row_check, n_looked_at = _row_check(A, b, found, square)
    off = _residuals_of_some(A, b, found, row_check) if auto and good and not damp else _NOTHING
    rows_read += n_looked_at + off.size  # as in the general code, which reads the last again
    n_bytes = float(rows_read * (n_numbers // n) * itemsize)
    about = found.rank, p, x0 is not None and bool(x0.any()), found.has_gap
    return Solution(
        x=found.x[0].copy() if b.ndim == 1 else found.x.T.copy(),
        status=Status.CONVERGED if good else Status.PRECISION,
        message=partial(_message, about, damp, tolerance.rtol, error, row_check, off, found.residual_sq, good, auto),  # type: ignore[arg-type]
        error_estimates=np.array(errors),
        rank=found.rank,
        optimality=None,
        row_check=row_check,
        method="refined",
        cost=Cost(rows_read, rows_read / n, n_bytes, time.perf_counter() - started, 0.0),
        rows_off=_NO_ROWS,
        history=history,
    )


def _errors_of(found: Fit, x0: np.ndarray | None, tolerance: Any) -> tuple[list[float], bool]:
    """Return the relative error of each x, and whether all are small enough; infinity if an x is out of range."""
    sizes = [math.sqrt(x @ x) for x in found.x.copy()]  # in C order, for the same bits as in the general code
    if not 1.0 / IN_RANGE < min(sizes) <= max(sizes) < IN_RANGE:
        return [math.inf], False
    norms_x0, errors = [0.0] * len(sizes) if x0 is None else norms(np.atleast_2d(x0)).tolist(), found.error.tolist()
    good = all(error <= tolerance.at(*both) for error, *both in zip(errors, sizes, norms_x0, strict=True))
    return [error / size for error, size in zip(errors, sizes, strict=True)], good


def _row_check(A: Any, b: np.ndarray, found: Fit, square: float) -> tuple[RowCheck, int]:
    """Return the residual over all rows, or over some if sums do not determine it, and the number of rows read."""
    residual_sq = sum(found.residual_sq.tolist())
    if math.isnan(residual_sq):
        some = residual_of_some(A, b, found.x, math.sqrt(square))
        return some, some.n_rows
    return RowCheck(math.sqrt(residual_sq), math.sqrt(residual_sq / square), len(b), 0, full=True), 0


def _residuals_of_some(A: Any, b: np.ndarray, found: Fit, row_check: RowCheck) -> np.ndarray:
    """Return the residuals among which outliers are looked for; none if x satisfies all rows, or rows are few."""
    n, p = A.shape
    if b.ndim > 1 or n < TALL * p or row_check.relative <= CLEAN:
        return _NOTHING
    tail = rows_for_the_tail(n)
    return found.off[tail, 0] if found.off is not None else residuals_in(A, b, tail, found.x[0])


def _fit(A: Any, b: np.ndarray, x0: np.ndarray | None, damp: float, tolerance: Any, threads: int) -> Fit | None:
    """Return the fit; sparse rows are converted to dense if they are few, or if their squares do not determine x."""
    dense = isinstance(A, np.ndarray)
    if not dense and not worth_writing_out(*A.shape):
        found = fit_sparse(A, b, x0, damp, tolerance, threads)
        if found is not None or A.shape[0] * A.shape[1] > NUMBERS_IN_CACHE:
            return found
    rows = A if dense else A.toarray()
    return fit(rows.astype(float, copy=False), b, x0, damp, tolerance, threads)


def _message(
    about: tuple[int, int, bool, bool], damp: float, rtol: float, error: float, row_check: RowCheck, off: np.ndarray,
    residual_sq: np.ndarray, good: bool, auto: bool,
) -> str:  # fmt: skip
    """Return the same message as `Auto` and `rowsolve.engine.messages`; `off` has the residuals of some rows."""
    rank, p, has_start, is_clear = about
    seen = far_rows(off, row_check.n_rows, math.sqrt(float(residual_sq[0]))) if off.size else ""
    words = [
        (DAMPED if damp else SMALL) + SAYS["refined"] if auto else "",
        converged(error) if good else too_precise(error, rtol),
        by_least_squares(row_check) if good else "",
        "" if damp else by_rank(rank, p, has_start=has_start, is_clear=is_clear),
        FOR_FAR_ROWS.format(seen) if seen else "",
    ]
    return " ".join(filter(None, words))
