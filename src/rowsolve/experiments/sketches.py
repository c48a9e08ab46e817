"""The sketch figure: RKA-JL becomes less effective as x converges, unless its reference point is refreshed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

import rowsolve
from rowsolve.experiments.figure import Columns, Figure, Line, only
from rowsolve.experiments.problems import gaussian_system
from rowsolve.experiments.style import COLOURS, DASHES, new_figure, tidy

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

__all__ = ["SketchFigure"]


@dataclass(frozen=True)
class SketchFigure(Figure):
    """True error against steps, up to ``steps_per_column * p``, for a Gaussian system without clusters."""

    sketch_size: int = 32
    n_candidates: int = 100
    steps_per_column: int = 4

    name: ClassVar[str] = "sketch"
    columns: ClassVar[tuple[str, ...]] = ("method", "n_steps", "rows_read", "relative_error")

    @property
    def n_steps(self) -> int:
        """One per curve."""
        return len(self._methods())

    def _methods(self) -> dict[str, tuple[rowsolve.Method, int]]:
        """Return each method with the number of steps per burst, which does not follow from the number of rows."""
        every, burst = max(1, self.n_columns // 10), max(self.n_columns, 64)
        plain = rowsolve.JL(self.sketch_size, self.n_candidates)
        refreshed = rowsolve.JL(self.sketch_size, self.n_candidates, reference="refresh", refresh_every=every)
        return {
            "randomized": (rowsolve.Randomized(weights="uniform"), burst),
            "jl": (plain, burst // 2),
            "jl, refreshed": (refreshed, every),
        }

    def steps(self, seed: int) -> Iterator[tuple[str, list[Line]]]:
        """Run every method on the same system."""
        A, b, x_true = gaussian_system(self.n_rows, self.n_columns, seed)
        for name, (method, burst) in self._methods().items():
            yield name, [(name, *point) for point in self._trace(A, b, x_true, method, burst, seed)]

    def _trace(self, A, b, x_true, method, burst, seed) -> list[tuple[float, float, float]]:
        points = [(0.0, 0.0, 1.0)]
        norm = float(np.linalg.norm(x_true))

        def look(event: rowsolve.Event) -> bool:
            if event.stage != "solve":
                return False
            error = float(np.linalg.norm(event.x - x_true)) / norm
            points.append((points[-1][0] + burst, event.rows_read, error))
            return points[-1][0] >= self.steps_per_column * self.n_columns

        solution = rowsolve.solve(A, b, method, rtol=0.0, max_passes=1e15, rng=seed, threads=1, callback=look)
        if solution.status is rowsolve.Status.INTERRUPTED:
            raise KeyboardInterrupt  # the curve is not complete
        return points

    def draw(self, table: Columns) -> Picture:
        """Plot the median and the range over the seeds."""
        picture = new_figure(6.4, 4.4)
        axes = picture.subplots()
        for name in self._methods():
            lines = only(table, method=name)
            seeds = [only(lines, seed=seed) for seed in np.unique(lines["seed"])]
            errors = np.array([one["relative_error"] for one in seeds])
            grid = seeds[0]["n_steps"]
            axes.fill_between(
                grid, errors.min(axis=0), errors.max(axis=0), color=COLOURS[name], alpha=0.25, linewidth=0
            )
            axes.semilogy(grid, np.median(errors, axis=0), DASHES[name], color=COLOURS[name], label=name)
        axes.set_xlabel("steps")
        axes.set_ylabel("relative error of x")
        axes.set_title(
            f"Selection by sketched residuals: {self.n_rows:,} x {self.n_columns:,}, sketch size "
            f"{self.sketch_size}, {self.n_candidates} candidates;\nmedian and range of "
            f"{len(np.unique(table['seed']))} seeds. Each refresh (every {self.n_columns // 10} steps) reads all of A",
            fontsize=10,
        )
        axes.legend(fontsize=9)
        tidy(axes)
        return picture
