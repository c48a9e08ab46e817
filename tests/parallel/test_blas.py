"""How many threads BLAS takes."""

from __future__ import annotations

import pytest
from threadpoolctl import threadpool_info

from rowsolve.parallel.blas import blas_threads


def threads_now():
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


@pytest.mark.parametrize(("work", "threads", "expected"), [(1e7, 3, 1), (1e10, 1, 1), (1e10, 2, 2)])
def test_blas_threads__are_one_unless_calls_are_long(work, threads, expected):
    with blas_threads(1e7, 1):  # so that the library is there to be asked
        pass
    before = threads_now()
    with blas_threads(work, threads):
        assert threads_now() == {expected}
    assert threads_now() == before


def test_blas_threads__keep_short_calls_to_one_as_well():
    before = threads_now()
    with blas_threads(10.0, 2):
        assert threads_now() == {1}
    assert threads_now() == before


def test_blas_threads__of_overlapping_blocks_are_restored_at_the_end():
    before = threads_now()
    first, second = blas_threads(1e10, 2), blas_threads(10.0, 2)
    first.__enter__()
    second.__enter__()
    first.__exit__()
    assert threads_now() == {1}
    second.__exit__()
    assert threads_now() == before
