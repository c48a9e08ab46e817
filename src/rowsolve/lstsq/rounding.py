"""The effect of rounding on conjugate gradients."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from rowsolve.checkpoint.state import Kind, Sizes, array, fill, flag, number, optional, state_of
from rowsolve.estimate.estimator import ErrorEstimator
from rowsolve.kernels.gradient import ROWS_OF_A_SUM
from rowsolve.lstsq.factor import Factor
from rowsolve.parallel.vectors import norms
from rowsolve.policy.thresholds import AS_GIVEN, EPS, LONG_SUM, ROUNDED, SUM
from rowsolve.problem.system import System

__all__ = ["Rounding", "of_numbers"]


def of_numbers(system: System, eps: float) -> float:
    """Return the relative error of x due to the precision `eps` of A and b, if A is well-conditioned."""
    return AS_GIVEN * eps * math.sqrt(system.n_columns / system.n_rows)


class Rounding:
    """The errors of gradients and of x due to rounding.

    Rounding errors of A x are amplified by ``A**+``, those of the sums in ``A'(b - A x)`` by ``(A'A)**-1``, and those
    of the numbers of a row, about a third of their precision each, like noise in b; all are random. The amplification
    is that of the `factor`, or the one that the probe has shown.

    Attributes
    ----------
    unit : float
        A scale of gradients that keeps their squares in the range of float64.
    top : float
        The largest curvature so far: a lower bound of the largest squared singular value.
    fresh : bool
        Whether the gradient was computed at the current x, rather than updated.
    drift : ndarray of shape (k,)
        The possible error of x due to rounding of a gradient that is only updated.
    """

    def __init__(self, system: System, factor: Factor | None, top: float) -> None:
        self._system, self._factor, self.top, self.unit, self.fresh = system, factor, top, 0.0, False
        self.drift = self._residual_sq_at_start = np.zeros(system.n_rhs)
        self._slope_at_start = np.zeros((system.n_rhs, system.n_columns))
        self._inherited: np.ndarray | None = None

    def use(self, factor: Factor | None) -> None:
        """Use the amplification of a factor."""
        self._factor = factor

    def choose_unit(self, largest: float) -> None:
        """Choose the unit, given the largest entry of a gradient, unless it is chosen."""
        self.unit = self.unit or 1.0 / (largest or 1.0)

    def see_curvature(self, curvature: float) -> None:
        """Take account of the squared norm of A v of a unit vector v."""
        self.top = max(self.top, curvature)

    def start_at(self, slope: np.ndarray, residual_sq: np.ndarray, amplification: float) -> None:
        """Note a gradient that was just computed; further ones are updated from it."""
        most = self._factor.inverse_norm if self._factor is not None else math.sqrt(self.unit * amplification)
        self.fresh, self.drift = True, LONG_SUM * EPS * norms(most * slope) * most
        self._slope_at_start, self._residual_sq_at_start, self._inherited = slope.copy(), residual_sq, None

    def update(self, steps: np.ndarray | None = None) -> None:
        """Note that gradients were updated; `steps` far longer than x leave rounding errors in them."""
        self.fresh = False
        if steps is not None:
            self.drift = np.maximum(self.drift, self._of_products(steps))

    def of_gradients(self, residual_sq: np.ndarray, at: np.ndarray) -> np.ndarray:
        """Return the size of the random rounding errors of the sums in ``A'r`` and of r itself.

        It is multiplied by `unit`, without which squares may be out of the range of float64.
        """
        share = min(1.0, self._system.n_columns / self._system.n_rows)
        lost = LONG_SUM * EPS * (self.unit * math.sqrt(self.top * share))
        return lost * (np.sqrt(residual_sq) + math.sqrt(self.top) * norms(at))

    @property
    def null_limit(self) -> float:
        """The largest ``norm(A z)**2`` of a unit vector z that counts as a null vector, as for a rank in numpy."""
        return float((max(ROUNDED, self._system.n_rows, self._system.n_columns) * EPS) ** 2 * self.top)

    def of_x(
        self, eps: float, x: np.ndarray, residual_sq: np.ndarray, estimator: ErrorEstimator, *, probe_is_done: bool
    ) -> np.ndarray:
        """Return the error of each x due to rounding; `eps` is the relative precision of A and b as given."""
        n, norms_x = self._system.n_rows, norms(x)
        if self._factor is not None:
            lengths = self._factor.lengths
            as_given = AS_GIVEN * eps / math.sqrt(n) * self._factor.inverse_norm * norms(lengths * x)
            of_start = self._of_products(estimator.x0) if self._factor.deficient else 0.0  # stays in the null space
            return np.maximum(as_given, self._of_products(x) + self._of_sums(residual_sq) + of_start)
        known = estimator.floor(norms_x, of_numbers(self._system, eps))
        if not probe_is_done:
            return known
        condition_sq, p = self.top * self.unit * estimator.amplification, self._system.n_columns
        too_large = np.maximum(estimator.norm_x0 - norms_x, 0.0)  # its rounding errors may remain in the null space
        known = np.maximum(known, EPS * math.sqrt(p) * condition_sq * too_large)
        of_sums = condition_sq * np.sqrt(residual_sq / (self.top or 1.0))
        of_products = min(math.sqrt(p), 8.0) * math.sqrt(condition_sq) * norms_x
        return np.maximum(known, EPS * (of_products / math.sqrt(n) + _of_a_sum(n) * of_sums))

    @property
    def inherited(self) -> np.ndarray:
        """The possible error of each x due to rounding of the last recomputed gradient, if that was at another x."""
        if self._factor is None or self.fresh:
            return np.zeros(self._system.n_rhs)
        if self._inherited is None:
            slopes = np.abs(self._slope_at_start)
            shares = slopes.max(axis=1) / (slopes.max() or 1.0)
            worst = (slopes / np.where(shares > 0.0, shares, 1.0)[:, None]).max(axis=0)  # of all x
            of_long_sums = SUM * EPS * shares * self._factor.spread_sums(worst)
            self._inherited = self._of_sums(self._residual_sq_at_start) + of_long_sums
        return self._inherited

    def _of_sums(self, residual_sq: np.ndarray) -> np.ndarray:
        """Return the error of x due to rounding of the sums in ``A'r``."""
        assert self._factor is not None
        return EPS * self._factor.harm * _of_a_sum(self._system.n_rows) * np.sqrt(residual_sq)

    def _of_products(self, vectors: np.ndarray) -> np.ndarray:
        """Return the error of x due to rounding of A v, for some v: of each term, and of their sum."""
        assert self._factor is not None
        terms = min(math.sqrt(self._system.n_columns), 8.0) * norms(self._factor.lengths * vectors)
        return EPS / math.sqrt(self._system.n_rows) * self._factor.inverse_norm * terms

    saved: ClassVar[dict[str, Kind]] = {
        **dict.fromkeys(("unit", "top"), number),
        **dict.fromkeys(("drift", "_residual_sq_at_start"), array("k")),
        "fresh": flag,
        "_slope_at_start": array("k", "p"),
        "_inherited": optional(array("k")),
    }
    derived: ClassVar[tuple[str, ...]] = ("_system", "_factor")

    def state(self) -> dict[str, Any]:
        """Return the state for a checkpoint."""
        return state_of(self)

    def restore(self, state: Any, sizes: Sizes) -> None:
        """Restore a state."""
        fill(self, state, sizes)


def _of_a_sum(n_rows: int) -> float:
    """Return the rounding error of a sum over rows, in eps times the norms of the factors.

    It is ``1 / sqrt(n)`` if the sum is rounded once, and more because numbers are added to sums of `ROWS_OF_A_SUM`
    rows, and these to longer ones; twice the typical error is returned, since it may be in the worst direction.
    """
    return min(1.0, math.sqrt(16.0 / n_rows + 0.25 / ROWS_OF_A_SUM))
