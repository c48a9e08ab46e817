"""Solve a sample of the equations exactly, and look whether the others agree."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rowsolve._solution import Status
from rowsolve.methods.base import Step, StepMethod
from rowsolve.methods.descent import Descent
from rowsolve.methods.factor import factor_of

__all__ = ["Direct"]

_POLISHING = 3  # steps at most; each gains as many digits as the factor has
_SPARE, _SPARE_SHARE = 32, 0.2  # rows beyond p, which tell the noise


@dataclass(frozen=True)
class Direct(StepMethod):
    """Solve some ``1.2 p`` random equations by a factorization; what is left of them tells the noise.

    For consistent equations and up to a few thousand columns nothing is faster, whatever the condition of A: the other
    rows are never read, but for a check. If the sample does not tell all directions apart, it is doubled until it
    does or until it is everything. The error of x is estimated from the rows beyond p: they miss x by some noise,
    if only of rounding, which ``R**-1`` spreads to x.
    """

    name: ClassVar[str] = "direct"
    summary: ClassVar[str] = "solve a random sample of the equations exactly; for consistent equations"
    citation: ClassVar[str] = "RKA-Block of the paper with one block of more than p rows"

    def steps(self, system, x0, tolerance, rng):
        """Yield once."""
        with np.errstate(all="ignore"):  # an x out of range is told by its error
            yield self._step(system, x0, tolerance, rng)

    def _step(self, system, x0, tolerance, rng) -> Step:
        n, p = system.n_rows, system.n_columns
        n_sample = min(n, p + math.ceil(_SPARE_SHARE * p) + _SPARE)
        while True:
            order = np.sort(system.sample(n_sample, rng)[0])
            sample = system.part(order)
            if sample is None:
                system.rank = 0
                return Step(x0, 0.0)
            factor = factor_of(sample, np.arange(sample.n_rows))
            if not factor.deficient or n_sample == n:
                break
            n_sample = min(n, 2 * n_sample)
        system.rank = factor.rank
        return self._solve(sample, factor, x0, tolerance, rng)

    def _solve(self, sample, factor, x0, tolerance, rng) -> Step:
        descent = Descent(sample, x0, rng, factor)
        for turn in range(_POLISHING):
            if turn and descent.error <= descent.rounding():
                break
            descent.step()
            descent.start()  # the sample is in memory: a fresh gradient costs little and forgets no digits
        x, spare = descent.x, sample.n_rows - factor.rank
        floor = max(descent.rounding(), tolerance.eps * float(np.linalg.norm(x)))
        noise = math.sqrt(descent.residual_sq / spare) if spare > 0 else 0.0
        error = max(noise * factor.spread, descent.error, floor)
        if error <= tolerance.at(float(np.linalg.norm(x)), float(np.linalg.norm(x0))):
            return Step(x, error)
        return Step(x, error, Status.PRECISION if error < 10.0 * floor else Status.INCONSISTENT)
