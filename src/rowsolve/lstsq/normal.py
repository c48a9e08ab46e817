"""Least squares from a compressed state: the normal equations, their rank, and the error of their solution."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import lapack

from rowsolve.lstsq.orthogonal import orthonormal
from rowsolve.lstsq.state import Compressed
from rowsolve.policy.thresholds import (
    AS_GIVEN,
    BY_ROUNDING,
    CLEARLY_MORE,
    EPS,
    IN_RANGE,
    LONG_SUM,
    N_VECTORS,
    ORDER_OF_MAGNITUDE,
    ROUNDED,
    SAFE_CONDITION,
    STEPS,
    SUM,
    SURE,
)

__all__ = ["Fit", "GramFactor", "factor_gram", "fit_normal", "noise_of", "norms", "residual_sq_of"]


class Fit(NamedTuple):
    """A least-squares solution and what is known of it.

    Attributes
    ----------
    x : ndarray of shape (k, p)
        One for each right-hand side.
    error : ndarray of shape (k,)
        Estimated ``norm(x - x*)``.
    residual_sq : ndarray of shape (k,)
        ``norm(b - A x)**2``, without the damping; NaN if it is so far below ``norm(b)**2`` that it cannot be computed
        from sums over all rows, but only from rows.
    squares : ndarray of shape (k,)
        ``norm(b)**2``.
    rank : int
    has_gap : bool
        Whether the singular values that count for the rank are clearly separated from those that count as zero.
    n_reads : int
        How often A was read.
    off : ndarray of shape (n, k) or None
        ``b - A x`` in all rows, where it was computed, but for a last correction of x within its error.
    """

    x: np.ndarray
    error: np.ndarray
    residual_sq: np.ndarray
    squares: np.ndarray
    rank: int
    has_gap: bool
    n_reads: int
    off: np.ndarray | None = None


class GramFactor:
    """The Cholesky factor of a Gram matrix, with columns scaled to equal length.

    If A is rank-deficient it is the factor of independent columns, `columns`, and solutions have minimum norm: `basis`
    is an orthonormal basis of the null space, or of the row space if that has fewer dimensions.
    """

    def __init__(self, lower: np.ndarray, lengths: np.ndarray, rcond: float, columns: Any = None) -> None:
        self.lower, self.lengths, self.rcond, self.columns = lower, lengths[:, None], rcond, columns
        self.rank, self.of_null = len(lower), False
        self.basis: np.ndarray | None = None
        self.others, self.beyond = np.empty(0, np.int64), np.empty((self.rank, 0))

    @property
    def deficient(self) -> bool:
        """Whether A is rank-deficient."""
        return self.basis is not None

    def solve(self, vectors: np.ndarray) -> np.ndarray:
        """Return the minimum-norm solution for each column of `vectors`."""
        scaled = vectors / self.lengths
        if self.columns is None:
            return self.project(lapack.dpotrs(self.lower, scaled, lower=1)[0] / self.lengths)
        found = np.zeros_like(scaled)
        found[self.columns] = lapack.dpotrs(self.lower, scaled[self.columns], lower=1)[0]
        return self.project(found / self.lengths)

    def project(self, vectors: np.ndarray) -> np.ndarray:
        """Return the projection of each column of `vectors` on the row space."""
        if self.basis is None:
            return vectors
        inside = self.basis @ (self.basis.T @ vectors)
        return vectors - inside if self.of_null else inside

    def leave_out(self, null: np.ndarray) -> None:
        """Exclude null vectors that were added to the matrix before it was factored."""
        self.basis, self.of_null, self.rank = null, True, self.rank - null.shape[1]

    def find_basis(self, beyond: np.ndarray, others: np.ndarray) -> None:
        """Compute the null space, given the entries of the factor's rows in the `others`, scaled columns."""
        p, rank, self.others, self.beyond = len(self.lengths), self.rank, others, beyond
        self.of_null = p - rank <= rank
        basis = np.zeros((p, p - rank if self.of_null else rank))
        if self.of_null:
            basis[others, np.arange(p - rank)] = 1.0
            basis[self.columns] = -lapack.dtrtrs(self.lower, beyond, lower=1, trans=1)[0]
            basis /= self.lengths
        else:
            basis[self.columns], basis[others] = np.tril(self.lower), beyond.T
            basis *= self.lengths
        self.basis = orthonormal(basis)[0]

    def rows(self) -> np.ndarray:
        """Return R, a row for each independent column, with all columns of A: ``R'R`` is the Gram matrix."""
        whole = np.empty((self.rank, len(self.lengths)))
        whole[:, slice(None) if self.columns is None else self.columns] = np.tril(self.lower).T
        whole[:, self.others] = self.beyond
        return whole * self.lengths.T

    def inverse_norm(self) -> float:
        """Return the Frobenius norm of the inverse of the triangle, in the units of x, from random vectors."""
        found = lapack.dtrtrs(self.lower, noise_of(len(self.lower)), lower=1, trans=1)[0]
        lengths = self.lengths if self.columns is None else self.lengths[self.columns]
        return float(np.linalg.norm(found / lengths)) / math.sqrt(N_VECTORS)


