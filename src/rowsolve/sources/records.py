"""Stores of structured arrays (records): in .npy and .npz files, in HDF5 and Zarr."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from rowsolve.sources.columns import numeric_columns
from rowsolve.sources.store import Store, StoreError, files_behind, output

__all__ = ["NpyRecords", "RecordStore"]


class RecordStore(Store):
    """The numeric fields of a structured array that are selected by name, or all except some."""

    def __init__(
        self, name: str, records: Any, chosen: tuple[str, ...], left_out: tuple[str, ...], *, chunk: int = 1,
        close: Callable[[], None] = lambda: None,
    ) -> None:  # fmt: skip
        if len(records.shape) != 1:
            raise StoreError(f"{name}: expected a one-dimensional array of records, got shape {tuple(records.shape)}.")
        dtype = np.dtype(records.dtype)
        assert dtype.names is not None
        others = {one: str(dtype[one]) for one in dtype.names if dtype[one].kind not in "fiub"}
        columns = numeric_columns(name, dtype.names, others, chosen, left_out)
        stored_dtype = np.result_type(*(dtype[one] if dtype[one].kind == "f" else np.float64 for one in columns))
        super().__init__(name, (records.shape[0], len(columns)), stored_dtype, chunk=chunk, columns=columns)
        self._records, self._close = records, close

    @property
    def files(self) -> tuple[Path, ...]:
        """The file and the files that it links to."""
        return (*super().files, *files_behind(self._records))

    def _read(self, start: int, stop: int, out: np.ndarray | None) -> np.ndarray:
        out, records = output(self, stop - start, out), np.asarray(self._records[start:stop])
        for j, name in enumerate(self.columns or ()):
            out[:, j] = records[name]
        return out

    def close(self) -> None:
        """Close the file."""
        self._close()


class NpyRecords:
    """The records in a .npy file, read when they are sliced.

    They are not memory-mapped: accessing a mapped file that was truncated meanwhile would kill the process.
    """

    def __init__(self, path: Path, mapped: np.memmap) -> None:
        self.dtype, self.shape, self._offset = mapped.dtype, mapped.shape, mapped.offset
        self._file = path.open("rb")
        self.close = self._file.close

    def __getitem__(self, part: slice) -> np.ndarray:
        self._file.seek(self._offset + part.start * self.dtype.itemsize)
        found = np.fromfile(self._file, self.dtype, part.stop - part.start)
        if len(found) < part.stop - part.start:
            raise ValueError("the file was truncated after it was opened")
        return found
