"""Compare `rowsolve.solve` with LAPACK on random small systems of many kinds.

    make honesty ARGS="--seed 1 --count 2000"
    make honesty ARGS="--bounds --count 500"
    make honesty ARGS="--seed 1 --only 1234"

A draw fails if `solve` raises an error, warns, returns NaN, or returns the status CONVERGED with an x whose relative
error is above 5 rtol (with bounds: whose cost is above that of scipy). The exit code is 1 if any draw fails. The
systems are in `draws.py`, the rules in `judge.py`. In the table, *short* counts statuses PRECISION although the data
allow a much smaller error; *low* and *high* are the fractions of error estimates below 1/3 and above 30 times the true
error.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from pathlib import Path

import numpy as np
from draws import draw, draw_bounded
from judge import FAIR, Verdict, judge, judge_bounded


def verdict_of(seed: int, index: int, *, bounds: bool = False) -> Verdict:
    """Draw a system, solve it, and judge the solution."""
    one = (draw_bounded if bounds else draw)(seed, index)
    if bounds:
        return judge_bounded(one.A, one.b, one.options, kind=one.kind, index=index, what=str(one))
    return judge(one.A, one.b, one.options, kind=one.kind, index=index, what=str(one), wild=one.wild)


def row_of(name: str, verdicts: list[Verdict]) -> str:
    """Return a line of the table."""
    status = Counter(one.status for one in verdicts)
    words = [failure.split(":")[0] for one in verdicts for failure in one.failures]
    raised = sum(not one.status for one in verdicts)
    wrong, nan = words.count("WRONG"), words.count("NaN in x")
    short = sum(note.startswith("SHORT") for one in verdicts for note in one.notes)
    warned = sum(word.endswith("Warning") for word in words)
    ratios = np.array([one.ratio for one in verdicts if np.isfinite(one.ratio)])
    low = f"{np.mean(ratios < FAIR[0]):6.0%}" if ratios.size else "     -"
    high = f"{np.mean(ratios > FAIR[1]):6.0%}" if ratios.size else "     -"
    middle = f"{np.median(ratios):8.2g}" if ratios.size else "       -"
    ms = 1e3 * np.array([one.seconds for one in verdicts])
    other = len(verdicts) - status["CONVERGED"] - status["PRECISION"] - raised
    return (
        f"{name:<18}{len(verdicts):>6}{status['CONVERGED']:>7}{status['PRECISION']:>7}{other:>7}{wrong:>7}{nan:>5}"
        f"{raised:>7}{warned:>6}{short:>6}{low}{middle}{high}{np.median(ms):>9.1f}{ms.max():>9.0f}"
    )


def report(verdicts: list[Verdict]) -> None:
    """Print the table, and the draws that failed."""
    print(
        f"{'kind':<18}{'draws':>6}{'conv':>7}{'prec':>7}{'other':>7}{'wrong':>7}{'NaN':>5}{'raised':>7}{'warn':>6}{'short':>6}"
        f"{'low':>6}{'median':>8}{'high':>6}{'ms':>9}{'most ms':>9}"
    )
    for name in dict.fromkeys(one.kind for one in verdicts):
        print(row_of(name, [one for one in verdicts if one.kind == name]))
    print(row_of("all", verdicts))
    status = Counter(one.status or "raised" for one in verdicts)
    print("Statuses:", ", ".join(f"{name} {n}" for name, n in status.most_common()))
    failed = [one for one in verdicts if one.failures]
    print(f"\n{len(failed)} of {len(verdicts)} draws failed.")
    for one in failed:
        print(line_of(one, one.failures))
    noted = sorted((one for one in verdicts if one.notes and not one.failures), key=badness)
    print(f"\n{len(noted)} others stopped short, or have a low error estimate or none; the worst twenty:")
    for one in noted[:20]:
        print(line_of(one, one.notes))


def badness(one: Verdict) -> float:
    """Return a sort key: draws that stopped short first, then the lowest estimates."""
    if any(note.startswith("SHORT") for note in one.notes):
        return -1.0
    return one.ratio if np.isfinite(one.ratio) else 1.0


def line_of(one: Verdict, reasons: list[str]) -> str:
    """Return one line on a draw."""
    sure = f"cond {one.condition:.0e} rank {one.rank}{'' if one.determined else ' in doubt'}"
    words = f"{'; '.join(reasons)} | {one.what} | {sure}"
    return f"{one.index:>6} {one.kind:<17} {one.status or '-':<10} {one.method:<10} {words}"


def main(argv: list[str] | None = None) -> int:
    """Run the draws; return 1 if any fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1, help="seed of the draws (%(default)s)")
    parser.add_argument("--count", type=int, default=2000, help="number of draws (%(default)s)")
    parser.add_argument("--start", type=int, default=0, help="first index")
    parser.add_argument("--only", type=int, action="append", help="only this index (may be repeated)")
    parser.add_argument("--kind", action="append", help="only this kind (may be repeated)")
    parser.add_argument("--bounds", action="store_true", help="draw systems with bounds on x, and compare with scipy")
    parser.add_argument("--json", type=Path, help="write all verdicts to this file")
    args = parser.parse_args(argv)
    make = draw_bounded if args.bounds else draw
    indices = args.only or range(args.start, args.start + args.count)
    if args.kind:
        indices = [index for index in indices if make(args.seed, index).kind in args.kind]
    verdicts = [verdict_of(args.seed, index, bounds=args.bounds) for index in indices]
    report(verdicts)
    if args.json:
        args.json.write_text(json.dumps([one.as_json() for one in verdicts], indent=1))
    return int(any(one.failures for one in verdicts))


if __name__ == "__main__":
    sys.exit(main())
