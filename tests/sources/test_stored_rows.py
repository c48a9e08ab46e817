"""Rows in files: the division of memory, walks over chunks, and single rows."""

from __future__ import annotations

import threading
from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import rowsolve
from rowsolve.problem.system import System
from rowsolve.sources import open_store
from rowsolve.sources.arrays import ArrayStore
from rowsolve.sources.store import Footprint
from rowsolve.sources.stored import memory_for, open_stored
from rowsolve.sources.streams import Chunks

A = np.random.default_rng(0).standard_normal((500, 6))
b = A @ np.ones(6)


class Counting(ArrayStore):
    """Rows that are read into buffers in chunks; records the requests and their threads."""

    def __init__(self, values=A, chunk=10):
        super().__init__("rows", values, chunk=chunk)
        self.reads, self.threads = [], set()

    def _viewable(self, stop):
        return None

    def _read(self, start, stop, out):
        self.reads.append((start, stop))
        self.threads.add(threading.current_thread().name)
        return super()._read(start, stop, out)


def rows_of(store, allowed=60_000.0):
    return open_stored(store, memory_for(store, 1, allowed, 1))


def readers():
    return [thread for thread in threading.enumerate() if thread.name.startswith("rowsolve-reader")]


@given(
    n=st.integers(1, 10**9), p=st.integers(1, 10**5), n_rhs=st.integers(1, 5), threads=st.integers(1, 8),
    chunk=st.integers(1, 10**5), allowed=st.floats(1e3, 1e12), kind=st.sampled_from(["read", "viewed"]),
)  # fmt: skip
def test_memory__is_divided_within_the_limit_or_the_minimum_is_reported(n, p, n_rhs, threads, chunk, allowed, kind):
    class Anything(Counting):
        has_views = kind == "viewed"

        def __init__(self):
            self.shape, self.dtype, self.stored_dtype, self.name = (n, p), np.dtype(float), np.dtype(float), "rows"
            self.chunk = min(chunk, n)
            self.footprint = Footprint.of_chunks(float(p), self.stored_dtype, self.chunk)

    try:
        plan = memory_for(Anything(), n_rhs, allowed, threads)
    except ValueError as error:
        least = 1e6 * float(str(error).split("Allow ")[1].removesuffix(" MB.").replace(",", ""))
        assert least > allowed
        plan = memory_for(Anything(), n_rhs, least, threads)
        allowed = least
    assert plan.fixed + plan.buffers + plan.workspace_bytes == pytest.approx(allowed)
    assert 1 <= plan.chunk <= n
    assert plan.workspace_bytes >= 0.0
    assert plan.views or plan.buffers == 4 * plan.chunk * 8.0 * p
    assert plan.chunk % min(chunk, n) == 0 or plan.chunk < chunk or plan.chunk == min(n, 16)


@pytest.mark.parametrize("make", [Counting, lambda: ArrayStore("rows", A)], ids=["read", "viewed"])
def test_walk__gives_the_chunks_asked_for(make):
    store = make()
    rows = rows_of(store, 13_000.0 if store.has_views else 40_000.0)
    assert rows.n_chunks > 3
    order = [2, 0, rows.n_chunks - 1, 2]
    size = rows.memory.chunk
    for number, (first, source) in zip(order, rows.prefetcher.walk(iter(order), rows.memory.chunk), strict=True):
        assert first == number * size
        np.testing.assert_array_equal(source.rows.values, A[first : first + size])
        assert source.shape == source.rows.values.shape
    assert not readers()


def test_walk__reads_the_next_chunk_meanwhile_on_a_thread_of_its_own():
    store = Counting()
    rows = rows_of(store, 40_000.0)
    walk, size = rows.prefetcher.walk(iter([0, 1, 2]), rows.memory.chunk), rows.memory.chunk
    _, source = next(walk)
    for _ in range(1000):
        if max(stop for _, stop in store.reads) == 2 * size:
            break
        threading.Event().wait(0.005)
    assert max(stop for _, stop in store.reads) == 2 * size  # a little at a time
    assert threading.current_thread().name not in store.threads
    np.testing.assert_array_equal(source.rows.values, A[:size])  # not overwritten by what was read ahead
    walk.close()
    assert not readers()


def test_walk__that_is_left_alone_ends_when_the_rows_are_closed():
    rows = rows_of(Counting(), 40_000.0)
    walks = [rows.endless(0, 0, False) for _ in range(2)]
    for walk in walks:
        next(walk)
    assert len(readers()) == 2
    rows.close()
    assert not readers()
    assert [next(walk, None) for walk in walks] == [None, None]


def test_walk__tells_what_went_wrong_while_it_read_ahead():
    class Bad(Counting):
        def _read(self, start, stop, out):
            if start >= 100:
                raise OSError("a scratch")
            return super()._read(start, stop, out)

    rows, seen = rows_of(Bad(), 40_000.0), []
    with pytest.raises(ValueError, match=r"rows: rows 1.. to ... cannot be read .*: a scratch"):
        seen.extend(first for first, _ in rows.prefetcher.walk(iter(range(rows.n_chunks)), rows.memory.chunk))
    assert seen
    assert not readers()


