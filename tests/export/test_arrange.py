"""Rows in the order of their clusters: every block is one contiguous read."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy import sparse

import rowsolve
from rowsolve.sources import load_matrix, load_system, load_vector, open_store
from rowsolve.sources import store as store_module
from rowsolve.sources.arrays import ArrayStore

K, N_ROWS, N_COLUMNS = 4, 600, 12
X = np.arange(1.0, N_COLUMNS + 1)


def clustered(kind, seed=0):
    """Return rows near four directions, with unequal counts and one zero row, and the direction of each."""
    rng = np.random.default_rng(seed)
    truth = rng.choice(K, N_ROWS, p=[0.4, 0.3, 0.2, 0.1])
    if kind == "sorted":  # the worst order: a block has rows from everywhere
        truth.sort()
    A = rng.standard_normal((K, N_COLUMNS))[truth] + 0.05 * rng.standard_normal((N_ROWS, N_COLUMNS))
    A *= rng.choice([-1.0, 1.0], N_ROWS)[:, None]
    A[17] = 0.0
    return A, truth


def beside(path, name):
    return f"{path}:/{name}" if path.suffix in (".h5", ".zarr") else path.with_name(f"rows.{name}.npy")


@pytest.mark.parametrize("kind", ["mixed", "sorted"])
@pytest.mark.parametrize("ending", [".npy", ".h5", ".zarr", ".parquet"])
def test_cluster__writes_blocks_with_one_row_of_each_cluster(ending, kind, tmp_path):
    A, truth = clustered(kind)
    path = tmp_path / f"rows{ending}"
    rowsolve.convert(A, path, rhs=A @ X, cluster=K, rng=0)
    found, b = load_system(path, f"{path}:b" if ending == ".parquet" else beside(path, "b"))
    rows, labels, starts = (load_vector(beside(path, name)) for name in ("rows", "labels", "starts"))
    np.testing.assert_array_equal(np.sort(rows), np.arange(N_ROWS))
    np.testing.assert_array_equal(found, A[rows])
    np.testing.assert_allclose(b, found @ X, rtol=1e-12)
    assert rows[-1] == 17
    assert labels[-1] == -1  # a row of zeros is in no block
    assert starts[-1] == N_ROWS - 1
    assert len(set(zip(truth[rows[:-1]], labels[:-1], strict=True))) == K
    for start, stop in pairwise(starts):
        assert len(set(labels[start:stop])) == stop - start
    sizes = np.diff(starts)
    assert sizes[0] == K
    assert (np.diff(sizes) <= 0).all()
    np.testing.assert_allclose(
        load_matrix(beside(path, "centroids")) @ X, load_vector(beside(path, "targets")), rtol=1e-10
    )


def test_cluster__keeps_sparse_rows_sparse_and_needs_no_b(tmp_path):
    A, _ = clustered("mixed")
    rowsolve.convert(sparse.csr_array(np.where(abs(A) > 0.3, A, 0.0)), tmp_path / "rows.h5", cluster=3, rng=0)
    rows = load_vector(tmp_path / "rows.h5:/rows")
    found = load_matrix(tmp_path / "rows.h5")
    np.testing.assert_array_equal(found.toarray(), np.where(abs(A) > 0.3, A, 0.0)[rows])
    with pytest.raises(ValueError, match="has no dataset 'targets'"):
        open_store(tmp_path / "rows.h5:/targets")


@pytest.mark.parametrize("kind", ["mixed", "sorted"])
def test_cluster__reads_the_rows_once_for_each_cluster_and_once_more(kind, tmp_path, monkeypatch):
    monkeypatch.setattr(store_module, "COLUMN_BYTES", 1)
    monkeypatch.setattr(store_module, "BYTES_AT_ONCE", 1)
    n_read = 0

    class Counted(ArrayStore):
        def _read(self, start, stop, out):
            nonlocal n_read
            n_read += stop - start
            return super()._read(start, stop, out)

    A, _ = clustered(kind)
    source = Counted("counted", A, chunk=10)
    told = []
    options = {"memory": "90kB", "cluster": K, "rng": 0}
    rowsolve.convert(source, tmp_path / "rows.npy", **options, progress=lambda *done: told.append(done))
    assert len(told) >= 10
    assert told[-1] == (2 * N_ROWS, 2 * N_ROWS)
    assert n_read < (1 + K + 1.5) * N_ROWS  # the sample, and chunks that two pieces share


def test_cluster__is_the_same_for_the_same_seed(tmp_path):
    A, _ = clustered("mixed")
    for name in ("a.npy", "b.npy"):
        rowsolve.convert(A, tmp_path / name, cluster=K, rng=3)
    assert (tmp_path / "a.npy").read_bytes() == (tmp_path / "b.npy").read_bytes()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"cluster": 0}, "`cluster` must be"),
        ({"cluster": N_ROWS + 1}, "`cluster` must be at most the number of rows, 600, got 601"),
        ({"cluster": K, "memory": "50kB"}, "the order of 600 rows and the centroids take 0.0388 MB. Allow 1 MB"),
    ],
)
def test_options__that_are_invalid_raise_an_error(options, words, tmp_path):
    A, _ = clustered("mixed")
    with pytest.raises((ValueError, TypeError), match=words):
        rowsolve.convert(A, tmp_path / "rows.npy", **options)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_rows_that_are_not_finite__are_reported_with_their_number(make, tmp_path):
    A, _ = clustered("mixed")
    A[333, 3] = np.nan
    with pytest.raises(ValueError, match=r"row 333 has nan in column 3, so it cannot be clustered\. Try removing or"):
        rowsolve.convert(make(A), tmp_path / "rows.npy", cluster=K, allow_nan=True)
    assert list(tmp_path.iterdir()) == []
