"""The table of a figure: a CSV file that grows by whole seeds and is validated when it is read."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from rowsolve.experiments.figure import TEXT_COLUMNS, Columns, Figure, Line
from rowsolve.export.output import OutputFile

__all__ = ["Results"]

Cells = list[str]


class Results:
    """The finished seeds of `figure`, in the file `path`, which must differ from those in `apart_from`.

    Each line has the settings of the run, the seed and the number of lines of that seed, so that tables of other runs
    and incomplete tables are detected. The file is replaced as a whole after each seed.

    Raises
    ------
    ValueError
        If the file is not a valid table of this figure; it is not changed.
    OSError
        If the file cannot be read or written.
    """

    def __init__(self, path: Path, figure: Figure, apart_from: Mapping[str, Sequence[Path]] | None = None) -> None:
        self.path = path
        self.figure = figure
        self.header = ["settings", "seed", "lines_of_seed", *figure.columns]
        self._output = OutputFile(path, (".csv",), force=True, apart_from=apart_from)  # of a file, `_load` decides
        self._seeds: dict[int, list[Cells]] = {}
        if path.exists():
            self._load()

    @property
    def missing_seeds(self) -> list[int]:
        """The seeds that have not been run."""
        return [seed for seed in range(self.figure.n_seeds) if seed not in self._seeds]

    def add(self, seed: int, lines: list[Line]) -> None:
        """Add a finished seed and write the file."""
        start = [self.figure.settings, str(seed), str(len(lines))]
        self._seeds[seed] = [[*start, *map(_cell, line)] for line in lines]
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.header)
        for one in sorted(self._seeds):
            writer.writerows(self._seeds[one])
        with self._output:
            self._output.write(lambda file: file.writelines([text.getvalue().encode()]))

    def columns(self) -> Columns:
        """Return the lines of all finished seeds, column by column."""
        lines = [line for seed in sorted(self._seeds) for line in self._seeds[seed]]
        columns = dict(zip(self.header, map(np.array, zip(*lines, strict=True)), strict=True))
        return {name: cells if name in TEXT_COLUMNS else cells.astype(float) for name, cells in columns.items()}

    def _load(self) -> None:
        try:
            text = self.path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            raise self._refusal("it is not a text file") from None
        if not text.endswith("\n"):
            raise self._refusal("the last line is truncated")
        try:
            lines = list(csv.reader(io.StringIO(text), strict=True))
        except csv.Error as error:
            raise self._refusal(f"it is not a valid CSV file ({error})") from None
        if lines[0] != self.header:
            expected, found = ", ".join(self.header), ", ".join(lines[0])[:200]
            raise self._refusal(f"expected the columns\n{expected}\nbut got\n{found}\n")
        for number, line in enumerate(lines[1:], start=2):
            self._check(number, line)
            self._seeds.setdefault(int(line[1]), []).append(line)
        self._check_whole_seeds()

    def _check(self, number: int, line: Cells) -> None:
        if len(line) != len(self.header):
            raise self._refusal(f"line {number}: expected {len(self.header)} values, got {len(line)}")
        if line[0] != self.figure.settings:
            raise self._refusal(
                f"line {number}: expected the settings\n{self.figure.settings}\nbut got\n{line[0][:200]}\n"
            )
        for name, cell in zip(self.header, line, strict=True):
            if name not in TEXT_COLUMNS and not _is_number(cell, whole=name in ("seed", "lines_of_seed")):
                raise self._refusal(f"line {number}: expected a number for {name}, got {cell[:40]!r}")

    def _check_whole_seeds(self) -> None:
        for seed, lines in self._seeds.items():
            expected = Counter(line[2] for line in lines)
            if expected != {str(len(lines)): len(lines)}:
                raise self._refusal(
                    f"seed {seed}: expected {lines[0][2]} lines, got {len(lines)}. Delete all lines of seed {seed} to "
                    "keep the other seeds"
                )

    def _refusal(self, why: str) -> ValueError:
        joint = "" if why.endswith("\n") else ". "
        return ValueError(
            f"{self.path}: not a valid table of this figure: {why}{joint}"
            "Nothing was changed. To start again, move this file and its PNG file, or choose another folder with --out."
        )


def _cell(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:.7g}"


def _is_number(cell: str, *, whole: bool) -> bool:
    if whole:
        return cell.isascii() and cell.isdigit()
    try:
        float(cell)
    except ValueError:
        return False
    return True
