"""Least squares to any accuracy: conjugate gradients, preconditioned by a sample of the rows where that pays."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np

from rowsolve._solution import Status
from rowsolve.checkpoint.state import Kind, Sizes, array, fill, flag, integer, packed, state_of
from rowsolve.estimate.estimator import ErrorEstimator
from rowsolve.estimate.step import Findings, Step
from rowsolve.estimate.tolerance import Tolerance
from rowsolve.kernels.many import add_gradients_of_many, laid_out
from rowsolve.kernels.rows import CSRRows
from rowsolve.lstsq.all_rows import AllRows, by_lapack
from rowsolve.lstsq.box_descent import BoxDescent
from rowsolve.lstsq.descent import Descent
from rowsolve.lstsq.factor import Factor, factor_of
from rowsolve.lstsq.spectrum import Outliers, Spectrum, look_at_spectrum, outliers_of
from rowsolve.methods.base import Capabilities, StepMethod, one_of
from rowsolve.parallel.vectors import norm, norms, products
from rowsolve.policy.least_squares import (
    cheapest_sample,
    fits_lapack,
    has_time_for_qr,
    is_small,
    passes_at_first,
    passes_left,
    price_of_all,
    price_of_passes,
    spectrum_estimate_pays,
)
from rowsolve.policy.prices import BEGIN, FACTOR_PRODUCT, LITTLE, MANY_PASSES, SMALL_BOX, SQUARES
from rowsolve.policy.thresholds import (
    EPS,
    NEGLIGIBLE,
    ORDER_OF_MAGNITUDE,
    SHRINKS,
    SURE,
    TRIES,
)
from rowsolve.problem.clock import TooLong
from rowsolve.problem.reader import Part
from rowsolve.problem.system import System

__all__ = ["Refined"]


@dataclass(frozen=True)
class Refined(StepMethod):
    """Conjugate gradients on ``A'A x = A'b``, preconditioned by R from a sample of rows, with one pass for each step.

    R is the Cholesky factor (or that of a QR decomposition if A is ill-conditioned) of a sample of rows, or of all rows
    if that is cheap, so that ``A R**-1`` is well-conditioned and a few passes suffice (Rokhlin and Tygert 2008; Avron,
    Maymounkov and Toledo 2010, who mix the rows at random; here the rows are sampled without mixing). Each step reads
    each row once. The method converges to the least-squares solution, with ``x0 = 0`` to the one of minimum norm if A
    is rank-deficient; with `damp` to the minimizer of ``norm(A x - b)**2 + damp**2 norm(x)**2``. If it is cheaper, one
    pass compresses all rows to ``A'A`` and ``A'b``, from which x is computed, and another pass certifies x: see
    `rowsolve.lstsq.all_rows`.

    With `bounds` x is the least-squares solution within the bounds, or one of them if there are several. It is computed
    from a triangle of all rows by exchanging free entries and entries on a bound, many at a time (Júdice and Pires
    1994; see `rowsolve.lstsq.box`), or, if that does not pay, by conjugate gradients over the free entries and
    projected gradients that determine which entries are free (Moré and Toraldo 1991; Dostál and Schöberl 2005; see
    `rowsolve.lstsq.box_descent`).

    Parameters
    ----------
    preconditioner : {"auto", "none", "sample", "all"}
        The rows of which R is the factor. ``"auto"`` begins without a preconditioner unless it is very cheap or a look
        at some rows shows that the singular values of A decay; it computes one when that is predicted to pay, from the
        rate at which the error decreases. If only a few singular values are large, gradients are scaled down along
        their directions instead (see `rowsolve.lstsq.spectrum`).
        With bounds a factor is always one of all rows, and ``"sample"`` raises an error.
    """

    preconditioner: Literal["auto", "none", "sample", "all"] = "auto"

    name: ClassVar[str] = "refined"
    summary: ClassVar[str] = "preconditioned conjugate gradients; the least-squares solution to any accuracy"
    citation: ClassVar[str] = "Rokhlin and Tygert 2008; Avron, Maymounkov and Toledo 2010"
    can: ClassVar[Capabilities] = Capabilities(least_squares=True, many_b=True, bounds=True, damp=True)

    def __post_init__(self):
        one_of("preconditioner", self.preconditioner, ("auto", "none", "sample", "all"))

    def steps(self, system, x0, tolerance, rng, probe=None):
        """Yield after every pass."""
        if system.bounds is not None and self.preconditioner == "sample":
            raise ValueError(
                "with `bounds` a factor of a sample of the rows does not determine which entries of x are on a bound: "
                "use preconditioner='auto', 'none' or 'all'."
            )
        if self.preconditioner in ("sample", "all"):
            system.limits.check_memory(8.0 * SQUARES * system.n_columns**2, "a factor of the rows")
        return _Steps(self, system, x0, tolerance, rng, probe)

    def takes_all(self, system: System, digits: float) -> bool:
        """Return whether all rows are to be compressed at the start."""
        if self.preconditioner not in ("auto", "all"):
            return False
        if self.preconditioner == "all":
            return price_of_all(system) < math.inf
        n_rows, cost = cheapest_sample(system, digits)
        passes = BEGIN + price_of_passes(system, passes_at_first(system, digits))
        return n_rows == system.n_rows and cost <= (passes if system.bounds is None else max(passes, SMALL_BOX))

    def _begin(
        self, system: System, x0: np.ndarray, tolerance: Tolerance, rng: np.random.Generator, probe: np.ndarray | None
    ) -> tuple[Descent | BoxDescent, bool]:
        """Return a descent from `x0`, or from the solution of a sample of rows if one is factored at the start.

        The second value is whether the singular values of A, except for a few large ones, may be nearly equal.
        """
        if system.bounds is not None:
            return _descent_from(system, x0, tolerance, rng), True
        n_rows, spectrum = self._first_sample(system, tolerance.rtol, rng)
        if not n_rows:
            outliers = outliers_of(system, spectrum.common_directions)
            return _descent_from(system, x0, tolerance, rng, outliers=outliers, probe=probe), spectrum.even
        factor, order = self._factor(system, n_rows, rng)
        if factor.deficient or (factor.inverse_norm * factor.lengths.max()) ** 2 * EPS > NEGLIGIBLE:
            return _descent_from(system, x0, tolerance, rng, factor), spectrum.even
        noise = rng.standard_normal((1, system.n_columns))  # the error of the solution of a sample is due to noise
        factor.spread_noise(noise)
        x0 = _solution_of(system, order, factor, x0)
        return _descent_from(system, x0, tolerance, rng, factor, probe=noise[0] / norm(noise[0])), spectrum.even

    def _first_sample(self, system: System, rtol: float, rng: np.random.Generator) -> tuple[int, Spectrum]:
        """Return the number of rows to factor before the first pass, 0 for none; and what a look at some rows shows."""
        auto, digits, spectrum = self.preconditioner == "auto", -math.log(max(rtol, EPS)), Spectrum()
        n_rows, cost = cheapest_sample(system, digits, self.preconditioner)
        left = price_of_passes(system, passes_at_first(system, digits))
        if auto and cost > left and spectrum_estimate_pays(system):
            spectrum = look_at_spectrum(system, rng)
        pays = cost < math.inf and (cost <= left or not (auto and spectrum.even))
        sampled = self.preconditioner != "none" and pays and n_rows < system.n_rows
        in_time = not auto or system.clock.left == math.inf
        return n_rows if sampled and in_time else 0, spectrum

    def _factor(self, system: System, n_rows: int, rng: np.random.Generator) -> tuple[Factor, np.ndarray]:
        """Factor `n_rows` rows, or all if these are rank-deficient; return the factor and the rows."""
        whole = np.arange(system.n_rows)
        order = whole if n_rows == system.n_rows else np.sort(system.sample(n_rows, rng)[0])
        factor = factor_of(system, order)
        if factor.deficient and n_rows < system.n_rows:
            factor, order = factor_of(system, whole), whole  # only all rows determine the null space
        return factor, order

    def _rank_of(self, descent: Descent | BoxDescent, n_steps: int) -> Factor | None:
        """Return a factor with the rank of A if A is rank-deficient and this is cheap beside the steps so far."""
        system = descent.system
        wanted = self.preconditioner == "auto" and descent.probe.null_sq > 0.0
        if wanted and price_of_all(system) <= price_of_passes(system, LITTLE * n_steps):
            with suppress(TooLong):
                return factor_of(system, np.arange(system.n_rows))
        return descent.factor

    def _is_final(self, descent: Descent | BoxDescent, n_steps: int, *, at_its_end: bool) -> bool:
        """Return whether no further factor is allowed, whatever it costs."""
        if descent.factor is None:
            return self.preconditioner == "none"
        if descent.factor.n_rows == descent.system.n_rows:
            return True
        return not at_its_end and (self.preconditioner != "auto" or n_steps == 1)

    def _next_factor(
        self, descent: Descent | BoxDescent, slopes: list[np.ndarray], enough: np.ndarray, rtol: float,
        *, even: bool, at_its_end: bool,
    ) -> tuple[int, float]:  # fmt: skip
        """Return the number of rows of a factor that is allowed and pays, and its price; 0 rows if there is none.

        A factor pays if it costs less than the passes that it saves; from the start if the singular values of A are not
        `even`. All rows are factored if the factor of a sample is not a good preconditioner, for instance because some
        rows are much longer than others. Without a factor the descent may be `at_its_end` where rounding hides
        directions with small singular values.
        """
        system, auto = descent.system, self.preconditioner == "auto"
        if self._is_final(descent, len(slopes), at_its_end=at_its_end):
            return 0, math.inf
        n_factored = descent.factor.n_rows if descent.factor is not None else 0
        worst, digits = _digits_missing(descent, enough, rtol)
        only_all = self.preconditioner == "all" or n_factored > 0
        n_rows, cost = cheapest_sample(system, digits, "all" if only_all else self.preconditioner)
        if not auto:
            return n_rows, cost
        left, more = math.inf, 0.0
        if at_its_end:
            left = _passes_to_be_sure(len(slopes))
        elif even or n_factored:
            left, more = _passes_saved(descent, [float(slope[worst]) for slope in slopes], digits)
        left = min(left, system.clock.left / descent.passes.seconds)  # before the deadline, if there is one
        # A factor that cannot be computed has an infinite price.
        pays = cost < math.inf and cost + more <= price_of_passes(system, left)
        return n_rows if pays else 0, cost


def _digits_missing(descent: Descent | BoxDescent, enough: np.ndarray, rtol: float) -> tuple[int, float]:
    """Return which x is furthest from its solution, and the logarithm of the factor that its error must decrease by."""
    x, error = descent.vectors.x, descent.vectors.error
    worst = 0 if len(x) == 1 else int(np.argmax(np.nan_to_num(error / enough, posinf=math.inf)))  # 0 of 0 is 0
    return worst, math.log(error[worst] / enough[worst]) if x.any() else -math.log(max(rtol, EPS))


def _passes_saved(descent: Descent | BoxDescent, falls: list[float], digits: float) -> tuple[float, float]:
    """Return the number of passes that a factor saves, and by how much its price is higher than predicted.

    `falls` are the norms of the preconditioned gradient so far.
    """
    system, more = descent.system, 0.0
    if descent.factor is None and descent.probe.is_stuck:  # until gradients are dominated by rounding
        more = FACTOR_PRODUCT * system.n_columns**3  # pivoting, and a basis of the null space
        digits = math.log(max(falls[-1], EPS**2) / (EPS * max(falls)))
    left = passes_left(system, falls, digits)
    if len(falls) > 1:  # they fluctuate: a factor must not cost far more than the passes so far
        left = min(left, ORDER_OF_MAGNITUDE * len(falls))
    return left, more


def _passes_to_be_sure(n_steps: int) -> float:
    """Return the number of passes that all rows at once may cost if they only determine what rounding hides."""
    return max(ORDER_OF_MAGNITUDE * n_steps, MANY_PASSES)


def _descent_from(
    system: System, x0: np.ndarray, tolerance: Tolerance, rng: np.random.Generator, factor: Factor | None = None,
    outliers: Outliers | None = None, probe: np.ndarray | None = None,
) -> Descent | BoxDescent:  # fmt: skip
    """Return a descent that has not started; if a `probe` is given, the error of x0 resembles it."""
    estimator = ErrorEstimator(tolerance, np.atleast_2d(x0), warm=probe is None and bool(x0.any()))
    if system.bounds is not None:
        return BoxDescent(system, estimator, rng)
    return Descent(system, estimator, rng, factor, outliers, probe)


class _Gains:
    """Whether steps, and new gradients, still reduce the error.

    Attributes
    ----------
    slopes : list of ndarray of shape (k,)
        The norm of the preconditioned gradient of each x after each step with the same preconditioner.
    unconverged : ndarray of shape (k,)
        Which x are not accurate enough.
    tries : int
        The number of new gradients that have not halved the error.
    """

    def __init__(self, n_rhs: int) -> None:
        self.slopes: list[np.ndarray] = []
        self.unconverged = np.ones(n_rhs, dtype=bool)
        self.tries, self._error_at_start = 0, np.full(n_rhs, math.inf)

    def restart(self) -> None:
        """Start again with another preconditioner."""
        self.slopes.clear()
        self.tries, self._error_at_start = 0, np.full(len(self.unconverged), math.inf)

    def judge(self, descent: Descent | BoxDescent, enough: np.ndarray) -> None:
        """Set which x are `unconverged`; recompute a gradient that was only updated if it is not accurate enough."""
        n_steps, vectors = len(self.slopes), descent.vectors
        stalled = (n_steps > 2) & (vectors.steepness > SHRINKS * self.slopes[-3 if n_steps > 2 else 0])
        no_matter_what = 0.0 if descent.factor is not None else 1e-4  # with a factor only rounding can cause a stall
        tolerated = np.where(stalled, no_matter_what, SURE) * np.maximum(vectors.error, enough)
        self.unconverged = ~descent.is_below(enough)
        if descent.needs_new_gradient(tolerated):
            descent.start()
            error = descent.vectors.error
            self.unconverged = ~descent.is_below(enough)
            worse = (error >= SHRINKS * self._error_at_start)[self.unconverged].any()
            self.tries = self.tries + 1 if worse else 0
            least = self._error_at_start if descent.factor is not None else math.inf  # so that the loop ends
            self._error_at_start = np.minimum(error, least)

    def are_over(self, descent: Descent | BoxDescent) -> bool:
        """Return whether all x have converged, or further steps will not help; the error may still need the probe."""
        over = not self.unconverged.any() or self.tries >= TRIES
        return bool(over or (self.are_still(descent) and descent.probe.is_done(descent.vectors)))

    def are_still(self, descent: Descent | BoxDescent) -> bool:
        """Return whether no x that has not converged can be improved."""
        return bool(descent.vectors.still[:-1][self.unconverged].all())

    saved: ClassVar[dict[str, Kind]] = {
        "tries": integer(),
        "_error_at_start": array("k"),
        "unconverged": array("k", dtype=bool),
        "slopes": lambda value, sizes: list(array(None, "k")(value, sizes)),
    }
    derived: ClassVar[tuple[str, ...]] = ()

    def state(self) -> dict[str, Any]:
        """Return the state, with all slopes in one array."""
        return {**state_of(self), "slopes": np.reshape(self.slopes, (-1, len(self.unconverged)))}

    def restore(self, state: Any, sizes: Sizes) -> None:
        """Restore the state."""
        fill(self, state, sizes)


class _Steps:
    """The steps of one solve. The state is in the attributes, so that it can be saved between two steps."""

    def __init__(
        self, method: Refined, system: System, x0: np.ndarray, tolerance: Tolerance, rng: np.random.Generator,
        probe: np.ndarray | None,
    ) -> None:  # fmt: skip
        self.method, self.system, self.rng, self.probe = method, system, rng, probe
        self.estimator = ErrorEstimator(tolerance, np.atleast_2d(x0))
        self.descent: Descent | BoxDescent | None = None
        self.all_rows: AllRows | None = None  # while they are compressed
        self.squares_fail = False  # whether x could not be computed from them
        self.even = True  # whether the singular values of A may be nearly equal
        self.has_time_for_factor = True  # whether a factor is not known to end after the deadline
        self.gains = _Gains(system.n_rhs)

    def __iter__(self) -> Iterator[Step]:
        return self

    def __next__(self) -> Step:
        with np.errstate(all="ignore"):  # an x that overflows has an infinite error
            if self.descent is None and not self.squares_fail:
                step = self._at_once()
                if step is not None:
                    return step
            if self.all_rows is not None:
                step = self._with_all_rows(self.all_rows)
                if step is not None:
                    return step
            elif self.descent is not None:
                self.gains.slopes.extend(self.descent.advance(self.gains.unconverged, self._enough(self.descent)[0]))
                return self._judge(self.descent)
            descent = self.descent or self.start_descent()
            self.gains.slopes.append(descent.vectors.steepness)
            return self._judge(descent)

    def _enough(self, descent: Descent | BoxDescent) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the error at which each x is accurate enough, the one allowed, and the one due to rounding."""
        floor = descent.rounding_error(self.estimator.tolerance.eps)
        allowed = self.estimator.allowed(norms(descent.vectors.x))
        # Far from x* the rounding errors of A'r are larger.
        return np.maximum(allowed, floor if len(self.gains.slopes) > 1 else 0.0), allowed, floor

    def _at_once(self) -> Step | None:
        """Solve a small system; otherwise begin to compress all rows if that is fastest."""
        system, rtol = self.system, self.estimator.tolerance.rtol
        if self.all_rows is None and self.method.preconditioner in ("auto", "all") and self.probe is None:
            step = by_lapack(system, self.estimator) if self._is_small() else None
            if step is not None:
                return step
        if self.all_rows is None and self.method.takes_all(system, -math.log(max(rtol, EPS))):
            self.all_rows = self._compressor()
        return None

    def _is_small(self) -> bool:
        """Return whether the system is so small that LAPACK takes hardly any time."""
        system = self.system
        small = is_small(system.rows, system.n_rows, system.n_columns, system.n_rhs)
        return system.bounds is None and not system.stored and small and fits_lapack(system)

    def _compressor(self) -> AllRows:
        """Return an `AllRows`; with bounds it starts from the current x, and uses QR if squares do not determine x."""
        system, estimator = self.system, self.estimator
        if system.bounds is None:
            return AllRows(system, estimator)
        by_qr = self.squares_fail or (system.n_rows < system.n_columns and not system.damp)
        if self.descent is not None:
            estimator = ErrorEstimator(estimator.tolerance, self.descent.vectors.x)
        return AllRows(system, estimator, by_qr=by_qr)

    def _with_all_rows(self, all_rows: AllRows) -> Step | None:
        """Solve with all rows, by a triangle if squares do not determine x; return None if that is not possible."""
        step, system = all_rows.step(), self.system
        self.all_rows, self.squares_fail = None, step is None
        if step is not None:
            return step
        if system.bounds is not None and not all_rows.by_qr and has_time_for_qr(system):
            self.all_rows = self._compressor()
            return self._with_all_rows(self.all_rows)
        if system.bounds is None and fits_lapack(system) and not isinstance(system.rows, CSRRows):
            return by_lapack(system, self.estimator, by_qr=True)
        return None

    def start_descent(self) -> Descent | BoxDescent:
        """Begin the descent, which takes passes over the data."""
        x0, tolerance = self.estimator.x0, self.estimator.tolerance
        descent, self.even = self.method._begin(self.system, x0, tolerance, self.rng, self.probe)
        descent.start()
        self.descent = descent
        return descent

    @property
    def can_be_saved(self) -> bool:
        """Whether a pass is under way that can be resumed."""
        if self.all_rows is not None:
            return self.all_rows.compressing
        return self.descent is not None and self.descent.passes.under_way is not None

    def _judge(self, descent: Descent | BoxDescent) -> Step:
        """Return a step with the error of x, and a status at the end; compute a factor if needed and if it pays."""
        eps, factor = self.estimator.tolerance.eps, descent.factor
        enough, allowed, floor = self._enough(descent)
        self.gains.judge(descent, enough)
        findings = _findings_of(descent, factor, descent.residual.certain_norm)
        ended, wanting = self.gains.are_over(descent), not self.gains.are_still(descent)
        error = np.maximum(descent.vectors.error, floor)
        if ended:
            floor = descent.rounding_error(eps)  # a new gradient may have improved the probe
            of_all = descent.rounding_error(eps, at_its_end=True)
            error = np.maximum(error, of_all)
            explained = ORDER_OF_MAGNITUDE * of_all * (factor is not None)
            half = math.sqrt(EPS) * norms(descent.vectors.x)
            wanting = bool((error > np.maximum.reduce([allowed, half, explained])).any())
        compress = wanting and self._improve(descent, enough, at_its_end=ended)
        if ended and not compress and descent.factor is factor:
            return self._finish(descent, error, allowed, findings)
        return Step(descent.vectors.x, np.maximum(descent.vectors.error, floor), findings=findings)

    def _improve(self, descent: Descent | BoxDescent, enough: np.ndarray, *, at_its_end: bool) -> bool:
        """Compute a factor if one pays; return True if all rows are to be compressed instead."""
        if not self.has_time_for_factor:
            return False
        system, slopes, rtol = self.system, self.gains.slopes, self.estimator.tolerance.rtol
        n_rows, cost = self.method._next_factor(descent, slopes, enough, rtol, even=self.even, at_its_end=at_its_end)
        if n_rows == system.n_rows and cost < math.inf and not self.squares_fail:
            self.all_rows = self._compressor()
            return True
        if not n_rows or isinstance(descent, BoxDescent):
            return False
        try:
            factor = self.method._factor(system, n_rows, self.rng)[0]
        except TooLong:  # passes can be interrupted: continue until the deadline
            self.has_time_for_factor = False
            return False
        descent.precondition(factor)
        self.gains.restart()
        return False

    def _finish(
        self, descent: Descent | BoxDescent, error: np.ndarray, allowed: np.ndarray, findings: Findings
    ) -> Step:  # fmt: skip
        """Return the last step; or begin to compress all rows if an x within bounds is not known to be optimal."""
        system, n_steps, good = self.system, len(self.gains.slopes), bool((error <= allowed).all())
        findings = _findings_of(descent, self.method._rank_of(descent, n_steps), findings.residual_norm)
        if isinstance(descent, BoxDescent):
            optimality, is_optimal = descent.certify(float(allowed[0]))
            good, findings = good and is_optimal, findings._replace(optimality=optimality)
            passes = _passes_to_be_sure(n_steps)
            if not good and not self.squares_fail and price_of_all(system) <= price_of_passes(system, passes):
                self.all_rows = self._compressor()  # a null space, perhaps
                return Step(descent.vectors.x, error, findings=findings)
        x, status = descent.vectors.x, Status.CONVERGED if good else Status.PRECISION
        return Step(x, error, status, descent.residual.norm(system.damp**2 * products(x, x)), findings)

    saved: ClassVar[dict[str, Kind]] = dict.fromkeys(("even", "squares_fail"), flag)
    derived: ClassVar[tuple[str, ...]] = (
        "method", "system", "rng", "probe", "estimator", "descent", "all_rows", "gains",
        "has_time_for_factor",  # there may be more time when the solve is resumed
    )  # fmt: skip

    def state(self) -> dict[str, Any]:
        """Return the state of the steps."""
        parts = {name: packed(getattr(self, name)) for name in ("gains", "descent", "all_rows")}
        return {**state_of(self), **parts}

    def restore(self, state: Any) -> None:
        """Continue from a saved state."""
        fill(self, state, self.system.sizes, besides=("gains", "descent", "all_rows"))
        self.gains.restore(state["gains"], self.system.sizes)
        if state["descent"] is not None:
            x0, tolerance = self.estimator.x0, self.estimator.tolerance
            self.descent = _descent_from(self.system, x0, tolerance, self.rng)
            self.descent.restore(state["descent"], self.gains.unconverged)
        if state["all_rows"] is not None:
            self.all_rows = self._compressor()
            self.all_rows.restore(state["all_rows"])


