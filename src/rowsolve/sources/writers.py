"""Writers of rows, a few at a time, in the formats that `open_store` reads."""

from __future__ import annotations

import gzip
import io
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from rowsolve.policy.thresholds import BLOCK_BYTES
from rowsolve.sources.groups import N_CHUNKS, OURS
from rowsolve.sources.store import library

__all__ = ["WRITERS", "Layout", "NpyWriter", "Writer"]

_NUMBERS_OF_A_CHUNK = BLOCK_BYTES // np.dtype(float).itemsize  # of a vector


class Layout(NamedTuple):
    """The matrix to write, and how to store it.

    Attributes
    ----------
    shape : tuple of int
        The shape; one number for a vector.
    dtype : numpy.dtype
    sparse : bool
    chunk : int
        Rows of a chunk.
    columns : tuple of str or None
        The names of the columns, if any.
    rhs : tuple of str
        The names of the right-hand sides to store with the matrix; empty if there are none.
    place : str
        The name of the matrix in the file.
    """

    shape: tuple[int, ...]
    dtype: np.dtype
    sparse: bool = False
    chunk: int = 1
    columns: tuple[str, ...] | None = None
    rhs: tuple[str, ...] = ()
    place: str = OURS


class Writer(ABC):
    """A file being written; it is complete after `finish`.

    Attributes
    ----------
    extra_arrays : {"datasets", "columns", "files"}
        Where arrays other than the matrix are stored: as datasets of the same file; as columns of the same table
        (right-hand sides only); or in separate .npy files.
    takes_sparse : bool
        Whether the format stores sparse matrices.
    in_one_piece : bool
        Whether all rows must be in memory before the file is written.
    chunk_bytes : int
        Recommended size of a chunk; 0 if the format has no chunks.
    """

    extra_arrays: ClassVar[Literal["datasets", "columns", "files"]] = "files"
    takes_sparse: ClassVar[bool] = False
    in_one_piece: ClassVar[bool] = False
    chunk_bytes: ClassVar[int] = 0

    def __init__(self, path: Path, layout: Layout) -> None:
        self.path, self.layout = path, layout
        self.n_written = 0

    def add(self, rows: Any, b: np.ndarray | None = None) -> None:
        """Write the next rows, and their right-hand sides if the layout has any."""
        if not self.layout.sparse and hasattr(rows, "toarray"):
            rows = rows.toarray()
        rows = rows.astype(self.layout.dtype, copy=False)
        self._add(rows, b)
        self.n_written += rows.shape[0]

    @abstractmethod
    def _add(self, rows: Any, b: np.ndarray | None) -> None: ...

    def add_array(self, name: str, values: np.ndarray) -> None:
        """Write another array into the same file; raise TypeError unless `extra_arrays` is ``"datasets"``."""
        raise TypeError(f"this format stores a single matrix: write {name}, of shape {values.shape}, to another file.")

    def finish(self) -> None:
        """Write what is left, and close the file."""
        self.close()

    @abstractmethod
    def close(self) -> None:
        """Close the file, complete or not."""


