"""The error of x, estimated from that of a probe, and the error that the tolerance allows."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from rowsolve.checkpoint.state import Kind, Sizes, StateError, array, fill, flag, number, state_of
from rowsolve.estimate.tolerance import Tolerance
from rowsolve.parallel.vectors import norm, norms
from rowsolve.policy.thresholds import EPS, UNLUCKY

__all__ = ["ErrorEstimator"]


def _start(value: Any, sizes: Sizes) -> np.ndarray:
    """Accept an x, or one for each right-hand side."""
    return array("k", "p")(value, sizes) if np.ndim(value) == 2 else array("p")(value, sizes)


class ErrorEstimator:
    """The error of x, estimated from that of a probe, and the error that the tolerance allows.

    The probe is a random vector z on which a method acts as on x, but with zeros in place of b. Its solution is zero,
    so its error is z itself. Both errors are changed by the same linear steps, so

        norm(x - x*)  ~  change of x  *  norm(z) / change of z,

    where a change is the norm of a step, or of any other linear function of the error, such as a gradient. The
    last factor is the *amplification*.

    Parameters
    ----------
    tolerance : Tolerance
    x0 : ndarray of shape (p,) or (k, p)
        The initial x, or one for each right-hand side.
    warm : bool
        Whether x0 was given, rather than zero. Then its error need not resemble a random vector.

    Attributes
    ----------
    norm_x0 : float or ndarray of shape (k,)
    amplification : float
        The error of the probe divided by its change; 0 before the first measurement.
    """

    def __init__(self, tolerance: Tolerance, x0: np.ndarray, *, warm: bool = False) -> None:
        self.tolerance, self.warm, self.amplification = tolerance, warm, 0.0
        self.start_at(x0)

    def start_at(self, x0: np.ndarray) -> None:
        """Set the x that an unlucky start is measured from."""
        self.x0: np.ndarray = x0.copy()
        self.norm_x0: Any = norm(x0) if x0.ndim == 1 else norms(x0)

    @property
    def n_columns(self) -> int:
        """The number of entries of x."""
        return self.x0.shape[-1]

    @property
    def margin(self) -> float:
        """The factor below the tolerance at which a run stops if its estimate scatters around the error."""
        return 1.0 + 2.0 / math.sqrt(max(self.n_columns, 4))

    def allowed(self, norm_x: Any) -> Any:
        """Return the absolute error that the tolerance allows for an x of this norm."""
        return self.tolerance.at(norm_x, self.norm_x0)

    def is_good(self, error: Any, norm_x: Any) -> bool:
        """Return whether the error of each x is allowed."""
        return bool(np.all(error <= self.allowed(norm_x)))

    def floor(self, norm_x: Any, as_given: float) -> Any:
        """Return the error due to rounding, at least: that of x itself over about p steps, and that of A and b.

        `as_given` is the relative error of x due to the precision of A and b as given.
        """
        return norm_x * max(as_given, EPS * math.sqrt(self.n_columns))

    def measure(self, probe: float, change: float, least: float = 0.0) -> None:
        """Set the amplification from the norm of the probe and of its change; it is at least `least`."""
        self.amplification = max(least, probe / change if change > 0.0 else 0.0)

    def record(self, amplification: float) -> None:
        """Set an amplification that was computed otherwise."""
        self.amplification = amplification

    def of_change(self, change: Any) -> Any:
        """Return the error of an x with this change."""
        return change * self.amplification

    def moved_sq(self, x: np.ndarray) -> float:
        """Return the squared distance of a single x from its start."""
        moved = x - self.x0 if self.norm_x0 > 0.0 else x
        return float(moved @ moved)

    def of_unlucky_start(self, x: np.ndarray, probe_left: float) -> Any:
        """Return the error of x for the worst start, whose error is in the direction that has decreased least.

        About 1 / p of the squared norm of a random z is in that direction (in one case of forty, less than a thousandth
        of that). So if `probe_left` is the fraction of z that is left, the error is at most ``s = sqrt(1000 p) *
        probe_left`` times the error of the start, which in turn is at most the distance that x has moved plus the
        error.
        """
        share = math.sqrt(UNLUCKY * self.n_columns) * probe_left
        moved = x - self.x0
        return share / (1.0 - share) * (norm(moved) if x.ndim == 1 else norms(moved)) if share < 1.0 else math.inf

    saved: ClassVar[dict[str, Kind]] = {"x0": _start, "warm": flag, "amplification": number}
    derived: ClassVar[tuple[str, ...]] = ("tolerance", "norm_x0")

    def state(self) -> dict[str, Any]:
        """Return the state of the estimator."""
        return state_of(self)

    def restore(self, state: Any, sizes: Sizes) -> None:
        """Restore the state of the estimator."""
        shape = self.x0.shape
        fill(self, state, sizes)
        if self.x0.shape != shape:
            raise StateError(f"x0: expected an array of shape {shape}, got {self.x0.shape}")
        self.start_at(self.x0)
