"""Checks of x on fresh rows, or on all rows, before x is returned."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import numpy as np

from rowsolve._solution import RowCheck
from rowsolve.checkpoint.state import flag, integer, named, number, optional, row_numbers
from rowsolve.engine.residuals import residual_of_some
from rowsolve.kernels.many import add_gradients_of_many, laid_out, products_of
from rowsolve.kernels.rows import distances, inspect_rows, norms_at
from rowsolve.lstsq.factor import factor_of
from rowsolve.parallel.vectors import sum_of_squares
from rowsolve.policy.thresholds import FAR_OUT, OFTEN, ROWS_TO_CHECK, ROWS_TO_COMPARE
from rowsolve.problem.reader import Part, Piece
from rowsolve.problem.system import System

__all__ = [
    "CheckResult",
    "check_of_used_rows",
    "check_result_of",
    "full_check",
    "is_confirmed",
    "outlier_distance",
    "rows_by_b",
    "rows_off",
    "sampled_check",
]  # fmt: skip


@dataclass(frozen=True)
class CheckResult:
    """The result of a check: the residual over the rows checked, and the rows that are off.

    `largest_share` is the largest fraction, over all columns, of rows that are off among the rows with an entry in that
    column, not counting as many rows as determine x (about as many as a row has entries): only the others can confirm
    it. It is known from a full check only. `n_places` is the number of independent places that fresh rows came from.
    """

    row_check: RowCheck
    off: np.ndarray
    largest_share: float = math.nan
    n_places: int = 0


_ROW_CHECK = named(
    RowCheck, residual=number, relative=number, n_rows=integer(), n_fresh=integer(), full=flag,
    gradient=optional(number),
)  # fmt: skip
# The expected entries of a saved state (see `rowsolve.checkpoint.state`).
CHECK_RESULT = named(CheckResult, row_check=_ROW_CHECK, off=row_numbers(), largest_share=number, n_places=integer())


def rows_off(system: System, order: np.ndarray, x: np.ndarray, limit: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the rows of `order` that are off: an `x` is further away from their hyperplanes than its `limit`.

    The second value is ``sum(r**2)`` in units of ``system.facts.norm_b**2``.
    """
    out, total = _look(system, order, x)
    system.counter.add(order.size)
    system.check_flagged()
    return order[_exceeds(out, limit)], total


def sampled_check(system: System, x: np.ndarray, limit: np.ndarray, rng: np.random.Generator) -> CheckResult:
    """Check x on 256 random rows, fresh ones if there are enough, and on some with a conspicuous b."""
    order, n_fresh = system.sample(ROWS_TO_CHECK, rng)
    off, total = rows_off(system, order, x, limit)
    if order.size < system.n_rows:
        of_others = rows_off(system, rows_by_b(system, rng), x, limit)[0]
        off = np.union1d(off, of_others) if of_others.size else off
    return CheckResult(_row_check(total, system, order, n_fresh), off, n_places=system.reader.n_places(order[:n_fresh]))


def check_of_used_rows(system: System, x: np.ndarray) -> CheckResult:
    """Compute the residual of a least-squares method, which has used all rows, on 256 evenly spaced rows."""
    row_check = residual_of_some(system.source.as_matrix(), system.b, np.atleast_2d(x), system.facts.norm_b)
    system.counter.add(row_check.n_rows)
    return CheckResult(row_check, np.empty(0, np.int64))


def rows_by_b(system: System, rng: np.random.Generator) -> np.ndarray:
    """Return rows that a random sample is likely to miss: the extremes of b, and values of b that no used row has.

    An x from rows whose b are all zero, or all equal, need not satisfy the others.
    """
    b, extremes = system.b, system.facts.rows_of_extremes
    if b.ndim > 1:
        return extremes
    used = np.sort(b[system.counter.sample_of_used_rows(ROWS_TO_COMPARE)])
    repeated = used[1:] == used[:-1]
    if 2 * np.count_nonzero(repeated) <= used.size:  # few values occur twice, or no row was used
        return extremes
    seen = used[np.append(True, ~repeated)]
    new = np.flatnonzero(~np.isin(b, seen))
    return np.union1d(extremes, rng.choice(new, min(new.size, ROWS_TO_CHECK), replace=False))


