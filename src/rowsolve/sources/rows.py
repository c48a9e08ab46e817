"""Rows in memory, or memory-mapped, in the form that the kernels take."""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rowsolve.kernels.rows import CSRRows, DenseRows, frozen, is_valid_csr
from rowsolve.parallel.vectors import sum_of_squares
from rowsolve.policy.thresholds import BYTES_AT_ONCE
from rowsolve.sources.arrangement import Arrangement
from rowsolve.sources.csr import canonical, checked_csr, is_sparse
from rowsolve.sources.finite import NotFinite, first_not_finite, words_for
from rowsolve.sources.store import kept_dtype, precision

__all__ = ["Source", "open_rows"]


@dataclass(frozen=True)
class Source:
    """The rows of A and what is known about them before they are read.

    Attributes
    ----------
    rows : DenseRows or CSRRows
    shape : (int, int)
    entries_per_row : float
        Average number of stored entries per row.
    eps : float
        Relative precision of the numbers that the caller passed.
    arrangement : Arrangement or None
        The clusters of these rows, if they are stored with the matrix.
    name : str
        The file that the rows come from, for messages; empty for rows in memory.
    column_names : tuple of str or None
        The names of the columns, if any.
    checked : bool
        Whether all numbers are known to be finite, as integers are.
    matrix : sparse matrix or None
        The scipy matrix that holds the rows, if one was passed.
    """

    rows: DenseRows | CSRRows
    shape: tuple[int, int]
    entries_per_row: float
    eps: float
    arrangement: Arrangement | None = None
    name: str = ""
    column_names: tuple[str, ...] | None = None
    checked: bool = False
    matrix: Any = None

    def as_matrix(self) -> Any:
        """Return the rows as an array, or as a scipy sparse matrix."""
        if isinstance(self.rows, DenseRows):
            return self.rows.values
        if self.matrix is not None:
            return self.matrix
        from scipy import sparse

        return sparse.csr_array(tuple(self.rows), shape=self.shape)

    def first_not_finite(self) -> NotFinite | None:
        """Return the first number that is not finite, None if there is none; all of them are checked."""
        return first_not_finite(self.rows.values if isinstance(self.rows, DenseRows) else self.rows)

    def not_finite(self, row: int, column: int, value: float) -> ValueError:
        """Return the exception to raise for a number that is not finite."""
        words = words_for(self.name, self.column_names, NotFinite(row, column, value))
        return ValueError(f"{words} Try removing or repairing such rows (and their entries of `b`).")

    @property
    def n_numbers(self) -> int:
        """The number of stored entries."""
        return self.rows[0].size

    @property
    def stamp(self) -> str:
        """A checksum of all rows, which identifies them; it is computed at about 2 GB/s.

        It does not count as a pass over the data, so that a solve reads the same rows with and without a checkpoint.
        """
        found = 0
        for part in self.rows:
            values = part.T if part.flags.f_contiguous else part
            step = max(1, int(BYTES_AT_ONCE * len(values) / max(1, values.nbytes)))
            for start in range(0, len(values), step):
                found = zlib.crc32(np.ascontiguousarray(values[start : start + step]).data, found)
        return f"{found:08x}"

    def close(self) -> None:
        """Stop background work: there is none for rows in memory."""

    def row(self, i: int) -> np.ndarray:
        """Return row `i` as a dense float64 array."""
        if isinstance(self.rows, DenseRows):
            return np.asarray(self.rows.values[i], dtype=float)
        out = np.zeros(self.shape[1])
        part = slice(self.rows.indptr[i], self.rows.indptr[i + 1])
        out[self.rows.indices[part]] = self.rows.data[part]
        return out

    def take(self, order: np.ndarray, weights: np.ndarray) -> Source:
        """Return a copy of the rows in `order`, each multiplied by its weight, in float64."""
        if isinstance(self.rows, DenseRows):
            values = np.multiply(self.rows.values[order], weights[:, None], order="C")
            return Source(DenseRows(frozen(values)), values.shape, self.entries_per_row, self.eps)
        csr = self.as_matrix()[order]
        data = csr.data * np.repeat(weights, np.diff(csr.indptr))
        rows = CSRRows(frozen(data), frozen(csr.indices), frozen(csr.indptr))
        return Source(rows, csr.shape, csr.nnz / max(1, order.size), self.eps)

    def columns(self) -> DenseRows | CSRRows:
        """Return the rows of the transpose: a copy, unless the array is in Fortran order."""
        if isinstance(self.rows, DenseRows):
            return DenseRows(frozen(np.ascontiguousarray(self.rows.values.T)))
        csc = self.as_matrix().tocsc()
        return CSRRows(frozen(csc.data), frozen(csc.indices), frozen(csc.indptr))


def open_rows(A: Any, name: str = "", column_names: tuple[str, ...] | None = None) -> Source:
    """Return the rows of `A`, without copying float32 and float64 arrays.

    float16 is converted to float32; wider floats, integers and booleans to float64. Arrays in Fortran order and strided
    arrays are read in place: each entry of a row is then in another cache line, which is many times slower than C
    order, so ``np.ascontiguousarray(A)`` is worth its copy if it fits in memory. CSR is used as it is; other sparse
    formats are converted to it. `name` (the file) and `column_names` are used in messages.
    """
    source = _open_sparse(A) if is_sparse(A) else _open_dense(A)
    return replace(source, name=name, column_names=column_names) if name or column_names else source


