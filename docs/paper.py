"""Write the results of `rowsolve reproduce --out docs/paper` to docs/paper.md: its tables and its conclusions.

make paper      # runs the experiments (some minutes; finished seeds are kept), then this script
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from pathlib import Path
from typing import NamedTuple

import numpy as np
from make import put

from rowsolve.cli.results import Results
from rowsolve.experiments.comparing import Pair, after, at_the_end, needed
from rowsolve.experiments.convergence import Case, ConvergenceFigure
from rowsolve.experiments.figure import Columns, Figure, only
from rowsolve.experiments.paper import figures_of
from rowsolve.experiments.problems import NoiseOn
from rowsolve.experiments.winners import PANELS, SHORT, MapFigure

HERE = Path(__file__).parent
NAMES = ("block", "cluster-block", "randomized")
SPECTRA = {"condition_number": "Condition number", "spectral_norm": "Spectral norm"}
LEVEL = 1.05  # two medians with a smaller ratio are called level
ERROR, RESIDUAL = "relative_error", "relative_residual"
Ratios = dict[tuple[str, float], float]  # clustered over plain, by clusters and noise


class Reading(NamedTuple):
    """One interpretation of a claim."""

    words: str
    noise_on: NoiseOn
    measure: Callable[[ConvergenceFigure, Columns], Pair]


def to_the_same(axis: str, quantity: str) -> Callable[[ConvergenceFigure, Columns], Pair]:
    """Measure the cost, by `axis`, to reduce `quantity` to the goal, or to the lowest value that both reached."""
    return lambda figure, lines: needed(lines, figure.names, axis, quantity, figure.goal if quantity == ERROR else 0.0)[
        0
    ]


def after_steps(n_steps: int) -> Callable[[ConvergenceFigure, Columns], Pair]:
    """Measure the residual after `n_steps` steps."""
    return lambda figure, lines: after(lines, figure.names, n_steps, RESIDUAL)


def in_the_end(quantity: str) -> Callable[[ConvergenceFigure, Columns], Pair]:
    """Measure the final level of `quantity`."""
    return lambda figure, lines: at_the_end(lines, figure.names, quantity)


FEW = (1, 2, 5, 10)
BY_ERROR = {
    axis: Reading(f"{words} to the same error", "A", to_the_same(axis, ERROR))
    for axis, words in (("n_steps", "steps"), ("rows_read", "rows read"), ("seconds", "seconds"))
}
AFTER_STEPS: dict[NoiseOn, dict[int, Reading]] = {
    on: {n: Reading(f"residual after {n} step{'s' if n > 1 else ''}", on, after_steps(n)) for n in FEW}
    for on in ("A", "A after b")
}
SAME_RESIDUAL = Reading("steps to the same residual", "A", to_the_same("n_steps", RESIDUAL))
END_AFTER_B = (
    Reading("residual at the end", "A after b", in_the_end(RESIDUAL)),
    Reading("error of x at the end", "A after b", in_the_end(ERROR)),
)
END_IN_B = (
    Reading("residual at the end", "b", in_the_end(RESIDUAL)),
    Reading("error of x at the end", "b", in_the_end(ERROR)),
)


def table_of(figure: Figure) -> Columns:
    """Return the lines that the command wrote."""
    name = f"figure-{figure.name}.csv" if figure.name.isdigit() else f"{figure.name}.csv"
    return Results(HERE / "paper" / name, figure).columns()


def markdown(header: list[str], lines: list[list[str]]) -> str:
    """Return a table."""
    rows = [header, ["---"] * len(header), *lines]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def pair_of(figure: ConvergenceFigure, table: Columns, reading: Reading, clusters: str, noise: float) -> Pair:
    """Return the values of a reading for one kind of system."""
    case = Case(clusters, reading.noise_on, noise)
    return reading.measure(figure, only(table, **case._asdict()))


def ratios_of(figure: ConvergenceFigure, table: Columns, reading: Reading) -> Ratios:
    """Return clustered over plain for every kind of system, the median over the seeds."""
    kinds = [(clusters, noise) for clusters in ("loose", "tight") for noise in figure.noises]
    return {kind: float(np.median(pair_of(figure, table, reading, *kind).ratios)) for kind in kinds}


def verdict(ratio: float) -> str:
    """Return whether a claim holds, given the value of the clustered method divided by that of the plain one."""
    if ratio < 1 / LEVEL:
        return "**holds**"
    return "level" if ratio <= LEVEL else "does **not** hold"


def in_words(ratios: Ratios) -> str:
    """Return the verdict on loose and on tight clusters, and for each noise level if it differs between them."""
    if len({verdict(ratio) for ratio in ratios.values()}) == 1:
        return f"{verdict(min(ratios.values()))} on loose and tight clusters ({_range(ratios.values())})"
    parts = []
    for clusters in ("loose", "tight"):
        here = {noise: ratio for (kind, noise), ratio in ratios.items() if kind == clusters}
        if len({verdict(ratio) for ratio in here.values()}) == 1:
            parts.append(f"{verdict(min(here.values()))} on {clusters} clusters ({_range(here.values())})")
        else:
            each = (f"{verdict(ratio)} at noise {noise:g} ({_ratio(ratio)})" for noise, ratio in here.items())
            parts.append(f"on {clusters} clusters {' and '.join(each)}")
    return ", ".join(parts)


def _range(ratios: Collection[float]) -> str:
    return " to ".join(dict.fromkeys(map(_ratio, (min(ratios), max(ratios)))))


def _ratio(ratio: float) -> str:
    return f"{ratio:.2g}" if ratio < 0.1 else f"{ratio:.2f}" if ratio < 10 else f"{ratio:.1f}"


def claim(figure: ConvergenceFigure, readings: dict[str, list[Reading]]) -> str:
    """Return one line for each group of `readings`."""
    table, lines = table_of(figure), []
    for head, some in readings.items():
        said = (f"{one.words.capitalize()}: {in_words(ratios_of(figure, table, one))}." for one in some)
        lines.append(f"- *{head}.* {' '.join(said)}\n")
    return "".join(lines)


def speed(figure: ConvergenceFigure) -> str:
    """Say in which readings the clustered version converges faster."""
    agree, after_b = AFTER_STEPS["A"], AFTER_STEPS["A after b"]
    return claim(
        figure,
        {
            "By the error of x": [BY_ERROR["n_steps"], BY_ERROR["rows_read"]],
            "By the residual": [agree[1], agree[10], SAME_RESIDUAL],
            "With noise on A after b": [after_b[1], after_b[10], *END_AFTER_B],
        },
    )


def robustness(figure: ConvergenceFigure, the_map: MapFigure) -> str:
    """Say in which readings clusters reduce the effect of noise, and whether single rows are as good."""
    said = claim(figure, {"With noise in b": list(END_IN_B), "With noise on A after b": list(END_AFTER_B)})
    found = only(table_of(the_map), noise_on="b")
    close = [
        max(two) <= LEVEL * min(two)
        for two in (_medians(cell, "floor", ("cluster-block", "randomized")) for cell in _cells(found))
    ]
    return said + (
        "- *With noise in b, compared with single random rows.* The final error of cluster-block is within "
        f"{LEVEL - 1:.0%} of theirs in {sum(close)} of {len(close)} cells of the map.\n"
    )


def comparison(figure: ConvergenceFigure) -> str:
    """Return the values of each reading: the method, its clustered version, and the ratio with its range."""
    table, lines = table_of(figure), []
    groups = {
        "noise on A": [*BY_ERROR.values(), *AFTER_STEPS["A"].values(), SAME_RESIDUAL],
        "noise on A after b": [*AFTER_STEPS["A after b"].values(), *END_AFTER_B],
        "noise in b": list(END_IN_B) if "b" in figure.noisy else [],
    }
    kinds = [(clusters, noise) for clusters in ("loose", "tight") for noise in figure.noises]
    for head, readings in groups.items():
        for one in readings:
            cells = [_cell(pair_of(figure, table, one, *kind)) for kind in kinds]
            lines.append([f"{head}: {one.words}", *cells])
    return markdown(["", *(f"{clusters}, {noise:g}" for clusters, noise in kinds)], lines)


def _cell(pair: Pair) -> str:
    numbers = ", ".join(_number(np.median(half)) for half in pair)
    return f"{numbers}: **{_ratio(np.median(pair.ratios))}** ({_range(pair.ratios)})"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2g}"


def spectra(figure: Figure) -> str:
    """Return the medians of figure 3, and the number of blocks of full size."""
    table, lines = table_of(figure), []
    for clusters in ("loose", "tight"):
        for noise in np.unique(table["noise"]):
            found = only(table, clusters=clusters, noise=noise)
            medians = [_medians(found, name, ("block", "cluster-block")) for name in SPECTRA]
            n_blocks = only(found, method="cluster-block")["seed"].size
            lines.append([clusters, f"{noise:g}", *(f"{one:.4g}" for two in medians for one in two), f"{n_blocks:,}"])
    head = ["clusters", "noise on A", "condition, block", "condition, cluster-block"]
    return markdown([*head, "norm, block", "norm, cluster-block", "cluster blocks"], lines)


def conditioning(figure: Figure) -> str:
    """Say whether the blocks across clusters have a smaller condition number and spectral norm."""
    table, lines = table_of(figure), []
    for name, words in SPECTRA.items():
        ratios: Ratios = {}
        for clusters in ("loose", "tight"):
            for noise in np.unique(table["noise"]):
                plain, clustered = _medians(
                    only(table, clusters=clusters, noise=noise), name, ("block", "cluster-block")
                )
                ratios[clusters, float(noise)] = clustered / plain
        lower = sum(ratio < 1.0 for ratio in ratios.values())
        lines.append(f"- *{words}.* {in_words(ratios).capitalize()}; lower in {lower} of {len(ratios)} medians.\n")
    return "".join(lines)


def sketches(figure: Figure) -> str:
    """Return the median error at the end of each curve."""
    table, lines = table_of(figure), []
    for method in ("randomized", "jl", "jl, refreshed"):
        found = only(table, method=method)
        last = only(found, n_steps=found["n_steps"].max())
        reads = np.median(last["rows_read"]) / figure.n_rows
        lines.append([method, f"{np.median(last['relative_error']):.1e}", f"{reads:.1f}"])
    return markdown(["method", "error after 4p steps", "passes over A"], lines)


def winners(figure: MapFigure) -> str:
    """Count the cells of the map that each method wins, and give the range of the factor.

    For a method that did not reach the goal, the rows allowed are used.
    """
    table, lines = table_of(figure), []
    limit = figure.rows_per_column * figure.n_columns
    for on, name, _ in PANELS:
        wins: Counter[str] = Counter()
        factors = []
        for cell in _cells(only(table, noise_on=on)):
            medians = dict(zip(SHORT, _medians(cell, name, tuple(SHORT)), strict=True))
            wins[min(medians, key=medians.__getitem__)] += 1
            factors.append(medians["block"] / min(medians["cluster-block"], limit))
        what = "rows to 1e-4, noise on A" if on == "A" else "final error, noise in b"
        counts = [str(wins[method]) for method in NAMES]
        lines.append([what, *counts, f"{min(factors):.2g} to {max(factors):.2g}"])
    return markdown(["", *(f"cells where {name} is best" for name in NAMES), "block / cluster-block"], lines)


def _cells(lines: Columns) -> list[Columns]:
    """Return the lines of each cell of the map."""
    separations, noises = np.unique(lines["separation"]), np.unique(lines["noise"])
    return [only(lines, separation=separation, noise=noise) for separation in separations for noise in noises]


def _medians(lines: Columns, name: str, methods: tuple[str, ...]) -> list[float]:
    return [float(np.median(only(lines, method=method)[name])) for method in methods]


def filled(text: str) -> str:
    """Return `text` with the tables and the results regenerated."""
    figures = figures_of("full")
    first, second = figures["1"], figures["2"]
    assert isinstance(first, ConvergenceFigure)
    assert isinstance(second, ConvergenceFigure)
    assert isinstance(figures["map"], MapFigure)
    for name, content in {
        "verdict on figure 1": speed(first),
        "verdict on figure 2": speed(second),
        "verdict on figure 3": conditioning(figures["3"]),
        "verdict on noise": robustness(second, figures["map"]),
        "figure 1": comparison(first),
        "figure 2": comparison(second),
        "figure 3": spectra(figures["3"]),
        "map": winners(figures["map"]),
        "sketch": sketches(figures["sketch"]),
    }.items():
        text = put(text, name, content)
    return text


def main() -> None:
    """Rewrite the tables and the results of docs/paper.md."""
    path = HERE / "paper.md"
    path.write_text(filled(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
