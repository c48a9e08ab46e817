"""`make tables`: the regressions made from a table."""

from __future__ import annotations

from argparse import Namespace

import numpy as np
import pytest
from judge import dense_of

pd = pytest.importorskip("pandas", reason="needs pip install 'rowsolve[tables]'")
tables = pytest.importorskip("tables", reason="needs pip install 'rowsolve[tables]'")


def table():
    return pd.DataFrame(
        {
            "rownames": [1, 2, 3, 4, 5],
            "size": [1.0, 2.0, np.nan, 4.0, 5.0],
            "old": [True, False, True, False, False],
            "hardly": [np.nan, np.nan, np.nan, 1.0, 2.0],
            "colour": ["red", "blue", "red", "blue", "red"],
            "name": ["same"] * 5,
        }
    )


def arguments(**changes):
    return Namespace(**{"one_hot": False, "max_rows": 100, "max_columns": 60, **changes})


def test_numbers__are_regressed_on_the_others_with_and_without_an_intercept():
    found = {words: (dense_of(A), b) for words, A, b in tables.systems_of(table(), arguments())}
    assert list(found) == ["size ~ others", "size ~ 1 + others", "old ~ others", "old ~ 1 + others"]
    A, b = found["size ~ 1 + others"]
    np.testing.assert_array_equal(A, [[1, 1], [1, 0], [1, 0], [1, 0]])
    np.testing.assert_array_equal(b, [1, 2, 4, 5])


def test_text__becomes_zeros_and_ones_dense_and_sparse():
    found = list(tables.systems_of(table(), arguments(one_hot=True)))
    assert [words for words, _, _ in found[:2]] == [
        "size ~ 1 + others + levels",
        "size ~ 1 + others + levels (CSR)",
    ]
    for _, A, b in found[:2]:
        np.testing.assert_array_equal(dense_of(A), [[1, 1, 0, 1], [1, 0, 1, 0], [1, 0, 1, 0], [1, 0, 0, 1]])
        np.testing.assert_array_equal(b, [1, 2, 4, 5])


def test_limits__hold():
    assert [A.shape[0] for _, A, _ in tables.systems_of(table(), arguments(max_rows=3))] == [3] * 4
    assert list(tables.systems_of(table(), arguments(max_columns=1))) == []
    assert list(tables.systems_of(table()[["size", "old"]], arguments(one_hot=True))) == []