def _open_dense(A: Any) -> Source:
    array = _as_array(A, "A")
    if array.ndim != 2:
        raise ValueError(f"`A` must have two dimensions, rows and columns: got shape {array.shape}.")
    if 0 in array.shape:
        raise ValueError(f"`A` must have at least one row and one column: got shape {array.shape}.")
    values = frozen(array.astype(kept_dtype(array.dtype), copy=False))
    checked = array.dtype.kind != "f"
    return Source(DenseRows(values), values.shape, float(values.shape[1]), precision(array.dtype), checked=checked)


def as_columns(
    values: Any, name: str, length: int, what: str, *, place: str = "", check_finite: bool = True
) -> tuple[np.ndarray, float]:
    """Return `values` as a float64 vector, or as a matrix of two columns or more, and their relative precision.

    Raise ValueError if they are not finite, unless `check_finite` is False; `place` is the file that they come from.
    """
    array = _as_array(values.toarray() if hasattr(values, "toarray") else values, name)  # which may be sparse
    if array.ndim == 2 and 1 in array.shape and array.size == length:
        array = array.reshape(-1)  # a matrix of one column, as in MatrixMarket files
    _check_shape(array, name, length, what)
    columns = np.ascontiguousarray(array, dtype=float)
    if check_finite and not math.isfinite(sum_of_squares(columns.reshape(-1))):
        found = first_not_finite(columns)
        if found is not None:
            at = found.row if columns.ndim == 1 else (found.row, found.column)
            file = f"{place}: " if place else ""
            raise ValueError(f"{file}`{name}` must be finite: entry {at} is {found.value}.")
    return columns, precision(array.dtype)


def _check_shape(array: np.ndarray, name: str, length: int, what: str) -> None:
    if array.ndim not in (1, 2):
        raise ValueError(f"`{name}` must have one dimension, or two for several columns: got shape {array.shape}.")
    if array.ndim == 2 and array.shape[1] == 0:
        raise ValueError(f"`{name}` must have at least one column: got shape {array.shape}.")
    if array.shape[0] != length:
        hint = f" Pass `{name}.T`." if array.ndim == 2 and array.shape[1] == length else ""
        raise ValueError(f"`{name}` must have one entry per {what}: expected {length}, got {array.shape[0]}.{hint}")


def as_vector(values: Any, name: str, length: int, what: str, *, place: str = "") -> tuple[np.ndarray, float]:
    """Return `values` as a finite float64 vector of the given length, and its relative precision."""
    vector, eps = as_columns(values, name, length, what, place=place)
    if vector.ndim != 1:
        raise ValueError(f"`{name}` must have one dimension: got shape {vector.shape}.")
    return vector, eps


def _as_array(values: Any, name: str) -> np.ndarray:
    """Return `values` as an array of real numbers."""
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise ValueError(f"`{name}` has masked entries. Try removing or filling those rows.")
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise ValueError(f"`{name}` must be an array of real numbers, rows of equal length: {error}.") from None
    kind = array.dtype.kind
    if kind == "c":
        raise TypeError(
            f"`{name}` must be real, got {array.dtype}. Try stacking the real and imaginary parts into one real system."
        )
    if array.dtype.names is not None:
        columns = ", ".join(f"{name}[{column!r}]" for column in array.dtype.names[:2])
        raise TypeError(f"`{name}` must be an array of numbers, got records. Try np.column_stack([{columns}, ...]).")
    if kind not in "fiub":
        raise TypeError(f"`{name}` must hold real numbers, got an array of dtype {array.dtype}.")
    return array


def _open_sparse(A: Any) -> Source:
    if A.ndim != 2 or 0 in A.shape:
        raise ValueError(f"`A` must have at least one row and one column: got shape {A.shape}.")
    _as_array(np.empty(0, A.dtype), "A")
    csr = A
    if not _is_canonical(A):
        try:
            csr = canonical(checked_csr(A))
        except ValueError as error:
            raise ValueError(
                f"`A` is not a valid sparse matrix: {error}. Try rebuilding it from its entries."
            ) from None
    data = csr.data.astype(kept_dtype(csr.dtype), copy=False)
    rows = CSRRows(frozen(data), frozen(csr.indices), frozen(csr.indptr))
    checked, matrix = csr.dtype.kind != "f", csr if data is csr.data else None
    return Source(rows, csr.shape, data.size / csr.shape[0], precision(csr.dtype), checked=checked, matrix=matrix)


def _is_canonical(A: Any) -> bool:
    """Return whether `A` is CSR as the kernels take it; all of it is checked, much faster than a pass of a method."""
    if A.format != "csr":
        return False
    parts = A.data, A.indices, A.indptr
    plain = all(type(part) is np.ndarray and part.ndim == 1 for part in parts)
    wide = all(part.dtype in (np.int32, np.int64) and part.flags.c_contiguous for part in parts[1:])
    fits = plain and wide and A.indptr.size == A.shape[0] + 1 and A.indices.size == A.data.size
    return fits and bool(is_valid_csr(A.indices, A.indptr, A.shape[1]))
