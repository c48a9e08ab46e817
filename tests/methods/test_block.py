from __future__ import annotations

import naive
import numpy as np
import pytest
from bursts import assert_taken, burst_of
from conftest import gaussian, relative_error

import rowsolve
from rowsolve import Block


@pytest.mark.parametrize("size", [1, 7, 20])
def test_step__is_the_projection_on_distinct_random_rows(size):
    A, b, _ = gaussian(50, 9)
    burst = burst_of(Block(size), A, b, 60)
    blocks = burst.order.reshape(-1, size)
    assert len(blocks) == 60 // size
    assert all(len(set(block.tolist())) == size for block in blocks)
    assert_taken(burst, naive.project_blocks, A, b, burst.order, [size] * len(blocks))


def test_block_of_as_many_independent_rows_as_columns__solves_at_once():
    A, b, x_true = gaussian(50, 9)
    burst = burst_of(Block(9), A, b, 9)
    np.testing.assert_allclose(burst.iterates, [x_true, np.zeros(9)], atol=1e-9)


@pytest.mark.parametrize("size", [1, 7, 20, 33])
def test_sizes__all_lead_to_the_solution(size):
    A, b, x_true = gaussian(400, 20, seed=1)
    solution = rowsolve.solve(A, b, Block(size), rng=0)
    assert solution.converged
    assert relative_error(solution.x, x_true) < 3e-6


@pytest.mark.compiled
def test_tight_clusters__take_far_fewer_rows_than_single_rows_and_blocks_across_do_not():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((4, 200))[rng.integers(0, 4, 4000)] + 0.1 * rng.standard_normal((4000, 200))
    b = A @ rng.standard_normal(200)
    rows = {name: rowsolve.solve(A, b, name, rng=0).rows_read for name in ("randomized", "block", "cluster-block")}
    assert rows["block"] < rows["randomized"] / 5
    assert rows["cluster-block"] > rows["block"] * 5  # the opposite of what the paper claims


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Block(block_size=0), "`block_size` must be an integer of at least 1, got 0"),
        (lambda: Block(block_size=2.5), "`block_size` must be an integer"),
        (
            lambda: rowsolve.solve(*gaussian(30, 4)[:2], Block(31)),
            "`block_size` must be at most the number of rows, 30, got 31",
        ),
    ],
)
def test_parameters__that_are_invalid_raise_an_error(make, words):
    with pytest.raises(ValueError, match=words):
        make()
