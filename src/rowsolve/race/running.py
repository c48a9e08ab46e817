"""The race: find the loosest setting of each contestant that is tight enough, then time them in turns."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from rowsolve.parallel.memory import free_memory
from rowsolve.policy.thresholds import CHEAP_TO_REPEAT, ORDER_OF_MAGNITUDE, REST, TRIES
from rowsolve.race.contestant import Contestant, TimeIsUp
from rowsolve.race.machine import blas_threads
from rowsolve.race.problem import Problem, tiny_like
from rowsolve.race.results import NEVER, REACHED, SKIPPED, Attempt, Outcome

__all__ = ["Rules", "run_race"]


@dataclass(frozen=True)
class Rules:
    """The conditions, which are the same for all contestants.

    Attributes
    ----------
    error : float
        The true relative error of x to reach.
    repeats : int
        Number of rounds in which the contestants are timed in turns. The successful run of the search counts, too.
    limit : float
        Time limit in seconds: of one run, of further runs of one contestant, and of further rounds.
    threads : int
        Number of threads of BLAS and of rowsolve.
    """

    error: float = 1e-6
    repeats: int = 5
    limit: float = 60.0
    threads: int = 1


def run_race(
    problem: Problem,
    contestants: Sequence[Contestant],
    rules: Rules,
    report_progress: Callable[[str], object] = lambda _: None,
) -> tuple[Outcome, ...]:
    """Return the outcome of each contestant, in the same order.

    `report_progress` is called with a short text about the progress.
    """
    with blas_threads(rules.threads), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # x is judged by its true error
        found = []
        for contestant in contestants:
            report_progress(f"{contestant.name}: searching for its setting")
            found.append(_qualify(problem, contestant, rules))
        return _rounds(problem, contestants, found, rules, report_progress)


def _qualify(problem: Problem, contestant: Contestant, rules: Rules) -> Outcome:
    """Run with increasingly tight settings until the true error is reached, or until it is clear that it will not."""
    start = Outcome(contestant.name, contestant.ours, contestant.knob, SKIPPED)
    reason = _reason_to_skip(problem, contestant, rules)
    if reason:
        return replace(start, why=reason)
    _warm_up(problem, contestant)
    attempts: list[Attempt] = []
    why = f"no {contestant.knob} was sufficient" if contestant.knob else "there is no tighter setting"
    for setting in contestant.settings(problem.A, rules.error):
        why_not = _reason_to_stop(attempts, setting, contestant, rules)
        if why_not:
            why = why_not
            break
        attempts.append(_attempt(problem, contestant, setting, rules.limit))
        last = attempts[-1]
        if last.error is not None and last.error <= rules.error:
            return replace(
                start, verdict=REACHED, setting=last.setting, seconds=(last.seconds,), error=last.error,
                status=last.status, passes=last.passes, attempts=tuple(attempts),
            )  # fmt: skip
        if last.error is None:
            why = last.status
            break
    nearest = min((one for one in attempts if one.error is not None), key=lambda one: one.error or 0.0, default=None)
    last = nearest or attempts[-1]
    return replace(
        start, verdict=NEVER, why=why, setting=last.setting, error=last.error, status=last.status, passes=last.passes,
        attempts=tuple(attempts),
    )  # fmt: skip


def _reason_to_skip(problem: Problem, contestant: Contestant, rules: Rules) -> str:
    refusal = contestant.refusal(problem.A)
    if refusal:
        return refusal
    expected, available = contestant.expected_bytes(problem.A), free_memory()
    if expected > 0.8 * available:
        return f"about {expected / 1e9:.1f} GB more memory expected, {available / 1e9:.1f} GB available"
    seconds = contestant.expected_seconds(problem.A)
    return f"about {seconds:.0f} s expected" if seconds > rules.limit else ""


def _reason_to_stop(attempts: list[Attempt], setting: float, contestant: Contestant, rules: Rules) -> str:
    """Return the reason why a run with the next `setting` would be useless; empty if there is none."""
    if not attempts:
        return ""
    if sum(one.seconds for one in attempts) >= rules.limit:
        return f"time limit: {rules.limit:g} s"
    if contestant.knob not in ("", "tolerance"):  # an amount of work, so the time of the next run is known
        next_seconds = attempts[-1].seconds * setting / attempts[-1].setting
        if next_seconds > rules.limit:
            return f"time limit: {setting:g} {contestant.knob} would take about {next_seconds:.0f} s"
    errors = [one.error for one in attempts if one.error is not None]
    if len(errors) > TRIES and min(errors[-TRIES:]) > 0.99 * min(errors[:-TRIES]):
        return f"no improvement in {TRIES} tighter runs"
    return ""


def _warm_up(problem: Problem, contestant: Contestant) -> None:
    """Import and compile what a contestant needs. Errors are ignored here, as they will occur again in the race."""
    A, b = tiny_like(problem.A)
    with suppress(Exception):
        contestant.run(A, b, next(contestant.settings(A, 0.1)), 10.0)


def _attempt(problem: Problem, contestant: Contestant, setting: float, limit: float) -> Attempt:
    time.sleep(REST)
    started = time.perf_counter()
    try:
        finish = contestant.run(problem.A, problem.b, setting, limit)
    except TimeIsUp:
        return Attempt(setting, time.perf_counter() - started, None, f"time limit: {limit:g} s")
    except Exception as problem_met:  # an exception of a library is its result
        seconds, words = time.perf_counter() - started, " ".join(str(problem_met).split())
        return Attempt(setting, seconds, None, f"raised {type(problem_met).__name__}: {words}"[:200])
    seconds = time.perf_counter() - started - finish.outside
    error = problem.error_of(finish.x)
    if not math.isfinite(error):
        return Attempt(setting, seconds, None, f"x is not finite ({finish.status})", finish.passes)
    return Attempt(setting, seconds, error, finish.status, finish.passes)


def _rounds(
    problem: Problem,
    contestants: Sequence[Contestant],
    found: list[Outcome],
    rules: Rules,
    report_progress: Callable[[str], object],
) -> tuple[Outcome, ...]:
    """Time the contestants that reached the error, in turns; return the outcomes with all times."""
    runs: list[list[Attempt]] = [[] for _ in found]
    started = time.perf_counter()
    for number in range(rules.repeats):
        if number and time.perf_counter() - started >= rules.limit:
            break
        for i in _still_racing(found, runs, number):
            report_progress(f"{found[i].name}: round {number + 1} of {rules.repeats}")
            setting = found[i].setting
            assert setting is not None  # it reached the error
            runs[i].append(_attempt(problem, contestants[i], setting, rules.limit))
    return tuple(_with_times(one, mine, rules) if mine else one for one, mine in zip(found, runs, strict=True))


def _still_racing(found: list[Outcome], runs: list[list[Attempt]], number: int) -> list[int]:
    """Return who runs in this round: all but those that are too slow, unless they ran only once and are fast to run."""
    best = {
        i: min([one.best, *(run.seconds for run in runs[i])]) for i, one in enumerate(found) if one.verdict == REACHED
    }
    slowest = ORDER_OF_MAGNITUDE * min(best.values(), default=0.0)
    return [i for i, seconds in best.items() if seconds <= (slowest if number else max(slowest, CHEAP_TO_REPEAT))]


def _with_times(outcome: Outcome, runs: list[Attempt], rules: Rules) -> Outcome:
    """Return `outcome` with the timed runs; it is ``"never"`` if one of them missed the error, as threads may cause."""
    missed = next((one for one in runs if one.error is None or one.error > rules.error), None)
    if missed is not None:
        return replace(
            outcome, verdict=NEVER, why="a later run missed it", seconds=(), error=missed.error, status=missed.status
        )
    errors = [error for error in (outcome.error, *(one.error for one in runs)) if error is not None]
    return replace(outcome, seconds=(*outcome.seconds, *(one.seconds for one in runs)), error=max(errors))
