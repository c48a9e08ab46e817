"""Stores of anything that can be sliced like an array: arrays in memory, .npy files, HDF5 and Zarr datasets."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from rowsolve.policy.thresholds import COLUMN_BYTES, COPIES, PIECE_BYTES
from rowsolve.sources.store import Store, StoreError, files_behind, naming_errors, output

__all__ = ["ArrayStore", "MappedStore", "NpyStore", "is_mapped"]


class ArrayStore(Store):
    """An array, or a dataset that is read when it is sliced."""

    _is_zarr = False

    def __init__(self, name: str, array: Any, *, chunk: int = 1, close: Callable[[], None] = lambda: None) -> None:
        super().__init__(name, tuple(map(int, array.shape)), np.dtype(array.dtype), chunk=chunk)
        self._array = array
        self._close = close
        self._is_zarr = self.ndim == 2 and hasattr(array, "get_basic_selection")
        if self._is_zarr:
            least = COPIES * self.chunk * self._columns_at_once * self.stored_dtype.itemsize
            self.footprint = replace(self.footprint, least_bytes=least, in_place=True)
        elif self.ndim == 2 and hasattr(array, "read_direct"):
            self.footprint = replace(self.footprint, in_place=True)

    @property
    def files(self) -> tuple[Path, ...]:
        """The file and the files that it links to."""
        return (*super().files, *files_behind(self._array))

    @property
    def _columns_at_once(self) -> int:
        """The number of columns that Zarr reads together: a multiple of the width of a chunk."""
        width = int(self._array.chunks[1])
        at_once = int(PIECE_BYTES / (self.chunk * width * self.stored_dtype.itemsize))
        return min(self.shape[1], max(1, at_once) * width)

    def _read(self, start: int, stop: int, out: np.ndarray | None) -> np.ndarray:
        if out is not None and self._is_zarr:
            from zarr.buffer.cpu import NDBuffer

            for first in range(0, self.shape[1], self._columns_at_once):
                columns = slice(first, min(first + self._columns_at_once, self.shape[1]))
                place = NDBuffer.from_numpy_array(out[:, columns])
                self._array.get_basic_selection((slice(start, stop), columns), out=place)
            return out
        if out is not None and self.footprint.in_place:
            self._array.read_direct(out, np.s_[start:stop])
            return out
        rows = np.asarray(self._array[start:stop]).reshape(stop - start, self.shape[1])
        if out is None:
            return np.array(rows, self.dtype, order="C", copy=None)
        out[...] = rows
        return out

    def _viewable(self, stop: int) -> Any:  # noqa: ARG002
        array = self._array
        here = isinstance(array, np.ndarray) and array.ndim == 2 and array.flags.c_contiguous
        return np.asarray(array) if here and array.dtype == self.dtype else None

    def whole(self) -> np.ndarray:
        """Return the array, in the dtype in which it is stored."""
        with naming_errors(self.name, 0, self.shape[0]):
            return self._array if isinstance(self._array, np.ndarray) else np.asarray(self._array[...])

    def close(self) -> None:
        """Close the file."""
        self._close()


class MappedStore(Store):
    """An array that can be memory-mapped from a file. Rows are read, or returned as views of the map.

    Accessing mapped rows of a file that was truncated meanwhile would kill the process, so the size of the file is
    checked before a view is returned.
    """

    def __init__(self, name: str, path: Path, mapped: np.memmap, close: Callable[[], None] = lambda: None) -> None:
        self._mapped, self._close = mapped, close
        self._by_columns = not mapped.flags.c_contiguous
        chunk = COLUMN_BYTES // max(1, mapped.itemsize) if self._by_columns else 1
        super().__init__(name, mapped.shape, mapped.dtype, chunk=chunk)
        self.footprint = replace(self.footprint, least_bytes=self.footprint.bytes_per_row)  # a single row can be read
        self._file = path.open("rb", buffering=0)

    @property
    def files(self) -> tuple[Path, ...]:
        """The file and the one that it links to."""
        return tuple(dict.fromkeys((*super().files, *files_behind(self._mapped))))

    def _read(self, start: int, stop: int, out: np.ndarray | None) -> np.ndarray:
        n_rows, n_columns = self.shape
        if self._by_columns:
            out = output(self, stop - start, out)
            for column in range(n_columns):
                values = np.empty(stop - start, self.stored_dtype)
                self._fill(values, column * n_rows + start)
                out[:, column] = values
            return out
        if self.stored_dtype == self.dtype:
            out = output(self, stop - start, out)
            self._fill(out, start * n_columns)
            return out
        raw = np.empty((stop - start, n_columns), self.stored_dtype)
        self._fill(raw, start * n_columns)
        if out is None:
            return raw.astype(self.dtype)
        out[...] = raw
        return out

    def _fill(self, values: np.ndarray, first: int) -> None:
        """Fill `values` with consecutive numbers of the file, from number `first` on."""
        left = values.reshape(-1).view(np.uint8).data
        self._file.seek(self._mapped.offset + first * self.stored_dtype.itemsize)
        while left:
            n_bytes = self._file.readinto(left)
            if not n_bytes:
                raise StoreError(f"{self.name}: was truncated after it was opened.")
            left = left[n_bytes:]

    def _viewable(self, stop: int) -> Any:
        if self._by_columns or self.stored_dtype != self.dtype or self.ndim != 2:
            return None
        n_bytes = os.fstat(self._file.fileno()).st_size
        if n_bytes < self._place(stop):
            row = max(0, n_bytes - self._place(0)) // (self._place(1) - self._place(0))
            raise StoreError(f"{self.name}: was truncated after it was opened: rows from {row} on are missing.")
        return np.asarray(self._mapped)

    def prefetch(self, start: int, stop: int) -> None:
        """Ask the system to read these rows into its cache in the background."""
        if hasattr(os, "posix_fadvise") and not self._by_columns:
            first, last = self._place(start), self._place(stop)
            os.posix_fadvise(self._file.fileno(), first, last - first, os.POSIX_FADV_WILLNEED)

    def _place(self, row: int) -> int:
        """Return the position of a row in the file, in bytes."""
        return self._mapped.offset + row * self.shape[1] * self.stored_dtype.itemsize

    def whole(self) -> np.ndarray:
        """Return a memory map of the file."""
        return self._mapped

    def close(self) -> None:
        """Close the file (an array returned by `whole` stays valid)."""
        self._file.close()
        self._close()


def is_mapped(store: Store) -> bool:
    """Return whether ``store.whole()`` is a memory map that needs no conversion."""
    return isinstance(store, MappedStore) and store.stored_dtype == store.dtype


class NpyStore(MappedStore):
    """A .npy file."""

    def __init__(self, path: Path) -> None:
        with path.open("rb") as file:
            # open_memmap, not np.load, which would also accept a zip archive or a pickle under this name.
            if file.read(6) != np.lib.format.MAGIC_PREFIX:
                raise ValueError("it does not begin like a .npy file")
        super().__init__(str(path), path, np.lib.format.open_memmap(path, mode="r"))
