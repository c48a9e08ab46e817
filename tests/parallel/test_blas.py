"""The number of threads of BLAS."""

from __future__ import annotations

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from rowsolve.parallel.blas import blas_threads


def threads_now():
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


@pytest.fixture(autouse=True)
def _three_threads_outside():
    with blas_threads(1.0, 1):  # so that the libraries are there to be asked
        pass
    with threadpool_limits(3, user_api="blas"):
        yield


@pytest.mark.parametrize(("work", "threads", "expected"), [(1e7, 3, 1), (1e10, 1, 1), (1e10, 2, 2)])
def test_blas_threads__are_one_unless_calls_are_long(work, threads, expected):
    with blas_threads(work, threads):
        assert threads_now() == {expected}
    assert threads_now() == {3}


def test_blas_threads__keep_short_calls_to_one_as_well():
    with blas_threads(10.0, 2):
        assert threads_now() == {1}
    assert threads_now() == {3}


def test_blas_threads__of_overlapping_blocks_are_restored_at_the_end():
    first, second = blas_threads(1e10, 2), blas_threads(10.0, 2)
    first.__enter__()
    second.__enter__()
    first.__exit__()
    assert threads_now() == {1}
    second.__exit__()
    assert threads_now() == {3}
