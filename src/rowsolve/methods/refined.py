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
from rowsolve.checkpoint.state import Kind, array, fill, flag, integer, packed, state_of
from rowsolve.estimate.step import Findings, Step
from rowsolve.estimate.tolerance import Tolerance
from rowsolve.kernels.many import add_gradients_of_many, laid_out
from rowsolve.kernels.rows import CSRRows
from rowsolve.lstsq.all_rows import AllRows, by_lapack
from rowsolve.lstsq.box_descent import BoxDescent
from rowsolve.lstsq.descent import Descent
from rowsolve.lstsq.factor import Factor, factor_of
from rowsolve.lstsq.spectrum import Spectrum, look_at_spectrum, outliers_of
from rowsolve.methods.base import Capabilities, StepMethod, one_of
from rowsolve.parallel.vectors import norm, norms
from rowsolve.policy.least_squares import (
    cheapest_sample,
    fits_lapack,
    has_time_for_qr,
    is_small,
    passes_at_first,
    passes_left,
    price_of_all,
    price_of_passes,
    worth_a_look,
)
from rowsolve.policy.prices import BEGIN, FACTOR_PRODUCT, MANY_PASSES, SMALL_BOX, SQUARES
from rowsolve.problem.clock import TooLong
from rowsolve.problem.reader import Part
from rowsolve.problem.system import System

__all__ = ["Refined"]

