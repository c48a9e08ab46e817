"""The cost model, and the arithmetic and assumptions of the proposition."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rowsolve import theory


def test_costs__have_the_values_of_their_parts():
    n, p, k, d, s = 1000, 100, 4, 10, 50
    assert theory.jl_cost(n, p, d, s) == (1_000_000 + 100_000, 500 + 300 + 10)
    assert theory.jl_cost_as_printed(n, p, d, s) == (1_100_000, 500 + 300 + 1000)
    assert theory.cluster_jl_cost(n, p, k, d, s) == (1_100_000 + 800_000, 810 + 4)
    assert theory.cluster_jl_cost_as_printed(n, p, k, d, s) == (1_100_000 + 400_000, 1800 + 400)
    assert theory.jl_cost(n, p, d, s).total(10) == 1_100_000 + 8100
    assert theory.jl_cost(n, p, d, s).total(0) == 1_100_000


@pytest.mark.parametrize("log_p", [5, 10, 20, 40])
def test_proposition__is_right_about_the_cost_of_a_step(log_p):
    p = round(math.exp(log_p))
    by_all = theory.jl_cost_as_printed(10 * p, p, log_p, n_candidates=log_p * p).per_step
    by_cluster = theory.cluster_jl_cost_as_printed(10 * p, p, log_p, log_p, n_candidates=p).per_step
    assert by_all == pytest.approx(p * (log_p**2 + log_p + 3))
    assert by_cluster == pytest.approx(p * (3 * log_p + 3))


def test_clusters__cost_more_if_they_do_not_save_candidates():
    jl, clustered = theory.jl_cost(1000, 100, 10, 50), theory.cluster_jl_cost(1000, 100, 4, 10, 50)
    assert clustered.set_up > jl.set_up
    assert clustered.per_step > jl.per_step


def test_proposition__assumes_that_the_furthest_rows_lie_in_the_furthest_cluster_which_they_need_not():
    error = np.array([0.0, 1.0, 0.0])
    wide = np.array([[1.0, 0.5, 0.0], [1.0, -0.5, 0.0]])  # around the first axis: their gaps cancel
    tight = np.array([[0.0, 0.1, 1.0], [0.0, 0.1, 1.0]])
    gaps = [np.abs(A @ error) / np.linalg.norm(A, axis=1) for A in (wide, tight)]
    centroid_gaps = [abs(A.mean(axis=0) @ error) / np.linalg.norm(A.mean(axis=0)) for A in (wide, tight)]
    assert centroid_gaps[1] > centroid_gaps[0] == 0.0
    assert min(gaps[0]) > 4 * max(gaps[1])  # every row of the cluster not chosen is further


@pytest.mark.parametrize("name", ["n", "p", "k", "d", "n_candidates"])
@pytest.mark.parametrize("function", [theory.cluster_jl_cost, theory.cluster_jl_cost_as_printed])
def test_costs__reject_bad_input(function, name):
    arguments = {"n": 10, "p": 10, "k": 2, "d": 3, "n_candidates": 5} | {name: 0}
    with pytest.raises(ValueError, match=f"`{name}` must be an integer of at least 1, got 0"):
        function(**arguments)


def test_total__refuses_a_negative_number_of_steps():
    with pytest.raises(ValueError, match="`n_steps` must be an integer of at least 0, got -1"):
        theory.Cost(1, 1).total(-1)


def test_public_names__are_sorted_and_documented():
    assert theory.__all__ == sorted(theory.__all__, key=lambda name: (name[0].islower(), name))
    assert all(getattr(theory, name).__doc__ for name in theory.__all__)
