"""The mean of an x that keeps moving, and its error."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from rowsolve.checkpoint.state import Kind, StateError, array, fill, integer, state_of
from rowsolve.policy.thresholds import FEWEST_IN_MEAN

__all__ = ["Tail"]


class Tail:
    """The mean of successive x, from their sums in 8 to 16 batches of equal length."""

    def __init__(self, n_columns: int) -> None:
        self._sums = np.zeros((2 * FEWEST_IN_MEAN, n_columns))
        self._full, self._inside, self._length = 0, 0, 1
        self.count = 0

    def add(self, x: np.ndarray) -> None:
        """Add an x."""
        self._sums[self._full] += x
        self.count += 1
        self._inside += 1
        if self._inside == self._length:
            self._full, self._inside = self._full + 1, 0
        if self._full == 2 * FEWEST_IN_MEAN:
            self._sums[:FEWEST_IN_MEAN] = self._sums[::2] + self._sums[1::2]
            self._sums[FEWEST_IN_MEAN:] = 0.0
            self._full, self._length = FEWEST_IN_MEAN, 2 * self._length

    @property
    def mean(self) -> np.ndarray:
        """The mean of all x."""
        return self._sums.sum(axis=0) / self.count

    @property
    def error(self) -> float:
        """The estimated error of the mean; NaN if there are fewer than two batches.

        It is the larger of two estimates: the standard error from the scatter of the batches, which are enough to make
        it reliable for few columns too, and half the distance between the means of the two halves, which is too small
        only if x is correlated over the whole tail.
        """
        if self._full < 2:
            return math.nan
        means = self._sums[: self._full] / self._length
        scatter = float(np.linalg.norm(means - means.mean(axis=0))) / math.sqrt(self._full * (self._full - 1))
        half = self._full // 2
        halves = means[-half:].mean(axis=0) - means[:half].mean(axis=0)
        return max(scatter, 0.5 * float(np.linalg.norm(halves)))

    saved: ClassVar[dict[str, Kind]] = {
        "_sums": array(2 * FEWEST_IN_MEAN, "p"),
        "_full": integer(0, 2 * FEWEST_IN_MEAN - 1),
        "_inside": integer(),
        "_length": integer(1),
        "count": integer(),
    }
    derived: ClassVar[tuple[str, ...]] = ()

    def state(self) -> dict[str, Any]:
        """Return the sums."""
        return state_of(self)

    @classmethod
    def from_state(cls, state: Any, n_columns: int) -> Tail:
        """Return the tail with these sums."""
        tail = cls(n_columns)
        fill(tail, state, {"p": n_columns})
        if tail.count != tail._full * tail._length + tail._inside or tail._inside >= tail._length:
            raise StateError("count: expected the number of summed iterates")
        return tail
