"""What a contestant is to the race, and what it is told when it takes too long."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

__all__ = ["Contestant", "Deadline", "Finish", "TimeIsUp", "is_sparse"]

TIGHTEST = 1e-16  # no tolerance below it means anything in float64


class TimeIsUp(Exception):
    """Raised inside a contestant that has used up its time."""


class Deadline:
    """A time limit that begins now; call it now and then."""

    def __init__(self, seconds: float) -> None:
        self._end = time.perf_counter() + seconds

    def __call__(self, *_: Any) -> None:
        """Raise `TimeIsUp` if it is."""
        if time.perf_counter() > self._end:
            raise TimeIsUp


@dataclass(frozen=True, eq=False)
class Finish:
    """What a contestant gives back.

    Attributes
    ----------
    x : ndarray
    status : str
        How it ended in its own words. It is written down, not believed: x is judged by its true error.
    passes : float, optional
        How often A was read over, where that is known.
    outside : float
        Seconds spent on compiling, which the clock leaves out.
    """

    x: np.ndarray
    status: str
    passes: float | None = None
    outside: float = 0.0


class Contestant(ABC):
    """Someone who solves A x = b, more exactly with every setting.

    Attributes
    ----------
    name : str
    library : str
        The module that must be there.
    package : str
        What to install to get it.
    knob : str
        What a setting is: ``"tolerance"``, an amount of work such as ``"epochs"``, or empty if there is nothing to set.
    ours : bool
    """

    name: str
    library: ClassVar[str] = "scipy"
    package: ClassVar[str] = "scipy"
    knob: ClassVar[str] = "tolerance"
    ours: ClassVar[bool] = False

    def settings(self, A: Any, error: float) -> Iterator[float]:
        """Yield ever tighter settings: the asked error as a tolerance, then a tenth of it each time."""
        tolerance = error
        while tolerance >= TIGHTEST:
            yield tolerance
            tolerance /= 10.0

    @abstractmethod
    def run(self, A: Any, b: np.ndarray, setting: float, seconds: float) -> Finish:
        """Solve; raise `TimeIsUp` after `seconds` if that can be found out on the way."""

    def refusal(self, A: Any) -> str:
        """Say why it cannot take part on `A`; empty if it can."""
        return ""

    def expected_seconds(self, A: Any) -> float:
        """Predict the time of those that cannot be stopped on the way; 0 for the others."""
        return 0.0

    def expected_bytes(self, A: Any) -> float:
        """Predict the memory it takes besides A; 0 if that is little."""
        return 0.0


def is_sparse(A: Any) -> bool:
    """Tell whether `A` is a sparse matrix of scipy."""
    from scipy import sparse

    return bool(sparse.issparse(A))
