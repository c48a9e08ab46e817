"""The figures of the paper and the map, in the sizes of the paper and in small ones."""

from __future__ import annotations

from rowsolve.experiments.convergence import BlockFigure, JLFigure
from rowsolve.experiments.figure import Figure
from rowsolve.experiments.sketches import SketchFigure
from rowsolve.experiments.spectra import SpectraFigure
from rowsolve.experiments.winners import MapFigure

__all__ = ["FIGURE_NAMES", "figures_of"]

FIGURE_NAMES = ("1", "2", "3", "map", "sketch")


def figures_of(size: str) -> dict[str, Figure]:
    """Return the figures by name, for `size` "full" (10,000 x 1,000, as in the paper) or "quick".

    The map is smaller than that even for "full": it solves more than two hundred systems per seed.
    """
    if size == "full":
        return {
            "1": JLFigure("full", 10_000, 1_000, 5),
            "2": BlockFigure("full", 10_000, 1_000, 5),
            "3": SpectraFigure("full", 10_000, 1_000, 5),
            "map": MapFigure("full", 4_000, 400, 5),
            "sketch": SketchFigure("full", 20_000, 500, 5),
        }
    return {
        "1": JLFigure("quick", 1_000, 100, 3, goal=1e-4),
        "2": BlockFigure("quick", 1_000, 100, 3, goal=1e-4),
        "3": SpectraFigure("quick", 1_000, 100, 3, n_blocks=100),
        "map": MapFigure(
            "quick", 500, 50, 3, separations=(0.1, 0.3, 1.0), noises=(0.05, 0.1, 0.2, 0.4),
            rows_per_column=2000, rows_per_column_noisy=300,
        ),
        "sketch": SketchFigure("quick", 2_000, 100, 3),
    }  # fmt: skip
