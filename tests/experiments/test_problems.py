from __future__ import annotations

import numpy as np
import pytest

from rowsolve.experiments.problems import clustered_system, gaussian_system, least_squares


def test_gaussian_system__is_consistent_unless_noise_is_asked_for():
    A, b, x = gaussian_system(300, 8, 0)
    np.testing.assert_allclose(A @ x, b)
    A, noisy, x = gaussian_system(300, 8, 0, noise=0.1)
    assert np.std(noisy - A @ x) / np.std(A @ x) == pytest.approx(0.1, rel=0.15)


def centroids_of(A, labels):
    return np.array([A[labels == label].mean(axis=0) for label in np.unique(labels)])


@pytest.mark.parametrize(("separation", "norm"), [("tight", 10.0), ("loose", 1.0), (0.3, 3.0)])
def test_clustered_system__has_centroids_of_the_stated_norm_and_rows_around_them(separation, norm):
    A, b, x, labels = clustered_system(2002, 100, 4, separation, "A", 0.2, 0)
    assert np.bincount(labels).tolist() == [501, 501, 500, 500]
    # the mean of 500 rows is off by a noise of norm 0.2 sqrt(100 / 500)
    np.testing.assert_allclose(np.linalg.norm(centroids_of(A, labels), axis=1), norm, atol=0.1)
    assert np.std(A - centroids_of(A, labels)[labels]) == pytest.approx(0.2, rel=0.01)
    np.testing.assert_allclose(A @ x, b)


def test_clustered_system__with_noise_on_b_keeps_the_spread_of_rows():
    A, b, x, labels = clustered_system(2000, 50, 4, "tight", "b", 0.2, 0, spread=0.3)
    assert np.std(A - centroids_of(A, labels)[labels]) == pytest.approx(0.3, rel=0.01)
    assert np.std(b - A @ x) / np.std(A @ x) == pytest.approx(0.2, rel=0.05)


def test_clustered_system__with_noise_on_a_after_b_has_the_b_of_the_centroids():
    A, b, x, labels = clustered_system(2000, 50, 4, "tight", "A after b", 0.2, 0)
    same, consistent, same_x, _ = clustered_system(2000, 50, 4, "tight", "A", 0.2, 0)
    np.testing.assert_array_equal(A, same)
    np.testing.assert_array_equal(x, same_x)
    # the mean of 500 rows is off the centroid by a noise of 0.2 norm(x) / sqrt(500) in the product with x
    np.testing.assert_allclose(centroids_of(A, labels) @ x, [b[labels == k][0] for k in range(4)], atol=0.3)
    assert np.unique(b).size == 4
    assert np.std(b - consistent) == pytest.approx(0.2 * np.linalg.norm(x), rel=0.05)


def test_least_squares__leaves_a_residual_orthogonal_to_the_columns():
    A, b, _, _ = clustered_system(200, 10, 4, "tight", "b", 0.2, 0)
    residual = b - A @ least_squares(A, b)
    assert np.linalg.norm(residual) > 0.1 * np.linalg.norm(b)
    np.testing.assert_allclose(A.T @ residual, 0.0, atol=1e-9 * np.linalg.norm(A) * np.linalg.norm(b))


def test_clustered_system__is_the_same_for_the_same_seed():
    for one, other in zip(clustered_system(40, 5, 3, 0.5, rng=7), clustered_system(40, 5, 3, 0.5, rng=7), strict=True):
        np.testing.assert_array_equal(one, other)


def test_clustered_system__explains_invalid_arguments():
    with pytest.raises(ValueError, match="`separation` must be 'loose', 'tight' or a number, got 'wide'"):
        clustered_system(40, 5, 3, "wide")
    with pytest.raises(ValueError, match="`noise_on` must be 'A', 'b' or 'A after b', got 'x'"):
        clustered_system(40, 5, 3, 1.0, "x")
