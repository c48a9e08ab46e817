"""The recommended method, and why."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from rowsolve._solution import Status
from rowsolve.engine.run import Run
from rowsolve.inspection.report import Noise, Prediction
from rowsolve.inspection.words import seconds_in_words
from rowsolve.methods import Method, Refined
from rowsolve.policy.auto import (
    Choice,
    Ending,
    another_method_is_faster,
    first_choice,
    has_common_directions,
    next_choice,
)

__all__ = ["Advice", "advise"]


class Advice(NamedTuple):
    """The method that auto begins with, the recommended one, and why."""

    first: str
    method: str
    words: str


def advise(run: Run, predictions: tuple[Prediction, ...], noise: Noise, rtol: float) -> Advice:
    """Return what auto will do, by its own decision rules, and the method to choose instead of waiting for it.

    `run` consists of some bursts of random rows, from which auto will decide.
    """
    predicted, system = {one.method: one for one in predictions}, run.context.system
    why, first = first_choice(system, rtol)
    exact = predicted["randomized" if first.can.least_squares else first.name]  # cannot converge if inconsistent
    inconsistent = noise.suspected or (exact.reaches is False and exact.rows is None)
    then = _next_choice(run, first, inconsistent=inconsistent)
    words, method = [f"{why}`auto` starts with '{first.name}'."], then.method.name if then else "auto"
    if inconsistent:
        words += _about_noise(noise)
    elif then is not None:
        words.append(f"The error decreases slowly, so `auto` will continue with '{method}'.")
    elif first != Refined("all"):  # for which there is no prediction
        words += _expect(predicted[first.name])
    if method != "auto":
        words.append(f"Try method='{method}' to start with it.")
    return Advice(first.name, method, " ".join(words))


def _next_choice(run: Run, first: Method, *, inconsistent: bool) -> Choice | None:
    """Return what auto will choose after `first`, judging by the bursts of `run`."""
    system, monitor = run.context.system, run.iterates.monitor
    status = Status.SLOW if another_method_is_faster(monitor) else Status.CONVERGED
    if inconsistent:
        status = Status.INCONSISTENT
    sharing = has_common_directions(system, status, run.context.rng)
    return next_choice(Ending(system, first, status, inconsistent or monitor.suspicious, sharing=sharing))


def _about_noise(noise: Noise) -> Iterator[str]:
    seems = "seems to be inconsistent" if noise.suspected else "is inconsistent"
    by = " (because of rounding errors only)" if noise.relative == 0.0 and not noise.n_wild else ""
    yield f"The system {seems}{by}, so `auto` will compute the least-squares solution with 'refined'."
    if noise.n_wild and noise.relative == 0.0:
        yield "A few rows are outliers and the others are consistent: outliers='drop' solves without them."
    elif noise.n_wild:
        yield "Check the outliers first: they affect the least-squares solution."


def _expect(predicted: Prediction) -> list[str]:
    if predicted.seconds is None:
        return []
    about = "more than" if predicted.at_least else "about"
    return [f"Expect {about} {seconds_in_words(predicted.seconds)}."]
