"""Compare the time of a single-row step with that of kaczmarz-algorithms (PyPI).

    make bench-steps

Both take single-row steps on the same 10,000 x 1,000 system, in turns; the minimum of several repeats counts.
kaczmarz-algorithms is run in two ways: with its default settings, where it computes the residual of all rows after each
step for its stopping test, and without this test (`tol=None`). The preparation (norms, probabilities, compilation) is
not timed.
"""

from __future__ import annotations

import time

import kaczmarz
import numpy as np

from rowsolve import METHODS
from rowsolve.experiments.problems import gaussian_system
from rowsolve.problem.system import System
from rowsolve.sources import open_rows

N_ROWS, N_COLUMNS, STEPS, REPEATS = 10_000, 1_000, 2_000, 5
STEPS_BY_DEFAULT = 50  # some 5 ms each


def ours(name, A, b):
    """Return a function that takes `n` steps of rowsolve."""
    system, rng = System(open_rows(A), b), np.random.default_rng(0)
    method = METHODS[name]()
    plan, iterates, drops = method.prepare(system, rng), np.zeros((2, N_COLUMNS)), np.empty(2)
    iterates[1] = 1.0
    return lambda n: method.advance(plan, iterates, n, rng, drops)


def theirs(strategy, A, b, tol):
    """Return a function that takes `n` steps of kaczmarz-algorithms."""
    iterates = iter(strategy(A, b, tol=tol, maxiter=np.inf))
    next(iterates)

    def step(n):
        for _ in range(n):
            next(iterates)

    return step


def seconds_a_step(step, n):
    """Return the time of a step, from `n` steps."""
    started = time.perf_counter()
    step(n)
    return (time.perf_counter() - started) / n


def main():
    """Print the table."""
    A, b, _ = gaussian_system(N_ROWS, N_COLUMNS, 0)
    print(f"{N_ROWS:,} x {N_COLUMNS:,} float64; microseconds per step, minimum of {REPEATS}; ratio to rowsolve")
    print(f"{'method':<12}{'rowsolve':>10}{'tol=None':>12}{'ratio':>8}{'default':>14}{'ratio':>8}")
    for name, strategy in (("randomized", kaczmarz.SVRandom), ("cyclic", kaczmarz.Cyclic)):
        runs = [
            (ours(name, A, b), STEPS),
            (theirs(strategy, A, b, None), STEPS),
            (theirs(strategy, A, b, 1e-12), STEPS_BY_DEFAULT),
        ]
        for run, _ in runs:
            run(8)  # compile, warm up
        times = [[seconds_a_step(run, n) for run, n in runs] for _ in range(REPEATS)]
        mine, bare, whole = (1e6 * min(column) for column in zip(*times, strict=True))
        print(f"{name:<12}{mine:>10.2f}{bare:>12.1f}{bare / mine:>7.0f}x{whole:>14.0f}{whole / mine:>7.0f}x")


if __name__ == "__main__":
    main()
