"""Compare the time to reach a true error with that of numpy, scipy and scikit-learn, over a corpus of systems.

    make bench                                    # all cases, some hours: benchmarks/results/race.json and .png
    make bench ARGS="--quick"                     # small systems, less than two minutes: race-quick.json and .png
    make bench ARGS="--case clustered --case sparse-ct"       # replace the results of these cases only
    make bench ARGS="--list"

All solvers run in one process, in turns, on the same data with the same number of threads; the minimum of several
repeats counts. The times include clustering and each pass over A, but not compilation and imports. A solver that stops
before it reaches the error is run again with a tighter tolerance; if none suffices, its result is "never".
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

from corpus import CORPUS, GROWTH, Case, chosen
from rich.console import Console
from rich.table import Table

from rowsolve.parallel.pool import available_cores
from rowsolve.race.lineup import PEERS, line_up
from rowsolve.race.machine import blas_threads, busy_cores, describe
from rowsolve.race.picture import draw_ratios
from rowsolve.race.problem import Problem, known, least_squares
from rowsolve.race.report import outcome_in_words, ratio_in_words, seconds_in_words, target_in_words
from rowsolve.race.results import REACHED, Conditions, Outcome, Result, as_document, of_document
from rowsolve.race.running import Rules, run_race

RESULTS = Path(__file__).parent / "results"


def run_case(case: Case, rules: Rules, *, quick: bool, console: Console) -> Result:
    """Build the system, run the race on it, and print a line with the result."""
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder, console.status(f"{case.name}: building") as status:
        system = case.make(Path(folder), quick=quick)
        contestants, absent = line_up(threads=rules.threads, outliers=case.outliers)
        status.update(f"{case.name}: computing the reference solution")
        busy = busy_cores()
        with blas_threads(rules.threads):
            reference = least_squares(system.A, system.b) if system.x is None else known(system.x)
        problem = Problem(system.A, system.b, reference)
        outcomes = run_race(problem, contestants, rules, lambda words: status.update(f"{case.name}: {words}"))
        result = Result(
            case=case.name, family=case.family, n_rows=system.A.shape[0], n_columns=system.A.shape[1],
            kind=problem.kind, error=rules.error, reference=reference.words,
            conditions=Conditions(rules.threads, rules.limit, busy, describe()), outcomes=outcomes, absent=absent,
            # The quick sizes test that the race runs; they say nothing about speed.
            target=None if quick else case.target, target_passes=None if quick else case.target_passes,
        )  # fmt: skip
        del system, problem  # a file must not be mapped when its folder is removed
    console.print(f"{_line(result)}  [{time.perf_counter() - started:.0f} s in total]", markup=False, soft_wrap=True)
    return result


def _line(result: Result) -> str:
    ours, peer = result.ours, result.best_peer
    words = f"{result.case}: rowsolve {seconds_in_words(ours.best) if ours.seconds else outcome_in_words(ours)}"
    other = f"{peer.name} {seconds_in_words(peer.best)}" if peer else "no other solver reached the error"
    target = f", target {target_in_words(result)}" if result.target else ""
    return f"{words}; {other}; ratio {ratio_in_words(result.best_ratio)}{target}"


def table_of(results: list[Result]) -> Table:
    """Return the table of ratios, with one row per case and one column per peer."""
    peers = [peer.name for peer in PEERS]
    table = Table("case", title="time of a peer / time of rowsolve auto: above 1 rowsolve is faster")
    for name in ("rowsolve", *(name.split(" ", 1)[-1] for name in peers), "best", "target"):
        table.add_column(name, justify="right", overflow="fold")
    for result in results:
        outcomes = {one.name: one for one in result.outcomes}
        short = result.on_target is False
        table.add_row(
            result.case, seconds_in_words(result.ours.best), *(_ratio(result, outcomes.get(name)) for name in peers),
            ratio_in_words(result.best_ratio), target_in_words(result), style="red" if short else None,
        )  # fmt: skip
    return table


def _ratio(result: Result, outcome: Outcome | None) -> str:
    if outcome is None:
        return "absent"
    if outcome.verdict != REACHED:
        return outcome.verdict
    return ratio_in_words(result.ratio(outcome)) if result.ours.seconds else seconds_in_words(outcome.best)


def growth_in_words(results: list[Result]) -> str:
    """Return a sentence on the growth of the time with the number of rows; empty if these cases were not run."""
    times = {result.case: result.ours.best for result in results if result.ours.seconds and result.target}
    small, large, allowed = GROWTH
    if small not in times or large not in times:
        return ""
    factor = times[large] / times[small]
    verdict = "met" if factor <= allowed else "short"
    return f"From {small} to {large}, the time of rowsolve grows {factor:.2f} times (target {allowed:g}: {verdict})."


def merged(old: list[Result], new: list[Result]) -> list[Result]:
    """Return `old` with the cases of `new` replaced, in the order of the corpus."""
    by_name = {result.case: result for result in (*old, *new)}
    return [by_name[name] for name in CORPUS if name in by_name]


def load(path: Path) -> list[Result]:
    """Return the results in a file; empty if it does not exist."""
    return of_document(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else []


def save(results: list[Result], path: Path) -> None:
    """Write all times as JSON, and the figure beside it."""
    path.parent.mkdir(exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text(json.dumps(as_document(results), indent=1, allow_nan=False) + "\n", encoding="utf-8")
    part.replace(path)
    draw_ratios(results).savefig(path.with_suffix(".png"), dpi=110)


def show_cases(console: Console) -> None:
    """Print the corpus."""
    table = Table("case", "family", "full size", "quick size", "ratio to reach", "remarks")
    for case in CORPUS.values():
        sizes = ["" if size is None else f"{size[0]:,} x {size[1]:,}" for size in (case.full, case.quick)]
        table.add_row(case.name, case.family, *sizes, f"{case.target:g}", case.why_not(quick=False))
    console.print(table)


def arguments() -> argparse.Namespace:
    """Return the parsed arguments."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="use small systems; write the results to race-quick.*")
    parser.add_argument("--case", action="append", default=[], metavar="NAME", help="case or family (may be repeated)")
    parser.add_argument("--list", action="store_true", help="list the cases and exit")
    parser.add_argument("--threads", type=int, help="threads of each solver (default: all cores; with --quick 1)")
    parser.add_argument("--repeats", type=int, help="runs of each solver (default: 10; with --quick 3)")
    parser.add_argument("--limit", type=float, help="time limit of a run in seconds (default: 60; with --quick 0.3)")
    args = parser.parse_args()
    if any(one is not None and one <= 0 for one in (args.threads, args.repeats, args.limit)):
        parser.error("--threads, --repeats and --limit must be above 0.")
    return args


