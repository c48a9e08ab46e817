"""Figures 1 and 2: error and residual of a method and of its clustered version, in each interpretation of the paper."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import numpy as np

import rowsolve
from rowsolve.experiments.comparing import after, at_the_end, by_seed, needed
from rowsolve.experiments.figure import Columns, Figure, Line, only
from rowsolve.experiments.problems import NoiseOn, clustered_system, least_squares
from rowsolve.experiments.style import COLOURS, DASHES, new_figure, tidy
from rowsolve.experiments.tracing import first_steps, relative_residuals, thinned, trace

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Picture

__all__ = ["BlockFigure", "ConvergenceFigure", "JLFigure"]

AXES = {"n_steps": "iterations", "rows_read": "rows read", "seconds": "time"}
WHERE = {"A": "on A", "b": "in b, 0.1 on A", "A after b": "on A after b"}


class Row(NamedTuple):
    """A row of panels: an interpretation of the noise in the paper, and of the axes of its figures."""

    noise_on: NoiseOn
    axis: Literal["n_steps", "rows_read", "seconds"]
    quantity: Literal["relative_error", "relative_residual"]
    from_the_first: bool  # on a logarithmic axis, so that the first steps are seen

    def words(self) -> str:
        """Return the label of the vertical axis."""
        if self.quantity == "relative_residual":
            return "relative residual" + ("" if self.noise_on == "A" else "\n(dotted: least squares)")
        return "relative error of x" + ("\n(x*: least squares)" if self.noise_on == "A after b" else "")


ROWS = (
    Row("A", "n_steps", "relative_error", from_the_first=False),
    Row("A", "rows_read", "relative_error", from_the_first=False),
    Row("A", "seconds", "relative_error", from_the_first=False),
    Row("A", "n_steps", "relative_residual", from_the_first=True),
    Row("A after b", "n_steps", "relative_residual", from_the_first=True),
    Row("A after b", "n_steps", "relative_error", from_the_first=True),
    Row("b", "n_steps", "relative_residual", from_the_first=True),
    Row("b", "n_steps", "relative_error", from_the_first=True),
)


class Case(NamedTuple):
    """One kind of system."""

    clusters: Literal["loose", "tight"]
    noise_on: NoiseOn
    noise: float


@dataclass(frozen=True)
class ConvergenceFigure(Figure):
    """Runs of two methods until `goal` is reached, or ``rows_per_column * p`` rows are read.

    Besides one run per seed, sampled about every p rows (with ``n_draws`` 1 in the table), there are the `first` steps:
    medians over `n_draws` runs on the same system, which are not timed.
    """

    noises: tuple[float, ...] = (0.1, 0.2)
    goal: float = 1e-6
    rows_per_column: float = 3000
    rows_per_column_noisy: float = 800
    first: tuple[int, ...] = (1, 2, 5, 10, 20, 50, 100)
    n_draws: int = 15

    columns: ClassVar[tuple[str, ...]] = (
        "clusters", "noise_on", "noise", "method", "n_draws", "n_steps", "rows_read", "seconds",
        "relative_error", "relative_residual", "least_residual",
    )  # fmt: skip
    noisy: ClassVar[tuple[NoiseOn, ...]]
    rows_a_step: ClassVar[int]
    title: ClassVar[str]

    @abstractmethod
    def methods(self) -> tuple[rowsolve.Method, rowsolve.Method]:
        """Return the method and its clustered version."""

    @property
    def cases(self) -> list[Case]:
        """All systems, in the order of the panels."""
        return [Case(c, on, noise) for on in self.noisy for c in ("loose", "tight") for noise in self.noises]

    @property
    def n_steps(self) -> int:
        """One per curve."""
        return 2 * len(self.cases)

    def steps(self, seed: int) -> Iterator[tuple[str, list[Line]]]:
        """Run both methods on every system."""
        for number, case in enumerate(self.cases):
            A, b, x, least = self._system(case, np.random.default_rng([seed, number]))
            for method in self.methods():
                lines = self._curve(A, b, x, method, case, seed)
                yield (
                    f"{case.clusters}, noise {case.noise:g} {WHERE[case.noise_on]}, {method.name}",
                    [(*case, method.name, *line, least) for line in lines],
                )

    def _system(self, case: Case, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
        """Return A, b, the x with respect to which errors are measured, and the least relative residual.

        That x is the one from which b was computed, or the least-squares solution for noise on A after b, for which the
        former cannot be recovered.
        """
        A, b, x_true, _ = clustered_system(
            self.n_rows, self.n_columns, self.n_clusters, case.clusters, case.noise_on, case.noise, rng
        )
        if case.noise_on == "A":
            return A, b, x_true, 0.0
        best = least_squares(A, b)
        return A, b, x_true if case.noise_on == "b" else best, float(relative_residuals(A, b, best))

    def _curve(self, A, b, x_true, method, case, seed) -> list[tuple[float, ...]]:
        """Return the lines of the first steps and of one run, the columns from ``n_draws`` to ``relative_residual``."""
        budget = self.rows_per_column if case.noise_on == "A" else self.rows_per_column_noisy
        points = thinned(
            trace(
                A, b, x_true, method, rows_a_step=self.rows_a_step, max_rows=budget * self.n_columns,
                goal=self.goal, rng=seed,
            )
        )  # fmt: skip
        residuals = relative_residuals(A, b, np.array([point.x for point in points]))
        run = [(1, *point[:4], residual) for point, residual in zip(points, residuals, strict=True)]
        steps = tuple(step for step in self.first if step < points[1].n_steps)
        n_rows, x = first_steps(A, b, method, steps, self.n_draws, np.random.default_rng(seed))
        errors = np.linalg.norm(x - x_true, axis=-1) / np.linalg.norm(x_true)
        medians = (np.median(one, axis=0) for one in (n_rows, errors, relative_residuals(A, b, x)))
        first = [(self.n_draws, step, n, np.nan, *rest) for step, n, *rest in zip(steps, *medians, strict=True)]
        return [*first, *run]

    def draw(self, table: Columns) -> Picture:
        """Plot a column of panels for each kind of clusters and noise, and a row of panels for each interpretation."""
        columns = [case for case in self.cases if case.noise_on == "A"]
        rows = [row for row in ROWS if row.noise_on in self.noisy]
        picture = new_figure(3.4 * len(columns), 2.75 * len(rows) + 0.6)
        panels: Any = picture.subplots(len(rows), len(columns), sharey="row", squeeze=False)
        for i, row in enumerate(rows):
            for j, case in enumerate(columns):
                lines = only(table, **case._replace(noise_on=row.noise_on)._asdict())
                self._draw_panel(panels[i, j], lines, row)
                head = f"{case.clusters} clusters, noise {case.noise:g} {WHERE[row.noise_on]}"
                panels[i, j].set_title(f"{head}\n{self.outcome(lines, row)}", fontsize=9)
            panels[i, 0].set_ylabel(row.words(), fontsize=9)
        panels[0, 0].legend(fontsize=9)
        picture.suptitle(
            f"{self.title}; {self.n_rows:,} x {self.n_columns:,}, {self.n_clusters} clusters; "
            f"median and range of {len(np.unique(table['seed']))} seeds",
            fontsize=12,
        )
        return picture

    def _draw_panel(self, axes: Axes, lines: Columns, row: Row) -> None:
        curves = {name: only(lines, method=name) for name in self.names}
        words = AXES[row.axis]
        for name, curve in curves.items():
            if row.from_the_first:
                grid, low, middle, high = _values_after(curve, row)
                axes.fill_between(grid, low, high, color=COLOURS[name], alpha=0.25, linewidth=0)
                axes.plot(grid, middle, DASHES[name], color=COLOURS[name], label=name)
            else:
                grid, low, middle, high = _needed_to(curve, row)
                axes.fill_betweenx(grid, low, high, color=COLOURS[name], alpha=0.25, linewidth=0)
                axes.plot(middle, grid, DASHES[name], color=COLOURS[name], label=name)
        if row.quantity == "relative_residual" and lines["least_residual"].any():
            axes.axhline(float(np.median(lines["least_residual"])), color="black", linewidth=0.8, linestyle=":")
        axes.set_yscale("log")
        if row.from_the_first:
            axes.set_xscale("log")
            words += ", log scale"
        else:
            _label_few(axes, unit="s" if row.axis == "seconds" else "")
        axes.set_xlabel(words, fontsize=9)
        tidy(axes)

    @property
    def names(self) -> tuple[str, str]:
        """The method and its clustered version."""
        plain, clustered = self.methods()
        return plain.name, clustered.name

    def outcome(self, lines: Columns, row: Row) -> str:
        """Return a summary of a panel: the cost of reaching the same error, or the first and the final values."""
        if not row.from_the_first:
            pair, level = needed(lines, self.names, row.axis, row.quantity, self.goal)
            return f"clustered / plain, to {level:.2g}: {np.median(pair.ratios):.2f}"
        first = after(lines, self.names, 1, row.quantity)
        words = "after 1 step: {:.2g}, clustered {:.2g}".format(*map(np.median, first))
        if row.noise_on == "A":
            return words
        last = at_the_end(lines, self.names, row.quantity)
        return words + "\nat the end: {:.2g}, clustered {:.2g}".format(*map(np.median, last))


@dataclass(frozen=True)
class JLFigure(ConvergenceFigure):
    """Figure 1 of the paper."""

    rows_per_column: float = 400
    rows_per_column_noisy: float = 400

    name: ClassVar[str] = "1"
    title: ClassVar[str] = "Figure 1: RKA-JL and RKA-Cluster-JL"
    noisy: ClassVar[tuple[NoiseOn, ...]] = ("A", "A after b")
    rows_a_step: ClassVar[int] = 2  # the best candidate and the first one, with which it is compared

    def methods(self) -> tuple[rowsolve.Method, rowsolve.Method]:
        """Return both methods, with the defaults of the paper."""
        return rowsolve.JL(), rowsolve.ClusterJL(n_clusters=self.n_clusters)


@dataclass(frozen=True)
class BlockFigure(ConvergenceFigure):
    """Figure 2 of the paper, and noise in b, to which the paper says that the method is robust."""

    name: ClassVar[str] = "2"
    title: ClassVar[str] = "Figure 2: RKA-Block and RKA-Cluster-Block, blocks of 4 rows"
    noisy: ClassVar[tuple[NoiseOn, ...]] = ("A", "b", "A after b")
    rows_a_step: ClassVar[int] = 4  # a smaller block counts as a fraction of a step

    def methods(self) -> tuple[rowsolve.Method, rowsolve.Method]:
        """Return both methods, with blocks of the same size."""
        return rowsolve.Block(block_size=self.n_clusters), rowsolve.ClusterBlock(n_clusters=self.n_clusters)


Band = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]  # a grid, and minimum, median and maximum over the seeds


def _values_after(curve: Columns, row: Row) -> Band:
    """Return the values over the steps, from the first step to the end of the shortest run."""
    seeds = [_sorted(one, row.axis) for one in by_seed(curve)]
    start = max(one[row.axis][one[row.axis] > 0][0] for one in seeds)
    stop = min(one[row.axis][-1] for one in seeds)
    grid = np.unique(np.clip(np.concatenate([one[row.axis] for one in seeds]), start, stop))
    values = [np.exp(np.interp(grid, one[row.axis], np.log(one[row.quantity]))) for one in seeds]
    return grid, np.min(values, axis=0), np.median(values, axis=0), np.max(values, axis=0)


def _needed_to(curve: Columns, row: Row) -> Band:
    """Return the cost of reaching each level that all seeds reached. The errors are decreasing here."""
    seeds = by_seed(curve, n_draws=1)
    stop = max(one[row.quantity][-1] for one in seeds)
    grid = np.geomspace(1.0, stop, 100)
    values = [np.interp(-np.log(grid), -np.log(one[row.quantity]), one[row.axis]) for one in seeds]
    return grid, np.min(values, axis=0), np.median(values, axis=0), np.max(values, axis=0)


def _sorted(lines: Columns, axis: str) -> Columns:
    order = np.argsort(lines[axis])
    return {name: values[order] for name, values in lines.items()}


def _label_few(axes: Axes, unit: str) -> None:
    from matplotlib.ticker import EngFormatter, MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.xaxis.set_major_formatter(EngFormatter(unit))  # such as 20 k, or 20 ms
