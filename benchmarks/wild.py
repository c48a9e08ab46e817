"""Compare the speed of `rowsolve.solve` with other solvers on random systems as they occur in practice.

    make bench-wild ARGS="--seed 1 --count 200"
    make bench-wild ARGS="--only one-hot --count 10"
    make bench-wild ARGS="--seed 1 --index 17"
    make bench-wild ARGS="--ways rested,product,busy"

Each solver must reach a true relative error of 1e-6: rowsolve with its default settings, the others (the peers) at the
loosest setting that reaches it. The ratio is the time of the best peer divided by that of rowsolve. Each time is the
minimum of several calls, under one of these conditions (`--ways`):

rested   each call after a pause of 0.15 s
product  each call right after a matrix product by numpy, whose threads are then still spinning
busy     another process keeps one core busy; the ratio is the time with threads=1 divided by that with the default

If the best peer takes less than 1 ms, the difference of the times counts instead: rowsolve may take 0.15 ms longer.
The systems are in `families.py`, their solutions in `reference.py`, and the peers in `peers.py`.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from families import FAMILIES, Draw, Unfit, draw, family_of, left_out
from peers import ERROR, Found, error_of, field, quietly
from scipy import sparse
from wild_picture import picture_of
from wild_report import print_report, ratio_of

import rowsolve
from rowsolve.race.machine import busy_cores, describe

RESULTS = Path(__file__).parent / "results"
WAYS = ("rested", "product", "busy")
REST = 0.15  # seconds: idle threads of BLAS spin for a while
OURS = "rowsolve"
SHORT, LONG = 1e-3, 0.5  # seconds: shorter calls are repeated more often, longer ones less often
NEAR = 1.25  # times the best of the first five rounds: slower solvers are not called again
Run = Callable[[], Any]


class Ours:
    """Calls of `rowsolve.solve` on a system: a new seed each time, and the largest error of all calls."""

    def __init__(self, one: Draw, **options: Any) -> None:
        self.one, self.options = one, options
        self.calls, self.error, self.last = 0, 0.0, None

    def __call__(self) -> None:
        """Solve."""
        self.last = rowsolve.solve(self.one.A, self.one.b, rng=self.calls, **self.options)
        self.calls += 1

    def check(self) -> None:
        """Compute the error of the last x, which is not timed."""
        if self.last is not None:
            self.error = max(self.error, error_of(self.last.x, self.one.x))


def timed(runs: dict[str, Run], before: Run, after: Run) -> dict[str, float]:
    """Return the minimum time of each run, taken alternately, with calls of `before` and `after` around each."""
    least = dict.fromkeys(runs, np.inf)
    rounds, done = 5, 0
    while done < rounds:
        for name in [name for name in runs if done < 5 or name == OURS or least[name] <= NEAR * _best(least)]:
            before()
            started = time.perf_counter()
            quietly(runs[name]) if name != OURS else runs[name]()
            least[name] = min(least[name], time.perf_counter() - started)
            after()
        done += 1
        rounds = 8 if min(least.values()) < SHORT else 3 if min(least.values()) > LONG else 5
    return least


def _best(least: dict[str, float]) -> float:
    return min((value for name, value in least.items() if name != OURS), default=np.inf)


def product_of(one: Draw) -> Run:
    """Return a function that multiplies matrices, which starts the threads of BLAS."""
    A = np.ones((1000, 1000)) if sparse.issparse(one.A) else one.A
    v = np.ones(A.shape[1], A.dtype)
    return lambda: A @ (A if sparse.issparse(one.A) else v)


@contextmanager
def busy_core() -> Iterator[None]:
    """Keep one core busy with another process."""
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def rest() -> None:
    """Wait until idle threads stop spinning."""
    time.sleep(REST)


def times_of(one: Draw, way: str, ours: Ours, peers: list[Found]) -> dict[str, float]:
    """Return the time of each solver under one condition."""
    if way == "busy":
        single = Ours(one, threads=1)
        single()  # compiles
        with busy_core():
            return timed({OURS: ours, "rowsolve threads=1": single}, rest, ours.check)
    runs: dict[str, Run] = {OURS: ours, **{peer.name: peer.run for peer in peers}}
    product = product_of(one)
    return timed(runs, rest if way == "rested" else product, ours.check)


def measure(one: Draw, ways: list[str]) -> dict[str, Any]:
    """Return the results of a draw as plain data."""
    peers, out = field(one.A, one.b, one.x)
    ours = Ours(one)
    ours()  # compiles
    busy = busy_cores()
    ours.check()
    seconds = {way: times_of(one, way, ours, peers) for way in ways}
    last = ours.last
    return {
        "seed": one.seed, "index": one.index, "family": one.family, "what": str(one), "shape": list(one.A.shape),
        "stored": one.stored, "dtype": str(one.A.dtype), "sides": one.b.shape[1] if one.b.ndim > 1 else 1,
        "numbers": int(one.A.nnz if sparse.issparse(one.A) else one.A.size), "attempt": one.attempt,
        "seconds": seconds, "settings": {peer.name: peer.setting for peer in peers}, "out": out,
        "busy_cores": busy, "error": ours.error, "wrong": not ours.error <= ERROR,
        "status": last.status.name, "method": last.method,
        "error_estimate": float(last.error_estimate), "message": last.message,
        "reason": last.message.partition(last.status.value.rstrip("."))[0].strip() or last.message,
    }  # fmt: skip


def line_of(result: dict[str, Any]) -> str:
    """Return the line that is printed for a draw."""
    way = next(iter(result["seconds"]))
    ratio, name, theirs, ours = ratio_of(result, way)
    words = f"{result['index']:>5} {result['family']:<19.19} {result['what']:<22.22}"
    return f"{words}{1e3 * ours:>8.4g}{1e3 * theirs:>8.4g}{ratio:>6.2f} {'WRONG' if result['wrong'] else name:.9}"


def indices_of(args: argparse.Namespace) -> list[int]:
    """Return the indices of the draws to measure."""
    missing = left_out()
    wanted = [name for name in args.only or FAMILIES if name not in missing]
    if args.only and wanted and not args.index:  # `--count` draws of these families
        return list(itertools.islice((i for i in itertools.count(args.start) if family_of(i) in wanted), args.count))
    return [i for i in args.index or range(args.start, args.start + args.count) if family_of(i) in wanted]


def arguments(argv: list[str] | None) -> argparse.Namespace:
    """Return the parsed arguments."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1, help="seed of the draws (%(default)s)")
    parser.add_argument("--count", type=int, default=200, help="number of draws (%(default)s)")
    parser.add_argument("--start", type=int, default=0, help="first index")
    parser.add_argument("--index", type=int, action="append", help="only this draw (may be repeated)")
    parser.add_argument("--only", choices=FAMILIES, action="append", help="only this family (may be repeated)")
    parser.add_argument("--ways", default="rested", help="conditions, separated by commas: rested,product,busy")
    parser.add_argument("--json", type=Path, default=RESULTS / "wild.json", help="output file; the figure is beside it")
    parser.add_argument("--list", action="store_true", help="list the families and exit")
    parser.add_argument("--replot", action="store_true", help="report and plot the results in the file of --json")
    args = parser.parse_args(argv)
    args.ways = args.ways.split(",")
    if not set(args.ways) <= set(WAYS):
        parser.error(f"--ways must be one or more of {','.join(WAYS)}, got {','.join(args.ways)}.")
    if args.replot and not args.json.exists():
        parser.error(f"--replot needs {args.json}, which does not exist. Try without --replot first.")
    return args


