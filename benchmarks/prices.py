"""Compare the prices in `rowsolve.policy.prices` with those of this machine, and list the decisions that would differ.

    make bench-prices

`auto` decides by the prices in that file, not by those of the machine, so that the same call makes the same decisions
everywhere. Each price is the minimum of several runs, with as many threads as there are cores.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import lapack

from rowsolve import Refined
from rowsolve.estimate.estimator import ErrorEstimator
from rowsolve.estimate.tolerance import Tolerance
from rowsolve.lstsq.band import compress_to_band
from rowsolve.lstsq.dense import _by_qr, sample_agrees
from rowsolve.lstsq.descent import Descent
from rowsolve.lstsq.normal import factor_gram
from rowsolve.lstsq.state import compress, rows_of
from rowsolve.methods import refined
from rowsolve.parallel.blas import blas_threads
from rowsolve.parallel.pool import available_cores
from rowsolve.policy import auto, least_squares, prices
from rowsolve.policy.auto import first_choice
from rowsolve.problem.layout import look_for_band
from rowsolve.problem.system import System
from rowsolve.sources import open_rows

REPEATS = 7
DIGITS = 13.8  # the natural logarithm of 1 / rtol for rtol=1e-6
ROWS = (200, 1_000, 5_000, 20_000, 100_000, 400_000)
COLUMNS = (5, 20, 60, 200, 500, 1_000, 2_000)


def nanoseconds(call: Callable[[], Any]) -> float:
    """Return the minimum time of several runs after a first one."""
    call()
    found = []
    for _ in range(REPEATS):
        time.sleep(0.05)
        started = time.perf_counter_ns()
        call()
        found.append(time.perf_counter_ns() - started)
    return float(min(found))


def system_of(A: Any) -> System:
    """Return a system with these rows."""
    return System(open_rows(A), np.ones(A.shape[0]), threads=available_cores())


def of_steps(A: Any) -> float:
    """Return the time of a step of conjugate gradients in nanoseconds, from all steps of one call."""
    rng, found = np.random.default_rng(0), []
    system = System(open_rows(A), rng.standard_normal(A.shape[0]), threads=available_cores())
    for _ in range(20):
        descent = Descent(system, ErrorEstimator(Tolerance(0.0, 0.0, 2.2e-16), np.zeros((1, A.shape[1]))), rng)
        descent.start()
        started = time.perf_counter()
        taken = descent.advance(np.array([True]), np.zeros(1))
        found.append((time.perf_counter() - started) / len(taken))
    return 1e9 * min(found)


def measured() -> dict[str, float]:
    """Return the prices of this machine."""
    rng, cores = np.random.default_rng(0), available_cores()
    tall, side = rng.standard_normal((40_000, 300)), np.ones((40_000, 1))
    gram = tall.T @ tall
    few = tall[:1000, :100].copy()
    short = sparse.random_array((100_000, 1000), density=0.004, rng=rng, format="csr")
    band = sparse.diags_array([1.0, -2.0, 1.0, 0.5], offsets=[0, 1, 2, 100], shape=(10_000, 10_000)).tocsr()
    pairs = float(np.sum(np.diff(short.indptr).astype(float) ** 2))
    wide = rng.standard_normal((1100, 1000))
    sides, narrow = np.ones((100_000, 1)), np.ones((10_000, 1))
    with blas_threads(np.inf, 1):
        found = {
            "PRODUCT": nanoseconds(lambda: compress(tall, side, cores)) / (tall.size * 150.0),
            "FACTOR_PRODUCT": nanoseconds(lambda: factor_gram(gram)) / (300.0**3 / 3),
            "ORTHOGONAL_PRODUCT": nanoseconds(lambda: _by_qr(few, np.ones((1000, 1)), np.zeros((1, 100)), 0.0, TIGHT))
            / (few.size * 100.0),
            "PAIR": nanoseconds(lambda: compress(short, sides)) / pairs,
            "ENTRY, order": nanoseconds(lambda: look_for_band(rows_of(band), 10_000, 10_000)) / band.nnz,
            "FACTOR_PRODUCT, LU": nanoseconds(lambda: sample_agrees(wide, np.ones(len(wide)))) / (1000.0**3 / 3),
        }
        of_band = compress_to_band(band, narrow, look_for_band(rows_of(band), 10_000, 200)).gram
        width = of_band.values.shape[1]
        found["FACTOR_PRODUCT, band"] = nanoseconds(lambda: lapack.dpbtrf(of_band.values.T, lower=1)) / (
            10_000.0 * width**2
        )
    tiny = of_steps(rng.standard_normal((50, 10)))
    found["STEP"] = tiny
    found["NUMBER"] = (of_steps(tall[:25_000]) - tiny) / (25_000 * 300)
    found["SPARSE_NUMBER"] = (of_steps(short) - tiny) / short.nnz
    return found


class _Tight:
    rtol = atol = 0.0
    eps = 2.0**-52

    @staticmethod
    def at(_: Any, __: Any) -> float:
        """Return the allowed error: none."""
        return 0.0


TIGHT = _Tight()


def decisions() -> Iterator[tuple[str, str]]:
    """Yield the decisions for systems of many shapes, whose entries are never read."""
    for kind in ("dense", "sparse"):
        for n in ROWS:
            for p in COLUMNS:
                if n < p or n * p > 4e8:
                    continue
                A = np.zeros((n, p)) if kind == "dense" else _rows_of_four(n, p)
                system = system_of(A)
                choice = first_choice(system, 1e-6)
                all_rows = Refined().takes_all(system, DIGITS)
                yield f"{n:,} x {p:,} {kind}", f"{choice.method.name}; all rows at once: {'yes' if all_rows else 'no'}"


def _rows_of_four(n: int, p: int) -> Any:
    """Return rows with four entries each, spread over all columns."""
    columns = np.sort((np.arange(n)[:, None] * 7 + np.arange(4) * (p // 4 + 1)) % p, axis=1)
    return sparse.csr_array((np.ones(4 * n), columns.ravel(), np.arange(0, 4 * n + 1, 4)), shape=(n, p))


def _set_price(name: str, value: float) -> None:
    """Set a price in all modules that have imported it."""
    for module in (prices, least_squares, auto, refined):
        if hasattr(module, name):
            setattr(module, name, value)


def main() -> int:
    """Print the prices and the decisions that differ."""
    here = measured()
    print(f"{'price (ns)':<20} {'in the file':>12} {'measured':>12} {'ratio':>8}")
    for name, value in here.items():
        fixed = getattr(prices, name.partition(",")[0])
        print(f"{name:<20} {fixed:>12.4g} {value:>12.4g} {value / fixed:>8.2f}")
    before = dict(decisions())
    for name, value in here.items():
        if "," not in name:
            _set_price(name, value)
    after = dict(decisions())
    changed = [name for name in before if before[name] != after[name]]
    print(f"\n{len(changed)} of {len(before)} decisions would differ with the prices of this machine:")
    for name in changed:
        print(f"  {name:<24} {before[name]:<42} -> {after[name]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
