from __future__ import annotations

import numpy as np
import pytest
from conftest import gaussian, relative_error

import rowsolve
from rowsolve import Greedy
from rowsolve.problem.system import System
from rowsolve.sources import open_rows


def test_all_rows_as_candidates__is_motzkins_method():
    A, b, x = gaussian(60, 5)
    system, rng, iterates = System(open_rows(A), b), np.random.default_rng(0), np.ones((2, 5))
    method, drops = Greedy(n_candidates=60), np.empty(2)
    plan = method.prepare(system, rng)
    for _ in range(8):
        before = iterates[0].copy()
        order = method.advance(plan, iterates, plan.rows_per_step, rng, drops)
        assert sorted(order.tolist()) == list(range(60))
        distances = np.abs(b - A @ before) / np.linalg.norm(A, axis=1)
        i = int(np.argmax(distances))
        np.testing.assert_allclose(iterates[0], before + (b[i] - A[i] @ before) / (A[i] @ A[i]) * A[i], rtol=1e-12)
        assert drops[0] == pytest.approx(distances[i] ** 2)
        assert np.sum((x - iterates[0]) ** 2) == pytest.approx(np.sum((x - before) ** 2) - drops[0])


def test_candidates__are_all_counted():
    A, b, _ = gaussian(300, 20)
    solution = rowsolve.solve(A, b, Greedy(n_candidates=30), rng=0)
    assert solution.converged
    assert solution.history.rows_read[0] % 30 == 0
    assert all(np.diff(solution.history.rows_read) % 30 == 0)


def test_more_candidates__take_fewer_steps_and_more_rows():
    A, b, x_true = gaussian(seed=3)
    found = {count: rowsolve.solve(A, b, Greedy(count), rng=0) for count in (1, 4, 16)}
    rows = {count: solution.rows_read - 256 for count, solution in found.items()}
    assert rows[1] < rows[4] < rows[16]
    assert rows[1] > rows[4] / 4 > rows[16] / 16  # steps
    for solution in found.values():
        assert solution.converged
        assert relative_error(solution.x, x_true) < 2e-6


@pytest.mark.compiled
@pytest.mark.parametrize("values", [np.ones(100), np.logspace(0, -1, 100)], ids=["flat", "decaying"])
def test_estimate__is_correct_throughout_though_rows_are_chosen_for_x(values):
    rng = np.random.default_rng(0)
    A, x_true = rng.standard_normal((2000, 100)) * values, rng.standard_normal(100)
    ratios = []

    def note(event):
        ratios.append(event.error_estimate * np.linalg.norm(event.x) / np.linalg.norm(event.x - x_true))

    rowsolve.solve(A, A @ x_true, Greedy(50), callback=note, rng=1, max_passes=100.0)
    settled = np.array(ratios[3:])
    assert np.median(settled) == pytest.approx(1.0, abs=0.2)
    assert settled.min() > 1 / 3
    assert settled.max() < 3


def test_candidates__must_be_a_number_of_rows():
    with pytest.raises(ValueError, match="`n_candidates` must be an integer of at least 1, got 0"):
        Greedy(n_candidates=0)