def is_confirmed(
    system: System, off: np.ndarray, most: float, rng: np.random.Generator, rank: int | None
) -> bool:  # fmt: skip
    """Return whether an x that satisfies all rows except those `off` is confirmed by informative rows.

    If many entries of b are equal (zeros, a limit), the rows with this value may all be satisfied by x = 0 or by a
    constant. Then only the other rows count: less than a fraction `most` of them may be off, and they must determine x.
    """
    values, places, counts = np.unique(system.b, return_inverse=True, return_counts=True)
    if counts.max() <= OFTEN * system.n_rows and values[counts.argmax()] != 0.0:
        return True
    others = places != counts.argmax()
    wrong = np.zeros(system.n_rows, dtype=bool)
    wrong[off] = True
    backing = np.flatnonzero(others & ~wrong)
    if backing.size < system.n_columns or np.count_nonzero(others & wrong) >= most * np.count_nonzero(others):
        return False
    few = rng.permutation(backing)[: 2 * system.n_columns + ROWS_TO_CHECK]
    return factor_of(system, np.sort(few)).rank >= (rank or system.n_columns)


def check_result_of(system: System, residual: float) -> CheckResult:
    """Return the result of a least-squares method that has computed the norm of the residual over all rows itself."""
    return CheckResult(_row_check((residual / system.facts.norm_b) ** 2, system), np.empty(0, np.int64))


def full_check(system: System, x: np.ndarray, limit: np.ndarray) -> CheckResult:
    """Compute the residual, ``norm(A.T @ r)`` and all rows that are off in one pass over the data, on all threads."""
    if system.n_rhs > 1:
        return _full_check_of_many(system, x, limit)
    off, p, unit = np.zeros(system.n_rows, dtype=bool), system.n_columns, 1.0 / system.facts.norm_b
    total, gradient, touched = 0.0, np.zeros(p), np.zeros((2, 2, p))
    parts: dict[int, tuple[float, np.ndarray, np.ndarray]] = {}

    def look(piece: Piece, start: int, stop: int, flagged_rows: np.ndarray) -> None:
        slope, found, rows_off = np.zeros(p), np.zeros((2, 2, p)), piece.of(off)[start:stop]
        squares = inspect_rows(
            piece.rows, piece.of(system.b), start, x, limit[0], unit, rows_off, slope, found, flagged_rows
        )
        parts[start] = squares, slope, found

    for piece in system.pieces():
        system.in_slices(partial(look, piece), piece.start, piece.stop, piece.n_rows * system.entries_per_row)
        for start in sorted(parts):  # the same sum in any order of the threads
            squares, slope, found = parts.pop(start)
            total, gradient, touched = total + squares, gradient + slope, touched + found
    row_check = _row_check(total, system, gradient=_norm(gradient))
    return CheckResult(row_check, np.flatnonzero(off), _largest_share(touched))


def _full_check_of_many(system: System, x: np.ndarray, limit: np.ndarray) -> CheckResult:
    vectors = laid_out(system.rows, np.vstack([x, np.zeros(system.n_columns)]))  # kernels expect a probe
    total, off, gradient, squares = 0.0, [], np.zeros_like(vectors), np.zeros(len(vectors))
    for piece in system.pieces(times_used=2 * system.n_rhs):
        part = Part(piece.rows, np.arange(piece.start, piece.stop))
        out, of_part = _look_at(system, part, piece.of(system.b), piece.of(system.facts.b_magnitude), x)
        add_gradients_of_many(piece.rows, piece.of(system.b), 1.0, part.order, vectors, gradient, squares)
        total += of_part
        off.append(piece.first + part.order[_exceeds(out, limit)])
    return CheckResult(_row_check(total, system, gradient=_norm(gradient)), np.concatenate(off))


