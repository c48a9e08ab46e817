"""The time that a solve takes, and may take."""

from __future__ import annotations

import math
import time
from typing import Any

from rowsolve.checkpoint.state import check_keys, number

__all__ = ["Clock", "OutOfTime", "TooLong"]

_PRODUCTS_A_SECOND = 8e9  # multiplications of matrices by BLAS on one core, or on two that are busy


class OutOfTime(Exception):
    """The deadline passed during the preparation."""


class TooLong(OutOfTime):
    """Something that cannot be interrupted would take longer than there is time: it was not begun."""


class Clock:
    """When a solve began and when it must end; it stands still while kernels are compiled or loaded."""

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

    def check(self) -> None:
        """Raise `OutOfTime` if the deadline has passed."""
        if self.left < 0.0:
            raise OutOfTime

    def has_time_for(self, products: float) -> bool:
        """Tell whether so many multiplications by LAPACK, which cannot be interrupted, end before the deadline."""
        return products <= _PRODUCTS_A_SECOND * self.left

    def make_sure_of_time(self, products: float) -> None:
        """Raise `TooLong` if they do not."""
        if not self.has_time_for(products):
            raise TooLong

    def state(self) -> dict[str, float]:
        """Return how long it has run, and what was not counted."""
        return {"elapsed": self.elapsed, "paused": self.paused}

    def restore(self, state: Any) -> None:
        """Go on from there: with the pauses of now, and until the deadline of now."""
        check_keys(state, ("elapsed", "paused"))
        self.started = time.perf_counter() - number(state["elapsed"], {})
        self.paused += number(state["paused"], {})
