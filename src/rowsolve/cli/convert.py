"""``rowsolve convert``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console

import rowsolve
from rowsolve.cli.messages import ExitCode, error_text, print_error, print_words
from rowsolve.cli.progress import Bar

__all__ = ["run_convert"]


def run_convert(source: Path, target: Path, options: dict[str, Any]) -> int:
    """Convert the file and print the number of rows; return the exit code."""
    try:
        n_rows = _convert(source, target, options)
    except (ValueError, TypeError, OSError, MemoryError, ImportError) as error:
        print_error(error_text(error), "BAD_INPUT", as_json=False)
        return ExitCode.INVALID_INPUT
    except KeyboardInterrupt:
        print_error("interrupted, no output was written.", "INTERRUPTED", as_json=False)
        return ExitCode.INCOMPLETE
    print_words(Console(), f"{n_rows:,} rows written to {target}")
    return ExitCode.SUCCESS


def _convert(source: Path, target: Path, options: dict[str, Any]) -> int:
    """Convert the file with a progress bar; return the number of rows."""
    with Bar("converting") as bar:

        def show(done: int, total: int) -> None:
            bar.show("converting", done / total if total else None, [f"{done:,} rows read"])

        n_rows, _ = rowsolve.convert(source, target, progress=show, **options)
    return n_rows
