"""Opening files by their extension. A .npy file is memory-mapped, not read, when all of it is requested."""

from __future__ import annotations

import gzip
import os
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rowsolve.sources.arrangement import files_beside
from rowsolve.sources.arrays import ArrayStore, NpyStore
from rowsolve.sources.csr import MatrixStore, is_sparse
from rowsolve.sources.groups import is_zarr, open_hdf5, open_zarr
from rowsolve.sources.parquet import ParquetStore
from rowsolve.sources.records import NpyRecords, RecordStore
from rowsolve.sources.store import Store, StoreError, files_behind, in_a_line
from rowsolve.sources.streams import Chunks
from rowsolve.sources.text import CSVStore

__all__ = [
    "ENDINGS", "ending_of", "files_of", "files_of_system", "is_place", "load_matrix", "load_system", "load_vector",
    "open_store", "open_system", "opened", "opened_with_b", "split_place", "vector_of",
]  # fmt: skip

_SPARSE_KEYS = {"format", "shape", "data"}


def open_store(where: Any, *, leave_out: Sequence[str] = (), allow_nan: bool = False) -> Store:
    """Open a matrix or a vector for reading a few rows at a time.

    Parameters
    ----------
    where : path, array, scipy sparse matrix, callable or Store
        A file ending in .npy, .npz, .mtx, .mtx.gz, .csv, .h5, .hdf5, .zarr or .parquet. A dataset
        (``rows.h5:/train/A``) or columns (``rows.parquet:age,rooms``, ``rows.h5:/houses:age,rooms``) may be given after
        a colon. A callable must return an iterator of ``(A_chunk, b_chunk)``, see `Chunks`.
    leave_out : sequence of str
        Columns of a table to exclude (``houses:age`` for those of a table in HDF5 or Zarr).
    allow_nan : bool
        Whether to read a missing value of a table as NaN. If False, it raises ValueError.

    Raises
    ------
    ValueError, OSError
        If the data cannot be read. The message names the file.
    ImportError
        If a package is not installed. The message names it.
    """
    if isinstance(where, Store):
        return where
    if isinstance(where, str | PathLike):
        return _open_file(where, tuple(leave_out), allow_nan=allow_nan)
    if isinstance(where, Iterator):
        raise ValueError("an iterator can be read only once: pass the function that returns it.")
    if _is_factory(where):
        return Chunks(where)
    if is_sparse(where):
        return MatrixStore("the sparse matrix", where)
    if isinstance(where, np.ma.MaskedArray) and np.ma.is_masked(where):
        raise StoreError("the array has masked entries. Try removing or filling those rows.")
    return ArrayStore("the array", np.asarray(where))


@contextmanager
def opened(where: Any, *, leave_out: Sequence[str] = (), allow_nan: bool = False) -> Iterator[Store]:
    """Open rows as a context manager; a store that the caller has opened is left open."""
    store = open_store(where, leave_out=leave_out, allow_nan=allow_nan)
    try:
        yield store
    finally:
        if store is not where:
            store.close()


def open_system(A: Any, b: Any, *, allow_nan: bool = False) -> tuple[Store, Store]:
    """Open the rows of `A` and the right-hand side `b`.

    If `b` names columns of the table `A`, then `A` is the other columns. If `A` is a callable (see `Chunks`), it yields
    the right-hand side, and `b` must be None.
    """
    store = open_store(A, leave_out=_columns_of_b(A, b), allow_nan=allow_nan)
    try:
        if store.ndim != 2:
            raise StoreError(f"{store.name}: expected a matrix, got a vector with {store.shape[0]} entries.")
        return store, open_store(_b_of(store, b), allow_nan=allow_nan)
    except BaseException:
        if store is not A:
            store.close()
        raise


def load_system(A: Any, b: Any) -> tuple[Any, Any]:
    """Return `A` and `b`, read into memory if they are files or callables (.npy is mapped), else unchanged."""
    if not (_is_place(A) or _is_factory(A)):
        return A, vector_of(b)
    with opened(A, leave_out=_columns_of_b(A, b)) as store:
        b = _b_of(store, b)
        return store.whole(), vector_of(b)


@contextmanager
def opened_with_b(A: Any, b: Any) -> Iterator[tuple[Store, Any]]:
    """Yield the opened rows of `A`, and `b`, read into memory if it is a file, as a context manager."""
    with opened(A, leave_out=_columns_of_b(A, b)) as store:
        if store.ndim != 2:
            raise StoreError(f"{store.name}: expected a matrix, got a vector with {store.shape[0]} entries.")
        b = _b_of(store, b)
        yield store, vector_of(b)