_MOST_PASSES = 1e6  # that a factor may cost
_STALLED = 16.0  # times the passes so far, that a factor may cost even if they have not reduced the error
_EPS = float(np.finfo(float).eps)
_FOR_THE_RANK = 0.1  # times the passes so far
_HALF_OF_THE_DIGITS = 1e-8  # relative error
_BEYOND = 10.0  # times the error that rounding explains
_FEW_DIGITS = 0.01  # the initial x from the squares of A must be at least this accurate
_TRIES = 2  # new gradients that do not halve the error, before this is attributed to rounding


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
            system.limits.make_sure_of_room(8.0 * SQUARES * system.n_columns**2, "a factor of the rows")
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
        self, system: System, x0: np.ndarray, rtol: float, rng: np.random.Generator, probe: np.ndarray | None
    ) -> tuple[Descent, bool]:
        """Return a descent from `x0`, or from the solution of a sample of rows if one is factored at the start.

        The second value is whether the singular values of A, except for a few large ones, may be nearly equal.
        """
        if system.bounds is not None:
            return BoxDescent(system, x0, rng), True
        auto, digits, spectrum = self.preconditioner == "auto", -math.log(max(rtol, _EPS)), Spectrum()
        n_rows, cost = cheapest_sample(system, digits, self.preconditioner)
        left = price_of_passes(system, passes_at_first(system, digits))
        if auto and cost > left and worth_a_look(system):
            spectrum = look_at_spectrum(system, rng)
        pays = cost <= (left if auto and spectrum.even else price_of_passes(system, _MOST_PASSES))
        sampled = self.preconditioner != "none" and pays and n_rows < system.n_rows
        if not sampled or (auto and system.clock.left < math.inf):
            outliers = outliers_of(system, spectrum.shared)
            return Descent(system, x0, rng, outliers=outliers, probe=probe), spectrum.even
        factor, order = self._factor(system, n_rows, rng)
        if factor.deficient or (factor.spread * factor.lengths.max()) ** 2 * _EPS > _FEW_DIGITS:
            return Descent(system, x0, rng, factor), spectrum.even
        probe = rng.standard_normal((1, system.n_columns))  # the error of the solution of a sample is due to noise
        factor.spread_noise(probe)
        x0 = _solution_of(system, order, factor, x0)
        return Descent(system, x0, rng, factor, probe=probe[0] / norm(probe[0])), spectrum.even

    def _factor(self, system: System, n_rows: int, rng: np.random.Generator) -> tuple[Factor, np.ndarray]:
        """Factor `n_rows` rows, or all if these are rank-deficient; return the factor and the rows."""
        whole = np.arange(system.n_rows)
        order = whole if n_rows == system.n_rows else np.sort(system.sample(n_rows, rng)[0])
        factor = factor_of(system, order)
        if factor.deficient and n_rows < system.n_rows:
            factor, order = factor_of(system, whole), whole  # only all rows determine the null space
        return factor, order

    def _rank_of(self, descent: Descent, n_steps: int) -> Factor | None:
        """Return a factor with the rank of A if A is rank-deficient and this is cheap beside the steps so far."""
        system = descent.system
        wanted = self.preconditioner == "auto" and descent.found_null_space
        if wanted and price_of_all(system) <= price_of_passes(system, _FOR_THE_RANK * n_steps):
            with suppress(TooLong):
                return factor_of(system, np.arange(system.n_rows))
        return descent.factor

    def _precondition(
        self, descent: Descent, slopes: list[np.ndarray], enough: np.ndarray, rtol: float, rng: np.random.Generator,
        *, even: bool, at_its_end: bool = False,
    ) -> bool:  # fmt: skip
        """Compute a factor if one is allowed and pays, that is, if it costs less than the passes that it saves.

        Return True instead if all rows are to be compressed.

        A factor pays from the start if the singular values of A are not `even`. All rows are factored if the factor of
        a sample is not a good preconditioner, for instance because some rows are much longer than others. Without a
        factor the descent may be `at_its_end` where rounding hides directions with small singular values.
        """
        system, auto = descent.system, self.preconditioner == "auto"
        n_factored = descent.factor.n_rows if descent.factor is not None else 0
        final = n_factored == system.n_rows or (n_factored > 0 and not at_its_end and (not auto or len(slopes) == 1))
        if final or self.preconditioner == "none" or descent.no_time_for_factor:
            return False
        alone = system.n_rhs == 1
        worst = 0 if alone else int(np.argmax(np.nan_to_num(descent.error / enough, posinf=math.inf)))  # 0 of 0 is 0
        digits = math.log(descent.error[worst] / enough[worst]) if descent.x.any() else -math.log(max(rtol, _EPS))
        only_all = self.preconditioner == "all" or n_factored > 0
        n_rows, cost = cheapest_sample(system, digits, "all" if only_all else self.preconditioner)
        left = math.inf
        if at_its_end:
            left = max(_STALLED * len(slopes), MANY_PASSES)
        elif even or n_factored:
            falls = [float(slope[worst]) for slope in slopes]
            if descent.is_stuck:  # the error is known only when gradients are dominated by rounding
                cost += FACTOR_PRODUCT * system.n_columns**3  # pivoting, and a basis of the null space
                digits = math.log(max(falls[-1], _EPS**2) / (_EPS * max(falls)))
            left = passes_left(system, falls, digits)
            if len(slopes) > 1:  # they fluctuate: a factor must not cost far more than the passes so far
                left = min(left, _STALLED * len(slopes))
        affordable = system.clock.left / descent.seconds_a_pass  # before the deadline, if there is one
        if auto and not cost <= price_of_passes(system, min(left, affordable, _MOST_PASSES)):
            return False  # a factor that cannot be computed has an infinite price
        if n_rows == system.n_rows and cost < math.inf and not descent.squares_fail:
            return True
        if system.bounds is not None:
            return False
        try:
            factor = self._factor(system, n_rows, rng)[0]
        except TooLong:  # passes can be interrupted: continue until the deadline
            descent.no_time_for_factor = True
            return False
        descent.precondition(factor)
        slopes.clear()  # they were not preconditioned
        return False