def main(argv: list[str] | None = None) -> int:
    """Run the benchmark; return the exit code."""
    args = arguments(argv)
    if args.list:
        print("\n".join(FAMILIES))
        return 0
    if args.replot:
        return show(json.loads(args.json.read_text(encoding="utf-8"))["results"], args.json)
    if left_out():
        print(f"Skipped families: {', '.join(left_out())}. Try pip install 'rowsolve[tables]'.")
    results = []
    print(f"{'index':>5} {'family':<19} {'system; times in ms':<22}{'rowsolve':>8}{'best':>8}{'ratio':>6} best peer")
    for index in indices_of(args):
        try:
            results.append(measure(draw(args.seed, index), args.ways))
        except Unfit as error:
            print(f"{index:>5} {error}")
            continue
        print(line_of(results[-1]), flush=True)
        save(results, args.json, args.seed)  # after each draw, so that an interrupted run keeps its results
        gc.collect()
    if not results:
        print("No system was drawn. Try a larger --count, or another --only.")
        return 2
    return show(results, args.json)


def save(results: list[dict[str, Any]], path: Path, seed: int) -> None:
    """Write all results, and the properties of the machine."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(
        json.dumps({"machine": describe(), "seed": seed, "results": results}, indent=1) + "\n", encoding="utf-8"
    )


def show(results: list[dict[str, Any]], path: Path) -> int:
    """Print the report and draw the figure; return 1 if an error of rowsolve was too large."""
    print_report(results)
    picture_of(results).savefig(path.with_suffix(".png"))
    print(f"Written: {path.name}, {path.with_suffix('.png').name}")
    return int(any(one["wrong"] for one in results))


if __name__ == "__main__":
    sys.exit(main())
