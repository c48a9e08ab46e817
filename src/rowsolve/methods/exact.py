"""Solving with a factor of all rows, and again for what is left."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from rowsolve._solution import Status
from rowsolve._vectors import norms, products
from rowsolve.methods.base import Step
from rowsolve.methods.descent import Descent
from rowsolve.methods.sparse_factor import eliminated

if TYPE_CHECKING:
    from rowsolve._monitor import Tolerance
    from rowsolve._system import System
    from rowsolve.methods.factor import Factor

__all__ = ["ExactSteps"]

_SHRINKS = 0.1  # of the error that a step leaves, at most
_TRIES = 2  # steps that leave more, before others take over


class _Exact(Descent):
    """Newton's steps: ``x + (R'R)**-1 A'(b - A x)``, each from a gradient that is computed anew.

    What the factor makes of a gradient is how far x is from the solution. There is no need for a probe (it stays zero):
    the factor is known to have digits enough.
    """

    def __init__(self, system: System, x0: np.ndarray, factor: Factor) -> None:
        self.system, self.factor, self.under_way = system, factor, None
        self.at = np.vstack([x0, np.zeros(system.n_columns)])
        self.start()

    def start(self) -> None:
        """Compute the gradient at x, and what is left of the way."""
        gradients, self.squares = self._gradients(1.0, self.at)
        self._downhill = np.ascontiguousarray(gradients)
        self.residual_sq = self.squares[:-1]
        if self.system.damp:
            self.residual_sq = self.residual_sq + self.system.damp**2 * products(self.x, self.x)
        assert self.factor is not None
        self.factor.solve(self._downhill[:-1])
        self.error = norms(self._downhill[:-1])

    def step(self, wanted: np.ndarray | None = None) -> None:
        """Go there, with all x: it costs no more than with those `wanted`."""
        self.at += self._downhill
        self.start()


class ExactSteps:
    """Steps with a sparse factor of all rows, if they have one that is good; else those that `begin_others` returns."""

    def __init__(self, system: System, x0: np.ndarray, tolerance: Tolerance, begin_others: Callable[[], Any]) -> None:
        self.system, self.x0, self.tolerance, self._begin_others = system, x0, tolerance, begin_others
        self.descent: _Exact | None = None
        self.others: Any = None
        self.norms_x0, self.tries = norms(np.atleast_2d(x0)), 0

    def __iter__(self) -> Iterator[Step]:
        return self

    def __next__(self) -> Step:
        with np.errstate(all="ignore"):  # an x out of range is told by its error
            if self.others is not None:
                return next(self.others)
            if self.descent is None:
                factor = eliminated(self.system)
                if factor is None:
                    return self.leave_to_others()
                self.descent = _Exact(self.system, self.x0, factor)
            before = self.descent.error
            self.descent.step()
            self.tries += not (self.descent.error <= _SHRINKS * before).all()
            return self._judge(self.descent) if self.tries <= _TRIES else self.leave_to_others()

    def leave_to_others(self) -> Step:
        """Return their first step."""
        self.others = self._begin_others()
        return next(self.others)

    @property
    def can_be_saved(self) -> bool:
        """Whether a pass is under way that can be resumed."""
        return self.others is not None and self.others.can_be_saved

    def _judge(self, descent: _Exact) -> Step:
        """Say how far x is, and whether that is good: as asked, or as good as rounding lets it be."""
        rounding, allowed = descent.rounding(self.tolerance.eps), self.tolerance.at(norms(descent.x), self.norms_x0)
        error = np.maximum(descent.error, rounding)
        if not (descent.error <= np.maximum(allowed, rounding)).all():
            return Step(descent.x, error)
        assert descent.factor is not None
        self.system.rank = descent.factor.rank
        self.system.residual_norm = math.sqrt(float(descent.residual_sq.sum()))
        status = Status.CONVERGED if (error <= allowed).all() else Status.PRECISION
        return Step(descent.x, error, status, math.sqrt(float(descent.squares[:-1].sum())))
