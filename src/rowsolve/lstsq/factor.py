"""A triangle R with ``R'R`` close to ``A'A``, from a sample of the rows or from all of them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from rowsolve.checkpoint.state import (
    Kind,
    Sizes,
    StateError,
    array,
    check_keys,
    flag,
    integer,
    optional,
    row_numbers,
    state_of,
)
from rowsolve.kernels.gradient import add_gram, solve_factored, solve_transposed, solve_upper
from rowsolve.kernels.rows import CSRRows, distances, residuals
from rowsolve.lstsq.normal import factor_gram, noise_of
from rowsolve.lstsq.orthogonal import full_condition, orthonormal, pivoted, qr_of, scaled_columns
from rowsolve.lstsq.state import compress
from rowsolve.lstsq.triangle import Triangle, triangulate
from rowsolve.parallel.blas import blas_threads
from rowsolve.parallel.vectors import norm, norms
from rowsolve.policy.prices import QR_PER_PRODUCT
from rowsolve.policy.thresholds import BY_ROUNDING, EPS, GATHERED, POWER_STEPS
from rowsolve.problem.reader import Part
from rowsolve.problem.system import System

__all__ = [
    "Factor", "amplification", "factor_of", "find_odd_rows", "gather", "products_of_gram", "rows_beyond",
    "rows_that_reach",
]  # fmt: skip


class Factor:
    """The factor R in ``R'R = A'A + damp**2``, a triangle of all columns of A, or of independent ones.

    If A is rank-deficient, R is the triangle of `columns`, chosen by pivoting, `rows` are its rows with all columns of
    A, and `null` has an orthonormal basis of the null space.

    Attributes
    ----------
    n_rows : int
        The number of rows of A that were factored.
    has_gap : bool
        Whether the singular values that count for the rank are clearly separated from those that do not.
    """

    def __init__(
        self,
        n_rows: int,
        triangle: np.ndarray,
        rows: np.ndarray | None = None,
        columns: np.ndarray | None = None,
        *,
        has_gap: bool = True,
    ) -> None:
        self.n_rows, self.has_gap = n_rows, has_gap
        self._triangle, self._rows, self._columns = triangle, rows, columns
        self._null = None if rows is None else _null_space(triangle, rows, columns)

    @property
    def deficient(self) -> bool:
        """Whether the rows are rank-deficient."""
        return self._null is not None

    @property
    def rank(self) -> int:
        """The rank of the rows."""
        return len(self._triangle)

    @cached_property
    def condition(self) -> float:
        """The ratio of the largest to the smallest nonzero singular value, within about 20%."""
        if not self.rank:
            return 1.0
        R = self._triangle if self._rows is None else self._rows
        v = noise_of(self._n_columns).T[:2].copy()
        self.project(v)
        for _ in range(POWER_STEPS):
            v /= norms(v)[:, None]
            v[0] = R.T @ (R @ v[0])
            self.solve(v[1:])
        return math.sqrt(norm(v[0]) * norm(v[1]))

    def solve(self, vectors: np.ndarray) -> None:
        """Replace each of `vectors` by ``(R'R)**-1`` times it, with minimum norm."""
        self.project(vectors)
        part = vectors if self._columns is None else vectors[:, self._columns]
        even = np.vstack([part, part[:1]]) if len(part) % 2 else part
        solve_factored(self._triangle, even)
        self._put(even[: len(part)], vectors)

    def _put(self, part: np.ndarray, vectors: np.ndarray) -> None:
        """Write the entries for the columns of R into `vectors`, and make these orthogonal to the null space."""
        if self._columns is None:
            vectors[:] = part
            return
        vectors[:] = 0.0
        vectors[:, self._columns] = part
        self.project(vectors)

    def spread_noise(self, noise: np.ndarray) -> None:
        """Replace each of `noise`, random vectors of p numbers, by the error of x due to such noise in b."""
        assert not self.deficient
        noise[:] = np.einsum("cj,ji->ci", noise, self._triangle)  # not by BLAS: see `solve_transposed`
        self.solve(noise)

    def project(self, vectors: np.ndarray) -> None:
        """Make `vectors` orthogonal to the null space."""
        if self._null is not None:
            with blas_threads(len(vectors) * self._null.size, 1):
                vectors -= (vectors @ self._null.T) @ self._null

    @cached_property
    def inverse_norm(self) -> float:
        """The Frobenius norm of ``A**+``, the amplification of noise in b; estimated from a few random vectors.

        It may be dominated by one small singular value, in whose direction the random vectors may have small
        components. After one application that direction dominates them, so they are applied twice.
        """
        if not self.rank:
            return 0.0
        vectors = noise_of(self._n_columns).T.copy()
        self.project(vectors)
        noise = vectors if self._columns is None else np.ascontiguousarray(vectors[:, self._columns])
        solve_transposed(self._triangle, noise)
        spread = norms(noise)
        noise /= spread[:, None]
        solve_upper(self._triangle, noise)
        self._put(noise, vectors)
        return amplification(spread, norms(vectors))

    @property
    def _n_columns(self) -> int:
        return self.rank if self._rows is None else self._rows.shape[1]

    @cached_property
    def lengths(self) -> np.ndarray:
        """The norms of the columns of R, which are those of A."""
        rows = self._triangle if self._rows is None else self._rows
        return np.sqrt(np.einsum("ij,ij->j", rows, rows))

    @cached_property
    def harm(self) -> float:
        """The amplification of rounding errors of sums over rows, where that of column j is relative to its length.

        So it does not depend on the units of the columns.
        """
        return self.spread_sums(self.lengths)

    def spread_sums(self, sizes: np.ndarray) -> float:
        """Return the Frobenius norm of ``(R'R)**-1 D``, where D is diagonal with `sizes`.

        It is estimated from random vectors that are applied twice, as in `inverse_norm`.
        """
        sums = sizes * noise_of(sizes.size).T
        self.solve(sums)
        spread = norms(sums)
        sums /= np.where(spread > 0.0, spread, 1.0)[:, None]
        self.solve(sums)
        return amplification(spread, norms(sizes * sums))

    saved: ClassVar[dict[str, Kind]] = {  # in the order of the arguments
        "n_rows": integer(1, "n"),
        "_triangle": array("rank", "rank"),
        "_rows": optional(array("rank", "p")),
        "_columns": optional(row_numbers("rank", of="p")),
        "has_gap": flag,
    }
    derived: ClassVar[tuple[str, ...]] = ("_null", "condition", "inverse_norm", "lengths", "harm")

    def state(self) -> dict[str, Any]:
        """Return the state of the factor."""
        return state_of(self)

    @classmethod
    def from_state(cls, state: Any, sizes: Sizes) -> Factor:
        """Return the factor with that state."""
        check_keys(state, cls.saved)
        own = dict(sizes)
        n_rows, triangle, rows, columns, has_gap = (kind(state[name], own) for name, kind in cls.saved.items())
        if (rows is None) is not (columns is None) or (rows is None and len(triangle) != sizes["p"]):
            raise StateError("_triangle: expected a triangle of all columns, or the rows and columns used")
        if rows is not None and np.unique(columns).size != len(columns):
            raise StateError("_columns: expected different columns")
        return cls(n_rows, triangle, rows, columns, has_gap=has_gap)


def _null_space(triangle: np.ndarray, rows: np.ndarray, columns: Any) -> np.ndarray:
    """Return an orthonormal basis, one vector in each row, of the null space of `rows`."""
    from scipy.linalg import solve_triangular

    rank, p = rows.shape
    others = np.setdiff1d(np.arange(p), columns)
    basis = np.zeros((p, p - rank))
    basis[others, np.arange(p - rank)] = 1.0
    if rank:
        basis[columns] = -solve_triangular(triangle, rows[:, others], check_finite=False)
    return np.ascontiguousarray(orthonormal(basis)[0].T)


def amplification(once: np.ndarray, twice: np.ndarray) -> float:
    """Return the Frobenius norm of a matrix, from the norms of its products with random vectors.

    `twice` has the norms of the products of the transpose with the normalized results.
    """
    return max(norm(once) / math.sqrt(once.size), float(twice.max()))


def factor_of(system: System, order: np.ndarray) -> Factor:
    """Factor ``A'A + damp**2``, estimated from the rows in `order`, which are counted as read.

    The factor is computed by Cholesky from their Gram matrix if that is accurate enough, otherwise by QR, and from
    singular values if these rows are rank-deficient. Raise `TooLong` if the next of these would end after the deadline.
    """
    system.count(order)
    p, stand_for = system.n_columns, math.sqrt(system.n_rows / order.size)
    damp = system.damp / stand_for
    system.clock.make_sure_of_time(products_of_gram(system, order.size) + p**3 / 3)
    if order.size >= p or damp:
        gram = _gram(system, order)
        with blas_threads(p**3 / 6, system.limits.threads):
            found = factor_gram(gram, damp)
            if found is not None:
                rows, columns = stand_for * found.rows(), found.columns
                if columns is None:
                    return Factor(order.size, rows)
                factor = Factor(order.size, np.ascontiguousarray(rows[:, columns]), rows, columns.astype(np.int64))
                if _is_null(system, order, factor):
                    return factor
    system.clock.make_sure_of_time(QR_PER_PRODUCT * (order.size * float(p) ** 2 + 2.0 * float(p) ** 3))
    with blas_threads(order.size * float(p) ** 2, system.limits.threads):
        return _by_qr(system, order, damp, stand_for)


def products_of_gram(system: System, n_rows: int) -> float:
    """Return the number of multiplications for the Gram matrix of so many rows."""
    return (
        n_rows
        * system.entries_per_row
        * (system.entries_per_row if isinstance(system.rows, CSRRows) else system.n_columns / 2)
    )


def gather(part: Part, n_columns: int, n_bytes: float = math.inf) -> Iterator[np.ndarray]:
    """Yield the rows of a part as dense arrays of about `n_bytes` bytes."""
    rows, order = part.rows, part.order
    n_rows = rows.indptr.size - 1 if isinstance(rows, CSRRows) else len(rows.values)
    size = max(1, int(min(order.size, n_bytes / (8 * n_columns))))
    for first in range(0, order.size, size):
        piece: Any = order[first : first + size]
        if order.size == n_rows:
            piece = slice(first, first + size)  # no copy if all rows are there
        if isinstance(rows, CSRRows):
            from scipy import sparse

            yield sparse.csr_array(tuple(rows), shape=(n_rows, n_columns))[piece].toarray().astype(float)
        else:
            yield rows.values[piece].astype(float, copy=False)


def rows_beyond(system: System, factor: Factor | None, rng: np.random.Generator) -> np.ndarray:
    """Make one pass; return the rows that reach the null space of the rows that were factored.

    A random vector of the null space is used. Without a `factor`, all rows so far were zero.
    """
    z = rng.standard_normal(system.n_columns)
    if factor is not None:
        assert factor._null is not None
        z = z @ factor._null.T @ factor._null
    return rows_that_reach(system, z / norm(z))


def rows_that_reach(system: System, z: np.ndarray, limit: float = 0.0) -> np.ndarray:
    """Return the rows i with ``abs(<a_i, z>) / norm(a_i)`` above `limit` and above rounding; make one pass over A."""
    limit, found = max(limit, BY_ROUNDING * norm(z)), []
    for piece in system.pieces():
        order, out = np.arange(piece.start, piece.stop), np.empty(piece.n_rows)
        distances(piece.rows, np.zeros(piece.stop), order, z, out, 1.0, system.counter.flagged_rows)
        found.append(piece.first + order[~(out <= limit)])
    return np.concatenate(found)


def _is_null(system: System, order: np.ndarray, factor: Factor) -> bool:
    """Return whether no row reaches the null space of a Gram matrix, which has only half of the digits."""
    assert factor._null is not None
    limit = max(max(order.size, system.n_columns) * EPS, BY_ROUNDING)
    for z in noise_of(len(factor._null)).T[:2] @ factor._null:
        reached = 0.0
        for part in system.parts(order):
            out = np.empty(part.order.size)
            residuals(part.rows, part.of(system.facts.b_magnitude) * 0.0, part.order, z, out)
            reached += float(out @ out)
        if not math.sqrt(reached) <= limit * norm(factor.lengths * z):
            return False
    system.counter.add(2 * order.size)
    return True


def _gram(system: System, order: np.ndarray) -> np.ndarray:
    """Return the upper triangle of the Gram matrix of the rows in `order`."""
    p = system.n_columns
    gram = np.zeros((p, p))
    for part in system.parts(order):
        if isinstance(part.rows, CSRRows):
            add_gram(part.rows, part.order, gram)
        else:
            for rows in gather(part, p, min(GATHERED, system.limits.workspace_bytes / 8)):
                gram += compress(rows, np.empty((len(rows), 0)), system.limits.threads).gram
    if not math.isfinite(gram.trace()):
        find_odd_rows(system, order)
    return gram


def _by_qr(system: System, order: np.ndarray, damp: float, stand_for: float) -> Factor:
    """Factor by QR, piece by piece, with pivoting at the end if the rows are rank-deficient."""
    p = system.n_columns
    state = Triangle(np.zeros((p, p)), np.zeros((p, 0)), np.zeros(0), 0)  # no right-hand sides
    for part in system.parts(order):
        for rows in gather(part, p, min(GATHERED, system.limits.workspace_bytes / 8)):
            state = state.merge(triangulate(rows, np.empty((len(rows), 0)), system.limits.threads))
    triangle = state.damped(damp).triangle if damp else state.triangle[: order.size]
    if not np.isfinite(triangle).all():
        find_odd_rows(system, order)
    lengths = scaled_columns(triangle)
    scaled, cut = triangle / lengths, max(order.size, p) * EPS
    if len(triangle) == p and full_condition(scaled, cut) is not None:
        return Factor(order.size, np.ascontiguousarray(stand_for * triangle))
    found = pivoted(scaled, cut)
    return _independent(order.size, stand_for * found.rows, found.order, lengths, has_gap=found.has_gap)


def _independent(n_rows: int, rows: np.ndarray, order: np.ndarray, lengths: np.ndarray, *, has_gap: bool) -> Factor:
    """Return the factor with these `rows`, whose columns are in another `order` and have been divided by `lengths`."""
    rank = len(rows)
    whole = np.empty((rank, len(order)))
    whole[:, order] = rows
    whole *= lengths
    if rank == len(order):
        return Factor(n_rows, np.ascontiguousarray(np.triu(qr_of(np.asfortranarray(whole))[0])), has_gap=has_gap)
    columns = order[:rank].astype(np.int64)
    return Factor(n_rows, np.ascontiguousarray(whole[:, columns]), whole, columns, has_gap=has_gap)


def find_odd_rows(system: System, order: np.ndarray) -> None:
    """Raise for a row in `order` that is not finite, or whose squares are out of the range of float64."""
    for part in system.parts(order):
        zero, out = np.zeros(system.n_columns), np.empty(part.order.size)
        distances(part.rows, part.of(system.facts.b_magnitude), part.order, zero, out, 0.0, system.counter.flagged_rows)
    system.check_flagged()
