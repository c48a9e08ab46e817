"""``rowsolve methods``."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console
from rich.table import Table
from rich.text import Text

from rowsolve.cli.messages import print_table, print_words
from rowsolve.methods import METHODS

__all__ = ["methods_as_markdown", "show_methods"]

_AUTO = "starts with the method predicted to be fastest, and continues with another if necessary"


def show_methods() -> None:
    """Print the registry."""
    console = Console(highlight=False)
    table = Table("method", "description", "parameters", "reference", show_lines=True)
    for row in _rows():
        table.add_row(*map(Text, row))
    print_table(console, table)
    print_words(console, "In Python: rowsolve.solve(A, b, 'block')")
    print_words(console, "With parameters: rowsolve.solve(A, b, rowsolve.Block(block_size=8))")


def methods_as_markdown() -> str:
    """Return the registry as the table of the README."""
    lines = ["| method | description | parameters and defaults | reference |", "|---|---|---|---|"]
    lines += [f"| `{name}` | {' | '.join(others)} |" for name, *others in _rows()]
    return "\n".join(lines) + "\n"


def _rows() -> Iterator[tuple[str, str, str, str]]:
    """Yield name, description, parameters and reference of each method, ``auto`` first."""
    yield "auto", _AUTO, "none", "rowsolve"
    for name, method in METHODS.items():
        parameters = ", ".join(f"{key}={value!r}" for key, value in method().parameters().items())
        yield name, method.summary, parameters or "none", method.citation
