"""A sparse triangle R with ``R'R = A'A``, where the rows leave one."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from rowsolve._state import Kind, Sizes, StateError, array, check_keys, integer, named, row_numbers
from rowsolve._vectors import norms
from rowsolve.kernels.elimination import SparseTriangle, factor_sparse, solve_eliminated
from rowsolve.kernels.rows import CSRRows
from rowsolve.methods.factor import Factor, larger_of, noise_of

if TYPE_CHECKING:
    from rowsolve._system import System

__all__ = ["SparseFactor", "eliminated"]

# The norm of the inverse, if columns have norm 1, above which a Gram matrix has lost too many digits.
_MOST_SPREAD = 1e6
_IN_RANGE = 1e60  # lengths of columns whose squares are well in range
_DENSE_PER_SPARSE = 30.0  # multiplications of a dense factor in the time that one takes of a sparse factor
_FEW_PRODUCTS = 1e5  # multiplications that take no time to speak of


class SparseFactor(Factor):
    """``R'R`` by a triangle that is sparse, since the columns have been put in another order for it.

    `lengths` are the norms of the columns of A.
    """

    def __init__(self, n_rows: int, triangle: SparseTriangle, lengths: np.ndarray) -> None:
        self.n_rows, self.rough, self.has_gap, self._sparse = n_rows, False, True, triangle
        self._rows = self._columns = self._null = None
        self.lengths = lengths

    @cached_property
    def _triangle(self) -> np.ndarray:  # type: ignore[override]
        """R written out in full, its columns in the order of those of A: no triangle, but as good to multiply with."""
        columns, diagonal, starts, places, values = self._sparse
        R, rows = np.zeros((self.rank, self.rank)), np.arange(self.rank)
        R[rows, columns] = diagonal
        R[np.repeat(rows, np.diff(starts)), columns[places]] = values
        return R

    @property
    def deficient(self) -> bool:
        """Never."""
        return False

    @property
    def rank(self) -> int:
        """The number of columns."""
        return len(self._sparse.diagonal)

    def solve(self, vectors: np.ndarray) -> None:
        """Replace each of `vectors` by ``(R'R)**-1`` times it."""
        solve_eliminated(self._sparse, vectors, False)

    @cached_property
    def spread(self) -> float:
        """The Frobenius norm of ``R**-1``, as in `Factor`."""
        return self._spread_of(1.0)

    @property
    def is_accurate(self) -> bool:
        """Whether the Gram matrix had digits enough: by the spread if columns had norm 1, or by what that is below."""
        return self.spread * self.lengths.max() <= _MOST_SPREAD or self._spread_of(self.lengths) <= _MOST_SPREAD

    def _spread_of(self, sizes: Any) -> float:
        """Return the Frobenius norm of ``R**-1`` times a diagonal."""
        once, twice = (sizes * noise_of(self.rank) for _ in range(2))
        solve_eliminated(self._sparse, once, True)
        solve_eliminated(self._sparse, twice, False)
        spread = norms(once)
        return larger_of(spread, norms(sizes * twice) / spread)

    saved: ClassVar[dict[str, Kind]] = {  # what it is made of, in the order of the arguments
        "n_rows": integer(1, "n"),
        "_sparse": named(
            SparseTriangle, columns=row_numbers("p", of="p"), diagonal=array("p"), starts=array(None, dtype=np.int64),
            places=row_numbers("m", of="p"), values=array("m"),
        ),
        "lengths": array("p"),
    }  # fmt: skip
    derived = ("rough", "has_gap", "_rows", "_columns", "_null", "_triangle", "condition", "spread", "harm")

    @classmethod
    def from_state(cls, state: Any, sizes: Sizes) -> SparseFactor:
        """Return the factor with that state."""
        check_keys(state, cls.saved)
        n_rows, triangle, lengths = (kind(state[name], dict(sizes)) for name, kind in cls.saved.items())
        starts, size = triangle.starts, triangle.values.size
        whole = starts.size == sizes["p"] + 1 and starts[0] == 0 and starts[-1] == size
        if not whole or (starts[1:] < starts[:-1]).any():
            raise StateError(f"starts: expected places that rise from 0 to {size}")
        return cls(n_rows, triangle, lengths)


def eliminated(system: System) -> SparseFactor | None:
    """Factor ``A'A + damp**2`` by elimination; all rows are counted as read.

    None if A is not sparse, nor its factor, or if not enough digits are left.
    """
    n, p = system.n_rows, system.n_columns
    if system.stored or not isinstance(system.rows, CSRRows) or (n < p and not system.damp):
        return None
    most = max(p**3 / 3 / _DENSE_PER_SPARSE, _FEW_PRODUCTS)
    if not system.has_time_for(_DENSE_PER_SPARSE * most):
        return None
    order = np.arange(n)
    *parts, lengths = factor_sparse(system.rows, order, p, system.damp**2, most)
    if not lengths.size or not 1.0 / _IN_RANGE < lengths.min() <= lengths.max() < _IN_RANGE:
        return None
    triangle = SparseTriangle(*parts)
    by_column = np.empty(p)
    by_column[triangle.columns] = lengths
    factor = SparseFactor(n, triangle, by_column)
    if not factor.is_accurate:
        return None
    system.count(order)
    return factor