def files_of(where: Any) -> tuple[Path, ...]:
    """Return the files that `where` is read from, as far as they are known: those of a callable are not."""
    if isinstance(where, Store):
        return where.files
    return (split_place(where)[0],) if _is_place(where) else files_behind(where)


def files_of_system(A: Any, b: Any, x0: Any = None) -> dict[str, tuple[Path, ...]]:
    """Return the files that a solve reads, by purpose, as `make_sure_apart` takes them."""
    found = {"`A` is read from": files_of(A), "`b` is read from": files_of(b), "`x0` is read from": files_of(x0)}
    if _is_place(A):
        found["the clusters of `A` are read from"] = files_beside(files_of(A))
    return found


def is_place(where: Any) -> bool:
    """Return whether rows have to be read from a file, a store or a callable."""
    return _is_place(where) or _is_factory(where)


def _b_of(store: Store, b: Any) -> Any:
    """Return `b`, or the right-hand side that the store provides."""
    if b is None and store.rhs is None:
        raise ValueError(f"{store.name}: there is no right-hand side: pass `b`.")
    if b is not None and store.rhs is not None:
        raise ValueError(f"{store.name}: the right-hand side is part of the chunks: pass None for `b`.")
    return store.rhs if b is None else b


def _is_place(where: Any) -> bool:
    return isinstance(where, str | PathLike | Store)


def _is_factory(where: Any) -> bool:
    return callable(where) and not hasattr(where, "__array__")


def _columns_of_b(A: Any, b: Any) -> tuple[str, ...]:
    """Return the columns that `b` takes from the file of `A`; in HDF5 and Zarr, as ``table:column``."""
    if not (isinstance(A, str | PathLike) and isinstance(b, str | PathLike)):
        return ()
    (file, place), (file_of_b, columns) = split_place(A), split_place(b)
    if not columns or not file.exists() or not file_of_b.exists() or not file.samefile(file_of_b):
        return ()
    if ending_of(file) in _GROUPS:
        table, _, columns = columns.rpartition(":")
        return tuple(f"{table.strip('/')}:{column}" for column in columns.split(","))
    return () if place else tuple(columns.split(","))


def load_matrix(path: str | PathLike[str]) -> Any:
    """Return the matrix in `path`: an array (.npy is memory-mapped, not read) or a scipy sparse matrix."""
    with opened(path) as store:
        return store.whole()


def load_vector(path: str | PathLike[str]) -> np.ndarray:
    """Return the vector in `path`, in any of these formats; it may be stored as a matrix of one row or column."""
    found = load_matrix(path)
    array = found.toarray() if hasattr(found, "toarray") else np.asarray(found)
    return array.reshape(-1) if array.ndim == 2 and 1 in array.shape else array


def vector_of(values: Any) -> Any:
    """Return `values`, read into memory if they are in a file."""
    return load_vector(values) if _is_place(values) else values


def split_place(where: str | PathLike[str]) -> tuple[Path, str]:
    """Return the file, and what follows the colon after its extension."""
    text = os.fspath(where)
    ends = [at + len(ending) for ending in _OPENERS if (at := text.lower().find(f"{ending}:")) >= 0]
    if not ends or Path(text).exists():  # the name of a file may contain a colon
        return Path(text), ""
    return Path(text[: min(ends)]), text[min(ends) + 1 :]


def ending_of(path: Path) -> str:
    """Return the extension that determines the format of `path`; raise ValueError if it is not supported."""
    ending = next((ending for ending in _OPENERS if path.name.lower().endswith(ending)), None)
    if ending is None:
        raise ValueError(
            f"{path}: expected a file ending in {', '.join(ENDINGS)}. Try converting it, or loading it in Python."
        )
    return ending


def _open_file(where: str | PathLike[str], left_out: tuple[str, ...], *, allow_nan: bool) -> Store:
    path, place = split_place(where)
    ending = ending_of(path)
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such file.")
    _check_kind(path, ending)
    try:
        return _OPENERS[ending](_Wanted(path, place, left_out, allow_nan))
    except PermissionError:
        raise PermissionError(f"{path}: cannot be read: permission denied.") from None
    except (StoreError, MemoryError, ImportError):
        raise
    except Exception as error:  # readers raise all sorts of errors for a file of another format
        raise StoreError(_what_is_wrong(path, ending, error)) from error


