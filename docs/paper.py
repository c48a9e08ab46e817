"""Put the numbers of `rowsolve reproduce --out docs/paper` into docs/paper.md.

make paper      # some minutes for the run (a finished one is kept), then this
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
from make import put

from rowsolve.cli.results import Results
from rowsolve.experiments.convergence import AXES, ConvergenceFigure
from rowsolve.experiments.figure import Columns, Figure, only
from rowsolve.experiments.paper import figures_of
from rowsolve.experiments.winners import PANELS, SHORT, MapFigure

HERE = Path(__file__).parent
NAMES = {"block": "block", "cluster-block": "cluster-block", "randomized": "randomized"}


def table_of(figure: Figure) -> Columns:
    """Return the lines that the command wrote."""
    name = f"figure-{figure.name}.csv" if figure.name.isdigit() else f"{figure.name}.csv"
    return Results(HERE / "paper" / name, figure).columns()


def markdown(header: list[str], lines: list[list[str]]) -> str:
    """Return a table."""
    rows = [header, ["---"] * len(header), *lines]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def convergence(figure: ConvergenceFigure) -> str:
    """Tell for each system what the clustered version needed, or how far both came."""
    table, lines = table_of(figure), []
    for case in figure.cases:
        if case.noise_on == "A":
            found = only(table, **case._asdict())
            words = [figure.outcome(found, name).split(": ", 1)[-1] for name, _ in AXES]
            if not words[0]:
                words = ["not reached", figure.outcome(found, "rows_read"), "not reached"]
            lines.append([case.clusters, f"{case.noise:g}", *words])
    return markdown(["clusters", "noise on A", "iterations", "rows read", "seconds"], lines)


def floors(figure: ConvergenceFigure) -> str:
    """Tell at which error each method ends with noise in b."""
    table, lines = table_of(figure), []
    for case in figure.cases:
        if case.noise_on == "b":
            words = figure.floors(only(table, **case._asdict())).removeprefix("floor: ")
            lines.append([case.clusters, f"{case.noise:g}", *(part.split()[-1] for part in words.split(", "))])
    return markdown(["clusters", "noise in b", "block", "cluster-block"], lines)


def spectra(figure: Figure) -> str:
    """Tell the medians of figure 3, and over how many blocks of full size."""
    table, lines = table_of(figure), []
    for clusters in ("loose", "tight"):
        for noise in np.unique(table["noise"]):
            cells = [clusters, f"{noise:g}"]
            for name in ("condition_number", "spectral_norm"):
                for method in ("block", "cluster-block"):
                    found = only(table, clusters=clusters, noise=noise, method=method)
                    cells.append(f"{np.median(found[name]):.4g}")
            lines.append([*cells, f"{found['seed'].size:,}"])
    head = ["clusters", "noise on A", "condition, block", "condition, cluster-block"]
    return markdown([*head, "norm, block", "norm, cluster-block", "cluster blocks"], lines)


def sketches(figure: Figure) -> str:
    """Tell the median error at the end of each curve."""
    table, lines = table_of(figure), []
    for method in ("randomized", "jl", "jl, refreshed"):
        found = only(table, method=method)
        last = only(found, n_steps=found["n_steps"].max())
        reads = np.median(last["rows_read"]) / figure.n_rows
        lines.append([method, f"{np.median(last['relative_error']):.1e}", f"{reads:.1f}"])
    return markdown(["method", "error after 4p steps", "passes over A"], lines)


def winners(figure: MapFigure) -> str:
    """Count the cells of the map that each method wins, and give the range of the factor.

    A method that did not get there counts with the rows it was allowed.
    """
    table, lines = table_of(figure), []
    limit = figure.rows_per_column * figure.n_columns
    for on, name, _ in PANELS:
        wins: Counter[str] = Counter()
        factors = []
        found = only(table, noise_on=on)
        for separation in np.unique(found["separation"]):
            for noise in np.unique(found["noise"]):
                cell = only(found, separation=separation, noise=noise)
                medians = {method: float(np.median(only(cell, method=method)[name])) for method in SHORT}
                wins[min(medians, key=medians.__getitem__)] += 1
                factors.append(medians["block"] / min(medians["cluster-block"], limit))
        what = "rows to 1e-4, equations agree" if on == "A" else "error floor, noise in b"
        counts = [str(wins[method]) for method in NAMES]
        lines.append([what, *counts, f"{min(factors):.2g} to {max(factors):.2g}"])
    return markdown(["", *(f"cells won by {name}" for name in NAMES), "block / cluster-block"], lines)


def filled(text: str) -> str:
    """Return `text` with the tables made anew."""
    figures = figures_of("full")
    first, second = figures["1"], figures["2"]
    assert isinstance(first, ConvergenceFigure)
    assert isinstance(second, ConvergenceFigure)
    assert isinstance(figures["map"], MapFigure)
    for name, content in {
        "figure 1": convergence(first),
        "figure 2": convergence(second),
        "floors": floors(second),
        "figure 3": spectra(figures["3"]),
        "map": winners(figures["map"]),
        "sketch": sketches(figures["sketch"]),
    }.items():
        text = put(text, name, content)
    return text


def main() -> None:
    """Rewrite the tables of docs/paper.md."""
    path = HERE / "paper.md"
    path.write_text(filled(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
