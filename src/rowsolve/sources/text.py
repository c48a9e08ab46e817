"""A store of lines of numbers: .csv."""

from __future__ import annotations

import io
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rowsolve.sources.columns import wanted_columns
from rowsolve.sources.store import StoreError
from rowsolve.sources.streams import Streamed

__all__ = ["CSVStore"]

_BYTES_OF_A_BLOCK = 1 << 20
_MARK = b"\xef\xbb\xbf"  # spreadsheets begin a file with it


class _Block(NamedTuple):
    """Where a block of whole lines is, and which rows and lines it holds."""

    offset: int
    n_bytes: int
    first_row: int
    n_rows: int
    first_line: int


class CSVStore(Streamed):
    """Numbers separated by commas; a first line without a single number holds names. Empty lines do not count.

    Opening it counts the lines and notes where blocks of them begin, so that reading can begin at any of them. With
    pyarrow, blocks are read nearly three times as fast as by numpy.
    """

    def __init__(self, path: Path, chosen: tuple[str, ...], left_out: tuple[str, ...]) -> None:
        self.name = str(path)
        self._file = path.open("rb")
        try:
            names = self._skip_names()
            self._index = list(self._find_blocks())
            n_rows = self._n_rows
            if not n_rows:
                raise StoreError(f"{path}: holds no numbers.")
            self._n_fields = next(self._lines_of(self._index[0])).count(b",") + 1
            self._picked, columns = _pick(self.name, names, self._n_fields, chosen, left_out)
            shape = (n_rows, self._n_fields if self._picked is None else len(self._picked))
            super().__init__(self.name, shape, np.dtype(float), chunk=-(-n_rows // len(self._index)), columns=columns)
        except BaseException:
            self._file.close()
            raise

    @property
    def least_bytes(self) -> float:
        """A block is there as text, as lines, and as numbers, which may take four times as much as text."""
        return 5.0 * max(block.n_bytes for block in self._index)

    def _skip_names(self) -> tuple[str, ...] | None:
        """Go to the first line of numbers; return the names before it, if there are any."""
        if self._file.read(len(_MARK)) != _MARK:
            self._file.seek(0)
        self._n_skipped, start, line = 0, self._file.tell(), b""
        while not line.strip():
            start = self._file.tell()
            line = self._file.readline()
            self._n_skipped += 1
            if not line:
                raise StoreError(f"{self.name}: holds no numbers.")
        fields = line.decode("utf-8").split(",")
        if any(map(_is_number, fields)):
            self._file.seek(start)
            self._n_skipped -= 1
            return None
        return tuple(field.strip().strip('"') for field in fields)

    def _find_blocks(self) -> Iterator[_Block]:
        """Read the file once and yield the blocks that hold rows."""
        offset, row, line = self._file.tell(), 0, self._n_skipped + 1
        while lines := self._file.read(_BYTES_OF_A_BLOCK):
            lines += self._file.readline()  # to the end of the line
            all_lines = lines.splitlines()
            n_rows = len(all_lines) - sum(1 for one in all_lines if not one.strip())
            if n_rows:
                yield _Block(offset, len(lines), row, n_rows, line)
            offset, row, line = offset + len(lines), row + n_rows, line + len(all_lines)
        self._n_rows = row

    def _lines_of(self, block: _Block) -> Iterator[bytes]:
        """Yield the lines of a block that are not empty."""
        return (line for line in self._bytes_of(block).splitlines() if line.strip())

    def _bytes_of(self, block: _Block) -> bytes:
        self._file.seek(block.offset)
        lines = self._file.read(block.n_bytes)
        if len(lines) < block.n_bytes:
            raise StoreError(f"{self.name}: has been cut short since it was opened.")
        return lines

    def _number_of_block(self, row: int) -> int:
        return bisect_right(self._index, row, key=lambda block: block.first_row) - 1

    def _nearest(self, row: int) -> int:
        return self._index[self._number_of_block(row)].first_row

    def _blocks(self, row: int) -> Iterator[tuple[int, np.ndarray]]:
        for block in self._index[self._number_of_block(row) :]:
            values = self._numbers_in(block)
            yield block.first_row, values if self._picked is None else values[:, self._picked]

    def _numbers_in(self, block: _Block) -> np.ndarray:
        lines = self._bytes_of(block)
        values = _fast(lines, self._n_fields)
        if values is not None and len(values) == block.n_rows:
            return values
        try:
            values = np.loadtxt(io.BytesIO(lines), delimiter=",", ndmin=2, comments=None)
        except ValueError as error:
            raise StoreError(self._odd_line(block) or f"{self.name}: {error}") from None
        if values.shape != (block.n_rows, self._n_fields):
            words = f"{self.name}: line {block.first_line} and the next were {block.n_rows} rows, and are {len(values)}"
            raise StoreError(self._odd_line(block) or f"{words}: it has changed since it was opened.")
        return values

    def _odd_line(self, block: _Block) -> str:
        """Say what is wrong with the first line that is not as it should be."""
        for number, line in enumerate(self._bytes_of(block).splitlines(), block.first_line):
            fields = line.decode("utf-8", "replace").split(",")
            place = f"{self.name}, line {number}: expected numbers separated by commas"
            wrong = next((field.strip() for field in fields if not _is_number(field)), None)
            if not line.strip():
                continue
            if wrong is not None:
                hint = " Replace semicolons and tabs by commas." if b";" in line or b"\t" in line else ""
                return f"{place}, got {wrong!r}.{hint}"
            if len(fields) != self._n_fields:
                return f"{place}, {self._n_fields} of them as in the lines before, got {len(fields)}."
        return ""

    def close(self) -> None:
        """Let go of the file."""
        super().close()
        self._file.close()


def _pick(name, names, n_fields, chosen, left_out) -> tuple[list[int] | None, tuple[str, ...] | None]:
    """Return which columns are wanted (None for all) and their names (None if they have none)."""
    if names is not None and len(names) != n_fields:
        names = None
    if not chosen and not left_out:
        return None, names
    if names is None:
        raise StoreError(f"{name}: has no line of names, so no column can be chosen by name.")
    wanted = wanted_columns(name, names, chosen, left_out)
    return [names.index(one) for one in wanted], wanted


def _fast(lines: bytes, n_fields: int) -> np.ndarray | None:
    """Return the numbers in `lines` by pyarrow; None if it is not there, or if anything is not plain."""
    try:
        import pyarrow as pa
        from pyarrow import csv
    except ImportError:
        return None
    names = [str(i) for i in range(n_fields)]
    try:
        table = csv.read_csv(
            pa.py_buffer(lines),
            read_options=csv.ReadOptions(column_names=names, block_size=len(lines) + 1),
            parse_options=csv.ParseOptions(quote_char=False),
            convert_options=csv.ConvertOptions(column_types=dict.fromkeys(names, pa.float64()), null_values=[]),
        )
    except pa.ArrowInvalid:
        return None  # numpy finds out what is wrong, or knows how to read it
    return np.vstack([batch.to_tensor().to_numpy() for batch in table.to_batches()])


def _is_number(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True
