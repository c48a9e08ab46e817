from __future__ import annotations

import numpy as np
import pytest
from conftest import DENSE_OR_CSR, gaussian
from scipy import sparse

import rowsolve
from rowsolve.problem import limits
from rowsolve.problem.system import System
from rowsolve.sources import open_rows


@pytest.fixture(autouse=True)
def wake_threads_for_little(monkeypatch):
    monkeypatch.setattr(limits, "WORK_OF_A_THREAD", 100)


def system_of(A, b=None, threads=1):
    return System(open_rows(A), np.zeros(A.shape[0]) if b is None else b, threads=threads)


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
@pytest.mark.parametrize(("start", "stop"), [(0, 1), (0, 2), (3, 14), (5, 25)])
def test_slices__cover_the_range_in_even_steps(threads, start, stop):
    system, slices = system_of(np.ones((30, 2)), threads=threads), []
    system.in_slices(lambda a, z, _: slices.append((a, z)), start, stop, 1e9)
    slices.sort()
    assert 1 <= len(slices) <= threads
    assert [i for a, z in slices for i in range(a, z)] == list(range(start, stop))
    assert all((z - a) % 2 == 0 for a, z in slices[:-1])


def test_threads__are_woken_only_when_it_pays():
    system = system_of(np.ones((4, 2)), threads=3)
    assert [system.limits.threads_for(work) for work in (0, 199, 200, 300, 1e9)] == [1, 1, 2, 3, 3]


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_odd_rows__the_last_of_each_sort_is_noted_for_any_number_of_threads(threads):
    A = np.ones((40, 5))
    A[[2, 17, 30]] = 0.0
    b = np.zeros(40)
    b[17] = 1.0
    system = system_of(A, b, threads)
    system.reader.flagged.check = lambda: None
    assert np.flatnonzero(system.norms_sq() == 0.0).tolist() == [2, 17, 30]
    assert system.counter.flagged_rows.tolist() == [-1, 17, 30]
    assert system.counter.rows_read == 40


@DENSE_OR_CSR
@pytest.mark.parametrize("name", ["randomized", "jl", "cluster-jl", "extended"])
def test_preparation__is_the_same_bits_for_any_number_of_threads(name, store):
    A, b, _ = gaussian(301, 13)
    kept, method = store(A), rowsolve.METHODS[name]()
    iterates = []
    for threads in (1, 2, 3):
        system, rng = System(open_rows(kept), b, threads=threads), np.random.default_rng(0)
        x, drops = np.ones((2, 13)), np.empty(2)
        order = method.advance(method.prepare(system, rng), x, 64, rng, drops)
        iterates.append((order, x, drops, system.counter.rows_read))
    for other in iterates[1:]:
        for one, two in zip(iterates[0], other, strict=True):
            np.testing.assert_array_equal(one, two)


def test_preparation__names_a_bad_row_from_any_thread():
    A, b, _ = gaussian(200, 10)
    A[150, 4] = np.nan
    with pytest.raises(ValueError, match="row 150 has nan in column 4"):
        system_of(A, b, threads=3).norms_sq()


@pytest.mark.parametrize(("n", "count"), [(40, 50), (40, 40), (40, 8), (40, 3)])
@pytest.mark.parametrize("n_used", [0, 7, 38, 40])
def test_sample__has_fresh_rows_first_and_none_twice(n, count, n_used):
    rng = np.random.default_rng(0)
    system, used = system_of(np.ones((n, 2))), rng.permutation(n)[:n_used]
    system.count(used)
    order, n_fresh = system.sample(count, rng)
    assert len(set(order.tolist())) == order.size == min(n, count)
    assert not set(order[:n_fresh].tolist()) & set(used.tolist())
    assert set(order[n_fresh:].tolist()) <= set(used.tolist())
    assert n_fresh == min(count, n - n_used) or n > 8 * count  # of many rows some are drawn


def one_hot_rows(n, sizes, rng):
    return sparse.hstack(
        [sparse.csr_array((np.ones(n), (np.arange(n), rng.integers(0, size, n))), shape=(n, size)) for size in sizes]
    ).tocsr()


def test_null_vectors__are_those_of_dummies_and_differences():
    rng = np.random.default_rng(0)
    A = one_hot_rows(300, (7, 5, 3), rng)
    null = System(open_rows(A), np.zeros(300)).facts.null_vectors
    assert null.shape == (15, 2)
    np.testing.assert_allclose(A @ null, 0.0, atol=1e-13)
    np.testing.assert_allclose(null.T @ null, np.eye(2), atol=1e-13)
    with_numbers = sparse.hstack([A, sparse.csr_array(rng.standard_normal((300, 2)))]).tocsr()
    null = System(open_rows(with_numbers), np.zeros(300)).facts.null_vectors
    assert null.shape == (17, 2)
    np.testing.assert_allclose(with_numbers @ null, 0.0, atol=1e-13)
    pairs = sparse.diags_array([1.0, -1.0], offsets=[0, 1], shape=(20, 21)).tocsr()
    np.testing.assert_allclose(pairs @ System(open_rows(pairs), np.zeros(20)).facts.null_vectors, 0.0, atol=1e-15)


def test_null_vectors__are_none_where_none_are_obvious():
    rng = np.random.default_rng(0)
    A = one_hot_rows(300, (7, 5), rng)
    A.data[17] = 2.0
    for other in (A, sparse.random_array((300, 9), density=0.3, rng=rng, format="csr"), one_hot_rows(300, (7,), rng)):
        assert System(open_rows(other), np.zeros(300)).facts.null_vectors is None
    assert System(open_rows(np.ones((5, 2))), np.zeros(5)).facts.null_vectors is None
    mixed = sparse.csr_array((np.ones(4), np.array([0, 2, 1, 2]), np.array([0, 2, 4])), shape=(2, 3))
    assert System(open_rows(mixed), np.zeros(2)).facts.null_vectors.shape == (3, 1)
    crossed = sparse.csr_array((np.ones(4), np.array([0, 1, 1, 2]), np.array([0, 2, 4])), shape=(2, 3))
    assert System(open_rows(crossed), np.zeros(2)).facts.null_vectors is None


def test_unevenness__is_the_ratio_of_column_norms():
    A = np.random.default_rng(0).standard_normal((500, 4)) * [1.0, 10.0, 1.0, 0.0]
    assert System(open_rows(A), np.zeros(500)).facts.unevenness == pytest.approx(10.0, rel=0.3)
    assert System(open_rows(sparse.csr_array(A)), np.zeros(500)).facts.unevenness == pytest.approx(10.0, rel=0.3)
