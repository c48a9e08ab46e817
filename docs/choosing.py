"""Generate the tables and the picture of docs/choosing.md: what `auto` decides, and its results over the corpus.

make docs
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from make import put, race_results

from rowsolve import solve
from rowsolve.experiments.style import blank_axes
from rowsolve.kernels.rows import CSRRows
from rowsolve.policy import auto, prices
from rowsolve.policy import thresholds as limits
from rowsolve.race.report import outcome_in_words, ratio_in_words
from rowsolve.race.results import REACHED, Outcome, Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HERE = Path(__file__).parent
PAGE, PICTURE = HERE / "choosing.md", HERE / "choosing.png"
RTOL = inspect.signature(solve).parameters["rtol"].default

# The palette of Okabe and Ito; every box also has its name in it.
COLOURS = {
    "randomized": "#CC79A7", "direct": "#E69F00", "refined": "#0072B2", "quantile": "#009E73", "deflated": "#56B4E9",
    "accelerated-block": "#D55E00",
}  # fmt: skip
QUESTION, FAINT = "#F3F3F3", "#666666"
WIDTH, HEIGHT, TOP = 10.4, 7.6, 6.55  # inches; TOP is the middle of the first boxes


class Turn(NamedTuple):
    """A decision of `auto`.

    Attributes
    ----------
    when, then : str
        For the page: the condition, and what `auto` does.
    says : str
        A part of the sentence in the message.
    short : str
        The condition in the picture; empty if it is not shown there.
    """

    when: str
    then: str
    says: str = ""
    short: str = ""


def millions(value: float) -> str:
    """Return a large number in millions, as text."""
    return f"{value / 1e6:,.0f} million"


def shortest_row_for_random_access(rows_per_column: int) -> int:
    """Return the least number of entries per row with which `auto` takes random sparse rows, at the default `rtol`."""
    p, empty = 10_000, np.empty(0)
    system: Any = SimpleNamespace(
        rows=CSRRows(empty, empty, empty), stored=False, n_rows=rows_per_column * p, n_columns=p
    )
    for entries in range(1, p):
        system.entries_per_row = entries
        if not auto._passes_are_cheaper(system, RTOL):
            return entries
    return p


def turns_of_files() -> list[Turn]:
    """Return how `auto` starts if A is not in memory."""
    return [
        Turn(
            f"A is not in memory, dense, p and n as in the next line, and it is a stream or has at most "
            f"{2 * limits.SPOTS} chunks of rows (row groups of Parquet)",
            "`refined`, with all rows at once", "Reading a sample would take as long as reading all rows",
        ),
        Turn(
            f"A is not in memory (`memory=`), dense, p at most {limits.MOST_COLUMNS:,}, n at least {limits.TALL} p, "
            f"and {prices.SQUARES} p x p matrices fit in the memory allowed", "`direct`", "The rows are not in memory",
        ),
    ]  # fmt: skip


def terms() -> str:
    """Return the definitions of the terms in the table of `first_turns`."""
    little, small = f"{prices.LITTLE:g}", f"{prices.BEGIN / 1e6:g}"
    return (
        "- *The time of all rows* is the predicted time of least squares with all rows at once.\n"
        f"- *A sample is cheap* if solving it is predicted to take at most {little} of the time of all rows "
        f"less {small} ms.\n"
        "- *A sample is consistent* if the solution of p evenly spaced rows satisfies "
        f"{limits.SPARE_ROWS} others.\n"
        f"- *A is small* if the time of all rows is at most {small} ms; or, for a dense A, at most "
        f"{prices.SHORT_BREAK / 1e6:g} ms and no longer than {prices.FEWEST_PASSES} passes, or at most "
        f"{prices.LONG_BREAK / 1e6:g} ms with n < {limits.TALL} p.\n"
    )


def first_turns() -> list[Turn]:
    """Return how `auto` starts: the first condition that holds."""
    tall, few, rows = limits.TALL, limits.SAMPLE_COLUMNS, limits.ROWS_TO_CONVERGE
    short = shortest_row_for_random_access(10)
    return [
        Turn("`damp` > 0", "`refined`", "`damp` requires a least-squares method", "damp > 0?"),
        Turn(
            "A is small and dense, and a sample is cheap and consistent",
            "`direct`", "A small sample of the rows is consistent",
        ),
        Turn(
            "A is small", "`refined`, with all rows at once", "The system is small",
            f"Small?\nusing all rows is predicted to\ntake {prices.BEGIN / 1e6:g} ms or less",
        ),
        *turns_of_files(),
        Turn(
            f"dense, p at most as in the next two lines, n at most {limits.MANY_ROWS} p, and a sample is cheap, but "
            "not consistent",
            "`refined`", "A small sample of the rows is inconsistent or singular",
        ),
        Turn(
            f"dense, p at most {few:,}, and a sample is cheap", "`direct`", "A has few columns",
            f"Dense, with few columns?\np ≤ {few:,}, n far above p,\na small sample is consistent",
        ),
        Turn(
            f"dense, k > 1 right-hand sides, p at most {limits.FEW_COLUMNS_EACH} ({limits.FEW_SIDES} + k), and a "
            "sample is cheap", "`direct`", "b has several columns",
        ),
        Turn(
            f"passes over all rows are predicted to be cheaper than {rows} p random rows: A has short sparse rows "
            f"(for n = 10 p and `rtol={RTOL:g}`, fewer than {short} entries); or A is dense and n < {tall} p, p is at "
            f"most {few:,}, or A is in Fortran order; or compressing all rows is predicted to take at most "
            f"{limits.CLEARLY_MORE:g} times as long as random rows",
            "`refined`", "Passes over all rows are cheaper here than random rows",
            f"Few columns, or sparse\nwith short rows? p ≤ {few:,}, or\nfewer than {short} entries (n = 10 p)",
        ),
        Turn("none of these", "`randomized`, without replacement", "'randomized' projected on random rows"),
    ]  # fmt: skip


def turns_after_rows() -> dict[str, list[Turn]]:
    """Return what comes after random rows, with and without their common directions."""
    most, tall, slow = limits.MOST_COLUMNS, limits.TALL, f"more than {limits.SLOW_ROWS} p rows still needed"
    done = Turn("the estimated error is within the tolerance, and fresh rows are satisfied", "done")
    has_outliers = Turn(
        "the iterates do not settle, although the probe does", "`refined`", "The iterates did not settle",
        "iterates\ndo not\nsettle:\ninconsistent\nsystem",
    )  # fmt: skip
    at_once = Turn(
        f"{slow}; compressing all rows is predicted to take at most {limits.MUCH_MORE:g} times as long as random "
        "rows of a well-conditioned system, or (unless the next line holds) 2 p rows are predicted to take more than "
        f"{prices.LITTLE:g} of the time of all rows; dense, without `damp` or `bounds`",
        "`refined`, with all rows at once", "using all rows takes little longer than another attempt",
    )  # fmt: skip
    alike = Turn(
        f"{slow} at the present rate; A is dense, in memory, with at least {millions(limits.NUMBERS_IN_CACHE)} "
        f"numbers, and a sample of {limits.LOOK_ROWS} rows shows that all singular values are similar except for a few "
        f"(at most {limits.LOOK_BLOCK - 1}); one right-hand side, without `bounds`",
        '`deflated`, with `source="rows"`', "decreased slowly because rows are nearly parallel",
        f"more than {limits.SLOW_ROWS} p rows needed:\nif rows are nearly parallel",
    )  # fmt: skip
    ill = Turn(
        f"{slow}, in all other cases",
        f"`direct`; `refined` if p > {most:,}, n < {tall} p, or A is sparse and a factor is predicted to take longer "
        f"than {prices.MANY_PASSES:g} passes",
        "decreased slowly, so A is ill-conditioned",
        f"otherwise, or slow again (refined\nif p > {most:,} or n < {tall} p)",
    )
    still = ill._replace(when=slow)
    return {"randomized": [done, at_once, alike, ill, has_outliers], "deflated": [done, still, has_outliers]}


def next_turns() -> dict[str, list[Turn]]:
    """Return what comes after each method."""
    tall, spare, wild = limits.TALL, limits.SPARE_ROWS, f"{limits.FAR_OUT:g}"
    return {
        **turns_after_rows(),
        "direct": [
            Turn(f"{spare} rows beyond the p that are solved, and fresh rows, are satisfied", "done"),
            Turn(
                "they are not", "`refined`", "The other rows are inconsistent with the sample",
                "other rows are\ninconsistent",
            ),
            Turn("they are, but x is not within `bounds`", "`refined`, within them", "x was outside the bounds"),
            Turn(
                "factoring a sample is predicted to take longer than the rest of `max_seconds`", "`refined`",
                "Factoring a sample would take longer than `max_seconds`",
            ),
        ],
        "refined": [
            Turn('always, unless `outliers="drop"`', "done: the least-squares solution of all rows"),
            Turn(
                '`outliers="drop"`, and '
                f"of {limits.ROWS_TO_COMPARE:,} rows (of all, if there are fewer than twice as many) the "
                f"largest residual is above {wild} times the median, or the root mean square of all residuals is above "
                f"{limits.MUCH_MORE:g} times the median (and {limits.CLEAN:g} of that of b); not with `damp` or "
                f"`bounds`, nor if n < {tall} p",
                "`quantile`", "'quantile' searched for a solution without them",
                f"outliers='drop', and a few\nresiduals above {wild} x the median",
            ),
        ],
        "quantile": [
            Turn(
                "all rows that are not off are satisfied; of the rows whose b is not the most common value, less than "
                "half are off, and the rest determine x",
                "done: x without the rows that are off, which `solution.rows_off` lists",
            ),
            Turn(
                "otherwise, or if a limit is reached first", "the x of `refined`",
                "but the other rows are inconsistent too",
            ),
        ],
    }  # fmt: skip


def decisions() -> str:
    """Return what `auto` does: definitions and two tables."""
    lines = [terms(), "| the first condition that holds | `auto` starts with | its message says |", "|---|---|---|"]
    lines += [f"| {turn.when} | {turn.then} | {_quoted(turn)} |" for turn in first_turns()]
    lines += ["", "| after | if | then | its message says |", "|---|---|---|---|"]
    for method, turns in next_turns().items():
        lines += [f"| `{method}` | {turn.when} | {turn.then} | {_quoted(turn)} |" for turn in turns]
    return "\n".join(lines) + "\n"


def _quoted(turn: Turn) -> str:
    return f"“{turn.says}”" if turn.says else ""


def corpus(results: Sequence[Result]) -> str:
    """Return the method that `auto` ended with in each case, and the best peer."""
    reached = [one for one in results if one.ours.verdict == REACHED]
    faster = [one for one in reached if one.best_ratio >= 1.0]
    errors = " or ".join(sorted({f"{one.error:g}" for one in results}))
    found = f"`auto` reached a true relative error of {errors} in {len(reached)} of {len(results)} cases"
    lines = [
        f"{found}, and was the fastest solver in {len(faster)} of them.",
        "",
        "| family | case | size | `auto` ended with | passes over A | best peer | its passes | its time / ours |",
        "|---|---|---|---|---|---|---|---|",
    ]
    before = ""
    for one in results:
        peer, size = one.best_peer, f"{one.n_rows:,} x {one.n_columns:,}"
        cells = [
            one.family if one.family != before else "", one.case, size, ending(one.ours), passes(one.ours),
            peer.name if peer else "none", passes(peer) if peer else "", ratio_in_words(one.best_ratio),
        ]  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
        before = one.family
    return "\n".join(lines) + "\n"


def ending(ours: Outcome) -> str:
    """Return the last method of a run of rowsolve, and its status if it did not converge."""
    found = re.fullmatch(r"(\w+) \((.+)\)", ours.status)
    if found is None:
        return outcome_in_words(ours)
    status, method = found.groups()
    return f"`{method}`" if status == "CONVERGED" else f"`{method}`: {status}"


def passes(outcome: Outcome) -> str:
    """Return the number of passes over A; solvers that factor all of A have none."""
    if outcome.passes is None:
        return "in memory" if outcome.verdict == REACHED else ""
    return f"{outcome.passes:.2f}" if outcome.passes < 10 else f"{outcome.passes:,.0f}"


def filled(text: str) -> str:
    """Return the page with its tables regenerated."""
    return put(put(text, "decisions", decisions()), "corpus", corpus(race_results()))


def picture() -> Figure:
    """Draw what `auto` starts with, on the right what comes next, and below when to choose a method by name."""
    axes = blank_axes(WIDTH, HEIGHT)
    _draw_first(axes)
    _draw_next(axes)
    _draw_by_name(axes)
    return axes.figure


def _draw_first(axes: Axes) -> None:
    """Draw the questions, one below the other, and the methods that the answers lead to."""
    left, width, height, gap, pills = 0.15, 2.75, 0.74, 1.1, 4.15
    axes.text(left, TOP + 0.62, "solve(A, b) starts with …", fontsize=12, weight="bold")
    answers = (["refined"], ["refined"], ["direct"], ["refined"])
    middle, y = left + width / 2, TOP
    for turn, names in zip((turn for turn in first_turns() if turn.short), answers, strict=True):
        _box(axes, left, y, width, height, turn.short, QUESTION, FAINT)
        _arrow(axes, (left + width, y), (pills - 0.68, y), "yes")
        for j, name in enumerate(names):
            _pill(axes, pills, y + 0.21 * (len(names) - 1 - 2 * j), name)
        _arrow(axes, (middle, y - height / 2), (middle, y - gap + height / 2), "no")
        y -= gap
    _pill(axes, middle, y + height / 2 - 0.17, "randomized")
    words = f"A has n rows and p columns; rtol = {RTOL:g}"
    axes.text(left, y - 0.2, words, fontsize=8.5, va="center", color=FAINT)


def _draw_next(axes: Axes) -> None:
    """Draw the methods, one below the other, with the reasons to continue with the next."""
    left, width, height, gap = 6.3, 2.45, 0.54, 1.11
    axes.text(left - 1.2, TOP + 0.62, "… and continues if necessary", fontsize=12, weight="bold")
    turns, middle = next_turns(), left + width / 2
    costs = {
        "randomized": f"{limits.ROWS_TO_CONVERGE} p rows if well-conditioned",
        "deflated": "without common directions",
        "direct": f"p + {limits.SPARE_ROWS} rows, solved exactly",
        "refined": "one pass over A per step",
        "quantile": "random rows except outliers",
    }
    results = ("A x = b", "A x = b", "A x = b", "least squares", "A x = b except\nsome rows")
    for i, (name, result) in enumerate(zip(turns, results, strict=True)):
        y = TOP - i * gap
        _box(axes, left, y, width, height, f"$\\bf{{{name}}}$\n{costs[name]}", *_shades(name))
        _arrow(axes, (left + width, y), (left + width + 0.5, y))
        axes.text(left + width + 0.67, y, "$\\bf{x}$", fontsize=13, ha="center", va="center")
        axes.text(left + width + 0.67, y - 0.2, result, fontsize=8.5, ha="center", va="top", color=FAINT)
        why = next((turn.short for turn in turns[name] if turn.short), "")
        if why:
            _arrow(axes, (middle, y - height / 2), (middle, y - gap + height / 2))
            axes.text(middle + 0.12, y - gap / 2, why, fontsize=9, va="center")
    _skip(axes, left, TOP, TOP - 3 * gap, turns["randomized"][-1].short)
    end = "if other rows are inconsistent: x of refined"
    axes.text(left, TOP - 4 * gap - height / 2 - 0.1, end, fontsize=8.5, va="top", color=FAINT)


def _skip(axes: Axes, left: float, start: float, end: float, why: str) -> None:
    """Draw an arrow around the boxes between."""
    axes.plot([left, left - 0.3, left - 0.3], [start, start, end], color=FAINT, linewidth=1.2)
    _arrow(axes, (left - 0.3, end), (left, end))
    axes.text(left - 0.38, (start + end) / 2, why, fontsize=9, ha="right", va="center")


def _draw_by_name(axes: Axes) -> None:
    """Draw when to choose a method by name."""
    axes.plot([0.15, WIDTH - 0.15], [1.55, 1.55], color="#CCCCCC", linewidth=1.0)
    axes.text(0.15, 1.25, "Choose a method by name for …", fontsize=12, weight="bold")
    reasons = {
        "refined": "noisy b: least squares\nfrom the first step",
        "quantile": "outliers in b",
        "deflated": "many large singular\nvalues, or sparse rows\nin tight clusters",
        "accelerated-block": "decaying singular\nvalues, p too large\nto factor",
        "block, …": "studies of the methods\nof the paper",
    }
    for i, (name, why) in enumerate(reasons.items()):
        x = 0.15 + i * 2.08
        _pill(axes, x + 0.75, 0.92, name, width=1.5)
        axes.text(x, 0.68, why, fontsize=9, va="top")


def _shades(name: str) -> tuple[str, str]:
    """Return a light and the full colour of a method."""
    from matplotlib.colors import to_hex, to_rgb

    colour = COLOURS.get(name.split(maxsplit=1)[0], FAINT)
    return to_hex([0.78 + 0.22 * part for part in to_rgb(colour)]), colour


def _box(axes: Axes, left: float, y: float, width: float, height: float, words: str, fill: str, edge: str) -> None:
    from matplotlib.patches import FancyBboxPatch

    shape = FancyBboxPatch(
        (left, y - height / 2), width, height, boxstyle="round,pad=0,rounding_size=0.1", facecolor=fill, edgecolor=edge,
        linewidth=1.4,
    )  # fmt: skip
    axes.add_patch(shape)
    axes.text(left + width / 2, y, words, fontsize=9.5, ha="center", va="center", linespacing=1.25)


def _pill(axes: Axes, x: float, y: float, name: str, width: float = 1.3) -> None:
    _box(axes, x - width / 2, y, width, 0.34, name, *_shades(name))


def _arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float], word: str = "") -> None:
    axes.annotate(
        "", end, start, arrowprops={"arrowstyle": "-|>", "color": FAINT, "linewidth": 1.2, "shrinkA": 0, "shrinkB": 0}
    )
    across = start[1] == end[1]
    x, y = (start[0] + end[0]) / 2, (start[1] + end[1]) / 2
    if across:
        axes.text(x, y + 0.04, word, fontsize=9, color=FAINT, ha="center", va="bottom")
    else:
        axes.text(x + 0.08, y, word, fontsize=9, color=FAINT, va="center")


def words_of(figure: Figure) -> str:
    """Return all words in a picture; they are stored in its file, so that a stale one is detected."""
    return "\n".join(text.get_text() for text in figure.axes[0].texts if text.get_text())


def main() -> None:
    """Rewrite the tables of docs/choosing.md, and the picture."""
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    figure = picture()
    figure.savefig(PICTURE, dpi=150, metadata={"Description": words_of(figure), "Software": None})


if __name__ == "__main__":
    main()
