"""The result of each step of a method that estimates its own error."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from rowsolve._solution import Status
from rowsolve.checkpoint.state import flag, integer, named, number, optional

__all__ = ["FINDINGS", "NOTHING_YET", "Findings", "Step"]


class Findings(NamedTuple):
    """Properties of A and x that a method has determined.

    Attributes
    ----------
    rank : int or None
        The rank of A, if it is known from a factorization.
    rank_is_clear : bool
        Whether the singular values that count for the rank are well above those that count as zero.
    optimality : float or None
        The deviation of x from optimality within its bounds (see `Solution`).
    unique : bool
        False if the least-squares solution within the bounds is known not to be unique.
    residual_norm : float
        ``norm(b - A x)`` at the least-squares solution; NaN if it is not known.
    """

    rank: int | None = None
    rank_is_clear: bool = True
    optimality: float | None = None
    unique: bool = True
    residual_norm: float = math.nan

    def updated(self, later: Findings) -> Findings:
        """Return these findings updated with `later` ones."""
        rank = self[:2] if later.rank is None else later[:2]
        bounds = self[2:4] if later.optimality is None else later[2:4]
        return Findings(*rank, *bounds, self[4] if math.isnan(later[4]) else later[4])


NOTHING_YET = Findings()
FINDINGS = named(
    Findings, rank=optional(integer(0, "p")), rank_is_clear=flag, optimality=optional(number), unique=flag,
    residual_norm=number,
)  # fmt: skip


class Step(NamedTuple):
    """The result of a step of a `StepMethod`.

    `error` is the estimated ``norm(x - x*)``, of each x if `x` has several. A `status` ends the run. `residual` is
    ``norm(b - A x)`` over all rows and right-hand sides, if it has just been computed.
    """

    x: np.ndarray
    error: float | np.ndarray
    status: Status | None = None
    residual: float | None = None
    findings: Findings = NOTHING_YET
