"""Compare the time of a greedy step (jl, cluster-jl, greedy) with that of a step of `randomized`.

    make bench-greedy

All methods take steps on the same 10,000 x 1,000 system, in turns; the minimum of several repeats counts. A step of jl
scores `n_candidates` rows by their sketches and reads two rows of A; a step of `randomized` reads one, and `greedy`
reads all candidates. The preparation (clusters, sketches, alias tables) is timed separately, in milliseconds. Of a
cluster with at most `n_candidates` rows, all rows are scored: about 625 in each step with 16 clusters, 156 with 64.
"""

from __future__ import annotations

import time

import numpy as np

from rowsolve import JL, ClusterJL, Greedy, Randomized
from rowsolve.experiments.problems import gaussian_system
from rowsolve.parallel.pool import available_cores
from rowsolve.problem.system import System
from rowsolve.sources import open_rows

N_ROWS, N_COLUMNS, STEPS, REPEATS = 10_000, 1_000, 1_000, 7
METHODS = [
    Randomized(),
    JL(sketch_size=10, n_candidates=1),
    JL(sketch_size=10, n_candidates=1_000),
    JL(),
    ClusterJL(n_clusters=1, sketch_size=10, n_candidates=1_000),
    ClusterJL(n_clusters=4, sketch_size=10, n_candidates=1_000),
    ClusterJL(n_clusters=16, sketch_size=10, n_candidates=1_000),
    ClusterJL(n_clusters=64, sketch_size=10, n_candidates=1_000),
    Greedy(n_candidates=16),
    Greedy(n_candidates=1_000),
]


class Steps:
    """A method and its state."""

    def __init__(self, method, A, b):
        self.method, self.system = method, System(open_rows(A), b, threads=available_cores())
        self.rng, self.iterates, self.drops = np.random.default_rng(0), np.ones((2, N_COLUMNS)), np.empty(2)
        self.plan = method.prepare(self.system, self.rng)  # compiles
        self.take(8)

    def prepare(self):
        """Prepare the method again; return the time in milliseconds."""
        started = time.perf_counter()
        self.method.prepare(self.system, np.random.default_rng(0))
        return 1e3 * (time.perf_counter() - started)

    def take(self, n_steps):
        """Take steps; return the time of one in microseconds."""
        started = time.perf_counter()
        self.method.advance(self.plan, self.iterates, n_steps * self.plan.rows_per_step, self.rng, self.drops)
        return 1e6 * (time.perf_counter() - started) / n_steps

    def __str__(self):
        given = {key: value for key, value in self.method.parameters().items() if type(value) is int}
        return f"{self.method.name} " + ", ".join(f"{key}={value}" for key, value in given.items())


def main():
    """Print the table."""
    A, b, _ = gaussian_system(N_ROWS, N_COLUMNS, 0)
    runs = [Steps(method, A, b) for method in METHODS]
    steps = np.min([[run.take(STEPS) for run in runs] for _ in range(REPEATS)], axis=0)
    preparations = np.min([[run.prepare() for run in runs] for _ in range(3)], axis=0)
    print(f"{N_ROWS:,} x {N_COLUMNS:,} float64, minimum of {REPEATS}; step in microseconds; ratio to the first line")
    print(f"{'method':<62}{'step':>8}{'ratio':>8}{'prepare (ms)':>14}")
    for run, step, preparation in zip(runs, steps, preparations, strict=True):
        print(f"{run!s:<62}{step:>8.2f}{step / steps[0]:>7.1f}x{preparation:>14.1f}")


if __name__ == "__main__":
    main()
