"""The error of a method whose steps are not projections, from the same steps on a probe."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np

from rowsolve._solution import Status
from rowsolve.checkpoint.state import Kind, array, fill, packed
from rowsolve.estimate.monitor import Monitor
from rowsolve.estimate.step import Step
from rowsolve.estimate.tolerance import Tolerance
from rowsolve.problem.system import System

__all__ = ["ProbedSteps"]


class ProbedSteps(ABC):
    """The steps of a `StepMethod` that are linear in the error, with an estimate of the error.

    A subclass defines `advance`. It takes the same step for ``A x = b`` from x and for ``A z = 0`` from a random vector
    z, the probe. The error of z is z itself, and both errors decrease alike. So ``norm(x - x*)`` is to the last change
    of x what ``norm(z)`` is to the last change of z. Directions in which the method is slow are in z from the
    beginning, so they are not missed.

    Parameters
    ----------
    system : System
    x0 : ndarray of shape (p,)
        The initial guess.
    tolerance : Tolerance
    rng : Generator
        Draws the probe.

    Attributes
    ----------
    x, probe : ndarray of shape (p,)
        Changed in place by `advance`, and kept in checkpoints. Other attributes are made anew by the constructor.
    """

    def __init__(self, system: System, x0: np.ndarray, tolerance: Tolerance, rng: np.random.Generator) -> None:
        self.system, self.x = system, x0.copy()
        self.probe = rng.standard_normal(x0.size)
        self.probe /= np.linalg.norm(self.probe)
        self._monitor = Monitor(tolerance, x0, self.probe, warm=bool(x0.any()))

    @abstractmethod
    def advance(self) -> None:
        """Take a step from `x` and from `probe`, and count the rows that were read."""

    def __iter__(self) -> ProbedSteps:
        return self

    def __next__(self) -> Step:
        x, probe, n_before = self.x.copy(), self.probe.copy(), self.system.counter.rows_read
        self.advance()
        moved, probe_moved = self.x - x, self.probe - probe
        squares = np.array([moved @ moved, probe_moved @ probe_moved])
        n_rows = self.system.counter.rows_read - n_before
        status = self._monitor.observe(n_rows, squares, self.x, self.probe, np.inf)
        ends = status in (Status.CONVERGED, Status.PRECISION)  # that an x still moves says nothing about the equations
        return Step(self.x.copy(), self._monitor.error, status if ends else None)

    saved: ClassVar[dict[str, Kind]] = {"x": array("p"), "probe": array("p")}

    def state(self) -> dict[str, Any]:
        """Return the state of the steps."""
        return {**{name: packed(getattr(self, name)) for name in self.saved}, "monitor": self._monitor.state()}

    def restore(self, state: Any) -> None:
        """Resume from a state."""
        fill(self, state, self.system.sizes, besides=("monitor",))
        self._monitor.restore(state["monitor"])
