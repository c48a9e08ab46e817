"""``rowsolve inspect``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console

import rowsolve
from rowsolve.cli.messages import ExitCode, error_text, print_error, print_json
from rowsolve.inspection.words import warnings

__all__ = ["run_inspect"]


def run_inspect(matrix: Path, rhs: Path, options: dict[str, Any], *, as_json: bool) -> int:
    """Inspect the system and print the report; return the exit code."""
    try:
        with Console(stderr=True).status("inspecting …"):
            report = rowsolve.inspect(matrix, rhs, **options)
    except (ValueError, TypeError, OSError, MemoryError, ImportError) as error:
        print_error(error_text(error), "BAD_INPUT", as_json=as_json)
        return ExitCode.INVALID_INPUT
    except KeyboardInterrupt:
        print_error("interrupted.", "INTERRUPTED", as_json=as_json)
        return ExitCode.INCOMPLETE
    if as_json:
        print_json({**report.as_dict(), "warnings": list(warnings(report))})
    else:
        Console(highlight=False).out(str(report))
    return ExitCode.SUCCESS
