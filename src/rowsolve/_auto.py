"""What ``method="auto"`` does, from top to bottom.

A tiny system is factored. Few columns: a sample of the rows is solved directly, whatever the condition. Many: rows are
taken at random, which is the fastest way of all if A is well conditioned and the equations agree; when the error does
not fall as it then should, or x will not come to rest, the reason decides what comes next. Each decision is a sentence
of the message, and each stage is in the history.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

import numpy as np

from rowsolve._check import residuals_of
from rowsolve._drive import Run
from rowsolve._monitor import Monitor
from rowsolve._solution import Status
from rowsolve._system import System
from rowsolve.kernels.rows import CSRRows
from rowsolve.methods import Direct, Method, Quantile, Randomized, Refined

__all__ = ["Auto"]

# Measured on two cores; what matters are the ratios, which vary little between machines.
_TINY = 5e7  # multiplications of a factorization of all rows: about 2 ms
_TALL = 2  # times p rows: of fewer there is no sample to take
_TINY_IF_NOT_TALL = 40 * _TINY  # then rows need long, and a factorization of all is soon the best there is
_FEW_COLUMNS = 500  # a sample is factored in the time that rows take to converge
_FEW_COLUMNS_EACH, _PRICE_OF_MANY = 75, 32  # for k right-hand sides that holds up to 75 * (32 + k) columns
_MOST_COLUMNS = 10_000  # of a dense factor
_FACTOR_PER_NUMBER = 3000  # multiplications of a dense factor for each stored number of sparse rows, at most
_ROWS_TO_CONVERGE = 30  # times p, for well-conditioned rows and six digits
_TIME_TO_FIND_A_ROW = 250  # sparse rows far apart in memory: as long as so many numbers take
_SLOW = 4 * _ROWS_TO_CONVERGE  # times p rows still needed: anything else is faster
_ROWS_FOR_THE_TAIL = 1024
_WILD = 12.0  # times the median: a normal distribution reaches 5 in a thousand rows
_HEAVY = 3.0  # times the median: the root of the mean square of a normal distribution is 1.5
_CLEAN = 1e-4  # relative residual below which there is nothing to be torn by

_WELL = 0.5  # of the pace of well-conditioned rows, which is a factor e for p rows


class Begin(Protocol):
    """Starts a stage."""

    def __call__(self, method: Method, x0: np.ndarray, give_up: Callable[[Monitor], Status | None] = ...) -> Run:
        """Return the run of `method` from `x0`."""


class Auto:
    """The stages of one solve.

    Attributes
    ----------
    run : Run
        The last stage.
    words : list of str
        Why each was begun.
    """

    def __init__(self, system: System, x0: np.ndarray, rtol: float, begin: Begin, rng: np.random.Generator) -> None:
        self.system, self.x0, self.rng = system, x0, rng
        self.digits = -math.log(min(max(rtol, 1e-16), 0.1))
        self._begin = begin
        self.words: list[str] = []
        self.run: Run

    def go(self) -> Status:
        """Solve; return how the last stage ended."""
        system = self.system
        if system.damp > 0.0:
            return self._least_squares("`damp` asks for a least-squares method: ")
        if self._is_tiny():
            small = "The system is small: "
            return self._least_squares(small, "all") if self._sparse else self._sample_first(small)
        if not self._sparse and system.n_columns <= self._few_columns and system.n_rows >= _TALL * system.n_columns:
            few = system.n_columns <= _FEW_COLUMNS
            return self._sample_first("There are few columns: " if few else "There are several right-hand sides: ")
        if self._passes_are_cheaper():
            return self._least_squares("To read all rows in order is cheaper here than to pick some at random: ")
        return self._rows_first()

    def _rows_first(self) -> Status:
        first = "Rows were taken at random with 'randomized', without replacement."
        status = self._stage(Randomized("uniform", replace=False), first, self._watch)
        suspicious = any(monitor.suspicious for monitor in self.run.monitors)
        if suspicious and status in (Status.SLOW, Status.INCONSISTENT):
            well = self.run.monitor.pace * self.system.n_columns > _WELL
            why = "x did not come to rest, so the equations seem to contradict each other: "
            return self._least_squares(why, "none" if well else "auto")
        if status is Status.SLOW:
            why = "The error fell slowly, so A is ill-conditioned: "
            return self._sample_first(why) if self._can_be_factored() else self._least_squares(why)
        return status

    def _sample_first(self, why: str) -> Status:
        status = self._stage(Direct(), f"{why}a sample of the rows was solved with 'direct'.")
        if status is not Status.INCONSISTENT:
            return status
        why = "The other rows do not agree, so the equations contradict each other: "
        return self._least_squares(why, "sample" if self.system.n_rhs == 1 else "auto")

    def _least_squares(self, why: str, preconditioner: str = "auto") -> Status:
        """Find the least-squares solution; if it is torn by a few wild rows, look for an x without them."""
        method = Refined(preconditioner)  # type: ignore[arg-type]
        status = self._stage(method, f"{why}'refined' looked for the least-squares solution.")
        if status is not Status.CONVERGED or self.system.damp > 0.0 or not self._has_wild_rows():
            return status
        least_squares, why = self.run, "A few rows are far off, so 'quantile' looked for an x without them"
        self.words.append(f"{why}.")
        self.run = self._begin(Quantile(), self.x0)
        self.run.check = "full"  # so that all of them are listed
        found = self.run.go()
        if found is Status.CONVERGED:
            return found
        self.run = least_squares
        if found in (Status.INCONSISTENT, Status.SLOW, Status.PRECISION):
            self.words[-1] = f"{why}, but the others do not agree either: x is the least-squares solution of all."
            return status
        self.words[-1] = f"{why}, but was stopped before it was done: x is the least-squares solution of all."
        return found if found in (Status.STOPPED, Status.INTERRUPTED) else status

    def _stage(self, method: Method, why: str, give_up: Callable[[Monitor], Status | None] = lambda _: None) -> Status:
        """Run one method, from x0: the error of an x that another has left is like no random vector.

        Without that its estimate could not be trusted at once, which costs more than what has been gained.
        """
        self.words.append(why)
        self.run = self._begin(method, self.x0, give_up)
        return self.run.go()

    @property
    def _sparse(self) -> bool:
        return isinstance(self.system.rows, CSRRows)

    def _is_tiny(self) -> bool:
        """Tell whether all rows are factored at once in next to no time, or there are hardly more rows than columns."""
        n, p, entries = self.system.n_rows, self.system.n_columns, self.system.entries_per_row
        work = n * entries**2 + p**3 / 3
        return work <= _TINY or (n < _TALL * p and n * float(p) * min(n, p) <= _TINY_IF_NOT_TALL)

    @property
    def _few_columns(self) -> int:
        """How many columns are few. A sample is factored once for all right-hand sides; rows act on each of them."""
        return _FEW_COLUMNS if self.system.n_rhs == 1 else _FEW_COLUMNS_EACH * (_PRICE_OF_MANY + self.system.n_rhs)

    def _can_be_factored(self) -> bool:
        """Tell whether a sample can be factored, in the time of some passes if the rows are sparse."""
        n, p, entries = self.system.n_rows, self.system.n_columns, self.system.entries_per_row
        return p <= _MOST_COLUMNS and n >= _TALL * p and (not self._sparse or p**3 < _FACTOR_PER_NUMBER * n * entries)

    def _passes_are_cheaper(self) -> bool:
        """Tell whether conjugate gradients over all rows beat random rows even if all is well."""
        n, p, entries = self.system.n_rows, self.system.n_columns, self.system.entries_per_row
        passes = 2.0 + 2.0 * self.digits / math.log(max(n / p, 2.0))
        find = _TIME_TO_FIND_A_ROW if self._sparse else 0.0
        rows = _ROWS_TO_CONVERGE * p * self.digits / math.log(1e6)
        return passes * n * entries < rows * (entries + find)

    def _watch(self, monitor: Monitor) -> Status | None:
        """End the stage when it is clear that something else is faster."""
        slow = len(monitor.rows) > 2 and monitor.fewest_rows_left > _SLOW * self.system.n_columns
        return Status.SLOW if slow or monitor.suspicious else None

    def _has_wild_rows(self) -> bool:
        """Tell whether a few rows are further off than the noise of the others would put them.

        By the largest of some rows against their median, or by the norm of the whole residual, which knows all rows.
        """
        system, x = self.system, self.run.x
        if system.n_rhs > 1 or system.residual_norm <= _CLEAN * system.norm_b:  # 'quantile' takes only one
            return False
        order, _ = system.sample(_ROWS_FOR_THE_TAIL, self.rng)
        off = np.abs(residuals_of(system, order, x))
        usual = float(np.median(off))
        return float(off.max()) > _WILD * usual or system.residual_norm > _HEAVY * usual * math.sqrt(system.n_rows)
