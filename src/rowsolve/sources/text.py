"""A store of comma-separated numbers: .csv."""

from __future__ import annotations

import csv
import io
import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rowsolve.policy.thresholds import BLOCK_BYTES
from rowsolve.sources.columns import choose_words, listed, wanted_columns
from rowsolve.sources.finite import column_words
from rowsolve.sources.store import StoreError
from rowsolve.sources.streams import Streamed

__all__ = ["CSVStore"]

_MARK = b"\xef\xbb\xbf"  # byte order mark, with which spreadsheets begin a file


class _Block(NamedTuple):
    """The position of a block of whole lines in the file, and the rows and lines that it holds."""

    offset: int
    n_bytes: int
    first_row: int
    n_rows: int
    first_line: int


class CSVStore(Streamed):
    """A .csv file of numbers. A first line without any number is a header row; empty lines are skipped.

    Opening the file counts the lines and indexes blocks of them, so that reading can start at any block. pyarrow, if
    installed, reads blocks nearly three times as fast as numpy. Columns that are not selected may hold anything. An
    empty cell raises ValueError, or is read as NaN if `allow_nan`.
    """

    def __init__(
        self, path: Path, chosen: tuple[str, ...], left_out: tuple[str, ...], *, allow_nan: bool = False
    ) -> None:
        self.name, self._allow_nan, self._left_out = str(path), allow_nan, left_out
        self._file = path.open("rb")
        try:
            names = self._skip_names()
            self._index = list(self._find_blocks())
            n_rows = self._n_rows
            if not n_rows:
                raise StoreError(f"{path}: contains no numbers.")
            number, line = next(self._lines_of(self._index[0]))
            self._n_fields = len(_fields(line))
            self._names = names if names is not None and len(names) == self._n_fields else None
            self._picked = self._pick(names, chosen, left_out)
            columns = None if self._names is None else tuple(self._names[j] for j in self._picked)
            shape = (n_rows, len(self._picked))
            super().__init__(self.name, shape, np.dtype(float), chunk=-(-n_rows // len(self._index)), columns=columns)
            # A block is in memory as text, as lines, and as numbers, which may take four times as much as the text.
            least = 5.0 * max(block.n_bytes for block in self._index)
            self.footprint = replace(self.footprint, least_bytes=least)
            wrong = self._wrong(number, line)
            if wrong:
                raise StoreError(wrong)
        except BaseException:
            self._file.close()
            raise

    def _skip_names(self) -> tuple[str, ...] | None:
        """Seek to the first line of numbers; return the names in the header row, if there is one."""
        if self._file.read(len(_MARK)) != _MARK:
            self._file.seek(0)
        self._n_skipped, start, line = 0, self._file.tell(), b""
        while not line.strip():
            start = self._file.tell()
            line = self._file.readline()
            self._n_skipped += 1
            if not line:
                raise StoreError(f"{self.name}: contains no numbers.")
        line.decode("utf-8")  # raises if the file is not text
        fields = _fields(line)
        if any(map(_is_number, fields)):
            self._file.seek(start)
            self._n_skipped -= 1
            return None
        return tuple(field.strip() for field in fields)

    def _pick(self, names: tuple[str, ...] | None, chosen: tuple[str, ...], left_out: tuple[str, ...]) -> list[int]:
        """Return the indices of the selected columns."""
        if not chosen and not left_out:
            return list(range(self._n_fields))
        if names is None:
            raise StoreError(f"{self.name}: has no header row, so columns cannot be chosen by name.")
        if self._names is None:
            raise StoreError(
                f"{self.name}: has {len(names)} names in its header row but {self._n_fields} columns, so columns "
                "cannot be chosen by name."
            )
        return [names.index(one) for one in wanted_columns(self.name, names, chosen, left_out)]

    def _find_blocks(self) -> Iterator[_Block]:
        """Read the file once and yield the blocks that hold rows."""
        offset, row, line = self._file.tell(), 0, self._n_skipped + 1
        while lines := self._file.read(BLOCK_BYTES):
            lines += self._file.readline()  # up to the end of a line
            all_lines = lines.splitlines()
            n_rows = len(all_lines) - sum(1 for one in all_lines if not one.strip())
            if n_rows:
                yield _Block(offset, len(lines), row, n_rows, line)
            offset, row, line = offset + len(lines), row + n_rows, line + len(all_lines)
        self._n_rows = row

    def _lines_of(self, block: _Block) -> Iterator[tuple[int, bytes]]:
        """Yield (line number, line) for the lines of a block that are not empty."""
        lines = enumerate(self._bytes_of(block).splitlines(), block.first_line)
        return ((number, line) for number, line in lines if line.strip())

    def _bytes_of(self, block: _Block) -> bytes:
        self._file.seek(block.offset)
        lines = self._file.read(block.n_bytes)
        if len(lines) < block.n_bytes:
            raise StoreError(f"{self.name}: was truncated after it was opened.")
        return lines

    def _number_of_block(self, row: int) -> int:
        return bisect_right(self._index, row, key=lambda block: block.first_row) - 1

    def _nearest(self, row: int) -> int:
        return self._index[self._number_of_block(row)].first_row

    def _blocks(self, row: int) -> Iterator[tuple[int, np.ndarray]]:
        for block in self._index[self._number_of_block(row) :]:
            yield block.first_row, self._numbers_in(block)

    def _numbers_in(self, block: _Block) -> np.ndarray:
        lines = self._bytes_of(block)
        some = self._picked if self._picked != list(range(self._n_fields)) else None
        values = _fast(lines, self._n_fields, self._picked, allow_nan=self._allow_nan)
        if values is not None and len(values) == block.n_rows:
            return values
        try:
            values = _slow(lines, some, allow_nan=self._allow_nan)
        except ValueError as error:
            raise StoreError(self._odd_line(block) or f"{self.name}: {error}") from None
        odd = self._odd_line(block) if some else ""  # with selected columns, numpy accepts lines that are too long
        if odd or values.shape != (block.n_rows, len(self._picked)):
            words = f"{self.name}: has changed since it was opened: the block from line {block.first_line} on has"
            raise StoreError(odd or self._odd_line(block) or f"{words} {len(values)} rows instead of {block.n_rows}.")
        return values

    def _odd_line(self, block: _Block) -> str:
        """Return an error message for the first line of a block that is not valid; empty if all are."""
        return next(filter(None, (self._wrong(number, line) for number, line in self._lines_of(block))), "")

    def _wrong(self, number: int, line: bytes) -> str:
        """Return an error message for a line; empty if it is valid."""
        fields, place = _fields(line), f"{self.name}, line {number}"
        expected = f"{place}: expected numbers separated by commas"
        if len(fields) != self._n_fields:
            return f"{expected}, {self._n_fields} of them as in the previous lines, got {len(fields)}."
        text = [j for j in self._picked if fields[j].strip() and not _is_number(fields[j])]
        if text:
            return f"{expected}, got {self._words_for_text(fields, text)}"
        empty = [column_words(self._names, j) for j in self._picked if not fields[j].strip()]
        if empty and not self._allow_nan:
            have = "has" if len(empty) == 1 else "have"
            return f"{place}: {listed(empty)} {have} no value: fill it in, or remove such lines."
        return ""

    def _words_for_text(self, fields: Sequence[str], text: Sequence[int]) -> str:
        """Return the end of the error message for a line with `text` in these columns."""
        if self._n_fields > 1:
            got = [f"{fields[j].strip()!r} in {column_words(self._names, j)}" for j in text]
            return f"{listed(got)}. {self._how_to_choose(fields)}"
        hint = " Replace semicolons and tabs by commas." if ";" in fields[0] or "\t" in fields[0] else ""
        return f"{fields[0].strip()!r}.{hint}"

    def _how_to_choose(self, fields: Sequence[str]) -> str:
        if self._names is None:
            return "To choose columns by name, add a header row."
        pairs = zip(self._names, fields, strict=True)
        return choose_words(self.name, [one for one, cell in pairs if _is_number(cell) and one not in self._left_out])

    def close(self) -> None:
        """Close the file."""
        super().close()
        self._file.close()


def _fast(lines: bytes, n_fields: int, picked: Sequence[int], *, allow_nan: bool) -> np.ndarray | None:
    """Return the numbers in `lines`, parsed by pyarrow; None if it is not installed or cannot parse them."""
    try:
        import pyarrow as pa
        from pyarrow import csv as arrow
    except ImportError:
        return None
    names, wanted = [str(j) for j in range(n_fields)], [str(j) for j in picked]
    empty = {"null_values": [""] if allow_nan else [], "include_columns": wanted}
    try:
        table = arrow.read_csv(
            pa.py_buffer(lines),
            read_options=arrow.ReadOptions(column_names=names, block_size=len(lines) + 1),
            parse_options=arrow.ParseOptions(quote_char='"' if b'"' in lines else False),
            convert_options=arrow.ConvertOptions(column_types=dict.fromkeys(wanted, pa.float64()), **empty),
        )
    except pa.ArrowInvalid:
        return None  # numpy parses them, or raises
    return np.vstack([batch.to_tensor(null_to_nan=True).to_numpy() for batch in table.to_batches()])


def _slow(lines: bytes, picked: Sequence[int] | None, *, allow_nan: bool) -> np.ndarray:
    """Return the numbers in `lines`, parsed by numpy."""
    return np.loadtxt(
        io.BytesIO(lines), delimiter=",", ndmin=2, comments=None, usecols=picked, encoding="utf-8",
        quotechar='"' if b'"' in lines else None, converters=_number_or_nan if allow_nan else None,
    )  # fmt: skip


def _number_or_nan(field: str) -> float:
    return float(field) if field.strip() else math.nan


def _fields(line: bytes) -> list[str]:
    """Return the fields of a line; a comma within quotation marks does not separate fields."""
    text = line.decode("utf-8", "replace").rstrip("\r\n")
    return next(csv.reader([text])) if '"' in text else text.split(",")


def _is_number(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True
