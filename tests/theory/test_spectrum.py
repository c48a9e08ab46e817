"""Bounds on the spectrum of blocks: counter-examples to the printed ones, random checks of the corrected ones."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowsolve import theory

BOUNDS = [
    name for name in theory.__all__ if "_bound" in name and ("singular" in name or "norm" in name or "cond" in name)
]
FRACTION = st.floats(0.0, 1.0)


def rows_with_products(product, k):
    """Return k unit rows any two of which have the same inner product."""
    gram = np.full((k, k), product) + (1 - product) * np.eye(k)
    values, vectors = np.linalg.eigh(gram)
    return vectors * np.sqrt(np.maximum(values, 0.0))


def unit_rows(k, p, common, seed):
    """Return unit rows with a common direction of weight `common`, with random signs."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((k, p)) + common * rng.standard_normal(p)
    A *= rng.choice([-1.0, 1.0], (k, 1))
    return A / np.linalg.norm(A, axis=1, keepdims=True)


def gram_spectrum(A):
    return np.linalg.eigvalsh(A @ A.T)


def cosines(A):
    return (A @ A.T)[~np.eye(len(A), dtype=bool)]


rows = st.builds(unit_rows, st.integers(2, 7), st.integers(2, 30), st.floats(0.0, 5.0), st.integers(0, 10**6))


@given(rows)
def test_spectrum__lies_within_the_corrected_bounds(A):
    k, eps = len(A), theory.orthogonality_value(A)
    least, largest = gram_spectrum(A)[[0, -1]]
    assert largest <= theory.spectral_norm_upper_bound(k, eps) + 1e-12
    assert least >= theory.smallest_singular_value_lower_bound(k, eps) - 1e-12
    assert largest >= theory.spectral_norm_lower_bound(k, np.abs(cosines(A)).min()) - 1e-12
    assert largest >= theory.spectral_norm_lower_bound_signed(k, max(0.0, cosines(A).min())) - 1e-12
    if least > 1e-9:
        assert largest / least <= theory.condition_number_upper_bound(k, eps) * (1 + 1e-6)


@given(st.integers(2, 12), FRACTION)
def test_rows_with_equal_products__attain_the_bounds(k, share):
    above = rows_with_products(share, k)
    assert gram_spectrum(above)[-1] == pytest.approx(theory.spectral_norm_upper_bound(k, share))
    assert gram_spectrum(above)[-1] == pytest.approx(theory.spectral_norm_lower_bound_signed(k, share))
    eps = share / (k - 1)  # as large as k equal negative products can be
    below = rows_with_products(-eps, k)
    assert gram_spectrum(below)[0] == pytest.approx(theory.smallest_singular_value_lower_bound(k, eps), abs=1e-12)


def test_upper_bound_as_printed__is_true_but_loose():
    assert theory.spectral_norm_upper_bound(4, 0.25) == 1.75
    assert theory.spectral_norm_upper_bound_as_printed(4, 0.25) == 2.0


def test_lower_bound_as_printed__fails_for_three_vectors_at_120_degrees():
    angles = np.deg2rad([0, 120, 240])
    A = np.column_stack([np.cos(angles), np.sin(angles)])
    assert np.abs(cosines(A)) == pytest.approx(0.5)
    norm = gram_spectrum(A)[-1]
    assert norm == pytest.approx(1.5)
    assert theory.spectral_norm_lower_bound_as_printed(3, 0.5) == 2.0 > norm
    assert theory.spectral_norm_lower_bound(3, 0.5) == pytest.approx(norm)  # attained


def test_smallest_singular_value_as_printed__fails_for_three_rows():
    A = rows_with_products(-0.4, 3)
    assert theory.orthogonality_value(A) == pytest.approx(0.4)
    least = gram_spectrum(A)[0]
    assert least == pytest.approx(0.2)
    assert theory.smallest_singular_value_lower_bound_as_printed(3, 0.4) == pytest.approx(0.6)
    assert theory.smallest_singular_value_lower_bound(3, 0.4) == pytest.approx(least)


@pytest.mark.parametrize("k", [3, 4, 5, 10])
def test_bounds_as_printed__fail_for_any_number_of_rows_from_three_on(k):
    eps = 0.9 / (k - 1)
    least, largest = gram_spectrum(rows_with_products(-eps, k))[[0, -1]]
    assert least < theory.smallest_singular_value_lower_bound_as_printed(k, eps)
    assert largest / least > theory.condition_number_upper_bound_as_printed(k, eps)
    assert largest / least <= theory.condition_number_upper_bound(k, eps)
    assert largest < theory.spectral_norm_lower_bound_as_printed(k, eps)


@given(FRACTION, st.booleans())
def test_bounds_as_printed__hold_for_two_rows(eps, negative):
    least, largest = gram_spectrum(rows_with_products(-eps if negative else eps, 2))
    assert least >= theory.smallest_singular_value_lower_bound_as_printed(2, eps) - 1e-12
    assert largest >= theory.spectral_norm_lower_bound_as_printed(2, eps) - 1e-12
    if eps < 0.999:
        assert largest / least <= theory.condition_number_upper_bound_as_printed(2, eps) * (1 + 1e-9)


def test_condition_number_as_printed__fails_for_three_rows():
    least, largest = gram_spectrum(rows_with_products(-0.4, 3))[[0, -1]]
    assert largest / least == pytest.approx(7.0)
    assert theory.condition_number_upper_bound_as_printed(3, 0.4) == pytest.approx(2.2 / 0.6)
    assert theory.condition_number_upper_bound(3, 0.4) == pytest.approx(1.8 / 0.2)


def test_condition_number__has_a_hypothesis_as_printed_that_makes_the_bound_negative():
    eps = 2.0
    A = rows_with_products(0.5, 2)
    assert theory.orthogonality_value(A) >= 1 / eps - 1e-12
    assert np.linalg.cond(A @ A.T) == pytest.approx(3.0)
    assert (1 + 2 * eps) / (1 - eps) == -5.0


@pytest.mark.parametrize("k", range(2, 60))
def test_condition_number__is_infinite_from_dependent_rows_on(k):
    assert theory.condition_number_upper_bound(k, 1 / (k - 1)) == math.inf
    assert theory.smallest_singular_value_lower_bound(k, 1 / (k - 1)) == 0.0
    assert theory.condition_number_upper_bound(k, 0.99 / (k - 1)) < 200
    assert theory.condition_number_upper_bound(k, 1.0) == math.inf
    assert theory.condition_number_upper_bound_as_printed(k, 1.0) == math.inf


def test_a_single_row__and_orthogonal_rows_have_no_spread():
    for k, eps in [(1, 0.7), (5, 0.0)]:
        assert theory.spectral_norm_upper_bound(k, eps) == 1.0
        assert theory.spectral_norm_lower_bound(k, eps) == 1.0
        assert theory.smallest_singular_value_lower_bound(k, eps) == 1.0
        assert theory.condition_number_upper_bound(k, eps) == 1.0


@pytest.mark.parametrize("name", BOUNDS)
def test_bounds__reject_bad_input(name):
    bound = getattr(theory, name)
    with pytest.raises(ValueError, match="`k` must be an integer of at least 1, got 0"):
        bound(0, 0.5)
    with pytest.raises(ValueError, match=r"must be a number from 0 to 1, got 1\.01"):
        bound(3, 1.01)
    with pytest.raises(ValueError, match=r"must be a number from 0 to 1, got '0\.5'"):
        bound(3, "0.5")


def test_bounds__are_all_checked():
    assert len(BOUNDS) == 9
