"""A burst of rows of a method, to compare with what numpy makes of the same rows."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from rowsolve.problem.system import System
from rowsolve.sources import open_rows


def burst_of(method, A, b, n_rows, seed=0):
    """Let `method` take a burst from a random x; return its plan, its system, the rows, and x before and after."""
    system, rng = System(open_rows(A), b), np.random.default_rng(seed)
    plan = method.begin(system, rng)
    start = np.random.default_rng(seed + 1).standard_normal((2, A.shape[1]))
    found = SimpleNamespace(plan=plan, system=system, start=start, iterates=start.copy(), drops=np.empty(2))
    found.order = method.advance(plan, found.iterates, n_rows, rng, found.drops)
    return found


def assert_taken(burst, step, *arguments):
    """Assert that `step` of `naive` with the same rows gives the same x, the same probe and the same drops."""
    expected = burst.start.copy()
    drops = step(*arguments, expected)
    np.testing.assert_allclose(burst.iterates, expected, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(burst.drops, drops, rtol=1e-9)
