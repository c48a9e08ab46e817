"""The rules of the race, with solvers whose times and errors are known."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from rowsolve.race import running
from rowsolve.race.contestant import Contestant, Finish, TimeIsUp
from rowsolve.race.problem import Problem, known
from rowsolve.race.running import Rules, run_race

PROBLEM = Problem(np.eye(5)[:, :2], np.array([1.0, 0, 0, 0, 0]), known(np.array([1.0, 0.0])))


class Clock:
    """A clock that only solvers advance."""

    def __init__(self):
        self.now = 0.0

    def sleep(self, seconds):
        """Do not pause."""

    def perf_counter(self):
        return self.now


class Fake(Contestant):
    """Has an error and a time for every setting; `log` lists the runs."""

    library = "numpy"

    def __init__(self, name, errors, seconds, clock, log, *, outside=0.0):
        self.name, self.errors, self.times = name, dict(errors), seconds
        self.clock, self.log, self.outside = clock, log, outside

    def settings(self, A, error):
        yield from self.errors

    def run(self, A, b, setting, seconds):
        if A is not PROBLEM.A:
            return Finish(np.zeros(4), "warm")  # the warm-up on a tiny system
        self.log.append((self.name, setting))
        duration = next(self.times) if hasattr(self.times, "__next__") else self.times
        self.clock.now += min(duration, seconds) + self.outside
        if duration > seconds:
            raise TimeIsUp
        error = self.errors[setting]
        if isinstance(error, Exception):
            raise error
        return Finish(np.array([1.0 + error, 0.0]), "fine", passes=3.0, outside=self.outside)


@pytest.fixture
def course(monkeypatch):
    """A clock, a log, and a function that makes contestants with them."""
    clock, log = Clock(), []
    monkeypatch.setattr(running, "time", clock)

    def make(name, errors, seconds, **more):
        return Fake(name, errors, seconds, clock, log, **more)

    return SimpleNamespace(make=make, log=log, clock=clock)


def test_solver_that_misses_the_error__is_run_with_tighter_settings(course):
    one = course.make("a", {1e-6: 1e-3, 1e-7: 1e-5, 1e-8: 5e-7, 1e-9: 1e-9}, 2.0)
    (found,) = run_race(PROBLEM, [one], Rules(repeats=3, limit=10.0))
    assert found.verdict == "reached"
    assert found.setting == 1e-8
    assert [(attempt.setting, attempt.error) for attempt in found.attempts] == [
        (1e-6, pytest.approx(1e-3)), (1e-7, pytest.approx(1e-5)), (1e-8, pytest.approx(5e-7)),
    ]  # fmt: skip
    assert found.seconds == (2.0, 2.0, 2.0, 2.0)
    assert (found.status, found.passes) == ("fine", 3.0)
    assert course.log == [("a", s) for s in (1e-6, 1e-7, 1e-8, 1e-8, 1e-8, 1e-8)]


def test_solver_that_never_reaches_the_error__has_its_best_error_and_a_reason(course):
    contestants = [
        course.make("exhausted", {1e-6: 1e-2, 1e-7: 1e-3}, 1.0),
        course.make("stalled", {10.0**-k: 0.5 for k in range(6, 16)}, 0.1),
        course.make("slow", {1e-6: 1e-4, 1e-7: 1e-8}, iter([6.0, 11.0])),
        course.make("broken", {1e-6: 1e-3, 1e-7: ValueError("no\ngood")}, 0.1),
        course.make("wild", {1e-6: np.nan}, 0.1),
        course.make("long", {10.0**-k: 10.0**-k * 1e5 for k in range(6, 16)}, 7.0),
    ]
    found = run_race(PROBLEM, contestants, Rules(limit=10.0))
    assert {one.verdict for one in found} == {"never"}
    assert [one.why for one in found] == [
        "no tolerance was sufficient",
        "no improvement in 3 tighter runs",
        "time limit: 10 s",
        "raised ValueError: no good",
        "x is not finite (fine)",
        "time limit: 10 s",
    ]
    assert [one.error for one in found] == [
        pytest.approx(error) if error else None for error in (1e-3, 0.5, 1e-4, 1e-3, None, 1e-2)
    ]
    assert all(one.seconds == () and one.best == np.inf for one in found)


def test_rounds__are_interleaved_and_the_least_time_counts(course):
    first = course.make("first", {1e-6: 1e-7}, iter([9.0, 3.0, 2.0, 4.0]))
    second = course.make("second", {1e-6: 1e-7}, iter([5.0, 6.0, 7.0, 5.5]))
    found = run_race(PROBLEM, [first, second], Rules(repeats=3))
    assert [name for name, _ in course.log] == ["first", "second"] + 3 * ["first", "second"]
    assert [one.seconds for one in found] == [(9.0, 3.0, 2.0, 4.0), (5.0, 6.0, 7.0, 5.5)]
    assert [one.best for one in found] == [2.0, 5.0]


def test_rounds__exclude_much_slower_solvers_after_a_second_run(course):
    contestants = [
        course.make("quick", {1e-6: 1e-7}, 0.01),
        course.make("hiccup", {1e-6: 1e-7}, iter([0.9, 0.02, 0.02])),
        course.make("slow", {1e-6: 1e-7}, 0.5),
        course.make("very slow", {1e-6: 1e-7}, 5.0),
    ]
    found = run_race(PROBLEM, contestants, Rules(repeats=2))
    assert [len(one.seconds) for one in found] == [3, 3, 2, 1]
    assert [one.best for one in found] == pytest.approx([0.01, 0.02, 0.5, 5.0])
    assert [name for name, _ in course.log].count("very slow") == 1


def test_rounds__end_when_they_take_too_long(course):
    (found,) = run_race(PROBLEM, [course.make("a", {1e-6: 1e-7}, 9.0)], Rules(repeats=50, limit=10.0))
    assert found.seconds == (9.0, 9.0, 9.0)


def test_compiling__is_outside_the_clock(course):
    (found,) = run_race(PROBLEM, [course.make("a", {1e-6: 1e-7}, 1.0, outside=30.0)], Rules(repeats=1))
    assert found.seconds == (1.0, 1.0)


def test_a_repeat_that_misses__spoils_the_result(course):
    one = course.make("fickle", {1e-6: 1e-7}, 1.0)
    monkey = iter([1e-7, 1e-7, 1e-4])
    one.run = lambda A, b, setting, seconds: Finish(np.array([1.0 + next(monkey), 0.0]), "fine")
    (found,) = run_race(PROBLEM, [one], Rules(repeats=2))
    assert (found.verdict, found.why, found.seconds) == ("never", "a later run missed it", ())
    assert found.error == pytest.approx(1e-4)


def test_amounts_of_work__are_not_tried_when_the_next_would_take_too_long(course):
    one = course.make("epochs", {1.0: 0.1, 2.0: 0.01, 4.0: 1e-9}, iter([3.0, 6.0]))
    one.knob = "epochs"
    (found,) = run_race(PROBLEM, [one], Rules(limit=10.0))
    assert (found.verdict, found.why) == ("never", "time limit: 4 epochs would take about 12 s")


@pytest.mark.parametrize(
    ("trait", "value", "words"),
    [
        ("refusal", "takes no such thing", "takes no such thing"),
        ("expected_seconds", 75.0, "about 75 s expected"),
        ("expected_bytes", 6e9, "about 6.0 GB more memory expected, 5.0 GB available"),
    ],
)
def test_solver_that_would_take_too_long__is_skipped_with_a_reason(course, monkeypatch, trait, value, words):
    monkeypatch.setattr(running, "free_memory", lambda: 5e9)
    one = course.make("a", {1e-6: 1e-7}, 1.0)
    setattr(one, trait, lambda _: value)
    (found,) = run_race(PROBLEM, [one], Rules())
    assert (found.verdict, found.why, course.log) == ("skipped", words, [])


def test_ctrl_c__ends_the_race(course):
    one = course.make("a", {1e-6: 1e-7}, 1.0)

    def press(A, b, setting, seconds):
        raise KeyboardInterrupt

    one.run = press
    with pytest.raises(KeyboardInterrupt):
        run_race(PROBLEM, [one], Rules())


def test_race__reports_its_progress(course):
    told = []
    run_race(PROBLEM, [course.make("a", {1e-6: 1e-7}, 1.0)], Rules(repeats=1), told.append)
    assert told == ["a: searching for its setting", "a: round 1 of 1"]
