"""The probe of conjugate gradients: a random vector whose error is known."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from rowsolve.checkpoint.state import Kind, Sizes, fill, flag, listed, number, state_of, tuple_of
from rowsolve.estimate.estimator import ErrorEstimator
from rowsolve.lstsq.conjugate import Vectors
from rowsolve.lstsq.factor import Factor
from rowsolve.parallel.vectors import norm
from rowsolve.policy.thresholds import ALMOST_ALL, BY_ROUNDING, CHANCES, SHORTEST_PROBE, SPENT_PROBE
from rowsolve.problem.system import System

__all__ = ["Probe"]


class Probe:
    """What a random vector z shows while conjugate gradients decrease it.

    The ratio of its error, which is z itself, and of its gradient is the amplification (see `ErrorEstimator`). The
    largest ratio so far is used, since single ratios fluctuate, as the gradients do.

    If A has a null space, z keeps its component there, and the ratios keep growing. When the gradient of z and ``A z``
    are zero up to rounding, the remaining z is that component, and by Pythagoras' theorem the length of the rest of z
    is then known for each step.

    Attributes
    ----------
    exhausted : bool
        Whether a z was so short that it was dominated by rounding.
    null_sq : float
        The squared norm of the component in the null space; 0 as long as none is known.
    least_change : float
        A gradient below this is rounding: an updated one may become smaller than any recomputed one.
    shows_zero : bool
        Whether the gradient of z is zero, so that A is.
    """

    def __init__(self, system: System, estimator: ErrorEstimator, rng: np.random.Generator) -> None:
        self._system, self._estimator, self._rng = system, estimator, rng
        self._seen: list[tuple[float, float]] = []  # the squared norm of z, and that of its gradient, after each step
        self.exhausted = self.shows_zero = False
        self.null_sq = self.least_change = 0.0

    def drawn(self, factor: Factor | None) -> np.ndarray:
        """Return a random vector of unit norm, orthogonal to the null space if that is known."""
        probe = self._rng.standard_normal((1, self._system.n_columns))
        probe /= norm(probe[0])
        null = self._system.facts.null_vectors if factor is None else None
        if factor is not None:
            factor.project(probe)
        elif null is not None:  # the component of z in it gives no information and would remain
            probe -= (probe @ null) @ null.T
        return probe[0]

    def drawn_within(self, free: np.ndarray) -> np.ndarray:
        """Return a random vector of unit norm with `free` entries only; zero if there are none."""
        probe = np.where(free, self._rng.standard_normal(self._system.n_columns), 0.0)
        return probe / (norm(probe) or 1.0)

    def restart(self) -> None:
        """Forget what was seen, since the preconditioner changes."""
        self.exhausted, self.null_sq = False, 0.0

    def expect(self, least_change: float, *, shows_zero: bool = False) -> None:
        """Set the change that is rounding, and whether A is zero."""
        self.least_change, self.shows_zero = least_change, self.shows_zero or shows_zero

    def look(self, size: float, change: float) -> None:
        """Update the amplification with the norms of z and of its gradient."""
        if self.null_sq:
            return
        self.exhausted |= size < SPENT_PROBE
        if size < SHORTEST_PROBE:
            return
        change = max(change, self.least_change)
        self._seen.append((size**2, change))
        self._estimator.measure(size, change, least=self._estimator.amplification)

    def look_back(self, sizes_sq: np.ndarray, changes: np.ndarray, amplification: float) -> None:
        """Take over the norms of z and its gradients, and the amplification, from steps taken elsewhere."""
        self._estimator.record(amplification)
        if self.null_sq:
            return
        self.exhausted |= bool((sizes_sq < SPENT_PROBE**2).any())
        each = zip(sizes_sq.tolist(), changes.tolist(), strict=True)
        self._seen += [(size_sq, change) for size_sq, change in each if size_sq >= SHORTEST_PROBE**2]

    def find_null_space(self, size_sq: float) -> None:
        """Note that z, of this squared norm, is in the null space; correct the amplification."""
        self.null_sq = size_sq
        beside = [(total - size_sq, change) for total, change in self._seen if total - size_sq > BY_ROUNDING * size_sq]
        ratios = (math.sqrt(part) / change for part, change in beside if change > 0.0)
        self._estimator.record(max(ratios, default=0.0))

    def is_done(self, vectors: Vectors) -> bool:
        """Return whether the probe cannot improve the estimate any further."""
        return self.exhausted or bool(vectors.still[-1])

    @property
    def is_stuck(self) -> bool:
        """Whether the probe does not decrease although its gradient does: A is rank-deficient, or nearly so."""
        if self.null_sq or len(self._seen) < CHANCES:
            return False
        (before, change_before), (now, change) = self._seen[-CHANCES], self._seen[-1]
        return now > ALMOST_ALL**2 * before and change < ALMOST_ALL / 2 * change_before

    saved: ClassVar[dict[str, Kind]] = {
        "_seen": listed(tuple_of(number, number)),
        **dict.fromkeys(("exhausted", "shows_zero"), flag),
        **dict.fromkeys(("null_sq", "least_change"), number),
    }
    derived: ClassVar[tuple[str, ...]] = ("_system", "_estimator", "_rng")

    def state(self) -> dict[str, Any]:
        """Return what the probe has shown."""
        return state_of(self)

    def restore(self, state: Any, sizes: Sizes) -> None:
        """Restore what the probe has shown."""
        fill(self, state, sizes)
