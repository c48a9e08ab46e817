"""The methods of docs/extending.md work with `solve`, `race` and checkpoints, with honest estimates of their errors."""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path

import numpy as np
import pytest
from conftest import gaussian, relative_error

import rowsolve
from rowsolve import Status

PAGE = (Path(__file__).parent.parent / "docs" / "extending.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def run(code):
    """Run code of the page as a module of its own."""
    module = types.ModuleType("page")
    sys.modules["page"] = module
    exec(compile(code, "extending.md", "exec", dont_inherit=True), vars(module))
    return module


page = run("\n".join(BLOCKS[:2]))
RandomRuns, CoordinateDescent = page.RandomRuns, page.CoordinateDescent


def test_page__can_be_run_as_it_is(capsys):
    run("\n".join(BLOCKS))
    assert capsys.readouterr().out.count("within the tolerance") == 2


@pytest.mark.parametrize("method", [RandomRuns, RandomRuns(7), CoordinateDescent()])
@pytest.mark.parametrize("seed", range(3))
def test_methods__solve_a_consistent_system_and_estimate_their_error(method, seed):
    A, b, x = gaussian(600, 20, seed=seed)
    solution = rowsolve.solve(A, b, method, rng=seed)
    error = relative_error(solution.x, x)
    assert solution.status is Status.CONVERGED
    assert error <= 2e-6
    assert error / 5 <= solution.error_estimate <= 30 * error


def test_row_method__detects_an_inconsistent_system():
    A, b, _ = gaussian(600, 20, noise=0.1)
    assert rowsolve.solve(A, b, RandomRuns(), rng=0).status is Status.INCONSISTENT


@pytest.mark.parametrize("condition", [1.0, 30.0, 100.0])
def test_step_method__converges_to_the_least_squares_solution_and_estimates_its_error(condition):
    A, b, _ = gaussian(400, 12, noise=0.3)
    A = A * np.geomspace(1.0, 1.0 / condition, 12) @ np.linalg.qr(np.random.default_rng(3).standard_normal((12, 12)))[0]
    solution = rowsolve.solve(A, b, CoordinateDescent, rtol=1e-8, rng=1, max_passes=1e5)
    error = relative_error(solution.x, np.linalg.lstsq(A, b)[0])
    assert solution.status is Status.CONVERGED
    assert error <= 2e-8
    assert solution.error_estimate >= error / 5


@pytest.mark.parametrize(("method", "noise"), [(RandomRuns(), 0.0), (CoordinateDescent(), 0.1)])
def test_methods__resume_from_a_checkpoint_with_the_same_bits(method, noise, tmp_path, monkeypatch):
    monkeypatch.setenv("ROWSOLVE_CHECKPOINT_SECONDS", "0")
    monkeypatch.setattr("rowsolve.checkpoint.file._MOST_OF_THE_TIME", 1e9)  # so that each step is saved
    A, b, _ = gaussian(600, 20, noise=noise)
    whole, events = rowsolve.solve(A, b, method, rng=4), []
    assert whole.nit > 3

    def stop(event):
        events.append(event)
        return len(events) == whole.nit - 1

    path = tmp_path / "state"
    cut = rowsolve.solve(A, b, method, rng=4, checkpoint=path, callback=stop)
    assert cut.status is Status.STOPPED
    assert path.exists()
    again = rowsolve.solve(A, b, method, rng=4, checkpoint=path, resume=True)
    np.testing.assert_array_equal(again.x, whole.x)
    assert again.history.error_estimate == whole.history.error_estimate


def test_methods__can_be_raced():
    from rowsolve.race.lineup import line_up

    A, b, x = gaussian(600, 20)
    contestants, _ = line_up([RandomRuns(), "block"])
    assert [each.name for each in contestants[:3]] == ["rowsolve auto", "rowsolve random-runs", "rowsolve block"]
    finish = contestants[1].run(A, b, 1e-6, 60.0)
    assert relative_error(finish.x, x) < 2e-6
