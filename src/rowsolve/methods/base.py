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
    StateError,
    amount,
    check_names,
    fill,
    flag,
    packed,
    plain,
)
from rowsolve.estimate.step import Step
from rowsolve.estimate.tolerance import Tolerance
from rowsolve.problem.system import System

__all__ = ["Capabilities", "Method", "Plan", "RowMethod", "Step", "StepMethod"]


class Plan:
    """What a method has prepared for one system: its buffers and its state, used in every burst.

    The constructor of a subclass prepares all that it can; afterwards only methods of the plan change it.

    Parameters
    ----------
    system : System
    work_per_row : float, optional
        The numbers read or written for each row of A; by default the entries of a row.
    rows_per_step : int, optional
        The rows of A used in one step; a burst consists of whole steps.
    price_of_row : float, optional
        The amount of A that is read for each row, in rows; more than 1 if columns are read as well.

    Attributes
    ----------
    rounding : float
        The rounding error of a step, relative to that of a projection on a row of A.
    eps : float
        The relative precision of equations that the method forms itself; 0 if it forms none.
    window : float
        The number of rows, divided by p, over which the drops are averaged before they are compared.
    seems_consistent : bool
        Whether the system seems consistent, which chains and memory assume.
    """

    rounding = 1.0
    eps = 0.0
    window = 1.0
    seems_consistent = True

    def __init__(
        self, system: System, work_per_row: float = 0.0, rows_per_step: int = 1, price_of_row: float = 1.0
    ) -> None:
        self.system = system
        self.work_per_row = max(work_per_row, system.entries_per_row)
        self.rows_per_step = rows_per_step
        self.price_of_row = price_of_row

    @property
    def n_chains(self) -> int:
        """The number of threads that the rows of a burst are distributed to."""
        return 1

    @property
    def assumes_consistency(self) -> bool:
        """Whether x is moved by chains or memory, which assume a consistent system."""
        return False

    def trust(self) -> None:
        """Take the system for consistent, as at the start."""
        self.seems_consistent = True

    def distrust(self) -> None:
        """Take the system for inconsistent, so that only plain projections are used from now on."""
        self.seems_consistent = False

    def continue_from(self, before: Any) -> None:
        """Continue from the state of a plan for other rows of the same system."""
        self.seems_consistent = before.seems_consistent

    saved: ClassVar[dict[str, Kind]] = {
        "seems_consistent": flag,
        **dict.fromkeys(("rounding", "eps", "window"), amount),
    }
    derived: ClassVar[tuple[str, ...]] = ("system", "work_per_row", "rows_per_step", "price_of_row")

    def state(self) -> dict[str, Any]:
        """Return the state for a checkpoint: `saved`, and other attributes if they are numbers, text or arrays."""
        others = vars(self).keys() - self.saved.keys() - set(self.derived)
        state = {name: packed(getattr(self, name)) for name in self.saved}
        return {**state, "others": {name: plain(getattr(self, name), name) for name in sorted(others)}}

    def restore(self, state: Any) -> None:
        """Set the state to what `state` returned for a plan that was made in the same way."""
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
        Whether it uses rows in the given order, so that the first rows need not be representative.
    averages : bool
        Whether the mean of its iterates converges to the least-squares solution. If the system is inconsistent, the
        iterates are then averaged until the mean is accurate enough; those of other methods only for a while.
    damp : bool
        Whether a least-squares method supports `damp`.
    max_outlier_fraction : float
        The largest fraction of rows that may be outliers: those that x does not satisfy at the end are left out. 0 if
        the method uses every row.
    """

    least_squares: bool = False
    many_b: bool = False
    bounds: bool = False
    stored: bool = True
    in_chunks: bool = True
    in_given_order: bool = False
    averages: bool = False
    damp: bool = False
    max_outlier_fraction: float = 0.0


class Method(ABC):
    """Base class of methods, frozen dataclasses whose fields are the parameters. See `RowMethod` and `StepMethod`."""

    name: ClassVar[str]
    summary: ClassVar[str]
    citation: ClassVar[str]
    can: ClassVar[Capabilities] = Capabilities()

    def parameters(self) -> dict[str, Any]:
        """Return the parameters and their values."""
        by_place = sorted(fields(self), key=lambda field: bool(field.kw_only))  # type: ignore[arg-type]
        return {field.name: getattr(self, field.name) for field in by_place}


class StepMethod(Method):
    """A method that estimates its own error: each step reads what it needs and returns x with an error estimate."""

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

        `x0` has the shape (p,), or (n_rhs, p) if there are several right-hand sides. `probe`, if given, is a vector
        that resembles the error of `x0`: the projections that turned zero into `x0` turned a random vector into it.
        """


class RowMethod(Method):
    """A method that chooses rows to project on. Its state is in the plan; its error is estimated by the monitor."""

    plan_type: ClassVar[Any] = None  # of its plans, if `from_state` of that type needs no preparation

    def runs_in_chains(self, n_columns: int, entries_per_row: float, threads: int) -> bool:
        """Return whether the rows of such a system are distributed to the threads (see `Plan.n_chains`)."""
        return False

    def begin(self, system: System, rng: np.random.Generator) -> Any:
        """Return a `Plan` for `advance`."""
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
        """Return the plan of an earlier run from its saved state.

        If the state alone is not sufficient, the plan is prepared again and its state is then set.
        """
        if self.plan_type is not None:
            if not isinstance(state, dict):
                raise StateError("plan: expected a dictionary of attributes")
            return self.plan_type.from_state(self, system, state)
        plan = self.begin(system, np.random.default_rng(0))
        plan.restore(state)
        return plan

    @abstractmethod
    def prepare(self, system: System, rng: np.random.Generator) -> Any:
        """Read what is needed of A before the first step; return a `Plan`."""

    @abstractmethod
    def advance(
        self, plan: Any, iterates: np.ndarray, n_rows: int, rng: np.random.Generator, drops: np.ndarray
    ) -> np.ndarray:
        """Update `iterates` with about `n_rows` rows and fill `drops`; return the indices of the rows that were read.

        The last of `iterates` is a probe for ``A z = 0`` (see `rowsolve.estimate.monitor`); before it comes x, one for
        each right-hand side.
        """


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
