"""The decisions of ``method="auto"``: which method to begin with, when to end it, and which method comes next.

A tiny system is factored. With few columns a sample of the rows is solved directly, whatever the condition number, if
a small sample is consistent; otherwise all rows are used. With many columns random rows are used, which is fastest if A
is well-conditioned and the system is consistent; if the error does not decrease as it then should, or if x does not
settle, the next method depends on the reason. Each decision is a sentence of the message.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from rowsolve._solution import Status
from rowsolve.estimate.monitor import Monitor, fewest_rows_left
from rowsolve.kernels.rows import CSRRows
from rowsolve.lstsq.dense import sample_agrees
from rowsolve.lstsq.spectrum import look_at_spectrum
from rowsolve.methods import Deflated, Direct, Method, Randomized, Refined
from rowsolve.policy.least_squares import price_of_all, worth_a_look
from rowsolve.policy.prices import (
    BEGIN,
    LITTLE,
    PAIR,
    RANDOM_NUMBER,
    SMALL_SYSTEM,
    SPARSE_NUMBER,
    SQUARES,
    compressed_at_once,
    gram,
    orthogonal,
    worth_a_sample,
)
from rowsolve.problem.system import System

__all__ = [
    "SMALL",
    "TALL",
    "Choice",
    "first_choice",
    "is_hopeless",
    "is_plain",
    "next_choice",
    "rows_seem_to_agree",
    "rows_share_much",
    "slow_if_hopeless",
]

# Measured on two cores; only the ratios matter, which vary little between machines.
_HARDLY_TALL = 6  # times p rows: with fewer, it costs little to read all of them without success
_WORTH_A_LOOK = 200  # times p rows: with more, a useless sample costs little compared with all rows
TALL = 2  # times p rows: with fewer, no sample is taken
_NOT_TALL = 600  # times the price of a small system, up to which a system that is not tall is factored
_FEW_COLUMNS = 500  # up to which a sample is factored in the time that random rows take to converge
_FEW_COLUMNS_EACH, _PRICE_OF_MANY = 75, 32  # for k right-hand sides that holds up to 75 * (32 + k) columns
_MOST_COLUMNS = 10_000  # of a dense factor
_FACTOR_PER_NUMBER = 3000  # multiplications of a dense factor for each stored number of sparse rows, at most
_ROWS_TO_CONVERGE = 30  # times p, for well-conditioned rows and six digits
_TIME_TO_FIND_A_ROW = 250  # access to a random sparse row in memory takes as long as reading so many numbers
_HARDLY_LONGER = 3
_ROWS_OF_A_SAMPLE = 2.0  # times p, that `direct` reads and factors
_TWICE = 2.0  # times the price of random rows, which may not converge, while all rows at once do
_SLOW = 4 * _ROWS_TO_CONVERGE  # times p rows still needed: anything else is faster

SMALL = "The system is small: "


class Choice(NamedTuple):
    """A method, and the reason for it: the beginning of a sentence, or an empty string."""

    why: str
    method: Method


def first_choice(system: System, rtol: float, rows_allowed: float = math.inf) -> Choice:
    """Return the method to begin with if so many rows may be read."""
    n, p = system.n_rows, system.n_columns
    tiny = _is_tiny(system) and _has_room(system) and rows_allowed >= n
    if tiny and system.damp == 0.0 and not system.stored and rows_seem_to_agree(system.rows, system.b):
        return Choice("A small sample of the rows is consistent: ", Direct())
    all_rows = Refined("all" if tiny else "auto")
    if system.damp > 0.0:
        return Choice("`damp` requires a least-squares method: ", all_rows)
    if tiny:
        return Choice(SMALL, all_rows)
    if system.stored and not _is_sparse(system) and _can_be_factored(system):
        if system.reader.sample_is_a_pass and rows_allowed >= n:
            return Choice("Reading a sample would take as long as reading all rows: ", Refined("all"))
        return Choice("The rows are not in memory, so as few as possible were read: ", Direct())
    few = not _is_sparse(system) and p <= _few_columns(system)
    if few and (worth_a_sample(n, p, system.n_rhs) or rows_allowed < n) and _has_room(system):
        look = not system.stored and n <= min(rows_allowed, _WORTH_A_LOOK * p)
        if look and not sample_agrees(system.rows.values, system.b):
            return Choice("A small sample of the rows is inconsistent or singular: ", Refined())
        why = "A has few columns: " if p <= _FEW_COLUMNS else "b has several columns: "
        return Choice(why, Direct())
    in_order = not _is_sparse(system) and (p <= _FEW_COLUMNS or n < TALL * p or system.facts.in_columns)
    at_once = price_of_all(system) <= _TWICE * _price_of_random_rows(system)
    if in_order or at_once or _passes_are_cheaper(system, rtol):
        return Choice("Passes over all rows are cheaper here than random rows: ", Refined())
    return Choice("", Randomized("uniform", replace=False))


def next_choice(
    system: System, method: Method, status: Status, *, suspicious: bool, outside: bool = False, sharing: bool = False
) -> Choice | None:
    """Return the method to use after a `method` that ended with `status`; None if there is none.

    `suspicious` is whether x did not settle. `outside` is whether x was not within its bounds, which `Direct` does not
    support; if it is within them, it is the solution. `sharing` is whether a few common directions of the rows slowed
    convergence down.
    """
    if isinstance(method, Direct) and outside and status in (Status.CONVERGED, Status.PRECISION):
        return Choice("x was outside the bounds: ", Refined())
    if isinstance(method, Direct) and status is Status.MAX_SECONDS and system.clock.left > 0.0:
        return Choice("Factoring a sample would take longer than `max_seconds`: ", Refined())
    if isinstance(method, Direct) and status is Status.INCONSISTENT:
        why = "The other rows are inconsistent with the sample, because of noise or rounding: "
        return Choice(why, Refined())
    if not isinstance(method, Randomized | Deflated) or status not in (Status.SLOW, Status.INCONSISTENT):
        return None
    if suspicious:
        return Choice("The iterates did not settle, so the system seems to be inconsistent: ", Refined())
    all_is_soon_done = status is Status.SLOW and _all_is_soon_done(system)
    if status is Status.SLOW and sharing and isinstance(method, Randomized) and not all_is_soon_done:
        return Choice("The error decreased slowly because rows are nearly parallel: ", Deflated("rows"))
    if all_is_soon_done or (status is Status.SLOW and not _worth_another_sample(system)):
        why = "The error decreased slowly, and using all rows takes little longer than another attempt: "
        return Choice(why, Refined("all"))
    if status is Status.SLOW:
        why = "The error decreased slowly, so A is ill-conditioned: "
        return Choice(why, Direct() if _can_be_factored(system) else Refined())
    return None


def is_hopeless(monitor: Monitor) -> bool:
    """Return whether another method is clearly faster than the random rows observed by `monitor`."""
    slow = len(monitor.bursts.rows) > 2 and fewest_rows_left(monitor) > _SLOW * monitor.estimator.n_columns
    return slow or monitor.suspicious


def slow_if_hopeless(monitor: Monitor) -> Status | None:
    """Return `Status.SLOW`, which ends a stage of random rows, when another method is clearly faster."""
    return Status.SLOW if is_hopeless(monitor) else None


def rows_share_much(system: System, status: Status, rng: np.random.Generator) -> bool:
    """Return whether a few common directions of the rows made random rows slow; this takes a look at some rows."""
    slow = status is Status.SLOW and not _all_is_soon_done(system)
    look = slow and system.n_rhs == 1 and is_plain(system) and worth_a_look(system)
    return look and look_at_spectrum(system, rng).shared is not None


def rows_seem_to_agree(rows: Any, b: np.ndarray) -> bool:
    """Return whether there are so many dense rows that a look at some pays, and these are consistent."""
    if isinstance(rows, CSRRows):
        return False
    return worth_a_sample(*rows.values.shape) and sample_agrees(rows.values, b)


def is_plain(system: System) -> bool:
    """Return whether there is neither damping nor bounds."""
    return system.damp == 0.0 and system.bounds is None


def _is_sparse(system: System) -> bool:
    return isinstance(system.rows, CSRRows)


def _is_tiny(system: System) -> bool:
    """Return whether all rows are factored in hardly any time, or there are hardly more rows than columns."""
    n, p = system.n_rows, system.n_columns
    if _is_sparse(system):
        least = PAIR * n * system.entries_per_row**2  # a lower bound of the number of pairs
        return least <= SMALL_SYSTEM and price_of_all(system) <= SMALL_SYSTEM
    return compressed_at_once(n, p, system.n_rhs) or (n < TALL * p and orthogonal(n, p) <= _NOT_TALL * SMALL_SYSTEM)


def _few_columns(system: System) -> int:
    """Return the largest number of columns that counts as few, which increases with the number of right-hand sides.

    A sample is factored once for all right-hand sides, but rows are projected on for each of them.
    """
    return _FEW_COLUMNS if system.n_rhs == 1 else _FEW_COLUMNS_EACH * (_PRICE_OF_MANY + system.n_rhs)


def _has_room(system: System) -> bool:
    """Return whether a factor fits in the workspace."""
    return 8.0 * SQUARES * system.n_columns**2 <= system.limits.workspace_bytes


def _can_be_factored(system: System) -> bool:
    """Return whether a sample can be factored, for sparse rows in the time of some passes."""
    n, p, entries = system.n_rows, system.n_columns, system.entries_per_row
    if not _has_room(system):
        return False
    return p <= _MOST_COLUMNS and n >= TALL * p and (not _is_sparse(system) or p**3 < _FACTOR_PER_NUMBER * n * entries)


def _price_of_random_rows(system: System) -> float:
    """Return the price of random rows if the system is consistent and A is well-conditioned."""
    rows, entries = _ROWS_TO_CONVERGE * system.n_columns, system.entries_per_row
    if _is_sparse(system):
        return BEGIN + rows * SPARSE_NUMBER * (entries + _TIME_TO_FIND_A_ROW)
    return BEGIN + rows * RANDOM_NUMBER * entries * (1 + system.n_rhs) / 2


def _worth_another_sample(system: System) -> bool:
    """Return whether a factor of a sample is so cheap beside one of all rows that it is tried even if b may be noisy.

    True if all rows cannot be factored, because they are sparse or have too many columns.
    """
    if _is_sparse(system) or not _can_be_factored(system) or not is_plain(system):
        return True
    sample = gram(_ROWS_OF_A_SAMPLE * system.n_columns, system.n_columns)
    return sample <= LITTLE * price_of_all(system)


def _all_is_soon_done(system: System) -> bool:
    """Return whether all rows take hardly more time than the next method to try after slow random rows."""
    return is_plain(system) and price_of_all(system) <= _HARDLY_LONGER * _price_of_random_rows(system)


def _passes_are_cheaper(system: System, rtol: float) -> bool:
    """Return whether conjugate gradients over all rows take less time than random rows, even in the best case.

    With few rows they may take slightly more, because random rows do not succeed if b is noisy or A ill-conditioned.
    """
    n, p, entries = system.n_rows, system.n_columns, system.entries_per_row
    digits = -math.log(min(max(rtol, 1e-16), 0.1))
    passes = 2.0 + 2.0 * digits / math.log(max(n / p, 2.0))
    find = _TIME_TO_FIND_A_ROW if _is_sparse(system) else 0.0
    rows = _ROWS_TO_CONVERGE * p * digits / math.log(1e6)
    longer = _HARDLY_LONGER if n < _HARDLY_TALL * p else 1.0
    return passes * n * entries < longer * rows * (entries + find)
