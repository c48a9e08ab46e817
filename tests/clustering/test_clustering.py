from __future__ import annotations

from itertools import pairwise

import naive
import numpy as np
import pytest
from conftest import JIT
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from rowsolve._system import System
from rowsolve.clustering import Clusters, cluster_rows, partition_across, partition_within
from rowsolve.sources import open_rows


def clustered(k=4, n_rows=400, n_columns=30, noise=0.1, seed=0):
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, k, n_rows)
    A = rng.standard_normal((k, n_columns))[truth] + noise * rng.standard_normal((n_rows, n_columns))
    A *= rng.choice([-1.0, 1.0], n_rows)[:, None]  # the sign of an equation means nothing
    return A, truth


def run(A, k, seed=0, b=None, **options):
    system = System(open_rows(A), np.zeros(A.shape[0]) if b is None else b)
    return cluster_rows(system, k, np.random.default_rng(seed), **options), system


@pytest.mark.parametrize("seed", range(40 if JIT else 5))
def test_clusters__are_found_whatever_the_signs(seed):
    A, truth = clustered(seed=seed)
    found, system = run(A, 4, seed)
    pairs = {(t, label) for t, label in zip(truth, found.labels, strict=True)}
    assert len(pairs) == 4  # the same partition
    assert system.rows_read == 400 + 128


def test_euclidean_clusters__are_split_by_signs():
    A, truth = clustered(k=2)
    found, _ = run(A, 4, metric="euclidean")
    assert len({(t, label) for t, label in zip(truth, found.labels, strict=True)}) == 4


def test_centroid_equations__hold_for_the_solution(store):
    A, _ = clustered()
    x_true = np.random.default_rng(1).standard_normal(30)
    found, _ = run(store(A), 4, b=A @ x_true)
    np.testing.assert_allclose(found.centroids @ x_true, found.targets, rtol=1e-5)
    for label, members in enumerate(found.members()):
        unit = A[members] / np.linalg.norm(A[members], axis=1)[:, None]
        signs = np.sign(unit @ found.centroids[label])
        np.testing.assert_allclose(found.centroids[label], (signs[:, None] * unit).mean(axis=0), rtol=1e-4, atol=1e-6)


def test_constant_rate__gives_equations_that_hold_too():
    A, _ = clustered()
    x_true = np.random.default_rng(1).standard_normal(30)
    found, _ = run(A, 4, b=A @ x_true, rate=0.05)
    np.testing.assert_allclose(found.centroids @ x_true, found.targets, rtol=1e-8)


@pytest.mark.parametrize(
    ("A", "n_clusters"),
    [
        (np.zeros((6, 2)), 0),
        (np.ones((6, 2)), 1),
        (np.vstack([np.zeros((40, 2)), np.ones((1, 2))]), 1),
        (np.tile(np.eye(2), (3, 1)), 2),
    ],
)
def test_degenerate_rows__give_fewer_clusters_never_nan(A, n_clusters):
    found, _ = run(A, 4)
    assert found.n_clusters == n_clusters
    assert np.isfinite(found.centroids).all()
    assert np.array_equal(found.labels == -1, ~A.any(axis=1))


def test_more_clusters_than_rows__is_refused():
    with pytest.raises(ValueError, match="`n_clusters` must be at most the number of rows, 3, got 4"):
        run(np.eye(3), 4)


@given(sizes=st.lists(st.integers(0, 12), min_size=1, max_size=6), seed=st.integers(0, 100))
def test_partition__leaves_no_row_out_and_takes_one_row_of_each_cluster(sizes, seed):
    labels = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(sizes)), sizes))
    labels = np.concatenate([labels, [-1, -1]])  # zero rows are in no block
    clusters = Clusters(labels, np.ones((len(sizes), 1)), np.ones(len(sizes)))
    members, starts = partition_across(clusters, np.random.default_rng(seed))
    assert sorted(members.tolist()) == np.flatnonzero(labels >= 0).tolist()
    assert np.diff(starts).tolist() == naive.partition_sizes(sizes)
    for start, stop in pairwise(starts):
        of_block = labels[members[start:stop]]
        assert len(set(of_block.tolist())) == stop - start


@given(sizes=st.lists(st.integers(0, 12), min_size=1, max_size=6), block_size=st.integers(1, 5), seed=st.integers(0, 9))
def test_partition_within__leaves_no_row_out_and_stays_in_one_cluster(sizes, block_size, seed):
    labels = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(sizes)), sizes))
    labels = np.concatenate([labels, [-1]])
    clusters = Clusters(labels, np.ones((len(sizes), 1)), np.ones(len(sizes)))
    members, starts = partition_within(clusters, block_size, np.random.default_rng(seed))
    assert sorted(members.tolist()) == np.flatnonzero(labels >= 0).tolist()
    assert starts.size - 1 == sum(-(-size // block_size) for size in sizes)
    for start, stop in pairwise(starts):
        assert 1 <= stop - start <= block_size
        assert len(set(labels[members[start:stop]].tolist())) == 1


@pytest.mark.parametrize("metric", ["jaccard", "hamming"])
def test_patterns__are_clustered_whatever_the_values(metric):
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 4, 200)
    A = np.zeros((200, 24))
    for i, label in enumerate(truth):
        A[i, 6 * label : 6 * label + 6] = rng.standard_normal(6) * 10 ** rng.uniform(-3, 3)
    found, _ = run(sparse.csr_array(A), 4, metric=metric)
    assert len({(t, label) for t, label in zip(truth, found.labels, strict=True)}) == 4
    with pytest.raises(ValueError, match="compares the patterns of sparse rows, but `A` is dense"):
        run(A, 4, metric=metric)
