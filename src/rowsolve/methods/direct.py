"""Solve a sample of the equations exactly; the other rows are only used for a check."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from rowsolve._solution import Status
from rowsolve.estimate.step import Findings, Step
from rowsolve.estimate.tolerance import Tolerance
from rowsolve.lstsq.descent import Descent
from rowsolve.lstsq.factor import Factor, factor_of, gather, rows_beyond
from rowsolve.methods.base import Capabilities, StepMethod
from rowsolve.parallel.blas import blas_threads
from rowsolve.parallel.vectors import norms
from rowsolve.policy.prices import SQUARES
from rowsolve.problem.system import System

__all__ = ["Direct"]

_EPS = float(np.finfo(float).eps)
_POLISHING = 3  # steps at most; each gains as many digits as the factor has
_SPARE = 16  # rows beyond p, from which the noise is estimated
_SPARE_SHARE = 0.2  # of p: with more rows a sample is better conditioned
_VECTORS = 8  # random vectors, from which the effect of noise on x is estimated
_LEAST_RCOND = 1e-13  # of p rows, below which x and the estimated noise are dominated by rounding
_ROUNDING = 64.0  # units of rounding, times the norm of x: distances of rows below that are not noise


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
        system.limits.make_sure_of_room(8.0 * SQUARES * system.n_columns**2, "a factor of a sample of the rows")
        with np.errstate(all="ignore"):  # an x that overflows has an infinite error
            step = None
            system.clock.make_sure_of_time(system.n_columns**3)  # LU, and solves with many vectors
            if system.n_rows >= system.n_columns + _SPARE:
                with blas_threads(system.n_columns**3 / 3, system.limits.threads):
                    step = _square(system, x0, tolerance, rng)
            step = step or _overdetermined(system, x0, tolerance, rng)
        yield step


def _square(system: System, x0: np.ndarray, tolerance: Tolerance, rng: np.random.Generator) -> Step | None:
    """Solve p equations; return None if they are too ill-conditioned for the tolerance."""
    from scipy.linalg import blas, lapack

    p = system.n_columns
    sample = system.part(system.sample(p + _SPARE, rng)[0])
    if sample is None or sample.n_rows < p + _SPARE // 2:
        return None
    (part,) = sample.parts(np.arange(sample.n_rows))
    (rows,) = gather(part, p, workspace_bytes=math.inf)
    square, spare, b = rows[:p], rows[p:], sample.b.reshape(sample.n_rows, -1)
    lu, pivots, info = lapack.dgetrf(square.T)
    if info != 0 or not lapack.dgecon(lu, float(np.abs(square).sum(axis=1).max()))[0] > _LEAST_RCOND:
        return None

    def solve(right: np.ndarray, transposed: int = 1) -> Any:
        return lapack.dgetrs(lu, pivots, right, trans=transposed)[0]  # of the transpose, since LAPACK takes columns

    def product(rows: np.ndarray, x: np.ndarray) -> Any:
        return blas.dgemm(1.0, rows.T, x, trans_a=1)  # numpy's BLAS has its own threads, which would compete with these

    starts = np.atleast_2d(x0)
    x = np.array(starts.T, order="F")  # one column for each right-hand side
    for _ in range(_POLISHING):
        change = solve(b[:p] - product(square, x))
        norms_x, left = norms(x.T), norms(change.T)
        allowed = tolerance.at(norms_x, norms(starts))
        if (left <= 0.01 * allowed).all():
            break
        x += change
    # The residual of a spare row has its own noise and that of the p rows, through x.
    spread_to_spare = np.sum(solve(spare.T, transposed=0) ** 2, axis=0)
    off = (b[p:] - product(spare, x)) ** 2 / (1.0 + spread_to_spare[:, None])
    noise = np.sqrt(np.mean(off, axis=0))
    spread = float(np.linalg.norm(solve(rng.standard_normal((p, _VECTORS))))) / math.sqrt(_VECTORS)
    error = np.maximum.reduce([noise * spread, left, tolerance.eps * norms_x])
    if (error <= allowed).all():
        return Step(x.T, error, Status.CONVERGED, findings=Findings(p))
    return Step(x.T, error, Status.INCONSISTENT) if (noise > _ROUNDING * _EPS * norms_x).any() else None


def _overdetermined(system: System, x0: np.ndarray, tolerance: Tolerance, rng: np.random.Generator) -> Step:
    """Solve somewhat more than p equations, or all equations."""
    n, p = system.n_rows, system.n_columns
    order = np.sort(system.sample(min(n, p + math.ceil(_SPARE_SHARE * p) + 2 * _SPARE), rng)[0])
    while True:
        sample = system.part(order)
        factor = None if sample is None else factor_of(sample, np.arange(sample.n_rows))
        open_directions = (factor is None or factor.deficient) and order.size < n
        if open_directions and factor is not None and (step := _contradicted(sample, factor, x0, tolerance, rng)):
            return step
        news = rows_beyond(system, factor, rng) if open_directions else order[:0]
        if not news.size:
            break
        order = np.union1d(order, rng.permutation(news)[: max(p, order.size)])
    if sample is None or factor is None:  # all rows are zero
        return Step(x0, 0.0, Status.CONVERGED, findings=Findings(0))
    n_sample = order.size
    x, rounding, floor, noise = _polished(sample, factor, x0, tolerance, rng)
    spread = noise * factor.spread
    if n_sample == n and (noise > _ROUNDING * _EPS * norms(x)).any():  # then weights matter: use the rows unscaled
        factor = factor_of(system, np.arange(n))
        x, rounding, floor, noise = _polished(system, factor, x0, tolerance, rng)
    of_noise = spread if n_sample < n else np.zeros(len(x))  # of all rows x is the least-squares solution, noise or not
    findings = Findings(factor.rank, factor.has_gap)
    error = np.maximum.reduce([of_noise, rounding, floor])
    allowed = tolerance.at(norms(x), norms(np.atleast_2d(x0)))
    too_large = np.maximum(error, spread) > allowed
    if not too_large.any():
        return Step(x, error, Status.CONVERGED, findings=findings)
    rounded = np.maximum(error, spread) < 10.0 * floor
    status = Status.PRECISION if rounded[too_large].all() else Status.INCONSISTENT
    return Step(x, error, status, findings=findings)


def _contradicted(
    sample: Any, factor: Factor, x0: np.ndarray, tolerance: Tolerance, rng: np.random.Generator
) -> Step | None:
    """Return the last step if a sample is inconsistent although it does not determine x in all directions."""
    x, error, floor, noise = _polished(sample, factor, x0, tolerance, rng)
    of_noise = noise * factor.spread
    allowed = tolerance.at(norms(x), norms(np.atleast_2d(x0)))
    if not ((of_noise > allowed) & (noise > _ROUNDING * _EPS * norms(x)) & (of_noise > 10.0 * floor)).any():
        return None
    return Step(x, np.maximum(error, of_noise), Status.INCONSISTENT)


def _polished(
    system: System, factor: Factor, x0: np.ndarray, tolerance: Tolerance, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return x, its error, the level that rounding keeps the error above, and the distance of x from the rows."""
    descent = Descent(system, x0, rng, factor)
    for turn in range(_POLISHING):
        if turn and (descent.error <= descent.rounding(tolerance.eps)).all():
            break
        descent.step()
        descent.start()  # the sample is in memory: a new gradient is cheap and accurate
    x, spare = descent.x, system.n_rows - factor.rank
    floor = np.maximum(descent.rounding(tolerance.eps), tolerance.eps * norms(x))
    return x, descent.error, floor, np.sqrt(descent.residual_sq / spare) if spare > 0 else np.zeros(len(x))
