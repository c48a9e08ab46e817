from __future__ import annotations

from itertools import pairwise

import naive
import numpy as np
import pytest
from conftest import JIT
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from rowsolve.partition.clusters import Clusters, _batches, cluster_rows, partition_across, partition_within
from rowsolve.problem.system import System
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
    assert system.counter.rows_read == 400 + 128


@pytest.mark.parametrize(
    ("metric", "make"),
    [
        ("direction", np.asarray),
        ("euclidean", np.asarray),
        *((metric, sparse.csr_array) for metric in ("direction", "euclidean", "jaccard", "hamming")),
    ],
)
def test_clusters__are_the_same_bits_for_any_number_of_threads(metric, make, monkeypatch):
    monkeypatch.setattr("rowsolve.problem.limits.WORK_OF_A_THREAD", 100)  # so that small batches are shared as well
    A, _ = clustered(k=5, n_rows=1503 if JIT else 603, n_columns=11, noise=1.0)
    A *= np.random.default_rng(1).random(A.shape) < 0.5
    b = A @ np.arange(11.0)
    found = []
    for threads in (1, 2, 3):
        system = System(open_rows(make(A)), b, threads=threads)
        found.append(cluster_rows(system, 5, np.random.default_rng(0), metric=metric))
    for other in found[1:]:
        np.testing.assert_array_equal(other.labels, found[0].labels)
        np.testing.assert_array_equal(other.centroids, found[0].centroids)
        np.testing.assert_array_equal(other.targets, found[0].targets)


def purity(truth, labels):
    """The fraction of rows with the most frequent label of their cluster."""
    counts = np.zeros((truth.max() + 1, labels.max() + 1))
    np.add.at(counts, (truth, labels), 1)
    return counts.max(axis=0).sum() / truth.size


@pytest.mark.compiled
@pytest.mark.parametrize(("metric", "least"), [("direction", 0.9), ("euclidean", 0.75)])
def test_loose_clusters__are_found_not_swallowed_by_the_first(metric, least):
    found = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        truth = rng.integers(0, 4, 4000)
        A = 0.5 * rng.standard_normal((4, 300))[truth] + rng.standard_normal((4000, 300))
        found.append(purity(truth, run(A, 4, seed, metric=metric)[0].labels))
    assert np.mean(found) > least  # one by one, it is 0.29 by Euclidean distance


@pytest.mark.parametrize("alone", [0, 100, 10**9])
def test_batches__grow_with_the_rows_seen_and_leave_none_out(alone):
    edges = [
        edge
        for start in range(0, 20_000, 3_000)
        for edge in _batches(start, min(start + 3_000, 20_000), alone, k=4, entries_per_row=1_000)
    ]
    assert edges[0][0] == 0
    assert edges[-1][1] == 20_000
    assert all(stop == start for (_, stop), (start, _) in pairwise(edges))
    for start, stop in edges:
        most = 3_000 if stop <= alone else max(64 if alone == 0 else 1, min(start // 16, 1_000))
        assert 1 <= stop - start <= most


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


def test_more_clusters_than_rows__raises_an_error():
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
