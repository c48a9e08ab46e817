"""An order of the columns that makes the Gram matrix a narrow band."""

import numpy as np
import pytest
from scipy import sparse
from scipy.sparse.csgraph import reverse_cuthill_mckee

from rowsolve.kernels.ordering import order_columns


def chain(p, parts, rng):
    """Differences along some series, in random order, and an empty column."""
    one = sparse.diags_array([1.0, -1.0], offsets=[0, 1], shape=(p - 1, p))
    A = sparse.block_diag([one] * parts + [sparse.csr_array((1, 1))]).tocsr()
    return sparse.csr_array(A[:, rng.permutation(A.shape[1])])


def width_of(A, order):
    places = np.argsort(order)
    entries = abs(A.T @ A).tocoo()
    return int(np.abs(places[entries.row] - places[entries.col]).max(initial=0))


@pytest.mark.parametrize("parts", [1, 4])
def test_chain__is_found_again(parts):
    A = chain(30, parts, np.random.default_rng(parts))
    order, width = order_columns(A.indices, A.indptr, A.shape[1], 3)
    assert sorted(order) == list(range(A.shape[1]))
    assert width == width_of(A, order) == 1


@pytest.mark.parametrize("seed", range(5))
def test_network__has_as_narrow_a_band_as_with_scipy(seed):
    rng = np.random.default_rng(seed)
    p, each = 200, int(rng.integers(2, 6))
    near = (rng.integers(0, p, (600, 1)) + rng.integers(0, 12, (600, each))) % p
    rows = np.repeat(np.arange(600), each)
    A = sparse.csr_array((np.ones(600 * each), (rows, rng.permutation(p)[near].ravel())), shape=(600, p))
    order, width = order_columns(A.indices, A.indptr, p, p)
    gram = sparse.csr_array(abs(A.T @ A))
    assert width == width_of(A, order)
    assert width <= 1.3 * width_of(A, reverse_cuthill_mckee(gram, symmetric_mode=True)) + 2


def test_level_beyond_the_limit__ends_the_search():
    star = sparse.csr_array(np.hstack([np.ones((40, 1)), np.eye(40)]))
    assert order_columns(star.indices, star.indptr, 41, 20)[1] == -1
    assert order_columns(star.indices, star.indptr, 41, 40)[1] == width_of(
        star, order_columns(star.indices, star.indptr, 41, 40)[0]
    )
