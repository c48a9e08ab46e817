"""Figure 3: condition numbers and spectral norms of the blocks on which `block` and `cluster-block` project."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from rowsolve.experiments.figure import Columns, Figure, Line, only
from rowsolve.experiments.problems import clustered_system
from rowsolve.experiments.style import COLOURS, new_figure, tidy
from rowsolve.partition.clusters import cluster_rows, partition_across
from rowsolve.problem.system import System
from rowsolve.sources import open_rows

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

__all__ = ["SpectraFigure", "cluster_blocks", "random_blocks"]

METHODS = ("block", "cluster-block")
QUANTITIES = (("condition_number", "condition number of a block"), ("spectral_norm", "spectral norm of a block"))


@dataclass(frozen=True)
class SpectraFigure(Figure):
    """Figure 3. The rows are not normalised, and only blocks of full size are compared."""

    noises: tuple[float, ...] = (0.1, 0.2)
    n_blocks: int = 200  # at most, for each method, system and seed

    name: ClassVar[str] = "3"
    columns: ClassVar[tuple[str, ...]] = (
        "clusters", "noise", "method", "block_size", "condition_number", "spectral_norm",
    )  # fmt: skip

    @property
    def cases(self) -> list[tuple[str, float]]:
        """All systems, in the order of the panels."""
        return [(clusters, noise) for clusters in ("loose", "tight") for noise in self.noises]

    @property
    def n_steps(self) -> int:
        """One per system."""
        return len(self.cases)

    def steps(self, seed: int) -> Iterator[tuple[str, list[Line]]]:
        """Draw blocks in both ways and compute their singular values."""
        for number, (clusters, noise) in enumerate(self.cases):
            rng = np.random.default_rng([seed, number])
            A, b, _, _ = clustered_system(
                self.n_rows, self.n_columns, self.n_clusters, clusters, "A", noise, rng,  # type: ignore[arg-type]
            )  # fmt: skip
            lines: list[Line] = []
            for method, blocks in (
                ("block", random_blocks(self.n_rows, self.n_clusters, self.n_blocks, rng)),
                ("cluster-block", cluster_blocks(A, b, self.n_clusters, self.n_blocks, rng)),
            ):
                values = np.linalg.svd(A[blocks], compute_uv=False)
                lines += [(clusters, noise, method, one.size, one[0] / one[-1], one[0]) for one in values]
            yield f"{clusters}, noise {noise:g}", lines

    def draw(self, table: Columns) -> Picture:
        """Plot a row of box plots for each quantity."""
        picture = new_figure(3.0 * len(self.cases), 6.6)
        panels: Any = picture.subplots(2, len(self.cases), squeeze=False)
        for column, (clusters, noise) in enumerate(self.cases):
            lines = only(table, clusters=clusters, noise=noise)
            for row, (name, words) in enumerate(QUANTITIES):
                axes = panels[row, column]
                values = [only(lines, method=method)[name] for method in METHODS]
                _draw_boxes(axes, values)
                axes.set_ylabel(words if column == 0 else "")
                medians = " and ".join(f"{np.median(one):.4g}" for one in values)
                axes.set_title(f"{clusters} clusters, noise {noise:g}\nmedians {medians}", fontsize=10)
        picture.suptitle(
            f"Figure 3: blocks of {self.n_clusters} rows, not normalised; {self.n_rows:,} x {self.n_columns:,}; "
            f"{len(np.unique(table['seed']))} seeds, up to {self.n_blocks} blocks each",
            fontsize=12,
        )
        return picture


def random_blocks(n_rows: int, size: int, n_blocks: int, rng: np.random.Generator) -> np.ndarray:
    """Return blocks as in `block`: `size` different rows, drawn uniformly."""
    return np.array([rng.choice(n_rows, size, replace=False) for _ in range(n_blocks)])


def cluster_blocks(A: np.ndarray, b: np.ndarray, size: int, n_blocks: int, rng: np.random.Generator) -> np.ndarray:
    """Return up to `n_blocks` different blocks of the partition of `cluster-block`, of full size only.

    Smaller blocks would favour the method: a single row has the condition number 1. If one of the clusters is tiny,
    there are few blocks of full size.
    """
    members, starts = partition_across(cluster_rows(System(open_rows(A), b), size, rng), rng)
    full_size = int(np.diff(starts).max())  # less than `size` if fewer clusters were found
    full = starts[:-1][np.diff(starts) == full_size]
    chosen = rng.choice(full, min(n_blocks, full.size), replace=False)
    return members[chosen[:, None] + np.arange(full_size)]


def _draw_boxes(axes: Any, values: list[np.ndarray]) -> None:
    boxes = axes.boxplot(
        values, tick_labels=METHODS, patch_artist=True, widths=0.6, showfliers=True,
        flierprops={"markersize": 2, "alpha": 0.4}, medianprops={"color": "black"},
    )  # fmt: skip
    for box, method in zip(boxes["boxes"], METHODS, strict=True):
        box.set_facecolor(COLOURS[method])
        box.set_alpha(0.75)
    tidy(axes)