def _largest_share(touched: np.ndarray) -> float:
    (agreeing, entries), (off, _) = touched[:, :, touched[1, 0] > 0]
    spare = np.maximum(agreeing - entries / np.maximum(agreeing, 1), 0.0)
    return float(np.max(off / (spare + off), initial=0.0))


def outlier_distance(system: System, z: np.ndarray, rng: np.random.Generator) -> float:
    """Return 12 times the median distance of some rows from `z`, above which a row stands out."""
    order, _ = system.sample(ROWS_TO_CHECK, rng)
    found = [np.empty(0)]
    for part in system.parts(order):
        found.append(np.empty(part.order.size))
        distances(part.rows, np.zeros(part.order.max() + 1), part.order, z, found[-1], 1.0, system.counter.flagged_rows)
    system.counter.add(order.size)
    return FAR_OUT * float(np.median(np.concatenate(found)))


def _look(system: System, order: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the distance of each x from the hyperplane of each row, and ``sum(r**2)`` in units of ``norm_b**2``."""
    found, total = [np.empty((0, *system.b.shape[1:]))], 0.0
    for part in system.parts(order):
        out, of_part = _look_at(system, part, part.of(system.b), part.of(system.facts.b_magnitude), x)
        found.append(out)
        total += of_part
    return np.concatenate(found), total


def _look_at(
    system: System, part: Part, b: np.ndarray, b_magnitude: np.ndarray, x: np.ndarray
) -> tuple[np.ndarray, float]:
    """Do the same as `_look` for the rows of a part, given their right-hand sides."""
    order = part.order
    if system.n_rhs == 1:
        out = np.empty(order.size)
        return out, float(
            distances(part.rows, b, order, x, out, 1.0 / system.facts.norm_b, system.counter.flagged_rows)
        )
    products, norms_sq = np.empty((order.size, system.n_rhs)), np.empty(order.size)
    products_of(part.rows, order, laid_out(part.rows, x), products)
    norms_at(part.rows, b_magnitude, order, norms_sq, system.counter.flagged_rows)
    gaps, usable = b[order] - products, norms_sq[:, None] > 0.0
    out = np.divide(np.abs(gaps), np.sqrt(norms_sq)[:, None], out=np.zeros_like(gaps), where=usable)
    return out, float(np.sum((gaps / system.facts.norm_b) ** 2))


def _exceeds(out: np.ndarray, limit: np.ndarray) -> np.ndarray:
    """Return for each row whether some x is further away from it than its limit."""
    exceeds = ~(out <= limit)
    return exceeds if exceeds.ndim == 1 else np.any(exceeds, axis=1)


def _row_check(
    residual_sq: float, system: System, order: np.ndarray | None = None, n_fresh: int = 0, gradient: float | None = None
) -> RowCheck:
    """Return the `RowCheck` of the rows in `order`, or of all, from ``sum(r**2)`` in units of ``norm_b**2``."""
    n, b = (system.n_rows, system.b) if order is None else (order.size, system.b[order])
    residual, norm_b = math.sqrt(residual_sq), math.sqrt(sum_of_squares((b / system.facts.norm_b).reshape(-1)))
    nothing = 0.0 if residual == 0.0 else math.inf
    return RowCheck(
        residual=residual * math.sqrt(system.n_rows / n) * system.facts.norm_b,
        relative=residual / norm_b if norm_b > 0.0 else nothing,
        n_rows=n,
        n_fresh=n_fresh,
        full=n == system.n_rows,
        gradient=gradient,
    )


def _norm(vector: np.ndarray) -> float:
    """Return the norm, without overflow or underflow of squares."""
    largest = float(np.abs(vector).max())
    return largest * float(np.linalg.norm(vector / largest)) if 0.0 < largest < math.inf else largest
