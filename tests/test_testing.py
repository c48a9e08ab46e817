"""The checks of a method find what they look for: each fails for a method that was broken on purpose."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from rowsolve import Status, testing
from rowsolve.estimate.step import Step
from rowsolve.methods.base import Capabilities, Plan, RowMethod, StepMethod
from rowsolve.methods.oblivious import sweep_rows
from rowsolve.testing import check_method


@dataclass(frozen=True)
class Rows(RowMethod):
    """Random rows. Nothing is wrong with them."""

    name = "rows"
    summary = "random rows"
    citation = "none"

    def prepare(self, system, rng):
        return Plan(system)

    def advance(self, plan, iterates, n_rows, rng, drops):
        order = rng.integers(0, plan.system.n_rows, n_rows)
        drops[:] = 0.0
        sweep_rows(plan.system, order, iterates, drops)
        return order


class Boasts(Rows):
    """The probe loses a hundred times what it should, so that x seems to be done."""

    def advance(self, plan, iterates, n_rows, rng, drops):
        order = super().advance(plan, iterates, n_rows, rng, drops)
        iterates[1] /= 10.0
        drops[0] /= 100.0
        return order


class Hides(Rows):
    """Only one of the rows is counted."""

    def advance(self, plan, iterates, n_rows, rng, drops):
        return super().advance(plan, iterates, n_rows, rng, drops)[:1]


class Forgets(Rows):
    """What decides on the next rows is not in the plan."""

    place: ClassVar[list[int]] = [0]

    def advance(self, plan, iterates, n_rows, rng, drops):
        order = (self.place[0] + np.arange(n_rows)) % plan.system.n_rows
        self.place[0] = int(order[-1]) + 1
        drops[:] = 0.0
        sweep_rows(plan.system, order, iterates, drops)
        return order

    def prepare(self, system, rng):
        self.place[0] = 0
        return Plan(system)


class Writes(Rows):
    """The rows are scaled in place."""

    def prepare(self, system, rng):
        A = system.source.as_matrix()
        while A.base is not None:
            A = A.base
        A *= 0.5
        A *= 2.0
        A[0, 0] = np.nextafter(A[0, 0], np.inf)
        return Plan(system)


class Draws(Rows):
    """The rows depend on more than the seed."""

    def advance(self, plan, iterates, n_rows, rng, drops):
        return super().advance(plan, iterates, n_rows, np.random.default_rng(), drops)


@dataclass(frozen=True)
class Claims(StepMethod):
    """One step of steepest descent, said to be exact, without a count of the rows."""

    name = "claims"
    summary = "one step"
    citation = "none"

    def steps(self, system, x0, tolerance, rng, probe=None):
        A = system.source.as_matrix()
        step = A.T @ (system.b - A @ x0)
        yield Step(x0 + step / np.linalg.norm(A) ** 2, 1e-9, Status.CONVERGED)


class Overreaches(Rows):
    """It moves the first x only."""

    can = Capabilities(many_b=True)

    def advance(self, plan, iterates, n_rows, rng, drops):
        kept = iterates[1].copy()
        order = super().advance(plan, iterates, n_rows, rng, drops)
        if len(iterates) > 2:
            iterates[1] = kept
        return order


BROKEN = {
    Overreaches: ("check_capabilities", "must solve for each b, got an error of"),
    Boasts: ("check_consistent", "estimates the error|must solve a consistent system to 1e-06"),
    Claims: ("check_consistent", "must solve a consistent system, got The system is inconsistent"),
    Hides: ("check_counts", r"has used at least \d+ rows, of which \d+ were counted"),
    Forgets: ("check_resumable", r"resumed after \d+ of \d+ steps, must give the same x to the last bit"),
    Writes: ("check_inputs", "must not write to A"),
    Draws: ("check_repeatable", "must give the same x, to the last bit, for the same seed"),
}


def test_a_sound_method__passes():
    check_method(Rows)


@pytest.mark.parametrize("method", BROKEN, ids=lambda method: method.__name__)
def test_a_broken_method__fails_the_check_of_what_is_broken(method):
    check, words = BROKEN[method]
    with pytest.raises(AssertionError, match=words):
        getattr(testing, check)(method())
    with pytest.raises(AssertionError):
        check_method(method)


class Hoards(Rows):
    """What the plan has cannot be saved."""

    def prepare(self, system, rng):
        plan = Plan(system)
        plan.seen = {1, 2}
        return plan


def test_state_that_cannot_be_saved__is_reported():
    with pytest.raises(AssertionError, match="must have a state that can be saved"):
        testing.check_resumable(Hoards())
