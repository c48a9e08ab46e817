"""Which rule of `auto` applies to a system, and which after a method has ended."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from scipy import sparse

from rowsolve import Deflated, Direct, Randomized, Refined, Status
from rowsolve.policy.auto import FIRST, NEXT, Ending, first_choice, next_choice
from rowsolve.problem.clock import Clock
from rowsolve.problem.system import System
from rowsolve.sources import open_rows

RANDOM = Randomized("uniform", replace=False)


def system(n, p, *, noise=0.0, sides=1, density=None, **more):
    """Return a system with normal numbers; those of a large one are all zero, as no rule reads them."""
    rng = np.random.default_rng(0)
    if density is not None:
        A = sparse.random_array((n, p), density=density, rng=rng, format="csr")
    else:
        A = rng.standard_normal((n, p)) if n * p <= 1e7 else np.zeros((n, p))
    b = A @ np.ones((p, sides)) + noise * rng.standard_normal((n, sides))
    return System(open_rows(A), b[:, 0] if sides == 1 else b, threads=2, **more)


STARTS = {
    "A small sample of the rows is consistent: ": (partial(system, 100_000, 60), Direct()),
    "`damp` requires a least-squares method: ": (partial(system, 3000, 700, damp=0.5), Refined()),
    "The system is small: ": (partial(system, 400, 20, noise=0.1), Refined("all")),
    "A small sample of the rows is inconsistent or singular: ": (partial(system, 20_000, 400, noise=0.1), Refined()),
    "A has few columns: ": (partial(system, 20_000, 400), Direct()),
    "b has several columns: ": (partial(system, 12_000, 700, sides=3), Direct()),
    "Passes over all rows are cheaper here than random rows: ": (
        partial(system, 50_000, 2000, density=0.002),
        Refined(),
    ),
    "": (partial(system, 20_000, 1000), RANDOM),
}


@pytest.mark.parametrize("why", STARTS)
def test_first_choice__is_that_of_the_first_rule_that_holds(why):
    make, method = STARTS[why]
    assert first_choice(make(), 1e-6) == (why, method)


def test_first_choice__depends_on_the_rows_that_may_be_read():
    given = system(400, 20)
    assert first_choice(given, 1e-6).why == "The system is small: "
    assert first_choice(given, 1e-6, 300.0) == ("A has few columns: ", Direct())


def test_damp__is_no_reason_against_all_rows_of_a_small_system():
    assert first_choice(system(400, 20, damp=0.5), 1e-6).method == Refined("all")


TALL, WIDE = system(20_000, 1000), system(1500, 1000)
LATE = system(20_000, 1000, clock=Clock(0.0))
BOUNDED = system(20_000, 1000, bounds=(np.zeros(1000), np.ones(1000)))
AFTERWARDS = [
    (Ending(BOUNDED, Direct(), Status.CONVERGED, outside=True), "x was outside the bounds: ", Refined()),
    (Ending(BOUNDED, Direct(), Status.PRECISION, outside=True), "x was outside the bounds: ", Refined()),
    (Ending(TALL, Direct(), Status.MAX_SECONDS), "Factoring a sample would take longer than `max_seconds`: ",
     Refined()),
    (Ending(TALL, Direct(), Status.INCONSISTENT),
     "The other rows are inconsistent with the sample, because of noise or rounding: ", Refined()),
    (Ending(TALL, RANDOM, Status.SLOW, suspicious=True),
     "The iterates did not settle, so the system seems to be inconsistent: ", Refined()),
    (Ending(TALL, Deflated("rows"), Status.INCONSISTENT, suspicious=True),
     "The iterates did not settle, so the system seems to be inconsistent: ", Refined()),
    (Ending(TALL, RANDOM, Status.SLOW, sharing=True), "The error decreased slowly because rows are nearly parallel: ",
     Deflated("rows")),
    (Ending(WIDE, RANDOM, Status.SLOW, sharing=True),
     "The error decreased slowly, and using all rows takes little longer than another attempt: ", Refined("all")),
    (Ending(TALL, Deflated("rows"), Status.SLOW, sharing=True), "The error decreased slowly, so A is ill-conditioned: ",
     Direct()),
    (Ending(BOUNDED, RANDOM, Status.SLOW), "The error decreased slowly, so A is ill-conditioned: ", Direct()),
]  # fmt: skip


@pytest.mark.parametrize(("ending", "why", "method"), AFTERWARDS)
def test_next_choice__is_that_of_the_first_rule_that_holds(ending, why, method):
    assert next_choice(ending) == (why, method)


@pytest.mark.parametrize(
    "ending",
    [
        Ending(TALL, RANDOM, Status.CONVERGED),
        Ending(TALL, RANDOM, Status.CONVERGED, suspicious=True),
        Ending(TALL, RANDOM, Status.INCONSISTENT),
        Ending(TALL, RANDOM, Status.MAX_SECONDS),
        Ending(TALL, Direct(), Status.CONVERGED),
        Ending(LATE, Direct(), Status.MAX_SECONDS),
        Ending(TALL, Refined(), Status.PRECISION),
    ],
)
def test_next_choice__is_none_if_nothing_else_would_help(ending):
    assert next_choice(ending) is None


def test_every_rule__is_tested_but_those_of_files():
    files = {
        "Reading a sample would take as long as reading all rows: ",
        "The rows are not in memory, so as few as possible were read: ",
    }
    assert {rule.why for rule in FIRST} == STARTS.keys() | files
    assert {rule.why for rule in NEXT} == {why for _, why, _ in AFTERWARDS}