class NpyWriter(Writer):
    """.npy: a header and the numbers in C order."""

    def __init__(self, path: Path, layout: Layout) -> None:
        super().__init__(path, layout)
        self._file = path.open("wb")
        header = {"descr": layout.dtype.str, "fortran_order": False, "shape": layout.shape}
        np.lib.format.write_array_header_2_0(self._file, header)

    def _add(self, rows: np.ndarray, b: np.ndarray | None) -> None:  # noqa: ARG002  b is stored in a separate file
        self._file.write(np.ascontiguousarray(rows).data)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class CSVWriter(Writer):
    """.csv: one line per row, after a header row if the columns have names."""

    extra_arrays = "columns"

    def __init__(self, path: Path, layout: Layout) -> None:
        super().__init__(path, layout)
        self._file = path.open("w", encoding="utf-8")
        if layout.columns or layout.rhs:
            self._file.write(",".join(_names(layout)) + "\n")

    def _add(self, rows: np.ndarray, b: np.ndarray | None) -> None:
        np.savetxt(self._file, rows if b is None else np.hstack([rows, b]), fmt="%.17g", delimiter=",")

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class ParquetWriter(Writer):
    """.parquet: `chunk` rows per row group, pages with a checksum."""

    extra_arrays = "columns"
    chunk_bytes = 8 << 20  # columns are stored separately, which is efficient for many rows only

    def __init__(self, path: Path, layout: Layout) -> None:
        super().__init__(path, layout)
        parquet = library("pyarrow.parquet", "parquet", ".parquet")
        import pyarrow as pa

        number = pa.from_numpy_dtype(layout.dtype)
        kinds = {name: pa.float64() if name in layout.rhs else number for name in _names(layout)}
        # No value is missing, so readers need not look for nulls.
        self._schema = pa.schema([pa.field(name, kind, nullable=False) for name, kind in kinds.items()])
        # The numbers hardly ever repeat: a dictionary would not save anything.
        self._file = parquet.ParquetWriter(path, self._schema, use_dictionary=False, write_page_checksum=True)

    def _add(self, rows: np.ndarray, b: np.ndarray | None) -> None:
        import pyarrow as pa

        columns = [*rows.T, *(() if b is None else b.T)]
        arrays = [pa.array(np.ascontiguousarray(column)) for column in columns]
        self._file.write_table(pa.Table.from_arrays(arrays, schema=self._schema), row_group_size=self.layout.chunk)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class GroupWriter(Writer):
    """HDF5 and Zarr: datasets with a checksum on every chunk; a sparse matrix is a group of three datasets."""

    extra_arrays = "datasets"
    takes_sparse = True
    chunk_bytes = 1 << 20
    _root: Any

    def __init__(self, path: Path, layout: Layout) -> None:
        super().__init__(path, layout)
        self._open()
        n_rows = layout.shape[0]
        if layout.sparse:
            group = self._root.create_group(layout.place)
            group.attrs["shape"] = list(layout.shape)
            place = f"{layout.place}/"
            self._data = self._create(f"{place}data", (0,), layout.dtype)
            self._indices = self._create(f"{place}indices", (0,), np.dtype(_index_type(layout.shape[1])))
            self._indptr = self._create(f"{place}indptr", (n_rows + 1,), np.dtype(np.int64))
            self._indptr[:1] = np.zeros(1, np.int64)
        else:
            self._rows = self._create(layout.place, layout.shape, layout.dtype, layout.chunk)
        if layout.rhs:
            shape = (n_rows,) if len(layout.rhs) == 1 else (n_rows, len(layout.rhs))
            self._b = self._create("b", shape, np.dtype(float))

    @abstractmethod
    def _open(self) -> None:
        """Create the file and set `_root`."""

    @abstractmethod
    def _create(self, name: str, shape: tuple[int, ...], dtype: np.dtype, chunk: int = _NUMBERS_OF_A_CHUNK) -> Any:
        """Create a dataset with chunks of `chunk` rows; one without rows is resizable."""

    def _add(self, rows: Any, b: np.ndarray | None) -> None:
        place = slice(self.n_written, self.n_written + rows.shape[0])
        if self.layout.sparse:
            n_before = self._data.shape[0]
            for part, values in ((self._data, rows.data), (self._indices, rows.indices)):
                part.resize((n_before + values.size,))
                part[n_before:] = values
            self._indptr[place.start + 1 : place.stop + 1] = n_before + rows.indptr[1:].astype(np.int64)
        else:
            self._rows[place] = rows if len(self.layout.shape) == 2 else rows[:, 0]
        if b is not None:
            self._b[place] = b if len(self.layout.rhs) > 1 else b[:, 0]

    def add_array(self, name: str, values: np.ndarray) -> None:
        """Write another array as a dataset of the same file."""
        chunk = max(1, _NUMBERS_OF_A_CHUNK // values[0].size)
        self._create(name, values.shape, values.dtype, chunk)[...] = values


class Hdf5Writer(GroupWriter):
    """.h5 and .hdf5, in the version of the format whose metadata has checksums, too."""

    def _open(self) -> None:
        h5py = library("h5py", "hdf5", ".h5")
        self._file = _ErrorKeepingFile(self.path, "w+")
        self._root = h5py.File(self._file, "w", libver=("v110", "v110"))

    def _add(self, rows: Any, b: np.ndarray | None) -> None:
        super()._add(rows, b)
        self._file.raise_error()

    def finish(self) -> None:
        """Close the file; raise OSError if a write has failed."""
        self.close()
        self._file.raise_error()

    def _create(self, name: str, shape: tuple[int, ...], dtype: np.dtype, chunk: int = _NUMBERS_OF_A_CHUNK) -> Any:
        grows = shape == (0,)
        return self._root.create_dataset(
            name, shape, dtype, chunks=(chunk if grows else min(chunk, shape[0]), *shape[1:]), fletcher32=True,
            maxshape=(None,) if grows else None,
        )  # fmt: skip

    def close(self) -> None:
        """Close the file."""
        self._root.close()
        self._file.close()


class _ErrorKeepingFile(io.FileIO):
    """A file that reports a failed write to us, not to its caller.

    HDF5 crashes later if a write fails (on a full disk), because it cannot flush its chunks. So the error is kept in
    `error` and raised by `raise_error`.
    """

    error: OSError | None = None

    def write(self, data: Any) -> int:
        """Write all of `data`, unless a write has failed before."""
        left = memoryview(data).cast("B")
        n_bytes = left.nbytes
        try:
            while left and self.error is None:
                left = left[super().write(left) :]
        except OSError as error:
            self.error = error
        return n_bytes

    def flush(self) -> None:
        """Do nothing, as nothing is buffered. After a failed write h5py sometimes cannot call the inherited method."""

    def raise_error(self) -> None:
        """Raise the error of the first write that failed, if any."""
        if self.error is not None:
            raise self.error


class ZarrWriter(GroupWriter):
    """.zarr: a directory with one file per chunk."""

    def _open(self) -> None:
        self._root = library("zarr", "zarr", ".zarr").create_group(str(self.path), overwrite=True)

    def _create(self, name: str, shape: tuple[int, ...], dtype: np.dtype, chunk: int = _NUMBERS_OF_A_CHUNK) -> Any:
        from zarr.codecs import Crc32cCodec

        return self._root.create_array(
            name, shape=shape, dtype=dtype, chunks=(chunk if shape == (0,) else min(chunk, shape[0]), *shape[1:]),
            compressors=[Crc32cCodec()], config={"write_empty_chunks": True},
            chunk_key_encoding={"name": "default", "separator": "."},  # else there is a directory for each chunk
        )  # fmt: skip

    def finish(self) -> None:
        """Store the number of chunks: Zarr reads a chunk that is missing as zeros."""
        for _, item in self._root.members(max_depth=None):
            if hasattr(item, "nchunks"):
                item.attrs[N_CHUNKS] = item.nchunks

    def close(self) -> None:
        """Do nothing: no file is open."""


class WholeWriter(Writer):
    """.npz, .mtx and .mtx.gz, which are written in one piece."""

    takes_sparse = True
    in_one_piece = True

    def __init__(self, path: Path, layout: Layout) -> None:
        super().__init__(path, layout)
        self._parts: list[Any] = []

    def _add(self, rows: Any, b: np.ndarray | None) -> None:  # noqa: ARG002  b is stored in a separate file
        self._parts.append(rows)

    def finish(self) -> None:
        """Write the file."""
        from scipy import sparse

        whole = sparse.vstack(self._parts, format="csr") if self.layout.sparse else np.vstack(self._parts)
        open_file = gzip.open if self.path.suffix == ".gz" else open
        with open_file(self.path, "wb") as file:
            if self.path.suffix != ".npz":
                self._write_mtx(file, whole)
            elif self.layout.sparse:
                sparse.save_npz(file, whole)
            else:
                np.savez(file, A=whole.reshape(self.layout.shape))

    def _write_mtx(self, file: Any, whole: Any) -> None:
        from scipy.io import mmwrite

        # float64 without a precision: scipy then writes enough digits to read back the same numbers.
        mmwrite(file, whole.astype(float, copy=False), symmetry="general")

    def close(self) -> None:
        """Release the rows."""
        self._parts = []


def _names(layout: Layout) -> list[str]:
    """Return the names of all columns, those of b last."""
    n_columns = layout.shape[1] if len(layout.shape) == 2 else 1
    names = [*(layout.columns or (f"c{i}" for i in range(n_columns))), *layout.rhs]
    twice = [name for name in names if names.count(name) > 1] if len(set(names)) < len(names) else []
    if twice:
        raise ValueError(f"two columns would have the name {twice[0]!r}. Try renaming one of them.")
    return names


def _index_type(n_columns: int) -> type[np.integer]:
    return np.int32 if n_columns <= np.iinfo(np.int32).max else np.int64


WRITERS: dict[str, type[Writer]] = {
    ".npy": NpyWriter,
    ".npz": WholeWriter,
    ".mtx": WholeWriter,
    ".mtx.gz": WholeWriter,
    ".csv": CSVWriter,
    ".h5": Hdf5Writer,
    ".hdf5": Hdf5Writer,
    ".zarr": ZarrWriter,
    ".parquet": ParquetWriter,
}
