"""The orthogonality value, and the angles of Gaussian vectors."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from scipy.special import betainc

from rowsolve.theory import (
    alignment_probability,
    alignment_probability_upper_bound,
    orthogonality_probability_lower_bound_as_printed,
    orthogonality_value,
)

EPS = st.floats(0.0, 1.0)
DIMENSION = st.integers(1, 500)


def test_orthogonality_value__has_the_values_of_the_paper():
    assert orthogonality_value(np.eye(4)) == 0.0
    assert orthogonality_value(np.ones((5, 5))) == pytest.approx(1.0, rel=1e-15)
    assert orthogonality_value(np.ones((5, 5)) / np.sqrt(5)) == pytest.approx(1.0, rel=1e-15)


def test_orthogonality_value__is_the_largest_cosine_whatever_the_signs():
    assert orthogonality_value([[1, 0], [3, 4]]) == pytest.approx(0.6, rel=1e-15)
    assert orthogonality_value([[2, 0, 0], [-3, 4, 0], [0, 0, -1]]) == pytest.approx(0.6, rel=1e-15)
    assert orthogonality_value(sparse.coo_array([[1.0, 0.0], [3.0, 4.0]])) == pytest.approx(0.6, rel=1e-15)


@given(st.integers(2, 8), st.integers(1, 8), st.integers(0, 10**6))
def test_orthogonality_value__agrees_with_all_pairs(k, p, seed):
    A = np.random.default_rng(seed).standard_normal((k, p))
    pairs = [abs(A[i] @ A[j]) / np.linalg.norm(A[i]) / np.linalg.norm(A[j]) for i in range(k) for j in range(i)]
    assert orthogonality_value(A) == pytest.approx(max(pairs), rel=1e-13)


@given(st.lists(st.integers(-150, 150), min_size=3, max_size=3), st.integers(0, 1000))
def test_orthogonality_value__does_not_depend_on_the_scale_of_a_row(exponents, seed):
    A = np.random.default_rng(seed).standard_normal((3, 5))
    scaled = A * 10.0 ** np.array(exponents)[:, None]
    assert orthogonality_value(scaled) == pytest.approx(orthogonality_value(A), rel=1e-13)


def test_orthogonality_value__survives_entries_at_both_ends_of_float64():
    assert orthogonality_value([[1e308, 1e308], [5e-324, 0.0]]) == pytest.approx(np.sqrt(0.5))


def test_orthogonality_value__finds_a_pair_in_different_strips():
    axes = np.eye(1250)
    assert orthogonality_value(axes) == 0.0
    assert orthogonality_value(np.vstack([axes, -axes[0]])) == 1.0  # the first and the last row
    assert orthogonality_value(np.vstack([axes, -axes[-1]])) == 1.0  # the last two


def test_orthogonality_value__refuses_what_has_no_angle():
    with pytest.raises(ValueError, match="at least 2 rows to compare, got 1"):
        orthogonality_value([[1.0, 2.0]])
    with pytest.raises(ValueError, match="no zero rows, but row 1 is zero"):
        orthogonality_value([[1.0, 2.0], [0.0, 0.0]])
    with pytest.raises(ValueError, match="must be finite; row 1 is not"):
        orthogonality_value([[1.0, 2.0], [0.0, np.nan]])
    with pytest.raises(ValueError, match=r"got shape \(2,\)"):
        orthogonality_value([1.0, 2.0])
    with pytest.raises(ValueError, match="must be real, got dtype complex128"):
        orthogonality_value([[1j, 2.0], [0.0, 1.0]])


@given(EPS, DIMENSION)
def test_alignment_probability__is_that_of_the_beta_distribution(eps, d):
    expected = float(eps < 1.0) if d == 1 else 1 - betainc(0.5, (d - 1) / 2, eps**2)
    assert alignment_probability(eps, d) == pytest.approx(expected, abs=1e-13)


@pytest.mark.parametrize(("d", "expected"), [(1, 1.0), (2, 2 / 3), (3, 0.5), (5, 0.3125)])
def test_alignment_probability__has_the_values_of_geometry(d, expected):
    # In the plane 60 of 90 degrees are off by more than 30; on the sphere the cosine is uniform.
    assert alignment_probability(0.5, d) == pytest.approx(expected, rel=1e-14)


def test_alignment_probability__is_what_gaussian_vectors_show():
    rng = np.random.default_rng(0)
    u, v = rng.standard_normal((2, 40_000, 20))
    cosines = np.sum(u * v, axis=1) / np.linalg.norm(u, axis=1) / np.linalg.norm(v, axis=1)
    assert np.mean(np.abs(cosines) > 0.3) == pytest.approx(alignment_probability(0.3, 20), abs=0.01)
    assert np.var(cosines) == pytest.approx(1 / 20, rel=0.03)


@given(EPS, DIMENSION)
def test_upper_bound__is_never_below_the_probability(eps, d):
    assert alignment_probability(eps, d) <= alignment_probability_upper_bound(eps, d) + 1e-13


def test_upper_bound__is_chebyshevs_and_at_most_one():
    assert alignment_probability_upper_bound(0.5, 100) == pytest.approx(0.04)
    assert alignment_probability_upper_bound(0.05, 100) == 1.0
    assert alignment_probability_upper_bound(0.0, 100) == 1.0


def test_printed_theorem__with_delta_zero_promises_a_probability_above_one():
    printed = orthogonality_probability_lower_bound_as_printed(eps=0.1, d=25, delta=0.0, c=1.0)
    assert printed == pytest.approx(15.0)  # (1 - 4) (1 - 6)
    assert 1 - alignment_probability(0.1, 25) < 0.4


def test_printed_theorem__fails_for_other_delta_as_well():
    # Both factors are negative, and the product is a probability, but not reached.
    printed = orthogonality_probability_lower_bound_as_printed(eps=0.1, d=100, delta=0.05, c=1.0)
    assert printed == pytest.approx(0.836, abs=1e-3)
    assert 1 - alignment_probability(0.1, 100) == pytest.approx(0.680, abs=1e-3)


@given(st.floats(1e-3, 1.0), DIMENSION, st.floats(0.0, 0.99), st.floats(0.01, 10.0))
def test_printed_theorem__never_says_more_than_the_corrected_one_unless_both_factors_are_negative(eps, d, delta, c):
    printed = orthogonality_probability_lower_bound_as_printed(eps, d, delta, c)
    both_negative = d * eps**2 * (1 - delta) ** 4 < 1 and 6 * np.exp(-c * delta**2 * d) > 1
    if not both_negative:
        assert printed <= 1 - alignment_probability_upper_bound(eps, d) + 1e-12


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((1.5, 3, 0.5, 1.0), "`eps` must be a number from 0 to 1, got 1.5"),
        ((0.5, 0, 0.5, 1.0), "`d` must be an integer of at least 1, got 0"),
        ((0.5, 3, -0.1, 1.0), "`delta` must be a number from 0 to 1, got -0.1"),
        ((0.5, 3, 1.0, 1.0), "`delta` below 1"),
        ((0.0, 3, 0.5, 1.0), "`eps` must be above 0"),
        ((0.5, 3, 0.5, 0.0), "`c` must be a finite number above 0, got 0.0"),
    ],
)
def test_printed_theorem__refuses_what_it_is_not_about(arguments, words):
    with pytest.raises(ValueError, match=words):
        orthogonality_probability_lower_bound_as_printed(*arguments)


@pytest.mark.parametrize("function", [alignment_probability, alignment_probability_upper_bound])
def test_probabilities__reject_bad_input(function):
    with pytest.raises(ValueError, match="`eps` must be a number from 0 to 1, got nan"):
        function(np.nan, 3)
    with pytest.raises(ValueError, match=r"`d` must be an integer of at least 1, got 2\.5"):
        function(0.5, 2.5)
