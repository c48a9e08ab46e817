from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import rowsolve
from rowsolve.kernels.rows import CSRRows, DenseRows
from rowsolve.sources import open_rows


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (np.float16, np.float32),
        (np.float32, np.float32),
        (np.float64, np.float64),
        (np.longdouble, np.float64),
        (np.int32, np.float64),
        (np.uint8, np.float64),
        (bool, np.float64),
        (">f8", np.float64),
        (">f4", np.float32),
    ],
)
def test_dtypes__are_kept_or_widened(given, kept):
    A = np.array([[1, 0], [0, 1], [1, 1]], dtype=given)
    source = open_rows(A)
    assert source.rows.values.dtype == kept
    assert source.rows.values.dtype.isnative
    solution = rowsolve.solve(A, [1.0, 2.0, 3.0], rng=0)
    np.testing.assert_allclose(solution.x, [1.0, 2.0], rtol=1e-5)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_arrays__are_not_copied(order, dtype):
    A = np.ones((5, 3), dtype, order=order)
    values = open_rows(A).rows.values
    assert np.shares_memory(values, A)
    assert not values.flags.writeable
    assert A.flags.writeable  # the caller's array is left as it was


def test_memmap__is_not_copied(tmp_path):
    np.save(tmp_path / "A.npy", np.ones((5, 3)))
    A = np.load(tmp_path / "A.npy", mmap_mode="r")
    assert np.shares_memory(open_rows(A).rows.values, A)


def test_csr__is_not_copied_and_not_changed():
    A = sparse.random_array((30, 8), density=0.3, rng=np.random.default_rng(0), format="csr")
    A.sort_indices()
    rows = open_rows(A).rows
    assert isinstance(rows, CSRRows)
    assert np.shares_memory(rows.data, A.data)
    assert A.data.flags.writeable


def test_csr__with_repeated_columns_means_their_sum():
    A = sparse.csr_array((np.array([1.0, 2.0, 4.0]), np.array([1, 1, 0]), np.array([0, 2, 3])), shape=(2, 2))
    source = open_rows(A)
    assert source.row(0).tolist() == [0.0, 3.0]
    assert A.nnz == 3  # the caller's matrix is left as it was
    np.testing.assert_allclose(rowsolve.solve(A, [6.0, 4.0], rng=0).x, [1.0, 2.0], rtol=1e-5)


@pytest.mark.parametrize("make", [sparse.csr_array, sparse.csc_array])
@pytest.mark.parametrize("index", [7, -(10**8)])
def test_sparse__with_an_index_out_of_range_raises_an_error(make, index):
    A = make(np.eye(3))
    A.indices[1] = index
    with pytest.raises(ValueError, match=r"`A` is not a valid sparse matrix: .*Try rebuilding it"):
        open_rows(A)


def test_source__shows_a_row_and_its_precision():
    A = np.arange(6.0).reshape(3, 2)
    for made, eps in (
        (A, 2.0**-52),
        (A.astype(np.float32), 2.0**-23),
        (sparse.csr_array(A), 2.0**-52),
        (A.astype(int), 2.0**-52),
    ):
        source = open_rows(made)
        assert source.row(2).tolist() == [4.0, 5.0]
        assert source.eps == eps
        assert source.shape == (3, 2)
    assert isinstance(open_rows(A.tolist()).rows, DenseRows)


def test_array_protocol__is_enough():
    class Wrapped:
        def __array__(self, dtype=None, copy=None):
            return np.eye(3, 2)

    assert rowsolve.solve(Wrapped(), [1.0, 2.0, 0.0], rng=0).x == pytest.approx([1.0, 2.0])


def test_matrix_of_numpy__is_taken():
    with pytest.warns(PendingDeprecationWarning):
        A = np.matrix(np.eye(3, 2))
    assert rowsolve.solve(A, [1.0, 2.0, 0.0], rng=0).x == pytest.approx([1.0, 2.0])
