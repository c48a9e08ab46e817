"""What a factor of a random sample of the rows tells: condition, rank, noise, rows that are far off."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from rowsolve.inspection.report import Condition, Noise, Norms
from rowsolve.kernels.rows import CSRRows, frozen, norms_at
from rowsolve.lstsq.factor import Factor, factor_of
from rowsolve.problem.system import System

__all__ = ["MOST_COLUMNS", "Fit", "Sample", "condition_of", "fit", "rows_to_factor", "take_sample"]

MOST_COLUMNS = 1500  # a factor of some more rows takes a second, which is long enough for a look
_WORK = 4e9  # multiplications for a factor: a sample of 4 p rows at 1,000 columns
_FEWEST, _MOST = 2, 16  # times p rows: more tell the condition better, but not by much
_SPARE = 256  # rows beyond that, for systems of a few columns
_WITHIN = 1.2  # the condition of a factor is known to some 20%, and never too high
_POLISHING = 8  # steps at most, each of which gains as many digits as the factor has
_WILD = 12.0  # times the median distance: a normal distribution reaches 5 in some thousand rows
_FEW = 0.2  # of the rows at most: if more are far off, that is how the noise is distributed
_ROUNDS = 6  # of leaving out rows that are far off and looking again
_ENOUGH = 4  # times p rows to tell them by
_ROUNDING = 16.0  # units of rounding that a row may be off without any noise


@dataclass(frozen=True)
class Sample:
    """Some rows in memory, none of them zero, in units of their median norm; and their norms."""

    system: System
    norms: np.ndarray

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return self.norms.size

    @property
    def matrix(self) -> Any:
        """The rows as numpy or scipy multiply them."""
        if isinstance(self.system.rows, CSRRows):
            from scipy import sparse

            return sparse.csr_array(tuple(self.system.rows), shape=(self.n_rows, self.system.n_columns))
        return self.system.rows.values

    def part(self, order: np.ndarray) -> Sample:
        """Return a copy of the rows in `order`."""
        source = self.system.source.take(order, np.ones(order.size))
        return Sample(System(source, frozen(self.system.b[order]), self.system.clock), self.norms[order])


class Fit(NamedTuple):
    """What the least-squares x of a sample, without the rows that are far off, tells."""

    factor: Factor  # of all rows of the sample
    seconds: float  # that it took to make
    noise: Noise
    noise_in_x: float  # the relative error of an x that goes on moving with the noise of one row after another


def rows_to_factor(system: System) -> int:
    """Return how many rows make a good sample."""
    wanted = min(max(_WORK / system.n_columns**2, _FEWEST * system.n_columns), _MOST * system.n_columns)
    return min(system.n_rows, int(wanted) + _SPARE)


def take_sample(system: System, count: int, rng: np.random.Generator) -> tuple[Norms, Sample | None]:
    """Read `count` random rows; return what their norms are, and those that are not zero, if there are any."""
    order = np.sort(system.sample(count, rng)[0])
    norms_sq = np.empty(order.size)
    norms_at(system.rows, system.b, order, norms_sq, system.counter.odd)
    system.count(order)
    n_rows, order, norms = order.size, order[norms_sq > 0.0], np.sqrt(norms_sq[norms_sq > 0.0])
    if not order.size:
        return Norms(n_rows, n_rows, system.counter.contradiction), None
    unit = float(np.median(norms))
    source = system.source.take(order, np.full(order.size, 1.0 / unit))  # so that squares are in range
    sample = Sample(System(source, frozen(system.b[order] / unit), system.clock), norms / unit)
    return Norms(
        n_rows, n_rows - order.size, system.counter.contradiction, float(norms.min()), float(norms.max())
    ), sample


def fit(sample: Sample, eps: float) -> Fit:
    """Fit x to the rows of `sample` that are not far off.

    The x of all rows is drawn towards those that are far off. So these are left out, and told apart again by the x of
    the others, until they stay the same: trimmed least squares.
    """
    kept, fitted, matrix, started = np.arange(sample.n_rows), sample, sample.matrix, time.perf_counter()
    factor_of_all = factor = factor_of(sample.system, kept)
    seconds = time.perf_counter() - started
    for _ in range(_ROUNDS):
        x = _least_squares(fitted, factor)
        off = np.abs(sample.system.b - matrix @ x)
        rounding = _rounding(x, eps) * sample.norms
        near = _near(off, sample.norms, rounding, kept)
        if np.array_equal(near, kept) or near.size < max((1.0 - _FEW) * sample.n_rows, factor_of_all.rank + 1):
            break
        kept, fitted = near, sample.part(near[:: max(1, near.size // (_ENOUGH * x.size + _SPARE))])
        factor = factor_of(fitted.system, np.arange(fitted.n_rows))
    noise, size_of_x = _noise(fitted, factor.rank, x, agree=not (off > rounding)[kept].any()), float(np.linalg.norm(x))
    relative = noise / _root_mean_square(fitted.system.b) if noise else noise
    in_x = noise * math.sqrt(x.size / 2.0) / size_of_x if noise and size_of_x > 0.0 else 0.0  # see `Monitor._noisy`
    wild = sample.n_rows - kept.size
    return Fit(factor_of_all, seconds, Noise(relative, n_wild=wild, n_rows=sample.n_rows), in_x)


def _noise(fitted: Sample, rank: int, x: np.ndarray, *, agree: bool) -> float | None:
    """Return the typical residual: as many rows as the rank are fitted whatever their noise, the others tell it."""
    if fitted.n_rows <= rank:
        return None
    size = _root_mean_square(fitted.system.b - fitted.matrix @ x)
    return 0.0 if agree else size / math.sqrt(1.0 - rank / fitted.n_rows)


def _root_mean_square(values: np.ndarray) -> float:
    return math.sqrt(float(np.mean(values**2)))


def _rounding(x: np.ndarray, eps: float) -> float:
    """Return how far x may be from a row by rounding alone: of its numbers, and of their products with x."""
    return _ROUNDING * eps * float(np.linalg.norm(x)) / math.sqrt(min(x.size, 64))


def _near(off: np.ndarray, norms: np.ndarray, rounding: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """Return the rows that are not far off, by their residual or by the distance of x from them.

    By one of the two alone noise would seem wild that is in proportion to the norms of the rows, or that is not.
    """
    by_residual = off > _WILD * np.median(off[kept])
    by_distance = off / norms > _WILD * np.median(off[kept] / norms[kept])
    return np.flatnonzero(~(by_residual & by_distance & (off > rounding)))


def _least_squares(sample: Sample, factor: Factor) -> np.ndarray:
    """Solve ``A'A x = A'b``, and again for what is left of b, twice at least and as long as that halves it."""
    matrix, b, x, before = sample.matrix, sample.system.b, np.zeros(sample.system.n_columns), math.inf
    left = b
    for _ in range(_POLISHING):
        change = np.tile(matrix.T @ left, (2, 1))  # a factor takes an even number of vectors
        factor.solve(change)
        x += change[0]
        left = b - matrix @ x
        size = float(np.linalg.norm(left))
        if not size < 0.5 * before:
            break
        before = size
    return x


def condition_of(sample: Sample, factor: Factor, share: float) -> Condition | None:
    """Return the condition of a sample of a `share` of A, and the range of that of A; None if out of range.

    Let U S V' be all n rows. m of the rows of U, picked at random, have singular values between
    ``sqrt(a (1 - c)) - sqrt(c (1 - a))`` and the same with a plus, where ``a = m/n`` and ``c = p/n``, if U is like a
    random basis: if no few rows carry a direction alone. (For many rows that is ``sqrt(m/n)`` times
    ``1 - sqrt(p/m)`` and ``1 + sqrt(p/m)``.) With g for the ratio of the two, the condition of all rows is at least
    that of the sample over g and at most that of the sample times g. Rows of very different norms are worth fewer of
    the same norm: by the usual rule for weights, ``sum(w)**2 / sum(w**2)``, here with squared norms for weights.
    """
    weights = (sample.norms / sample.norms.max()) ** 2
    worth = float(weights.sum() ** 2 / (weights @ weights)) / weights.size
    g, sampled = _widening(share, share * factor.rank / (sample.n_rows * worth)), factor.condition
    if not math.isfinite(sampled):
        return None
    most = _WITHIN * sampled * g if math.isfinite(g) else None
    return Condition(sampled, max(1.0, sampled / g), most, factor.rank, sample.n_rows)


def _widening(a: float, c: float) -> float:
    if a == 1.0:
        return 1.0
    kept, lost = math.sqrt(a * max(0.0, 1.0 - c)), math.sqrt(c * (1.0 - a))
    return (kept + lost) / (kept - lost) if kept > lost else math.inf
