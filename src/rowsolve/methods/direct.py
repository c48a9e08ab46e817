"""Solve a sample of the equations exactly; the other rows are only used for a check."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from rowsolve._solution import Status
from rowsolve.estimate.estimator import ErrorEstimator
from rowsolve.estimate.step import Findings, Step
from rowsolve.estimate.tolerance import Tolerance
from rowsolve.lstsq.descent import Descent
from rowsolve.lstsq.factor import Factor, amplification, factor_of, gather, rows_beyond
from rowsolve.lstsq.normal import noise_of
from rowsolve.methods.base import Capabilities, StepMethod
from rowsolve.parallel.blas import blas_threads
from rowsolve.parallel.vectors import norms
from rowsolve.policy.prices import SQUARES
from rowsolve.policy.thresholds import (
    EPS,
    NEGLIGIBLE,
    ORDER_OF_MAGNITUDE,
    ROUNDED,
    SPARE_ROWS,
    SPARE_SHARE,
    STEPS,
    SURE,
)
from rowsolve.problem.system import System

__all__ = ["Direct"]


@dataclass(frozen=True)
class Direct(StepMethod):
    """Solve p random equations by an LU factorization; estimate the error from a few more rows.

    For a consistent system with up to a few thousand columns few methods are faster, whatever the condition number of
    A: the other rows are only read for a check. The error of x is estimated from the residual of the rows beyond p,
    due to noise or rounding, and the amplification of this residual by the inverse. If the p rows are too
    ill-conditioned, ``1.2 p`` rows are factored (by Cholesky or QR). If these do not determine x in some directions,
    one pass over the data finds rows that do, and these are added; if there are none, x is the solution nearest to
    `x0`. If the sample then has all rows, x is their least-squares solution.
    """

    name: ClassVar[str] = "direct"
    summary: ClassVar[str] = "exact solution of a random sample of the equations; for consistent systems"
    citation: ClassVar[str] = "RKA-Block of the paper with one block of p rows or more"
    can: ClassVar[Capabilities] = Capabilities(many_b=True)

    def steps(self, system, x0, tolerance, rng, probe=None):
        """Yield a single step."""
        system.limits.check_memory(8.0 * SQUARES * system.n_columns**2, "a factor of a sample of the rows")
        with np.errstate(all="ignore"):  # an x that overflows has an infinite error
            step = None
            system.clock.make_sure_of_time(system.n_columns**3)  # LU, and solves with many vectors
            if system.n_rows >= system.n_columns + SPARE_ROWS:
                with blas_threads(system.n_columns**3 / 3, system.limits.threads):
                    step = _square(system, x0, tolerance, rng)
            step = step or _overdetermined(system, x0, tolerance, rng)
        yield step


def _square(system: System, x0: np.ndarray, tolerance: Tolerance, rng: np.random.Generator) -> Step | None:
    """Solve p equations; return None if they are too ill-conditioned for the tolerance."""
    from scipy.linalg import blas, lapack

    p = system.n_columns
    sample = system.part(system.sample(p + SPARE_ROWS, rng)[0])
    if sample is None or sample.n_rows < p + SPARE_ROWS // 2:
        return None
    (part,) = sample.parts(np.arange(sample.n_rows))
    (rows,) = gather(part, p)
    square, spare, b = rows[:p], rows[p:], sample.b.reshape(sample.n_rows, -1)
    lu, pivots, info = lapack.dgetrf(square.T)
    if info != 0 or not NEGLIGIBLE * lapack.dgecon(lu, float(np.abs(square).sum(axis=1).max()))[0] > EPS * p:
        return None

    def solve(right: np.ndarray, transposed: int = 1) -> Any:
        return lapack.dgetrs(lu, pivots, right, trans=transposed)[0]  # of the transpose, since LAPACK takes columns

    def product(rows: np.ndarray, x: np.ndarray) -> Any:
        return blas.dgemm(1.0, rows.T, x, trans_a=1)  # numpy's BLAS has its own threads, which would compete with these

    starts = np.atleast_2d(x0)
    x = np.array(starts.T, order="F")  # one column for each right-hand side
    for _ in range(STEPS):
        change = solve(b[:p] - product(square, x))
        norms_x, left = norms(x.T), norms(change.T)
        allowed = tolerance.at(norms_x, norms(starts))
        if (left <= SURE * allowed).all():
            break
        x += change
    # The residual of a spare row has its own noise and that of the p rows, through x.
    spread_to_spare = np.sum(solve(spare.T, transposed=0) ** 2, axis=0)
    off = (b[p:] - product(spare, x)) ** 2 / (1.0 + spread_to_spare[:, None])
    noise, once = np.sqrt(np.mean(off, axis=0)), solve(noise_of(p))
    spreads = norms(once.T)
    spread = amplification(spreads, norms(solve(once / spreads, transposed=0).T))
    error = np.maximum.reduce([noise * spread, left, tolerance.eps * norms_x])
    if (error <= allowed).all():
        return Step(x.T, error, Status.CONVERGED, findings=Findings(p))
    return Step(x.T, error, Status.INCONSISTENT) if (noise > ROUNDED * EPS * norms_x).any() else None


class _Solved(NamedTuple):
    """The solution of some rows.

    `error` is that of x as an exact solution of these rows, `floor` the part of it that rounding does not let fall, and
    `noise` the typical distance of x from a row.
    """

    x: np.ndarray
    error: np.ndarray
    floor: np.ndarray
    noise: np.ndarray

    @property
    def is_noisy(self) -> np.ndarray:
        """Whether the distances from the rows are larger than rounding explains, for each x."""
        return self.noise > ROUNDED * EPS * norms(self.x)


def _overdetermined(system: System, x0: np.ndarray, tolerance: Tolerance, rng: np.random.Generator) -> Step:
    """Solve somewhat more than p equations, or all equations."""
    n, p = system.n_rows, system.n_columns
    order = np.sort(system.sample(min(n, p + math.ceil(SPARE_SHARE * p) + 2 * SPARE_ROWS), rng)[0])
    while True:
        sample, factor = _factored(system, order)
        if order.size == n or (factor is not None and not factor.deficient):
            break
        if factor is not None and (step := _contradicted(sample, factor, x0, tolerance, rng)):
            return step
        news = rows_beyond(system, factor, rng)
        if not news.size:
            break
        order = np.union1d(order, rng.permutation(news)[: max(p, order.size)])
    if factor is None:  # all rows are zero
        return Step(x0, 0.0, Status.CONVERGED, findings=Findings(0))
    found = _polished(sample, factor, x0, tolerance, rng)
    of_noise = found.noise * factor.inverse_norm
    if order.size < n:
        found = found._replace(error=np.maximum(found.error, of_noise))
    elif found.is_noisy.any():  # x is the least-squares solution: then weights matter, so the rows are used unscaled
        factor = factor_of(system, np.arange(n))
        found = _polished(system, factor, x0, tolerance, rng)
    return _judged(found, factor, of_noise, tolerance, x0)


def _factored(system: System, order: np.ndarray) -> tuple[Any, Factor | None]:
    """Return some rows as a system, and their factor; None for both if they are all zero."""
    sample = system.part(order)
    return sample, None if sample is None else factor_of(sample, np.arange(sample.n_rows))


def _judged(found: _Solved, factor: Factor, of_noise: np.ndarray, tolerance: Tolerance, x0: np.ndarray) -> Step:
    """Return the last step; x is not accepted if noise in b may have moved it by more than the tolerance."""
    findings = Findings(factor.rank, factor.has_gap)
    error = np.maximum(found.error, found.floor)
    uncertain = np.maximum(error, of_noise)
    too_large = uncertain > tolerance.at(norms(found.x), norms(np.atleast_2d(x0)))
    if not too_large.any():
        return Step(found.x, error, Status.CONVERGED, findings=findings)
    rounded = uncertain < ORDER_OF_MAGNITUDE * found.floor
    status = Status.PRECISION if rounded[too_large].all() else Status.INCONSISTENT
    return Step(found.x, error, status, findings=findings)


def _contradicted(
    sample: Any, factor: Factor, x0: np.ndarray, tolerance: Tolerance, rng: np.random.Generator
) -> Step | None:
    """Return the last step if a sample is inconsistent although it does not determine x in all directions."""
    found = _polished(sample, factor, x0, tolerance, rng)
    of_noise = found.noise * factor.inverse_norm
    too_large = of_noise > tolerance.at(norms(found.x), norms(np.atleast_2d(x0)))
    if not (too_large & found.is_noisy & (of_noise > ORDER_OF_MAGNITUDE * found.floor)).any():
        return None
    return Step(found.x, np.maximum(found.error, of_noise), Status.INCONSISTENT)


def _polished(
    system: System, factor: Factor, x0: np.ndarray, tolerance: Tolerance, rng: np.random.Generator
) -> _Solved:
    """Return the solution of the rows of `system`, given a factor of all of them."""
    descent = Descent(system, ErrorEstimator(tolerance, np.atleast_2d(x0)), rng, factor)
    descent.start()
    for turn in range(STEPS):
        if turn and (descent.vectors.error <= descent.rounding_error(tolerance.eps)).all():
            break
        descent.step()
        descent.start()  # the sample is in memory: a new gradient is cheap and accurate
    x, spare = descent.vectors.x, system.n_rows - factor.rank
    floor = np.maximum(descent.rounding_error(tolerance.eps), tolerance.eps * norms(x))
    noise = np.sqrt(descent.residual.sq / spare) if spare > 0 else np.zeros(len(x))
    return _Solved(x, descent.vectors.error, floor, noise)
