"""The map, which is not in the paper: the fastest method against the separation of the clusters and the noise."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

import rowsolve
from rowsolve.experiments.figure import Columns, Figure, Line, only
from rowsolve.experiments.problems import clustered_system
from rowsolve.experiments.style import new_figure, scale_between
from rowsolve.experiments.tracing import Point, floor_of, rows_to, trace

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

__all__ = ["MapFigure"]

SHORT = {"block": "block", "cluster-block": "cluster", "randomized": "single"}
PANELS: tuple[tuple[Literal["A", "b"], str, str], ...] = (
    ("A", "rows_read", "rows read to an error of {goal:g}\nnoise on A: consistent system"),
    ("b", "floor", "final error\nnoise in b, 0.1 on A: inconsistent system"),
)


@dataclass(frozen=True)
class MapFigure(Figure):
    """The rows to reach `goal` for consistent systems, and the final level of the error for noise in b.

    With noise on A only its ratio to the separation matters, since scaling A has no effect: that panel is constant
    along its diagonals. ``rows_read`` includes ``rows_prepared``, the rows read for norms or clusters.
    """

    separations: tuple[float, ...] = (0.03, 0.06, 0.12, 0.25, 0.5, 1.0)
    noises: tuple[float, ...] = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)
    goal: float = 1e-4
    rows_per_column: float = 4000
    rows_per_column_noisy: float = 600

    name: ClassVar[str] = "map"
    columns: ClassVar[tuple[str, ...]] = (
        "noise_on", "separation", "noise", "method", "rows_prepared", "rows_read", "floor",
    )  # fmt: skip

    @property
    def cells(self) -> list[tuple[Literal["A", "b"], float, float]]:
        """What noise is added to, separation, and noise of all systems."""
        return [(on, s, noise) for on, _, _ in PANELS for s in self.separations for noise in self.noises]

    @property
    def n_steps(self) -> int:
        """One per system."""
        return len(self.cells)

    def steps(self, seed: int) -> Iterator[tuple[str, list[Line]]]:
        """Run the three methods on every system."""
        for number, (on, separation, noise) in enumerate(self.cells):
            A, b, x_true, _ = clustered_system(
                self.n_rows, self.n_columns, self.n_clusters, separation, on, noise,
                np.random.default_rng([seed, number]),
            )  # fmt: skip
            budget = (self.rows_per_column if on == "A" else self.rows_per_column_noisy) * self.n_columns
            lines: list[Line] = []
            for method in self._methods():
                points = trace(
                    A, b, x_true, method, rows_a_step=1, max_rows=budget,
                    goal=self.goal if on == "A" else 0.0, rng=seed,
                )  # fmt: skip
                lines.append((on, separation, noise, method.name, points[0].n_rows, *self._found(points, on)))
            yield f"separation {separation:g}, noise {noise:g} on {on}", lines

    def _found(self, points: list[Point], noise_on: str) -> tuple[float, float]:
        """Return the rows to reach the goal and the final level of the error, whichever applies; else NaN."""
        if noise_on == "A":
            return rows_to(points, self.goal), np.nan
        return np.nan, floor_of(np.array([one.n_rows for one in points]), np.array([one.error for one in points]))

    def _methods(self) -> tuple[rowsolve.Method, ...]:
        return (
            rowsolve.Block(block_size=self.n_clusters),
            rowsolve.ClusterBlock(n_clusters=self.n_clusters),
            rowsolve.Randomized(),
        )

    def draw(self, table: Columns) -> Picture:
        """Plot a heat map of the ratio block / cluster-block with the best of the three methods in each cell."""
        picture = new_figure(13.0, 6.2)
        panels: Any = picture.subplots(1, len(PANELS), squeeze=False)[0]
        for axes, (on, name, title) in zip(panels, PANELS, strict=True):
            image = self._draw_panel(axes, only(table, noise_on=on), name)
            axes.set_title(title.format(goal=self.goal), fontsize=10)
            what = "noise: standard deviation" + ("" if on == "A" else " / that of A x")
            axes.set_xlabel(what)
            axes.set_ylabel("separation: size of an entry of a centroid")
            _add_bar(picture, image, axes, "rows" if on == "A" else "error")
        picture.suptitle(
            f"{self.n_rows:,} x {self.n_columns:,}, {self.n_clusters} clusters, median of "
            f"{len(np.unique(table['seed']))} seeds. Each cell: the best method (cluster = cluster-block, "
            "single = randomized),\nand the ratio block / cluster-block; ~: within 5 %",
            fontsize=12,
        )
        return picture

    def _draw_panel(self, axes: Any, lines: Columns, name: str) -> Any:
        limit = self.rows_per_column * self.n_columns
        factors = np.ones((len(self.separations), len(self.noises)))
        colours = scale_between("block", "cluster-block")
        for i, separation in enumerate(self.separations):
            for j, noise in enumerate(self.noises):
                cell = only(lines, separation=separation, noise=noise)
                medians = {method: np.median(only(cell, method=method)[name]) for method in SHORT}
                factors[i, j], words = _verdict(medians, limit)
                dark = np.mean(colours(0.5 + 0.5 * np.log10(factors[i, j]))[:3]) < 0.5
                axes.text(j, i, words, ha="center", va="center", fontsize=8, color="white" if dark else "black")
        image = axes.imshow(
            np.log10(factors), cmap=colours, vmin=-1, vmax=1,
            origin="lower", aspect="auto",
        )  # fmt: skip
        axes.set_xticks(range(len(self.noises)), [f"{value:g}" for value in self.noises])
        axes.set_yticks(range(len(self.separations)), [f"{value:g}" for value in self.separations])
        return image


def _verdict(medians: dict[str, float], limit: float) -> tuple[float, str]:
    """Return the factor block / cluster-block, and the text of a cell: the best method and the factor.

    A method that did not reach the goal needs at least `limit` rows: the factor is then a bound.
    """
    known = {method: min(value, limit) for method, value in medians.items()}
    factor = known["block"] / known["cluster-block"]
    best = min(medians, key=lambda method: medians[method])
    if np.isinf(medians[best]):
        return 1.0, "none"
    second = min((method for method in medians if method != best), key=lambda method: medians[method])
    sign = "≤ " if np.isinf(medians["cluster-block"]) else "≥ " if np.isinf(medians["block"]) else ""
    even = f"{medians[second]:.2g}" == f"{medians[best]:.2g}"  # to the digits shown
    winner = f"{SHORT[best]}\n~ {SHORT[second]}" if even else SHORT[best]
    return factor, f"{winner}\n{sign}{factor:.2g}"


def _add_bar(picture: Any, image: Any, axes: Any, what: str) -> None:
    bar = picture.colorbar(image, ax=axes, shrink=0.9)
    bar.set_ticks([-1, -0.5, 0, 0.5, 1], labels=["≤ 0.1", "0.3", "1", "3", "≥ 10"])
    bar.set_label(f"{what} of block / {what} of cluster-block (below 1, block is better)", fontsize=9)
