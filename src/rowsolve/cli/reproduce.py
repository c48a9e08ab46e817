"""``rowsolve reproduce``: the figures of the paper, each as a table and a picture of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

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
    """Run the seeds that are missing, draw the pictures, name the files; return the exit code."""
    try:
        require_matplotlib()
        jobs = _jobs(_chosen(figure, size), out)
        _run_seeds(jobs)
        for job in jobs:
            _draw(job)
    except (ValueError, OSError) as error:
        _complain(f"error: {error}")
        return 2
    except ImportError as error:
        _complain(f"error: {error}")
        return 1
    except KeyboardInterrupt:
        _complain(f"interrupted: finished seeds are kept in {out}; the same command goes on from there.")
        return 1
    console = Console(highlight=False, soft_wrap=True)
    for job in jobs:
        console.print(f"{_title(job.figure)}: {job.picture.path}, {job.results.path}", markup=False)
    return 0


def _complain(words: str) -> None:
    Console(stderr=True).print(words, style="red", markup=False, highlight=False, soft_wrap=True)


def _chosen(name: str | None, size: str) -> list[Figure]:
    figures = figures_of(size)
    if name is None:
        return list(figures.values())
    if name not in figures:
        raise ValueError(f"unknown figure {name!r}: expected one of {', '.join(FIGURE_NAMES)}, or no --figure for all.")
    return [figures[name]]


def _jobs(figures: list[Figure], out: Path) -> list[_Job]:
    """Find out, before anything is computed, that all files can be written and old tables can be used."""
    if out.exists() and not out.is_dir():
        raise NotADirectoryError(f"{out}: is a file, expected a folder for the figures (--out).")
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OSError(f"{out}: the folder cannot be made: {error.strerror or error}.") from None
    jobs: list[_Job] = []
    for figure in figures:
        taken = {"another one is written to": [path for job in jobs for path in (job.results.path, job.picture.path)]}
        results = Results(_path(out, figure, ".csv"), figure, taken)
        jobs.append(_Job(figure, results, _picture(_path(out, figure, ".png"), results.path, taken)))
    return jobs


def _picture(path: Path, table: Path, taken: dict[str, list[Path]]) -> OutputFile:
    """Return the picture of a table, to be drawn anew; raise if there is one without its table: it may not be ours."""
    if path.is_file() and not table.exists():
        raise FileExistsError(
            f"{path}: exists already, but its table {table.name} does not, so it may be somebody's own: move it away, "
            "or choose another folder with --out."
        )
    return OutputFile(path, (".png",), force=True, apart_from={**taken, "its table is written to": [table]})


def _title(figure: Figure) -> str:
    return f"Figure {figure.name}" if figure.name.isdigit() else figure.name.capitalize()


def _path(out: Path, figure: Figure, ending: str) -> Path:
    stem = f"figure-{figure.name}" if figure.name.isdigit() else figure.name
    return out / f"{stem}{'-quick' if figure.size == 'quick' else ''}{ending}"


def _run_seeds(jobs: list[_Job]) -> None:
    """Run all seeds that no table has yet, with a bar on stderr if that is a terminal."""
    console = Console(stderr=True)
    todo = [(job, seed) for job in jobs for seed in job.results.missing_seeds]
    n_seeds = sum(job.figure.n_seeds for job in jobs)
    with Progress(
        TextColumn("{task.description}"), BarColumn(bar_width=24), TextColumn("{task.fields[seeds]}"),
        TimeRemainingColumn(), TextColumn("left"), console=console, transient=True, disable=not console.is_terminal,
    ) as bar:  # fmt: skip
        steps = sum(job.figure.n_steps for job, _ in todo)
        task = bar.add_task("starting", total=steps, seeds=_count(n_seeds - len(todo), n_seeds))
        for number, (job, seed) in enumerate(todo):
            _run_seed(job, seed, bar, task)
            bar.update(task, seeds=_count(n_seeds - len(todo) + number + 1, n_seeds))


def _count(done: int, n_seeds: int) -> str:
    return f"{done} of {n_seeds} seeds,"


def _run_seed(job: _Job, seed: int, bar: Progress, task: TaskID) -> None:
    lines = []
    for words, new in job.figure.steps(seed):
        lines += new
        bar.update(task, advance=1, description=f"{_title(job.figure)}: {words}")
    job.results.add(seed, lines)


def _draw(job: _Job) -> None:
    picture = job.figure.draw(job.results.columns())
    with job.picture as file:
        file.write(lambda place: picture.savefig(place, format="png", dpi=100))
