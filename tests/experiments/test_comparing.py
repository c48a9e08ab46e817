"""The numbers computed from the tables of figures 1 and 2."""

from __future__ import annotations

import numpy as np
import pytest

from rowsolve.experiments.comparing import Pair, after, at_the_end, needed

NAMES = ("block", "cluster-block")
HEADER = ("seed", "method", "n_draws", "n_steps", "rows_read", "relative_error")
# First steps of 15 starts each, and a run, of two seeds. The clustered run of seed 1 does not come below 1e-3.
LINES = [
    (0, "block", 15, 1, 4, 0.8), (0, "block", 15, 2, 8, 0.5),
    (0, "block", 1, 0, 0, 1.0), (0, "block", 1, 100, 400, 1e-2), (0, "block", 1, 200, 800, 1e-4),
    (0, "cluster-block", 15, 1, 1004, 0.2), (0, "cluster-block", 15, 2, 1008, 0.1),
    (0, "cluster-block", 1, 0, 1000, 1.0), (0, "cluster-block", 1, 200, 1800, 1e-2),
    (0, "cluster-block", 1, 400, 2600, 1e-4),
    (1, "block", 15, 1, 4, 0.6), (1, "block", 15, 2, 8, 0.6),
    (1, "block", 1, 0, 0, 1.0), (1, "block", 1, 100, 400, 1e-3), (1, "block", 1, 200, 800, 1e-6),
    (1, "cluster-block", 15, 1, 1004, 0.3), (1, "cluster-block", 15, 2, 1008, 0.6),
    (1, "cluster-block", 1, 0, 1000, 1.0), (1, "cluster-block", 1, 200, 1800, 1e-1),
    (1, "cluster-block", 1, 400, 2600, 1e-3),
]  # fmt: skip
TABLE = dict(zip(HEADER, map(np.array, zip(*LINES, strict=True)), strict=True))


def test_ratios__are_clustered_over_plain_seed_by_seed():
    assert Pair(np.array([2.0, 4.0]), np.array([1.0, 8.0])).ratios.tolist() == [0.5, 2.0]


def test_after__takes_the_first_steps_and_not_the_run():
    plain, clustered = after(TABLE, NAMES, 1, "relative_error")
    assert plain.tolist() == [0.8, 0.6]
    assert clustered.tolist() == [0.2, 0.3]


def test_at_the_end__takes_the_last_third_of_the_run():
    plain, clustered = at_the_end(TABLE, NAMES, "relative_error")
    assert plain.tolist() == [1e-4, 1e-6]
    assert clustered.tolist() == [1e-4, 1e-3]


def test_needed__is_to_the_goal_or_to_the_lowest_that_both_reached():
    (plain, clustered), level = needed(TABLE, NAMES, "n_steps", "relative_error", 1e-4)
    assert plain.tolist() == pytest.approx([200, 100])  # in seed 1 to 1e-3
    assert clustered.tolist() == pytest.approx([400, 400])
    assert level == pytest.approx((1e-4 + 1e-3) / 2)
    (plain, clustered), level = needed(TABLE, NAMES, "rows_read", "relative_error", 0.1)
    assert plain.tolist() == pytest.approx([200, 400 / 3])  # by the logarithm between two points
    assert clustered.tolist() == pytest.approx([1400, 1800])
    assert level == 0.1
