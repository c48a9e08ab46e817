"""The commands and their options."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Annotated

import typer

from rowsolve import __version__

__all__ = ["app", "main"]

MATRIX = (
    "Matrix file: .npy, .npz, .mtx, .mtx.gz, .csv, .h5, .zarr or .parquet. Use rows.h5:/A to select a dataset and "
    "t.csv:x,y to select columns."
)
THREADS = "Number of threads; all cores by default."
JSON = "Print the result as a JSON object."

app = typer.Typer(
    name="rowsolve",
    help="Solve tall linear systems A x = b by reading a few rows at a time, and estimate the error of the solution.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    rich_markup_mode=None,  # panels leave too little room for text on 80 columns
    epilog="Exit codes of solve: 0 if converged, 1 if not converged (x is still written), 2 if the input is invalid "
    "(nothing is written).",
)


def main() -> None:
    """Run the command line."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a question mark for characters that the terminal does not have
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
    matrix: Annotated[Path, typer.Argument(metavar="A", help=MATRIX)],
    rhs: Annotated[
        Path, typer.Argument(metavar="b", help="Right-hand side, or several as columns, in any of these formats.")
    ],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Output file for x (.npy or .csv).")] = None,
    method: Annotated[str, typer.Option("--method", "-m", help="Method; see `rowsolve methods`.")] = "auto",
    rtol: Annotated[float, typer.Option(help="Relative tolerance (error of x).")] = 1e-6,
    atol: Annotated[float, typer.Option(help="Absolute tolerance (error of x).")] = 0.0,
    x0: Annotated[Path | None, typer.Option("--x0", help="File with the initial guess; zeros by default.")] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="<int>",
            help="Seed of the random number generator. Results also depend on the number of threads.",
        ),
    ] = None,
    max_passes: Annotated[float | None, typer.Option(help="Maximum number of passes over A.")] = None,
    max_seconds: Annotated[float | None, typer.Option(help="Time limit in seconds.")] = None,
    damp: Annotated[
        float, typer.Option(help="Damping factor: minimize norm(A x - b)**2 + damp**2 * norm(x)**2.")
    ] = 0.0,
    lower: Annotated[float | None, typer.Option(help="Lower bound for all entries of x (0 for x >= 0).")] = None,
    upper: Annotated[float | None, typer.Option(help="Upper bound for all entries of x.")] = None,
    threads: Annotated[int | None, typer.Option(min=1, metavar="<int>", help=THREADS)] = None,
    memory: Annotated[
        str | None, typer.Option(help="Memory limit, such as 300MB. If A does not fit, it is read in chunks.")
    ] = None,
    check: Annotated[
        str, typer.Option(help="Rows used for the final check: a random sample ('sampled') or all ('full').")
    ] = "sampled",
    outliers: Annotated[
        str,
        typer.Option(help="'keep' uses all rows; 'drop' leaves out a few outliers, if the other rows are consistent."),
    ] = "keep",
    no_check_finite: Annotated[
        bool, typer.Option("--no-check-finite", help="Do not check that A and b are finite before solving.")
    ] = False,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            help="Checkpoint file, saved every few seconds. A run that was killed or stopped by a limit can be resumed "
            "from it. It is removed when it is no longer needed."
        ),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Resume from the checkpoint if it exists.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the output file if it exists.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help=JSON)] = False,
) -> None:
    """Solve A x = b and write x to a file.

    The solve stops when the estimated error, norm(x - x*), is at most atol + rtol * norm(x). Here x* is the solution,
    or the least-squares solution if the system is inconsistent. Without --output, a few entries of x are printed.

    Input files are never overwritten; other existing files only with --force.
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
    matrix: Annotated[Path, typer.Argument(metavar="A", help=MATRIX)],
    rhs: Annotated[Path, typer.Argument(metavar="b", help="Right-hand side, in any of these formats.")],
    rtol: Annotated[float, typer.Option(help="Relative tolerance for which rows and time are predicted.")] = 1e-6,
    seed: Annotated[
        int | None, typer.Option(min=0, metavar="<int>", help="Seed of the random number generator (sample of rows).")
    ] = None,
    threads: Annotated[int | None, typer.Option(min=1, metavar="<int>", help=THREADS)] = None,
    as_json: Annotated[bool, typer.Option("--json", help=JSON)] = False,
) -> None:
    """Inspect A x = b and predict the cost of each method.

    The condition number, clusters of rows and the noise in b are estimated from a random sample of the rows.

    .npy files are memory-mapped and may be larger than memory. Other files are read whole; if they do not fit, an error
    is raised.

    Exit codes: 0 if successful, 1 if interrupted, 2 if the input is invalid.
    """
    from rowsolve.cli.inspect import run_inspect

    options = {"rtol": rtol, "rng": seed, "threads": threads}
    raise typer.Exit(run_inspect(matrix, rhs, options, as_json=as_json))


@app.command()
def convert(
    source: Annotated[Path, typer.Argument(metavar="IN", help=MATRIX)],
    target: Annotated[Path, typer.Argument(metavar="OUT", help="Output file, in any of these formats.")],
    rhs: Annotated[Path | None, typer.Option("--rhs", help="Right-hand side to store with the matrix.")] = None,
    memory: Annotated[str, typer.Option(help="Memory limit for the rows, such as 1GB.")] = "256MB",
    chunk: Annotated[
        int | None, typer.Option(min=1, metavar="<int>", help="Rows per chunk (HDF5, Zarr, Parquet).")
    ] = None,
    dtype: Annotated[
        str | None, typer.Option(help="Data type of the output, float32 or float64; that of IN by default.")
    ] = None,
    cluster: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="<int>",
            help="Number of clusters. The rows are reordered into blocks with one row of each cluster.",
        ),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, metavar="<int>", help="Seed of the random number generator (clusters).")
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Overwrite OUT, and the files that belong to it, if they exist.")
    ] = False,
    allow_nan: Annotated[
        bool, typer.Option("--allow-nan", help="Allow NaN and infinity, which raise an error by default.")
    ] = False,
) -> None:
    """Convert a matrix to another file format.

    The rows are read and written in chunks. If the conversion fails, no incomplete file is left behind.

    Exit codes: 0 if successful, 1 if interrupted, 2 if the input is invalid or the output cannot be written.
    """
    from rowsolve.cli.convert import run_convert

    options = {
        "rhs": rhs, "memory": memory, "chunk": chunk, "dtype": dtype, "cluster": cluster, "rng": seed, "force": force,
        "allow_nan": allow_nan,
    }  # fmt: skip
    raise typer.Exit(run_convert(source, target, options))


@app.command()
def methods() -> None:
    """List the methods with their parameters and references."""
    from rowsolve.cli.methods import show_methods

    show_methods()


@app.command()
def demo(
    quick: Annotated[bool, typer.Option("--quick", help="Use a small system (5,000 x 200).")] = False,
    seed: Annotated[int, typer.Option(min=0, metavar="<int>", help="Seed of the random number generator.")] = 0,
    out: Annotated[
        Path | None,
        typer.Option(help="Output file for the plot (.png, .svg or .pdf); by default rowsolve-demo.png, overwritten."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file given by --out if it exists.")] = False,
) -> None:
    """Solve a random system and compare with numpy and scipy.

    The system has 50,000 rows, 1,000 columns and a known solution.
    """
    from rowsolve.cli.demo import run_demo

    raise typer.Exit(run_demo(quick=quick, seed=seed, out=out, force=force))


@app.command()
def race(
    matrix: Annotated[Path, typer.Argument(metavar="A", help=MATRIX)],
    rhs: Annotated[Path, typer.Argument(metavar="b", help="Right-hand side, in any of these formats.")],
    error: Annotated[float, typer.Option(help="True relative error to reach: norm(x - x*) / norm(x*).")] = 1e-6,
    methods: Annotated[
        str, typer.Option(help="Methods of rowsolve to time besides auto, separated by commas.", show_default=False)
    ] = "",
    repeats: Annotated[
        int, typer.Option(min=1, metavar="<int>", help="Number of timed runs of each solver; the shortest time counts.")
    ] = 5,
    threads: Annotated[int | None, typer.Option(min=1, metavar="<int>", help=THREADS)] = None,
    limit: Annotated[float, typer.Option(help="Time limit in seconds, for each run and for all rounds.")] = 60.0,
    json_file: Annotated[Path | None, typer.Option("--json", help="Output file for all times (.json).")] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the output file if it exists.")] = False,
) -> None:
    """Compare the speed of rowsolve, numpy, scipy and scikit-learn.

    The tolerance of each solver is decreased until the true relative error is at most --error. Then the solver is
    timed. x* is the least-squares solution, computed by LAPACK or LSMR.

    Exit codes: 0 if rowsolve reached the error, 1 if it did not, 2 if the input is invalid.
    """
    from rowsolve.cli.race import run_race_command

    names = [name.strip() for name in methods.split(",") if name.strip()]
    options = {"error": error, "repeats": repeats, "threads": threads, "limit": limit}
    raise typer.Exit(run_race_command(matrix, rhs, names, options, json_file, force=force))


@app.command()
def reproduce(
    figure: Annotated[str | None, typer.Option(help="Figure to make: 1, 2, 3, map or sketch; all by default.")] = None,
    out: Annotated[Path, typer.Option(help="Output folder for the figures.")] = Path("rowsolve-figures"),
    quick: Annotated[bool, typer.Option("--quick", help="Use small systems; takes less than a minute.")] = False,
) -> None:
    """Reproduce the figures of the paper.

    A map of the fastest method and a figure on the sketches of RKA-JL are included. Each figure is written as a PNG
    file, and its data as a CSV file. This takes several minutes at the sizes of the paper.

    If interrupted, run the same command again to continue: finished seeds are saved in the CSV files. Files with these
    names that were not made by this command are not overwritten.
    """
    from rowsolve.cli.reproduce import run_reproduce

    raise typer.Exit(run_reproduce(figure=figure, out=out, size="quick" if quick else "full"))
