"""A store of a table in .parquet format."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from enum import IntEnum
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from rowsolve.policy.thresholds import BLOCK_BYTES, COLUMN_BYTES, COPIES, PIECE_BYTES
from rowsolve.sources.columns import numeric_columns
from rowsolve.sources.store import StoreError, kept_dtype, library
from rowsolve.sources.streams import Streamed, prefetched

__all__ = ["ParquetStore"]

# Bytes that Arrow keeps allocated once it has read a large file, in all and per column (measured).
_KEPT_BY_ARROW, _KEPT_FOR_A_COLUMN = 80e6, 80e3
_PACKED = 4  # largest compression ratio of a dictionary of numbers that is to be expected


class _Field(IntEnum):
    """Types of fields in the header of a page (Thrift, compact protocol)."""

    INT32 = 5
    STRUCTURE = 12


class ParquetStore(Streamed):
    """The numeric columns of a Parquet file that are selected by name, or all except some.

    A null raises ValueError, or is read as NaN if `allow_nan`.
    """

    by_columns = True

    def __init__(
        self, path: Path, chosen: tuple[str, ...], left_out: tuple[str, ...], *, allow_nan: bool = False
    ) -> None:
        parquet = library("pyarrow.parquet", "parquet", ".parquet")
        # Pages are read on demand, so that a row group need not fit in memory, and their checksums are verified.
        self._file = parquet.ParquetFile(
            path, page_checksum_verification=True, pre_buffer=False, buffer_size=COLUMN_BYTES
        )
        try:
            fields = _pick(str(path), self._file.schema_arrow, chosen, left_out)
            sizes = [self._file.metadata.row_group(i).num_rows for i in range(self._file.num_row_groups)]
            self._starts = [0, *accumulate(sizes)]
            columns = tuple(field.name for field in fields)
            stored_dtype = np.result_type(*map(_stored_dtype, fields))
            super().__init__(
                str(path), (self._starts[-1], len(fields)), stored_dtype, chunk=max(sizes, default=1), columns=columns
            )
            self._places = {self._file.schema.column(i).path: i for i in range(len(self._file.schema))}
            self._unchecked = [] if allow_nan else self._find_nulls([field.name for field in fields if field.nullable])
            self._schema = _schema_of(columns, self.dtype)
            self._needs_no_cast = all(field.type == self._schema.field(field.name).type for field in fields)
            self._bytes_open = self._measure(path, int(np.argmax(sizes)))
            self.footprint = replace(self.footprint, least_bytes=self._least_bytes())
        except BaseException:
            self._file.close()
            raise

    def _least_bytes(self) -> float:
        """Return the bytes to read a batch; three are in memory: one being read, one prefetched, one transposed."""
        kept, a_row = _KEPT_BY_ARROW + _KEPT_FOR_A_COLUMN * self.shape[1], self.footprint.bytes_per_row
        kept = min(kept, 2.0 * self.shape[0] * a_row)
        batches = min(COPIES * PIECE_BYTES, self.footprint.least_bytes)
        return kept + batches + self._bytes_open + a_row

    def _measure(self, path: Path, group: int) -> float:
        """Return the bytes of the pages and dictionaries, decompressed, that are open while a row group is read."""
        chunks, found = self._file.metadata.row_group(group), 0.0
        with path.open("rb") as file:
            for name in self._schema.names:
                chunk = chunks.column(self._places[name])
                file.seek(chunk.data_page_offset)
                page = _bytes_of_page(file.peek(), self.stored_dtype.itemsize)
                found += min(2 * _bytes_of_dictionary(chunk) + page + COLUMN_BYTES, 2.0 * chunk.total_uncompressed_size)
        return found

    def _find_nulls(self, columns: list[str]) -> list[str]:
        """Return the columns whose statistics do not tell the number of nulls.

        Raise StoreError, with the row, if the statistics of one of the others say that a value is missing.
        """
        metadata, doubtful = self._file.metadata, set()
        for group in range(metadata.num_row_groups if columns else 0):
            chunks = metadata.row_group(group)
            counts = {name: _n_nulls(chunks.column(self._places[name])) for name in columns}
            doubtful |= {name for name, count in counts.items() if count is None}
            with_nulls = [name for name, count in counts.items() if count]
            if with_nulls:
                table = self._file.read_row_group(group, columns=with_nulls, use_threads=False)
                self._raise_for_nulls(table.select(with_nulls).combine_chunks(), self._starts[group])
        return [name for name in columns if name in doubtful]

    def _raise_for_nulls(self, batch: Any, first: int) -> None:
        """Raise StoreError for the first row of `batch`, which starts at row `first`, in which a value is missing."""
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
        n_rows = max(1, int(BLOCK_BYTES / self.footprint.bytes_per_row))
        # A part of a batch stays in the cache while it is transposed.
        for first, batch in prefetched(self._batches(row)):
            for start in range(0, batch.num_rows, n_rows):
                part = batch.slice(start, n_rows)
                yield first + start, part.to_tensor(null_to_nan=True, row_major=False).to_numpy()

    def _batches(self, row: int) -> Iterator[tuple[int, Any]]:
        """Yield (first row, batch) of the given dtype, from the row group of `row` on."""
        names, batch_size = self._schema.names, max(1, int(PIECE_BYTES / self.footprint.bytes_per_row))
        # Row groups are read one by one, so that a damaged one does not prevent reading those before it.
        for group in range(self._group_of(row), self._file.num_row_groups):
            first = self._starts[group]
            threads = self._starts[group + 1] - first > batch_size  # for fewer rows threads do not pay
            for batch in self._file.iter_batches(batch_size, row_groups=[group], columns=names, use_threads=threads):
                # A name that is a prefix of nested columns selects those, too: keep those that were requested.
                wanted = batch if batch.schema.names == names else batch.select(names)
                if self._unchecked:
                    self._raise_for_nulls(wanted.select(self._unchecked), first)
                yield first, wanted if self._needs_no_cast else wanted.cast(self._schema, safe=False)
                first += batch.num_rows

    def close(self) -> None:
        """Close the file."""
        super().close()
        self._file.close()


def _pick(name: str, schema: Any, chosen: tuple[str, ...], left_out: tuple[str, ...]) -> list[Any]:
    """Return the selected fields: those `chosen`, or all except those `left_out`; raise unless they are numeric."""
    others = {field.name: str(field.type) for field in schema if not _is_numeric(field)}
    return [schema.field(one) for one in numeric_columns(name, schema.names, others, chosen, left_out)]


def _is_numeric(field: Any) -> bool:
    from pyarrow import types

    kinds = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal)
    return any(is_kind(field.type) for is_kind in kinds)


def _n_nulls(chunk: Any) -> int | None:
    """Return the number of nulls of a column in a row group; None if the file does not tell."""
    statistics = chunk.statistics
    return statistics.null_count if statistics is not None and statistics.has_null_count else None


def _bytes_of_dictionary(chunk: Any) -> float:
    """Return an estimate of the decompressed size of the dictionary of a column; 0 if there is none."""
    if not chunk.has_dictionary_page:
        return 0.0
    packed = max(0, chunk.data_page_offset - chunk.dictionary_page_offset)
    rate = chunk.total_uncompressed_size / max(1, chunk.total_compressed_size)
    return max(min(_PACKED * packed, BLOCK_BYTES), rate * packed)


def _bytes_of_page(header: bytes, itemsize: int) -> float:
    """Return the decompressed size of a page of numbers, allowing for pages that do not use the dictionary.

    Its header (Thrift, compact protocol) begins with int32 fields, the first of which are the type and the
    decompressed size of the page. A structure follows, whose first field is the number of values.
    """
    found, at = [], 0
    with suppress(IndexError):
        while header[at] & 15 == _Field.INT32:
            value, at = _varint(header, at + 1)
            found.append(value)
        count = _varint(header, at + 2)[0] if header[at] & 15 == _Field.STRUCTURE else 0
        return float(max(found[1], min(count * itemsize, BLOCK_BYTES)))
    return float(BLOCK_BYTES)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the number that begins at position `at`, and the position after it."""
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        at, shift = at + 1, shift + 7
        if not data[at - 1] & 128:
            return value >> 1, at


def _stored_dtype(field: Any) -> np.dtype:
    from pyarrow import types

    return np.dtype(field.type.to_pandas_dtype() if types.is_floating(field.type) else np.float64)


def _schema_of(columns: tuple[str, ...], dtype: np.dtype) -> Any:
    import pyarrow as pa

    return pa.schema([(name, pa.from_numpy_dtype(kept_dtype(dtype))) for name in columns])
