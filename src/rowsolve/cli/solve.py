"""``rowsolve solve``."""

from __future__ import annotations

import math
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import rowsolve
from rowsolve.cli.messages import ExitCode, error_text, print_error, print_json, print_words
from rowsolve.cli.progress import SolveProgress, bytes_in_words
from rowsolve.export.output import OutputFile, write_vector
from rowsolve.sources.files import files_of_system

__all__ = ["run_solve"]

_UNFINISHED = (
    rowsolve.Status.MAX_PASSES, rowsolve.Status.MAX_SECONDS, rowsolve.Status.INTERRUPTED, rowsolve.Status.STOPPED,
)  # fmt: skip


def run_solve(
    matrix: Path, rhs: Path, output: Path | None, method: str, options: dict[str, Any], *, force: bool, as_json: bool
) -> int:
    """Solve, write x, print a summary; return the exit code."""
    try:
        with _target(output, matrix, rhs, options, force=force) if output else nullcontext() as target:
            with SolveProgress(hidden=as_json) as progress:
                solution = rowsolve.solve(matrix, rhs, method, callback=progress, **options)
            if target is not None:
                write_vector(target, solution.x)
            _remove_checkpoint(options["checkpoint"], solution, written=target is not None)
    except (ValueError, TypeError, OSError, MemoryError, ImportError) as error:
        print_error(error_text(error), "BAD_INPUT", as_json=as_json)
        return ExitCode.INVALID_INPUT
    except KeyboardInterrupt:
        print_error("interrupted before the solve started, no output was written.", "INTERRUPTED", as_json=as_json)
        return ExitCode.INCOMPLETE
    if as_json:
        print_json(_as_dict(solution, output))
    else:
        _print_summary(solution, output)
    return ExitCode.SUCCESS if solution.converged else ExitCode.INCOMPLETE


def _target(output: Path, matrix: Path, rhs: Path, options: dict[str, Any], *, force: bool) -> OutputFile:
    """Return the output file for x; raise if it is an input file, the checkpoint, or must not be overwritten."""
    needed = files_of_system(matrix, rhs, options["x0"])
    if options["checkpoint"] is not None:
        needed["the checkpoint is written to"] = (options["checkpoint"],)
    return OutputFile(output, (".npy", ".csv"), force=force, apart_from=needed)


def _remove_checkpoint(checkpoint: Path | None, solution: rowsolve.Solution, *, written: bool) -> None:
    """Remove the checkpoint once x is written, unless a limit stopped the run, which can then be resumed."""
    if checkpoint is not None and written and solution.status not in _UNFINISHED:
        checkpoint.unlink(missing_ok=True)


def _as_dict(solution: rowsolve.Solution, output: Path | None) -> dict[str, Any]:
    row_check = solution.row_check
    return {
        "status": solution.status.name,
        "message": solution.message,
        "error_estimate": _finite(solution.error_estimate),
        "residual": _finite(solution.residual),
        "row_check": None if row_check is None else {
            "relative": _finite(row_check.relative),
            "n_rows": row_check.n_rows,
            "n_fresh": row_check.n_fresh,
            "full": row_check.full,
            "gradient": None if row_check.gradient is None else _finite(row_check.gradient),
        },
        "method": solution.method,
        "rows_read": solution.rows_read,
        "passes": solution.passes,
        "bytes_read": solution.bytes_read,
        "seconds": solution.seconds,
        "compile_seconds": solution.compile_seconds,
        "n_columns": len(solution.x),
        "n_rhs": solution.error_estimates.size,
        "rank": solution.rank,
        "optimality": solution.optimality,
        "rows_off": solution.rows_off.tolist(),
        "output": None if output is None else str(output),
    }  # fmt: skip


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None  # JSON knows no NaN


def _print_summary(solution: rowsolve.Solution, output: Path | None) -> None:
    console = Console(highlight=False)
    table = Table.grid(padding=(0, 2))
    table.add_row("status", f"[{'green' if solution.converged else 'yellow'}]{solution.status.name}[/]")
    error = solution.error_estimate
    table.add_row("estimated error", f"{error:.2g} (relative)" if math.isfinite(error) else "not known")
    if (row_check := solution.row_check) is None:
        table.add_row("residual", "not known")
    else:
        table.add_row("residual", f"{solution.residual:.2g}{'' if row_check.full else ' (estimated)'}")
        table.add_row("relative residual", str(row_check))
    size = bytes_in_words(solution.bytes_read)
    table.add_row("rows read", f"{solution.rows_read:,} ({solution.passes:.3g} passes over A, {size})")
    table.add_row("time", f"{solution.seconds:.3g} s, plus {solution.compile_seconds:.2g} s to load the kernels")
    table.add_row("method", solution.method)
    console.print(table)
    print_words(console, f"\n{solution.message}\n")
    if output:
        print_words(console, f"x written to {output}")
    else:
        console.out(_abridged(solution.x, console.width))
        print_words(console, "x was not saved; use -o FILE to write it to a file.")


def _abridged(x: np.ndarray, width: int) -> str:
    """Return the first and last entries of x as numpy prints them, and its length or shape."""
    edge = 3 if x.ndim == 1 else 2  # entries at both ends
    entries = np.array2string(x, width, precision=4, threshold=2 * edge, edgeitems=edge, prefix="x = ")
    size = f"length {x.size:,}" if x.ndim == 1 else f"shape {x.shape}"
    gap = "  " if len(entries.rpartition("\n")[2]) + len(f"x =   ({size})") <= width else "\n    "
    return f"x = {entries}{gap}({size})"
