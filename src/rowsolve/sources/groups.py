"""HDF5 files and Zarr stores: dense arrays, and sparse matrices as a group of three arrays."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from rowsolve.sources.arrays import ArrayStore, MappedStore
from rowsolve.sources.csr import CSRStore
from rowsolve.sources.records import RecordStore
from rowsolve.sources.store import Store, StoreError, kept_dtype, library

__all__ = ["CSR_PARTS", "OURS", "is_zarr", "open_hdf5", "open_zarr"]

CSR_PARTS = {"data", "indices", "indptr"}
OURS = "A"  # default name of the matrix
N_CHUNKS = "rowsolve_n_chunks"  # number of chunks of a Zarr array that we wrote: Zarr reads a missing one as zeros
_ZARR_FILES = ("zarr.json", ".zarray", ".zgroup")


def open_hdf5(path: Path, place: str, left_out: tuple[str, ...]) -> Store:
    """Open the dataset, or the group of a sparse matrix, at `place` in an HDF5 file; the only one if `place` is empty.

    The columns of a table may be selected after another colon, or excluded in `left_out` as ``table:column``.
    """
    file = library("h5py", "hdf5", path.suffix).File(path, "r")
    return _open(str(path), file, place, left_out, file.close)


def open_zarr(path: Path, place: str, left_out: tuple[str, ...]) -> Store:
    """Open the array, or the group of a sparse matrix, at `place` in a Zarr store, as `open_hdf5` does."""
    root = library("zarr", "zarr", ".zarr").open(str(path), mode="r")
    if _is_array(root):
        if place and not _is_table(root):
            raise StoreError(f"{path}: is a single array and contains no {place!r}.")
        return _store(str(path), root, place, _columns_of("", left_out), lambda: None)
    return _open(str(path), root, place, left_out, lambda: None)


def is_zarr(path: Path) -> bool:
    """Return whether a directory is a Zarr store."""
    return any((path / name).exists() for name in _ZARR_FILES)


def _open(file: str, root: Any, place: str, left_out: tuple[str, ...], close: Callable[[], None]) -> Store:
    try:
        if not place and _is_csr(root):
            return _store(file, root, "", (), close)
        found = dict(_matrices(root, ""))
        table, columns = _choose(file, found, place.strip("/"))
        return _store(f"{file}:/{table}", found[table], columns, _columns_of(table, left_out), close)
    except BaseException:
        close()
        raise


def _choose(file: str, found: dict[str, Any], place: str) -> tuple[str, str]:
    """Return the name of the dataset at `place` and the columns that are selected, after validation."""
    if not found:
        raise StoreError(f"{file}: contains no dataset.")
    there = ", ".join(f"{name} {_size(item)}" for name, item in found.items())
    name = place or (OURS if OURS in found else next(iter(found)) if len(found) == 1 else "")
    if not name:
        raise StoreError(f"{file}: contains several datasets, {there}. Choose one, as in {file}:/{next(iter(found))}.")
    if name in found:
        return name, ""
    table, _, columns = name.rpartition(":")
    if table not in found or not _is_table(found[table]):
        raise StoreError(f"{file}: has no dataset {name!r}; there are {there}.")
    return table, columns


def _matrices(group: Any, prefix: str) -> Iterator[tuple[str, Any]]:
    """Yield (name, item) for all arrays and groups of sparse matrices."""
    for name, item in sorted(_members(group).items()):
        if _is_array(item) or _is_csr(item):
            yield prefix + name, item
        else:
            yield from _matrices(item, f"{prefix}{name}/")


def _members(group: Any) -> dict[str, Any]:
    return dict(group.members() if hasattr(group, "members") else group.items())


def _is_array(item: Any) -> bool:
    return hasattr(item, "shape")


def _is_table(item: Any) -> bool:
    return _is_array(item) and getattr(np.dtype(item.dtype), "names", None) is not None


def _columns_of(table: str, left_out: tuple[str, ...]) -> tuple[str, ...]:
    """Return the columns of `left_out` that belong to this table."""
    parts = (one.rpartition(":") for one in left_out)
    return tuple(column for name, _, column in parts if name == table)


def _is_csr(group: Any) -> bool:
    return _members(group).keys() >= CSR_PARTS


def _size(item: Any) -> str:
    return f"({' x '.join(map(str, item.shape))})" if _is_array(item) else "(sparse)"


def _store(name: str, item: Any, columns: str, left_out: tuple[str, ...], close: Callable[[], None]) -> Store:
    if _is_array(item):
        _check_chunks(name, item)
        if _is_table(item):
            chosen = tuple(columns.split(",")) if columns else ()
            return RecordStore(name, item, chosen, left_out, chunk=_rows_stored_together(item), close=close)
        mapped = _mapped(item)
        if mapped is not None:
            return MappedStore(name, Path(item.file.filename), mapped, close)
        return ArrayStore(name, item, chunk=_rows_stored_together(item), close=close)
    members = _members(item)
    for part in CSR_PARTS:
        _check_chunks(f"{name}/{part}", members[part])
    if "csc" in str(item.attrs.get("encoding-type", "")):
        raise StoreError(f"{name}: the format is CSC. Try storing the matrix as CSR.")
    shape = item.attrs["shape"] if "shape" in item.attrs else members["shape"][...] if "shape" in members else None
    if shape is None or len(shape) != 2:
        raise StoreError(f"{name}: must have `shape` (rows, columns), as an attribute or as a dataset next to `data`.")
    parts = (members["data"], members["indices"], members["indptr"])
    per_row = max(1.0, parts[0].shape[0] / max(1, int(shape[0])))
    chunk = int(_rows_stored_together(parts[0]) / per_row)
    return CSRStore(name, parts, (int(shape[0]), int(shape[1])), chunk=chunk, close=close)


def _mapped(item: Any) -> np.memmap | None:
    """Return a memory map of an HDF5 dataset; None unless it is contiguous and of a dtype that needs no conversion."""
    if not hasattr(item, "read_direct") or item.chunks is not None or item.ndim != 2 or not item.size:
        return None
    from h5py import h5t

    offset, dtype = item.id.get_offset(), np.dtype(item.dtype)  # there is no offset if the data is in other files
    if offset is None or dtype != kept_dtype(dtype) or item.id.get_type() != h5t.py_create(dtype):
        return None
    return np.memmap(item.file.filename, dtype, "r", offset, item.shape)


def _rows_stored_together(array: Any) -> int:
    # With shards, Zarr stores several chunks in one file, but reads them one by one.
    return int(array.chunks[0]) if getattr(array, "chunks", None) else 1


def _check_chunks(name: str, array: Any) -> None:
    """Raise StoreError if chunks of a Zarr array that we wrote are missing, or if its metadata does not match them."""
    wanted = array.attrs.get(N_CHUNKS) if hasattr(array, "nchunks") else None
    if wanted is None:
        return
    # We count the files: Zarr would take half a millisecond for each chunk.
    folder = Path(array.store.root, array.path)
    missing = wanted - sum(file.startswith("c.") for file in os.listdir(folder))
    if missing:
        raise StoreError(f"{name}: {missing} of its {wanted} chunks are missing.")
    first = array.metadata.encode_chunk_key((0,) * array.ndim)
    if wanted != array.nchunks or not (folder / first).exists():
        raise StoreError(f"{name}: its zarr.json is damaged: it does not match the {wanted} chunks that were written.")
