"""Conjugate gradients for least squares, with one pass over A for each step and a probe for the error estimate."""

from __future__ import annotations

import math
from functools import partial
from typing import Any, ClassVar

import numpy as np

from rowsolve.checkpoint.state import (
    Kind,
    StateError,
    array,
    fill,
    flag,
    integer,
    listed,
    number,
    optional,
    packed,
    state_of,
    tuple_of,
)
from rowsolve.kernels.descent import (
    Limits,
    Scalar,
    Steps,
    step_workspace,
)
from rowsolve.kernels.gradient import ROWS_OF_A_SUM, add_gradients
from rowsolve.kernels.many import add_gradients_of_many, laid_out
from rowsolve.kernels.rounds import cancel, new_progress, run_rounds
from rowsolve.kernels.rows import DenseRows
from rowsolve.lstsq.factor import Factor, find_odd_rows
from rowsolve.lstsq.spectrum import Outliers
from rowsolve.parallel.blas import blas_threads
from rowsolve.parallel.pool import run_as_one
from rowsolve.parallel.vectors import norm, norms, products
from rowsolve.policy.thresholds import GRADIENT_ROUNDING, ROUNDED, SHORTEST_PROBE
from rowsolve.problem.reader import WORK_OF_A_BURST, Piece
from rowsolve.problem.system import System

__all__ = ["Descent"]

_EPS = float(np.finfo(float).eps)
_UNLUCKY = 1e3  # with probability 1 / 40 the squared component of a random unit vector is below 1 / (1000 p)
_AT_REST = 30.0  # times the error allowed: the last step of a method that gains about a digit per step
_UNTOUCHED = 0.01  # of the component of a probe in one direction
_CLEARLY = 1e4  # times the rounding error of a sum of squares, of which four digits are then left
_ROUNDED = 64.0  # units of rounding of b: all equations are satisfied
_NOTHING = 1e-300  # a gradient of the probe: all rows are zero, or their squares are
_SPENT = 1e-6  # a probe so short is dominated by rounding
_ROWS_AT_ONCE = 2048  # in one matrix product
_ROUNDING_OF_LONG_SUMS = 4.0  # units, of sums whose terms have one sign
_NULL = 64.0  # units of rounding of A z, if no row reaches z
_CLEAR = 1e-10  # of its square: the part of a probe that rows reach
_STUCK, _STUCK_STEPS = 0.9, 5  # of the length of a probe some steps before
_STEPS_AT_ONCE = 8  # after so many the rate of convergence is known
_MOST_STEPS, _WORTH_A_CALL = 32, 500_000  # of passes that are short: as many as use so many numbers
_LOOKS_PER_NUMBER = 0.1  # at a word of memory, in the time that a pass takes for a number


