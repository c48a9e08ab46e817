"""The base class of everything from which rows can be read, a few at a time."""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any, Self

import numpy as np

from rowsolve.sources.finite import Odd

__all__ = ["Store", "StoreError", "files_behind", "kept_dtype", "library", "precision"]


_BYTES_APART = 1 << 15  # rows with smaller gaps are read in one go: a disk takes as long to skip the gap
_BYTES_AT_ONCE = 1 << 22  # at most, of rows that are read in one go


class StoreError(ValueError):
    """An error in a file; the message names the file."""


class Store(ABC):
    """A matrix in memory, in a file or from a callable. Not thread-safe.

    Attributes
    ----------
    name : str
        Name for messages: the file and the place in it.
    shape : (int, int)
        A vector has one column; `ndim` distinguishes it from a matrix.
    ndim : int
    stored_dtype : numpy.dtype
        The dtype in which the numbers are stored.
    dtype : numpy.dtype
        The dtype in which they are read: float32 (if stored as float16 or float32) or float64.
    sparse : bool
        Whether `read` returns CSR arrays.
    chunk : int
        Number of rows that are stored together: reads of whole chunks are fastest. 1 if the store has no chunks.
    ordered : bool
        Whether rows can only be read sequentially, so that going back means starting over.
    in_place : bool
        Whether rows are read into an array without an intermediate copy.
    columns : tuple of str or None
        The names of the columns, if any.
    rhs : ndarray or None
        The right-hand side, if the store provides it.
    bytes_read : float
        Bytes read so far: numbers in their stored dtype, of whole chunks.
    checked : bool
        Whether all numbers have been checked for NaN and infinity; `odd` is the first such number, if any.
    odd : Odd or None
    """

    sparse: bool = False
    ordered: bool = False
    in_place: bool = False
    rhs: np.ndarray | None = None
    checked: bool = False
    odd: Odd | None = None

    def __init__(
        self,
        name: str,
        shape: tuple[int, ...],
        stored_dtype: np.dtype,
        *,
        chunk: int = 1,
        columns: tuple[str, ...] | None = None,
    ) -> None:
        if len(shape) not in (1, 2):
            raise StoreError(f"{name}: expected one or two dimensions, got shape {shape}.")
        if stored_dtype.kind not in "fiub":
            hint = " Stack the real and the imaginary parts into one real system." if stored_dtype.kind == "c" else ""
            raise StoreError(f"{name}: expected real numbers, got {stored_dtype}.{hint}")
        if 0 in shape:
            raise StoreError(f"{name}: contains no numbers: its shape is {shape}.")
        self.name = name
        self.ndim = len(shape)
        self.shape = (shape[0], shape[1] if self.ndim == 2 else 1)
        self.stored_dtype = stored_dtype
        self.dtype = np.dtype(kept_dtype(stored_dtype))
        self.chunk = max(1, min(chunk, shape[0]))
        self.columns = columns
        self.bytes_read = 0.0
        self.checked = self.checked or stored_dtype.kind != "f"  # integers are finite

    @property
    def written(self) -> int:
        """The last modification of the file, or of any file in the folder, in nanoseconds; 0 for data in memory."""
        return max((file.stat().st_mtime_ns for path in self._paths for file in (path, *path.rglob("*"))), default=0)

    @property
    def files(self) -> tuple[Path, ...]:
        """The files and folders that rows are read from; empty for data in memory."""
        return self._paths

    @property
    def _paths(self) -> tuple[Path, ...]:
        """The file or the folder that was opened."""
        path = Path(self.name)
        if not path.exists() and ":/" in self.name:
            path = Path(self.name.rpartition(":/")[0])
        return (path,) if path.exists() else ()

    @property
    def entries_per_row(self) -> float:
        """Average number of stored entries per row."""
        return float(self.shape[1])

    @property
    def bytes_per_row(self) -> float:
        """Average bytes of a row in memory."""
        return self.entries_per_row * self.dtype.itemsize

    def most_bytes(self, n_rows: int) -> float:
        """Return an upper bound on the bytes of `n_rows` consecutive rows in memory, as far as it is known."""
        return n_rows * self.bytes_per_row

    @property
    def stored_bytes_per_row(self) -> float:
        """Average bytes of a row in the stored dtype, before compression."""
        return self.bytes_per_row * self.stored_dtype.itemsize / self.dtype.itemsize

    @property
    def least_bytes(self) -> float:
        """Bytes of memory that the smallest read takes.

        A chunk is in memory compressed, decompressed, and as the result.
        """
        return 3 * self.chunk * self.bytes_per_row

    @property
    def eps(self) -> float:
        """Relative precision of the stored numbers."""
        return precision(self.stored_dtype)

    def read(self, start: int, stop: int, out: np.ndarray | None = None) -> Any:
        """Return rows `start` to `stop` (exclusive): an array in C order, or a CSR array if `sparse`.

        Dense rows are read into `out`, if given: an array of shape ``(stop - start, n_columns)`` and of the `dtype`.

        Raises
        ------
        ValueError
            If the rows cannot be read. The message names the file and the rows.
        """
        if not 0 <= start <= stop <= self.shape[0]:
            raise IndexError(f"{self.name}: rows {start} to {stop} are out of range: there are {self.shape[0]} rows.")
        if out is not None:
            self._check_out(stop - start, out)
        with self._naming_errors(start, stop):
            rows = self._read(start, stop, out)
        self._count(start, stop)
        return rows

    def view(self, start: int, stop: int) -> Any:
        """Return rows `start` to `stop` as `read` does, but as a view; None if that needs a copy."""
        rows = self._viewable(stop)
        if rows is None:
            return None
        self._count(start, stop)
        return rows[start:stop]

    @property
    def has_views(self) -> bool:
        """Whether `view` can return rows without a copy."""
        return self._viewable(0) is not None

    @property
    def is_mapped(self) -> bool:
        """Whether `whole` returns a memory map that needs no conversion."""
        return False

    def _viewable(self, stop: int) -> Any:  # noqa: ARG002  most stores have no views
        """Return an array of all rows, of which those before `stop` can be accessed safely; None if there is none."""
        return None

    def prefetch(self, start: int, stop: int) -> None:  # noqa: B027  most stores cannot prefetch
        """Ask the system to read rows of which a view will be needed soon."""

    def _count(self, start: int, stop: int) -> None:
        """Add rows `start` to `stop`, rounded to whole chunks, to `bytes_read`."""
        if stop > start:
            first, last = start // self.chunk * self.chunk, min(-(-stop // self.chunk) * self.chunk, self.shape[0])
            self.bytes_read += (last - first) * self.stored_bytes_per_row

    def add_bytes(self, before: float) -> None:
        """Add the bytes that an earlier run has read to `bytes_read`."""
        self.bytes_read += before

    def take(self, order: np.ndarray) -> Any:
        """Return the rows with these indices, in this order; each chunk is read once."""
        rows = self._viewable(self.shape[0])
        if rows is not None:
            self.bytes_read += order.size * self.stored_bytes_per_row
            return rows[order]
        by_number = np.argsort(order, kind="stable")
        numbers = order[by_number]
        apart = max(self.chunk, int(_BYTES_APART / max(1.0, self.bytes_per_row)))
        together = self.chunk * self.bytes_per_row if self.in_place else self.least_bytes / 3
        most = max(1, int(max(_BYTES_AT_ONCE, together) / max(1.0, self.bytes_per_row)))
        edges = _runs(numbers, apart, most)
        parts = []
        out = None if self.sparse else np.empty((order.size, self.shape[1]), self.dtype)
        for a, z in pairwise(edges):
            first = int(numbers[a])
            part = self.read(first, int(numbers[z - 1]) + 1)[numbers[a:z] - first]
            if out is None:
                parts.append(part)
            else:
                out[by_number[a:z]] = part
        if out is not None:
            return out
        from scipy import sparse

        place = np.empty_like(by_number)
        place[by_number] = np.arange(order.size)
        none = sparse.csr_array((0, self.shape[1]), dtype=self.dtype)
        return sparse.vstack([none, *parts], format="csr", dtype=self.dtype)[place]

    def pieces(self, n_rows: int) -> Iterator[tuple[int, int]]:
        """Yield the start and the stop of consecutive pieces of `n_rows` rows; the last one may be smaller."""
        for start in range(0, self.shape[0], n_rows):
            yield start, min(start + n_rows, self.shape[0])

    def whole(self) -> Any:
        """Return all rows, in the stored dtype if the store is an array; a vector has one dimension."""
        rows = self.read(0, self.shape[0])
        return rows[:, 0] if self.ndim == 1 else rows

    def close(self) -> None:  # noqa: B027  data in memory needs no closing
        """Close the file."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @abstractmethod
    def _read(self, start: int, stop: int, out: np.ndarray | None) -> Any:
        """Implement `read` for valid arguments; may raise any exception."""

    @contextmanager
    def _naming_errors(self, start: int, stop: int) -> Iterator[None]:
        """Turn the exceptions of libraries into a StoreError that names the file and the rows."""
        try:
            yield
        except (StoreError, MemoryError):
            raise
        except Exception as error:
            raise StoreError(
                f"{self.name}: rows {start} to {stop} cannot be read (damaged, or cut short): {in_a_line(error)}"
            ) from error

    def _check_out(self, n_rows: int, out: np.ndarray) -> None:
        if self.sparse:
            raise TypeError(f"{self.name}: is sparse, so its rows cannot be read into an array: `out` must be None.")
        if out.shape != (n_rows, self.shape[1]) or out.dtype != self.dtype or not out.flags.c_contiguous:
            raise ValueError(
                f"`out` must have shape {(n_rows, self.shape[1])} and dtype {self.dtype} in C order, "
                f"got {out.shape} and {out.dtype}."
            )

    def _output(self, n_rows: int, out: np.ndarray | None) -> np.ndarray:
        return np.empty((n_rows, self.shape[1]), self.dtype) if out is None else out


def _runs(numbers: np.ndarray, apart: int, most: int) -> np.ndarray:
    """Return the edges of runs of sorted row `numbers`: gaps within a run are at most `apart`, its length `most`."""
    breaks = np.flatnonzero(np.diff(numbers) > apart) + 1
    edges = [0]
    for stop in (*breaks.tolist(), numbers.size):
        while stop > edges[-1]:
            reach = int(np.searchsorted(numbers, numbers[edges[-1]] + most))
            edges.append(min(stop, max(reach, edges[-1] + 1)))
    return np.array(edges)


def files_behind(array: Any) -> tuple[Path, ...]:
    """Return the files from which an array of numpy, HDF5 or Zarr is memory-mapped, or read when it is sliced."""
    while isinstance(array, np.ndarray):
        if isinstance(array, np.memmap) and array.filename is not None:
            return (Path(array.filename),)
        array = array.base
    file = getattr(getattr(array, "file", None), "filename", None)
    if file is None:
        root = getattr(getattr(array, "store", None), "root", None)
        return () if root is None else (Path(root),)
    others = array.virtual_sources() if getattr(array, "is_virtual", False) else ()
    return (Path(file), *(Path(file).parent / one.file_name for one in others))


def kept_dtype(dtype: np.dtype) -> type[np.floating]:
    """Return the type in which numbers of `dtype` are kept in memory."""
    return np.float32 if dtype.kind == "f" and dtype.itemsize <= 4 else np.float64


@cache
def precision(dtype: np.dtype) -> float:
    """Return the relative precision of numbers of `dtype`, never finer than that of float64; integers are exact."""
    return float(max(np.finfo(dtype if dtype.kind == "f" else np.float64).eps, np.finfo(np.float64).eps))


def library(module: str, extra: str, ending: str) -> ModuleType:
    """Import the package that a format needs; raise ImportError, with the command that installs it, if that fails."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.split(".", maxsplit=1)[0]
        raise ImportError(f"reading and writing {ending} needs {package}: pip install 'rowsolve[{extra}]'") from error


def in_a_line(error: BaseException) -> str:
    """Return the message of `error` on one line."""
    return " ".join(str(error).split()) or type(error).__name__
