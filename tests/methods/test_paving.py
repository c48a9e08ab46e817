from __future__ import annotations

from itertools import pairwise

import naive
import numpy as np
import pytest
from bursts import assert_taken, burst_of
from conftest import gaussian, relative_error
from scipy import sparse

import rowsolve
from rowsolve import Paving
from rowsolve.partition.pavings import KINDS


@pytest.mark.parametrize("kind", KINDS)
def test_step__is_the_projection_on_a_block_of_the_partition(kind):
    A, b, _ = gaussian(60, 20)
    burst = burst_of(Paving(kind, 12), A, b, 30)
    members, starts = burst.plan.blocks
    blocks = {members[start]: members[start:stop] for start, stop in pairwise(starts)}
    assert sorted(members.tolist()) == list(range(60))
    sizes = []
    while sum(sizes) < burst.order.size:
        block = blocks[burst.order[sum(sizes)]]
        np.testing.assert_array_equal(burst.order[sum(sizes) :][: block.size], block)
        sizes.append(block.size)
    mixed = (A, b) if burst.plan.mixed is None else burst.plan.mixed
    assert_taken(burst, naive.project_blocks, *mixed, burst.order, sizes)


def test_incoherent__projects_on_mixed_rows_with_the_same_solution():
    A, b, _ = gaussian(60, 8, noise=0.3)
    mixed, mixed_b = burst_of(Paving("incoherent"), A, b, 30).plan.mixed
    assert not np.allclose(mixed, A)
    np.testing.assert_allclose(np.linalg.lstsq(mixed, mixed_b)[0], np.linalg.lstsq(A, b)[0], atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_kinds__all_lead_to_the_solution(kind):
    A, b, x_true = gaussian(400, 20, seed=1)
    solution = rowsolve.solve(A, b, Paving(kind), rng=0)
    assert solution.converged
    assert relative_error(solution.x, x_true) < 3e-6


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Paving("best"), "`kind` must be one of 'random'"),
        (lambda: Paving(n_blocks=0), "`n_blocks` must be an integer of at least 1"),
        (
            lambda: rowsolve.solve(sparse.csr_array(gaussian(30, 4)[0]), np.zeros(30), Paving("incoherent")),
            "would make a sparse `A` dense",
        ),
    ],
)
def test_parameters__that_are_invalid_raise_an_error(make, words):
    with pytest.raises(ValueError, match=words):
        make()
