"""Small dense systems at once: no stages, no kernels, no monitor; the same x as `rowsolve.methods.exact` finds."""

from __future__ import annotations

import math
import time
from contextlib import nullcontext
from typing import Any

import numpy as np

from rowsolve._auto import CLEAN, SAYS, SMALL, TALL
from rowsolve._blas import blas_threads
from rowsolve._monitor import Tolerance
from rowsolve._solution import History, Residual, Solution, Status
from rowsolve._threads import available_cores
from rowsolve._words import FOR_FAR_ROWS, by_least_squares, by_rank, converged, far_rows, rows_for_the_tail, too_precise
from rowsolve.lstsq.dense import fit
from rowsolve.lstsq.normal import Fit
from rowsolve.policy.prices import SMALL_SYSTEM, small_system

__all__ = ["solve_at_once", "solve_small"]

_EPS = float(np.finfo(float).eps)
_SHORT = 1e6  # multiplications, for which BLAS takes one thread anyway
_IN_RANGE = 1e200  # sums of squares that are well in range


def solve_at_once(A: Any, b: Any, rtol: Any, atol: Any, threads: Any) -> Solution | None:
    """Return the solution of two small arrays that need no look at what else they could be; None if they do."""
    if type(A) is not np.ndarray or type(b) is not np.ndarray or A.ndim != 2 or b.shape != A.shape[:1]:
        return None
    (n, p), plain = A.shape, A.dtype == b.dtype == float and type(rtol) is type(atol) is float and threads is None
    if not plain or not n >= p > 0 or small_system(n, p) > SMALL_SYSTEM or not (0.0 <= rtol < math.inf and atol == 0.0):
        return None
    return solve_small(A, b, np.zeros(p), 0.0, Tolerance(rtol, atol, _EPS), available_cores())


def solve_small(
    A: Any, b: np.ndarray, x0: np.ndarray, damp: float, tolerance: Any, threads: int, *, auto: bool = True
) -> Solution | None:
    """Return the least-squares solution of rows that are all finite; None if there is something odd about it."""
    started = time.perf_counter()
    if not _in_range(A if isinstance(A, np.ndarray) else A.data) or not _in_range(b):
        return None
    (n, p), sides, starts = A.shape, b.reshape(len(b), -1), np.atleast_2d(x0)
    work = A.size * float(p)
    alone = threads == 1 and work > _SHORT
    with np.errstate(all="ignore"), blas_threads(math.inf, 1) if alone else nullcontext():
        found = fit(A.astype(float, copy=False), sides, starts, damp, tolerance, threads)
    if found is None:
        return None
    sizes = np.sqrt(np.vecdot(found.x, found.x))
    if not sizes.all() or not np.isfinite(found.error).all():
        return None
    errors = found.error / sizes
    good = bool((found.error <= tolerance.at(sizes, np.sqrt(np.vecdot(starts, starts)))).all())
    error, rows_read = max(errors.tolist()), found.n_reads * n
    residual = Residual(_relative(found, b), n, 0, full=True)
    history = History()
    history.add("refined", rows_read, time.perf_counter() - started, math.nan, error)
    far, n_looked_at = "", 0
    if auto and good and not damp and b.ndim == 1 and n >= TALL * p and residual.relative > CLEAN:
        far, n_looked_at = _far_rows(A, b, found)
        rows_read += n_looked_at
    return Solution(
        x=found.x[0].copy() if b.ndim == 1 else found.x.T.copy(),
        status=Status.CONVERGED if good else Status.PRECISION,
        message=" ".join(filter(None, [*_words(p, x0, damp, tolerance, found, error, residual, good, auto), far])),
        error_estimate=error,
        error_estimates=errors,
        rank=found.rank,
        optimality=None,
        residual=residual,
        method="refined",
        rows_read=rows_read,
        passes=rows_read / n,
        bytes_read=float(rows_read * (A.size // n) * A.dtype.itemsize),
        seconds=time.perf_counter() - started,
        compile_seconds=0.0,
        rows_off=np.empty(0, np.int64),
        history=history,
    )


def _in_range(numbers: np.ndarray) -> bool:
    """Tell whether the sum of all squares is well within the range of float64; it is not if one is not finite."""
    total = numbers.dot(numbers) if numbers.ndim == 1 else np.einsum("ij,ij->", numbers, numbers)
    return 1.0 / _IN_RANGE < float(total) < _IN_RANGE


def _relative(found: Fit, b: np.ndarray) -> float:
    return math.sqrt(float(found.residual_sq.sum()) / float(np.vdot(b, b)))


def _words(
    p: int, x0: np.ndarray, damp: float, tolerance: Any, found: Fit, error: float, residual: Residual, good: bool,
    auto: bool,
) -> list[str]:  # fmt: skip
    """Return what `Auto` and `rowsolve._words` say of the same."""
    return [
        ("`damp` asks for a least-squares method: " if damp else SMALL) + SAYS["refined"] if auto else "",
        converged(error) if good else too_precise(error, tolerance.rtol),
        by_least_squares(residual) if good else "",
        "" if damp else by_rank(found.rank, p, has_start=bool(x0.any()), is_clear=found.has_gap),
    ]


def _far_rows(A: Any, b: np.ndarray, found: Fit) -> tuple[str, int]:
    """Say whether a few rows are far off, and how many were looked at."""
    rows = rows_for_the_tail(len(b))
    off = b[rows] - A[rows] @ found.x[0]
    seen = far_rows(off, len(b), math.sqrt(float(found.residual_sq[0])))
    return FOR_FAR_ROWS.format(seen) if seen else "", off.size
