"""Which method to ask for, and why."""

from __future__ import annotations

from typing import NamedTuple

from rowsolve._solution import Status
from rowsolve.engine.run import Run
from rowsolve.inspection.report import Noise, Prediction
from rowsolve.inspection.words import seconds_in_words
from rowsolve.methods import Refined
from rowsolve.policy.auto import first_choice, is_hopeless, next_choice, rows_share_much

__all__ = ["Advice", "advise"]


class Advice(NamedTuple):
    """What auto begins with, what to ask for, and why."""

    first: str
    method: str
    words: str


def advise(run: Run, predictions: tuple[Prediction, ...], noise: Noise, rtol: float) -> Advice:
    """Say how auto will go about it, by its own decisions, and how to get there at once.

    `run`, some bursts of random rows, shows what auto will see of them.
    """
    predicted, monitor = {one.method: one for one in predictions}, run.iterates.monitor
    why, first = first_choice(run.context.system, rtol)
    exact = predicted["randomized" if first.least_squares else first.name]  # never ends where equations contradict
    contradictory = noise.suspected or (exact.reaches is False and exact.rows is None)
    status = Status.INCONSISTENT if contradictory else Status.SLOW if is_hopeless(monitor) else Status.CONVERGED
    suspicious, sharing = (
        contradictory or monitor.suspicious,
        rows_share_much(run.context.system, status, run.context.rng),
    )
    then = next_choice(run.context.system, first, status, suspicious=suspicious, sharing=sharing)
    words, method = [f"{why}`auto` begins with '{first.name}'."], then.method.name if then else "auto"
    if contradictory:
        seem = "seem to contradict each other" if noise.suspected else "contradict each other"
        by = ", if only by rounding" if noise.relative == 0.0 and not noise.n_wild else ""
        words.append(f"The equations {seem}{by}, so x will be the least-squares solution, by 'refined'.")
        if noise.n_wild and noise.relative == 0.0:
            words.append("A few rows are far off and the others agree: outliers='drop' solves without them.")
        elif noise.n_wild:
            words.append("Look at the rows that are far off first: it is drawn towards them.")
    elif then is not None:
        words.append(f"The error falls slowly, so it will go on with '{method}'.")
    elif first != Refined("all"):  # which is not what is predicted
        words += _expect(predicted[first.name])
    if method != "auto":
        words.append(f"Ask for method='{method}' to get there at once.")
    return Advice(first.name, method, " ".join(words))


def _expect(predicted: Prediction) -> list[str]:
    if predicted.seconds is None:
        return []
    about = "more than" if predicted.at_least else "about"
    return [f"Expect {about} {seconds_in_words(predicted.seconds)}."]
