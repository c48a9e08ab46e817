"""``rowsolve reproduce``: the figures of the paper, each as a CSV file and a PNG file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from rowsolve.cli.messages import ExitCode, print_words
from rowsolve.cli.progress import Bar
from rowsolve.cli.results import Results
from rowsolve.experiments.figure import Figure
from rowsolve.experiments.paper import FIGURE_NAMES, figures_of
from rowsolve.experiments.style import require_matplotlib
from rowsolve.export.output import OutputFile

__all__ = ["run_reproduce"]


@dataclass
class _Job:
    figure: Figure
    results: Results
    picture: OutputFile


def run_reproduce(*, figure: str | None, out: Path, size: str) -> int:
    """Run the missing seeds, draw the figures, print the names of the files; return the exit code."""
    try:
        require_matplotlib()
        jobs = _jobs(_chosen(figure, size), out)
        _run_seeds(jobs)
        for job in jobs:
            _draw(job)
    except (ValueError, OSError) as error:
        _complain(f"error: {error}")
        return ExitCode.INVALID_INPUT
    except ImportError as error:
        _complain(f"error: {error}")
        return ExitCode.INCOMPLETE
    except KeyboardInterrupt:
        _complain(f"interrupted: finished seeds are saved in {out}. Run the same command again to continue.")
        return ExitCode.INCOMPLETE
    console = Console()
    for job in jobs:
        print_words(console, f"{job.picture.path}, {job.results.path}", label=f"{_title(job.figure)}: ")
    return ExitCode.SUCCESS


def _complain(words: str) -> None:
    print_words(Console(stderr=True), words, style="red")


def _chosen(name: str | None, size: str) -> list[Figure]:
    figures = figures_of(size)
    if name is None:
        return list(figures.values())
    if name not in figures:
        raise ValueError(f"unknown figure {name!r}: expected one of {', '.join(FIGURE_NAMES)}. Omit --figure for all.")
    return [figures[name]]


def _jobs(figures: list[Figure], out: Path) -> list[_Job]:
    """Check that all files can be written and existing tables can be used, before anything is computed."""
    if out.exists() and not out.is_dir():
        raise NotADirectoryError(f"{out}: expected a folder for the figures (--out), but this is a file.")
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OSError(f"{out}: the folder cannot be created: {error.strerror or error}.") from None
    jobs: list[_Job] = []
    for figure in figures:
        taken = {"another one is written to": [path for job in jobs for path in (job.results.path, job.picture.path)]}
        results = Results(_path(out, figure, ".csv"), figure, taken)
        jobs.append(_Job(figure, results, _picture(_path(out, figure, ".png"), results.path, taken)))
    return jobs


def _picture(path: Path, table: Path, taken: dict[str, list[Path]]) -> OutputFile:
    """Return the output file for a figure; raise if it exists without its table: another program may have made it."""
    if path.is_file() and not table.exists():
        raise FileExistsError(
            f"{path}: exists already, but its table {table.name} does not, so it is not overwritten. Move it away, or "
            "choose another folder with --out."
        )
    return OutputFile(path, (".png",), force=True, apart_from={**taken, "its table is written to": [table]})


def _title(figure: Figure) -> str:
    return f"Figure {figure.name}" if figure.name.isdigit() else figure.name.capitalize()


def _path(out: Path, figure: Figure, ending: str) -> Path:
    stem = f"figure-{figure.name}" if figure.name.isdigit() else figure.name
    return out / f"{stem}{'-quick' if figure.size == 'quick' else ''}{ending}"


def _run_seeds(jobs: list[_Job]) -> None:
    """Run all seeds that are not yet in the tables, with a progress bar."""
    todo = [(job, seed) for job in jobs for seed in job.results.missing_seeds]
    n_seeds = sum(job.figure.n_seeds for job in jobs)
    n_steps, n_done = sum(job.figure.n_steps for job, _ in todo), 0
    with Bar("starting") as bar:
        for number, (job, seed) in enumerate(todo, start=n_seeds - len(todo) + 1):
            lines = []
            for words, new in job.figure.steps(seed):
                lines += new
                n_done += 1
                bar.show(_title(job.figure), n_done / n_steps, [f"seed {number} of {n_seeds}", words])
            job.results.add(seed, lines)


def _draw(job: _Job) -> None:
    picture = job.figure.draw(job.results.columns())
    with job.picture as file:
        file.write(lambda place: picture.savefig(place, format="png", dpi=100))
