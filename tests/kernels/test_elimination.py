from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from rowsolve._jit import kernel
from rowsolve._simd import count_bits
from rowsolve.kernels.elimination import SparseTriangle, factor_sparse, solve_eliminated
from rowsolve.sources import open_rows


def network(n_points, edges, rng):
    """Return rows that weigh one point against another, and one that holds the first."""
    first, second = np.transpose(edges)
    rows = np.arange(len(edges))
    weights = rng.uniform(0.5, 2.0, len(edges))
    entries = np.r_[weights, -weights, 1.0], (np.r_[rows, rows, len(edges)], np.r_[first, second, 0])
    return sparse.csr_array(entries, shape=(len(edges) + 1, n_points))


def path(n_points):
    return [(i, i + 1) for i in range(n_points - 1)]


def grid(side):
    place = np.arange(side * side).reshape(side, side)
    beside = zip(place[:, :-1].flat, place[:, 1:].flat, strict=True)
    return [*beside, *zip(place[:-1].flat, place[1:].flat, strict=True)]


def star(n_points):
    return [(0, i) for i in range(1, n_points)]


def factored(A, order=None, damp_sq=0.0, most=np.inf):
    order = np.arange(A.shape[0]) if order is None else order
    *parts, norms = factor_sparse(open_rows(A).rows, order, A.shape[1], damp_sq, most)
    return SparseTriangle(*parts), norms


def written_out(triangle):
    """Return R with its columns in the order of those of A."""
    R = np.diag(triangle.diagonal)
    for t in range(len(R)):
        for e in range(triangle.starts[t], triangle.starts[t + 1]):
            R[t, triangle.places[e]] = triangle.values[e]
    assert not np.tril(R, -1).any()
    return R[:, np.argsort(triangle.columns)]


@pytest.mark.parametrize("edges", [path(20), grid(5), star(64), path(65), grid(9), star(130)], ids=len)
@pytest.mark.parametrize("damp_sq", [0.0, 0.3])
def test_factor__is_that_of_the_gram_matrix(edges, damp_sq):
    n_points = 1 + max(map(max, edges))
    A = network(n_points, edges, np.random.default_rng(0))
    triangle, norms = factored(A, damp_sq=damp_sq)
    gram = (A.T @ A).toarray() + damp_sq * np.eye(n_points)
    R = written_out(triangle)
    np.testing.assert_allclose(R.T @ R, gram, atol=1e-12)
    np.testing.assert_allclose(norms, np.sqrt(gram.diagonal())[triangle.columns], rtol=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_factor__takes_the_rows_that_are_listed_and_any_pattern(seed):
    rng = np.random.default_rng(seed)
    A = sparse.random_array((120, 70), density=0.05, rng=rng, format="csr")
    order = rng.permutation(120)[:100]
    triangle, norms = factored(A, order, damp_sq=1.0)
    R, rows = written_out(triangle), A.toarray()[order]
    assert norms.size == 70
    np.testing.assert_allclose(R.T @ R, rows.T @ rows + np.eye(70), atol=1e-12)


@pytest.mark.parametrize(("edges", "n_filled"), [(path(40), 0), (star(40), 0), (grid(6), 75)])
def test_order__leaves_few_numbers_where_there_were_none(edges, n_filled):
    n_points = 1 + max(map(max, edges))
    triangle, _ = factored(network(n_points, edges, np.random.default_rng(0)))
    assert triangle.values.size <= len(edges) + n_filled


def test_factor__is_given_up_where_it_is_not_sparse():
    A = sparse.random_array((400, 70), density=0.5, rng=np.random.default_rng(0), format="csr")
    assert factored(A)[1].size == 0  # as the neighbours tell
    edges = grid(6)
    A = network(36, edges, np.random.default_rng(0))
    work = float(np.sum((np.diff(factored(A)[0].starts) + 1.0) ** 2))
    assert factored(A, most=work)[1].size == 36
    assert factored(A, most=work - 1.0)[1].size == 0
    assert factored(sparse.csr_array(np.ones((8, 3))), most=0.0)[1].size == 0


def test_factor__is_given_up_where_digits_are_lost():
    A = network(20, path(20), np.random.default_rng(0))
    loose = A[:-1]  # nothing holds the points: a constant is in no row
    assert factored(loose)[1].size == 0
    assert factored(loose, damp_sq=1e-6)[1].size == 20
    empty = sparse.csr_array((A.data, A.indices, A.indptr), shape=(20, 21))  # a column that no row touches
    assert factored(empty)[1].size == 0
    A.data[3] = np.nan
    assert factored(A)[1].size == 0


def test_solve__undoes_the_products():
    rng = np.random.default_rng(1)
    A = network(49, grid(7), rng)
    triangle, _ = factored(A)
    R, vectors = written_out(triangle), rng.standard_normal((3, 49))
    whole, half = vectors.copy(), vectors.copy()
    solve_eliminated(triangle, whole, False)
    solve_eliminated(triangle, half, True)
    np.testing.assert_allclose(whole @ (R.T @ R), vectors, atol=1e-11)
    np.testing.assert_allclose(half @ R, vectors, atol=1e-11)


@kernel
def counted(word):
    return count_bits(word)


@pytest.mark.parametrize("word", [0, 1, 2, 3, 2**40, 2**63, 2**63 + 8, 2**64 - 1])
def test_bits__are_counted(word):
    assert counted(np.uint64(word)) == f"{word:b}".count("1")
