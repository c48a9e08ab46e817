"""Stores of sparse rows in CSR format (data, indices, indptr), in memory or in HDF5 and Zarr."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from rowsolve.policy.thresholds import BYTES_AT_ONCE
from rowsolve.sources.store import Footprint, Store, StoreError, files_behind

__all__ = ["CSRStore", "MatrixStore", "canonical", "checked_csr", "is_sparse"]

_INDEX = np.dtype(np.int32)  # of the indices in memory
_PLACES = 1 << 14  # at most, at which `indptr` is sampled


class CSRStore(Store):
    """CSR rows whose three arrays are read when they are sliced; nothing of the size of A is kept in memory."""

    sparse = True

    def __init__(
        self,
        name: str,
        parts: tuple[Any, Any, Any],
        shape: tuple[int, int],
        *,
        chunk: int = 1,
        close: Callable[[], None] = lambda: None,
    ) -> None:
        self._data, self._indices, self._indptr = parts
        stored_dtype, per_row = np.dtype(self._data.dtype), self._data.shape[0] / max(1, shape[0])
        together = max(1, min(chunk, shape[0]))
        footprint = Footprint.of_chunks(per_row, stored_dtype, together, index_bytes=_INDEX.itemsize)
        super().__init__(name, shape, stored_dtype, chunk=chunk, footprint=footprint)
        self._close = close
        self._check_parts()

    @property
    def files(self) -> tuple[Path, ...]:
        """The file and the files that it links to."""
        return (*super().files, *files_behind(self._data))

    def most_bytes(self, n_rows: int) -> float:
        """Return an upper bound on the bytes of `n_rows` consecutive rows: rows may differ much in length."""
        apart, entries = self._entries_before
        cells = min(-(-n_rows // apart) + 1, entries.size - 1)
        most = int(np.max(entries[cells:] - entries[:-cells]))
        return most * (self.dtype.itemsize + _INDEX.itemsize) + _INDEX.itemsize * n_rows

    @cached_property
    def _entries_before(self) -> tuple[int, np.ndarray]:
        """A step in rows, and `indptr` sampled at every such step and at its end."""
        n_rows = self.shape[0]
        apart = -(-n_rows // _PLACES)
        step = apart * max(1, int(BYTES_AT_ONCE / (apart * np.dtype(np.int64).itemsize)))
        parts = [
            np.asarray(self._indptr[start : min(start + step, n_rows)])[::apart] for start in range(0, n_rows, step)
        ]
        return apart, np.concatenate([*parts, [self._data.shape[0]]]).astype(np.int64)

    def _check_parts(self) -> None:
        """Check the three arrays as far as that takes no pass over them."""
        n_rows, n_columns = self.shape
        for part, values in (("data", self._data), ("indices", self._indices), ("indptr", self._indptr)):
            if len(values.shape) != 1:
                raise StoreError(f"{self.name}: `{part}` must have one dimension, got shape {tuple(values.shape)}.")
            if part != "data" and np.dtype(values.dtype).kind not in "iu":
                raise StoreError(f"{self.name}: `{part}` must hold integers, got {values.dtype}.")
        length = self._indptr.shape[0]
        if length != n_rows + 1:
            hint = " The format seems to be CSC. Try storing the matrix as CSR." if length == n_columns + 1 else ""
            raise StoreError(f"{self.name}: `indptr` must have {n_rows + 1} entries, got {length}.{hint}")
        if self._indices.shape[0] != self._data.shape[0]:
            raise StoreError(
                f"{self.name}: `indices` and `data` must have the same length, "
                f"got {self._indices.shape[0]} and {self._data.shape[0]}."
            )
        first, last = int(self._indptr[0]), int(self._indptr[n_rows])
        if first != 0 or last != self._data.shape[0]:
            raise StoreError(
                f"{self.name}: `indptr` must run from 0 to {self._data.shape[0]}, the number of stored entries, "
                f"got {first} to {last}."
            )

    def _read(self, start: int, stop: int, out: np.ndarray | None) -> Any:  # noqa: ARG002  `read` refuses it
        from scipy import sparse

        indptr = np.asarray(self._indptr[start : stop + 1]).astype(np.int64)
        self._check_indptr(start, indptr)
        part = slice(int(indptr[0]), int(indptr[-1]))
        data = np.asarray(self._data[part]).astype(self.dtype, copy=False)
        indices = np.asarray(self._indices[part])
        if indices.size and not 0 <= int(indices.min()) <= int(indices.max()) < self.shape[1]:
            raise StoreError(
                f"{self.name}: rows {start} to {stop}: column numbers must be from 0 to {self.shape[1] - 1}, "
                f"got {indices.min()} to {indices.max()}."
            )
        rows = sparse.csr_array((data, indices, indptr - indptr[0]), shape=(stop - start, self.shape[1]))
        return canonical(rows)

    def _check_indptr(self, start: int, indptr: np.ndarray) -> None:
        # A wrong entry would make us read everything, or make compiled code write out of bounds.
        fall = np.flatnonzero(np.diff(indptr) < 0)
        if fall.size:
            raise StoreError(f"{self.name}: `indptr` must not decrease, but does after row {start + int(fall[0])}.")
        if indptr[0] < 0 or indptr[-1] > self._data.shape[0]:
            raise StoreError(
                f"{self.name}: rows {start} to {start + indptr.size - 1}: `indptr` must be between 0 and "
                f"{self._data.shape[0]}, got {indptr[0]} to {indptr[-1]}."
            )

    def close(self) -> None:
        """Close the file."""
        self._close()


class MatrixStore(CSRStore):
    """A scipy sparse matrix in memory."""

    def __init__(self, name: str, matrix: Any) -> None:
        self._matrix = matrix
        try:
            csr = checked_csr(matrix)
        except ValueError as error:
            raise StoreError(
                f"{name}: is not a valid sparse matrix: {error}. Try rebuilding it from its entries."
            ) from None
        super().__init__(name, (csr.data, csr.indices, csr.indptr), csr.shape)

    def whole(self) -> Any:
        """Return the matrix as it was passed."""
        return self._matrix


def checked_csr(matrix: Any) -> Any:
    """Return a scipy sparse matrix as CSR; raise ValueError if an index is out of range, which kernels do not check."""
    csr = matrix.tocsr() if not hasattr(matrix, "check_format") else matrix
    csr.check_format(full_check=True)
    return csr.tocsr()


def canonical(csr: Any) -> Any:
    """Return `csr` without duplicate entries, which would make the norm of their row wrong."""
    if csr.has_canonical_format:
        return csr
    csr = csr.copy()
    csr.sum_duplicates()
    return csr


def is_sparse(A: Any) -> bool:
    """Return whether `A` is a scipy sparse matrix or array, without importing scipy.sparse."""
    return type(A).__module__.startswith("scipy.sparse") and hasattr(A, "tocsr")
