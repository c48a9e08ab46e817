"""Several steps of conjugate gradients in one call of a kernel, where passes over A are short."""

from __future__ import annotations

from functools import partial

import numpy as np

from rowsolve.kernels.descent import Limits, Steps, step_workspace
from rowsolve.kernels.rounds import cancel, new_progress, run_rounds
from rowsolve.parallel.pool import run_as_one
from rowsolve.policy.thresholds import FEWEST_IN_MEAN, NUMBERS_IN_CACHE, POLLS_PER_NUMBER, WORK_OF_A_BURST
from rowsolve.problem.system import System

__all__ = ["steps_at_once", "take_steps"]


def steps_at_once(system: System, *, fresh: bool) -> int:
    """Return the number of steps in one call: several if they take no longer than a burst, else one.

    They are more if the last gradient is not `fresh`: then it is known that many are needed.
    """
    if system.n_rhs > 1 or system.stored:
        return 1
    numbers = system.n_rows * system.entries_per_row
    if numbers > WORK_OF_A_BURST:
        return 1
    steps = FEWEST_IN_MEAN
    if not fresh:
        steps = max(steps, min(4 * FEWEST_IN_MEAN, int(NUMBERS_IN_CACHE / numbers)))
    return int(min(steps, (system.counter.max_rows - system.counter.rows_read) / system.n_rows))


def take_steps(
    system: System, n_steps: int, vectors: tuple[np.ndarray, ...], scalars: list[float], limits: Limits
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Take up to `n_steps`, on all threads; return the `vectors` and `scalars` at the end, and what was seen.

    See `rowsolve.kernels.descent.Course` for all three.
    """
    work = system.n_rows * system.entries_per_row
    n_threads = system.limits.threads_for(n_steps * work)
    course, sums = step_workspace(n_threads, n_steps, system.n_columns)
    course.vectors[0, 0], course.scalars[0, 0] = vectors, scalars
    steps, patience = Steps(system.rows, system.b, limits, course, sums), int(POLLS_PER_NUMBER * work / n_threads)
    progress = new_progress(n_threads)
    calls = [partial(run_rounds, steps, patience, me, progress) for me in range(n_threads)]
    taken = run_as_one(calls, lambda: cancel(progress))
    return course.vectors[taken % 2, 0].copy(), course.scalars[taken % 2, 0], course.seen[0, :taken]
