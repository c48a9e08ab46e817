"""Output shared by all commands: wrapped text, tables, errors, and JSON."""

from __future__ import annotations

import json
import os
import sys
import textwrap
from enum import IntEnum
from typing import Any

from rich.console import Console
from rich.style import StyleType
from rich.table import Table

__all__ = ["ExitCode", "error_text", "print_error", "print_json", "print_table", "print_words"]


class ExitCode(IntEnum):
    """The exit codes of all commands."""

    SUCCESS = 0
    INCOMPLETE = 1  # not converged, interrupted, or a package is missing
    INVALID_INPUT = 2  # or the output cannot be written


def error_text(error: Exception) -> str:
    """Return the message of `error`."""
    return f"not enough memory: {error}" if isinstance(error, MemoryError) else str(error)


def print_error(words: str, status: str, *, as_json: bool) -> None:
    """Report an error on stderr, or as a JSON object on stdout."""
    if as_json:
        print_json({"status": status, "message": words})
    else:
        print_words(Console(stderr=True), f"error: {words}", style="red")


def print_json(values: dict[str, Any]) -> None:
    """Print one JSON object."""
    Console(soft_wrap=True, highlight=False, markup=False, no_color=True).out(
        json.dumps(values, indent=2, allow_nan=False)
    )


def print_words(console: Console, words: str, *, style: StyleType | None = None, label: str = "") -> None:
    """Print `words` after `label`, wrapped at the width of the terminal, with a hanging indent.

    File names are never broken. Output to a file or a pipe is not wrapped, unless COLUMNS is set.
    """
    if console.is_terminal or "COLUMNS" in os.environ:
        fill = textwrap.TextWrapper(
            console.width, initial_indent=label, subsequent_indent=" " * len(label), expand_tabs=False,
            break_long_words=False, break_on_hyphens=False,
        ).fill  # fmt: skip
        words = "\n".join(map(fill, words.split("\n")))
    else:
        words = label + words
    console.print(words, style=style, markup=False, emoji=False, highlight=False, soft_wrap=True)


def print_table(console: Console, table: Table) -> None:
    """Print a table; if it is wider than the terminal, print one block of ``name: value`` lines for each row."""
    options = console.options.update(max_width=sys.maxsize)
    if console.measure(table, options=options).maximum <= console.width:
        console.print(table)
        return
    if table.title:
        print_words(console, f"{table.title}\n")
    names = [str(column.header) for column in table.columns]
    for row, cells in zip(table.rows, zip(*(column.cells for column in table.columns), strict=True), strict=True):
        for i, (name, cell) in enumerate(zip(names, map(str, cells), strict=True)):
            if cell:
                style = row.style or (None if i else "bold")
                print_words(console, cell, style=style, label=f"{'  ' if i else ''}{name}: ")
        console.print()
    if table.caption:
        print_words(console, f"{table.caption}\n")
