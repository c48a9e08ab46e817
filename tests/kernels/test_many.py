"""Projections of many vectors at once, compared with the straightforward versions."""

from __future__ import annotations

import naive
import numpy as np
import pytest
from scipy import sparse

from rowsolve.kernels.blocks import block_workspace
from rowsolve.kernels.many import add_gradients_of_many, laid_out, products_of, project_many
from rowsolve.kernels.rows import frozen
from rowsolve.sources import open_rows

N, P = 40, 9


def problem(n_vectors, seed=0):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((N, P))
    A[rng.random((N, P)) < 0.3] = 0.0
    A[7] = 0.0
    return A, rng.standard_normal((N, n_vectors - 1)), rng.standard_normal((n_vectors, P)), rng


@pytest.mark.parametrize(("n_vectors", "count"), [(2, 39), (3, 1), (3, 17), (6, 4)])
def test_products__are_those_of_matrices(store, n_vectors, count):
    A, _, vectors, rng = problem(n_vectors)
    rows = open_rows(store(A)).rows
    exact, order = open_rows(store(A)), rng.permutation(N)[:count]
    out = np.full((count, n_vectors), np.nan)
    products_of(rows, order, laid_out(rows, vectors), out)
    np.testing.assert_allclose(out, np.stack([exact.row(i) for i in order]) @ vectors.T, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("n_vectors", "count", "weight"), [(2, 39, 1.0), (3, 17, 0.0), (6, 4, 1.0), (3, 1, 1.0), (2, 0, 1.0)]
)
def test_gradients__are_those_of_two_products(store, weight, n_vectors, count):
    A, b, vectors, rng = problem(n_vectors, seed=1)
    rows, order = open_rows(store(A)).rows, rng.permutation(N)[:count]
    exact = np.stack([open_rows(store(A)).row(i) for i in range(N)])
    before = rng.standard_normal((n_vectors, P))
    out, squares = laid_out(rows, before.copy()), np.ones(n_vectors)
    add_gradients_of_many(rows, frozen(b), weight, order, laid_out(rows, vectors), out, squares)
    targets = weight * np.column_stack([b, np.zeros(N)])
    gaps = (targets - exact @ vectors.T)[order]
    np.testing.assert_allclose(out, before + gaps.T @ exact[order], rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(squares, 1.0 + np.sum(gaps**2, axis=0), rtol=1e-12)


@pytest.mark.parametrize("keep", [np.asarray, np.asfortranarray, sparse.csr_array])
@pytest.mark.parametrize(("first", "size"), [(0, 1), (2, 3), (0, 4), (2, 6)])
@pytest.mark.parametrize("in_turn", [True, False])
def test_projections__match_one_after_the_other(keep, first, size, in_turn):
    A, b, vectors, rng = problem(6, seed=2)
    rows, order = open_rows(keep(A)).rows, rng.permutation(N)[:36]
    sizes, expected = np.full(36 // size, size), vectors[first:].copy()
    drops, flagged_rows = np.full(len(expected), np.nan), np.full(3, -1)
    iterates, workspace = laid_out(rows, expected.copy()), block_workspace(size, P, len(expected))
    b_magnitude = np.abs(b).max(axis=1)
    project_many(rows, frozen(b), b_magnitude, first, order, sizes, in_turn, iterates, drops, workspace, flagged_rows)
    project = naive.sweep if in_turn else lambda *args: naive.project_blocks(*args[:3], sizes, args[3])
    targets = np.column_stack([b, np.zeros(N)])
    for c, x in enumerate(expected):
        one = np.stack([x])
        drop = project(A, targets[:, first + c], order, one)
        np.testing.assert_allclose(iterates[c], one[0], rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(drops[c], drop[0], rtol=1e-10)
    assert (7 in order) == (flagged_rows[1] == 7)  # a row of zeros whose b is not zero
