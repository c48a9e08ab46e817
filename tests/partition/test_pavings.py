from __future__ import annotations

import numpy as np
import pytest
from conftest import gaussian, relative_error
from scipy import sparse

import rowsolve
from rowsolve import theory
from rowsolve.partition.pavings import KINDS


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
@pytest.mark.parametrize("kind", KINDS)
def test_pavings__put_every_nonzero_row_into_one_block(kind, make):
    A, _, _ = gaussian(90, 8)
    A[5] = 0.0
    blocks = rowsolve.pave(make(A), kind, 12, rng=0)
    assert sorted(np.concatenate(blocks).tolist()) == [i for i in range(90) if i != 5]
    assert kind == "cluster" or len(blocks) == 12


def test_random__by_default_has_as_many_blocks_as_the_squared_norm_and_keeps_its_bound():
    A, _, _ = gaussian(600, 40)
    unit = A / np.linalg.norm(A, axis=1)[:, None]
    blocks = rowsolve.pave(A, rng=0)
    assert len(blocks) == pytest.approx(np.linalg.norm(unit, 2) ** 2, rel=0.4)
    assert theory.paving_constants(unit, blocks).beta <= 6 * np.log(1 + 600)


def clustered(n_clusters, n_columns):
    """Return unit rows in a few clusters."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((n_clusters, n_columns))[rng.integers(0, n_clusters, 200)]
    rows = rows + 0.1 * rng.standard_normal((200, n_columns))
    return rows / np.linalg.norm(rows, axis=1)[:, None]


def test_subset__has_better_blocks_than_random_on_clustered_rows():
    A = clustered(5, 30)
    found = {kind: theory.paving_constants(A, rowsolve.pave(A, kind, 40, rng=0)) for kind in ("random", "subset")}
    assert found["subset"].beta < found["random"].beta


def test_cluster__has_lower_norm_than_random_on_clustered_rows():
    A = clustered(4, 50)
    found = {kind: theory.paving_constants(A, rowsolve.pave(A, kind, 50, rng=0)) for kind in ("random", "cluster")}
    assert found["cluster"].beta < found["random"].beta
    assert found["cluster"].alpha > found["random"].alpha


def test_incoherence__does_not_change_the_least_squares_solution():
    A, b, _ = gaussian(300, 12, noise=0.3)
    turned, turned_b = rowsolve.incoherence_transform(A, b, np.random.default_rng(0))
    before, after = np.linalg.lstsq(A, b)[0], np.linalg.lstsq(turned, turned_b)[0]
    assert relative_error(after, before) < 1e-12
    np.testing.assert_allclose(turned.T @ turned, A.T @ A, rtol=1e-10, atol=1e-10)
    assert not np.allclose(turned, A)


@pytest.mark.parametrize(
    ("run", "words"),
    [
        (lambda A: rowsolve.pave(A, "best"), "`kind` must be one of 'random', 'incoherent', 'subset', 'cluster'"),
        (lambda A: rowsolve.pave(A, "random", 31), "`n_blocks` must be at most the number of nonzero rows, 30, got 31"),
    ],
)
def test_bad_input__is_explained(run, words):
    with pytest.raises(ValueError, match=words):
        run(gaussian(30, 4)[0])
