"""The error of a method whose steps are not projections, from the same steps on a probe."""

from __future__ import annotations

import numpy as np

from rowsolve._solution import Status
from rowsolve.estimate.monitor import Monitor
from rowsolve.estimate.step import Step
from rowsolve.estimate.tolerance import Tolerance

__all__ = ["ProbedSteps"]


class ProbedSteps:
    """An estimate of the error of x for a `StepMethod` that also applies its steps to a random vector, the probe.

    The method solves ``A x = b`` and at the same time ``A z = 0`` from the probe z, whose error is z itself. Steps that
    are linear in the error have the same effect on both, so the ratio of ``norm(x - x*)`` to the last change of x is
    about that of ``norm(z)`` to the last change of z. z has components in the directions in which convergence is slow,
    so these are taken into account.

    Parameters
    ----------
    x0 : ndarray of shape (p,)
        The initial x.
    tolerance : Tolerance
    rng : Generator
        The generator of the probe.

    Attributes
    ----------
    probe : ndarray of shape (p,)
        Of unit norm; the method changes it in place.
    """

    def __init__(self, x0: np.ndarray, tolerance: Tolerance, rng: np.random.Generator) -> None:
        self.probe = rng.standard_normal(x0.size)
        self.probe /= np.linalg.norm(self.probe)
        self._monitor = Monitor(tolerance, x0, self.probe, warm=bool(x0.any()))
        self._before = x0.copy(), self.probe.copy()

    def step(self, x: np.ndarray, n_rows: int) -> Step:
        """Return the step to `x`, for which `n_rows` were read, with a status if the method is to stop."""
        now = x.copy(), self.probe.copy()
        moved, probe_moved = (new - old for new, old in zip(now, self._before, strict=True))
        self._before = now
        squares = np.array([moved @ moved, probe_moved @ probe_moved])
        status = self._monitor.observe(n_rows, squares, x, self.probe, np.inf)
        ends = status in (Status.CONVERGED, Status.PRECISION)  # an x that still moves need not mean inconsistency
        return Step(now[0], self._monitor.error, status if ends else None)
