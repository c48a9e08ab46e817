"""What is computed from A and b on demand, once: norms of b, and what their storage and pattern tell."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from rowsolve.kernels.gradient import widest_row
from rowsolve.kernels.rows import CSRRows, frozen, look_at_sides
from rowsolve.parallel.vectors import pairs_of, sum_of_squares
from rowsolve.policy.prices import widest_band, worth_a_look_for_band
from rowsolve.problem.layout import NARROW, Layout, look_for_band
from rowsolve.problem.null_space import obvious_null_space

__all__ = ["Facts"]

_ROWS_TO_LOOK_AT = 64  # for the norms of columns


class Facts:
    """Facts about ``A x = b``, each computed when it is first asked for.

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
        """A unit for residuals: the norm of b, or something of that size if b is 0 or its square out of range."""
        norm_b = math.sqrt(sum_of_squares(self._b.reshape(-1)))
        return norm_b if 0.0 < norm_b < math.inf else float(np.abs(self._b).max()) or 1.0

    @cached_property
    def b_magnitude(self) -> np.ndarray:
        """The largest entry of each row of b: not zero where a row of zeros contradicts one of the right-hand sides."""
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
        """Whether dense rows are in Fortran order: products with all of them are fast, single ones are not."""
        return not self._stored and not isinstance(self._rows, CSRRows) and not self._rows.values.flags.c_contiguous

    @cached_property
    def row_pairs(self) -> float:
        """How many pairs of numbers are in one row, of sparse rows."""
        return pairs_of(self._rows.indptr)

    @cached_property
    def unevenness(self) -> float:
        """The norm of the largest column over that of the smallest that is not zero, in some rows that are in memory.

        Conjugate gradients take that much longer, or even more.
        """
        if self._stored:
            return 1.0
        if isinstance(self._rows, CSRRows):
            squares = np.bincount(self._rows.indices, weights=self._rows.data**2.0)
        else:
            some = self._rows.values[:: max(1, self._n_rows // _ROWS_TO_LOOK_AT)][:_ROWS_TO_LOOK_AT].astype(float)
            squares = np.einsum("ij,ij->j", some, some)
        squares = squares[squares > 0.0]
        return math.sqrt(float(squares.max() / squares.min())) if squares.size else 1.0

    @cached_property
    def null_vectors(self) -> np.ndarray | None:
        """Directions that sparse rows obviously leave open (see `rowsolve.problem.null_space`); None if none."""
        if self._stored or not isinstance(self._rows, CSRRows) or self._damp:
            return None
        return obvious_null_space(self._rows, self._n_columns)

    @cached_property
    def layout(self) -> Layout | None:
        """How narrow a band the Gram matrix of sparse rows is, where that is worth a look; else None."""
        if self._stored or not isinstance(self._rows, CSRRows):
            return None
        n, p, widest = self._n_rows, self._n_columns, widest_row(self._rows)
        if widest > NARROW and not worth_a_look_for_band(n, p, self._rows.data.size):
            return None
        return look_for_band(self._rows, p, widest, widest_band(p, self._rows.data.size, self.row_pairs))

    @property
    def spectrum(self) -> Any:
        """What some rows tell of the singular values of A (a `Spectrum`), if they have been looked at."""
        return self._spectrum

    def once(self, make: Callable[[], Any]) -> Any:
        """Return the spectrum, made by `make` if there is none yet."""
        if self._spectrum is None:
            self._spectrum = make()
        return self._spectrum

    def restore(self, spectrum: Any) -> None:
        """Take over the spectrum that an earlier run has made."""
        self._spectrum = spectrum
