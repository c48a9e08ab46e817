"""The figure of `wild.py`: all ratios by family, with one colour for each condition."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.ticker import LogLocator, NullFormatter
from wild_report import CONDITIONS, Result, is_small, ratio_of

from rowsolve.experiments.style import new_figure, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = {"rested": "#0072B2", "product": "#E69F00", "busy": "#CC79A7"}
LABELS = {**CONDITIONS, "busy": f"{CONDITIONS['busy']}: threads=1 / default"}
BAND = "#F3F3F3"


def picture_of(results: list[Result]) -> Figure:
    """Return one line per family: a dot for each draw (hollow if the difference counts) and a tick at the median."""
    names = list(dict.fromkeys(one["family"] for one in results))
    ways = [way for way in COLOURS if any(way in one["seconds"] for one in results)]
    figure = new_figure(9.0, 2.0 + 0.27 * len(names))
    axes: Axes = figure.subplots()
    axes.set_xscale("log")
    axes.axvline(1.0, color="black", linewidth=1.0, zorder=1)
    for y, name in enumerate(names):
        if y % 2:
            axes.axhspan(y - 0.5, y + 0.5, color=BAND, linewidth=0, zorder=0)
        for place, way in enumerate(ways):
            at = y + (place - (len(ways) - 1) / 2) * 0.8 / len(ways)
            _dots(axes, at, [one for one in results if one["family"] == name and way in one["seconds"]], way)
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.set_xlabel("time of the best peer / time of rowsolve (log scale): right of 1 rowsolve is faster")
    figure.suptitle(f"Time to a true relative error of 1e-6 on {len(results)} random draws", fontsize=12)
    tidy(axes)
    axes.grid(visible=False, axis="y")
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.xaxis.set_minor_formatter(NullFormatter())
    _legend(axes, ways)
    return figure


def _dots(axes: Axes, y: float, results: list[Result], way: str) -> None:
    found = [(ratio_of(one, way)[0], is_small(one, way)) for one in results]
    found = [(ratio, small) for ratio, small in found if np.isfinite(ratio)]
    for small in (False, True):
        ratios = [ratio for ratio, one in found if one == small]
        fill = "none" if small else COLOURS[way]
        axes.scatter(ratios, [y] * len(ratios), s=22, facecolors=fill, edgecolors=COLOURS[way], alpha=0.7, zorder=3)
    if found:
        axes.plot(np.median([ratio for ratio, _ in found]), y, "|", color="black", markersize=9, zorder=4)


def _legend(axes: Axes, ways: list[str]) -> None:
    shapes = [axes.plot([], [], "o", color=COLOURS[way], label=LABELS[way])[0] for way in ways]
    shapes += [
        axes.plot([], [], "o", color="grey", fillstyle="none", label="best peer below 1 ms")[0],
        axes.plot([], [], "|", color="black", markersize=9, label="median")[0],
    ]
    axes.legend(handles=shapes, loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=3, frameon=False, fontsize=8)
