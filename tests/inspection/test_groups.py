"""Clusters and angles of rows for which they are known."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from conftest import JIT, gaussian
from scipy import sparse

from rowsolve import theory
from rowsolve._validate import system_of
from rowsolve.experiments.problems import clustered_system
from rowsolve.inspection import groups as module
from rowsolve.inspection.groups import look_at_directions, rows_to_compare
from rowsolve.inspection.sample import take_sample
from rowsolve.problem.system import System


def look(A):
    source, vector, _ = system_of(A, np.zeros(A.shape[0]))
    _, sample = take_sample(System(source, vector), source.shape[0], np.random.default_rng(1))
    return look_at_directions(sample, np.random.default_rng(2))


@pytest.mark.parametrize("n_clusters", [1, 2, 4, 7])
def test_clusters__are_counted_whatever_the_signs_and_norms_of_rows(n_clusters):
    A = clustered_system(500, 20, n_clusters, "tight", "A", 0.1, 0)[0]
    A *= np.random.default_rng(3).uniform(-5.0, 5.0, 500)[:, None]
    found = look(A)
    assert found.n_clusters == n_clusters
    assert found.cosine == pytest.approx(1 / np.hypot(1.0, 0.1), abs=2e-3)
    if n_clusters > 1:
        assert found.within == pytest.approx(1 / (1 + 0.1**2), abs=3e-3)
        assert found.across < 0.6


@pytest.mark.compiled
def test_clusters__that_are_loose_are_found_and_told_from_tight_ones():
    A, _, _, _ = clustered_system(600, 200, 3, 0.06, "A", 0.1, 0)
    found = look(A)
    assert found.n_clusters == 3
    assert found.cosine == pytest.approx(0.06 / np.hypot(0.06, 0.1), abs=0.05)
    assert found.within > 3 * found.across
    assert found.across == pytest.approx(found.of_gaussian, rel=0.2)


@pytest.mark.parametrize("n_columns", [2, 3, 8, *([60] if JIT else [])])
def test_clusters__are_not_found_among_random_rows(n_columns):
    found = look(gaussian(512, n_columns)[0])
    assert found.n_clusters == 0
    assert (found.cosine, found.within, found.across) == (None, None, None)
    assert found.typical == pytest.approx(found.of_gaussian, rel=0.05)


def test_clusters__are_not_the_axes_of_a_decaying_spectrum_nor_those_of_sparse_rows():
    A = gaussian(512, 60)[0] if JIT else gaussian(128, 30)[0]
    assert look(A * 100.0 ** -np.linspace(0.0, 1.0, A.shape[1])).n_clusters == 0
    A[np.random.default_rng(0).random(A.shape) > 0.1] = 0.0
    A = A[A.any(axis=1)]
    dense, of_sparse = look(A), look(sparse.csr_array(A))
    assert dense.n_clusters == 0
    assert of_sparse.largest == pytest.approx(dense.largest)


def test_angles__are_the_orthogonality_value_and_medians():
    rows = gaussian(40, 6)[0]
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    labels = np.arange(40) % 2
    found = module._angles(rows, labels)
    cosines = np.abs(rows @ rows.T)
    assert found.largest == pytest.approx(theory.orthogonality_value(rows))
    assert found.within == pytest.approx(
        np.median([cosines[i, j] for i in range(40) for j in range(i) if labels[i] == labels[j]])
    )
    assert found.across == pytest.approx(np.median(cosines[np.ix_(labels == 0, labels == 1)]))
    assert (found.typical, found.n_rows) == (pytest.approx(np.median(cosines[np.triu_indices(40, 1)])), 40)


@pytest.mark.parametrize(("p", "median"), [(2, np.sqrt(0.5)), (3, 0.5), (10_000, 0.6745 / 100)])
def test_of_gaussian__is_the_median(p, median):
    """In the plane angles are uniform, in space cosines are; for large p they are normal."""
    assert module._angles(np.eye(2, p), np.zeros(2)).of_gaussian == pytest.approx(median, rel=1e-3)


@pytest.mark.parametrize(("count", "p"), [(1, 7), (4, 7), (16, 300)])
def test_by_chance__is_what_random_directions_explain(count, p):
    rng = np.random.default_rng(0)
    rows, directions = rng.standard_normal((4000, p)), rng.standard_normal((4000, count, p))
    cosines_sq = np.einsum("ip,ikp->ik", rows, directions) ** 2
    cosines_sq /= np.sum(rows**2, axis=1)[:, None] * np.sum(directions**2, axis=2)
    assert module._by_chance(count, p) == pytest.approx(cosines_sq.max(axis=1).mean(), rel=0.05)


def test_too_few_rows_or_columns__are_not_judged():
    assert look(gaussian(31, 4)[0]) is None
    assert look(gaussian(32, 4)[0]).n_clusters == 0
    assert look(gaussian(100, 1)[0]) is None


@pytest.mark.parametrize(
    ("n_rows", "entries", "count"), [(10**6, 100, 512), (10**6, 20_000, 400), (10**6, 10**6, 64), (40, 100, 40)]
)
def test_rows_to_compare__are_fewer_where_rows_are_long(n_rows, entries, count):
    assert rows_to_compare(SimpleNamespace(n_rows=n_rows, entries_per_row=entries)) == count