class Descent:
    """Conjugate gradients on ``(A'A + damp**2) x = A'b``, preconditioned by a `Factor`, by `Outliers` or not (CGLS).

    In addition to x, a random probe z converges to a solution of ``A'A z = 0`` with its own steps. Its error is z
    itself, which gives the ratio of error and gradient: with ``w = M**-1 (A'(b - A x))``, and v the same for z,

        norm(x - x*)  ~  norm(w) * norm(z) / norm(v).

    The estimate takes account of directions with small singular values, because z has a component in each of them.
    (With the step lengths of x, z would grow in directions in which x has no error at all, for instance if x and A are
    symmetric.) The largest ratio so far is used, since single ratios fluctuate, as the gradients do.

    If A has a null space, z keeps its component there, and the ratios keep growing. When the gradient of z and ``A z``
    are zero up to rounding, the remaining z is that component, and by Pythagoras' theorem the length of the rest of z
    is then known for each step.

    Several right-hand sides share the passes.

    Parameters
    ----------
    system, x0, rng, factor, outliers
    probe : ndarray of shape (p,), optional
        The initial z, if the error of `x0` resembles it: `x0` was computed from zero, and `probe` from a random vector,
        by the same projections. By default a random vector.

    Attributes
    ----------
    at : ndarray of shape (n_rhs + 1, p)
        x for each right-hand side, and z.
    error : ndarray of shape (n_rhs,)
        Estimated ``norm(x - x*)``.
    residual_sq : ndarray of shape (n_rhs,)
        ``norm(b - A x)**2 + damp**2 norm(x)**2``, updated from step to step.
    fresh : bool
        Whether the gradient was computed at the current x, rather than updated.
    drift : ndarray of shape (n_rhs,)
        The possible error of x due to rounding of a gradient that is only updated.
    no_time_for_factor : bool
        Whether a factor was not computed because it would have ended after the deadline.
    squares_fail : bool
        Whether the squares of A were found not to determine x.
    under_way : tuple or None
        In a pass that can be resumed: the pieces that are done, and the sums so far.
    still : ndarray of shape (n_rhs + 1,)
        Which x, and whether z, had a recomputed gradient of zero up to rounding; these do not move any more.
    """

    direction: np.ndarray
    _worth: np.ndarray
    _worth_at_start: float

    def __init__(
        self,
        system: System,
        x0: np.ndarray,
        rng: np.random.Generator,
        factor: Factor | None = None,
        outliers: Outliers | None = None,
        probe: np.ndarray | None = None,
    ) -> None:
        self.system, self.factor, self.outliers, self._rng = system, factor, outliers, rng
        self.x0, self.last_step = np.atleast_2d(x0).copy(), np.full(system.n_rhs, math.inf)
        self.at = np.vstack([x0, np.zeros(system.n_columns) if probe is None else probe])
        self._warm = probe is None and bool(self.x0.any())  # x0 was given: its error need not resemble z
        self.drift: np.ndarray = np.zeros(system.n_rhs)
        self._inherited: np.ndarray | None = None
        self.still, self.amplification, self._unit = np.zeros(len(self.at), dtype=bool), 0.0, 0.0
        self._probe_exhausted = False  # whether a probe is spent
        self.is_zero = False  # whether A is
        self.no_time_for_factor = self.squares_fail = False
        self.under_way: tuple[int, np.ndarray, np.ndarray] | None = None
        self._top, self._null_sq = 0.0, 0.0  # the largest curvature; the squared part of z that no row reaches
        if outliers is not None:  # directions will hardly have a component in theirs
            self._top = outliers.largest
        self._seen: list[tuple[float, float]] = []  # the squared norm of z, and the norm of v, after each step
        self.start()

    @property
    def x(self) -> np.ndarray:
        """The current x of each right-hand side, one in each row."""
        return self.at[:-1]

    def precondition(self, factor: Factor) -> None:
        """Continue at the current x with the preconditioner `factor`."""
        self.factor = factor
        self.still[:], self._probe_exhausted, self._null_sq = False, False, 0.0
        if factor.deficient or not self.fresh:  # an updated gradient may be too inaccurate
            factor.project(self.at[-1:])
            self.start()
        else:
            self._set_out()

    def start(self) -> None:
        """Recompute the gradient at x (one pass) and restart from it."""
        if norm(self.at[-1]) < _SPENT:
            self.at[-1] = self._new_probe()
        self.slope, squares = self._gradients(1.0, self.at)
        self.fresh = True
        energies = squares + self.system.damp**2 * products(self.at, self.at)
        self.residual_sq = self._residual_sq_at_start = energies[:-1]
        self.uncertainty_sq = _ROUNDED * _EPS * self.residual_sq  # it is updated by subtraction from now on
        self._set_out()
        if self.factor is None:
            self._look_for_rounding(energies)

    def _new_probe(self) -> np.ndarray:
        """Return a random vector of unit norm, orthogonal to the null space if that is known."""
        probe = self._rng.standard_normal((1, self.system.n_columns))
        probe /= norm(probe[0])
        null = self.system.facts.null_vectors if self.factor is None else None
        if self.factor is not None:
            self.factor.project(probe)
        elif null is not None:  # the component of z in it gives no information and would remain
            probe -= (probe @ null) @ null.T
        return probe[0]

    def advance(self, wanted: np.ndarray, enough: np.ndarray) -> list[np.ndarray]:
        """Take a step, or several in one call if passes are short; return the `steepness` after each.

        No further step is needed when the error of each x is at most `enough`.
        """
        n_steps = self._steps_at_once()
        if n_steps > 1:
            return self._take_steps(n_steps, float(enough[0]))
        self.step(wanted)
        return [self.steepness]

    def _steps_at_once(self) -> int:
        """Return the number of steps in one call: several if they take no longer than a burst, else one."""
        system = self.system
        plain = system.n_rhs == 1 and system.bounds is None and self.factor is None and self.outliers is None
        if not plain or system.stored:
            return 1
        numbers = system.n_rows * system.entries_per_row
        if numbers > WORK_OF_A_BURST:
            return 1
        steps = _STEPS_AT_ONCE
        if not self.fresh:  # they are known to be needed
            steps = max(steps, min(_MOST_STEPS, int(_WORTH_A_CALL / numbers)))
        return int(min(steps, (system.counter.max_rows - system.counter.rows_read) / system.n_rows))

    def _take_steps(self, n_steps: int, enough: float) -> list[np.ndarray]:
        """Take up to `n_steps` in a kernel that does the same as `step`."""
        system, started, p = self.system, self.system.clock.elapsed, self.system.n_columns
        numbers = system.n_rows * system.entries_per_row
        n_threads = system.limits.threads_for(n_steps * numbers)
        course, sums = step_workspace(n_threads, n_steps, p)
        course.vectors[0, 0] = self.at, self.slope, self.direction
        residual_sq, last_step = self.residual_sq[0], self.last_step[0]
        course.scalars[0, 0] = [*self._worth, *self.still, residual_sq, self._top, self.amplification, last_step, 0.0]
        limits = Limits(
            damp_sq=system.damp**2, unit=self._unit, error=enough, drift=float(self.drift[0]),
            probe_gradient=GRADIENT_ROUNDING * _EPS * self._worth_at_start, share=min(1.0, p / system.n_rows),
            flat=ROUNDED * _EPS, rounding=GRADIENT_ROUNDING * _EPS, probe_norm=SHORTEST_PROBE,
            finished=self._null_sq > 0.0,
        )  # fmt: skip
        work, patience = (
            Steps(system.rows, system.b, limits, course, sums),
            int(_LOOKS_PER_NUMBER * numbers / n_threads),
        )
        progress = new_progress(n_threads)
        calls = [partial(run_rounds, work, patience, me, progress) for me in range(n_threads)]
        taken = run_as_one(calls, lambda: cancel(progress))
        self.at, self.slope, self.direction = course.vectors[taken % 2, 0].copy()
        scalars, seen = course.scalars[taken % 2, 0], course.seen[0, :taken]
        self._worth = scalars[[Scalar.GRADIENT_SQ_X, Scalar.GRADIENT_SQ_Z]]
        self.still = scalars[[Scalar.ENDED_X, Scalar.ENDED_Z]] != 0.0
        self.residual_sq, self.last_step = scalars[[Scalar.RESIDUAL_SQ]], scalars[[Scalar.LAST_STEP]]
        self._top, self.amplification = float(scalars[Scalar.LARGEST_CURVATURE]), float(scalars[Scalar.AMPLIFICATION])
        self.fresh = False
        self._downhill = self._unit * self.slope
        if not self._null_sq:
            self._probe_exhausted |= bool((seen[:, 0] < _SPENT**2).any())
            self._seen += [(size_sq, worth) for size_sq, worth, _ in seen.tolist() if size_sq >= SHORTEST_PROBE**2]
        self.error = norms(self._downhill[:-1]) * self.amplification
        self._make_sure_finite(self.slope)
        self.seconds_a_pass = (system.clock.elapsed - started) / max(1, taken)
        system.end_passes(taken)
        return list(seen[:, 2:].copy())

    def _make_sure_finite(self, gradients: np.ndarray) -> None:
        """Raise if A has NaN or infinity, or if its squares overflow."""
        if not np.isfinite(gradients).all():
            find_odd_rows(self.system, np.arange(self.system.n_rows))
            raise ValueError("the squares of `A` and `b` leave the range of float64: rescale them.")

    def step(self, wanted: np.ndarray | None = None) -> None:
        """Move to the minimum along the direction and compute the next one; one pass for all x, or those `wanted`."""
        moving = self._moving(wanted)
        direction, before = self.direction[moving], self._worth[moving].copy()
        change, squares = self._gradients(0.0, direction, resumable=True)
        sizes_sq = products(direction, direction)
        curvatures = squares + self.system.damp**2 * sizes_sq
        self._top = max(self._top, float(_ratios(curvatures, sizes_sq).max()))
        lengths = _ratios(before, curvatures)
        if self.factor is None:  # a direction that no row reaches is due to rounding, and the step would be huge
            self.still[moving] |= curvatures <= ROUNDED * _EPS * self._top * sizes_sq
        lengths[self.still[moving]] = 0.0
        self.at[moving] += lengths * direction
        self.slope[moving] += lengths * change
        moved = moving if isinstance(moving, slice) else moving[:-1]
        of_x = slice(len(self.residual_sq[moved]))
        self.residual_sq = self.residual_sq.copy()  # `start` keeps the one before
        self.residual_sq[moved] -= lengths[of_x, 0] * before[of_x]
        np.maximum(self.residual_sq, 0.0, out=self.residual_sq)
        self.last_step[moved] = lengths[of_x, 0] * np.sqrt(sizes_sq[of_x])
        self.fresh = False
        if self.factor is not None:  # a step far longer than x leaves rounding errors in the gradient
            steps = np.zeros_like(self.at)
            steps[moving] = lengths * direction
            self.drift = np.maximum(self.drift, self._of_products(steps[:-1]))
        self._look(moving)
        self.direction[moving] = _ratios(self._worth[moving], before) * direction + self._downhill[moving]

    def _moving(self, wanted: np.ndarray | None) -> Any:
        """Return which vectors a step moves: all, or, of several x, those `wanted`, and the probe unless it is done."""
        if wanted is None or self.system.n_rhs == 1:
            return slice(None)
        return np.append(wanted, norm(self.at[-1]) > SHORTEST_PROBE)

    def _set_out(self) -> None:
        if self.factor is None:  # any unit will do that keeps squares in range
            largest = float(np.abs(self.slope[-1]).max())
            if largest < _NOTHING:
                find_odd_rows(self.system, np.arange(self.system.n_rows))
                self.is_zero = True  # or it has raised
            self._unit = self._unit or 1.0 / (largest or 1.0)
        else:  # about 1, not less: the last one may be spoilt by a gradient only updated, that of z by rounding
            self.amplification = 1.0
        self._downhill, self._worth, self.error = np.empty_like(self.at), np.empty(len(self.at)), np.empty(len(self.x))
        self._worth_at_start = 0.0
        self._look(slice(None))
        self._worth_at_start = norm(self._downhill[-1])
        self.direction = self._downhill.copy()
        most = self.factor.spread if self.factor is not None else math.sqrt(self._unit * self.amplification)
        self.drift = 8.0 * _EPS * norms(most * self.slope[:-1]) * most
        self._slope_at_start, self._inherited = self.slope[:-1].copy(), None

    def _look(self, moving: Any) -> None:
        """Precondition the gradients of the vectors that have moved, and estimate their errors."""
        slope = self.slope[moving]
        downhill = slope.copy() if self.factor is not None else self._unit * slope
        if self.factor is not None:
            self.factor.solve(downhill)
        elif self.outliers is not None:
            self.outliers.level(downhill)
        self._downhill[moving], self._worth[moving] = downhill, products(slope, downhill)
        if not self._null_sq:
            self._ask_probe()
        moved = moving if isinstance(moving, slice) else moving[:-1]
        self.error[moved] = norms(self._downhill[:-1][moved]) * self.amplification
        if self.factor is not None and not self._factor_is_exact:
            # The remaining R (x - x*) may have any direction. That of the smallest singular value of a sample is not
            # exactly that of A, so a small gradient in other directions may come with an error in this one.
            alike = np.sqrt(np.maximum(self._worth[:-1][moved], 0.0) / self.factor.rank) * self.factor.spread
            self.error[moved] = np.maximum(self.error[moved], alike)

    @property
    def _factor_is_exact(self) -> bool:
        """Whether there is a factor of all rows."""
        return self.factor is not None and self.factor.n_rows == self.system.n_rows

    def _ask_probe(self) -> None:
        probe_norm, worth_norm = norm(self.at[-1]), norm(self._downhill[-1])
        self._probe_exhausted |= probe_norm < _SPENT
        if probe_norm < SHORTEST_PROBE:
            return
        if self.factor is None:  # an updated gradient may become smaller than any recomputed one
            worth_norm = max(worth_norm, GRADIENT_ROUNDING * _EPS * self._worth_at_start)
        self._seen.append((probe_norm**2, worth_norm))
        self.amplification = max(self.amplification, probe_norm / worth_norm if worth_norm > 0.0 else 0.0)

    @property
    def steepness(self) -> np.ndarray:
        """The length of the preconditioned gradient of each x."""
        return norms(self._downhill[:-1])

    @property
    def is_stuck(self) -> bool:
        """Whether the probe does not decrease although its gradient does: A is rank-deficient, or nearly so."""
        if self.factor is not None or self._null_sq or len(self._seen) < _STUCK_STEPS:
            return False
        (before, worth_before), (now, worth) = self._seen[-_STUCK_STEPS], self._seen[-1]
        return now > _STUCK**2 * before and worth < _STUCK / 2 * worth_before

    @property
    def found_null_space(self) -> bool:
        """Whether the probe has shown that A has a null space."""
        return self._null_sq > 0.0

    @property
    def probe_is_done(self) -> bool:
        """Whether the probe cannot improve the estimate any further."""
        return self._probe_exhausted or bool(self.still[-1])

    @property
    def seems_still(self) -> bool:
        """Whether some updated gradient is so small that a recomputed one would be zero up to rounding."""
        if self.factor is not None:
            return False
        small = norms(self._unit * self.slope) <= self._rounding_of_gradients(np.append(self.residual_sq, 0.0))
        return bool(np.any(small & ~self.still))

    def _rounding_of_gradients(self, energies: np.ndarray) -> np.ndarray:
        """Return the size of the random rounding errors of the sums in ``A'r`` and of r itself.

        It is multiplied by `_unit`, without which squares may be out of the range of float64.
        """
        unit = (
            GRADIENT_ROUNDING
            * _EPS
            * (self._unit * math.sqrt(self._top * min(1.0, self.system.n_columns / self.system.n_rows)))
        )
        return unit * (np.sqrt(energies) + math.sqrt(self._top) * norms(self.at))

    def _look_for_rounding(self, energies: np.ndarray) -> None:
        """Note which recomputed gradients are zero up to rounding, and whether the rest of z is in the null space."""
        size_sq = norm(self.at[-1]) ** 2
        self._top = max(self._top, float(energies[-1]) / size_sq)
        self.still = norms(self._unit * self.slope) <= self._rounding_of_gradients(energies)
        if self.still[-1] and not self._null_sq and energies[-1] <= self._null_limit * size_sq:
            self._null_sq = size_sq
            beside = [(total - size_sq, worth) for total, worth in self._seen if total - size_sq > _CLEAR * size_sq]
            self.amplification = max((math.sqrt(part) / worth for part, worth in beside if worth > 0.0), default=0.0)
            self.error = norms(self._downhill[:-1]) * self.amplification

    @property
    def _null_limit(self) -> float:
        """The largest ``norm(A z)**2`` of a unit vector z that counts as a null vector, as for a rank in numpy."""
        return float((max(_NULL, self.system.n_rows, self.system.n_columns) * _EPS) ** 2 * self._top)

    def _gradients(
        self, weight: float, vectors: np.ndarray, *, resumable: bool = False
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return ``A'(weight * b - A v) - damp**2 v`` and the squared norms of ``weight * b - A v``; make one pass.

        If the pass is `resumable`, because the caller has changed nothing yet, its state is in `under_way`.
        """
        started = self.system.clock.elapsed
        system, alone, times_used = self.system, self.system.n_rhs == 1, max(1, len(vectors) // 2)
        vectors = vectors if alone else laid_out(system.rows, vectors)
        n_done, gradients, squares = self.under_way or (0, -(system.damp**2) * vectors, np.zeros(len(vectors)))
        parts: list[tuple[int, np.ndarray, np.ndarray]] = []

        def add(piece: Piece, start: int, stop: int, _: np.ndarray) -> None:
            out, square, b = np.zeros_like(vectors), np.zeros(len(vectors)), piece.of(system.b)
            if alone:
                add_gradients(piece.rows, b, weight, start, stop, vectors, out, square)
            elif isinstance(piece.rows, DenseRows):
                _add_by_blas(piece.rows.values, b, weight, start, stop, vectors, out, square)
            else:
                for first in range(start, stop, _ROWS_AT_ONCE):  # separate sums, as in `add_gradients`
                    own, order = np.zeros_like(vectors), np.arange(first, min(first + _ROWS_AT_ONCE, stop))
                    add_gradients_of_many(piece.rows, b, weight, order, vectors, own, square)
                    out += own
            parts.append((start, out, square))

        for piece in system.pieces(times_used, skip=n_done):
            parts.clear()
            work = piece.n_rows * system.entries_per_row * times_used
            if alone and system.limits.threads_for(work) == 1:  # nothing to add up
                b = piece.of(system.b)
                add_gradients(piece.rows, b, weight, piece.start, piece.stop, vectors, gradients, squares)
            else:
                with blas_threads(work, 1):
                    system.in_slices(partial(add, piece), piece.start, piece.stop, work)
            for _, out, square in sorted(parts, key=lambda part: part[0]):  # the same sum in any order of the threads
                gradients += out
                squares += square
            n_done += 1
            self.under_way = (n_done, gradients, squares) if resumable else None
        self.under_way = None
        system.counter.use_all()
        self._make_sure_finite(gradients)
        self.seconds_a_pass = self.system.clock.elapsed - started
        return gradients, squares

    @property
    def residual(self) -> float | None:
        """``norm(b - A x)`` over all right-hand sides; None if updates have lost too many digits."""
        found = self.residual_sq - self.system.damp**2 * products(self.x, self.x)
        clear = found.sum() > _CLEARLY * self.uncertainty_sq.sum()
        return math.sqrt(float(found.sum())) if clear else None

    def is_below(self, enough: np.ndarray) -> np.ndarray:
        """Return for each x whether its error is at most `enough`, by the estimate.

        With a factor of all rows the gradient determines the error in any direction. Otherwise the error is estimated
        as if it resembled a random vector, or the given probe. So x must also have settled, and z must be so short that
        it has decreased in each direction: with noise nearly all of x* may be in the direction of the smallest singular
        value, where steps converge last. Without a factor, the error of a given x0 may be in slow directions only, in
        which z had about 1 / p of its squared norm (see `Monitor._error_of_unlucky_start`).
        """
        below, residuals = self.error <= enough, np.sqrt(self.residual_sq)
        if self._factor_is_exact:
            return below
        left = norm(self._downhill[-1]) * self.amplification if self._null_sq else norm(self.at[-1])
        everywhere = self._probe_exhausted or left * math.sqrt(self.system.n_columns) <= _UNTOUCHED
        at_rest = (self.last_step <= _AT_REST * enough) & everywhere
        if self._warm and self.factor is None:
            share = math.sqrt(_UNLUCKY * self.system.n_columns) * left
            worst = share / (1.0 - share) * norms(self.x - self.x0) if share < 1.0 else math.inf
            at_rest &= worst <= enough
        return below & (at_rest | (residuals <= _ROUNDED * _EPS * self.system.facts.norms_b))

    def rounding(self, eps: float) -> np.ndarray:
        """Return the error of each x due to rounding; `eps` is the relative precision of A and b as given.

        Rounding errors of A x are amplified by ``A**+``, those of the sums in ``A'r`` by ``(A'A)**-1``, and those of
        the numbers of a row, about a third of `eps` each, like noise in b; all are random.
        """
        norms_x, n, p = norms(self.x), self.system.n_rows, self.system.n_columns
        if self.factor is None:
            known = max(_EPS * math.sqrt(p), 0.3 * eps * math.sqrt(p / n)) * norms_x
            if not self.probe_is_done:
                return known
            condition_sq = self._top * self._unit * self.amplification
            too_large = np.maximum(norms(self.x0) - norms_x, 0.0)  # its rounding errors may remain in the null space
            known = np.maximum(known, _EPS * math.sqrt(p) * condition_sq * too_large)
            of_sums = condition_sq * np.sqrt(self.residual_sq / (self._top or 1.0))
            of_products = min(math.sqrt(p), 8.0) * math.sqrt(condition_sq) * norms_x
            return np.maximum(known, _EPS * (of_products / math.sqrt(n) + _rounding_of_a_sum(n) * of_sums))
        as_given = 0.3 * eps / math.sqrt(n) * self.factor.spread * norms(self.factor.lengths * self.x)
        of_start = self._of_products(self.x0) if self.factor.deficient else 0.0  # it remains in the null space
        return np.maximum(as_given, self._of_products(self.x) + self._of_sums(self.residual_sq) + of_start)

    @property
    def inherited(self) -> np.ndarray:
        """The possible error of each x due to rounding of the last recomputed gradient, if that was at another x."""
        if self.factor is None or self.fresh:
            return np.zeros(len(self.x))
        if self._inherited is None:
            slopes = np.abs(self._slope_at_start)
            shares = slopes.max(axis=1) / (slopes.max() or 1.0)
            worst = (slopes / np.where(shares > 0.0, shares, 1.0)[:, None]).max(axis=0)  # of all x
            of_long_sums = _ROUNDING_OF_LONG_SUMS * _EPS * shares * self.factor.spread_sums(worst)
            self._inherited = self._of_sums(self._residual_sq_at_start) + of_long_sums
        return self._inherited

    def _of_sums(self, residual_sq: np.ndarray) -> np.ndarray:
        """Return the error of x due to rounding of the sums in ``A'r``."""
        assert self.factor is not None
        return _EPS * self.factor.harm * _rounding_of_a_sum(self.system.n_rows) * np.sqrt(residual_sq)

    def _of_products(self, vectors: np.ndarray) -> np.ndarray:
        """Return the error of x due to rounding of A v, for some v: of each term, and of their sum."""
        assert self.factor is not None
        terms = min(math.sqrt(self.system.n_columns), 8.0) * norms(self.factor.lengths * vectors)
        return _EPS / math.sqrt(self.system.n_rows) * self.factor.spread * terms

    saved: ClassVar[dict[str, Kind]] = {
        **dict.fromkeys(("at", "direction", "_downhill"), array("v", "p")),
        **dict.fromkeys(("x0", "_slope_at_start"), array("k", "p")),
        "slope": array("v", "p", order="many"),
        **dict.fromkeys(("last_step", "drift", "error", "residual_sq"), array("k")),
        **dict.fromkeys(("_residual_sq_at_start", "uncertainty_sq"), array("k")),
        "_inherited": optional(array("k")),
        "_worth": array("v"),
        "still": array("v", dtype=bool),
        **dict.fromkeys(("amplification", "_unit", "_top", "_null_sq", "_worth_at_start", "seconds_a_pass"), number),
        **dict.fromkeys(("_warm", "_probe_exhausted", "fresh", "is_zero"), flag),
        "_seen": listed(tuple_of(number, number)),
        "under_way": optional(tuple_of(integer(1), array("moving", "p", order="many"), array("moving"))),
    }
    derived: ClassVar[tuple[str, ...]] = ("system", "factor", "outliers", "_rng", "no_time_for_factor", "squares_fail")

    def state(self) -> dict[str, Any]:
        """Return the state of the descent."""
        return {**state_of(self), "factor": packed(self.factor), "outliers": packed(self.outliers)}

    @classmethod
    def from_state(cls, system: System, rng: np.random.Generator, state: Any, wanted: np.ndarray) -> Descent:
        """Return the descent with that state; the next step, which may be under way, is for all x `wanted`."""
        from rowsolve.lstsq.spectrum import OUTLIERS

        descent, sizes = cls.__new__(cls), system.sizes
        descent.system, descent._rng, descent.under_way = system, rng, None
        descent.no_time_for_factor = descent.squares_fail = False  # there may be more time now
        fill(descent, state, sizes, besides=("factor", "outliers"))
        descent.factor = None if state["factor"] is None else Factor.from_state(state["factor"], sizes)
        descent.outliers = optional(OUTLIERS)(state["outliers"], sizes)
        if descent.under_way is not None and len(descent.under_way[2]) != len(descent.at[descent._moving(wanted)]):
            raise StateError("under_way: expected sums for all that move")
        return descent


