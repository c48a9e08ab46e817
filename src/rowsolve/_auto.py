"""What ``method="auto"`` does, from top to bottom.

A tiny system is factored. Few columns: a sample of the rows is solved directly, whatever the condition, if a small one
is consistent; else all rows are used. Many: rows are taken at random, which is the fastest way of all if A is well
conditioned and the equations agree; when the error does not fall as it then should, or x will not come to rest, the
reason decides what comes next. Each decision is a sentence of the message, and each stage is in the history.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from rowsolve._check import ROWS_TO_CHECK, residuals_of
from rowsolve._drive import Run
from rowsolve._monitor import Monitor
from rowsolve._solution import Status
from rowsolve._state import Kind, StateError, fill, in_place, listed, named, number, optional, state_of, text, tuple_of
from rowsolve._system import System
from rowsolve._vectors import norm
from rowsolve._words import FOR_FAR_ROWS, far_rows, rows_for_the_tail
from rowsolve.kernels.rows import CSRRows
from rowsolve.lstsq.dense import sample_agrees
from rowsolve.methods import Deflated, Direct, Method, Quantile, Randomized, Refined
from rowsolve.methods.exact import price_of_all
from rowsolve.methods.factor import SQUARES
from rowsolve.methods.spectrum import look_at_spectrum, worth_a_look
from rowsolve.policy.prices import (
    BEGIN,
    PAIR,
    SMALL_SYSTEM,
    SPARSE_NUMBER,
    compressed_at_once,
    orthogonal,
    worth_a_sample,
)

__all__ = [
    "CLEAN",
    "SAYS",
    "SMALL",
    "TALL",
    "Auto",
    "Choice",
    "first_choice",
    "is_hopeless",
    "next_choice",
    "rows_seem_to_agree",
    "rows_share_much",
]

# Measured on two cores; what matters are the ratios, which vary little between machines.
_WORTH_A_SAMPLE = 6  # times p rows: of fewer, to factor all does not take much longer than to factor some
_WORTH_A_LOOK = 200  # times p rows: of more, all rows take so long that a sample in vain does not matter
TALL = 2  # times p rows: of fewer there is no sample to take
_NOT_TALL = 600  # times the price of a small system, where rows need long and all are soon the best there is
_FEW_COLUMNS = 500  # a sample is factored in the time that rows take to converge
_FEW_COLUMNS_EACH, _PRICE_OF_MANY = 75, 32  # for k right-hand sides that holds up to 75 * (32 + k) columns
_MOST_COLUMNS = 10_000  # of a dense factor
_FACTOR_PER_NUMBER = 3000  # multiplications of a dense factor for each stored number of sparse rows, at most
_ROWS_TO_CONVERGE = 30  # times p, for well-conditioned rows and six digits
_TIME_TO_FIND_A_ROW = 250  # sparse rows far apart in memory: as long as so many numbers take
_HARDLY_LONGER = 3
_SLOW = 4 * _ROWS_TO_CONVERGE  # times p rows still needed: anything else is faster
_ROWS_TO_LEAVE_OUT, _FEWEST_COLUMNS = 2000, 64  # times p rows, to look for wild ones; p counts as 64 at least
CLEAN = 1e-4  # relative residual below which there is nothing to be torn by

SMALL = "The system is small: "
SAYS = {
    "deflated": "'deflated' took random rows without what they share.",
    "direct": "a sample of the rows was solved with 'direct'.",
    "randomized": "Rows were taken at random with 'randomized', without replacement.",
    "refined": "'refined' looked for the least-squares solution.",
}


class Choice(NamedTuple):
    """A method, and why it is taken: the beginning of a sentence, or nothing."""

    why: str
    method: Method


def first_choice(system: System, rtol: float, rows_allowed: float = math.inf) -> Choice:
    """Return what to begin with, if so many rows may be read."""
    n, p = system.n_rows, system.n_columns
    tiny = _is_tiny(system) and _has_room(system) and rows_allowed >= n
    if tiny and system.damp == 0.0 and not system.stored and rows_seem_to_agree(system.rows, system.b):
        return Choice("A small sample of the rows is consistent: ", Direct())
    all_rows = Refined("all" if tiny else "auto")
    if system.damp > 0.0:
        return Choice("`damp` asks for a least-squares method: ", all_rows)
    if tiny:
        return Choice(SMALL, all_rows)
    if system.stored and not _is_sparse(system) and _can_be_factored(system):
        return Choice("The rows are not in memory, so as few as possible were read: ", Direct())
    if not _is_sparse(system) and p <= _few_columns(system) and n >= _WORTH_A_SAMPLE * p and _has_room(system):
        look = not system.stored and n <= min(rows_allowed, _WORTH_A_LOOK * p)
        if look and not sample_agrees(system.rows.values, system.b):
            return Choice("A small sample of the rows is inconsistent or singular: ", Refined())
        few = p <= _FEW_COLUMNS
        return Choice("There are few columns: " if few else "There are several right-hand sides: ", Direct())
    not_tall = n < (_WORTH_A_SAMPLE if p <= _FEW_COLUMNS else TALL) * p
    at_once = _is_sparse(system) and price_of_all(system) <= 2.0 * _price_of_random_rows(system)
    if (not_tall and not _is_sparse(system)) or at_once or system.in_columns or _passes_are_cheaper(system, rtol):
        return Choice("To read all rows in order is cheaper here than to pick some at random: ", Refined())
    return Choice("", Randomized("uniform", replace=False))


def next_choice(
    system: System, method: Method, status: Status, *, suspicious: bool, outside: bool = False, sharing: bool = False
) -> Choice | None:
    """Return what comes after a `method` that ended with `status`; None if nothing does.

    `suspicious` tells that x did not come to rest, `outside` that x was not within its bounds, of which `Direct` knows
    nothing; within, it is the answer. `sharing` tells that a few directions in which rows are alike are what made them
    slow.
    """
    if isinstance(method, Direct) and outside and status in (Status.CONVERGED, Status.PRECISION):
        return Choice("x was outside the bounds: ", Refined())
    if isinstance(method, Direct) and status is Status.MAX_SECONDS and system.clock.left > 0.0:
        return Choice("To factor a sample of the rows would take longer than `max_seconds` allows: ", Refined())
    if isinstance(method, Direct) and status is Status.INCONSISTENT:
        why = "The other rows do not agree to the tolerance, so the equations contradict each other or are rounded: "
        return Choice(why, Refined())
    if not isinstance(method, Randomized | Deflated) or status not in (Status.SLOW, Status.INCONSISTENT):
        return None
    if suspicious:
        return Choice("x did not come to rest, so the equations seem to contradict each other: ", Refined())
    if status is Status.SLOW and sharing and isinstance(method, Randomized):
        return Choice("The error fell slowly, because rows are much alike: ", Deflated("rows"))
    if status is Status.SLOW:
        why = "The error fell slowly, so A is ill-conditioned: "
        return Choice(why, Direct() if _can_be_factored(system) else Refined())
    return None


def is_hopeless(monitor: Monitor) -> bool:
    """Tell whether anything else is clearly faster than the random rows that `monitor` has seen."""
    slow = len(monitor.rows) > 2 and monitor.fewest_rows_left > _SLOW * monitor.n_columns
    return slow or monitor.suspicious


def rows_share_much(system: System, status: Status, rng: np.random.Generator) -> bool:
    """Tell whether a few directions in which rows are alike are what made random ones slow: look at some, if so."""
    look = status is Status.SLOW and system.n_rhs == 1 and _is_plain(system) and worth_a_look(system)
    return look and look_at_spectrum(system, rng).shared is not None


def rows_seem_to_agree(rows: Any, b: np.ndarray) -> bool:
    """Tell whether there are so many dense rows that it is worth a look at some, and these agree with each other."""
    if isinstance(rows, CSRRows):
        return False
    return worth_a_sample(*rows.values.shape) and sample_agrees(rows.values, b)


def _is_plain(system: System) -> bool:
    """Tell whether nothing but the equations asks for an x: neither damping nor bounds."""
    return system.damp == 0.0 and system.bounds is None


def _is_sparse(system: System) -> bool:
    return isinstance(system.rows, CSRRows)


def _is_tiny(system: System) -> bool:
    """Tell whether all rows are factored in next to no time, or there are hardly more of them than columns."""
    n, p = system.n_rows, system.n_columns
    if _is_sparse(system):
        least = PAIR * n * system.entries_per_row**2  # there are as many pairs in a row, or more
        return least <= SMALL_SYSTEM and price_of_all(system) <= SMALL_SYSTEM
    return compressed_at_once(n, p, system.n_rhs) or (n < TALL * p and orthogonal(n, p) <= _NOT_TALL * SMALL_SYSTEM)


def _few_columns(system: System) -> int:
    """Return how many columns are few. A sample is factored once for all right-hand sides; rows act on each of them."""
    return _FEW_COLUMNS if system.n_rhs == 1 else _FEW_COLUMNS_EACH * (_PRICE_OF_MANY + system.n_rhs)


def _has_room(system: System) -> bool:
    """Tell whether a factor fits in the memory that may be used."""
    return 8.0 * SQUARES * system.n_columns**2 <= system.room


def _can_be_factored(system: System) -> bool:
    """Tell whether a sample can be factored, in the time of some passes if the rows are sparse."""
    n, p, entries = system.n_rows, system.n_columns, system.entries_per_row
    if not _has_room(system):
        return False
    return p <= _MOST_COLUMNS and n >= TALL * p and (not _is_sparse(system) or p**3 < _FACTOR_PER_NUMBER * n * entries)


def _price_of_random_rows(system: System) -> float:
    """Return the price of random rows if the equations agree and A is well conditioned."""
    rows = _ROWS_TO_CONVERGE * system.n_columns
    return BEGIN + rows * SPARSE_NUMBER * (system.entries_per_row + _TIME_TO_FIND_A_ROW)


def _passes_are_cheaper(system: System, rtol: float) -> bool:
    """Tell whether conjugate gradients over all rows take hardly longer than random rows, even if all is well.

    Where it is not, because b is noisy or A ill-conditioned, random rows were in vain.
    """
    n, p, entries = system.n_rows, system.n_columns, system.entries_per_row
    digits = -math.log(min(max(rtol, 1e-16), 0.1))
    passes = 2.0 + 2.0 * digits / math.log(max(n / p, 2.0))
    find = _TIME_TO_FIND_A_ROW if _is_sparse(system) else 0.0
    rows = _ROWS_TO_CONVERGE * p * digits / math.log(1e6)
    return passes * n * entries < _HARDLY_LONGER * rows * (entries + find)


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

    def __init__(
        self,
        system: System,
        x0: np.ndarray,
        rtol: float,
        begin: Begin,
        rng: np.random.Generator,
        *,
        drop: bool = False,
        rows_allowed: float = math.inf,
    ) -> None:
        self.system, self.x0, self.rtol, self.rng = system, x0, rtol, rng
        self.drop = drop  # whether rows that are far off may be left out
        self._begin = begin
        self.words: list[str] = []
        self.run: Any = None  # the Run of the stage, once it has begun
        self.choice: Choice | None = first_choice(system, rtol, rows_allowed)
        self.start: tuple[np.ndarray, np.ndarray | None] = (x0, None)  # see `_start_of`
        self.least_squares: Run | None = None  # what was found with all rows, while others look for wild ones
        self.seen, self.remark = "", ""  # what was seen of wild rows; what to say of them after all else
        self.most_rows = math.inf  # that may have been read when these have done so

    def go(self) -> Status:
        """Solve, or go on with it; return how the last stage ended."""
        if self.least_squares is not None:
            return self._without_wild_rows(self.least_squares, self.seen)
        while self.choice is not None:
            status = self._stage(self.choice)
            suspicious = any(monitor.suspicious for monitor in self.run.monitors)
            self.choice = next_choice(
                self.system, self.choice.method, status,
                suspicious=suspicious, outside=self.run.cut_off, sharing=rows_share_much(self.system, status, self.rng),
            )  # fmt: skip
            if self.choice is not None and self.run.rows_allowed < self.system.n_rows:  # it would read all at once
                return Status.MAX_PASSES
            if self.choice is not None:
                self.start, self.run = self._start_of(self.choice.method), None
        torn = isinstance(self.run.method, Refined) and status is Status.CONVERGED and _is_plain(self.system)
        seen = self._wild_rows() if torn else ""
        if seen and self.drop:
            return self._without_wild_rows(self.run, seen)
        self.remark = FOR_FAR_ROWS.format(seen) if seen else ""
        return status

    def _stage(self, choice: Choice) -> Status:
        """Run one method."""
        if self.run is None:
            says = SAYS[choice.method.name]
            if choice.method.least_squares and self.system.bounds is not None:
                says = says.replace("solution", "solution within the bounds")
            self.words.append(choice.why + says)
            x0, probe = self.start
            self.run = self._begin(choice.method, x0, self._watch)
            self.run.probe = probe
        return self.run.go()

    def _start_of(self, method: Method) -> tuple[np.ndarray, np.ndarray | None]:
        """Return where the next method starts, and a vector that the error there is like, if one is known.

        Where random rows have led, if that is nearer; else x0. The error of an x that others have left is like no
        random vector. Without that its estimate could not be trusted at once, which costs more than has been gained.
        """
        system, last, start = self.system, self.run, (self.x0, None)
        plain = system.n_rhs == 1 and system.bounds is None and not system.stored and not self.x0.any()
        if not plain or not isinstance(method, Refined) or not isinstance(last.method, Randomized | Deflated):
            return start
        order, _ = system.sample(ROWS_TO_CHECK, self.rng)
        off, b = residuals_of(system, order, last.x), system.b[order]
        return (last.x.copy(), self._like_the_error(last)) if off @ off < b @ b else start

    def _like_the_error(self, last: Run) -> np.ndarray:
        """Return a vector that is like the error of an x that random rows have led to.

        It consists of what they have left of the error at the start, as they have of the probe, and of what noise has
        added since, alike in all directions.
        """
        left, added = last.iterates[-1], self.rng.standard_normal(self.system.n_columns)
        mixed = left / (norm(left) or 1.0) + added / norm(added)
        return mixed / norm(mixed)

    def _watch(self, monitor: Monitor) -> Status | None:
        """End the stage, which only random rows ask about, when it is clear that something else is faster."""
        return Status.SLOW if is_hopeless(monitor) else None

    def _without_wild_rows(self, least_squares: Run, seen: str) -> Status:
        """Look for an x without the few rows that tear at the least-squares solution; if there is none, keep that."""
        why = f"{seen}, so 'quantile' looked for an x without them"
        if self.least_squares is None:
            self.seen = seen
            self.words.append(f"{why}.")
            most = _ROWS_TO_LEAVE_OUT * max(self.system.n_columns, _FEWEST_COLUMNS)  # it is a look aside
            self.most_rows = float(self.system.rows_read + most)
            self.run, self.least_squares = self._look_aside(), least_squares
        found = self.run.go()
        if found is Status.CONVERGED and self.run.off.size:
            return found
        self.run = least_squares
        if found in (Status.CONVERGED, Status.INCONSISTENT, Status.SLOW, Status.PRECISION):
            self.words[-1] = f"{why}, but the others do not agree either: x is the least-squares solution of all."
            return Status.CONVERGED
        self.words[-1] = f"{why}, but was stopped before it was done: x is the least-squares solution of all."
        return found if found in (Status.STOPPED, Status.INTERRUPTED) else Status.CONVERGED

    def _look_aside(self) -> Run:
        """Return a run that looks for an x without wild rows."""
        run = self._begin(Quantile(), self.x0)
        run.check = "full"  # so that all of them are listed
        run.max_rows = min(run.max_rows, self.most_rows)
        return run

    def _wild_rows(self) -> str:
        """Say whether a few rows are further off than the noise of the others would put them; nothing if not."""
        system, x = self.system, self.run.x
        if system.n_rhs > 1 or system.residual_norm <= CLEAN * system.norm_b:  # 'quantile' takes only one
            return ""
        if system.n_rows < TALL * system.n_columns:  # some rows could be satisfied whatever they say
            return ""
        order = np.arange(system.n_rows)[rows_for_the_tail(system.n_rows)]
        return far_rows(residuals_of(system, order, x), system.n_rows, system.residual_norm)

    saved: ClassVar[dict[str, Kind]] = {"words": listed(text), "most_rows": number, "seen": text, "remark": text}
    derived: ClassVar[tuple[str, ...]] = (
        "system", "x0", "rtol", "rng", "drop", "_begin", "run", "choice", "start", "least_squares",
    )  # fmt: skip

    def state(self) -> dict[str, Any]:
        """Return which stage it is, and how far that has got."""
        choice, found = self.choice, self.least_squares
        return {
            **state_of(self),
            "choice": None if choice is None else {"why": choice.why, "method": _name_of(choice.method)},
            "run": self.run.state(),
            "least_squares": None if found is None else [_name_of(found.method), found.state(done=True)],
        }

    def restore(self, state: Any) -> None:
        """Go on with that stage."""
        sizes = self.system.sizes
        fill(self, state, sizes, besides=("choice", "run", "least_squares"))
        self.choice = optional(named(Choice, why=text, method=self._method_named))(state["choice"], sizes)
        if state["least_squares"] is not None:
            if self.choice is not None or self.system.n_rhs > 1 or not _is_plain(self.system):
                raise StateError("least_squares: expected none")
            method, found = tuple_of(self._method_named, in_place)(state["least_squares"], sizes)
            self.least_squares = self._begin(method, self.x0)
            self.least_squares.restore(found, done=True)
            self.run = self._look_aside()
        elif self.choice is not None:
            self.run = self._begin(self.choice.method, self.x0, self._watch)
        else:
            raise StateError("choice: expected one")
        self.run.restore(state["run"])

    def _method_named(self, state: Any, _: Any) -> Method:
        """Return the method that a state that was read tells of, if it can be a stage of this solve."""
        kinds = {kind.name: kind for kind in (Deflated, Direct, Randomized, Refined)}
        parameters = dict(state) if isinstance(state, dict) else {}
        name = parameters.pop("name", None)
        if not isinstance(name, str) or name not in kinds or not set(map(type, parameters.values())) <= {str, bool}:
            raise StateError("method: expected a name and parameters")
        try:
            method = kinds[name](**parameters)
        except (TypeError, ValueError) as error:
            raise StateError(f"method: {error}") from None
        if self.system.n_rhs > 1 and not method.takes_many:
            raise StateError(f"method: expected one for several right-hand sides, got {name}")
        return method


def _name_of(method: Method) -> dict[str, Any]:
    """Return the name of a method and its parameters, as far as others than the defaults were given."""
    given, usual = method.parameters(), type(method)().parameters()
    return {"name": method.name, **{key: value for key, value in given.items() if value != usual[key]}}
