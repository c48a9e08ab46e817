"""The progress bar on terminals of different widths."""

from __future__ import annotations

import numpy as np
import pytest
from rich.console import Console

from rowsolve import Event
from rowsolve.cli import progress
from rowsolve.cli.progress import Bar, SolveProgress, _time_left, fitted

FIELDS = ["error ~3.2e-04", "12.0 s left", "1.25 passes", "12,345 rows", "1 MB at 0.00 GB/s"]
NOWHERE = np.zeros(1)


@pytest.fixture
def lines(monkeypatch):
    """The lines drawn on a terminal after each call of the bar."""
    console, drawn = Console(stderr=True, force_terminal=True, width=80, color_system=None), []
    monkeypatch.setattr(progress, "Console", lambda **_: console)
    show = Bar.show

    def show_and_look(bar, *args, **options):
        bar._drawn = -np.inf  # as if the last drawing were long ago
        show(bar, *args, **options)
        with console.capture() as capture:
            console.print(bar._progress.get_renderable())
        drawn.append(capture.get().rstrip())

    monkeypatch.setattr(Bar, "show", show_and_look)
    return console, drawn


def test_fields__are_dropped_before_the_bar_shrinks():
    widths = range(30, 131)
    found = [fitted("solving", FIELDS, width) for width in widths]
    n_fields = [text.count(", ") + 1 for text in found]
    bars = [width - len(f"solving  {text}") for width, text in zip(widths, found, strict=True)]
    assert n_fields == sorted(n_fields)
    assert set(n_fields) == {1, 2, 3, 4, 5}
    assert all(bar >= width / 4 for bar, width, n in zip(bars, widths, n_fields, strict=True) if n > 1)
    assert fitted("solving", FIELDS, 80) == "error ~3.2e-04, 12.0 s left, 1.25 passes"
    assert fitted("solving", FIELDS, 40) == "error ~3.2e-04"


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (
            Event("solve", 12_345, 1.25, 1e6, 0.5, 3.2e-4, 0.75, 12.0, NOWHERE),
            "error ~3.2e-04, 12.0 s left, 1.25 passes",
        ),
        (
            Event("solve", 10**10, 12345.67, 1e12, 1e5, np.nan, np.nan, np.nan, NOWHERE),
            "error unknown, time left unknown, 12345.67 passes",
        ),
        (Event("check", 10, 0.5, 5e9, 2.0, np.nan, 0.5, 2.0, NOWHERE), "50%, 2.0 s left, 0.50 passes, 10 rows"),
    ],
)
def test_solve__shows_the_bar_the_error_and_the_time_left_on_80_columns(lines, event, words):
    console, drawn = lines
    SolveProgress()(event)
    (line,) = drawn
    doing = {"solve": "solving", "check": "checking"}[event.stage]
    assert line.startswith(doing)
    assert line.endswith(f" {words}")
    assert len(line) == 80  # the bar fills the rest of the line
    console.width = 200
    SolveProgress()(event)
    assert f"{event.rows_read:,} rows, " in drawn[1]
    assert drawn[1].endswith("GB/s")


def test_bar__shows_the_percentage_and_the_time_left_on_80_columns(lines):
    _, drawn = lines
    bar = Bar("starting")
    bar.show("Figure 1", 0.25, ["seed 12 of 20", "loose, noise 0.1 on A after b, cluster-block"])
    (line,) = drawn
    assert line.startswith("Figure 1 ━━━━━")
    assert "25%, " in line
    assert line.endswith(" s left, seed 12 of 20")
    bar.show("Figure 1", None, [])
    assert drawn[1].endswith(" time left unknown")


def test_time_left__in_words():
    assert _time_left(12) == "12.0 s left"
    assert _time_left(90) == "2 min left"
    assert _time_left(7200) == "2.0 h left"
    assert _time_left(np.inf) == "time left unknown"
