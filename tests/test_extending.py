"""The methods of docs/extending.md work with `solve` and `race`. What all methods promise is in test_contract.py."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import gaussian, relative_error
from extending import BLOCKS, CoordinateDescent, RandomRuns, run

import rowsolve
from rowsolve import Status


def test_page__can_be_run_as_it_is(capsys):
    run("\n".join(BLOCKS))
    assert capsys.readouterr().out.count("within the tolerance") == 2


@pytest.mark.parametrize("condition", [1.0, 30.0, 100.0])
def test_step_method__converges_to_the_least_squares_solution_and_estimates_its_error(condition):
    A, b, _ = gaussian(400, 12, noise=0.3)
    A = A * np.geomspace(1.0, 1.0 / condition, 12) @ np.linalg.qr(np.random.default_rng(3).standard_normal((12, 12)))[0]
    solution = rowsolve.solve(A, b, CoordinateDescent, rtol=1e-8, rng=1, max_passes=1e5)
    error = relative_error(solution.x, np.linalg.lstsq(A, b)[0])
    assert solution.status is Status.CONVERGED
    assert error <= 2e-8
    assert solution.error_estimate >= error / 5


def test_methods__can_be_raced():
    from rowsolve.race.lineup import line_up

    A, b, x = gaussian(600, 20)
    contestants, _ = line_up([RandomRuns(), "block"])
    assert [each.name for each in contestants[:3]] == ["rowsolve auto", "rowsolve random-runs", "rowsolve block"]
    finish = contestants[1].run(A, b, 1e-6, 60.0)
    assert relative_error(finish.x, x) < 2e-6