def _check_kind(path: Path, ending: str) -> None:
    if ending == ".zarr":
        if not path.is_dir():
            raise NotADirectoryError(f"{path}: is a file, but a Zarr store is a folder.")
        if not is_zarr(path):
            raise StoreError(f"{path}: is not a Zarr store: it contains no zarr.json, .zarray or .zgroup.")
    elif path.is_dir():
        raise IsADirectoryError(f"{path}: is a folder, expected a {ending} file.")
    elif path.stat().st_size == 0:
        raise StoreError(f"{path}: the file is empty.")


def _what_is_wrong(path: Path, ending: str, error: Exception) -> str:
    text = in_a_line(error)
    if any(sign in text for sign in ("allow_pickle", "Object arrays", "Python objects")):
        return f"{path}: holds pickled Python objects, which can run code and are not read. Try saving plain numbers."
    return f"{path}: is not a complete {ending} file (truncated, or another format): {text}"


class _Wanted(NamedTuple):
    path: Path
    place: str
    left_out: tuple[str, ...]
    allow_nan: bool

    def only(self) -> Path:
        """Return the path of a file that holds a single matrix without column names."""
        if self.place:
            raise StoreError(f"{self.path}: holds a single matrix: remove `:{self.place}`.")
        return self.path

    def columns(self) -> tuple[str, ...]:
        return tuple(self.place.split(",")) if self.place else ()


def _open_npy(wanted: _Wanted) -> Store:
    path = wanted.path
    with path.open("rb") as file:
        is_npy = file.read(6) == np.lib.format.MAGIC_PREFIX
    mapped = np.lib.format.open_memmap(path, mode="r") if is_npy else None
    if mapped is None or mapped.dtype.names is None:
        return NpyStore(wanted.only())
    records = NpyRecords(path, mapped)
    try:
        return RecordStore(str(path), records, wanted.columns(), wanted.left_out, close=records.close)
    except BaseException:
        records.close()
        raise


def _read_npz(wanted: _Wanted) -> Store:
    path = wanted.path
    # We open the file ourselves, because np.load does not close a broken archive.
    with path.open("rb") as file:
        if not zipfile.is_zipfile(file):
            raise ValueError("it is not a zip archive")
        file.seek(0)
        archive = np.load(file, allow_pickle=False)
        if set(archive.files) >= _SPARSE_KEYS:
            from scipy import sparse

            file.seek(0)
            return MatrixStore(str(wanted.only()), sparse.load_npz(file))
        if not archive.files:
            raise StoreError(f"{path}: contains no array.")
        if len(archive.files) != 1:
            raise StoreError(
                f"{path}: expected one array or a scipy sparse matrix, got the arrays {', '.join(archive.files)}. "
                "Try saving the one you need in a separate file."
            )
        array = archive[archive.files[0]]
        if array.dtype.names is not None:
            return RecordStore(str(path), array, wanted.columns(), wanted.left_out)
        return ArrayStore(str(wanted.only()), array)


class _Lines:
    """A text file for scipy's reader, which crashes on a zero byte and on an invalid last line without a newline."""

    def __init__(self, file: Any) -> None:
        self._file, self._ended = file, False

    def read(self, n_bytes: int) -> bytes:
        block = self._file.read(n_bytes)
        if b"\0" in block:
            raise ValueError("it is not a text file")
        if not block and not self._ended:
            self._ended = True
            return b"\n"
        return block


def _read_mtx(path: Path) -> Store:
    from scipy import io, sparse

    with gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb") as file:
        found = io.mmread(_Lines(file))
    return MatrixStore(str(path), sparse.csr_array(found)) if sparse.issparse(found) else ArrayStore(str(path), found)


_OPENERS: dict[str, Callable[[_Wanted], Store]] = {
    ".npy": _open_npy,
    ".npz": _read_npz,
    ".mtx": lambda wanted: _read_mtx(wanted.only()),
    ".mtx.gz": lambda wanted: _read_mtx(wanted.only()),
    ".csv": lambda wanted: CSVStore(wanted.path, wanted.columns(), wanted.left_out, allow_nan=wanted.allow_nan),
    ".h5": lambda wanted: open_hdf5(wanted.path, wanted.place, wanted.left_out),
    ".hdf5": lambda wanted: open_hdf5(wanted.path, wanted.place, wanted.left_out),
    ".zarr": lambda wanted: open_zarr(wanted.path, wanted.place, wanted.left_out),
    ".parquet": lambda wanted: ParquetStore(wanted.path, wanted.columns(), wanted.left_out, allow_nan=wanted.allow_nan),
}
ENDINGS = tuple(_OPENERS)
_GROUPS = (".h5", ".hdf5", ".zarr")
