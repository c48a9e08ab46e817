"""The contract of a method: frozen parameters; a plan made once and then bursts of rows, or steps of its own."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import fields
from typing import Any, ClassVar, NamedTuple

import numpy as np

from rowsolve.checkpoint.state import (
    Kind,
    Sizes,
    StateError,
    amount,
    array,
    check_names,
    fill,
    flag,
    named,
    packed,
    plain,
    row_numbers,
)
from rowsolve.estimate.step import Step
from rowsolve.estimate.tolerance import Tolerance
from rowsolve.kernels.sampling import Deck
from rowsolve.problem.system import System

__all__ = ["Capabilities", "Method", "Plan", "RowMethod", "Step", "StepMethod"]


class Plan:
    """What a method has prepared for one system. Its buffers serve every burst.

    Parameters
    ----------
    system : System
    work_per_row : float, optional
        Numbers touched for each row of A read; the entries of a row if not given.
    rows_per_step : int, optional
        Rows of A read together: bursts are made of whole steps.
    price_of_row : float, optional
        How much of A is read for each row, in rows: more than 1 if columns are read as well.

    Attributes
    ----------
    rounding : float
        How far rounding may move x in a step, in units of what it does when x is projected on a row of A.
    eps : float
        Relative precision of equations that the method makes itself; 0 if it makes none.
    window : float
        Over how many rows, in p, the drops are steady enough to be compared.
    agreeing : bool
        Whether the equations seem to agree. Shortcuts (chains, memory) rest on that.
    chains : Chains or None
        Those that the rows are shared out to, if any.
    """

    rounding = 1.0
    eps = 0.0
    window = 1.0
    agreeing = True
    chains: Any = None

    def __init__(
        self, system: System, work_per_row: float = 0.0, rows_per_step: int = 1, price_of_row: float = 1.0
    ) -> None:
        self.system = system
        self.work_per_row = max(work_per_row, system.entries_per_row)
        self.rows_per_step = rows_per_step
        self.price_of_row = price_of_row

    @property
    def takes_shortcuts(self) -> bool:
        """Whether x goes where only equations that agree may send it."""
        return False

    def take_over(self, before: Any) -> None:
        """Go on where a plan for other rows of the same system has got to."""
        self.agreeing = before.agreeing

    saved: ClassVar[dict[str, Kind]] = {"agreeing": flag, **dict.fromkeys(("rounding", "eps", "window"), amount)}
    derived: ClassVar[tuple[str, ...]] = ("system", "work_per_row", "rows_per_step", "price_of_row", "chains")

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint keeps: what is `saved`, and other attributes if they are numbers, text or arrays."""
        others = vars(self).keys() - self.saved.keys() - set(self.derived)
        state = {name: packed(getattr(self, name)) for name in self.saved}
        return {**state, "others": {name: plain(getattr(self, name), name) for name in sorted(others)}}

    def restore(self, state: Any) -> None:
        """Take over a state that `state` has returned, of a plan that was made in the same way."""
        fill(self, state, self.system.sizes, besides=("others",))
        for name in check_names(state["others"], type(self), (*self.saved, *self.derived)):
            setattr(self, name, state["others"][name])


class Capabilities(NamedTuple):
    """What a method can do.

    Attributes
    ----------
    least_squares : bool
        Whether it converges to the least-squares solution of an inconsistent system.
    many_b : bool
        Whether it solves for several right-hand sides at once.
    bounds : bool
        Whether it keeps x within bounds.
    stored : bool
        Whether it works when the rows are not all in memory.
    in_chunks : bool
        Whether a row method then works on one chunk after another, each as a system of its own.
    in_given_order : bool
        Whether the first rows that it uses need not be like the others.
    averages : bool
        Whether the mean of its iterates converges to the least-squares solution.
    """

    least_squares: bool = False
    many_b: bool = False
    bounds: bool = False
    stored: bool = True
    in_chunks: bool = True
    in_given_order: bool = False
    averages: bool = False


class Method(ABC):
    """A way to solve. Parameters are the fields of a frozen dataclass. See `RowMethod` and `StepMethod`."""

    name: ClassVar[str]
    summary: ClassVar[str]
    citation: ClassVar[str]
    can: ClassVar[Capabilities] = Capabilities()

    @property
    def max_outlier_fraction(self) -> float:
        """Up to which share of the rows may be wrong: x is found from the others. 0 if every row counts."""
        return 0.0

    def parameters(self) -> dict[str, Any]:
        """Return the parameters and their values."""
        by_place = sorted(fields(self), key=lambda field: bool(field.kw_only))  # type: ignore[arg-type]
        return {field.name: getattr(self, field.name) for field in by_place}


