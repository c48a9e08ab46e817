"""``rowsolve demo``: the main job, with nothing to prepare."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table

import rowsolve
from rowsolve.cli.progress import SolveProgress
from rowsolve.experiments.problems import gaussian_system
from rowsolve.export.output import OutputFile

__all__ = ["run_demo"]

RTOL = 1e-6
PICTURE = Path("rowsolve-demo.png")


class Contestant(NamedTuple):
    """A result in the race."""

    name: str
    seconds: float
    error: float
    passes: str


def run_demo(*, quick: bool, seed: int, out: Path | None, force: bool) -> int:
    """Make a system, solve it, race numpy and scipy, draw the picture; return the exit code.

    A picture under the usual name is one of an earlier demo, which this one is to renew; any other is not replaced.
    """
    console = Console(highlight=False)
    n_rows, n_columns = (5_000, 200) if quick else (50_000, 1_000)
    try:
        picture = OutputFile(out or PICTURE, (".png", ".svg", ".pdf"), force=force or out is None)
    except (ValueError, OSError) as error:
        Console(stderr=True).print(f"error: {error}", style="red", markup=False, highlight=False, soft_wrap=True)
        return 2
    with picture:
        console.print(f"Making a system of {n_rows:,} equations in {n_columns:,} unknowns with a known solution …")
        A, b, x_true = gaussian_system(n_rows, n_columns, seed)
        true_errors: list[float] = []
        solution = _solve(A, b, x_true, seed, true_errors)
        ours = Contestant("rowsolve", solution.seconds, _error(solution.x, x_true), f"{solution.passes:.2f}")
        console.print(solution.message, markup=False)
        race = [ours, *_race(console, A, b, x_true)]
        console.print(_table(race, n_rows, n_columns))
        console.print(
            f"Loading the kernels took another {solution.compile_seconds:.1f} s, once in a process "
            "(the very first time they are compiled and kept)."
        )
        _draw(solution, true_errors, race, n_rows, n_columns, picture)
        console.print(f"Picture: {picture.path}", markup=False)
    return 0 if solution.converged else 1


def _solve(A: np.ndarray, b: np.ndarray, x_true: np.ndarray, seed: int, errors: list[float]) -> rowsolve.Solution:
    """Solve with the progress bar, then again to note the true error on the way; the quicker one counts."""
    with SolveProgress() as progress:
        first = rowsolve.solve(A, b, rtol=RTOL, rng=seed, callback=progress)
    again = rowsolve.solve(A, b, rtol=RTOL, rng=seed)
    rowsolve.solve(A, b, rtol=RTOL, rng=seed, callback=lambda event: errors.append(_error(event.x, x_true)))
    return replace(again, seconds=min(first.seconds, again.seconds), compile_seconds=first.compile_seconds)


def _race(console: Console, A: np.ndarray, b: np.ndarray, x_true: np.ndarray) -> list[Contestant]:
    from scipy.sparse.linalg import lsmr, lsqr

    results = []
    with console.status("") as status:
        for name, run, passes in (
            ("scipy lsmr", lambda tol: lsmr(A, b, atol=tol, btol=tol), lambda found: f"{2 * found[2]}"),
            ("scipy lsqr", lambda tol: lsqr(A, b, atol=tol, btol=tol), lambda found: f"{2 * found[2]}"),
            ("numpy lstsq", lambda _: np.linalg.lstsq(A, b), lambda _: "in memory"),
        ):
            status.update(f"Racing {name} …")
            results.append(_time_to_error(name, run, passes, x_true))
    return results


def _time_to_error(
    name: str, run: Callable[[float], Any], passes: Callable[[Any], str], x_true: np.ndarray
) -> Contestant:
    """Time `run` at the loosest tolerance with which it gets as near to the solution as was asked."""
    tol = RTOL
    while True:
        found, seconds = _time(run, tol)
        if seconds < 1.0:
            seconds = min(seconds, _time(run, tol)[1])  # the better of two, as for rowsolve
        error = _error(found[0], x_true)
        if error <= RTOL or tol < 1e-12:
            return Contestant(name, seconds, error, passes(found))
        tol /= 10


def _time(run: Callable[[float], Any], tol: float) -> tuple[Any, float]:
    started = time.perf_counter()
    found = run(tol)
    return found, time.perf_counter() - started


def _error(x: np.ndarray, x_true: np.ndarray) -> float:
    return float(np.linalg.norm(x - x_true) / np.linalg.norm(x_true))


def _table(race: list[Contestant], n_rows: int, n_columns: int) -> Table:
    ours = race[0]
    title = f"{n_rows:,} x {n_columns:,}, true relative error {RTOL:g} wanted"
    table = Table("solver", title=title)
    for column in ("seconds", "true error", "passes over A", "time / rowsolve's"):
        table.add_column(column, justify="right")
    for one in race:
        ratio = "" if one is ours else f"{one.seconds / ours.seconds:.1f} x"
        table.add_row(one.name, f"{one.seconds:.3f}", f"{one.error:.1e}", one.passes, ratio)
    return table


def _draw(
    solution: rowsolve.Solution, true_errors: list[float], race: list[Contestant],
    n_rows: int, n_columns: int, picture: OutputFile,
) -> None:  # fmt: skip
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.8), layout="constrained", width_ratios=(3, 2))
    passes = np.asarray(solution.history.rows_read) / n_rows
    left.semilogy(passes, solution.history.error_estimate, color="#0072B2", label="estimated while solving")
    left.semilogy(passes, true_errors, "--", color="#D55E00", label="true")
    left.axhline(RTOL, color="grey", linewidth=0.8, linestyle=":", label=f"asked: {RTOL:g}")
    left.set_xlabel("rows read / rows of A (passes)")
    left.set_ylabel("relative error of x")
    left.set_title(f"{n_rows:,} x {n_columns:,}: the error is known on the way", fontsize=10)
    left.grid(visible=True, alpha=0.3)
    left.legend(fontsize=9)
    names = [one.name for one in race][::-1]
    seconds = [one.seconds for one in race][::-1]
    bars = right.barh(names, seconds, color=["#999999"] * (len(race) - 1) + ["#0072B2"])
    right.bar_label(bars, [f"{value:.3g} s" for value in seconds], padding=3, fontsize=9)
    right.set_xscale("log")
    right.set_xlim(min(seconds) / 2, max(seconds) * 6)
    right.set_xlabel("seconds (log scale)")
    right.set_title(f"time to a true error of {RTOL:g}", fontsize=10)
    right.spines[["top", "right"]].set_visible(False)
    picture.write(lambda file: figure.savefig(file, dpi=110, format=picture.path.suffix[1:].lower()))
    plt.close(figure)
