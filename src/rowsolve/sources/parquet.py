"""A store of columns with names: .parquet."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from rowsolve.sources.columns import numeric_columns
from rowsolve.sources.store import StoreError, kept_dtype, library
from rowsolve.sources.streams import Streamed

__all__ = ["ParquetStore"]

_BYTES_OF_A_BATCH = 4 << 20
# Bytes that it keeps for itself once it has read a file of some size, and for each column (measured).
_KEPT_BY_ARROW, _KEPT_FOR_A_COLUMN = 80e6, 80e3
_BYTES_OF_A_COLUMN = 3 << 20  # a page of 1 MB as it is stored, unpacked, and its dictionary


class ParquetStore(Streamed):
    """The columns of a Parquet file that are chosen by name, or all but some: they must hold numbers.

    A null is an error, or is read as NaN if `allow_nan`.
    """

    def __init__(
        self, path: Path, chosen: tuple[str, ...], left_out: tuple[str, ...], *, allow_nan: bool = False
    ) -> None:
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
            self._allow_nan = allow_nan
            if not allow_nan:
                self._find_nulls([field.name for field in fields if field.nullable])
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

    def _find_nulls(self, columns: list[str]) -> None:
        """Raise if the file tells that a value is missing in one of these columns: in which row, is looked up then."""
        metadata, schema = self._file.metadata, self._file.schema
        places = {schema.column(i).path: i for i in range(len(schema))} if columns else {}
        for group in range(metadata.num_row_groups):
            chunks = metadata.row_group(group)
            with_nulls = [name for name in columns if _has_nulls(chunks.column(places[name]))]
            if with_nulls:
                table = self._file.read_row_group(group, columns=with_nulls, use_threads=False)
                self._refuse_nulls(table.select(with_nulls).combine_chunks(), self._starts[group])

    def _refuse_nulls(self, batch: Any, first: int) -> None:
        """Raise for the first row, counted from `first` on, in which a value is missing."""
        found = []
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            if column.null_count:
                found.append((first + int(np.argmax(column.is_null().to_numpy(zero_copy_only=False))), name))
        if found:
            row, name = min(found)
            raise StoreError(
                f"{self.name}: column {name!r} has no value in row {row}: fill it in, or remove such rows (and their "
                "entries of `b`)."
            )

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
                wanted = batch.select(names)
                if not self._allow_nan:
                    self._refuse_nulls(wanted, first)
                yield first, wanted.cast(self._schema, safe=False).to_tensor(null_to_nan=True).to_numpy()
                first += batch.num_rows

    def close(self) -> None:
        """Let go of the file."""
        super().close()
        self._file.close()


def _pick(name: str, schema: Any, chosen: tuple[str, ...], left_out: tuple[str, ...]) -> list[Any]:
    """Return the fields that are wanted: those chosen, or all except those left out; they must hold numbers."""
    others = {field.name: str(field.type) for field in schema if not _is_numeric(field)}
    return [schema.field(one) for one in numeric_columns(name, schema.names, others, chosen, left_out)]


def _is_numeric(field: Any) -> bool:
    from pyarrow import types

    kinds = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal)
    return any(is_kind(field.type) for is_kind in kinds)


def _has_nulls(chunk: Any) -> bool:
    """Tell whether a column is known to lack values in a row group, which need not be known."""
    statistics = chunk.statistics
    return statistics is not None and statistics.has_null_count and statistics.null_count > 0


def _given(field: Any) -> np.dtype:
    from pyarrow import types

    return np.dtype(field.type.to_pandas_dtype() if types.is_floating(field.type) else np.float64)


def _schema_of(columns: tuple[str, ...], dtype: np.dtype) -> Any:
    import pyarrow as pa

    return pa.schema([(name, pa.from_numpy_dtype(kept_dtype(dtype))) for name in columns])
