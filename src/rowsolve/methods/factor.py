"""A triangle R with ``R'R`` close to ``A'A``, from a sample of the rows or from all of them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from rowsolve._blas import blas_threads
from rowsolve._vectors import norm, norms
from rowsolve.kernels.gradient import add_gram, solve_factored, solve_transposed, solve_upper
from rowsolve.kernels.rows import CSRRows, distances, frozen

if TYPE_CHECKING:
    from rowsolve._system import Part, System

__all__ = ["SQUARES", "Factor", "factor_of", "gather", "larger_of", "noise_of"]

# Reciprocal condition of the triangle, in the 1-norm, below which a Gram matrix has lost too many digits, by the
# precision of its products. In that norm it may be a p-th of what it is in the usual one, so single precision is asked
# for its condition as well.
_LEAST_RCOND = {np.dtype(np.float32): 3e-6, np.dtype(np.float64): 1e-7}
_MOST_IN_SINGLE = 1000.0  # condition: one that is mere rounding has 3,000, the root of 1 / eps, or more
_RANK_RCOND = 1e-13  # below it the singular values are asked which directions there are
_MANY_FLOPS = 1e8  # from here on it pays to try single precision first
_IN_RANGE = {np.dtype(np.float32): 1e6, np.dtype(np.float64): 1e60}  # entries whose squares are well in range
_EVEN = 4.0  # columns whose lengths differ by less need not be made equal
_TIMES_CHOLESKY = 4.0  # that a factorization takes if that one failed
_ROOM, _MUCH_ROOM = 2e7, 2e8  # bytes of rows gathered at a time
SQUARES = 6  # p x p numbers that are in memory while a factor is made
_ROWS_IN_SINGLE = 2048  # whose products are summed in single precision: the sum of more loses what small values need
_POWER_STEPS, _SETTLED = 12, 1.05
_VECTORS = 4


@lru_cache(maxsize=8)  # to start a generator takes longer than to factor a small system
def noise_of(size: int) -> np.ndarray:
    """Return a few random vectors, always the same."""
    return frozen(np.random.default_rng(0).standard_normal((_VECTORS, size)))


class Factor:
    """``R'R`` for ``A'A + damp**2``: a triangle, or singular vectors and values where a rank is missing.

    Attributes
    ----------
    n_rows : int
        Of how many rows it was made.
    rough : bool
        Whether it was made in single precision.
    """

    def __init__(
        self,
        n_rows: int,
        triangle: np.ndarray | None,
        vectors: np.ndarray | None = None,
        values: np.ndarray | None = None,
    ) -> None:
        self.n_rows, self.rough = n_rows, triangle is not None and triangle.dtype == np.float32
        self._triangle, self._vectors, self._values = triangle, vectors, values

    @property
    def deficient(self) -> bool:
        """Whether some directions are in no row."""
        return self._triangle is None

    @property
    def rank(self) -> int:
        """The number of directions that rows tell apart."""
        return len(self._triangle if self._triangle is not None else self._vectors)  # type: ignore[arg-type]

    @cached_property
    def condition(self) -> float:
        """The ratio of the largest to the smallest singular value that is not zero, within some 20%."""
        if self._values is not None:
            return float(self._values[0] / self._values[-1]) if len(self._values) else 1.0
        R: Any = self._triangle
        condition = 0.0
        v = noise_of(len(R))[:2].astype(R.dtype)
        for _ in range(_POWER_STEPS):
            v /= np.linalg.norm(v, axis=1, keepdims=True)
            v[0] = R.T @ (R @ v[0])
            both = v[[1, 1]].astype(float)
            self.solve(both)
            v[1], before = both[0], condition
            condition = math.sqrt(float(np.linalg.norm(v[0])) * float(np.linalg.norm(both[0])))
            if condition < _SETTLED * before:
                break
        return condition

    def solve(self, vectors: np.ndarray) -> None:
        """Replace each of `vectors` by ``(R'R)**-1`` times it, of least norm."""
        if self._triangle is not None:
            even = np.vstack([vectors, vectors[:1]]) if len(vectors) % 2 else vectors
            solve_factored(self._triangle, even)
            vectors[:] = even[: len(vectors)]
        else:
            self._expand(vectors, self._values**-2.0)  # type: ignore[operator]

    def spread_noise(self, noise: np.ndarray) -> None:
        """Replace each of `noise`, random vectors of p numbers, by the error in x that as random a noise in b makes."""
        assert self._triangle is not None
        noise[:] = np.einsum("cj,ji->ci", noise, self._triangle)  # not by BLAS: see `solve_transposed`
        self.solve(noise)

    def project(self, vectors: np.ndarray) -> None:
        """Take away from `vectors` what lies in no row."""
        if self._vectors is not None:
            self._expand(vectors, 1.0)

    def _expand(self, vectors: np.ndarray, weights: Any) -> None:
        basis: Any = self._vectors
        with blas_threads(len(vectors) * basis.size, 1):
            vectors[:] = ((vectors @ basis.T) * weights) @ basis

    def gram(self) -> tuple[np.ndarray, float]:
        """Return a matrix and a unit that make ``R'R``; directions in no row get the smallest value of the others."""
        size: Any = self._values if self._triangle is None else self._triangle
        unit = float(np.abs(size).max(initial=0.0)) or 1.0
        if self._triangle is not None:
            R = self._triangle / unit
            return R.T @ R, unit * unit
        V, squares = self._vectors, (size / unit) ** 2
        least = squares.min(initial=1.0)
        return (V.T * (squares - least)) @ V + least * np.eye(V.shape[1]), unit * unit  # type: ignore[union-attr]

    @cached_property
    def spread(self) -> float:
        """The Frobenius norm of ``R**-1``, by which noise in b spreads to x; estimated by a few random vectors.

        One small singular value may be nearly all of it, and all of them may have little of its direction, but they
        have nothing else when they are spread: so they are asked again.
        """
        if self._values is not None:
            return math.sqrt(float(np.sum(self._values**-2.0)))
        noise = noise_of(self.rank).copy()
        solve_transposed(self._triangle, noise)
        spread = norms(noise)
        noise /= spread[:, None]
        solve_upper(self._triangle, noise)
        return larger_of(spread, norms(noise))

    @cached_property
    def lengths(self) -> np.ndarray:
        """The norms of the columns of R, which are those of A."""
        size: Any = self._values[:, None] * self._vectors if self._triangle is None else self._triangle  # type: ignore
        return np.sqrt(np.einsum("ij,ij->j", size, size))

    @cached_property
    def harm(self) -> float:
        """How sums over rows spread to x: the sum that column j takes part in is rounded by its length.

        So the units of the columns do not matter.
        """
        return self.spread_sums(self.lengths)

    def spread_sums(self, sizes: np.ndarray) -> float:
        """Return the Frobenius norm of ``(R'R)**-1 D``, where D is diagonal with `sizes`.

        By random vectors that are asked twice, as in `spread`.
        """
        sums = sizes * noise_of(sizes.size)
        self.solve(sums)
        spread = norms(sums)
        sums /= np.where(spread > 0.0, spread, 1.0)[:, None]
        self.solve(sums)
        return larger_of(spread, norms(sizes * sums))


def larger_of(once: np.ndarray, twice: np.ndarray) -> float:
    """Return how far random vectors are spread: as a rule, or by the worst of them when they are asked again."""
    return max(norm(once) / math.sqrt(once.size), float(twice.max()))


def factor_of(system: System, order: np.ndarray, *, rough: bool = False) -> Factor:
    """Factor ``A'A + damp**2`` as the rows in `order`, which stand for all, give it; they are counted as read.

    By Cholesky of their Gram matrix while its digits suffice, at first with products in single precision if a `rough`
    factor will do and that saves much; else by QR; and by singular values where those rows do not tell all directions
    apart.
    """
    system.count(order)
    p, stand_for = system.n_columns, math.sqrt(system.n_rows / order.size)
    damp = system.damp / stand_for
    much = order.size * float(p) ** 2 > _MANY_FLOPS and not isinstance(system.rows, CSRRows)
    for dtype in (np.float32, np.float64) if rough and much else (np.float64,):
        started = system.clock.elapsed
        triangle = _by_cholesky(system, order, damp, np.dtype(dtype)) if order.size >= p or damp else None
        if triangle is not None:
            triangle *= stand_for
            factor = Factor(order.size, triangle.astype(dtype, copy=False))
            if dtype is np.float64 or factor.condition <= _MOST_IN_SINGLE:
                return factor
        system.keep_time(_TIMES_CHOLESKY * (system.clock.elapsed - started))
    with blas_threads(order.size * float(p) ** 2, system.threads):
        return _by_qr(system, order, damp, stand_for)


def gather(
    part: Part, n_columns: int, dtype: Any = float, start: int = 0, stop: int | None = None, room: float = _ROOM
) -> Iterator[np.ndarray]:
    """Yield the rows ``part.order[start:stop]`` as dense arrays of about `room` bytes."""
    rows, order = part.rows, part.order
    n_rows = rows.indptr.size - 1 if isinstance(rows, CSRRows) else len(rows.values)
    stop = order.size if stop is None else stop
    size = max(1, int(min(stop - start, room / (8 * n_columns))))
    for first in range(start, stop, size):
        piece: Any = order[first : min(first + size, stop)]
        if order.size == n_rows:
            piece = slice(first, min(first + size, stop))  # no copy of what is there as a whole
        if isinstance(rows, CSRRows):
            from scipy import sparse

            yield sparse.csr_array(tuple(rows), shape=(n_rows, n_columns))[piece].toarray().astype(dtype)
        else:
            yield rows.values[piece].astype(dtype, copy=False)


def _by_cholesky(system: System, order: np.ndarray, damp: float, dtype: np.dtype) -> np.ndarray | None:
    """Return R from the Gram matrix, whose products are of type `dtype`; None if it has not digits enough."""
    gram = _gram(system, order, dtype)
    if gram is None:
        return None
    with blas_threads(system.n_columns**3 / 6, system.threads):
        return _triangle_of(gram, damp, _LEAST_RCOND[dtype])


def _triangle_of(gram: np.ndarray, damp: float, least_rcond: float) -> np.ndarray | None:
    """Return R from the lower triangle of a Gram matrix, which is destroyed, with ``damp**2`` added to its diagonal."""
    from scipy.linalg import lapack

    gram.ravel(order="K")[:: len(gram) + 1] += damp * damp
    lengths = np.sqrt(gram.diagonal())
    if not (lengths > 0.0).all():
        return None
    even = lengths.max() < _EVEN * lengths.min()
    if not even:
        gram /= lengths[:, None]
        gram /= lengths
    lower, info = lapack.dpotrf(gram, lower=1, overwrite_a=1, clean=1)
    if info == 0:
        rcond, info = lapack.dtrcon(lower, uplo="L")
    if info != 0 or not rcond > least_rcond:
        return None
    triangle = lower.T
    if not even:
        triangle *= lengths
    return triangle


def _gram(system: System, order: np.ndarray, dtype: np.dtype) -> np.ndarray | None:
    """Return the lower triangle of the Gram matrix of the rows in `order`, in Fortran order, its products in `dtype`.

    None if their squares leave the range of the type.
    """
    p = system.n_columns
    gram = np.zeros((p, p), order="F")
    for part in system.parts(order):
        if isinstance(part.rows, CSRRows):
            add_gram(part.rows, part.order, gram.T)
        else:
            _add_products(system, part, gram, dtype)
    trace = float(gram.trace())
    if not math.isfinite(trace):
        find_odd_rows(system, order)
    limit = _IN_RANGE[dtype] ** 2
    return gram if 1.0 / limit < trace / p < limit else None


def _add_products(system: System, part: Part, gram: np.ndarray, dtype: np.dtype) -> None:
    """Add the Gram matrix of dense rows to `gram`, each thread that of some of them.

    By numpy's BLAS, which lets other threads run meanwhile, unlike scipy's.
    """
    parts: dict[int, np.ndarray] = {}
    room = 8.0 * system.n_columns * _ROWS_IN_SINGLE if dtype == np.float32 else _ROOM

    def multiply(start: int, stop: int, _: np.ndarray) -> None:
        own = parts[start] = np.zeros_like(gram)
        for rows in gather(part, len(gram), dtype, start, stop, room):
            own += (rows.T @ rows).T  # the same, in the order of `own`

    work = part.order.size * float(len(gram)) ** 2
    with blas_threads(work, 1):
        system.in_slices(multiply, 0, part.order.size, work)
    for start in sorted(parts):  # the same sum whichever thread was first
        gram += parts[start]


def _by_qr(system: System, order: np.ndarray, damp: float, stand_for: float) -> Factor:
    """Factor by QR, piece by piece; by singular values if a rank is missing."""
    from scipy.linalg import lapack, qr, svd

    p = system.n_columns
    triangle = damp * np.eye(p) if damp else np.zeros((0, p))
    for part in system.parts(order):
        for rows in gather(part, p, room=min(_MUCH_ROOM, system.room / 8)):
            triangle = qr(np.vstack([triangle, rows]), mode="r", check_finite=False)[0][:p]
    if not np.isfinite(triangle).all():
        find_odd_rows(system, order)
    if len(triangle) == p and triangle.diagonal().all():
        lengths = np.linalg.norm(triangle, axis=0)
        rcond, _ = lapack.dtrcon(triangle / lengths, uplo="U")
        if rcond > _RANK_RCOND:
            return Factor(order.size, np.ascontiguousarray(stand_for * triangle))
    _, values, vectors = svd(triangle, full_matrices=False, check_finite=False)
    rank = int(np.sum(values > values[:1] * max(order.size, p) * np.finfo(float).eps))
    return Factor(order.size, None, np.ascontiguousarray(vectors[:rank]), stand_for * values[:rank])


def find_odd_rows(system: System, order: np.ndarray) -> None:
    """Raise for the row in `order` that is not finite, or whose squares leave the range of float64."""
    for part in system.parts(order):
        zero, out = np.zeros(system.n_columns), np.empty(part.order.size)
        distances(part.rows, part.of(system.largest_b), part.order, zero, out, 0.0, system.odd)
    system.look_at_odd_rows()
