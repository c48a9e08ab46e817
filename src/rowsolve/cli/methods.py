"""``rowsolve methods``."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from rowsolve.methods import METHODS, Method

__all__ = ["methods_as_markdown", "show_methods"]


def show_methods() -> None:
    """Print the registry."""
    table = Table("method", "which rows", "parameters", "from", show_lines=True)
    for name, method in METHODS.items():
        table.add_row(f"[bold]{name}[/]", method.summary, _parameters(method()), method.citation)
    console = Console()
    console.print(table)
    console.print(
        "In Python: rowsolve.solve(A, b, 'block') or rowsolve.solve(A, b, rowsolve.Block(block_size=8)).",
        markup=False, highlight=False,
    )  # fmt: skip


def methods_as_markdown() -> str:
    """Return the registry as the table of the README."""
    lines = ["| method | which rows | parameters and defaults | from |", "|---|---|---|---|"]
    for name, method in METHODS.items():
        lines.append(f"| `{name}` | {method.summary} | {_parameters(method())} | {method.citation} |")
    return "\n".join(lines) + "\n"


def _parameters(method: Method) -> str:
    return ", ".join(f"{key}={value!r}" for key, value in method.parameters().items()) or "none"
