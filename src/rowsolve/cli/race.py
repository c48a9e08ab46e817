"""``rowsolve race``: rowsolve against numpy, scipy and scikit-learn, on the files of the user."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

import rowsolve
from rowsolve.cli.messages import ExitCode, error_text, print_error, print_table, print_words
from rowsolve.export.output import OutputFile
from rowsolve.parallel.memory import free_memory
from rowsolve.parallel.pool import available_cores
from rowsolve.policy.thresholds import BUSY_CORES
from rowsolve.race.contestant import is_sparse
from rowsolve.race.lineup import line_up
from rowsolve.race.machine import blas_threads, busy_cores, describe
from rowsolve.race.problem import Problem, least_squares
from rowsolve.race.report import busy_in_words, outcome_in_words, ratio_in_words, seconds_in_words, verdict
from rowsolve.race.results import REACHED, Conditions, Outcome, Result, as_document
from rowsolve.race.running import Rules, run_race
from rowsolve.sources import open_rows
from rowsolve.sources.files import files_of_system, opened_with_b
from rowsolve.sources.rows import as_vector

__all__ = ["race_table", "run_race_command"]


def run_race_command(
    matrix: Path, rhs: Path, methods: list[str], options: dict[str, Any], json_file: Path | None, *, force: bool
) -> int:
    """Time all solvers, print the table and the winner, write the JSON file; return the exit code."""
    try:
        read = files_of_system(matrix, rhs)
        with OutputFile(json_file, (".json",), force=force, apart_from=read) if json_file else nullcontext() as target:
            result, remarks = _race(matrix, rhs, methods, _rules(options))
            if target is not None:
                text = json.dumps(as_document([result]), indent=1, allow_nan=False) + "\n"
                target.write(lambda file: file.writelines([text.encode()]))
    except (ValueError, TypeError, OSError, MemoryError, ImportError) as error:
        print_error(error_text(error), "BAD_INPUT", as_json=False)
        return ExitCode.INVALID_INPUT
    except KeyboardInterrupt:
        print_error("interrupted, no output was written.", "INTERRUPTED", as_json=False)
        return ExitCode.INCOMPLETE
    _print(result, remarks)
    return ExitCode.SUCCESS if result.ours.verdict == REACHED else ExitCode.INCOMPLETE


def _rules(options: dict[str, Any]) -> Rules:
    error, limit = options["error"], options["limit"]
    if not 0.0 < error < 1.0:
        raise ValueError(f"--error must be between 0 and 1, got {error:g}.")
    if not limit > 0.0:
        raise ValueError(f"--limit must be positive, got {limit:g}.")
    return Rules(error, options["repeats"], limit, options["threads"] or available_cores())


def _race(matrix: Path, rhs: Path, methods: list[str], rules: Rules) -> tuple[Result, list[str]]:
    """Return the result, and remarks to print after the table."""
    _check_names(methods)
    A, b = _load(matrix, rhs)
    contestants, absent = line_up(methods, rules.threads)
    busy = busy_cores()
    console = Console(stderr=True)
    with console.status("computing the reference solution …") as status, blas_threads(rules.threads):
        problem = Problem(A, b, least_squares(A, b, rules.limit))
        outcomes = run_race(problem, contestants, rules, lambda words: status.update(f"{words} …"))
    remarks = [f"Reference: {problem.reference.words}."]
    if problem.reference.doubt > 0.1 * rules.error:
        remarks.append(
            f"A is ill-conditioned: the relative error of the reference may be {problem.reference.doubt:.0e}, so the "
            "ratios are not reliable."
        )
    if busy > BUSY_CORES:
        remarks.append(busy_in_words(busy))
    if isinstance(A, np.memmap):
        remarks.append(
            "A is large compared with the free memory, so it is memory-mapped; solvers that copy it are skipped."
        )
    result = Result(
        case=matrix.name, family="own data", n_rows=A.shape[0], n_columns=A.shape[1], kind=problem.kind,
        error=rules.error, reference=problem.reference.words,
        conditions=Conditions(rules.threads, rules.limit, busy, describe()), outcomes=outcomes, absent=absent,
    )  # fmt: skip
    return result, remarks


def _check_names(methods: list[str]) -> None:
    """Raise if a name is unknown, before anything is loaded."""
    for name in methods:
        if name not in {"auto", *rowsolve.METHODS}:
            raise ValueError(f"unknown method {name!r} in --methods: see `rowsolve methods` for the names.")


def _load(matrix: Path, rhs: Path) -> tuple[Any, np.ndarray]:
    """Return A and b; A is in memory if there is enough of it."""
    with opened_with_b(matrix, rhs) as (store, values):
        A = store.whole()
        source = open_rows(A, store.name, store.columns)  # only to check it
    odd = source.first_not_finite()
    if odd is not None:
        raise source.not_finite(*odd)
    b, _ = as_vector(values, "b", source.shape[0], "row of `A`", place=str(rhs))
    if is_sparse(A):
        A = A.tocsr()
    elif not isinstance(A, np.memmap) or 5 * A.nbytes < free_memory():
        A = np.array(A)
    return (A if A.dtype in (np.float32, np.float64) else A.astype(np.float64)), b


def _print(result: Result, remarks: list[str]) -> None:
    console = Console(highlight=False)
    print_table(console, race_table(result))
    for words in [verdict(result), *remarks, *(f"Not timed: {name}, {why}." for name, why in result.absent.items())]:
        print_words(console, words)


def race_table(result: Result) -> Table:
    """Return a table with one row for each solver."""
    title = (
        f"{result.n_rows:,} x {result.n_columns:,} ({result.kind}), to a true relative error of {result.error:g}, "
        f"{result.conditions.threads} thread{'s' if result.conditions.threads != 1 else ''}"
    )
    table = Table("solver", title=title, caption="ratio: time / time of rowsolve auto (above 1, rowsolve is faster)")
    for column in ("seconds", "ratio", "true error", "setting", "passes over A", "timed runs"):
        table.add_column(column, justify="right")
    table.add_column("remarks", overflow="fold")
    for outcome in result.outcomes:
        table.add_row(*map(Text, _cells(result, outcome)), style="bold" if outcome is result.ours else None)
    return table


def _cells(result: Result, outcome: Outcome) -> list[str]:
    reached = outcome.verdict == REACHED
    ratio = result.ratio(outcome)
    return [
        outcome.name,
        seconds_in_words(outcome.best).removesuffix(" s") if reached else "",
        ratio_in_words(ratio) if reached and ratio and outcome is not result.ours else "",
        "" if outcome.error is None else f"{outcome.error:.1e}",
        f"{outcome.knob} {outcome.setting:g}" if outcome.knob and outcome.setting else "",
        "" if outcome.passes is None else f"{outcome.passes:.3g}",
        str(len(outcome.seconds)) if reached else "",
        outcome.status if reached else outcome_in_words(outcome),
    ]
