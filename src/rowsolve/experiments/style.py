"""The style of all figures: one colour per method, from the colour-blind safe palette of Okabe and Ito."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

__all__ = ["COLOURS", "DASHES", "blank_axes", "new_figure", "require_matplotlib", "scale_between", "tidy"]

COLOURS = {
    "jl": "#E69F00",
    "jl, refreshed": "#56B4E9",
    "cluster-jl": "#009E73",
    "block": "#D55E00",
    "cluster-block": "#0072B2",
    "randomized": "#CC79A7",
}
# Line styles in addition to colours, for printing in black and white.
DASHES = {"jl": "--", "jl, refreshed": "-", "block": "--", "cluster-jl": "-", "cluster-block": "-", "randomized": ":"}


def require_matplotlib() -> None:
    """Raise ImportError, with the command that installs matplotlib, if it is missing."""
    if find_spec("matplotlib") is None:
        raise ImportError("Figures need matplotlib: pip install 'rowsolve[plot]'.")


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of this size in inches, which needs no display."""
    require_matplotlib()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=100, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def blank_axes(width: float, height: float) -> Axes:
    """Return axes that fill a new figure, with inches as units and nothing drawn: for a diagram."""
    figure = new_figure(width, height)
    figure.set_layout_engine("none")
    axes: Axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set_xlim(0.0, width)
    axes.set_ylim(0.0, height)
    axes.set_axis_off()
    return axes


def scale_between(low: str, high: str) -> Colormap:
    """Return a colour map from the colour of method `low` through white to that of method `high`."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list(f"{low} to {high}", [COLOURS[low], "#FFFFFF", COLOURS[high]])


def tidy(axes: Axes) -> None:
    """Remove the top and right spines and add a faint grid."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(visible=True, alpha=0.25, linewidth=0.6)
    axes.tick_params(labelsize=9)