class _Steps:
    """The steps of one solve. The state is in the attributes, so that it can be saved between two steps."""

    def __init__(
        self, method: Refined, system: System, x0: np.ndarray, tolerance: Tolerance, rng: np.random.Generator,
        probe: np.ndarray | None,
    ) -> None:  # fmt: skip
        self.method, self.system, self.x0, self.tolerance, self.rng = method, system, x0, tolerance, rng
        self.probe, self.even = probe, True
        self.descent: Descent | None = None
        self.all_rows: AllRows | None = None  # while they are compressed
        self.squares_fail = False  # whether x could not be computed from them
        self.norms_x0, self.tries, self.error_at_start = norms(np.atleast_2d(x0)), 0, np.full(system.n_rhs, math.inf)
        self.slopes: list[np.ndarray] = []
        self.behind = np.ones(system.n_rhs, dtype=bool)
        self.findings = Findings()

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
                self.slopes += self.descent.advance(self.behind, self._enough(self.descent)[0])
                return self._judge(self.descent, self.slopes)
            descent = self.descent or self.set_out()
            self.slopes.append(descent.steepness)
            return self._judge(descent, self.slopes)

    def _enough(self, descent: Descent) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the error at which each x is accurate enough, the one allowed, and the one due to rounding."""
        floor = descent.rounding(self.tolerance.eps)
        allowed = self.tolerance.at(norms(descent.x), self.norms_x0)
        # Far from x* the rounding errors of A'r are larger.
        return np.maximum(allowed, floor if len(self.slopes) > 1 else 0.0), allowed, floor

    def _at_once(self) -> Step | None:
        """Solve a small system; otherwise begin to compress all rows if that is fastest."""
        system, rtol = self.system, self.tolerance.rtol
        if self.all_rows is None and self.method.preconditioner in ("auto", "all") and self.probe is None:
            step = by_lapack(system, self.x0, self.tolerance) if self._is_small() else None
            if step is not None:
                return step
        if self.all_rows is None and self.method.takes_all(system, -math.log(max(rtol, _EPS))):
            self.all_rows = self._compressor()
        return None

    def _is_small(self) -> bool:
        """Return whether the system is so small that LAPACK takes hardly any time."""
        system = self.system
        small = is_small(system.rows, system.n_rows, system.n_columns, system.n_rhs)
        return system.bounds is None and not system.stored and small and fits_lapack(system)

    def _compressor(self) -> AllRows:
        """Return an `AllRows`; with bounds it starts from the current x, and uses QR if squares do not determine x."""
        system = self.system
        if system.bounds is None:
            return AllRows(system, self.x0, self.tolerance)
        by_qr = self.squares_fail or (system.n_rows < system.n_columns and not system.damp)
        start = self.x0 if self.descent is None else self.descent.x[0]
        return AllRows(system, start, self.tolerance, by_qr=by_qr)

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
            return by_lapack(system, self.x0, self.tolerance, by_qr=True)
        if self.descent is not None:
            self.descent.squares_fail = True
        return None

    def set_out(self) -> Descent:
        """Begin the descent, which takes passes over the data."""
        self.descent, self.even = self.method._begin(self.system, self.x0, self.tolerance.rtol, self.rng, self.probe)
        self.descent.squares_fail = self.squares_fail
        return self.descent

    @property
    def can_be_saved(self) -> bool:
        """Whether a pass is under way that can be resumed."""
        if self.all_rows is not None:
            return self.all_rows.compressing
        return self.descent is not None and self.descent.under_way is not None

    def _judge(self, descent: Descent, slopes: list[np.ndarray]) -> Step:
        """Return a step with the error of x, and a status at the end; compute a factor if needed and if it pays."""
        enough, allowed, floor = self._enough(descent)
        self._renew_gradient(descent, slopes, enough)
        uncertain_sq = np.maximum(descent.residual_sq - descent.uncertainty_sq, 0.0)
        self.findings = _findings_of(descent, descent.factor, math.sqrt(float(uncertain_sq.sum())))
        still = descent.still[:-1][self.behind].all()  # no x can be improved; the error may need the probe
        ended = bool(not self.behind.any() or self.tries > _TRIES or (still and descent.probe_is_done))
        error, factor, wanting = np.maximum(descent.error, floor), descent.factor, not still
        if ended:  # only then do the solves for the inherited error pay
            floor = descent.rounding(self.tolerance.eps)  # a new gradient may have improved the probe
            error = np.maximum.reduce([error, floor, descent.inherited])
            explained = _BEYOND * np.maximum(floor, descent.inherited) * (factor is not None)
            wanting = (error > np.maximum.reduce([allowed, _HALF_OF_THE_DIGITS * norms(descent.x), explained])).any()
        if wanting:
            take_all = self.method._precondition(
                descent, slopes, enough, self.tolerance.rtol, self.rng, even=self.even, at_its_end=ended
            )
            if take_all:
                self.all_rows = self._compressor()
                return Step(descent.x, np.maximum(descent.error, floor), findings=self.findings)
            if descent.factor is not factor:
                self.tries, self.error_at_start, ended = 0, np.full_like(error, math.inf), False
        if ended:
            ranked = self.method._rank_of(descent, len(slopes))
            self.findings = _findings_of(descent, ranked, self.findings.residual_norm)
            good = bool((error <= allowed).all())
            if isinstance(descent, BoxDescent):
                good &= descent.is_optimal(float(allowed[0]))
                self.findings = self.findings._replace(optimality=descent.optimality)
                if not good and not self.squares_fail and self._can_be_sure():  # a null space, perhaps
                    self.all_rows = self._compressor()
                    return Step(descent.x, error, findings=self.findings)
            status = Status.CONVERGED if good else Status.PRECISION
            return Step(descent.x, error, status, descent.residual, self.findings)
        return Step(descent.x, np.maximum(descent.error, floor), findings=self.findings)

    def _can_be_sure(self) -> bool:
        """Return whether all rows at once cost little compared with the passes so far."""
        passes = max(_STALLED * len(self.slopes), MANY_PASSES)
        return price_of_all(self.system) <= price_of_passes(self.system, passes)

    def _renew_gradient(self, descent: Descent, slopes: list[np.ndarray], enough: np.ndarray) -> None:
        """Set which x are `behind`; recompute a gradient that was only updated if it is not accurate enough."""
        stalled = (len(slopes) > 2) & (descent.steepness > 0.5 * slopes[-3 if len(slopes) > 2 else 0])
        no_matter_what = 0.0 if descent.factor is not None else 1e-4  # with a factor only rounding can cause a stall
        tolerated = np.where(stalled, no_matter_what, 0.1) * np.maximum(descent.error, enough)
        self.behind = ~descent.is_below(enough)
        if not descent.fresh and ((descent.drift > tolerated).any() or descent.seems_still):
            descent.start()
            self.behind = ~descent.is_below(enough)
            worse = (descent.error >= 0.5 * self.error_at_start)[self.behind].any()
            self.tries = self.tries + 1 if worse else 0
            least = self.error_at_start if descent.factor is not None else math.inf  # so that the loop ends
            self.error_at_start = np.minimum(descent.error, least)

    saved: ClassVar[dict[str, Kind]] = {
        **dict.fromkeys(("even", "squares_fail"), flag),
        "tries": integer(),
        **dict.fromkeys(("norms_x0", "error_at_start"), array("k")),
        "behind": array("k", dtype=bool),
        "slopes": lambda value, sizes: list(array(None, "k")(value, sizes)),
    }
    derived: ClassVar[tuple[str, ...]] = (
        "method",
        "system",
        "x0",
        "tolerance",
        "rng",
        "probe",
        "descent",
        "all_rows",
        "findings",
    )

    def state(self) -> dict[str, Any]:
        """Return the state of the steps."""
        slopes = np.reshape(self.slopes, (-1, self.system.n_rhs))  # in one array
        return {
            **state_of(self), "slopes": slopes, "descent": packed(self.descent), "all_rows": packed(self.all_rows)
        }  # fmt: skip

    def restore(self, state: Any) -> None:
        """Continue from a saved state."""
        fill(self, state, self.system.sizes, besides=("descent", "all_rows"))
        kind = Descent if self.system.bounds is None else BoxDescent
        if state["descent"] is not None:
            self.descent = kind.from_state(self.system, self.rng, state["descent"], self.behind)
            self.descent.squares_fail = self.squares_fail
        if state["all_rows"] is not None:
            self.all_rows = self._compressor()
            self.all_rows.restore(state["all_rows"])


def _findings_of(descent: Descent, factor: Factor | None, residual_norm: float) -> Findings:
    """Return the findings of a descent, and of a factor of the rows if there is one."""
    if factor is not None:
        return Findings(factor.rank, factor.has_gap, residual_norm=residual_norm)
    return Findings(0 if descent.is_zero else None, residual_norm=residual_norm)


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
