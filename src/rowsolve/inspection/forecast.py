"""The prediction of how long each method takes: its speed, measured on a part of A, times the work."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rowsolve._solution import History, Status
from rowsolve.engine.run import Run
from rowsolve.engine.stage import Context, Stage
from rowsolve.engine.warmup import warm_up
from rowsolve.estimate.monitor import Monitor, fewest_rows_left, rows_left
from rowsolve.estimate.tolerance import Tolerance
from rowsolve.inspection.report import Condition, Prediction
from rowsolve.inspection.sample import Fit
from rowsolve.kernels.gradient import add_gradients
from rowsolve.kernels.rows import CSRRows, DenseRows, frozen
from rowsolve.lstsq.factor import find_odd_rows
from rowsolve.methods import ClusterBlock, Deflated, Direct, Method, Randomized, Refined
from rowsolve.policy.auto import another_method_is_faster, has_common_directions
from rowsolve.policy.least_squares import cheapest_sample, passes_at_first, price_of_passes
from rowsolve.policy.prices import LONG_BREAK, RANDOM_NUMBER
from rowsolve.policy.prices import sample as price_of_square
from rowsolve.policy.thresholds import (
    FEWEST_IN_MEAN,
    HARDLY_MORE,
    MOST_COLUMNS,
    NUMBERS_OF_A_SAMPLE,
    ROWS_TO_CHECK,
    SAMPLE_ROWS_EACH,
    SAMPLED_COLUMNS,
    SPOTS,
    TRIES,
)
from rowsolve.problem.system import System
from rowsolve.sources import Source

__all__ = ["Timings", "load_kernels", "measure", "predict"]

_RANDOM_ROWS = Randomized("uniform", replace=False)  # as auto uses it
_INCONSISTENT, _SUSPICION = "the system is inconsistent", "the system seems inconsistent"


class DirectSolve(NamedTuple):
    """The cost of 'direct', and its final status; None if only a part of it was run."""

    rows: float
    seconds: float
    ending: Status | None


@dataclass(frozen=True)
class Timings:
    """The measurements.

    Attributes
    ----------
    run : Run
        Some bursts of random rows.
    deflated : Run or None
        The same after deflating the common directions of the rows, if these slow down the convergence.
    seconds_a_pass : float
        The time of a step of 'refined', which reads all rows.
    direct : DirectSolve or None
        The cost of 'direct'; None if it cannot be extrapolated from a smaller system.
    """

    run: Run
    deflated: Run | None
    seconds_a_pass: float
    direct: DirectSolve | None

    @property
    def slowness(self) -> float | None:
        """The number of rows needed relative to a well-conditioned A, as far as it is known."""
        return _slowness_of(self.run)

    @property
    def rows_checked(self) -> int:
        """The number of rows that are checked at the end."""
        return min(ROWS_TO_CHECK, self.run.context.system.n_rows)


def load_kernels(source: Source, threads: int) -> None:
    """Compile all kernels that `inspect` uses, or load them from the cache."""
    sampled = source.take(np.zeros(1, np.int64), np.ones(1))
    methods: list[tuple[Method, Source]] = [(method, source) for method in (_RANDOM_ROWS, Refined("none"), Direct())]
    methods += [(method, sampled) for method in (Direct(), Refined("all"), ClusterBlock())]
    for method, rows in methods:
        warm_up(method, rows, threads)


def measure(system: System, tolerance: Tolerance, rng: np.random.Generator) -> Timings:
    """Time random rows, passes and a direct solve on parts of A."""
    run, deflated, without = _take_rows(_RANDOM_ROWS, system, tolerance, rng), None, Deflated("rows")
    monitor = run.iterates.monitor
    is_slow = another_method_is_faster(monitor) and not monitor.suspicious
    if has_common_directions(system, Status.SLOW if is_slow else Status.STOPPED, rng):
        system.clock.pause(warm_up(without, system.source, system.limits.threads))
        deflated = _take_rows(without, system, tolerance, rng)
    return Timings(run, deflated, _time_a_pass(system), _time_direct(system, tolerance, rng))


def _take_rows(method: Method, system: System, tolerance: Tolerance, rng: np.random.Generator) -> Run:
    """Run a method on random rows for a while."""
    p = system.n_columns
    wanted = max(min(SAMPLE_ROWS_EACH * p, LONG_BREAK / RANDOM_NUMBER / system.entries_per_row), 4 * p)

    def enough(monitor: Monitor) -> Status | None:
        return (
            Status.STOPPED if monitor.bursts.n_rows >= wanted and len(monitor.bursts.rows) >= FEWEST_IN_MEAN else None
        )

    most = system.counter.rows_read + 4 * max(wanted, 256)  # else inconsistent rows would prolong it
    context = Context(system, tolerance, rng, History())
    run = Run(context, Stage(method, np.zeros(p), most, give_up=enough))
    if run.go().status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    return run


def _time_a_pass(system: System) -> float:
    """Time gradients over the first rows; return the extrapolated time of a pass over all rows."""
    n_rows = min(system.n_rows, max(SPOTS, int(NUMBERS_OF_A_SAMPLE / system.entries_per_row)))
    vectors, sums, seconds = np.ones((2, system.n_columns)), [], []

    def add(start: int, stop: int, _: np.ndarray) -> None:
        out = np.zeros_like(vectors)
        add_gradients(system.rows, system.b, 1.0, start, stop, vectors, out, np.zeros(2))
        sums.append(out)

    for _ in range(TRIES):
        started = time.perf_counter()
        system.in_slices(add, 0, n_rows, n_rows * system.entries_per_row)
        seconds.append(time.perf_counter() - started)
    system.counter.add(TRIES * n_rows)
    if not np.isfinite(sums).all():
        find_odd_rows(system, np.arange(n_rows))
    return min(seconds) * system.n_rows / n_rows


def _time_direct(system: System, tolerance: Tolerance, rng: np.random.Generator) -> DirectSolve | None:
    """Time 'direct', on a part of the columns if there are many; return the cost for all of them."""
    p, columns = system.n_columns, min(system.n_columns, SAMPLED_COLUMNS)
    if p > MOST_COLUMNS or (isinstance(system.rows, CSRRows) and p > columns):
        return None
    part = system
    if p > columns:
        order = np.sort(system.sample(min(system.n_rows, 2 * columns), rng)[0])
        values = np.ascontiguousarray(system.rows.values[:, :columns][order], dtype=float)
        source = Source(DenseRows(frozen(values)), values.shape, float(columns), 0.0)
        part = System(source, frozen(values.sum(axis=1)), system.clock, system.limits.threads)
    read, seconds = part.counter.rows_read, math.inf
    for _ in range(TRIES):
        started = time.perf_counter()
        step = next(iter(Direct().steps(part, np.zeros(columns), tolerance, rng)))
        seconds = min(seconds, time.perf_counter() - started)
    rows, ending = (part.counter.rows_read - read) / TRIES, step.status or Status.CONVERGED
    seconds *= price_of_square(p) / price_of_square(columns)
    return DirectSolve(rows * p / columns, seconds, ending if part is system else None)


def predict(timings: Timings, found: Fit | None, condition: Condition | None, rtol: float) -> tuple[Prediction, ...]:
    """Return a prediction for each method that auto may use."""
    runs = [run for run in (timings.run, timings.deflated) if run is not None]
    rows = [_random_rows(run, timings.rows_checked, found, rtol) for run in runs]
    return (*rows, _direct(timings, found), _refined(timings, found, condition, rtol))


def _random_rows(run: Run, n_checked: int, found: Fit | None, rtol: float) -> Prediction:
    method, monitor, reaches = run.method.name, run.iterates.monitor, _reaches(found, rtol)
    if reaches is False or (reaches is None and monitor.suspicious):
        return Prediction(method, reaches=reaches, remark=_SUSPICION if reaches is None else _INCONSISTENT)
    known, left = _is_well_conditioned(_slowness_of(run)), 0.0
    if not monitor.error <= monitor.allowed:
        left = rows_left(monitor) if known else fewest_rows_left(monitor)
    rows = monitor.bursts.n_rows + left + n_checked
    if not math.isfinite(rows):
        return Prediction(method, reaches=reaches, remark="unknown convergence rate")
    at_least = left > 0.0 and not known
    remark = "convergence slows down" if at_least else ""
    return Prediction(method, rows, rows * _seconds_a_row(run), at_least, reaches, remark)


def _reaches(found: Fit | None, rtol: float) -> bool | None:
    """Return whether x reaches `rtol` by projections on one row after another; None if the noise is unknown."""
    if found is None or found.noise.relative is None:
        return None
    return found.noise.n_wild == 0 and found.noise_in_x <= rtol


def _is_well_conditioned(slowness: float | None) -> bool:
    return slowness is not None and slowness < HARDLY_MORE


def _slowness_of(run: Run) -> float | None:
    """Return the number of rows needed relative to a well-conditioned A; None if it is unknown."""
    pace = run.iterates.monitor.bursts.rate[0]
    return 1.0 / (pace * run.context.system.n_columns) if pace > 0.0 else None


def _seconds_a_row(run: Run) -> float:
    seconds = np.diff([run.progress.prepared_at, *run.context.history.seconds])
    rows = np.diff([run.progress.rows_prepared, *run.context.history.rows_read])
    return float(np.median(seconds / np.maximum(rows, 1)))


def _direct(timings: Timings, found: Fit | None) -> Prediction:
    if timings.direct is None:
        many = timings.run.context.system.n_columns > MOST_COLUMNS
        return Prediction("direct", remark="too many columns" if many else "not timed: sparse rows")
    rows, seconds, ending = timings.direct
    if ending is Status.INCONSISTENT or (found is not None and found.noise.n_wild):
        return Prediction("direct", reaches=False, remark=_INCONSISTENT)
    if ending is None and timings.run.iterates.monitor.suspicious:
        return Prediction("direct", remark=_SUSPICION)
    remark = "limited by rounding" if ending is Status.PRECISION else ""
    return Prediction(
        "direct", rows + timings.rows_checked, seconds, reaches=None if ending is None else not remark, remark=remark
    )


def _refined(timings: Timings, found: Fit | None, condition: Condition | None, rtol: float) -> Prediction:
    """Predict the cost of conjugate gradients, with or without a factor, as 'refined' decides."""
    system = timings.run.context.system
    n, p, digits = system.n_rows, system.n_columns, -math.log(max(rtol, 1e-16))
    m, price = cheapest_sample(system, digits)
    cost = price / price_of_passes(system, 1.0)
    at_once = cost <= passes_at_first(system, digits)
    watched = 1.0 if at_once else float(FEWEST_IN_MEAN)
    plain, known = _passes_without_factor(timings, condition, digits)
    if cost == math.inf or (not at_once and known and plain < watched + cost):
        rows, seconds, at_least = plain * n, plain * timings.seconds_a_pass, not known
    elif m == n:  # all rows are compressed
        passes = (0.0 if at_once else watched) + 1.0
        seconds = (passes - 1.0 + cost) * timings.seconds_a_pass
        return Prediction("refined", passes * n, seconds, reaches=True, remark="least squares")
    else:
        after = 2.0 * digits / math.log(m / p)
        factor = (cost - after) * timings.seconds_a_pass
        if found is not None:
            factor = found.seconds * (m + p / 3) / (found.noise.n_rows + p / 3)
        passes = watched + 1.0 + after
        rows, seconds, at_least = passes * n + m, passes * timings.seconds_a_pass + factor, False
    return Prediction("refined", rows + timings.rows_checked, seconds, at_least, reaches=True, remark="least squares")


def _passes_without_factor(timings: Timings, condition: Condition | None, digits: float) -> tuple[float, bool]:
    """Return the passes of conjugate gradients without a factor, and whether they are known or a lower bound.

    A pass reduces the error by a factor ``(k - 1) / (k + 1)``, where k is the condition number. It is estimated by the
    geometric mean of the lower bound from the sample, which is right for an even spectrum, and that of the sample,
    which is right for a steep one; and it is at least that of a random matrix.
    """
    ratio = math.sqrt(min(timings.run.context.system.n_columns / timings.run.context.system.n_rows, 0.5))
    k = max(math.sqrt(condition.least * condition.sampled) if condition else 1.0, (1.0 + ratio) / (1.0 - ratio))
    known = condition is not None or _is_well_conditioned(timings.slowness)
    return 1.0 + (digits + math.log(2.0)) / math.log((k + 1.0) / (k - 1.0)), known
