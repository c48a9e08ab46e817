"""What a method that judges itself tells after each step."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rowsolve._solution import Status

__all__ = ["Step"]


class Step(NamedTuple):
    """Where a `StepMethod` has got to.

    `error` is the estimated ``norm(x - x*)``, of each x if `x` holds several. A `status` ends the run. `residual` is
    ``norm(b - A x)`` over all rows and right-hand sides, if it has just been computed.
    """

    x: np.ndarray
    error: float | np.ndarray
    status: Status | None = None
    residual: float | None = None
