"""``rowsolve convert``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

import rowsolve
from rowsolve.cli.messages import say, words_of

__all__ = ["run_convert"]

DONE, INTERRUPTED, BAD_INPUT = 0, 1, 2


def run_convert(source: Path, target: Path, options: dict[str, Any]) -> int:
    """Convert and say what was written; return the exit code."""
    console = Console(stderr=True)
    try:
        n_rows = _convert(source, target, options, console)
    except (ValueError, TypeError, OSError, MemoryError, ImportError) as error:
        say(words_of(error), "BAD_INPUT", as_json=False)
        return BAD_INPUT
    except KeyboardInterrupt:
        console.print("interrupted: nothing was written.", style="red")
        return INTERRUPTED
    Console(highlight=False).print(f"{n_rows:,} rows written to {target}", markup=False, soft_wrap=True)
    return DONE


def _convert(source: Path, target: Path, options: dict[str, Any], console: Console) -> int:
    """Convert behind a bar, which is hidden where stderr is no terminal; return how many rows there were."""
    bar = Progress(
        TextColumn("converting"), BarColumn(bar_width=24), TaskProgressColumn(),
        TextColumn("{task.completed:,.0f} rows"), TimeRemainingColumn(),
        console=console, transient=True, disable=not console.is_terminal,
    )  # fmt: skip
    with bar:
        task = bar.add_task("", total=None)
        n_rows, _ = rowsolve.convert(
            source, target, progress=lambda done, n_rows: bar.update(task, completed=done, total=n_rows), **options
        )
    return n_rows
