"""Conjugate gradients for least squares, with one pass over A for each step and a probe for the error estimate."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from rowsolve.checkpoint.state import Kind, fill, optional, packed, state_of
from rowsolve.estimate.estimator import ErrorEstimator
from rowsolve.kernels.descent import Limits, Scalar
from rowsolve.lstsq.conjugate import RESIDUAL, VECTORS, Residual, Vectors
from rowsolve.lstsq.factor import Factor, find_odd_rows
from rowsolve.lstsq.passes import Passes, make_sure_finite
from rowsolve.lstsq.probe import Probe
from rowsolve.lstsq.rounding import Rounding
from rowsolve.lstsq.spectrum import OUTLIERS, Outliers
from rowsolve.lstsq.steps import steps_at_once, take_steps
from rowsolve.parallel.vectors import norm, norms, products
from rowsolve.policy.thresholds import (
    EPS,
    LONG_SUM,
    NEGLIGIBLE,
    ORDER_OF_MAGNITUDE,
    ROUNDED,
    SHORTEST_PROBE,
    SPENT_PROBE,
)
from rowsolve.problem.system import System

__all__ = ["Descent"]

_TINY = float(np.finfo(float).tiny)
_PARTS = ("estimator", "passes", "probe", "rounding", "factor", "outliers")


class Descent:
    """Conjugate gradients on ``(A'A + damp**2) x = A'b``, preconditioned by a `Factor`, by `Outliers` or not (CGLS).

    In addition to x, a random probe z converges to a solution of ``A'A z = 0`` with its own steps. Its error is z
    itself, which gives the ratio of error and gradient: with ``w = M**-1 (A'(b - A x))``, and v the same for z,

        norm(x - x*)  ~  norm(w) * norm(z) / norm(v).

    The estimate takes account of directions with small singular values, because z has a component in each of them.
    (With the step lengths of x, z would grow in directions in which x has no error at all, for instance if x and A are
    symmetric.) Several right-hand sides share the passes. `start` must be called before anything else.

    Parameters
    ----------
    system : System
    estimator : ErrorEstimator
        It has the initial x of each right-hand side, in an array with two axes.
    rng : Generator
    factor : Factor, optional
    outliers : Outliers, optional
    probe : ndarray of shape (p,), optional
        The initial z, if the error of x0 resembles it: x0 was computed from zero, and `probe` from a random vector,
        by the same projections. By default a random vector.

    Attributes
    ----------
    vectors : Vectors
        x, z, and their gradients and directions.
    residual : Residual
    passes : Passes
    probe : Probe
        What z has shown.
    rounding : Rounding
    """

    def __init__(
        self,
        system: System,
        estimator: ErrorEstimator,
        rng: np.random.Generator,
        factor: Factor | None = None,
        outliers: Outliers | None = None,
        probe: np.ndarray | None = None,
    ) -> None:
        self.system, self.estimator, self.factor, self.outliers = system, estimator, factor, outliers
        self.vectors = Vectors.of(estimator.x0, probe)
        self.residual = Residual.computed(np.zeros(system.n_rhs))
        self.passes, self.probe = Passes(system), Probe(system, estimator, rng)
        # Directions will hardly have a component in those of the outliers.
        self.rounding = Rounding(system, factor, 0.0 if outliers is None else outliers.largest)

    def start(self) -> None:
        """Recompute the gradient at x (one pass) and restart from it."""
        at = self.vectors.at
        if norm(at[-1]) < SPENT_PROBE:
            at[-1] = self.probe.drawn(self.factor)
        slope, energies = self.passes.gradients(1.0, at)
        self.vectors, self.residual = self.vectors._replace(slope=slope), Residual.computed(energies[:-1])
        self._set_out()
        if self.factor is None:
            self._look_for_rounding(energies)

    def precondition(self, factor: Factor) -> None:
        """Continue at the current x with the preconditioner `factor`."""
        self.factor = factor
        self.rounding.use(factor)
        self.probe.restart()
        self.vectors.still[:] = False
        if factor.deficient or not self.rounding.fresh:  # an updated gradient may be too inaccurate
            factor.project(self.vectors.at[-1:])
            self.start()
        else:
            self._set_out()

    def advance(self, wanted: np.ndarray, enough: np.ndarray) -> list[np.ndarray]:
        """Take a step, or several in one call if passes are short; return the `steepness` after each.

        No further step is needed when the error of each x is at most `enough`.
        """
        plain = self.factor is None and self.outliers is None
        n_steps = steps_at_once(self.system, fresh=self.rounding.fresh) if plain else 1
        if n_steps > 1:
            return self._take_steps(n_steps, float(enough[0]))
        self.step(wanted)
        return [self.vectors.steepness]

    def _take_steps(self, n_steps: int, enough: float) -> list[np.ndarray]:
        """Take up to `n_steps` in a kernel that does the same as `step`."""
        system, vectors, rounding, started = self.system, self.vectors, self.rounding, self.system.clock.elapsed
        limits = Limits(
            damp_sq=system.damp**2, unit=rounding.unit, error=enough, drift=float(rounding.drift[0]),
            probe_gradient=self.probe.least_change, share=min(1.0, system.n_columns / system.n_rows),
            flat=ROUNDED * EPS, rounding=LONG_SUM * EPS, probe_norm=SHORTEST_PROBE,
            finished=self.probe.null_sq > 0.0,
        )  # fmt: skip
        now = [self.residual.sq[0], rounding.top, self.estimator.amplification, vectors.last_step[0], 0.0]
        start = vectors.at, vectors.slope, vectors.direction
        (at, slope, direction), scalars, seen = take_steps(
            system, n_steps, start, [*vectors.worth, *vectors.still, *now], limits
        )
        self.probe.look_back(seen[:, 0], seen[:, 1], float(scalars[Scalar.AMPLIFICATION]))
        rounding.see_curvature(float(scalars[Scalar.LARGEST_CURVATURE]))
        rounding.update()
        downhill = rounding.unit * slope
        self.vectors = Vectors(
            at, slope, downhill, direction,
            worth=scalars[[Scalar.GRADIENT_SQ_X, Scalar.GRADIENT_SQ_Z]],
            still=scalars[[Scalar.ENDED_X, Scalar.ENDED_Z]] != 0.0,
            last_step=scalars[[Scalar.LAST_STEP]],
            error=self.estimator.of_change(norms(downhill[:-1])),
        )  # fmt: skip
        self.residual = self.residual._replace(sq=scalars[[Scalar.RESIDUAL_SQ]])
        make_sure_finite(system, slope)
        self.passes.took(len(seen), system.clock.elapsed - started)
        return list(seen[:, 2:].copy())

    def step(self, wanted: np.ndarray | None = None) -> None:
        """Move to the minimum along the direction and compute the next one; one pass for all x, or those `wanted`."""
        vectors, moving = self.vectors, self.vectors.moving(wanted)
        direction, before = vectors.direction[moving], vectors.worth[moving].copy()
        change, curvatures = self.passes.gradients(0.0, direction, resumable=True)
        sizes_sq = products(direction, direction)
        self.rounding.see_curvature(float(_ratios(curvatures, sizes_sq).max()))
        lengths = _ratios(before, curvatures)
        if self.factor is None:  # a direction that no row reaches is due to rounding, and the step would be huge
            vectors.still[moving] |= curvatures <= ROUNDED * EPS * self.rounding.top * sizes_sq
        lengths[vectors.still[moving]] = 0.0
        steps = np.zeros_like(vectors.at)
        steps[moving] = lengths * direction
        vectors.at[moving] += steps[moving]
        vectors.slope[moving] += lengths * change
        moved = moving if isinstance(moving, slice) else moving[:-1]
        of_x = lengths[: len(vectors.last_step[moved]), 0]
        self.residual = self.residual.lowered(of_x * before[: of_x.size], moved)
        vectors.last_step[moved] = of_x * np.sqrt(sizes_sq[: of_x.size])
        self.rounding.update(None if self.factor is None else steps[:-1])
        self._look(moving)
        vectors.direction[moving] = _ratios(vectors.worth[moving], before) * direction + vectors.downhill[moving]

    def _set_out(self) -> None:
        """Precondition a gradient that was just computed, and start in its direction."""
        vectors, least_change, is_zero = self.vectors, 0.0, False
        if self.factor is None:
            largest = float(np.abs(vectors.slope[-1]).max())
            is_zero = largest < _TINY
            if is_zero:  # all rows are zero, or their squares are, and then this raises
                find_odd_rows(self.system, np.arange(self.system.n_rows))
            self.rounding.choose_unit(largest)
        else:  # about 1, not less: the last one may be spoilt by a gradient only updated, that of z by rounding
            self.estimator.record(1.0)
        self.probe.expect(0.0, shows_zero=is_zero)
        self._look(slice(None))
        if self.factor is None:  # an updated gradient may become smaller than any recomputed one
            least_change = LONG_SUM * EPS * norm(vectors.downhill[-1])
        self.probe.expect(least_change)
        vectors.direction[:] = vectors.downhill
        self.rounding.start_at(vectors.slope[:-1], self.residual.sq, self.estimator.amplification)

    def _look(self, moving: Any) -> None:
        """Precondition the gradients of the vectors that have moved, and estimate their errors."""
        vectors, slope = self.vectors, self.vectors.slope[moving]
        downhill = slope.copy() if self.factor is not None else self.rounding.unit * slope
        if self.factor is not None:
            self.factor.solve(downhill)
        elif self.outliers is not None:
            self.outliers.level(downhill)
        vectors.downhill[moving], vectors.worth[moving] = downhill, products(slope, downhill)
        self.probe.look(norm(vectors.at[-1]), norm(vectors.downhill[-1]))
        moved = moving if isinstance(moving, slice) else moving[:-1]
        vectors.error[moved] = self.estimator.of_change(norms(vectors.downhill[:-1][moved]))
        if self.factor is not None and self.factor.n_rows < self.system.n_rows:
            # The remaining R (x - x*) may have any direction. That of the smallest singular value of a sample is not
            # exactly that of A, so a small gradient in other directions may come with an error in this one.
            alike = np.sqrt(np.maximum(vectors.worth[:-1][moved], 0.0) / self.factor.rank) * self.factor.inverse_norm
            vectors.error[moved] = np.maximum(vectors.error[moved], alike)

    def _look_for_rounding(self, energies: np.ndarray) -> None:
        """Note which recomputed gradients are zero up to rounding, and whether the rest of z is in the null space."""
        vectors, size_sq = self.vectors, norm(self.vectors.at[-1]) ** 2
        self.rounding.see_curvature(float(energies[-1]) / size_sq)
        vectors.still[:] = self._are_rounding(energies)
        if vectors.still[-1] and not self.probe.null_sq and energies[-1] <= self.rounding.null_limit * size_sq:
            self.probe.find_null_space(size_sq)
            vectors.error[:] = self.estimator.of_change(vectors.steepness)

    def _are_rounding(self, residual_sq: np.ndarray) -> np.ndarray:
        """Return which gradients are zero up to rounding."""
        limits = self.rounding.of_gradients(residual_sq, self.vectors.at)
        return norms(self.rounding.unit * self.vectors.slope) <= limits

    def needs_new_gradient(self, tolerated: np.ndarray) -> bool:
        """Return whether a gradient has been updated too often: it may be wrong by more than the error `tolerated`.

        Or it is so small that a recomputed one would be zero up to rounding.
        """
        if self.rounding.fresh:
            return False
        if (self.rounding.drift > tolerated).any():
            return True
        small = self.factor is None and self._are_rounding(np.append(self.residual.sq, 0.0))
        return bool(np.any(small & ~self.vectors.still))

    def is_below(self, enough: np.ndarray) -> np.ndarray:
        """Return for each x whether its error is at most `enough`, by the estimate.

        With a factor of all rows the gradient determines the error in any direction. Otherwise the error is estimated
        as if it resembled a random vector, or the given probe. So x must also have settled, and z must be so short that
        it has decreased in each direction: with noise nearly all of x* may be in the direction of the smallest singular
        value, where steps converge last. Without a factor, the error of a given x0 may be in slow directions only, in
        which z had about 1 / p of its squared norm (see `ErrorEstimator.of_unlucky_start`).
        """
        vectors, below = self.vectors, self.vectors.error <= enough
        if self.factor is not None and self.factor.n_rows == self.system.n_rows:
            return below
        size, found_null = norm(vectors.at[-1]), self.probe.null_sq > 0.0
        left = self.estimator.of_change(norm(vectors.downhill[-1])) if found_null else size
        everywhere = self.probe.exhausted or left * math.sqrt(self.system.n_columns) <= NEGLIGIBLE
        at_rest = (vectors.last_step <= ORDER_OF_MAGNITUDE * enough) & everywhere  # steps gain about a digit each
        if self.estimator.warm and self.factor is None:
            at_rest &= self.estimator.of_unlucky_start(vectors.x, left) <= enough
        return below & (at_rest | (np.sqrt(self.residual.sq) <= ROUNDED * EPS * self.system.facts.norms_b))

    def rounding_error(self, eps: float, *, at_its_end: bool = False) -> np.ndarray:
        """Return the error of each x due to rounding; `eps` is the relative precision of A and b as given.

        At the end, when further solves with the factor pay, it includes that of the last recomputed gradient.
        """
        done = self.probe.is_done(self.vectors)
        found = self.rounding.of_x(eps, self.vectors.x, self.residual.sq, self.estimator, probe_is_done=done)
        return np.maximum(found, self.rounding.inherited) if at_its_end else found

    saved: ClassVar[dict[str, Kind]] = {"vectors": VECTORS, "residual": RESIDUAL}
    derived: ClassVar[tuple[str, ...]] = ("system", *_PARTS)

    def state(self) -> dict[str, Any]:
        """Return the state of the descent."""
        return {**state_of(self), **{name: packed(getattr(self, name)) for name in _PARTS}}

    def restore(self, state: Any, wanted: np.ndarray) -> None:
        """Restore a state; the next step, which may be under way, is for all x `wanted`."""
        sizes = self.system.sizes
        fill(self, state, sizes, besides=_PARTS)
        self.factor = None if state["factor"] is None else Factor.from_state(state["factor"], sizes)
        self.outliers = optional(OUTLIERS)(state["outliers"], sizes)
        for name in ("estimator", "probe", "rounding"):
            getattr(self, name).restore(state[name], sizes)
        self.rounding.use(self.factor)
        n_moving = len(self.vectors.at[self.vectors.moving(wanted)])
        self.passes.restore(state["passes"], sizes, n_moving)


def _ratios(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    """Return a coefficient for each vector, 0 where `below` is not above 0 (where numpy must not warn)."""
    return np.where(below > 0.0, above / below, 0.0)[:, None]
