"""An orthogonal factor: rank, pseudoinverse and refinement, against numpy."""

from __future__ import annotations

import numpy as np
import pytest

from rowsolve.lstsq.orthogonal import Orthogonal, pivoted, scaled_columns

EPS = np.finfo(float).eps
RNG = np.random.default_rng(0)
G = RNG.standard_normal
CASES = {
    "tall": G((30, 5)),
    "square": G((6, 6)),
    "wide": G((4, 9)),
    "one row": G((1, 4)),
    "one column": G((7, 1)),
    "repeated columns": np.repeat(G((20, 3)), 2, axis=1),
    "zero column": np.hstack([G((20, 2)), np.zeros((20, 1)), G((20, 2))]),
    "zero": np.zeros((5, 3)),
    "low rank": G((40, 4)) @ G((4, 12)),
    "wide and low rank": G((8, 3)) @ G((3, 20)),
    "dummies": np.hstack([np.ones((30, 1)), np.eye(4)[RNG.integers(0, 4, 30)]]),
}


@pytest.mark.parametrize("name", CASES)
def test_rank_and_pseudoinverse__are_those_of_numpy(name):
    A = CASES[name]
    factor, b = Orthogonal(A), G((len(A), 2))
    assert factor.rank == np.linalg.matrix_rank(A)
    assert factor.has_gap
    np.testing.assert_allclose(factor.solve(b), np.linalg.pinv(A) @ b, atol=1e-12)
    assert factor.inverse_norm == pytest.approx(np.linalg.norm(np.linalg.pinv(A)), rel=1e-9)


@pytest.mark.parametrize("name", CASES)
def test_correction__leads_from_anywhere_to_the_solution(name):
    A, b = CASES[name], G((len(CASES[name]), 2))
    x, r = np.linalg.pinv(A) @ G(b.shape), G(b.shape)
    change, of_r = Orthogonal(A).correct(b - r - A @ x, A.T @ r)
    best = np.linalg.pinv(A) @ b
    np.testing.assert_allclose(x + change, best, atol=1e-11)
    np.testing.assert_allclose(r + of_r, b - A @ best, atol=1e-11)


@pytest.mark.parametrize("decades", [3, 5, 8])
def test_rank__does_not_depend_on_the_units_of_columns(decades):
    rng = np.random.default_rng(0)  # of its own: what one test draws must not depend on those before it
    A = np.repeat(rng.standard_normal((40, 6)), 2, axis=1)
    units = 10.0 ** rng.uniform(-decades, decades, 12)
    factor = Orthogonal(A * units)
    assert factor.rank == 6
    x = factor.solve((A * units) @ rng.standard_normal((12, 1)))[:, 0]
    for j in range(0, 12, 2):  # the shortest of what two columns that are multiples of each other can do together
        assert x[j] * units[j + 1] == pytest.approx(x[j + 1] * units[j], rel=1e-6)


def test_powers_of_a_year__have_the_rank_of_their_scaled_columns():
    year = np.arange(1900.0, 2001.0)
    A = year[:, None] ** np.arange(6, -1, -1)
    scaled = np.linalg.svd(A / np.linalg.norm(A, axis=0), compute_uv=False)
    assert Orthogonal(A).rank == np.sum(scaled > 101 * EPS * scaled[0]) > 4
    assert np.linalg.matrix_rank(A) == 3


def test_singular_values_without_a_gap__are_cut_where_numpy_cuts_them():
    U, V = (np.linalg.qr(G(shape))[0] for shape in ((60, 30), (30, 30)))
    A = (U * np.logspace(0, -20, 30)) @ V.T
    A /= np.linalg.norm(A, axis=0)
    factor = Orthogonal(A)
    assert abs(factor.rank - np.linalg.matrix_rank(A)) <= 1
    assert not factor.has_gap
    assert factor.sensitivity > 1e-4
    b = A @ G((30, 1))
    assert np.linalg.norm(A @ factor.solve(b) - b) < 1e-13 * np.linalg.norm(b)


def test_pivots__find_a_rank_by_singular_values_only_where_they_must(monkeypatch):
    import scipy.linalg

    monkeypatch.setattr(scipy.linalg, "svdvals", None)
    triangle = np.triu(G((8, 8)))
    triangle[:, 5:] = triangle[:, :3]
    assert pivoted(triangle / np.linalg.norm(triangle, axis=0), 1e-14).rank == 5


@pytest.mark.parametrize("size", [1e-160, 1e-145, 1.0, 1e145, 1e160])
def test_lengths__of_columns_out_of_range(size):
    A = G((30, 3))
    A[:, 1] = 0.0
    lengths = scaled_columns(size * A)
    np.testing.assert_allclose(lengths[[0, 2]] / size, np.linalg.norm(A[:, [0, 2]], axis=0), rtol=1e-12)
    assert lengths[1] == 1.0