def test_endless_walk__is_a_new_permutation_each_pass_and_can_begin_anywhere():
    rows = rows_of(Counting(), 40_000.0)
    n, size = rows.n_chunks, rows.memory.chunk

    def chunks(first, count, in_order=False):
        walk = rows.endless(7, first, in_order)
        found = [start // size for start, _ in islice(walk, count)]
        walk.close()
        return found

    whole = chunks(0, 3 * n)
    passes = [whole[i * n : (i + 1) * n] for i in range(3)]
    assert all(sorted(one) == list(range(n)) for one in passes)
    assert passes[0] != passes[1] != passes[2]
    for first in (1, n - 1, n, 2 * n - 3):
        assert chunks(first, n) == whole[first : first + n]
    assert chunks(2, n, in_order=True) == [*range(2, n), 0, 1]


def test_streams__are_walked_in_their_order():
    store = Chunks(lambda: ((A[i : i + 50], b[i : i + 50]) for i in range(0, 500, 50)))
    rows = rows_of(store, 60_000.0)
    walk = rows.endless(3, 0, False)
    firsts = [first for first, _ in islice(walk, rows.n_chunks)]
    walk.close()
    assert firsts == sorted(firsts)


@pytest.mark.parametrize("values", [A, sparse.csr_array(A)], ids=["dense", "sparse"])
def test_fetch__gives_rows_in_any_order_and_repeated(values):
    store = open_store(values) if sparse.issparse(values) else Counting()
    rows, order = rows_of(store, 200_000.0), np.array([499, 3, 3, 250, 0])
    found = rows.fetch(order)
    for place, number in enumerate(order):
        np.testing.assert_array_equal(found.row(place), A[number])
    np.testing.assert_array_equal(rows.row(17), A[17])
    taken = rows.take(order, np.full(5, 2.0))
    np.testing.assert_array_equal(taken.row(0), 2.0 * A[499])


def test_sparse_rows__of_which_some_have_many_entries_come_in_smaller_chunks():
    few, many = sparse.random_array((4000, 300), density=0.01, rng=0), sparse.csr_array(np.ones((400, 300)))
    uneven = sparse.csr_array(sparse.vstack([few, many]))
    even = sparse.random_array(uneven.shape, density=uneven.nnz / uneven.shape[0] / 300, rng=0, format="csr")
    chunks = []
    for matrix in (uneven, even):
        store = open_store(matrix)
        for n_rows in (16, 100, 1000, 4400):
            longest = max(matrix.indptr[i + n_rows] - matrix.indptr[i] for i in range(4401 - n_rows))
            assert 12 * longest <= store.most_bytes(n_rows) <= 12 * longest * (1 + 32 / n_rows) + 16 * 3600 + 4 * n_rows
        plan = memory_for(store, 1, 1_000_000.0, 1)
        assert 12 * store.most_bytes(plan.chunk) <= 500_000 or plan.chunk == 16
        chunks.append(plan.chunk)
    assert chunks[0] < chunks[1]


def test_batches__cover_a_list_and_are_never_of_less_than_16_rows():
    rows = rows_of(Counting(), 40_000.0)
    edges = list(rows.batches(100))
    assert [i for start, stop in edges for i in range(start, stop)] == list(range(100))
    assert rows.rows_at_once >= 16


def system_of(store, allowed=60_000.0):
    return System(rows_of(store, allowed), b)


def test_pieces__are_one_counted_pass_and_can_begin_later():
    system = system_of(Counting(), 40_000.0)
    firsts = [(piece.first, piece.n_rows) for piece in system.pieces()]
    assert sum(count for _, count in firsts) == system.counter.rows_read == 500
    assert [piece.first for piece in system.pieces(skip=2)] == [first for first, _ in firsts[2:]]


def test_norms__are_those_of_all_rows():
    np.testing.assert_allclose(system_of(Counting()).norms_sq(), np.sum(A**2, axis=1), rtol=1e-14)


def test_parts__are_all_rows_asked_for_and_the_last_is_kept():
    store = Counting()
    system, order = system_of(store), np.array([7, 450, 33])
    for _ in range(3):
        (part,) = system.parts(order)
        np.testing.assert_array_equal(part.rows.values[part.order], A[order])
        np.testing.assert_array_equal(part.of(b), b[order])
    assert len(store.reads) <= 3


def test_flagged_rows__are_reported_by_their_numbers_in_a():
    bad = A.copy()
    bad[433, 2] = np.nan
    with pytest.raises(ValueError, match=r"^rows: `A` must be finite: row 433 has nan in column 2"):
        system_of(Counting(bad), 40_000.0).norms_sq()


@pytest.mark.parametrize("count", [10, 200, 256, 400, 5000])
@pytest.mark.parametrize("chunk", [1, 10, 100])
def test_sample__is_of_distinct_rows_fresh_ones_first(count, chunk):
    system = system_of(Counting(chunk=chunk))
    system.count(np.arange(0, 500, 3))
    rng = np.random.default_rng(0)
    seen = np.zeros(500)
    for _ in range(30):
        order, n_fresh = system.sample(count, rng)
        assert np.unique(order).size == order.size <= min(count, 500)
        assert order.size >= min(count, 500) * 0.9
        assert (order[:n_fresh] % 3 > 0).all()
        assert (order[n_fresh:] % 3 == 0).all()
        seen[order] += 1
    assert count < 200 or (seen[np.arange(500) % 3 > 0] > 0).all()  # none is out of reach


def test_bytes_read__are_those_of_the_chunks_that_were_read():
    store = Counting(chunk=10)
    rows = rows_of(store)
    rows.fetch(np.array([5]))
    assert store.bytes_read == 10 * 6 * 8
    found = rowsolve.solve(A, b, "refined", memory=50_000, rng=0, threads=1)
    assert found.bytes_read == found.rows_read * 6 * 8
