"""Files by the ending of their names. A .npy file is mapped, not read, when all of it is asked for."""

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
    """Open rows where they live.

    Parameters
    ----------
    where : path, array, scipy sparse matrix, callable or Store
        A file ending in .npy, .npz, .mtx, .mtx.gz, .csv, .h5, .hdf5, .zarr or .parquet. After a colon comes which
        dataset (``rows.h5:/train/A``) or which columns (``rows.parquet:age,rooms``, ``rows.h5:/houses:age,rooms``) of
        it. A callable returns an iterator of ``(A_chunk, b_chunk)``, see `Chunks`.
    leave_out : sequence of str
        Columns of a table that are not wanted (``houses:age`` for those of a table in HDF5 or Zarr).
    allow_nan : bool
        Whether a value that is missing in a table is read as NaN. If not, it is an error.

    Raises
    ------
    ValueError, OSError
        In a sentence that names the file.
    ImportError
        With the package to install.
    """
    if isinstance(where, Store):
        return where
    if isinstance(where, str | PathLike):
        return _open_file(where, tuple(leave_out), allow_nan=allow_nan)
    if isinstance(where, Iterator):
        raise ValueError("an iterator can be read only once: pass the function that makes it.")
    if _is_factory(where):
        return Chunks(where)
    if is_sparse(where):
        return MatrixStore("the sparse matrix", where)
    if isinstance(where, np.ma.MaskedArray) and np.ma.is_masked(where):
        raise StoreError("the array has masked entries: remove those rows, or fill them.")
    return ArrayStore("the array", np.asarray(where))


@contextmanager
def opened(where: Any, *, leave_out: Sequence[str] = (), allow_nan: bool = False) -> Iterator[Store]:
    """Open rows for the time of a block; a store that the caller has opened stays open."""
    store = open_store(where, leave_out=leave_out, allow_nan=allow_nan)
    try:
        yield store
    finally:
        if store is not where:
            store.close()


def open_system(A: Any, b: Any, *, allow_nan: bool = False) -> tuple[Store, Store]:
    """Open the rows of `A` and its right-hand side.

    If `b` names columns of the table that `A` is, then `A` is all the others. If `A` is a callable (see `Chunks`), b
    comes with its rows and must be None here.
    """
    store = open_store(A, leave_out=_columns_of_b(A, b), allow_nan=allow_nan)
    try:
        if store.ndim != 2:
            raise StoreError(f"{store.name}: expected two dimensions, rows and columns: got {store.shape[0]} numbers.")
        return store, open_store(_b_of(store, b), allow_nan=allow_nan)
    except BaseException:
        if store is not A:
            store.close()
        raise


def load_system(A: Any, b: Any) -> tuple[Any, Any]:
    """Return `A` and `b`, read into memory where they are files or streams (.npy is mapped), else as they are."""
    if not (_is_place(A) or _is_factory(A)):
        return A, vector_of(b)
    with opened(A, leave_out=_columns_of_b(A, b)) as store:
        b = _b_of(store, b)
        return store.whole(), vector_of(b)


@contextmanager
def opened_with_b(A: Any, b: Any) -> Iterator[tuple[Store, Any]]:
    """Open the rows of `A` for the time of a block, and give `b` beside them: read if it is a file."""
    with opened(A, leave_out=_columns_of_b(A, b)) as store:
        if store.ndim != 2:
            raise StoreError(f"{store.name}: expected two dimensions, rows and columns: got {store.shape[0]} numbers.")
        b = _b_of(store, b)
        yield store, vector_of(b)


def files_of(where: Any) -> tuple[Path, ...]:
    """Return the files that `where` is read from, as far as can be told: what a function reads cannot."""
    if isinstance(where, Store):
        return where.files
    return (split_place(where)[0],) if _is_place(where) else files_behind(where)


def files_of_system(A: Any, b: Any, x0: Any = None) -> dict[str, tuple[Path, ...]]:
    """Return the files that a solve reads, by what they are read for, as an output takes them that must not be one."""
    found = {"`A` is read from": files_of(A), "`b` is read from": files_of(b), "`x0` is read from": files_of(x0)}
    if _is_place(A):
        found["the clusters of `A` are read from"] = files_beside(files_of(A))
    return found


def is_place(where: Any) -> bool:
    """Tell whether rows would have to be read from somewhere."""
    return _is_place(where) or _is_factory(where)


def _b_of(store: Store, b: Any) -> Any:
    """Return `b`, or what comes with the rows."""
    if b is None and store.rhs is None:
        raise ValueError(f"{store.name}: comes without a right-hand side: pass `b`.")
    if b is not None and store.rhs is not None:
        raise ValueError(f"{store.name}: bring their own right-hand side: pass None for `b`.")
    return store.rhs if b is None else b