class StepMethod(Method):
    """A method that judges itself: each step reads what it needs and says how far x is from the solution."""

    @abstractmethod
    def steps(
        self,
        system: System,
        x0: np.ndarray,
        tolerance: Tolerance,
        rng: np.random.Generator,
        probe: np.ndarray | None = None,
    ) -> Iterator[Step]:
        """Yield one `Step` after another.

        `x0` has the shape (p,), or (n_rhs, p) if there are several right-hand sides. `probe` is a vector that its error
        is like, if one is known: projections have made x0 from zero, and this from a random vector.
        """


class RowMethod(Method):
    """A way to choose rows to project on; state lives in the plan. The monitor judges by what the rows do."""

    plan_type: ClassVar[Any] = None  # of its plans, if `from_state` of that type makes them without preparing anything

    def begin(self, system: System, rng: np.random.Generator) -> Any:
        """Return a `Plan` to advance with."""
        return self.prepare(system, rng)

    def save(self, plan: Any) -> Any:
        """Return the state of a plan of this method; raise TypeError if it cannot be saved."""
        if self.plan_type not in (None, type(plan)):
            raise TypeError(
                f"{type(self).__name__} makes {type(plan).__name__} objects instead of {self.plan_type.__name__}: set "
                "its `plan_type` to None."
            )
        return packed(plan)

    def resume(self, system: System, state: Any) -> Any:
        """Return the plan of an earlier run, whose state was saved.

        If the state alone does not make one, it is prepared anew, and then filled.
        """
        if self.plan_type is not None:
            if not isinstance(state, dict):
                raise StateError("plan: expected its attributes")
            return self.plan_type.from_state(self, system, state)
        plan = self.begin(system, np.random.default_rng(0))
        plan.restore(state)
        return plan

    @abstractmethod
    def prepare(self, system: System, rng: np.random.Generator) -> Any:
        """Read what must be read of A before the first step; return a `Plan`."""

    @abstractmethod
    def advance(
        self, plan: Any, iterates: np.ndarray, n_rows: int, rng: np.random.Generator, drops: np.ndarray
    ) -> np.ndarray:
        """Move `iterates` with about `n_rows` rows, fill `drops`; return the rows that were read.

        The last of `iterates` is a probe for ``A z = 0`` (see `rowsolve.estimate.monitor`); before it comes x, one for
        each right-hand side.
        """


def deck_of_rows(value: Any, sizes: Sizes) -> Deck:
    """Look for a deck of rows in a state that was read (see `rowsolve.checkpoint.state`)."""
    integers = array("m", dtype=np.int64)
    look = named(Deck, members=row_numbers("m"), starts=array(None, dtype=np.int64), keep=array("m"), other=integers)
    found = look(value, dict(sizes))
    edges, size = found.starts, found.members.size
    check_edges(edges, size)
    lengths = np.diff(edges)
    if not ((found.other >= 0) & (found.other < np.repeat(lengths, lengths))).all():
        raise StateError("other: expected places in their groups")
    return found


def check_edges(edges: np.ndarray, size: int) -> None:
    """Raise unless `edges` cut a list of `size` rows into groups of at least one, or into none if it is empty."""
    grows = (edges[1:] > edges[:-1]).all() if size else not edges.any()
    if edges.ndim != 1 or not edges.size > (size > 0) or edges[0] != 0 or edges[-1] != size or not grows:
        raise StateError(f"starts: expected places that rise from 0 to {size}")


def positive_integer(name: str, value: Any, least: int = 1) -> None:
    """Raise unless `value` is an integer of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ValueError(f"`{name}` must be an integer of at least {least}, got {value!r}.")


def number_between(name: str, value: Any, least: float, below: float) -> None:
    """Raise unless `value` is a number of at least `least` and below `below`."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not least <= value < below:
        above = f" and below {below:g}" if below < math.inf else ""
        raise ValueError(f"`{name}` must be a number of at least {least:g}{above}, got {value!r}.")


def one_of(name: str, value: Any, choices: tuple[str, ...]) -> None:
    """Raise unless `value` is one of `choices`."""
    if value not in choices:
        raise ValueError(f"`{name}` must be one of {', '.join(map(repr, choices))}, got {value!r}.")
