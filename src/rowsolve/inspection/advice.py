"""The recommended method, and why."""

from __future__ import annotations

from typing import NamedTuple

from rowsolve._solution import Status
from rowsolve.engine.run import Run
from rowsolve.inspection.report import Noise, Prediction
from rowsolve.inspection.words import seconds_in_words
from rowsolve.methods import Refined
from rowsolve.policy.auto import Ending, first_choice, is_hopeless, next_choice, rows_share_much

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
    predicted, monitor = {one.method: one for one in predictions}, run.iterates.monitor
    why, first = first_choice(run.context.system, rtol)
    exact = predicted["randomized" if first.can.least_squares else first.name]  # cannot converge if inconsistent
    inconsistent = noise.suspected or (exact.reaches is False and exact.rows is None)
    status = Status.INCONSISTENT if inconsistent else Status.SLOW if is_hopeless(monitor) else Status.CONVERGED
    suspicious, sharing = (
        inconsistent or monitor.suspicious,
        rows_share_much(run.context.system, status, run.context.rng),
    )
    then = next_choice(Ending(run.context.system, first, status, suspicious, sharing=sharing))
    words, method = [f"{why}`auto` begins with '{first.name}'."], then.method.name if then else "auto"
    if inconsistent:
        seems = "seems to be inconsistent" if noise.suspected else "is inconsistent"
        by = ", if only by rounding" if noise.relative == 0.0 and not noise.n_wild else ""
        words.append(f"The system {seems}{by}, so x will be the least-squares solution, by 'refined'.")
        if noise.n_wild and noise.relative == 0.0:
            words.append("A few rows are outliers and the others are consistent: outliers='drop' solves without them.")
        elif noise.n_wild:
            words.append("Check the outliers first: they affect the least-squares solution.")
    elif then is not None:
        words.append(f"The error decreases slowly, so it will continue with '{method}'.")
    elif first != Refined("all"):  # for which there is no prediction
        words += _expect(predicted[first.name])
    if method != "auto":
        words.append(f"Try method='{method}' to start with it.")
    return Advice(first.name, method, " ".join(words))


def _expect(predicted: Prediction) -> list[str]:
    if predicted.seconds is None:
        return []
    about = "more than" if predicted.at_least else "about"
    return [f"Expect {about} {seconds_in_words(predicted.seconds)}."]
