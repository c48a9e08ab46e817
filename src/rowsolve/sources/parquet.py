"""A store of columns with names: .parquet."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from rowsolve.sources.columns import listed, wanted_columns
from rowsolve.sources.store import StoreError, kept_dtype, library
from rowsolve.sources.streams import Streamed

__all__ = ["ParquetStore"]

_BYTES_OF_A_BATCH = 4 << 20
# Bytes that it keeps for itself once it has read a file of some size, and for each column (measured).
_KEPT_BY_ARROW, _KEPT_FOR_A_COLUMN = 80e6, 80e3
_BYTES_OF_A_COLUMN = 3 << 20  # a page of 1 MB as it is stored, unpacked, and its dictionary


class ParquetStore(Streamed):
    """The numeric columns of a Parquet file, or those chosen by name. A null is read as NaN."""

    def __init__(self, path: Path, chosen: tuple[str, ...], left_out: tuple[str, ...]) -> None:
        parquet = library("pyarrow.parquet", "parquet", ".parquet")
        # Pages are read as they are needed, so that a row group need not fit in memory, and checked.
        self._file = parquet.ParquetFile(path, page_checksum_verification=True, pre_buffer=False, buffer_size=1 << 16)
        try:
            fields = _pick(str(path), self._file.schema_arrow, chosen, left_out)
            sizes = [self._file.metadata.row_group(i).num_rows for i in range(self._file.num_row_groups)]
            self._starts = [0, *accumulate(sizes)]
            columns = tuple(field.name for field in fields)
            given = np.result_type(*map(_given, fields))
            super().__init__(
                str(path), (self._starts[-1], len(fields)), given, chunk=max(sizes, default=1), columns=columns
            )
        except BaseException:
            self._file.close()
            raise
        self._schema = _schema_of(columns, self.dtype)

    @property
    def least_bytes(self) -> float:
        """Row groups are read in batches, for which a page of each column is open."""
        kept = _KEPT_BY_ARROW + _KEPT_FOR_A_COLUMN * self.shape[1]
        kept = min(kept, 2.0 * self.shape[0] * self.bytes_per_row)
        return kept + min(super().least_bytes, _BYTES_OF_A_COLUMN * self.shape[1]) + self.bytes_per_row

    def _group_of(self, row: int) -> int:
        return int(np.searchsorted(self._starts, row, side="right")) - 1

    def _nearest(self, row: int) -> int:
        return self._starts[self._group_of(row)]

    def _blocks(self, row: int) -> Iterator[tuple[int, np.ndarray]]:
        names, batch_size = self._schema.names, max(1, int(_BYTES_OF_A_BATCH / self.bytes_per_row))
        for group in range(self._group_of(row), self._file.num_row_groups):
            first = self._starts[group]
            for batch in self._file.iter_batches(batch_size, row_groups=[group], columns=names, use_threads=False):
                # A prefix of a name brings nested columns along: keep those that were asked for.
                plain = batch.select(names).cast(self._schema, safe=False)
                yield first, plain.to_tensor(null_to_nan=True).to_numpy()
                first += batch.num_rows

    def close(self) -> None:
        """Let go of the file."""
        super().close()
        self._file.close()


def _pick(name: str, schema: Any, chosen: tuple[str, ...], left_out: tuple[str, ...]) -> list[Any]:
    """Return the fields that are wanted: those chosen, or all that hold numbers except those left out."""
    names = [field.name for field in schema if _is_numeric(field)]
    for one in chosen:
        if one in schema.names and one not in names:
            raise StoreError(f"{name}: column {one!r} must hold real numbers, got {schema.field(one).type}.")
    wanted = wanted_columns(name, names, chosen, left_out)
    if not wanted:
        raise StoreError(f"{name}: has no column of numbers; there are {listed(schema.names)}.")
    return [schema.field(one) for one in wanted]


def _is_numeric(field: Any) -> bool:
    from pyarrow import types

    kinds = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal)
    return any(is_kind(field.type) for is_kind in kinds)


def _given(field: Any) -> np.dtype:
    from pyarrow import types

    return np.dtype(field.type.to_pandas_dtype() if types.is_floating(field.type) else np.float64)


def _schema_of(columns: tuple[str, ...], dtype: np.dtype) -> Any:
    import pyarrow as pa

    return pa.schema([(name, pa.from_numpy_dtype(kept_dtype(dtype))) for name in columns])
