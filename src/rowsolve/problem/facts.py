"""Properties of A and b that are computed once, on demand: norms of b, storage and sparsity pattern of A."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from rowsolve.kernels.gradient import widest_row
from rowsolve.kernels.rows import CSRRows, frozen, look_at_sides
from rowsolve.parallel.vectors import pairs_of, sum_of_squares
from rowsolve.policy.prices import ordering_pays, widest_band
from rowsolve.policy.thresholds import FEW_COLUMNS, SPOTS
from rowsolve.problem.layout import Layout, look_for_band
from rowsolve.problem.null_space import obvious_null_space

__all__ = ["Facts"]


class Facts:
    """Properties of ``A x = b``, each computed on first access.

    Parameters
    ----------
    rows : DenseRows or CSRRows
    b : ndarray of shape (n,) or (n, n_rhs)
    n_columns : int
    stored : bool
        Whether the rows are not in memory.
    damped : bool
    """

    def __init__(self, rows: Any, b: np.ndarray, n_columns: int, *, stored: bool, damped: bool) -> None:
        self._rows, self._b, self._n_columns, self._stored, self._damp = rows, b, n_columns, stored, damped
        self._n_rows, self._n_rhs = len(b), 1 if b.ndim == 1 else b.shape[1]
        self._spectrum: Any = None

    @cached_property
    def norm_b(self) -> float:
        """A unit for residuals: the norm of b, or a substitute if b is 0 or its square is out of range."""
        norm_b = math.sqrt(sum_of_squares(self._b.reshape(-1)))
        return norm_b if 0.0 < norm_b < math.inf else float(np.abs(self._b).max()) or 1.0

    @cached_property
    def b_magnitude(self) -> np.ndarray:
        """The largest absolute value in each row of b; b itself, signs included, if it is a vector.

        If it is nonzero for a row of zeros of A, no x satisfies that row.
        """
        return self._b if self._n_rhs == 1 else self._look_at_sides[0]

    @cached_property
    def rows_of_extremes(self) -> np.ndarray:
        """The rows with the lowest and the highest entry of each right-hand side."""
        if self._n_rhs == 1:
            return np.array([self._b.argmin(), self._b.argmax()])
        return np.unique(self._look_at_sides[1:])

    @cached_property
    def _look_at_sides(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        largest, (lowest, highest) = np.empty(self._n_rows), np.empty((2, self._n_rhs), dtype=np.int64)
        look_at_sides(self._b, largest, lowest, highest)
        return frozen(largest), lowest, highest

    @cached_property
    def norms_b(self) -> np.ndarray:
        """The norm of each right-hand side."""
        return np.array([self.norm_b]) if self._n_rhs == 1 else np.linalg.norm(self._b, axis=0)

    @cached_property
    def in_columns(self) -> bool:
        """Whether dense rows are in Fortran order: products with all rows are fast, access to single rows is slow."""
        return not self._stored and not isinstance(self._rows, CSRRows) and not self._rows.values.flags.c_contiguous

    @cached_property
    def row_pairs(self) -> float:
        """The number of pairs of entries within a row, summed over all sparse rows."""
        return pairs_of(self._rows.indptr)

    @cached_property
    def unevenness(self) -> float:
        """The ratio of the largest to the smallest nonzero norm of a column, from some rows in memory.

        Conjugate gradients take at least that many times as many steps.
        """
        if self._stored:
            return 1.0
        if isinstance(self._rows, CSRRows):
            squares = np.bincount(self._rows.indices, weights=self._rows.data**2.0)
        else:
            some = self._rows.values[:: max(1, self._n_rows // SPOTS)][:SPOTS].astype(float)
            squares = np.einsum("ij,ij->j", some, some)
        squares = squares[squares > 0.0]
        return math.sqrt(float(squares.max() / squares.min())) if squares.size else 1.0

    @cached_property
    def null_vectors(self) -> np.ndarray | None:
        """Vectors of the null space that the structure of sparse rows shows (see `null_space`); None if none."""
        if self._stored or not isinstance(self._rows, CSRRows) or self._damp:
            return None
        return obvious_null_space(self._rows, self._n_columns)

    @cached_property
    def layout(self) -> Layout | None:
        """The band of the Gram matrix of sparse rows, if it pays to look for one; otherwise None."""
        if self._stored or not isinstance(self._rows, CSRRows):
            return None
        n, p, widest = self._n_rows, self._n_columns, widest_row(self._rows)
        if widest > FEW_COLUMNS and not ordering_pays(n, p, self._rows.data.size):
            return None
        return look_for_band(self._rows, p, widest, widest_band(p, self._rows.data.size, self.row_pairs))

    @property
    def spectrum(self) -> Any:
        """The `Spectrum` of a sample of rows, if it has been computed."""
        return self._spectrum

    def once(self, make: Callable[[], Any]) -> Any:
        """Return the spectrum, computed by `make` if there is none yet."""
        if self._spectrum is None:
            self._spectrum = make()
        return self._spectrum

    def restore(self, spectrum: Any) -> None:
        """Restore the spectrum of an earlier run."""
        self._spectrum = spectrum
