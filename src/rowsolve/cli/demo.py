"""``rowsolve demo``: solve a random system and compare the time with numpy and scipy."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.table import Table

import rowsolve
from rowsolve.cli.messages import ExitCode, print_error, print_table, print_words
from rowsolve.cli.progress import SolveProgress
from rowsolve.experiments.problems import gaussian_system
from rowsolve.experiments.style import require_matplotlib
from rowsolve.export.output import OutputFile
from rowsolve.parallel.pool import available_cores
from rowsolve.policy.thresholds import BUSY_CORES, DEMO_LIMIT
from rowsolve.race.direct import Cholesky, Lstsq
from rowsolve.race.iterative import LSMR, LSQR
from rowsolve.race.machine import busy_cores
from rowsolve.race.ours import Rowsolve
from rowsolve.race.picture import draw_race
from rowsolve.race.problem import Problem, known
from rowsolve.race.report import busy_in_words, outcome_in_words, ratio_in_words, seconds_in_words, verdict
from rowsolve.race.results import REACHED, Conditions, Result
from rowsolve.race.running import Rules, run_race

__all__ = ["run_demo"]

PICTURE = Path("rowsolve-demo.png")


def run_demo(*, quick: bool, seed: int, out: Path | None, force: bool) -> int:
    """Make a system, solve it, race numpy and scipy, draw the picture; return the exit code.

    An existing picture is replaced under the default name only, unless `force`.
    """
    console = Console(highlight=False)
    n_rows, n_columns = (5_000, 200) if quick else (50_000, 1_000)
    try:
        require_matplotlib()
        picture = OutputFile(out or PICTURE, (".png", ".svg", ".pdf"), force=force or out is None)
    except (ImportError, ValueError, OSError) as error:
        print_error(str(error), "BAD_INPUT", as_json=False)
        return ExitCode.INCOMPLETE if isinstance(error, ImportError) else ExitCode.INVALID_INPUT
    with picture:
        size = f"{n_rows:,} equations in {n_columns:,} unknowns"
        print_words(console, f"Generating a random system of {size} with a known solution …")
        A, b, x = gaussian_system(n_rows, n_columns, seed)
        problem = Problem(A, b, known(x))
        solution, errors = _solve(problem, seed)
        print_words(console, solution.message)
        result = _race(problem, seed, console)
        print_table(console, _table(result))
        print_words(console, verdict(result))
        if result.conditions.busy and result.conditions.busy > BUSY_CORES:
            print_words(console, busy_in_words(result.conditions.busy))
        print_words(
            console,
            f"Loading the compiled kernels took another {solution.compile_seconds:.1f} s, once per process "
            "(they are compiled when they are first used, and cached on disk).",
        )
        figure, kind = draw_race(result, errors), picture.path.suffix[1:].lower()
        picture.write(lambda file: figure.savefig(file, dpi=110, format=kind))
        print_words(console, f"Picture: {picture.path}")
    reached = solution.converged and result.ours.verdict == REACHED
    return ExitCode.SUCCESS if reached else ExitCode.INCOMPLETE


def _solve(problem: Problem, seed: int) -> tuple[rowsolve.Solution, list[tuple[float, float, float]]]:
    """Solve with a progress bar; return passes, estimated and true error of each step too."""
    errors = []
    with SolveProgress() as progress:

        def look(event: rowsolve.Event) -> None:
            progress(event)
            if event.stage == "solve":
                errors.append((event.passes, event.error_estimate, problem.error_of(event.x)))

        return rowsolve.solve(problem.A, problem.b, rtol=Rules.error, rng=seed, callback=look), errors


def _race(problem: Problem, seed: int, console: Console) -> Result:
    """Return the times of rowsolve, scipy and numpy to the same true error.

    Cores that other programs use are left to them: threads of BLAS that wait for each other may take 50 times as long.
    """
    busy = busy_cores(1.0)
    rules = Rules(repeats=3, limit=DEMO_LIMIT, threads=max(1, available_cores() - round(busy)))
    contestants = [Rowsolve(threads=rules.threads, seed=seed), LSMR(), LSQR(), Cholesky(), Lstsq()]
    with console.status("") as status:
        outcomes = run_race(problem, contestants, rules, lambda words: status.update(f"{words} …"))
    return Result(
        case="demo", family="demo", n_rows=problem.A.shape[0], n_columns=problem.A.shape[1], kind=problem.kind,
        error=rules.error, reference=problem.reference.words, conditions=Conditions(rules.threads, rules.limit, busy),
        outcomes=outcomes,
    )  # fmt: skip


def _table(result: Result) -> Table:
    threads = f"{result.conditions.threads} thread{'s' if result.conditions.threads != 1 else ''}"
    title = f"{result.n_rows:,} x {result.n_columns:,}, to a true relative error of {result.error:g}, {threads}"
    table = Table("solver", title=title, caption="ratio: time / time of rowsolve auto (above 1, rowsolve is faster)")
    for column in ("time", "ratio", "true error", "passes over A"):
        table.add_column(column, justify="right")
    for one in result.outcomes:
        time = outcome_in_words(one) or seconds_in_words(one.best)
        ratio = "" if one is result.ours or one.verdict != REACHED else ratio_in_words(result.ratio(one))
        error = "" if one.error is None else f"{one.error:.1e}"
        passes = f"{one.passes:.3g}" if one.passes else "in memory" if one.verdict == REACHED else ""
        table.add_row(one.name, time, ratio, error, passes)
    return table
