"""Compare the speed of the kernels with the memory bandwidth and with BLAS.

    make bench-limits

The reference is a matrix-vector product (BLAS gemv) over consecutive rows, which is limited by the memory bandwidth.
The kernels and the product run in turns on the same matrix; the minimum of several repeats counts. The results are
written to benchmarks/results/limits.json, from which `make docs` generates the tables of docs/performance.md.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse.linalg import lsmr
from threadpoolctl import threadpool_limits

import rowsolve
from rowsolve.experiments.problems import gaussian_system
from rowsolve.lstsq.state import compress
from rowsolve.parallel.pool import available_cores
from rowsolve.problem.system import System
from rowsolve.race.machine import describe
from rowsolve.sources import open_rows

RESULT = Path(__file__).parent / "results" / "limits.json"
REPEATS = 11
REST = 0.1  # seconds after a product, because the threads of BLAS spin for a while
SHAPES = [(50_000, 1_000), (20_000, 4_000), (200_000, 200)]
WORK = 32_000_000  # entries read in a measurement: long bursts, so that the time to wake the threads is negligible
GRAM_SHAPES = [(200_000, 5), (150_000, 25), (100_000, 70), (30_000, 150), (30_000, 300), (20_000, 1_000)]
STEP_SHAPE = (10_000, 1_000)
STEP_METHODS = {
    "cyclic": rowsolve.Cyclic(),
    "randomized": rowsolve.Randomized(),
    "block, 4 rows": rowsolve.Block(4),
    "block, 16 rows": rowsolve.Block(16),
    "block, 64 rows": rowsolve.Block(64),
    "cluster-block, 4 clusters": rowsolve.ClusterBlock(4),
    "jl, 1,000 candidates, d = 10": rowsolve.JL(sketch_size=10, n_candidates=1000),
    "cluster-jl, 4 clusters, 1,000 candidates, d = 10": rowsolve.ClusterJL(4, sketch_size=10, n_candidates=1000),
    "extended": rowsolve.Extended(),
}
UNIFORM = rowsolve.Randomized(weights="uniform")


def steps_of(method: rowsolve.Method, A: np.ndarray, b: np.ndarray, threads: int) -> Callable[[int], int]:
    """Return a function that uses about `n` rows with `method`, and returns how many it used."""
    system, rng = System(open_rows(A), b, threads=threads), np.random.default_rng(0)
    plan, iterates, drops = method.prepare(system, rng), np.zeros((2, A.shape[1])), np.empty(2)
    if threads > 1:
        plan.distribute(threads)

    def take(n: int) -> int:
        iterates[:] = [[0.0], [1.0]]
        return method.advance(plan, iterates, n, rng, drops).size

    take(4 * plan.rows_per_step)
    return take


def products(A: np.ndarray) -> Callable[[int], int]:
    """Return a function that multiplies the next `n` rows by a vector."""
    x, at = np.ones(A.shape[1], A.dtype), [0]

    def take(n: int) -> int:
        at[0] = (at[0] + n) % (A.shape[0] - n)
        A[at[0] : at[0] + n] @ x
        return n

    return take


def least_seconds_a_row(runs: dict[str, tuple[int, Callable[[int], int], int]]) -> dict[str, float]:
    """Return the minimum time per row of each run, in turns; a run is (threads, function, rows)."""
    least = dict.fromkeys(runs, np.inf)
    for _ in range(REPEATS):
        for name, (threads, take, n) in runs.items():
            # Setting the number of BLAS threads starts them, and they spin; so this is not done around other runs.
            with threadpool_limits(threads) if name.startswith("gemv") else nullcontext():
                take(n)  # wakes the threads
                started = time.perf_counter()
                taken = take(n)
                least[name] = min(least[name], (time.perf_counter() - started) / taken)
            if name.startswith("gemv"):
                time.sleep(REST)
    return least


def bandwidth(n_rows: int, n_columns: int, dtype: str, threads: int) -> dict[str, Any]:
    """Measure sweeps over consecutive and random rows and the product, on one thread and on all."""
    A, b, _ = gaussian_system(n_rows, n_columns, 0)
    A, n = A.astype(dtype, copy=False), min(WORK // n_columns, n_rows // 2)
    counts = sorted({1, threads})
    runs = {}
    for count in counts:
        runs[f"gemv {count}"] = (count, products(A), n)
        runs[f"in order {count}"] = (count, steps_of(rowsolve.Cyclic(), A, b, count), n)
        runs[f"random {count}"] = (count, steps_of(UNIFORM, A, b, count), n)
    row_bytes = n_columns * A.itemsize
    rates = {name: row_bytes / seconds / 1e9 for name, seconds in least_seconds_a_row(runs).items()}
    return {"shape": [n_rows, n_columns], "dtype": dtype, "threads": counts, "gigabytes_a_second": rates}


def steps() -> dict[str, Any]:
    """Measure a step of each method, on one thread."""
    A, b, _ = gaussian_system(*STEP_SHAPE, 0)
    rows_a_step = {"block, 4 rows": 4, "block, 16 rows": 16, "block, 64 rows": 64, "cluster-block, 4 clusters": 4}
    runs = {
        name: (1, steps_of(method, A, b, 1), 200 if "jl" in name or name == "extended" else 4000)
        for name, method in STEP_METHODS.items()
    }
    seconds = least_seconds_a_row(runs)
    a_step = {name: 1e6 * value * (2 if "jl" in name else rows_a_step.get(name, 1)) for name, value in seconds.items()}
    return {"shape": list(STEP_SHAPE), "microseconds_a_step": a_step, "rows_a_step": rows_a_step}


def grams(threads: int) -> list[dict[str, Any]]:
    """Measure ``A'A`` and ``A'b`` in one pass, and two products by numpy, each after a pause."""
    found = []
    for n, p in GRAM_SHAPES:
        rng = np.random.default_rng(0)
        A, b = rng.standard_normal((n, p)), rng.standard_normal((n, 1))
        runs = {"rowsolve": lambda A=A, b=b: compress(A, b, threads), "numpy": lambda A=A, b=b: (A.T @ A, A.T @ b)}
        least = dict.fromkeys(runs, np.inf)
        for _ in range(REPEATS):
            for name, run in runs.items():
                time.sleep(1.5 * REST)
                started = time.perf_counter()
                run()
                least[name] = min(least[name], time.perf_counter() - started)
        found.append({"shape": [n, p], "milliseconds": {name: 1e3 * value for name, value in least.items()}})
    return found


def growth(threads: int) -> dict[str, Any]:
    """Measure whole solves with increasing n, in turns."""
    systems = {n: gaussian_system(n, 1_000, 0) for n in (20_000, 50_000, 200_000)}
    least = dict.fromkeys(systems, np.inf)
    for repeat in range(REPEATS):
        for n, (A, b, _) in systems.items():
            solution = rowsolve.solve(A, b, rng=repeat, threads=threads)
            least[n] = min(least[n], solution.seconds)
    return {"n_columns": 1_000, "seconds": {str(n): seconds for n, seconds in least.items()}}


def latency() -> dict[str, float]:
    """Measure a small solve, and scipy's lsmr at the loosest tolerance with which it reaches the same error."""
    A, b, x = gaussian_system(200, 20, 0)
    tolerance = 1e-6
    while np.linalg.norm(lsmr(A, b, atol=tolerance, btol=tolerance)[0] - x) > 1e-6 * np.linalg.norm(x):
        tolerance /= 10
    runs = {
        "rowsolve": lambda: rowsolve.solve(A, b, rng=0),
        "scipy lsmr": lambda: lsmr(A, b, atol=tolerance, btol=tolerance),
    }
    least = dict.fromkeys(runs, np.inf)
    for _ in range(20 * REPEATS):
        for name, run in runs.items():
            started = time.perf_counter()
            run()
            least[name] = min(least[name], time.perf_counter() - started)
    return {name: 1e3 * seconds for name, seconds in least.items()}


def main() -> None:
    """Measure everything and write the results."""
    threads = available_cores()
    found = {"machine": describe(), "threads": threads, "bandwidth": []}
    for shape in SHAPES:
        for dtype in ("float64", "float32"):
            found["bandwidth"].append(bandwidth(*shape, dtype, threads))
            print(found["bandwidth"][-1])
    for name, measure in (
        ("steps", steps),
        ("grams", lambda: grams(threads)),
        ("growth", lambda: growth(threads)),
        ("latency_ms", latency),
    ):
        found[name] = measure()
        print(name, found[name])
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
