"""Plots of a race, and of the ratios of many races."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rowsolve.experiments.style import new_figure, tidy
from rowsolve.race.report import ratio_in_words, seconds_in_words
from rowsolve.race.results import REACHED, Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw_race", "draw_ratios"]

MET, SHORT, BAND = "#0072B2", "#D55E00", "#F3F3F3"
OURS, OTHERS = "#0072B2", "#999999"


def draw_race(result: Result, errors: Sequence[tuple[float, float, float]]) -> Figure:
    """Return a plot of our error during the solve, and of the times of all contestants that reached the error.

    Each of `errors` consists of the passes over A, the estimated error and the true error.
    """
    figure = new_figure(9.5, 3.8)
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    passes, estimated, true = zip(*errors, strict=True)
    left.semilogy(passes, estimated, ".-", color=OURS, label="estimate")
    left.semilogy(passes, true, ".--", color=SHORT, label="true error")
    left.axhline(result.error, color="grey", linewidth=0.8, linestyle=":", label=f"tolerance: {result.error:g}")
    left.set(xlabel="rows read / rows of A (passes)", ylabel="relative error of x")
    left.set_title(f"{result.n_rows:,} x {result.n_columns:,}: error while solving", fontsize=10)
    left.legend(fontsize=9)
    raced = [one for one in result.outcomes if one.verdict == REACHED][::-1]
    seconds = [one.best for one in raced]
    bars = right.barh([one.name for one in raced], seconds, color=[OURS if one.ours else OTHERS for one in raced])
    right.bar_label(bars, [seconds_in_words(value) for value in seconds], padding=3, fontsize=9)
    right.set(xscale="log", xlim=(min(seconds) / 2, max(seconds) * 6), xlabel="seconds (log scale)")
    right.set_title(f"time to a true error of {result.error:g}", fontsize=10)
    for axes in (left, right):
        tidy(axes)
    right.grid(visible=False)
    return figure


def draw_ratios(results: Sequence[Result]) -> Figure:
    """Return a plot with one line per case: a dot at the ratio to the best peer, a tick at the target, a line at 1."""
    figure = new_figure(9.0, 1.6 + 0.27 * len(results))
    axes: Axes = figure.subplots()
    low, high = _limits(results)
    axes.set_xscale("log")
    axes.set_xlim(low, high)
    axes.set_ylim(len(results) - 0.4, -0.6)
    _draw_bands(axes, results)
    axes.axvline(1.0, color="black", linewidth=1.0, zorder=1)
    for y, result in enumerate(results):
        _draw_case(axes, y, result, low, high)
    axes.set_yticks(range(len(results)), [result.case for result in results])
    errors = sorted({f"{result.error:g}" for result in results})
    figure.suptitle(f"Time to a true relative error of {' or '.join(errors)}", fontsize=12)
    axes.set_xlabel("time of the best peer / time of rowsolve (log scale): right of 1 rowsolve is faster")
    tidy(axes)
    axes.grid(visible=False, axis="y")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    if any(result.target for result in results):
        _add_legend(axes)
    return figure


def _limits(results: Sequence[Result]) -> tuple[float, float]:
    """Return axis limits for all ratios and targets, with space for text on the right."""
    values = [value for one in results for value in (one.best_ratio, one.target or 1.0) if 0.0 < value < math.inf]
    low, high = min([0.5, *values]), max([2.0, *values])
    return low / 1.6, high * (high / low) ** 0.3 * 1.6


def _draw_bands(axes: Axes, results: Sequence[Result]) -> None:
    """Shade every other family."""
    families = list(dict.fromkeys(result.family for result in results))
    for y, result in enumerate(results):
        if families.index(result.family) % 2:
            axes.axhspan(y - 0.5, y + 0.5, color=BAND, linewidth=0, zorder=0)


def _draw_case(axes: Axes, y: int, result: Result, low: float, high: float) -> None:
    ratio = result.best_ratio
    colour = SHORT if result.on_target is False else MET
    if result.target:
        axes.plot([result.target] * 2, [y - 0.32, y + 0.32], color="grey", linewidth=2.0, zorder=2)
    if 0.0 < ratio < math.inf:
        axes.plot([1.0, ratio], [y, y], color=colour, linewidth=1.5, alpha=0.45, zorder=2)
        axes.plot(ratio, y, "o", color=colour, markersize=6, zorder=3)
        peer = result.best_peer
        words = f"{ratio_in_words(ratio)}  {peer.name if peer else ''}"
        place = max(ratio, result.target or 0.0, 1.0)
    elif math.isinf(ratio):
        axes.plot(high / 1.1, y, ">", color=colour, markersize=7, zorder=3)
        words, place = "only rowsolve reached the error", max(result.target or 0.0, 1.0)
    else:
        axes.plot(low * 1.1, y, "X" if math.isnan(ratio) else "<", color=SHORT, markersize=7, zorder=3)
        peer = result.best_peer
        words = f"rowsolve did not reach the error, {peer.name} did" if peer else "no solver reached the error"
        place = max(result.target or 0.0, 1.0)
    axes.annotate(
        words, (place, y), xytext=(7, 0), textcoords="offset points", va="center", fontsize=8, color="#333333"
    )


def _add_legend(axes: Axes) -> None:
    shapes = [
        axes.plot([], [], "o", color=MET, label="target met")[0],
        axes.plot([], [], "o", color=SHORT, label="target missed")[0],
        axes.plot([], [], "|", color="grey", markersize=9, markeredgewidth=2, label="target")[0],
    ]
    axes.legend(handles=shapes, loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=3, frameon=False, fontsize=9)
