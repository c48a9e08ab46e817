from __future__ import annotations

import math

import pytest

from rowsolve.race.picture import draw_race, draw_ratios
from rowsolve.race.report import outcome_in_words, ratio_in_words, results_as_markdown, seconds_in_words, verdict
from rowsolve.race.results import Conditions, Outcome, Result

MACHINE = {
    "cpu": "Fast One", "cores": 2, "memory_gb": 15.6, "python": "3.12.1", "blas": ["openblas 0.3"],
    "versions": {"numpy": "2.0", "scipy": "1.15"},
}  # fmt: skip


def outcome(name, *seconds, ours=False, why="", verdict=None, error=1e-7, passes=None):
    verdict = verdict or ("reached" if seconds else "never")
    return Outcome(name, ours, "tolerance", verdict, why, 1e-6, seconds, error, "ok", passes)


def result(*outcomes, case="case", target=None, busy=None):
    conditions = Conditions(2, busy=busy, machine=MACHINE)
    return Result(case, "family", 50_000, 1_000, "dense", 1e-6, "known", conditions, outcomes, {}, target)


OURS, NEVER = outcome("rowsolve auto", 0.5, ours=True), outcome("rowsolve auto", ours=True, why="too hard", error=0.1)
PEER, OTHER = outcome("scipy lsmr", 6.0), outcome("numpy lstsq", why="time limit: 60 s", error=None)


def test_numbers__have_three_figures():
    assert [ratio_in_words(ratio) for ratio in (1234.4, 12.34, 1.234, 0.0123, 0.0, math.inf, math.nan)] == [
        "1,234", "12.3", "1.23", "0.0123", "never", "only rowsolve", "none",
    ]  # fmt: skip
    assert [seconds_in_words(value) for value in (61.23, 0.02345, 1e-4, math.inf)] == [
        "61.2 s", "0.0234 s", "0.00010 s", "never",
    ]  # fmt: skip


def test_outcome__in_words():
    assert outcome_in_words(PEER) == ""
    assert outcome_in_words(NEVER) == "never: best error 1.0e-01; too hard"
    assert outcome_in_words(OTHER) == "never: time limit: 60 s"
    assert (
        outcome_in_words(outcome("x", verdict="skipped", why="about 70 s expected")) == "skipped: about 70 s expected"
    )


@pytest.mark.parametrize(
    ("outcomes", "words"),
    [
        ((OURS, PEER, OTHER), "rowsolve auto was 12.0 times as fast as the best peer, scipy lsmr, to a true "),
        ((outcome("rowsolve auto", 12.0, ours=True), PEER), "scipy lsmr was 2.00 times as fast as rowsolve auto, to"),
        ((OURS, OTHER), "Only rowsolve auto reached a true relative error of 1e-06, in 0.500 s."),
        ((NEVER, PEER), "(never: best error 1.0e-01; too hard). scipy lsmr did, in 6.00 s."),
        ((NEVER, OTHER), "No other solver did."),
    ],
)
def test_verdict__says_who_won_and_by_what_factor(outcomes, words):
    assert words in verdict(result(*outcomes))


def test_markdown__has_a_line_a_case_and_the_machine():
    file = Result(
        "file", "file", 9, 3, "memory map", 1e-6, "known", Conditions(2, machine=MACHINE),
        (outcome("rowsolve auto", 0.5, ours=True, passes=0.5), outcome("scipy lsqr", 6.0, passes=10.0)),
        target=0.9, target_passes=10.0,
    )  # fmt: skip
    cases = [
        result(OURS, PEER, OTHER, target=12.0), result(OURS, PEER, target=13.0), result(OURS, OTHER, target=0.9),
        result(NEVER, PEER, target=2.0), result(NEVER, OTHER), file,
    ]  # fmt: skip
    assert results_as_markdown(cases) == (
        "| case | size | rowsolve | best peer | its time | ratio | target |\n"
        "|---|---|---|---|---|---|---|\n"
        "| case | 50,000 x 1,000 | 0.500 s | scipy lsmr | 6.00 s | 12.0 | 12: met |\n"
        "| case | 50,000 x 1,000 | 0.500 s | scipy lsmr | 6.00 s | 12.0 | 13: short |\n"
        "| case | 50,000 x 1,000 | 0.500 s | none | never | only rowsolve | 0.9: met |\n"
        "| case | 50,000 x 1,000 | never | scipy lsmr | 6.00 s | never | 2: short |\n"
        "| case | 50,000 x 1,000 | never | none | never | none |  |\n"
        "| file | 9 x 3, memory map | 0.500 s | scipy lsqr | 6.00 s | 12.0 | "
        "0.9; 10 times fewer passes than lsqr (20.0): met |\n"
        "\n"
        "Made with 2 threads on Fast One, 2 cores, 16 GB; Python 3.12.1, numpy 2.0, scipy 1.15; openblas 0.3.\n"
    )


def test_markdown__says_when_the_machine_was_busy():
    results = [result(OURS, PEER, busy=busy) for busy in (None, 0.05, 0.9, 1.26)]
    last = results_as_markdown(results).splitlines()[-1]
    assert last.startswith("In 2 of the 4 cases other programs kept up to 1.3 cores busy; measure these times")


def test_plot_of_a_race__has_the_error_and_the_times_of_solvers_that_reached_it():
    figure = draw_race(result(OURS, PEER, OTHER), [(0.1, 1e-2, 2e-2), (0.5, 1e-7, 5e-8)])
    left, right = figure.axes
    drawn = {line.get_label(): [float(y) for y in line.get_ydata()] for line in left.lines}
    assert drawn == {"estimate": [1e-2, 1e-7], "true error": [2e-2, 5e-8], "tolerance: 1e-06": [1e-6, 1e-6]}
    assert [label.get_text() for label in right.get_yticklabels()] == ["scipy lsmr", "rowsolve auto"]
    assert [bar.get_width() for bar in right.patches] == [6.0, 0.5]
    assert [text.get_text() for text in right.texts] == ["6.00 s", "0.500 s"]
    figure.canvas.draw()


def test_picture__has_a_line_a_case_a_dot_at_the_ratio_and_a_tick_at_the_target():
    results = [
        result(OURS, PEER, case="won", target=10.0), result(OURS, OTHER, case="only"),
        result(NEVER, PEER, case="lost", target=2.0), result(NEVER, OTHER, case="none"),
    ]  # fmt: skip
    figure = draw_ratios(results)
    (axes,) = figure.axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["won", "only", "lost", "none"]
    assert axes.get_xscale() == "log"
    drawn = [(line.get_marker(), [float(x) for x in line.get_xdata()]) for line in axes.lines]
    assert ("o", [12.0]) in drawn
    assert ("None", [10.0, 10.0]) in drawn
    assert [text.get_text() for text in axes.texts] == [
        "12.0  scipy lsmr", "only rowsolve reached the error", "rowsolve did not reach the error, scipy lsmr did",
        "no solver reached the error",
    ]  # fmt: skip
    figure.canvas.draw()  # with nothing that matplotlib would warn of
