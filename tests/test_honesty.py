"""`solve` on random systems of many kinds, judged against LAPACK: a small part of ``make honesty``."""

from __future__ import annotations

import pytest
from honesty import verdict_of

# Raise COUNT, and try other seeds, as `solve` gets better: a seed is here only if all of its systems pass.
SEED, COUNT = 107, 176  # four of each kind
SEED_OF_BOUNDS, COUNT_OF_BOUNDS = 0, 66

pytestmark = pytest.mark.compiled  # sizes of up to 5,000 x 200


@pytest.mark.parametrize("index", range(COUNT))
def test_solution__is_right_or_says_that_it_is_not(index):
    assert verdict_of(SEED, index).failures == []


@pytest.mark.parametrize("index", range(COUNT_OF_BOUNDS))
def test_solution_within_bounds__is_as_good_as_that_of_scipy_or_says_that_it_is_not(index):
    verdict = verdict_of(SEED_OF_BOUNDS, index, bounds=True)
    assert verdict.failures == []
    assert not any(note.startswith("SHORT") for note in verdict.notes)


@pytest.mark.parametrize(("seed", "index"), [(1303, 1651), (1308, 1385)])
def test_search_for_outliers__that_overflows_keeps_the_solution(seed, index):
    assert verdict_of(seed, index).failures == []
