"""Estimates from a factor of a random sample of the rows: condition number, rank, noise, and outliers."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from rowsolve.engine.check import ROWS_TO_CHECK
from rowsolve.inspection.report import Condition, Noise, Norms
from rowsolve.kernels.rows import CSRRows, frozen, norms_at
from rowsolve.lstsq.factor import Factor, factor_of
from rowsolve.policy.thresholds import (
    CONDITION_ERROR,
    FAR_OUT,
    LONG_SUM,
    OUTLIERS,
    SAMPLE_ROWS_EACH,
    SAMPLED_COLUMNS,
    SHRINKS,
    STEPS,
)
from rowsolve.problem.system import System

__all__ = ["Fit", "Sample", "condition_of", "fit", "rows_to_factor", "take_sample"]

_WORK = 2.0 * SAMPLED_COLUMNS**3  # multiplications for a factor: that of twice as many rows as columns, at most


@dataclass(frozen=True)
class Sample:
    """Nonzero rows in memory, divided by their median norm, and their norms."""

    system: System
    norms: np.ndarray

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return self.norms.size

    @property
    def matrix(self) -> Any:
        """The rows as an array or a scipy sparse matrix."""
        if isinstance(self.system.rows, CSRRows):
            from scipy import sparse

            return sparse.csr_array(tuple(self.system.rows), shape=(self.n_rows, self.system.n_columns))
        return self.system.rows.values

    def part(self, order: np.ndarray) -> Sample:
        """Return a copy of the rows in `order`."""
        source = self.system.source.take(order, np.ones(order.size))
        return Sample(System(source, frozen(self.system.b[order]), self.system.clock), self.norms[order])


class Fit(NamedTuple):
    """A fit of x to a sample by least squares, without its outliers."""

    factor: Factor  # of all rows of the sample
    seconds: float  # time that the factor took
    noise: Noise
    noise_in_x: float  # the relative error that noise leaves in an x that is projected on one row after another


def rows_to_factor(system: System) -> int:
    """Return the number of rows to sample."""
    wanted = min(_WORK / system.n_columns**2, SAMPLE_ROWS_EACH * system.n_columns)
    return min(system.n_rows, int(wanted) + ROWS_TO_CHECK)


def take_sample(system: System, count: int, rng: np.random.Generator) -> tuple[Norms, Sample | None]:
    """Read `count` random rows; return their norms, and the nonzero rows, or None if there are none."""
    order = np.sort(system.sample(count, rng)[0])
    norms_sq = np.empty(order.size)
    norms_at(system.rows, system.b, order, norms_sq, system.counter.flagged_rows)
    system.count(order)
    n_rows, order, norms = order.size, order[norms_sq > 0.0], np.sqrt(norms_sq[norms_sq > 0.0])
    if not order.size:
        return Norms(n_rows, n_rows, system.counter.inconsistent_row), None
    unit = float(np.median(norms))
    source = system.source.take(order, np.full(order.size, 1.0 / unit))  # so that squares do not overflow
    sample = Sample(System(source, frozen(system.b[order] / unit), system.clock), norms / unit)
    return Norms(
        n_rows, n_rows - order.size, system.counter.inconsistent_row, float(norms.min()), float(norms.max())
    ), sample


def fit(sample: Sample, eps: float) -> Fit:
    """Fit x to the rows of `sample` without outliers, by trimmed least squares.

    Outliers affect the x that is fitted to all rows. So they are left out, x is fitted to the others, and the outliers
    are determined again from that x, until they do not change any more.
    """
    kept, fitted, matrix, started = np.arange(sample.n_rows), sample, sample.matrix, time.perf_counter()
    factor_of_all = factor = factor_of(sample.system, kept)
    seconds = time.perf_counter() - started
    for _ in range(STEPS):
        x = _least_squares(fitted, factor)
        off = np.abs(sample.system.b - matrix @ x)
        rounding = _rounding(x, eps) * sample.norms
        near = _near(off, sample.norms, rounding, kept)
        if np.array_equal(near, kept) or near.size < max((1.0 - OUTLIERS) * sample.n_rows, factor_of_all.rank + 1):
            break
        kept, fitted = near, sample.part(near)
        factor = factor_of(fitted.system, np.arange(fitted.n_rows))
    noise, size_of_x = _noise(fitted, factor.rank, x, agree=not (off > rounding)[kept].any()), float(np.linalg.norm(x))
    relative = noise / _root_mean_square(fitted.system.b) if noise else noise
    in_x = noise * math.sqrt(x.size / 2.0) / size_of_x if noise and size_of_x > 0.0 else 0.0  # see `Monitor._noisy`
    n_outliers = sample.n_rows - kept.size
    return Fit(factor_of_all, seconds, Noise(relative, n_wild=n_outliers, n_rows=sample.n_rows), in_x)


def _noise(fitted: Sample, rank: int, x: np.ndarray, *, agree: bool) -> float | None:
    """Return the standard deviation of the noise, from the residual and its degrees of freedom; None if there are none.

    It is 0 if the rows `agree` up to rounding.
    """
    if fitted.n_rows <= rank:
        return None
    size = _root_mean_square(fitted.system.b - fitted.matrix @ x)
    return 0.0 if agree else size / math.sqrt(1.0 - rank / fitted.n_rows)


def _root_mean_square(values: np.ndarray) -> float:
    return math.sqrt(float(np.mean(values**2)))


def _rounding(x: np.ndarray, eps: float) -> float:
    """Return the distance of x from a row that rounding of its entries and of their products with x may cause."""
    return LONG_SUM * eps * float(np.linalg.norm(x)) / math.sqrt(min(x.size, 64))


def _near(off: np.ndarray, norms: np.ndarray, rounding: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """Return the rows that are no outliers by their residual, or by the distance of x from them.

    Outliers must be so by both criteria: noise may or may not be proportional to the norms of the rows.
    """
    by_residual = off > FAR_OUT * np.median(off[kept])
    by_distance = off / norms > FAR_OUT * np.median(off[kept] / norms[kept])
    return np.flatnonzero(~(by_residual & by_distance & (off > rounding)))


def _least_squares(sample: Sample, factor: Factor) -> np.ndarray:
    """Solve ``A'A x = A'b`` with iterative refinement: at least two steps, more while they halve the residual."""
    matrix, b, x, before = sample.matrix, sample.system.b, np.zeros(sample.system.n_columns), math.inf
    left = b
    for _ in range(2 * STEPS):
        change = np.tile(matrix.T @ left, (2, 1))  # a factor solves for an even number of vectors
        factor.solve(change)
        x += change[0]
        left = b - matrix @ x
        size = float(np.linalg.norm(left))
        if not size < SHRINKS * before:
            break
        before = size
    return x


def condition_of(sample: Sample, factor: Factor, share: float) -> Condition | None:
    """Return the condition number of a sample, and bounds on that of A; None if it is not finite.

    `share` is the share of the rows of A in the sample. Let ``A = U S V'`` be the singular value decomposition of all n
    rows. If U is like a random basis, so that no direction is determined by a few rows only, then m of its rows, chosen
    at random, have singular values between ``sqrt(a (1 - c)) - sqrt(c (1 - a))`` and
    ``sqrt(a (1 - c)) + sqrt(c (1 - a))``, where ``a = m/n`` and ``c = p/n``. (For large n these are ``sqrt(m/n)`` times
    ``1 - sqrt(p/m)`` and ``1 + sqrt(p/m)``.) Let g be the ratio of these bounds. Then the condition number of all rows
    is at least that of the sample divided by g, and at most that of the sample times g. Rows of different norms count
    as fewer rows of equal norm: as ``sum(w)**2 / sum(w**2)``, the usual effective sample size for weights w, which are
    the squared norms here.
    """
    weights = (sample.norms / sample.norms.max()) ** 2
    worth = float(weights.sum() ** 2 / (weights @ weights)) / weights.size
    g, sampled = _condition_widening(share, share * factor.rank / (sample.n_rows * worth)), factor.condition
    if not math.isfinite(sampled):
        return None
    most = CONDITION_ERROR * sampled * g if math.isfinite(g) else None
    return Condition(sampled, max(1.0, sampled / g), most, factor.rank, sample.n_rows)


def _condition_widening(a: float, c: float) -> float:
    if a == 1.0:
        return 1.0
    kept, lost = math.sqrt(a * max(0.0, 1.0 - c)), math.sqrt(c * (1.0 - a))
    return (kept + lost) / (kept - lost) if kept > lost else math.inf