@lru_cache(maxsize=16)  # creating a generator takes longer than solving a small system
def noise_of(size: int) -> np.ndarray:
    """Return a few random columns, the same in each call."""
    noise = np.random.default_rng(0).standard_normal((size, N_VECTORS))
    noise.flags.writeable = False
    return noise


def factor_gram(gram: np.ndarray, damp: float = 0.0, null: np.ndarray | None = None) -> GramFactor | None:
    """Factor ``gram + damp**2``; return None if squares hide whether columns are dependent.

    Only the upper triangle of `gram` is used. If null vectors are known, orthonormal columns of `null`, they are added
    to the matrix, which then has full rank and is factored in a third of the time.
    """
    if null is not None and not damp:
        filled = (float(gram.trace()) / len(gram) * null) @ null.T
        filled += gram
        found = _of_full_rank(filled, *_lengths_of(filled, 0.0), out=filled)
        if found is not None:
            found.leave_out(null)
            return found
    lengths, diagonal = _lengths_of(gram, damp)
    found = _of_full_rank(gram, lengths, diagonal)
    if found is not None or damp or lengths is None:
        return found
    return _independent(_scaled(gram, lengths, diagonal), lengths)


def _lengths_of(gram: np.ndarray, damp: float) -> tuple[np.ndarray | None, np.ndarray]:
    """Return the lengths of columns, 1 for those of zeros and one number for all if they differ little; the diagonal.

    None in place of the lengths if their squares leave the range of float64.
    """
    diagonal = gram.diagonal() + damp * damp
    numbers = diagonal.tolist()  # after a rest, fewer functions of numpy take less time
    least, largest = min(filter(None, numbers), default=math.nan), max(numbers)
    if not (sum(numbers) < IN_RANGE**2 and least > IN_RANGE**-2):  # a sum is NaN if a number is
        return None, diagonal
    lengths = np.sqrt(diagonal)
    if 0.0 in numbers:
        lengths[diagonal == 0.0] = 1.0
        least, largest = min(least, 1.0), max(largest, 1.0)
    if largest <= CLEARLY_MORE**2 * least:
        lengths[:] = math.sqrt(largest)
    return lengths, diagonal


