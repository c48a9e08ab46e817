"""The base class of the figures of the paper: each produces the lines of a table, seed by seed, and a plot of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, ClassVar

import numpy as np

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

__all__ = ["TEXT_COLUMNS", "Columns", "Figure", "Line", "only"]

Line = tuple[str | float, ...]
Columns = dict[str, np.ndarray]
TEXT_COLUMNS = {"settings", "clusters", "noise_on", "method"}  # all others hold numbers


@dataclass(frozen=True)
class Figure(ABC):
    """The parameters of a figure. They are stored in its table, so that results of different runs are never mixed."""

    size: str  # "quick" or "full"
    n_rows: int
    n_columns: int
    n_seeds: int
    n_clusters: int = 4

    name: ClassVar[str]
    columns: ClassVar[tuple[str, ...]]  # of the table, after the settings and the seed

    @property
    def settings(self) -> str:
        """All parameters, except the number of seeds, which may be increased, as one cell of the table."""
        values = ((field.name, getattr(self, field.name)) for field in fields(self) if field.name != "n_seeds")
        return " ".join(f"{name}={_in_a_cell(value)}" for name, value in values)

    @property
    @abstractmethod
    def n_steps(self) -> int:
        """The number of steps per seed."""

    @abstractmethod
    def steps(self, seed: int) -> Iterator[tuple[str, list[Line]]]:
        """Yield a description and the lines of the table for each step."""

    @abstractmethod
    def draw(self, table: Columns) -> Picture:
        """Return the plot of a table with the lines of all seeds."""


def only(table: Columns, **wanted: str | float) -> Columns:
    """Return the lines of `table` whose columns have the given values."""
    mask = np.ones(len(table["seed"]), dtype=bool)
    for name, value in wanted.items():
        mask &= table[name] == value
    return {name: values[mask] for name, values in table.items()}


def _in_a_cell(value: object) -> str:
    return "|".join(f"{one:g}" for one in value) if isinstance(value, tuple) else str(value)
