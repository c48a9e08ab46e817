"""The commands and their options."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Annotated

import typer

from rowsolve import __version__

__all__ = ["app", "main"]

FORMATS = ".npy, .npz, .mtx, .mtx.gz, .csv, .h5, .zarr or .parquet; rows.h5:/A is a dataset, t.csv:x,y are columns"

app = typer.Typer(
    name="rowsolve",
    help="Solve tall linear systems A x = b a few rows at a time, and know how right the answer is.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    epilog="Exit code 0: converged. 1: not converged (x is written all the same). 2: bad input (nothing is written).",
)


def main() -> None:
    """Run the command line."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal that knows no ellipsis shows a question mark
    app()


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"rowsolve {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    pass


@app.command()
def solve(
    matrix: Annotated[Path, typer.Argument(metavar="A", help=f"The matrix: {FORMATS}.")],
    rhs: Annotated[
        Path, typer.Argument(metavar="b", help="The right-hand side, or one in each column, in these formats.")
    ],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Where to write x: .npy or .csv.")] = None,
    method: Annotated[str, typer.Option("--method", "-m", help="A name from `rowsolve methods`.")] = "auto",
    rtol: Annotated[float, typer.Option(help="Wanted norm(x - x*) / norm(x).")] = 1e-6,
    atol: Annotated[float, typer.Option(help="Wanted norm(x - x*), added to the relative one.")] = 0.0,
    x0: Annotated[Path | None, typer.Option("--x0", help="Where to start; zero if not given.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="The same seed and threads give the same bits.")] = None,
    max_passes: Annotated[float | None, typer.Option(help="Stop after reading A this many times over.")] = None,
    max_seconds: Annotated[float | None, typer.Option(help="Stop after this time.")] = None,
    damp: Annotated[float, typer.Option(help="Minimise norm(A x - b)**2 + damp**2 * norm(x)**2.")] = 0.0,
    lower: Annotated[float | None, typer.Option(help="No entry of x may be below this, 0 for x >= 0.")] = None,
    upper: Annotated[float | None, typer.Option(help="No entry of x may be above this.")] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="How many threads; all cores if not given.")] = None,
    memory: Annotated[
        str | None, typer.Option(help="Keep to so much memory, such as 300MB: read A in chunks if it does not fit.")
    ] = None,
    check: Annotated[str, typer.Option(help="Before the end, look at 'sampled' rows or at all: 'full'.")] = "sampled",
    outliers: Annotated[
        str, typer.Option(help="'keep' all rows, or 'drop' a few that are far off while the others agree.")
    ] = "keep",
    no_check_finite: Annotated[
        bool, typer.Option("--no-check-finite", help="Do not look for NaN and infinity beforehand.")
    ] = False,
    checkpoint: Annotated[
        Path | None, typer.Option(help="Save the state there every few seconds; removed when x is written.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the checkpoint, if there is one.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the file for x if it exists.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object, for machines.")] = False,
) -> None:
    """Solve A x = b and write x.

    No file that is read is ever written to, and one that exists is replaced only with --force.
    """
    from rowsolve.cli.solve import run_solve

    options = {
        "memory": memory, "checkpoint": checkpoint, "resume": resume,
        "rtol": rtol, "atol": atol, "x0": x0, "rng": seed,
        "max_passes": max_passes, "max_seconds": max_seconds, "damp": damp, "threads": threads,
        "check": check, "check_finite": not no_check_finite, "outliers": outliers,
        "bounds": (-math.inf if lower is None else lower, math.inf if upper is None else upper),
    }  # fmt: skip
    raise typer.Exit(run_solve(matrix, rhs, output, method, options, force=force, as_json=as_json))


@app.command()
def inspect(
    matrix: Annotated[Path, typer.Argument(metavar="A", help=f"The matrix: {FORMATS}.")],
    rhs: Annotated[Path, typer.Argument(metavar="b", help="The right-hand side, in any of these formats.")],
    rtol: Annotated[float, typer.Option(help="Wanted norm(x - x*) / norm(x), to predict rows and time for.")] = 1e-6,
    seed: Annotated[int | None, typer.Option(min=0, help="The same seed looks at the same rows.")] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="How many threads; all cores if not given.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object, for machines.")] = False,
) -> None:
    """Look at A x = b without solving it: condition, clusters, noise, and what each method would take.

    All of it is seen in a sample of the rows, and says so. A .npy file is mapped and may be larger than memory; other
    files are read whole, and refused if they do not fit. Exit code 0, or 2 for bad input.
    """
    from rowsolve.cli.inspect import run_inspect

    options = {"rtol": rtol, "rng": seed, "threads": threads}
    raise typer.Exit(run_inspect(matrix, rhs, options, as_json=as_json))


