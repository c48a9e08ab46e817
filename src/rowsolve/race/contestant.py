"""The base class of the contestants, and their time limit."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from rowsolve.policy.thresholds import EPS

__all__ = ["Contestant", "Deadline", "Finish", "TimeIsUp", "is_sparse"]


class TimeIsUp(Exception):
    """Raised in a contestant whose time is up."""


class Deadline:
    """A time limit that starts now; call it regularly."""

    def __init__(self, seconds: float) -> None:
        self._end = time.perf_counter() + seconds

    def __call__(self, *_: Any) -> None:
        """Raise `TimeIsUp` if the time is up."""
        if time.perf_counter() > self._end:
            raise TimeIsUp


@dataclass(frozen=True, eq=False)
class Finish:
    """The result of a contestant.

    Attributes
    ----------
    x : ndarray
    status : str
        Its own description of how it ended. It is recorded, but x is judged by its true error.
    passes : float, optional
        The number of passes over A, if known.
    outside : float
        Compile time in seconds, which is not counted.
    """

    x: np.ndarray
    status: str
    passes: float | None = None
    outside: float = 0.0


class Contestant(ABC):
    """A solver of A x = b, with a setting that determines its accuracy.

    Attributes
    ----------
    name : str
    library : str
        The module that it needs.
    package : str
        The package to install.
    knob : str
        The name of the setting: ``"tolerance"``, an amount of work such as ``"epochs"``, or empty if there is none.
    ours : bool
        Whether it is part of rowsolve.
    """

    name: str
    library: ClassVar[str] = "scipy"
    package: ClassVar[str] = "scipy"
    knob: ClassVar[str] = "tolerance"
    ours: ClassVar[bool] = False

    def settings(self, A: Any, error: float) -> Iterator[float]:
        """Yield increasingly tight settings: the required error as a tolerance, then a tenth of it, and so on."""
        tolerance = error
        while tolerance >= EPS:  # a smaller one means nothing
            yield tolerance
            tolerance /= 10.0

    @abstractmethod
    def run(self, A: Any, b: np.ndarray, setting: float, seconds: float) -> Finish:
        """Solve the system; raise `TimeIsUp` after `seconds` if the solver can be interrupted."""

    def refusal(self, A: Any) -> str:
        """Return the reason why it cannot solve a system with `A`; empty if it can."""
        return ""

    def expected_seconds(self, A: Any) -> float:
        """Return the predicted time of a solver that cannot be interrupted; 0 for the others."""
        return 0.0

    def expected_bytes(self, A: Any) -> float:
        """Return the predicted memory in addition to A; 0 if that is little."""
        return 0.0


def is_sparse(A: Any) -> bool:
    """Return whether `A` is a scipy sparse matrix or array."""
    from scipy import sparse

    return bool(sparse.issparse(A))
