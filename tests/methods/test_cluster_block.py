from __future__ import annotations

from itertools import pairwise

import naive
import numpy as np
import pytest
from bursts import assert_taken, burst_of
from conftest import check_solution, gaussian, relative_error
from scipy import sparse

import rowsolve
from rowsolve import ClusterBlock


def clustered(n_rows=120, n_columns=10):
    """Return A with four tight clusters of equal size, b, and the cluster of each row."""
    rng, truth = np.random.default_rng(0), np.repeat(np.arange(4), n_rows // 4)
    A = rng.standard_normal((4, n_columns))[truth] + 0.05 * rng.standard_normal((n_rows, n_columns))
    return A, A @ rng.standard_normal(n_columns), truth


@pytest.mark.parametrize(("pairing", "n_clusters_of_a_block"), [("across", 4), ("within", 1)])
def test_step__is_the_projection_on_a_block_across_or_within_clusters(pairing, n_clusters_of_a_block):
    A, b, truth = clustered()
    burst = burst_of(ClusterBlock(4, pairing=pairing), A, b, 40)
    blocks = burst.order.reshape(-1, 4)
    if pairing == "across":  # blocks within have fewer rows where a cluster ends
        assert len(blocks) == 10
    assert {len(set(truth[block])) for block in np.split(burst.order, _ends(burst))} == {n_clusters_of_a_block}
    sizes = np.diff([0, *_ends(burst), burst.order.size])
    assert_taken(burst, naive.project_blocks, A, b, burst.order, sizes)


def _ends(burst):
    """Return where the blocks of a burst end, but for the last, from the blocks of the plan."""
    members, starts = burst.plan.blocks
    size_of = {members[start]: stop - start for start, stop in pairwise(starts)}
    ends, place = [], 0
    while place < burst.order.size:
        place += size_of[burst.order[place]]
        ends.append(place)
    return ends[:-1]


@pytest.mark.parametrize(
    "method",
    [
        ClusterBlock(n_clusters=1),
        ClusterBlock(n_clusters=30),
        ClusterBlock(n_clusters=6, metric="euclidean"),
        ClusterBlock(pairing="within"),
        ClusterBlock(n_clusters=3, pairing="within", block_size=11),
    ],
    ids=repr,
)
def test_parameters__all_lead_to_the_solution(method):
    check_solution(method)


@pytest.mark.compiled
def test_within__on_tight_clusters_is_far_faster_than_across():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((4, 200))[rng.integers(0, 4, 4000)] + 0.1 * rng.standard_normal((4000, 200))
    b = A @ rng.standard_normal(200)
    rows = {
        pairing: rowsolve.solve(A, b, ClusterBlock(pairing=pairing), rng=0).rows_read
        for pairing in ("across", "within")
    }
    assert rows["within"] < rows["across"] / 10


def test_within_by_pattern__beats_plain_cyclic_on_sparse_rows_that_share_columns():
    # Rows in random order, each touching most of one group of 6 neighbouring columns and one of the next group.
    rng = np.random.default_rng(1)
    n_groups, n_rows = 20, 1200
    group = rng.integers(0, n_groups, n_rows)
    A = sparse.lil_array((n_rows, 6 * n_groups))
    for i, g in enumerate(group):
        A[i, 6 * g + rng.permutation(6)[:5]] = 1 + 0.1 * rng.standard_normal(5)
        A[i, (6 * g + 6 + rng.integers(6)) % (6 * n_groups)] = 0.1
    A = A.tocsr()
    x_true = rng.standard_normal(6 * n_groups)
    for metric in ("jaccard", "hamming"):
        method = ClusterBlock(n_clusters=n_groups, metric=metric, pairing="within", block_size=6)
        within = rowsolve.solve(A, A @ x_true, method, rng=0)
        cyclic = rowsolve.solve(A, A @ x_true, "cyclic", rng=0)
        assert within.converged
        assert relative_error(within.x, x_true) < 3e-6
        assert within.rows_read < cyclic.rows_read / 2


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ClusterBlock(n_clusters=-1), "`n_clusters` must be an integer"),
        (lambda: ClusterBlock(metric="cosine"), "`metric` must be one of 'direction', 'euclidean', 'jaccard'"),
        (lambda: ClusterBlock(pairing="inside"), "`pairing` must be one of 'across', 'within'"),
        (lambda: ClusterBlock(block_size=3), "`block_size` requires pairing='within'"),
        (
            lambda: rowsolve.solve(*gaussian(30, 4)[:2], ClusterBlock(31)),
            "`n_clusters` must be at most the number of rows, 30, got 31",
        ),
    ],
)
def test_parameters__that_are_invalid_raise_an_error(make, words):
    with pytest.raises(ValueError, match=words):
        make()
