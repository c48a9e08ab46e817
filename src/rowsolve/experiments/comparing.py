"""The comparison of a method and its clustered version, seed by seed, from the tables of figures 1 and 2."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rowsolve.experiments.figure import Columns, only
from rowsolve.experiments.tracing import floor_of

__all__ = ["Pair", "after", "at_the_end", "by_seed", "needed"]


class Pair(NamedTuple):
    """One number per seed, for the method and for its clustered version on the same systems."""

    plain: np.ndarray
    clustered: np.ndarray

    @property
    def ratios(self) -> np.ndarray:
        """The ratio of the clustered version to the method, per seed: below 1 the clustered version is better."""
        return self.clustered / self.plain


def by_seed(lines: Columns, **wanted: str | float) -> list[Columns]:
    """Return the lines with the given values, one table per seed."""
    found = only(lines, **wanted)
    return [only(found, seed=seed) for seed in np.unique(found["seed"])]


def after(lines: Columns, names: tuple[str, str], n_steps: int, quantity: str) -> Pair:
    """Return `quantity` after `n_steps` steps: the median over several runs on the same system."""
    first = {name: values[lines["n_draws"] > 1] for name, values in lines.items()}
    found = (by_seed(first, method=name, n_steps=n_steps) for name in names)
    return Pair(*(np.array([one[quantity][0] for one in half]) for half in found))


def at_the_end(lines: Columns, names: tuple[str, str], quantity: str) -> Pair:
    """Return the median of `quantity` over the last third of the rows read."""
    runs = (by_seed(lines, method=name, n_draws=1) for name in names)
    return Pair(*(np.array([floor_of(one["rows_read"], one[quantity]) for one in half]) for half in runs))


def needed(lines: Columns, names: tuple[str, str], axis: str, quantity: str, goal: float) -> tuple[Pair, float]:
    """Return the value of `axis` at which `quantity` has decreased to a common level, and the median of that level.

    The level is `goal` or, for a seed for which one of the two did not reach it, the lowest that both reached.
    """
    plain, clustered = (by_seed(lines, method=name, n_draws=1) for name in names)
    levels = [
        max(goal, one[quantity].min(), other[quantity].min()) for one, other in zip(plain, clustered, strict=True)
    ]
    counts = [
        np.array([_when(one, axis, quantity, level) for one, level in zip(half, levels, strict=True)])
        for half in (plain, clustered)
    ]
    return Pair(*counts), float(np.median(levels))


def _when(one: Columns, axis: str, quantity: str, level: float) -> float:
    """Return the value of `axis` at which a run first reached `level`, by interpolation in the logarithm."""
    last = int(np.argmax(one[quantity] <= level))
    two = slice(max(0, last - 1), last + 1)
    return float(np.interp(-np.log(level), -np.log(one[quantity][two]), one[axis][two]))
