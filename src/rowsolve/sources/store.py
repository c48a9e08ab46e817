"""The base class of everything from which rows can be read, a few at a time."""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, Self

import numpy as np

from rowsolve.policy.thresholds import BYTES_AT_ONCE, COLUMN_BYTES, COPIES
from rowsolve.sources.finite import NotFinite

__all__ = [
    "Footprint", "Store", "StoreError", "files_behind", "in_a_line", "kept_dtype", "last_written", "library",
    "naming_errors", "output", "precision", "slices",
]  # fmt: skip


class StoreError(ValueError):
    """An error in a file; the message names the file."""


@dataclass(frozen=True)
class Footprint:
    """What the rows of a store take, on average.

    Attributes
    ----------
    entries_per_row : float
        Stored entries of a row.
    bytes_per_row : float
        Bytes of a row in memory.
    stored_bytes_per_row : float
        Bytes of a row in the stored dtype, before compression.
    least_bytes : float
        Bytes of memory that the smallest read takes.
    in_place : bool
        Whether rows are read into an array without an intermediate copy.
    """

    entries_per_row: float
    bytes_per_row: float
    stored_bytes_per_row: float
    least_bytes: float
    in_place: bool = False

    @classmethod
    def of_chunks(
        cls, entries_per_row: float, stored_dtype: np.dtype, chunk: int, *, index_bytes: float = 0.0
    ) -> Footprint:
        """Return the footprint of rows that are read in chunks, with indices of `index_bytes` if they are sparse."""
        itemsize = np.dtype(kept_dtype(stored_dtype)).itemsize
        bytes_per_row = entries_per_row * (itemsize + index_bytes) + index_bytes
        stored = bytes_per_row * stored_dtype.itemsize / itemsize
        return cls(entries_per_row, bytes_per_row, stored, COPIES * chunk * bytes_per_row)

    def rows_in(self, n_bytes: float) -> int:
        """Return the number of rows that take so many bytes of memory."""
        return int(n_bytes / max(1.0, self.bytes_per_row))


class Store(ABC):
    """A matrix in memory, in a file or from a callable. Not thread-safe.

    A format implements `_read`, and may implement `_viewable`, `prefetch`, `whole` and `close`.

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
    footprint : Footprint
        The bytes of a row, and of the smallest read.
    columns : tuple of str or None
        The names of the columns, if any.
    rhs : ndarray or None
        The right-hand side, if the store provides it.
    bytes_read : float
        Bytes read so far: numbers in their stored dtype, of whole chunks.
    checked : bool
        Whether opening it has read all numbers; `not_finite` is the first that is not finite, if any.
    not_finite : NotFinite or None
    """

    ordered: ClassVar[bool] = False
    checked: ClassVar[bool] = False
    sparse: bool = False
    rhs: np.ndarray | None = None
    not_finite: NotFinite | None = None

    def __init__(
        self,
        name: str,
        shape: tuple[int, ...],
        stored_dtype: np.dtype,
        *,
        chunk: int = 1,
        columns: tuple[str, ...] | None = None,
        footprint: Footprint | None = None,
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
        self.footprint = footprint or Footprint.of_chunks(float(self.shape[1]), stored_dtype, self.chunk)
        self.bytes_read = 0.0

    @property
    def files(self) -> tuple[Path, ...]:
        """The files and folders that rows are read from; empty for data in memory."""
        return _opened_paths(self.name)

    def most_bytes(self, n_rows: int) -> float:
        """Return an upper bound on the bytes of `n_rows` consecutive rows in memory, as far as it is known."""
        return n_rows * self.footprint.bytes_per_row

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
            _check_out(self, stop - start, out)
        with naming_errors(self.name, start, stop):
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

    def _viewable(self, stop: int) -> Any:  # noqa: ARG002  most stores have no views
        """Return an array of all rows, of which those before `stop` can be accessed safely; None if there is none."""
        return None

    def prefetch(self, start: int, stop: int) -> None:  # noqa: B027  most stores cannot prefetch
        """Ask the system to read rows of which a view will be needed soon."""

    def _count(self, start: int, stop: int) -> None:
        """Add rows `start` to `stop`, rounded to whole chunks, to `bytes_read`."""
        if stop > start:
            first, last = start // self.chunk * self.chunk, min(-(-stop // self.chunk) * self.chunk, self.shape[0])
            self.bytes_read += (last - first) * self.footprint.stored_bytes_per_row

    def take(self, order: np.ndarray) -> Any:
        """Return the rows with these indices, in this order; each chunk is read once."""
        rows = self._viewable(self.shape[0])
        if rows is not None:
            self.bytes_read += order.size * self.footprint.stored_bytes_per_row
            return rows[order]
        by_number, found = np.argsort(order, kind="stable"), self.footprint
        numbers = order[by_number]
        together = self.chunk * found.bytes_per_row if found.in_place else found.least_bytes / COPIES
        most = max(1, found.rows_in(max(BYTES_AT_ONCE, together)))
        edges = _runs(numbers, max(self.chunk, found.rows_in(COLUMN_BYTES)), most)
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
def naming_errors(name: str, start: int, stop: int) -> Iterator[None]:
    """Turn the exceptions of libraries into a StoreError that names the file and the rows."""
    try:
        yield
    except (StoreError, MemoryError):
        raise
    except Exception as error:
        raise StoreError(
            f"{name}: rows {start} to {stop} cannot be read (damaged or truncated): {in_a_line(error)}"
        ) from error


def _check_out(store: Store, n_rows: int, out: np.ndarray) -> None:
    if store.sparse:
        raise TypeError(f"{store.name}: is sparse, so its rows cannot be read into an array: `out` must be None.")
    shape = (n_rows, store.shape[1])
    if out.shape != shape or out.dtype != store.dtype or not out.flags.c_contiguous:
        raise ValueError(
            f"`out` must have shape {shape} and dtype {store.dtype} in C order, got {out.shape} and {out.dtype}."
        )


def output(store: Store, n_rows: int, out: np.ndarray | None) -> np.ndarray:
    """Return `out`, or a new array for `n_rows` rows of `store`."""
    return np.empty((n_rows, store.shape[1]), store.dtype) if out is None else out


def slices(n_rows: int, size: int) -> Iterator[tuple[int, int]]:
    """Yield the start and the stop of consecutive slices of `size` rows; the last one may be smaller."""
    for start in range(0, n_rows, size):
        yield start, min(start + size, n_rows)


def _runs(numbers: np.ndarray, apart: int, most: int) -> np.ndarray:
    """Return the edges of runs of sorted row `numbers`: gaps within a run are at most `apart`, its length `most`."""
    breaks = np.flatnonzero(np.diff(numbers) > apart) + 1
    edges = [0]
    for stop in (*breaks.tolist(), numbers.size):
        while stop > edges[-1]:
            reach = int(np.searchsorted(numbers, numbers[edges[-1]] + most))
            edges.append(min(stop, max(reach, edges[-1] + 1)))
    return np.array(edges)


def _opened_paths(name: str) -> tuple[Path, ...]:
    """Return the file or the folder that the name of a store refers to; nothing for data in memory."""
    path = Path(name)
    if not path.exists() and ":/" in name:
        path = Path(name.rpartition(":/")[0])
    return (path,) if path.exists() else ()


def last_written(store: Store) -> int:
    """Return the last modification of the file, or of any file in the folder, in nanoseconds; 0 for data in memory."""
    files = (file for path in _opened_paths(store.name) for file in (path, *path.rglob("*")))
    return max((file.stat().st_mtime_ns for file in files), default=0)


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
