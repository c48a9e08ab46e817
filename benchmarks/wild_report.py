"""The results of `wild.py` as text of 80 columns."""

from __future__ import annotations

import textwrap
from typing import Any

import numpy as np

OURS = "rowsolve"
SMALL = 1e-3  # seconds of the best peer below which the difference of the times counts, not the ratio
ALLOWED = 0.15e-3  # seconds that this difference may be
WORST = 20
BUSY = 0.1  # cores used by other programs above which the machine is not idle
CONDITIONS = {
    "rested": "idle before each call",
    "product": "right after a matrix product",
    "busy": "one core busy",
}
Result = dict[str, Any]


def ratio_of(result: Result, way: str) -> tuple[float, str, float, float]:
    """Return the ratio best peer / rowsolve, the name of the peer, and both times; infinity if there is no peer."""
    seconds = result["seconds"][way]
    peers = {name: value for name, value in seconds.items() if name != OURS}
    name = min(peers, key=peers.__getitem__, default="none")
    theirs = peers.get(name, np.inf)
    return theirs / seconds[OURS], name, theirs, seconds[OURS]


def is_small(result: Result, way: str) -> bool:
    """Whether the best peer is so fast that the difference of the times counts instead of the ratio."""
    return way != "busy" and ratio_of(result, way)[2] < SMALL


def ratios_of(results: list[Result], way: str) -> np.ndarray:
    """Return the ratios of the systems for which the ratio counts and a peer reached the error."""
    found = [ratio_of(one, way)[0] for one in results if way in one["seconds"] and not is_small(one, way)]
    return np.array([one for one in found if np.isfinite(one)])


def table_of(results: list[Result], way: str) -> list[str]:
    """Return a line for each family, and one for all."""
    lines = [f"{'family':<22}{'count':>7}{'min':>9}{'5%':>9}{'median':>9}{'max':>9}"]
    for name in [*dict.fromkeys(one["family"] for one in results), "all"]:
        ratios = ratios_of([one for one in results if name in (one["family"], "all")], way)
        if ratios.size:
            figures = "".join(f"{value:>9.3g}" for value in np.quantile(ratios, [0, 0.05, 0.5, 1]))
            lines.append(f"{name:<22}{ratios.size:>7}{figures}")
    return lines


def overall(results: list[Result], way: str) -> list[str]:
    """Return the quantiles of all ratios, and the fractions above some limits."""
    ratios = ratios_of(results, way)
    if not ratios.size:
        return ["There is no system for which the ratio counts."]
    at = [0, 0.05, 0.25, 0.5, 0.75, 1]
    quantiles = "  ".join(f"{q:.0%} {value:.3g}" for q, value in zip(at, np.quantile(ratios, at), strict=True))
    shares = "  ".join(f">= {limit}: {np.mean(ratios >= limit):.1%}" for limit in (1, 0.9, 0.5))
    return [f"Quantiles of {ratios.size}: {quantiles}", f"Shares: {shares}"]


def small_in_words(results: list[Result], way: str) -> list[str]:
    """Return a sentence on the systems that a peer solves in less than a millisecond; empty if there are none."""
    small = [ratio_of(one, way) for one in results if way in one["seconds"] and is_small(one, way)]
    if not small:
        return []
    over = 1e3 * np.array([ours - theirs for _, _, theirs, ours in small])
    allowed = 1e3 * ALLOWED
    within = f"{np.sum(over <= allowed)} of {over.size} draws"
    return [
        f"Best peer below {1e3 * SMALL:g} ms: rowsolve takes at most {allowed:g} ms longer in {within};",
        f"the difference is {np.median(over):+.3f} ms in the median and {over.max():+.3f} ms at most.",
    ]


def badness(result: Result, way: str) -> tuple[bool, float]:
    """Return a sort key: wrong results first, then the lowest ratios; small systems only if the difference is large."""
    ratio, _, theirs, ours = ratio_of(result, way)
    if is_small(result, way):
        ratio = (theirs + ALLOWED) / ours if ours - theirs > ALLOWED else np.inf
    return not result["wrong"], ratio


def worst_of(results: list[Result], way: str) -> list[str]:
    """Return about three lines for each of the worst draws: the system, the times, and the decision of `auto`."""
    lines = []
    some = [one for one in results if way in one["seconds"]]
    for one in sorted(some, key=lambda one: badness(one, way))[:WORST]:
        ratio, name, theirs, ours = ratio_of(one, way)
        wrong = f"WRONG: error {one['error']:.1e}; " if one["wrong"] else ""
        lines.append(f"{one['index']:>5} {one['family']} {one['what']}  ratio {ratio:.3g}")
        times = f"{wrong}rowsolve {1e3 * ours:.4g} ms, {name} {one['settings'].get(name, '')} {1e3 * theirs:.4g} ms"
        words = f"{times.replace('  ', ' ')}; {one['status']}, {one['method']}: {one['reason']}"
        lines += textwrap.wrap(words, 80, initial_indent=" " * 6, subsequent_indent=" " * 6)
    return lines


def report(results: list[Result]) -> list[str]:
    """Return all lines."""
    lines = []
    for way in dict.fromkeys(way for one in results for way in one["seconds"]):
        what = "threads=1 / default" if way == "busy" else "time of the best peer / time of rowsolve"
        condition = CONDITIONS[way].capitalize()
        lines += ["", f"{condition}: {what}", *table_of(results, way), *overall(results, way)]
        alone = sum(np.isinf(ratio_of(one, way)[0]) for one in results if way in one["seconds"])
        lines += small_in_words(results, way) + ([f"No peer reached the error: {alone}"] if alone else [])
        lines += ["", f"{condition}: the worst {WORST} draws", *worst_of(results, way)]
    wrong = [one["index"] for one in results if one["wrong"]]
    lines += ["", *others_in_words(results)]
    found = f"True error above 1e-6 in {len(wrong)} of {len(results)} draws"
    return [*lines, "", f"{found}: {wrong}" if wrong else f"{found}."]


def others_in_words(results: list[Result]) -> list[str]:
    """Return a sentence on other programs that were running; empty if there were none."""
    others = [one["busy_cores"] for one in results if one["busy_cores"] > BUSY]
    if not others:
        return []
    return [f"Other programs kept up to {max(others):.1f} cores busy in {len(others)} of {len(results)} draws."]


def print_report(results: list[Result]) -> None:
    """Print the report."""
    print("\n".join(report(results)))
