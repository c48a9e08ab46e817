"""Figures 1 and 2: the true error of a method and of its clustered version, against steps, rows read and seconds."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import numpy as np

import rowsolve
from rowsolve.experiments.figure import Columns, Figure, Line, only
from rowsolve.experiments.problems import clustered_system
from rowsolve.experiments.style import COLOURS, DASHES, new_figure, tidy
from rowsolve.experiments.tracing import floor_of, thinned, trace

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Picture

__all__ = ["BlockFigure", "ConvergenceFigure", "JLFigure"]

AXES = (("n_steps", "iterations"), ("rows_read", "rows read"), ("seconds", "time (seconds)"))
_SHORT_TIME = 0.2  # seconds: below it milliseconds are easier to read
_MANY = 10_000  # rows or steps: from here on they are counted in thousands
_LOPSIDED = 5.0  # one curve this many times as long as the other: a linear axis would hide the short one


class Case(NamedTuple):
    """One kind of system."""

    clusters: Literal["loose", "tight"]
    noise_on: Literal["A", "b"]
    noise: float


@dataclass(frozen=True)
class ConvergenceFigure(Figure):
    """Runs of two methods until `goal` is reached, or rows are read that often the number of columns."""

    noises: tuple[float, ...] = (0.1, 0.2)
    goal: float = 1e-6
    rows_per_column: float = 3000
    rows_per_column_noisy: float = 800

    columns: ClassVar[tuple[str, ...]] = (
        "clusters", "noise_on", "noise", "method", "n_steps", "rows_read", "seconds", "relative_error",
    )  # fmt: skip
    noisy: ClassVar[tuple[Literal["A", "b"], ...]]
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
        """One a curve."""
        return 2 * len(self.cases)

    def steps(self, seed: int) -> Iterator[tuple[str, list[Line]]]:
        """Run both methods on every system."""
        for number, case in enumerate(self.cases):
            A, b, x_true, _ = clustered_system(
                self.n_rows, self.n_columns, self.n_clusters, case.clusters, case.noise_on, case.noise,
                np.random.default_rng([seed, number]),
            )  # fmt: skip
            for method in self.methods():
                budget = self.rows_per_column if case.noise_on == "A" else self.rows_per_column_noisy
                points = trace(
                    A, b, x_true, method, rows_a_step=self.rows_a_step, max_rows=budget * self.n_columns,
                    goal=self.goal, rng=seed,
                )  # fmt: skip
                yield (
                    f"{case.clusters}, noise {case.noise:g}, {method.name}",
                    [(*case, method.name, *point) for point in thinned(points)],
                )

    def draw(self, table: Columns) -> Picture:
        """Draw a column of panels for each system; noise in b below, against rows read."""
        columns = [case for case in self.cases if case.noise_on == "A"]
        n_lines = len(AXES) + ("b" in self.noisy)
        picture = new_figure(3.4 * len(columns), 2.7 * n_lines + 0.6)
        panels: Any = picture.subplots(n_lines, len(columns), sharey="row", squeeze=False)
        for column, case in enumerate(columns):
            lines = only(table, **case._asdict())
            for row, (name, words) in enumerate(AXES):
                self._draw_panel(panels[row, column], lines, name, words)
                head = f"{case.clusters} clusters, noise {case.noise:g} on A\n" if row == 0 else ""
                panels[row, column].set_title(head + self.outcome(lines, name), fontsize=9)
            if "b" in self.noisy:
                noisy = only(table, **case._replace(noise_on="b")._asdict())
                self._draw_panel(panels[-1, column], noisy, "rows_read", "rows read")
                title = f"{case.clusters}, noise {case.noise:g} in b (0.1 on A)\n{self.floors(noisy)}"
                panels[-1, column].set_title(title, fontsize=9)
        for row in range(n_lines):
            panels[row, 0].set_ylabel("relative error of x")
        panels[0, 0].legend(fontsize=9)
        picture.suptitle(
            f"{self.title}; {self.n_rows:,} x {self.n_columns:,}, {self.n_clusters} clusters; "
            f"median and range of {len(np.unique(table['seed']))} seeds",
            fontsize=12,
        )
        return picture

    def _draw_panel(self, axes: Axes, lines: Columns, name: str, words: str) -> None:
        bands = {method.name: _band(only(lines, method=method.name), name) for method in self.methods()}
        ends = [band[0][-1] for band in bands.values()]
        unit = 1.0
        if name == "seconds" and max(ends) < _SHORT_TIME:
            unit, words = 1e3, "time (milliseconds)"
        for method, (grid, low, middle, high) in bands.items():
            axes.fill_between(grid * unit, low, high, color=COLOURS[method], alpha=0.25, linewidth=0)
            axes.plot(grid * unit, middle, DASHES[method], color=COLOURS[method], label=method)
        axes.set_yscale("log")
        if max(ends) > _LOPSIDED * min(ends):
            axes.set_xscale("log")
            words += ", log scale"
        else:
            _label_few(axes, thousands=max(ends) >= _MANY)
        axes.set_xlabel(words, fontsize=9)
        tidy(axes)

    def outcome(self, lines: Columns, name: str) -> str:
        """Say how much more of `name` the clustered version needed; where one did not arrive, how far both came."""
        halves = [_by_seed(only(lines, method=method.name)) for method in self.methods()]
        errors = [np.median([one["relative_error"][-1] for one in half]) for half in halves]
        if max(errors) <= self.goal:
            plain, clustered = (np.median([_when(one, name, self.goal) for one in half]) for half in halves)
            return f"clustered / plain, to {self.goal:g}: {clustered / plain:.2f}"
        return f"error at the end: {errors[0]:.1e}, clustered {errors[1]:.1e}" if name == "rows_read" else ""

    def floors(self, lines: Columns) -> str:
        """Say at which level the error of each method ended."""
        words = [f"{method.name} {_floor(only(lines, method=method.name)):.2g}" for method in self.methods()]
        return "floor: " + ", ".join(words)


@dataclass(frozen=True)
class JLFigure(ConvergenceFigure):
    """Figure 1 of the paper."""

    rows_per_column: float = 400

    name: ClassVar[str] = "1"
    title: ClassVar[str] = "Figure 1: RKA-JL against RKA-Cluster-JL"
    noisy: ClassVar[tuple[Literal["A", "b"], ...]] = ("A",)
    rows_a_step: ClassVar[int] = 2  # the best candidate, and the first, with which it is compared

    def methods(self) -> tuple[rowsolve.Method, rowsolve.Method]:
        """Return both, with the defaults of the paper."""
        return rowsolve.JL(), rowsolve.ClusterJL(n_clusters=self.n_clusters)


@dataclass(frozen=True)
class BlockFigure(ConvergenceFigure):
    """Figure 2 of the paper, and what it leaves out: noise in b."""

    name: ClassVar[str] = "2"
    title: ClassVar[str] = "Figure 2: RKA-Block against RKA-Cluster-Block, blocks of 4 rows"
    noisy: ClassVar[tuple[Literal["A", "b"], ...]] = ("A", "b")
    rows_a_step: ClassVar[int] = 4  # blocks of leftover rows are smaller: they count as a part of a step

    def methods(self) -> tuple[rowsolve.Method, rowsolve.Method]:
        """Return both, with blocks of the same size."""
        return rowsolve.Block(block_size=self.n_clusters), rowsolve.ClusterBlock(n_clusters=self.n_clusters)


def _by_seed(lines: Columns) -> list[Columns]:
    return [only(lines, seed=seed) for seed in np.unique(lines["seed"])]


def _floor(lines: Columns) -> float:
    """Return the median over seeds of the level that the error ends at."""
    return float(np.median([floor_of(one["rows_read"], one["relative_error"]) for one in _by_seed(lines)]))


def _band(lines: Columns, name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return a grid up to where the first seed ends, and lowest, median and highest error on it."""
    seeds = _by_seed(lines)
    start = max(one[name][0] for one in seeds)
    stop = min(one[name][-1] for one in seeds)
    known = np.concatenate([one[name] for one in seeds])
    grid = np.unique(np.clip(known, start, stop))
    errors = [np.exp(np.interp(grid, one[name], np.log(one["relative_error"]))) for one in seeds]
    return grid, np.min(errors, axis=0), np.median(errors, axis=0), np.max(errors, axis=0)


def _when(one: Columns, name: str, goal: float) -> float:
    """Return the value of `name` where the error of one run passed `goal`, between its last two points."""
    log_errors = np.log(one["relative_error"][-2:])
    return float(np.interp(-np.log(goal), -log_errors, one[name][-2:]))


def _label_few(axes: Axes, *, thousands: bool) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(5))
    if thousands:
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value / 1000:,.0f}k" if value else "0"))
