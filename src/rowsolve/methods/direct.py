"""Solve a sample of the equations exactly, and look whether the others agree."""

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
_SPARE = 16  # rows beyond p, which tell the noise
_SPARE_SHARE = 0.2  # more of them make a sample better conditioned
_VECTORS = 8  # that tell how noise spreads to x
_LEAST_RCOND = 1e-13  # of p rows, below which x is mere rounding, and the noise that it leaves too
_ROUNDING = 64.0  # units of rounding, times the norm of x, that a row may be off without any noise


@dataclass(frozen=True)
class Direct(StepMethod):
    """Solve p random equations by an LU factorization; some more tell the noise.

    For consistent equations and up to a few thousand columns little is faster, whatever the condition of A: the other
    rows are never read, but for a check. The error of x is estimated from the rows beyond p: they miss x by some noise,
    if only of rounding, which the inverse spreads to x. Where p rows are too ill-conditioned, ``1.2 p`` are factored
    (by Cholesky or QR). If these leave some directions of x open, one pass looks for rows that do not, and these are
    taken as well; if there are none, x is the solution nearest to x0. Where that takes all rows, x is their
    least-squares solution.
    """

    name: ClassVar[str] = "direct"
    summary: ClassVar[str] = "solve a random sample of the equations exactly; for consistent equations"
    citation: ClassVar[str] = "RKA-Block of the paper with one block of p rows or more"
    can: ClassVar[Capabilities] = Capabilities(many_b=True)

    def steps(self, system, x0, tolerance, rng, probe=None):
        """Yield once."""
        system.make_sure_of_room(8.0 * SQUARES * system.n_columns**2, "a factor of a sample of the rows")
        with np.errstate(all="ignore"):  # an x out of range is told by its error
            step = None
            system.clock.make_sure_of_time(system.n_columns**3)  # LU, and solves with many vectors
            if system.n_rows >= system.n_columns + _SPARE:
                with blas_threads(system.n_columns**3 / 3, system.threads):
                    step = _square(system, x0, tolerance, rng)
            step = step or _overdetermined(system, x0, tolerance, rng)
        yield step


def _square(system: System, x0: np.ndarray, tolerance: Tolerance, rng: np.random.Generator) -> Step | None:
    """Solve p equations; None if they turn out too ill-conditioned for the tolerance."""
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
        return blas.dgemm(1.0, rows.T, x, trans_a=1)  # numpy's BLAS has threads of its own, which would be in the way

    starts = np.atleast_2d(x0)
    x = np.array(starts.T, order="F")  # one column for each right-hand side
    for _ in range(_POLISHING):
        change = solve(b[:p] - product(square, x))
        norms_x, left = norms(x.T), norms(change.T)
        allowed = tolerance.at(norms_x, norms(starts))
        if (left <= 0.01 * allowed).all():
            break
        x += change
    # A spare row is off by its own noise and by that of the square, spread to x.
    spread_to_spare = np.sum(solve(spare.T, transposed=0) ** 2, axis=0)
    off = (b[p:] - product(spare, x)) ** 2 / (1.0 + spread_to_spare[:, None])
    noise = np.sqrt(np.mean(off, axis=0))
    spread = float(np.linalg.norm(solve(rng.standard_normal((p, _VECTORS))))) / math.sqrt(_VECTORS)
    error = np.maximum.reduce([noise * spread, left, tolerance.eps * norms_x])
    if (error <= allowed).all():
        return Step(x.T, error, Status.CONVERGED, findings=Findings(p))
    return Step(x.T, error, Status.INCONSISTENT) if (noise > _ROUNDING * _EPS * norms_x).any() else None


def _overdetermined(system: System, x0: np.ndarray, tolerance: Tolerance, rng: np.random.Generator) -> Step:
    """Solve some more than p equations, or all that there are."""
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
    if n_sample == n and (noise > _ROUNDING * _EPS * norms(x)).any():  # then the weights matter: the rows as they are
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
    """Return the last step if rows of a sample that leaves directions open contradict each other already."""
    x, error, floor, noise = _polished(sample, factor, x0, tolerance, rng)
    of_noise = noise * factor.spread
    allowed = tolerance.at(norms(x), norms(np.atleast_2d(x0)))
    if not ((of_noise > allowed) & (noise > _ROUNDING * _EPS * norms(x)) & (of_noise > 10.0 * floor)).any():
        return None
    return Step(x, np.maximum(error, of_noise), Status.INCONSISTENT)


def _polished(
    system: System, factor: Factor, x0: np.ndarray, tolerance: Tolerance, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return x, its error, below what rounding keeps that from falling, and how far a row is off."""
    descent = Descent(system, x0, rng, factor)
    for turn in range(_POLISHING):
        if turn and (descent.error <= descent.rounding(tolerance.eps)).all():
            break
        descent.step()
        descent.start()  # the sample is in memory: a fresh gradient costs little and forgets no digits
    x, spare = descent.x, system.n_rows - factor.rank
    floor = np.maximum(descent.rounding(tolerance.eps), tolerance.eps * norms(x))
    return x, descent.error, floor, np.sqrt(descent.residual_sq / spare) if spare > 0 else np.zeros(len(x))