def _is_place(where: Any) -> bool:
    return isinstance(where, str | PathLike | Store)


def _is_factory(where: Any) -> bool:
    return callable(where) and not hasattr(where, "__array__")


def _columns_of_b(A: Any, b: Any) -> tuple[str, ...]:
    """Return the columns that `b` takes from the file of `A`; in a group of tables, with the names of these."""
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
    """Return the matrix in `path` as it is stored: an array (.npy is mapped, not read) or a scipy sparse matrix."""
    with opened(path) as store:
        return store.whole()


def load_vector(path: str | PathLike[str]) -> np.ndarray:
    """Return the vector in `path`, in any of the same formats; a matrix of one row or column will do."""
    found = load_matrix(path)
    array = found.toarray() if hasattr(found, "toarray") else np.asarray(found)
    return array.reshape(-1) if array.ndim == 2 and 1 in array.shape else array


def vector_of(values: Any) -> Any:
    """Return `values`, read if they are in a file."""
    return load_vector(values) if _is_place(values) else values


def split_place(where: str | PathLike[str]) -> tuple[Path, str]:
    """Return the file, and what comes after the colon behind its ending."""
    text = os.fspath(where)
    ends = [at + len(ending) for ending in _OPENERS if (at := text.lower().find(f"{ending}:")) >= 0]
    if not ends or Path(text).exists():  # a file may have a colon in its name
        return Path(text), ""
    return Path(text[: min(ends)]), text[min(ends) + 1 :]


def ending_of(path: Path) -> str:
    """Return the ending by which `path` is read and written; raise if there is none."""
    ending = next((ending for ending in _OPENERS if path.name.lower().endswith(ending)), None)
    if ending is None:
        raise ValueError(f"{path}: expected a file ending in {', '.join(ENDINGS)}; convert it, or load it in Python.")
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
    except Exception as error:  # whatever a reader meets in a file that is not what its name says
        raise StoreError(_what_is_wrong(path, ending, error)) from error


def _check_kind(path: Path, ending: str) -> None:
    if ending == ".zarr":
        if not path.is_dir():
            raise NotADirectoryError(f"{path}: is a file, expected a folder, as Zarr stores are.")
        if not is_zarr(path):
            raise StoreError(f"{path}: is not a Zarr store: there is no zarr.json, .zarray or .zgroup in it.")
    elif path.is_dir():
        raise IsADirectoryError(f"{path}: is a folder, expected a {ending} file.")
    elif path.stat().st_size == 0:
        raise StoreError(f"{path}: the file is empty.")


def _what_is_wrong(path: Path, ending: str, error: Exception) -> str:
    text = in_a_line(error)
    if any(sign in text for sign in ("allow_pickle", "Object arrays", "Python objects")):
        return f"{path}: holds pickled Python objects, which can run code and are not read; save plain numbers instead."
    return f"{path}: is not a complete {ending} file (truncated, or another format): {text}"


class _Wanted(NamedTuple):
    path: Path
    place: str
    left_out: tuple[str, ...]
    allow_nan: bool

    def only(self) -> Path:
        """Return the path of a file that holds but one matrix without names."""
        if self.place:
            raise StoreError(f"{self.path}: holds one matrix only: leave `:{self.place}` away.")
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
    # Opened here, because np.load leaves a broken archive open.
    with path.open("rb") as file:
        if not zipfile.is_zipfile(file):
            raise ValueError("it is no zip archive")
        file.seek(0)
        archive = np.load(file, allow_pickle=False)
        if set(archive.files) >= _SPARSE_KEYS:
            from scipy import sparse

            file.seek(0)
            return MatrixStore(str(wanted.only()), sparse.load_npz(file))
        if not archive.files:
            raise StoreError(f"{path}: holds no array.")
        if len(archive.files) != 1:
            raise StoreError(
                f"{path}: expected one array or a scipy sparse matrix, got the arrays {', '.join(archive.files)}; "
                "save the one wanted on its own."
            )
        array = archive[archive.files[0]]
        if array.dtype.names is not None:
            return RecordStore(str(path), array, wanted.columns(), wanted.left_out)
        return ArrayStore(str(wanted.only()), array)


class _Lines:
    """A text file for scipy's reader, which crashes at a zero byte and at rubbish in a last line without an end."""

    def __init__(self, file: Any) -> None:
        self._file, self._ended = file, False

    def read(self, n_bytes: int) -> bytes:
        block = self._file.read(n_bytes)
        if b"\0" in block:
            raise ValueError("it is no text")
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