def _scaled(gram: np.ndarray, lengths: np.ndarray, diagonal: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """Return the Gram matrix of columns of one length, with this `diagonal`; it may be put into `gram` itself."""
    if lengths.min() == lengths.max():
        scaled = np.divide(gram, lengths[0] * lengths[0], out=out)
    else:
        scaled = np.divide(gram, lengths[:, None], out=out)
        scaled /= lengths
    scaled.ravel()[:: len(scaled) + 1] = diagonal / (lengths * lengths)
    return scaled


def _of_full_rank(
    gram: np.ndarray, lengths: np.ndarray | None, diagonal: np.ndarray, out: np.ndarray | None = None
) -> GramFactor | None:
    """Factor without pivoting; return None if that fails, or if some columns may be dependent."""
    if lengths is None or not diagonal.all():
        return None
    lower, info = lapack.dpotrf(_scaled(gram, lengths, diagonal, out).T, lower=1, clean=0, overwrite_a=1)
    if info == 0 and (rcond := lapack.dtrcon(lower, uplo="L")[0]) > 1.0 / SAFE_CONDITION:
        return GramFactor(lower, lengths, rcond)
    return None


def _independent(scaled: np.ndarray, lengths: np.ndarray) -> GramFactor | None:
    """Factor with pivoting; return None unless the remainder of dependent columns is far smaller than the others."""
    p = len(scaled)
    lower, order, rank, _ = lapack.dpstrf(scaled.T, tol=p * EPS, lower=1, overwrite_a=1)
    if rank in (0, p):
        return None
    first = np.asfortranarray(lower[:rank, :rank])
    if not (rcond := lapack.dtrcon(first, uplo="L")[0]) > 1.0 / SAFE_CONDITION:
        return None
    found = GramFactor(first, lengths, rcond, order[:rank] - 1)
    found.find_basis(lower[rank:, :rank].T, order[rank:] - 1)
    return found


Slopes = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


def fit_normal(
    state: Compressed, factor: GramFactor, x0: np.ndarray, damp: float, tolerance: Any, slopes: Slopes
) -> Fit | None:
    """Solve the normal equations of a compressed A and b, given their `factor`, for the x nearest to `x0`.

    If rounding errors are far below the `tolerance` by the condition number, nothing else is done. Otherwise a pass
    determines the error of x and corrects it: ``slopes(x)`` returns ``A'(b - A x)`` and the squared norm of each
    residual. Return None if the squares of A do not determine x.
    """
    if factor.deficient:
        x = factor.solve(state.sides)
        return _with_null_space(state, factor, x, x0.T, tolerance, slopes)
    k, lengths = len(state.squares), factor.lengths
    right = np.empty((len(lengths), k + N_VECTORS))
    right[:, :k], right[:, k:] = state.sides, lengths * noise_of(len(lengths))
    found = factor.solve(right)
    sizes_sq, x = np.vecdot(found.T, found.T), found[:, :k]
    size, size_sq, spread_of_sums = norms(lengths * x), sizes_sq[:k], math.sqrt(sum(sizes_sq[k:].tolist()) / N_VECTORS)
    residual_sq = residual_sq_of(x, state.sides, state.squares, damp * damp * size_sq)
    error = EPS * LONG_SUM * (size + np.sqrt(state.squares)) * spread_of_sums
    enough, as_given = SURE * tolerance.at(np.sqrt(size_sq), 0.0), np.zeros_like(error)
    if tolerance.eps > EPS:
        as_given = _rounding(state, factor, size, np.sqrt(np.nan_to_num(residual_sq)), tolerance)
        enough = np.maximum(enough, SURE * as_given)
    if (error <= enough).all():
        return Fit(x.T, np.maximum(error, as_given), residual_sq, state.squares, factor.rank, True, 1)
    return _refined(state, factor, x, damp, tolerance, slopes)


def residual_sq_of(x: np.ndarray, sides: np.ndarray, squares: np.ndarray, damped: Any = 0.0) -> np.ndarray:
    """Return ``norm(b - A x)**2`` for each column of x, from sums over all rows; NaN if these are too inaccurate."""
    residual_sq = squares - np.vecdot(x.T, sides.T) - damped
    if not sum(residual_sq.tolist()) >= BY_ROUNDING * sum(squares.tolist()):
        residual_sq = np.full_like(residual_sq, math.nan)
    return residual_sq


def _rounding(state: Compressed, factor: GramFactor, y: np.ndarray, r: np.ndarray, tolerance: Any) -> np.ndarray:
    """Return the error of a refined x due to rounding of the products A x and of the sums in A'r."""
    as_given = AS_GIVEN * tolerance.eps  # the numbers of A and b are themselves rounded
    of_products, of_sums = max(SUM * EPS, as_given) * y, max(EPS, as_given) * r / factor.rcond
    return factor.inverse_norm() / math.sqrt(state.n_rows) * (of_products + of_sums)


def _refined(
    state: Compressed, factor: GramFactor, x: np.ndarray, damp: float, tolerance: Any, slopes: Slopes
) -> Fit | None:
    """Correct x until the error left meets the tolerance: each correction leaves the same fraction of the error."""
    size = norms(factor.lengths * x)
    for step in range(STEPS):
        slope, residual_sq = slopes(x)
        slope -= damp * damp * x
        change = factor.solve(slope)
        before, size = size, norms(factor.lengths * change)
        x = x + change
        rounding = _rounding(state, factor, norms(factor.lengths * x), np.sqrt(residual_sq), tolerance)
        left = _left_of(change, size, before)
        error = np.maximum(left, rounding)
        enough = tolerance.at(norms(x), 0.0)
        if (left <= enough).all() and ((rounding <= enough) | (tolerance.eps > EPS)).all():
            residual_sq = np.maximum(residual_sq - np.vecdot(slope.T, change.T), 0.0)
            return Fit(x.T, error, residual_sq, state.squares, factor.rank, True, 2 + step)
    return None


def _left_of(change: np.ndarray, size: np.ndarray, before: np.ndarray) -> np.ndarray:
    """Return the error left after a correction of this `size`, in the scaled columns, of an x or correction `before`.

    A correction leaves the same fraction of the error as the one before has left; a margin is added.
    """
    share = np.divide(size, before, out=np.zeros_like(size), where=before > 0.0)
    return norms(change) * np.minimum(ORDER_OF_MAGNITUDE * share, 1.0)


def _with_null_space(
    state: Compressed, factor: GramFactor, x: np.ndarray, x0: np.ndarray, tolerance: Any, slopes: Slopes
) -> Fit | None:
    """Move x next to x0, correct it, and check the null space of the Gram matrix, which has only half of the digits.

    For a random null vector v, corrected like x if needed, A v must be zero up to rounding.
    """
    k, noise = x.shape[1], noise_of(len(x))[:, :1]
    both = np.hstack([x + x0 - factor.project(x0), noise - factor.project(noise)])
    limit = max(state.n_rows, len(x), ROUNDED) * EPS
    before, turned = norms(factor.lengths * x), 0.0
    for step in range(2):
        slope, squares = slopes(both)
        null = both[:, k:]
        change = factor.solve(slope)
        left_sq = squares[k:] - np.vecdot(slope[:, k:].T, change[:, k:].T)  # once the change is added to it
        still_sq = np.maximum(left_sq, squares[k:] / SAFE_CONDITION)  # below which it cannot be distinguished from zero
        is_null = (np.sqrt(still_sq) <= limit * norms(factor.lengths * null)).all()
        size = norms(factor.lengths * change[:, :k])
        turned = max(turned, float(norms(change[:, k:])[0] / norms(null)[0]))
        both = both + change
        x, r = both[:, :k], np.sqrt(squares[:k])
        rounding = _rounding(state, factor, norms(factor.lengths * x), r, tolerance)
        left = _left_of(change[:, :k], size, before) if step == 0 else norms(change[:, :k])
        error = np.maximum.reduce([left, turned * norms(x), rounding])
        if is_null and ((error <= SURE * tolerance.at(norms(x), 0.0)) | (step == 1)).all():
            break
    if not is_null or (tolerance.eps <= EPS and not (error <= tolerance.at(norms(x), 0.0)).all()):
        return None
    residual_sq = np.maximum(squares[:k] - np.vecdot(slope[:, :k].T, change[:, :k].T), 0.0)
    if x0.any():  # its rounding errors remain in x after any correction
        error = error + turned * norms(x0) + _rounding(state, factor, norms(factor.lengths * x0), 0.0 * r, tolerance)
    return Fit(x.T, error, residual_sq, state.squares, factor.rank, True, 2 + step)


def norms(columns: np.ndarray) -> np.ndarray:
    """Return the norm of each column."""
    return np.sqrt(np.vecdot(columns.T, columns.T))