def _add_by_blas(
    values: np.ndarray, b: np.ndarray, weight: float, start: int, stop: int,
    vectors: np.ndarray, out: np.ndarray, squares: np.ndarray,
) -> None:  # fmt: skip
    """Do the same as `add_gradients_of_many` for dense rows; for many vectors BLAS is several times faster."""
    for first in range(start, stop, _ROWS_AT_ONCE):
        last = min(first + _ROWS_AT_ONCE, stop)
        rows = np.asarray(values[first:last], dtype=float)
        gaps = -(rows @ vectors.T)
        if weight != 0.0:
            gaps[:, :-1] += weight * b[first:last]
        squares += products(gaps.T, gaps.T)
        out += gaps.T @ rows


def _rounding_of_a_sum(n_rows: int) -> float:
    """Return the rounding error of a sum over rows, in eps times the norms of the factors.

    It is ``1 / sqrt(n)`` if the sum is rounded once, and more because numbers are added to sums of `ROWS_OF_A_SUM`
    rows, and these to longer ones; twice the typical error is returned, since it may be in the worst direction.
    """
    return min(1.0, math.sqrt(16.0 / n_rows + 0.25 / ROWS_OF_A_SUM))


def _ratios(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    """Return a coefficient for each vector, 0 where `below` is not above 0 (where numpy must not warn)."""
    return np.where(below > 0.0, above / below, 0.0)[:, None]
