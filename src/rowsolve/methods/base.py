"""The contract of a method: frozen parameters, a plan made once, then bursts of rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import fields
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

if TYPE_CHECKING:
    from rowsolve._system import System

__all__ = ["Method", "Plan"]


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
    """

    def __init__(
        self, system: System, work_per_row: float = 0.0, rows_per_step: int = 1, price_of_row: float = 1.0
    ) -> None:
        self.system = system
        self.work_per_row = max(work_per_row, system.entries_per_row)
        self.rows_per_step = rows_per_step
        self.price_of_row = price_of_row


class Method(ABC):
    """A way to choose rows. Parameters are the fields of a frozen dataclass; state lives in the plan."""

    name: ClassVar[str]
    summary: ClassVar[str]
    citation: ClassVar[str]
    least_squares: ClassVar[bool] = False  # whether it converges when the equations contradict each other
    in_given_order: ClassVar[bool] = False  # the first rows taken need not be like the rest

    @abstractmethod
    def prepare(self, system: System, rng: np.random.Generator) -> Any:
        """Read what must be read of A before the first step; return a `Plan`."""

    @abstractmethod
    def advance(
        self, plan: Any, iterates: np.ndarray, n_rows: int, rng: np.random.Generator, drops: np.ndarray
    ) -> np.ndarray:
        """Move `iterates` with about `n_rows` rows, fill `drops`; return the rows that were read.

        ``iterates[0]`` is x; the others are probes for ``A z = 0`` (see `rowsolve._monitor`).
        """

    def parameters(self) -> dict[str, Any]:
        """Return the parameters and their values."""
        return {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]


def positive_integer(name: str, value: Any, least: int = 1) -> None:
    """Raise unless `value` is an integer of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ValueError(f"`{name}` must be an integer of at least {least}, got {value!r}.")


def one_of(name: str, value: Any, choices: tuple[str, ...]) -> None:
    """Raise unless `value` is one of `choices`."""
    if value not in choices:
        raise ValueError(f"`{name}` must be one of {', '.join(map(repr, choices))}, got {value!r}.")
