from __future__ import annotations

import naive
import numpy as np
import pytest
from bursts import burst_of
from conftest import check_solution, gaussian, relative_error

import rowsolve
from rowsolve import JL


@pytest.mark.parametrize("reference", ["origin", "refresh"])
def test_step__is_on_the_furthest_row_by_sketched_distance_or_on_another_that_is_further(reference):
    A, b, _ = gaussian(40, 12)
    burst = burst_of(JL(sketch_size=5, n_candidates=40, reference=reference, refresh_every=None), A, b, 2)
    best, first = burst.order
    x, phi = burst.start[0], burst.plan.phi
    origin = np.zeros(12) if reference == "origin" else x
    assert burst.plan.origin.tolist() == origin.tolist()
    assert best == naive.furthest_candidate(A @ phi.T, b - A @ origin, phi @ (x - origin), np.arange(40))
    distances = np.abs(b - A @ x) / np.linalg.norm(A, axis=1)
    expected, drops = burst.start.copy(), np.zeros(2)
    naive.project(A, b, best if distances[best] >= distances[first] else first, expected, drops)
    np.testing.assert_allclose(burst.iterates, expected, rtol=1e-9)
    np.testing.assert_allclose(burst.drops, drops, rtol=1e-9)
    assert burst.system.counter.rows_read == (40 if reference == "origin" else 80)


@pytest.mark.parametrize(
    "method",
    [
        JL(sketch_size=1, n_candidates=1),
        JL(sketch_size=20, n_candidates=500),
        JL(reference="refresh"),
        JL(sketch_size=8, reference="refresh", refresh_every=7),
    ],
    ids=repr,
)
def test_parameters__all_lead_to_the_solution(method):
    check_solution(method)


@pytest.mark.compiled
def test_first_steps__take_more_off_the_error_than_those_on_random_rows():
    A, b, x_true = gaussian(4000, 200, seed=2)

    def error_after(method, n_rows):
        return relative_error(rowsolve.solve(A, b, method, rtol=0.0, max_passes=n_rows / 4000, rng=0).x, x_true)

    greedy = error_after(JL(sketch_size=100), 4000 + 2 * 200)  # a pass, then 200 steps of two rows
    plain = error_after(rowsolve.Randomized(weights="uniform"), 200)
    assert greedy < 0.75 * plain


@pytest.mark.compiled
def test_refresh__keeps_the_selection_accurate():
    A, b, x_true = gaussian(10_000, 250, seed=3)

    def error_after(method, steps):
        errors = []
        done = steps // 25  # bursts of 25 steps: p / 10

        def watch(event):
            if event.stage == "solve":
                errors.append(relative_error(event.x, x_true))
            return len(errors) == done

        rowsolve.solve(A, b, method, rtol=0.0, rng=0, callback=watch)
        return errors[-1]

    options = {"sketch_size": 32, "n_candidates": 100}
    refreshed = error_after(JL(**options, reference="refresh"), 1000)
    plain = relative_error(rowsolve.solve(A, b, JL(**options), rtol=0.0, max_passes=1 + 0.2, rng=0).x, x_true)
    assert refreshed < plain / 10  # after 4 p steps each


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: JL(sketch_size=0), "`sketch_size` must be an integer"),
        (lambda: JL(n_candidates=True), "`n_candidates` must be an integer"),
        (lambda: JL(reference="new"), "`reference` must be one of 'origin', 'refresh'"),
        (lambda: JL(refresh_every=5), "`refresh_every` requires reference='refresh'"),
    ],
)
def test_parameters__that_are_invalid_raise_an_error(make, words):
    with pytest.raises(ValueError, match=words):
        make()