def main() -> int:
    """Run the races, write and print the results; return the exit code."""
    args, console = arguments(), Console(highlight=False)
    if args.list:
        show_cases(console)
        return 0
    try:
        cases = chosen(args.case)
    except ValueError as error:
        console.print(f"error: {error}", style="red", markup=False)
        return 2
    path = RESULTS / ("race-quick.json" if args.quick else "race.json")
    results = load(path) if args.case else []
    repeats, limit, threads = (3, 0.3, 1) if args.quick else (10, 60.0, available_cores())
    rules = Rules(repeats=args.repeats or repeats, limit=args.limit or limit, threads=args.threads or threads)
    for case in cases:
        why_not = case.why_not(quick=args.quick)
        if why_not:
            console.print(f"{case.name}: skipped, {why_not}", markup=False)
            continue
        results = merged(results, [run_case(case, rules, quick=args.quick, console=console)])
        save(results, path)  # after each case, so that an interrupted run keeps its results
    console.print(table_of(results))
    for words in filter(None, (growth_in_words(results), *_absent(results))):
        console.print(words, markup=False)
    console.print(f"Written: {path.name}, {path.with_suffix('.png').name} in benchmarks/results", markup=False)
    return 0


def _absent(results: list[Result]) -> list[str]:
    found = {name: why for result in results for name, why in result.absent.items()}
    return [f"Not compared: {name}, {why}." for name, why in found.items()]


if __name__ == "__main__":
    sys.exit(main())
