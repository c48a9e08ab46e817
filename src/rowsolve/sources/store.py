"""The contract of everything that rows can be read from, a few at a time."""

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


_BYTES_APART = 1 << 15  # rows that are no further apart are read in one go: a disk takes as long for the gap alone
_BYTES_AT_ONCE = 1 << 22  # of such rows together


class StoreError(ValueError):
    """What is wrong with a file, in a sentence that names it."""


class Store(ABC):
    """Rows where they live: a file or a stream. Not to be read by two threads at once.

    Attributes
    ----------
    name : str
        What messages call it: the file and the place in it.
    shape : (int, int)
        A vector counts as one column; `ndim` tells it from a matrix.
    ndim : int
    stored_dtype : numpy.dtype
        The numbers as they are stored.
    dtype : numpy.dtype
        The numbers as they are read: float32 (of float16 and float32) or float64 (of all else).
    sparse : bool
        Whether `read` returns CSR parts.
    chunk : int
        Rows that are stored together: reads from multiples of it are the fastest. 1 if any rows are.
    ordered : bool
        Whether rows come only one after another, so that going back means beginning anew.
    in_place : bool
        Whether rows are read into an array without a copy.
    columns : tuple of str or None
        The names of the columns, if they have any.
    rhs : ndarray or None
        The right-hand side, where it comes together with the rows.
    bytes_read : float
        What has been read so far: numbers as they are stored, of whole chunks.
    checked : bool
        Whether all numbers are known: `odd` is the first that is not finite, None if all are.
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
            raise StoreError(f"{name}: expected two dimensions, rows and columns, or one: got shape {shape}.")
        if stored_dtype.kind not in "fiub":
            hint = " Stack the real and the imaginary parts into one real system." if stored_dtype.kind == "c" else ""
            raise StoreError(f"{name}: expected real numbers, got {stored_dtype}.{hint}")
        if 0 in shape:
            raise StoreError(f"{name}: holds no numbers: its shape is {shape}.")
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
        """When the file, or the last one in the folder, was written to, in nanoseconds; 0 if there is none."""
        return max((file.stat().st_mtime_ns for path in self._paths for file in (path, *path.rglob("*"))), default=0)

    @property
    def files(self) -> tuple[Path, ...]:
        """The files and folders that rows are read from; none if they are in memory."""
        return self._paths

    @property
    def _paths(self) -> tuple[Path, ...]:
        """The file, or the folder, that was opened."""
        path = Path(self.name)
        if not path.exists() and ":/" in self.name:
            path = Path(self.name.rpartition(":/")[0])
        return (path,) if path.exists() else ()

    @property
    def entries_per_row(self) -> float:
        """Stored numbers a row, on average."""
        return float(self.shape[1])

    @property
    def bytes_per_row(self) -> float:
        """Bytes that a row takes in memory once it is read, on average."""
        return self.entries_per_row * self.dtype.itemsize

    def most_bytes(self, n_rows: int) -> float:
        """Return how many bytes `n_rows` next to each other take at most, as far as that is known."""
        return n_rows * self.bytes_per_row

    @property
    def stored_bytes_per_row(self) -> float:
        """Bytes of the numbers of a row as they are stored, on average, before any compression."""
        return self.bytes_per_row * self.stored_dtype.itemsize / self.dtype.itemsize

    @property
    def least_bytes(self) -> float:
        """Bytes of memory that the smallest read takes, because rows are stored together.

        A chunk is there as it is stored, as it is unpacked, and as it is handed over.
        """
        return 3 * self.chunk * self.bytes_per_row

    @property
    def eps(self) -> float:
        """Relative precision of the numbers as they are stored."""
        return precision(self.stored_dtype)

    def read(self, start: int, stop: int, out: np.ndarray | None = None) -> Any:
        """Return rows `start` to `stop` (not included): an array in C order, or a CSR array if `sparse`.

        Dense rows go into `out`, if given: an array of shape ``(stop - start, n_columns)`` and of the `dtype`.

        Raises
        ------
        ValueError
            If they cannot be read: the sentence names the file and the rows.
        """
        if not 0 <= start <= stop <= self.shape[0]:
            raise IndexError(f"{self.name}: has rows 0 to {self.shape[0]}, asked for {start} to {stop}.")
        if out is not None:
            self._check_out(stop - start, out)
        with self._naming_errors(start, stop):
            rows = self._read(start, stop, out)
        self._count(start, stop)
        return rows

    def view(self, start: int, stop: int) -> Any:
        """Return rows `start` to `stop` as `read` does, but without a copy; None if they are not there as they are."""
        rows = self._viewable(stop)
        if rows is None:
            return None
        self._count(start, stop)
        return rows[start:stop]

    @property
    def has_views(self) -> bool:
        """Whether rows can be lent."""
        return self._viewable(0) is not None

    @property
    def is_mapped(self) -> bool:
        """Whether `whole` maps the rows into memory as they are, which takes none."""
        return False

    def _viewable(self, stop: int) -> Any:  # noqa: ARG002  most stores have nothing to lend
        """Return an array of all rows, of which those before `stop` are safe to touch; None if there is none."""
        return None

    def prefetch(self, start: int, stop: int) -> None:  # noqa: B027  most stores cannot read ahead
        """Let the system fetch rows that will be lent soon."""

    def _count(self, start: int, stop: int) -> None:
        """Add rows `start` to `stop`, and those stored in the same chunks, to `bytes_read`."""
        if stop > start:
            first, last = start // self.chunk * self.chunk, min(-(-stop // self.chunk) * self.chunk, self.shape[0])
            self.bytes_read += (last - first) * self.stored_bytes_per_row

    def take(self, order: np.ndarray) -> Any:
        """Return the rows with these numbers, in this order; what is stored together is read once for all of them."""
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
        """Yield the start and the stop of pieces of `n_rows`, the last being smaller."""
        for start in range(0, self.shape[0], n_rows):
            yield start, min(start + n_rows, self.shape[0])

    def whole(self) -> Any:
        """Return all rows, in the numbers that are stored if they come as arrays; a vector with one dimension."""
        rows = self.read(0, self.shape[0])
        return rows[:, 0] if self.ndim == 1 else rows

    def close(self) -> None:  # noqa: B027  what lives in memory has nothing to close
        """Let go of the file."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @abstractmethod
    def _read(self, start: int, stop: int, out: np.ndarray | None) -> Any:
        """As `read`, with arguments that are in order; may raise anything."""

    @contextmanager
    def _naming_errors(self, start: int, stop: int) -> Iterator[None]:
        """Tell whatever a library meets in a file that was cut or changed."""
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
            raise TypeError(f"{self.name}: is sparse, so its rows do not fit into an array: leave `out` away.")
        if out.shape != (n_rows, self.shape[1]) or out.dtype != self.dtype or not out.flags.c_contiguous:
            raise ValueError(
                f"`out` must have shape {(n_rows, self.shape[1])} and dtype {self.dtype} in C order, "
                f"got {out.shape} and {out.dtype}."
            )

    def _output(self, n_rows: int, out: np.ndarray | None) -> np.ndarray:
        return np.empty((n_rows, self.shape[1]), self.dtype) if out is None else out