@app.command()
def convert(
    source: Annotated[Path, typer.Argument(metavar="IN", help=f"The matrix: {FORMATS}.")],
    target: Annotated[Path, typer.Argument(metavar="OUT", help="The file to write, in any of these formats.")],
    rhs: Annotated[Path | None, typer.Option("--rhs", help="The right-hand side, to be stored along.")] = None,
    memory: Annotated[str, typer.Option(help="How much may be used for rows, such as 1GB.")] = "256MB",
    chunk: Annotated[int | None, typer.Option(min=1, help="Rows to store together (HDF5, Zarr, Parquet).")] = None,
    dtype: Annotated[str | None, typer.Option(help="float32 or float64; as it is if not given.")] = None,
    cluster: Annotated[
        int | None, typer.Option(min=1, help="Order the rows in blocks with one row of each of so many clusters.")
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="The same seed gives the same clusters.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace OUT, and files beside it, if they exist.")] = False,
    allow_nan: Annotated[
        bool, typer.Option("--allow-nan", help="Write NaN and infinity as they are; they are errors otherwise.")
    ] = False,
) -> None:
    """Write a matrix in another format, a few rows at a time.

    OUT appears when it is complete: a failure leaves nothing half-written. Exit code 0: done, 1: interrupted, 2: bad
    input, or a disk that is full.
    """
    from rowsolve.cli.convert import run_convert

    options = {
        "rhs": rhs, "memory": memory, "chunk": chunk, "dtype": dtype, "cluster": cluster, "rng": seed, "force": force,
        "allow_nan": allow_nan,
    }  # fmt: skip
    raise typer.Exit(run_convert(source, target, options))


@app.command()
def methods() -> None:
    """List the methods, their parameters and where they come from."""
    from rowsolve.cli.methods import show_methods

    show_methods()


@app.command()
def demo(
    quick: Annotated[bool, typer.Option("--quick", help="A small system: 5,000 x 200.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Another system and another run.")] = 0,
    out: Annotated[
        Path | None,
        typer.Option(help="The picture to write (.png, .svg or .pdf).", show_default="rowsolve-demo.png, made anew"),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the picture named by --out if it exists.")] = False,
) -> None:
    """Make a 50,000 x 1,000 system, solve it, and race numpy and scipy on it."""
    from rowsolve.cli.demo import run_demo

    raise typer.Exit(run_demo(quick=quick, seed=seed, out=out, force=force))


@app.command()
def race(
    matrix: Annotated[Path, typer.Argument(metavar="A", help=f"The matrix: {FORMATS}.")],
    rhs: Annotated[Path, typer.Argument(metavar="b", help="The right-hand side, in any of these formats.")],
    error: Annotated[float, typer.Option(help="The true norm(x - x*) / norm(x*) that everybody is to reach.")] = 1e-6,
    methods: Annotated[str, typer.Option(help="More methods of rowsolve besides auto: names with commas.")] = "",
    repeats: Annotated[int, typer.Option(min=1, help="Rounds in which all take turns; the least time counts.")] = 5,
    threads: Annotated[int | None, typer.Option(min=1, help="For BLAS and rowsolve; all cores if not given.")] = None,
    limit: Annotated[float, typer.Option(help="Seconds that one run may take.")] = 60.0,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write every time to this .json file.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the .json file if it exists.")] = False,
) -> None:
    """Race rowsolve against numpy, scipy and scikit-learn on your own A x = b.

    Each is run at tighter and tighter tolerances until its x is as near to the least-squares solution as asked, and
    then timed. Exit code 0: rowsolve got there, 1: it did not, 2: bad input.
    """
    from rowsolve.cli.race import run_race_command

    names = [name.strip() for name in methods.split(",") if name.strip()]
    options = {"error": error, "repeats": repeats, "threads": threads, "limit": limit}
    raise typer.Exit(run_race_command(matrix, rhs, names, options, json_file, force=force))


@app.command()
def reproduce(
    figure: Annotated[str | None, typer.Option(help="Only this one: 1, 2, 3, map or sketch. All if not given.")] = None,
    out: Annotated[Path, typer.Option(help="The folder for pictures and tables.")] = Path("rowsolve-figures"),
    quick: Annotated[bool, typer.Option("--quick", help="Small systems, in less than a minute.")] = False,
) -> None:
    """Make the figures of the paper and the map of which method wins: a PNG and a CSV file each.

    At the paper's sizes this takes some minutes. It can be interrupted: finished seeds are kept in the CSV files,
    and the same command goes on from there. It adds to its own CSV files and draws their pictures anew; other files of
    these names are left as they are.
    """
    from rowsolve.cli.reproduce import run_reproduce

    raise typer.Exit(run_reproduce(figure=figure, out=out, size="quick" if quick else "full"))
