"""What changes from step to step of conjugate gradients: vectors and scalars, and the residual."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from rowsolve.checkpoint.state import array, named
from rowsolve.parallel.vectors import norm, norms
from rowsolve.policy.thresholds import EPS, NEGLIGIBLE, ROUNDED, SHORTEST_PROBE

__all__ = ["RESIDUAL", "VECTORS", "Residual", "Vectors"]


class Vectors(NamedTuple):
    """The x of each right-hand side and, as the last vector, the probe; with their gradients and directions.

    Attributes
    ----------
    at : ndarray of shape (k + 1, p)
    slope : ndarray of shape (k + 1, p)
        The negative gradients.
    downhill : ndarray of shape (k + 1, p)
        The same, preconditioned.
    direction : ndarray of shape (k + 1, p)
        The directions of the next steps.
    worth : ndarray of shape (k + 1,)
        The inner products of a gradient and its direction.
    still : ndarray of shape (k + 1,)
        Which had a recomputed gradient of zero up to rounding; these do not move any more.
    last_step : ndarray of shape (k,)
        The length of the last step of each x.
    error : ndarray of shape (k,)
        Estimated ``norm(x - x*)``.
    """

    at: np.ndarray
    slope: np.ndarray
    downhill: np.ndarray
    direction: np.ndarray
    worth: np.ndarray
    still: np.ndarray
    last_step: np.ndarray
    error: np.ndarray

    @classmethod
    def of(cls, x: np.ndarray, probe: np.ndarray | None) -> Vectors:
        """Return the vectors at the start; their gradients are not known yet."""
        at = np.vstack([x, np.zeros(x.shape[1]) if probe is None else probe])
        slope, downhill, direction = np.zeros((3, *at.shape))
        still, unknown = np.zeros(len(at), dtype=bool), np.full(len(x), math.inf)
        return cls(at, slope, downhill, direction, np.zeros(len(at)), still, unknown, unknown.copy())

    @property
    def x(self) -> np.ndarray:
        """The current x of each right-hand side, one in each row."""
        return self.at[:-1]

    @property
    def steepness(self) -> np.ndarray:
        """The length of the preconditioned gradient of each x."""
        return norms(self.downhill[:-1])

    def moving(self, wanted: np.ndarray | None) -> Any:
        """Return which vectors a step moves: all, or, of several x, those `wanted`, and the probe unless it is done."""
        if wanted is None or len(self.at) == 2:
            return slice(None)
        return np.append(wanted, norm(self.at[-1]) > SHORTEST_PROBE)


class Residual(NamedTuple):
    """``norm(b - A x)**2 + damp**2 norm(x)**2`` of each x, updated from step to step by subtraction.

    Attributes
    ----------
    sq, uncertainty_sq : ndarray of shape (k,)
        The value, and what rounding may have added to it.
    """

    sq: np.ndarray
    uncertainty_sq: np.ndarray

    @classmethod
    def computed(cls, sq: np.ndarray) -> Residual:
        """Return a residual that has just been computed."""
        return cls(sq, ROUNDED * EPS * sq)

    def lowered(self, by: np.ndarray, moved: Any = slice(None)) -> Residual:
        """Return the residual after a step of the x that `moved`."""
        sq = self.sq.copy()
        sq[moved] -= by
        return self._replace(sq=np.maximum(sq, 0.0, out=sq))

    @property
    def certain_norm(self) -> float:
        """The norm over all x of the part that cannot be rounding."""
        return math.sqrt(float(np.maximum(self.sq - self.uncertainty_sq, 0.0).sum()))

    def norm(self, damped_sq: np.ndarray) -> float | None:
        """Return ``norm(b - A x)`` over all x, given ``damp**2 norm(x)**2``; None if it has lost too many digits."""
        found = self.sq - damped_sq
        clear = NEGLIGIBLE**2 * found.sum() > self.uncertainty_sq.sum()
        return math.sqrt(float(found.sum())) if clear else None


# The expected entries of a saved state (see `rowsolve.checkpoint.state`).
VECTORS = named(
    Vectors, slope=array("v", "p", order="many"), worth=array("v"), still=array("v", dtype=bool),
    **dict.fromkeys(("at", "downhill", "direction"), array("v", "p")),
    **dict.fromkeys(("last_step", "error"), array("k")),
)  # fmt: skip
RESIDUAL = named(Residual, sq=array("k"), uncertainty_sq=array("k"))
