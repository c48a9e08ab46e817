"""Loading or compilation of the kernels before the clock starts."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np

from rowsolve.engine.check import full_check, sampled_check
from rowsolve.engine.residuals import residuals_of
from rowsolve.estimate.tolerance import Tolerance
from rowsolve.kernels.gram import add_products, zeros_for_products
from rowsolve.kernels.rows import CSRRows, DenseRows, frozen
from rowsolve.kernels.sweep import sweep
from rowsolve.methods.base import Method, RowMethod
from rowsolve.methods.refined import Refined
from rowsolve.problem.system import System
from rowsolve.sources import Source

__all__ = ["warm_up"]

_warm: set[Any] = set()


def warm_up(method: Method, source: Source, threads: int, *, many: bool = False) -> float:
    """Run `method` once on a few rows of the same kind as those of `source`; return the seconds it took."""
    chained = not many and _runs_in_chains(method, source, threads)
    layout = ((part.dtype, part.flags.c_contiguous, part.flags.f_contiguous) for part in source.rows)
    kind = (method, chained, many, type(source.rows), *layout)
    if kind in _warm:
        return 0.0
    started = time.perf_counter()
    system = System(Source(_a_few_rows(source.rows), (8, 3), 3.0, 0.0), frozen(np.ones((8, 2) if many else 8)))
    few = {key: 3 for key, value in method.parameters().items() if type(value) is int and value > 3}
    method = replace(method, **few)  # type: ignore[type-var]
    rng, iterates = np.random.default_rng(0), np.ones((system.n_rhs + 1, 3))
    if isinstance(method, RowMethod):
        _project(method, system, iterates, rng, chained=chained)
    else:
        _step(method, system, iterates, rng)
    _check(system, iterates, rng)
    _warm.add(kind)
    return time.perf_counter() - started


def _runs_in_chains(method: Method, source: Source, threads: int) -> bool:
    return isinstance(method, RowMethod) and method.runs_in_chains(source.shape[1], source.entries_per_row, threads)


def _project(method: RowMethod, system: System, iterates: np.ndarray, rng: Any, *, chained: bool) -> None:
    drops, plan = np.zeros(len(iterates)), method.begin(system, rng)
    order = method.advance(plan, iterates, 8, rng, drops)
    if chained:
        plan.distribute(2)
        method.advance(plan, iterates, 8, rng, drops)
    if system.n_rhs == 1:
        sweep(system.rows, system.b, order, iterates, drops, system.counter.flagged_rows)


def _step(method: Any, system: System, iterates: np.ndarray, rng: Any) -> None:
    steps = method.steps(system, _x_of(iterates), Tolerance(1e-6, 0.0, 1e-16), rng)
    next(steps)
    if isinstance(method, Refined):  # so small a system would be solved without passes
        steps.start_descent()
    if isinstance(system.rows, DenseRows):  # so few rows are multiplied by BLAS
        add_products(system.rows.values, frozen(np.ones((8, 1))), 3, 0, 8, zeros_for_products(3, 1))


def _check(system: System, iterates: np.ndarray, rng: Any) -> None:
    x, limit = _x_of(iterates), np.array([np.inf])
    sampled_check(system, x, limit, rng)
    if system.n_rhs == 1:
        residuals_of(system, np.arange(2), x)
    full_check(system, x, limit)


def _x_of(iterates: np.ndarray) -> np.ndarray:
    return iterates[0] if len(iterates) == 2 else iterates[:-1]


def _a_few_rows(rows: DenseRows | CSRRows) -> DenseRows | CSRRows:
    """Return 8 distinct rows of 3 numbers, which can be clustered, of the same compiled type as `rows`."""
    few = 1.0 + np.arange(24.0).reshape(8, 3) ** 2 % 7.0
    if isinstance(rows, CSRRows):
        data = frozen(few.astype(rows.data.dtype).ravel())
        indices = frozen(np.tile(np.arange(3, dtype=rows.indices.dtype), 8))
        return CSRRows(data, indices, frozen(np.arange(0, 25, 3, dtype=rows.indptr.dtype)))
    flags = rows.values.flags
    if flags.c_contiguous:
        return DenseRows(frozen(few.astype(rows.values.dtype)))
    if flags.f_contiguous:
        return DenseRows(frozen(few.astype(rows.values.dtype, order="F")))
    return DenseRows(frozen(np.repeat(np.repeat(few, 2, axis=0), 2, axis=1).astype(rows.values.dtype)[::2, ::2]))
