"""The error of a method whose steps are not projections, from the same steps on a probe."""

from __future__ import annotations

import numpy as np

from rowsolve._solution import Status
from rowsolve.estimate.monitor import Monitor
from rowsolve.estimate.step import Step
from rowsolve.estimate.tolerance import Tolerance

__all__ = ["ProbedSteps"]


class ProbedSteps:
    """Estimates the error of x for a `StepMethod` that also takes its steps from a random vector, the probe.

    The method solves ``A x = b`` and, next to it, ``A z = 0`` from the probe z, whose error is known: it is z itself.
    Steps that are linear in the error shrink both alike, so ``norm(x - x*)`` is to the last change of x what
    ``norm(z)`` is to that of z. Directions in which the method is slow are in z from the beginning, so they are not
    overlooked.

    Parameters
    ----------
    x0 : ndarray of shape (p,)
        Where the method starts.
    tolerance : Tolerance
    rng : Generator
        Draws the probe.

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
        """Return the step that led to `x`, for which `n_rows` were read; its status tells when to stop."""
        now = x.copy(), self.probe.copy()
        moved, probe_moved = (new - old for new, old in zip(now, self._before, strict=True))
        self._before = now
        squares = np.array([moved @ moved, probe_moved @ probe_moved])
        status = self._monitor.observe(n_rows, squares, x, self.probe, np.inf)
        ends = status in (Status.CONVERGED, Status.PRECISION)  # that an x still moves says nothing about the equations
        return Step(now[0], self._monitor.error, status if ends else None)
