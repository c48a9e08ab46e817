"""The decisions of ``method="auto"``: which method to begin with, when to end it, and which method comes next.

A tiny system is factored. With few columns a sample of the rows is solved directly, whatever the condition number, if
a small sample is consistent; otherwise all rows are used. With many columns random rows are used, which is fastest if A
is well-conditioned and the system is consistent; if the error does not decrease as it then should, or if x does not
settle, the next method depends on the reason. Each decision is a sentence of the message.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from rowsolve._solution import Status
from rowsolve.estimate.monitor import Monitor, fewest_rows_left
from rowsolve.kernels.rows import CSRRows
from rowsolve.lstsq.dense import sample_agrees
from rowsolve.lstsq.spectrum import look_at_spectrum
from rowsolve.methods import Deflated, Direct, Method, Randomized, Refined
from rowsolve.policy.least_squares import (
    fits_a_factor,
    has_workspace,
    price_of_all,
    price_of_passes,
    spectrum_estimate_pays,
)
from rowsolve.policy.prices import (
    BEGIN,
    FACTOR_PRODUCT,
    LITTLE,
    LONG_BREAK,
    MANY_PASSES,
    PAIR,
    RANDOM_NUMBER,
    SPARSE_NUMBER,
    compressed_at_once,
    gram,
    orthogonal,
    worth_a_sample,
)
from rowsolve.policy.thresholds import (
    CLEARLY_MORE,
    FEW_COLUMNS_EACH,
    FEW_SIDES,
    FIND_A_ROW,
    HARDLY_TALL,
    MANY_ROWS,
    MUCH_MORE,
    ROWS_TO_CONVERGE,
    SAMPLE_COLUMNS,
    SLOW_ROWS,
    TALL,
)
from rowsolve.problem.system import System

__all__ = [
    "FIRST",
    "NEXT",
    "SMALL",
    "Choice",
    "Ending",
    "another_method_is_faster",
    "first_choice",
    "has_common_directions",
    "is_plain",
    "next_choice",
    "sample_is_consistent",
    "slow_if_another_is_faster",
]


class Choice(NamedTuple):
    """A method, and the reason for it: the beginning of a sentence, or an empty string."""

    why: str
    method: Method


class Rule(NamedTuple):
    """A line of a list of decisions: the first whose condition holds decides."""

    holds: Callable[[Any], bool]
    why: str
    method: Method


class _Opening:
    """A system that no method has worked on: what the conditions of `FIRST` look at."""

    def __init__(self, system: System, rtol: float, rows_allowed: float) -> None:
        self.system, self.rtol, self.rows_allowed = system, rtol, rows_allowed

    @cached_property
    def is_small(self) -> bool:
        """Whether all rows are factored in hardly any time."""
        return _is_tiny(self.system) and has_workspace(self.system) and self.may_read_all

    @property
    def may_read_all(self) -> bool:
        """Whether a pass over all rows is allowed."""
        return self.rows_allowed >= self.system.n_rows

    @cached_property
    def sample_pays(self) -> bool:
        """Whether A is dense and has so few columns that a sample is solved in the time of random rows."""
        system, n, p = self.system, self.system.n_rows, self.system.n_columns
        if is_sparse(system) or p > _few_columns(system) or not has_workspace(system):
            return False
        return worth_a_sample(n, p, system.n_rhs) or not self.may_read_all

    @property
    def sample_disagrees(self) -> bool:
        """Whether a look at a small sample pays, and it is inconsistent or singular."""
        system = self.system
        if system.stored or system.n_rows > min(self.rows_allowed, MANY_ROWS * system.n_columns):
            return False
        return not sample_agrees(system.rows.values, system.b)

    @property
    def is_stored(self) -> bool:
        """Whether rows that are not in memory are dense, and a sample of them can be factored."""
        return self.system.stored and not is_sparse(self.system) and _can_be_factored(self.system)

    @property
    def small_sample_agrees(self) -> bool:
        """Whether a small sample of rows in memory is consistent."""
        system = self.system
        return system.damp == 0.0 and not system.stored and sample_is_consistent(system.rows, system.b)

    @property
    def passes_are_cheaper(self) -> bool:
        """Whether passes over all rows take less time than random rows, even in the best case of these."""
        system, p = self.system, self.system.n_columns
        if not is_sparse(system) and (p <= SAMPLE_COLUMNS or system.n_rows < TALL * p or system.facts.in_columns):
            return True
        all_rows, random_rows = price_of_all(system), _price_of_random_rows(system)
        return all_rows <= CLEARLY_MORE * random_rows or _passes_are_cheaper(system, self.rtol)


DAMPED = "`damp` requires a least-squares method: "
SMALL = "The system is small: "
ILL_CONDITIONED = "The error decreased slowly, so A is ill-conditioned: "

FIRST = (
    Rule(lambda it: it.is_small and it.small_sample_agrees, "A small sample of the rows is consistent: ", Direct()),
    Rule(lambda it: it.is_small and it.system.damp > 0.0, DAMPED, Refined("all")),
    Rule(lambda it: it.is_small, SMALL, Refined("all")),
    Rule(lambda it: it.system.damp > 0.0, DAMPED, Refined()),
    Rule(
        lambda it: it.is_stored and it.system.reader.sample_is_a_pass and it.may_read_all,
        "Reading a sample would take as long as reading all rows: ", Refined("all"),
    ),
    Rule(lambda it: it.is_stored, "The rows are not in memory, so as few as possible were read: ", Direct()),
    Rule(
        lambda it: it.sample_pays and it.sample_disagrees,
        "A small sample of the rows is inconsistent or singular: ", Refined(),
    ),
    Rule(lambda it: it.sample_pays and it.system.n_columns <= SAMPLE_COLUMNS, "A has few columns: ", Direct()),
    Rule(lambda it: it.sample_pays, "b has several columns: ", Direct()),
    Rule(lambda it: it.passes_are_cheaper, "Passes over all rows are cheaper here than random rows: ", Refined()),
    Rule(lambda _: True, "", Randomized("uniform", replace=False)),
)  # fmt: skip


def first_choice(system: System, rtol: float, rows_allowed: float = math.inf) -> Choice:
    """Return the method to begin with if so many rows may be read: that of the first rule in `FIRST` that holds."""
    opening = _Opening(system, rtol, rows_allowed)
    return next(Choice(rule.why, rule.method) for rule in FIRST if rule.holds(opening))


class Ending(NamedTuple):
    """How a method has ended: what the conditions of `NEXT` look at.

    Attributes
    ----------
    suspicious : bool
        Whether x did not settle.
    outside : bool
        Whether x was not within its bounds, which `Direct` does not support; if it is within them, it is the solution.
    sharing : bool
        Whether a few common directions of the rows slowed convergence down.
    """

    system: System
    method: Method
    status: Status
    suspicious: bool = False
    outside: bool = False
    sharing: bool = False

    def of(self, *statuses: Status) -> bool:
        """Return whether a sample ended with one of these statuses."""
        return isinstance(self.method, Direct) and self.status in statuses

    @property
    def did_not_settle(self) -> bool:
        """Whether random rows ended because x did not settle."""
        by_rows = isinstance(self.method, Randomized | Deflated)
        return by_rows and self.suspicious and self.status in (Status.SLOW, Status.INCONSISTENT)

    @property
    def was_slow(self) -> bool:
        """Whether random rows ended because the error decreased slowly."""
        return isinstance(self.method, Randomized | Deflated) and self.status is Status.SLOW

    @property
    def rows_are_parallel(self) -> bool:
        """Whether common directions of the rows, which can be removed, made random rows slow."""
        removable = self.was_slow and self.sharing and isinstance(self.method, Randomized)
        return removable and not _all_rows_are_cheap(self.system)

    @property
    def all_is_as_cheap(self) -> bool:
        """Whether random rows were slow, and all rows take little longer than another attempt."""
        return self.was_slow and (_all_rows_are_cheap(self.system) or not _worth_another_sample(self.system))


NEXT = (
    Rule(
        lambda it: it.outside and it.of(Status.CONVERGED, Status.PRECISION), "x was outside the bounds: ", Refined()
    ),
    Rule(
        lambda it: it.of(Status.MAX_SECONDS) and it.system.clock.left > 0.0,
        "Factoring a sample would take longer than `max_seconds`: ", Refined(),
    ),
    Rule(
        lambda it: it.of(Status.INCONSISTENT),
        "The other rows are inconsistent with the sample, because of noise or rounding: ", Refined(),
    ),
    Rule(
        lambda it: it.did_not_settle,
        "The iterates did not settle, so the system seems to be inconsistent: ", Refined(),
    ),
    Rule(
        lambda it: it.rows_are_parallel,
        "The error decreased slowly because rows are nearly parallel: ", Deflated("rows"),
    ),
    Rule(
        lambda it: it.all_is_as_cheap,
        "The error decreased slowly, and using all rows takes little longer than another attempt: ", Refined("all"),
    ),
    Rule(lambda it: it.was_slow and _can_be_factored(it.system), ILL_CONDITIONED, Direct()),
    Rule(lambda it: it.was_slow, ILL_CONDITIONED, Refined()),
)  # fmt: skip


def next_choice(ending: Ending) -> Choice | None:
    """Return the method to use next: that of the first rule in `NEXT` that holds; None if there is none."""
    return next((Choice(rule.why, rule.method) for rule in NEXT if rule.holds(ending)), None)


def another_method_is_faster(monitor: Monitor) -> bool:
    """Return whether another method is clearly faster than the random rows observed by `monitor`."""
    slow = len(monitor.bursts.rows) > 2 and fewest_rows_left(monitor) > SLOW_ROWS * monitor.estimator.n_columns
    return slow or monitor.suspicious


def slow_if_another_is_faster(monitor: Monitor) -> Status | None:
    """Return `Status.SLOW`, which ends a stage of random rows, when another method is clearly faster."""
    return Status.SLOW if another_method_is_faster(monitor) else None


def has_common_directions(system: System, status: Status, rng: np.random.Generator) -> bool:
    """Return whether a few common directions of the rows made random rows slow; this takes a look at some rows."""
    slow = status is Status.SLOW and not _all_rows_are_cheap(system)
    look = slow and system.n_rhs == 1 and is_plain(system) and spectrum_estimate_pays(system)
    return look and look_at_spectrum(system, rng).common_directions is not None


def sample_is_consistent(rows: Any, b: np.ndarray) -> bool:
    """Return whether there are so many dense rows that a look at some pays, and these are consistent."""
    if isinstance(rows, CSRRows):
        return False
    return worth_a_sample(*rows.values.shape) and sample_agrees(rows.values, b)


def is_plain(system: System) -> bool:
    """Return whether there is neither damping nor bounds."""
    return system.damp == 0.0 and system.bounds is None


def is_sparse(system: System) -> bool:
    return isinstance(system.rows, CSRRows)


def _is_tiny(system: System) -> bool:
    """Return whether all rows are factored in hardly any time, or there are hardly more rows than columns."""
    n, p = system.n_rows, system.n_columns
    if is_sparse(system):
        least = PAIR * n * system.entries_per_row**2  # a lower bound of the number of pairs
        return least <= BEGIN and price_of_all(system) <= BEGIN
    return compressed_at_once(n, p, system.n_rhs) or (n < TALL * p and orthogonal(n, p) <= LONG_BREAK)


def _few_columns(system: System) -> int:
    """Return the largest number of columns that counts as few, which increases with the number of right-hand sides.

    A sample is factored once for all right-hand sides, but rows are projected on for each of them.
    """
    return SAMPLE_COLUMNS if system.n_rhs == 1 else FEW_COLUMNS_EACH * (FEW_SIDES + system.n_rhs)


def _can_be_factored(system: System) -> bool:
    """Return whether a sample can be factored, for sparse rows in the time of some passes."""
    n, p = system.n_rows, system.n_columns
    if not fits_a_factor(system) or n < TALL * p:
        return False
    return not is_sparse(system) or FACTOR_PRODUCT * p**3 / 3 <= price_of_passes(system, MANY_PASSES)


def _price_of_random_rows(system: System) -> float:
    """Return the price of random rows if the system is consistent and A is well-conditioned."""
    rows, entries = ROWS_TO_CONVERGE * system.n_columns, system.entries_per_row
    if is_sparse(system):
        return BEGIN + rows * SPARSE_NUMBER * (entries + FIND_A_ROW)
    return BEGIN + rows * RANDOM_NUMBER * entries * (1 + system.n_rhs) / 2


def _worth_another_sample(system: System) -> bool:
    """Return whether a factor of a sample is so cheap beside one of all rows that it is tried even if b may be noisy.

    True if all rows cannot be factored, because they are sparse or have too many columns.
    """
    if is_sparse(system) or not _can_be_factored(system) or not is_plain(system):
        return True
    sample = gram(TALL * system.n_columns, system.n_columns)
    return sample <= LITTLE * price_of_all(system)


def _all_rows_are_cheap(system: System) -> bool:
    """Return whether all rows take hardly more time than the next method to try after slow random rows."""
    return is_plain(system) and price_of_all(system) <= MUCH_MORE * _price_of_random_rows(system)


def _passes_are_cheaper(system: System, rtol: float) -> bool:
    """Return whether conjugate gradients over all rows take less time than random rows, even in the best case.

    With few rows they may take slightly more, because random rows do not succeed if b is noisy or A ill-conditioned.
    """
    n, p, entries = system.n_rows, system.n_columns, system.entries_per_row
    digits = -math.log(min(max(rtol, 1e-16), 0.1))
    passes = 2.0 + 2.0 * digits / math.log(max(n / p, 2.0))
    find = FIND_A_ROW if is_sparse(system) else 0.0
    rows = ROWS_TO_CONVERGE * p * digits / math.log(1e6)
    longer = MUCH_MORE if n < HARDLY_TALL * p else 1.0
    return passes * n * entries < longer * rows * (entries + find)
