"""The time that a solve takes, and its deadline."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rowsolve.checkpoint.state import check_keys, number
from rowsolve.policy.prices import ORTHOGONAL_PRODUCT

__all__ = ["Clock", "OutOfTime", "TooLong"]


class OutOfTime(Exception):
    """The deadline passed during the preparation."""


class TooLong(OutOfTime):
    """A computation that cannot be interrupted was not begun, because it would end after the deadline."""


class Clock:
    """The time since the start of a solve, not counting the compilation or loading of kernels, and its deadline."""

    def __init__(self, seconds: float = math.inf) -> None:
        self.started = time.perf_counter()
        self.deadline = self.started + seconds
        self.paused = 0.0

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.perf_counter() - self.started

    @property
    def left(self) -> float:
        """Seconds before the deadline."""
        return self.deadline - time.perf_counter()

    def pause(self, seconds: float) -> None:
        """Do not count the last `seconds`."""
        self.started += seconds
        self.deadline += seconds
        self.paused += seconds

    @contextmanager
    def without_deadline(self) -> Iterator[None]:
        """Have no deadline in this context; afterwards there is the same as before, moved by the pauses meanwhile."""
        deadline, paused, self.deadline = self.deadline, self.paused, math.inf
        try:
            yield
        finally:
            self.deadline = deadline + self.paused - paused

    def check(self) -> None:
        """Raise `OutOfTime` if the deadline has passed."""
        if self.left < 0.0:
            raise OutOfTime

    def has_time_for(self, products: float) -> bool:
        """Return whether so many multiplications by LAPACK, which cannot be interrupted, end before the deadline."""
        return 1e-9 * ORTHOGONAL_PRODUCT * products <= self.left

    def make_sure_of_time(self, products: float) -> None:
        """Raise `TooLong` if so many multiplications by LAPACK do not end before the deadline."""
        if not self.has_time_for(products):
            raise TooLong

    def state(self) -> dict[str, float]:
        """Return the time so far, and the time that was not counted."""
        return {"elapsed": self.elapsed, "paused": self.paused}

    def restore(self, state: Any) -> None:
        """Restore the time of an earlier run, with the pauses and the deadline of this one."""
        check_keys(state, ("elapsed", "paused"))
        self.started = time.perf_counter() - number(state["elapsed"], {})
        self.paused += number(state["paused"], {})