def _runs(numbers: np.ndarray, apart: int, most: int) -> np.ndarray:
    """Return where runs of sorted `numbers` begin, and the end: no two further `apart`, none over `most` rows long."""
    breaks = np.flatnonzero(np.diff(numbers) > apart) + 1
    edges = [0]
    for stop in (*breaks.tolist(), numbers.size):
        while stop > edges[-1]:
            reach = int(np.searchsorted(numbers, numbers[edges[-1]] + most))
            edges.append(min(stop, max(reach, edges[-1] + 1)))
    return np.array(edges)


def files_behind(array: Any) -> tuple[Path, ...]:
    """Return the files that an array is mapped from, or read from when it is sliced: of numpy, HDF5 and Zarr."""
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
    """Return the type that numbers of `dtype` are computed from."""
    return np.float32 if dtype.kind == "f" and dtype.itemsize <= 4 else np.float64


@cache
def precision(dtype: np.dtype) -> float:
    """Integers are exact; float16 and float32 are known only to their own rounding."""
    return float(max(np.finfo(dtype if dtype.kind == "f" else np.float64).eps, np.finfo(np.float64).eps))


def library(module: str, extra: str, ending: str) -> ModuleType:
    """Import what a format needs; raise with the way to get it if it is not there."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.split(".", maxsplit=1)[0]
        raise ImportError(f"reading and writing {ending} needs {package}: pip install 'rowsolve[{extra}]'") from error


def in_a_line(error: BaseException) -> str:
    """Return the words of `error` without line breaks."""
    return " ".join(str(error).split()) or type(error).__name__