def _findings_of(descent: Descent | BoxDescent, factor: Factor | None, residual_norm: float) -> Findings:
    """Return the findings of a descent, and of a factor of the rows if there is one."""
    if factor is not None:
        return Findings(factor.rank, factor.has_gap, residual_norm=residual_norm)
    return Findings(0 if descent.probe.shows_zero else None, residual_norm=residual_norm)


def _solution_of(system: System, order: np.ndarray, factor: Factor, x0: np.ndarray) -> np.ndarray:
    """Return the least-squares solution of the rows in `order`, by a step from `x0` with their factor.

    With noise it is about as close to the least-squares solution of all rows as a few passes would get.
    """
    starts, p = np.atleast_2d(x0), system.n_columns
    vectors, b = laid_out(system.rows, np.vstack([starts, np.zeros(p)])), system.b.reshape(system.n_rows, -1)
    total, sums = np.zeros_like(vectors), {}

    def add(part: Part, start: int, stop: int, _: np.ndarray) -> None:
        own = sums[start] = np.zeros_like(vectors)
        add_gradients_of_many(part.rows, part.of(b), 1.0, part.order[start:stop], vectors, own, np.zeros(len(vectors)))

    for part in system.parts(order):
        sums.clear()
        system.in_slices(partial(add, part), 0, part.order.size, part.order.size * system.entries_per_row * len(starts))
        total += np.sum([sums[start] for start in sorted(sums)], axis=0)  # the same in any order of the threads
    system.counter.add(order.size)
    step = (system.n_rows / order.size) * total[:-1] - system.damp**2 * starts
    factor.solve(step)
    x = (starts + step).reshape(x0.shape)
    return x if np.isfinite(x).all() else x0
