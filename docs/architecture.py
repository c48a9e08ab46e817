"""Draw the picture of docs/architecture.md: the walk of two solves through the code.

make docs
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from choosing import COLOURS, FAINT, words_of

from rowsolve.experiments.style import blank_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PICTURE = Path(__file__).parent / "architecture.png"
WIDTH, HEIGHT = 10.4, 7.8  # inches
COLUMN, ROW, TOP, LEFT = 2.06, 1.1, 6.75, 1.1  # inches: distances of boxes, and the middle of the first one
WIDE, HIGH = 1.76, 0.56  # inches: the size of a box
WALKS = {"a": COLOURS["randomized"], "b": COLOURS["refined"], "": FAINT}


class Box(NamedTuple):
    """A function or a class: where it is drawn, and what it does; `walk` is the one that first passes through it."""

    column: float
    row: float
    does: str
    walk: str = ""


BOXES = {
    "solve": Box(1.0, 0.0, "checks the arguments"),
    "solve_small": Box(0.0, 1.0, "small systems, at once", "b"),
    "fit": Box(0.0, 2.0, "all rows by LAPACK", "b"),
    "compress": Box(0.0, 3.0, "A'A and A'b", "b"),
    "System": Box(1.0, 1.0, "rows, b, limits: data", "a"),
    "Job": Box(2.5, 1.0, "runs the stages", "a"),
    "Auto": Box(1.5, 2.0, "decides what is next", "a"),
    "Run": Box(2.75, 2.0, "one stage at work", "a"),
    "message_of": Box(4.0, 2.0, "describes the outcome", "a"),
    "FIRST, NEXT": Box(1.0, 3.0, "the rules of auto", "a"),
    "RowLoop": Box(2.0, 3.0, "bursts of rows", "a"),
    "StepLoop": Box(3.0, 3.0, "steps of a method"),
    "FreshRows": Box(4.0, 3.0, "checks x at the end", "a"),
    "Burst": Box(2.0, 4.0, "moves x and the probe", "a"),
    "Refined.steps": Box(3.0, 4.0, "least squares"),
    "sampled_check": Box(4.0, 4.0, "256 random rows", "a"),
    "Plan.draw": Box(1.0, 5.0, "which rows", "a"),
    "Monitor": Box(2.0, 5.0, "estimates the error", "a"),
    "Descent, fit": Box(3.0, 5.0, "passes, or all rows"),
}
# Who calls whom, and what comes back.
CALLS = (
    ("solve", "solve_small", "b", ""), ("solve_small", "fit", "b", "Fit"), ("fit", "compress", "b", ""),
    ("solve", "System", "a", ""), ("solve", "Job", "a", "Solution"), ("Job", "Auto", "a", "Stage"),
    ("Job", "Run", "a", "Outcome"), ("Job", "message_of", "a", ""), ("Auto", "FIRST, NEXT", "a", "Choice"),
    ("Run", "RowLoop", "a", "Status"), ("Run", "StepLoop", "", "Status"), ("Run", "FreshRows", "a", "CheckResult"),
    ("RowLoop", "Burst", "a", "Status"), ("StepLoop", "Refined.steps", "", "Step"),
    ("FreshRows", "sampled_check", "a", ""), ("Burst", "Plan.draw", "a", "rows"),
    ("Burst", "Monitor", "a", "Status"), ("Refined.steps", "Descent, fit", "", ""),
)  # fmt: skip


def picture() -> Figure:
    """Draw the boxes and the calls between them; the kernels are below."""
    axes = blank_axes(WIDTH, HEIGHT)
    _draw_legend(axes)
    for caller, called, walk, returned in CALLS:
        _draw_call(axes, BOXES[caller], BOXES[called], WALKS[walk], returned)
    for name, box in BOXES.items():
        title = name.replace("_", r"\_").replace(" ", "~")
        _draw_box(axes, *_middle(box), WIDE, f"$\\bf{{{title}}}$\n{box.does}", WALKS[box.walk])
    middle, width = LEFT + 2.0 * COLUMN, 4.0 * COLUMN + WIDE
    _draw_box(axes, middle, 0.42, width, "$\\bf{kernels}$: arrays in, arrays out", FAINT)
    return axes.figure


def _draw_legend(axes: Axes) -> None:
    axes.text(0.22, HEIGHT - 0.33, "Calls go down, results come back", fontsize=12, weight="bold")
    lines = (("a", "(a) consistent, 20,000 x 1,000"), ("b", "(b) noisy, 50,000 x 60"), ("", "other solves"))
    for i, (walk, words) in enumerate(lines):
        y = HEIGHT - 0.3 - 0.25 * i
        axes.plot([6.9, 7.3], [y, y], color=WALKS[walk], linewidth=2.2)
        axes.text(7.42, y, words, fontsize=9.5, va="center")


def _middle(box: Box) -> tuple[float, float]:
    return LEFT + box.column * COLUMN, TOP - box.row * ROW


def _draw_box(axes: Axes, x: float, y: float, width: float, words: str, edge: str) -> None:
    from matplotlib.colors import to_rgb
    from matplotlib.patches import FancyBboxPatch

    fill = [0.82 + 0.18 * part for part in to_rgb(edge)]
    shape = FancyBboxPatch(
        (x - width / 2, y - HIGH / 2), width, HIGH, boxstyle="round,pad=0,rounding_size=0.1", facecolor=fill,
        edgecolor=edge, linewidth=1.4,
    )  # fmt: skip
    axes.add_patch(shape)
    axes.text(x, y, words, fontsize=9.5, ha="center", va="center", linespacing=1.25)


def _draw_call(axes: Axes, caller: Box, called: Box, colour: str, returned: str) -> None:
    """Draw an arrow from one box down to another, and beside it what comes back."""
    (x, y), (to_x, to_y) = _middle(caller), _middle(called)
    start = x + 0.3 * (to_x - x) if abs(to_x - x) < WIDE else x + (0.35 if to_x > x else -0.35) * WIDE
    ends = (start, y - HIGH / 2), (to_x, to_y + HIGH / 2)
    arrow = {"arrowstyle": "-|>", "color": colour, "linewidth": 1.6, "shrinkA": 0, "shrinkB": 0}
    axes.annotate("", ends[1], ends[0], arrowprops=arrow)
    if returned:
        x, y = (ends[0][0] + ends[1][0]) / 2, (ends[0][1] + ends[1][1]) / 2
        at_left, above = to_x < start, 0.1 if abs(to_x - start) > WIDE / 2 else 0.02  # beside a steep arrow
        axes.text(
            x + (-0.1 if at_left else 0.1), y + above, returned, fontsize=8.5, style="italic", color=FAINT,
            ha="right" if at_left else "left", va="center",
        )  # fmt: skip


def main() -> None:
    """Write the picture; its words are stored in its file, so that a stale one is detected."""
    figure = picture()
    figure.savefig(PICTURE, dpi=150, metadata={"Description": words_of(figure), "Software": None})


if __name__ == "__main__":
    main()
