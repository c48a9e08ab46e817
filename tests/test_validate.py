"""Bad input: the message says what was expected, what was given, and what to try."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import rowsolve

A, b = np.eye(4, 3), np.array([1.0, 2.0, 3.0, 0.0])


def changed(array, place, value):
    array = np.array(array, dtype=float)
    array[place] = value
    return array


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ((A, b[:3]), "`b` must have one entry per row of `A`: expected 4, got 3"),
        ((A, np.ones((4, 2, 1))), r"`b` must have one dimension, or two for several columns: got shape \(4, 2, 1\)"),
        ((A, changed(b, 2, np.nan)), "`b` must be finite: entry 2 is nan"),
        ((A, b * 1e-200), "`b` has entries up to 3.0e-200, whose squares are out of the range of float64"),
        ((A, changed(b, 1, -np.inf)), "`b` must be finite: entry 1 is -inf"),
        ((b, b), r"`A` must have two dimensions, rows and columns: got shape \(4,\)"),
        ((np.ones((2, 2, 2)), b), "`A` must have two dimensions"),
        ((np.empty((0, 3)), []), r"`A` must have at least one row and one column: got shape \(0, 3\)"),
        ((np.empty((4, 0)), b), "`A` must have at least one row and one column"),
        ((sparse.csr_array((0, 3)), []), "`A` must have at least one row and one column"),
        (([[1, 2], [3]], [1, 2]), "`A` must be an array of real numbers, rows of equal length"),
        ((np.ma.masked_equal(A, 1.0), b), "`A` has masked entries"),
        ((A, b, "cluster_block"), "unknown method 'cluster_block': did you mean 'cluster-block'.*rowsolve methods"),
        ((A, b, "Randomised"), "did you mean 'randomized'"),
        ((A, b, "xyzzy"), "unknown method 'xyzzy': expected one of auto, cyclic"),
    ],
)
def test_arguments__of_the_wrong_value_are_explained(args, words):
    with pytest.raises(ValueError, match=words):
        rowsolve.solve(*args)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ((A * 1j, b), "`A` must be real, got complex128"),
        ((sparse.csr_array(A * 1j), b), "`A` must be real, got complex128"),
        ((A, b * 1j), "`b` must be real, got complex128"),
        ((A.astype(object), b), "`A` must hold real numbers, got an array of dtype object"),
        ((A.astype(str), b), "`A` must hold real numbers, got an array of dtype <U32"),
        ((A, b.astype("datetime64[s]")), "`b` must hold real numbers"),
        ((A, b, 3), "`method` must be a name or a method"),
    ],
)
def test_arguments__of_the_wrong_type_are_explained(args, words):
    with pytest.raises(TypeError, match=words):
        rowsolve.solve(*args)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"rtol": -1e-6}, ValueError, "`rtol` must be a finite number of at least 0, got -1e-06"),
        ({"rtol": np.nan}, ValueError, "`rtol` must be a finite number"),
        ({"rtol": "small"}, TypeError, "`rtol` must be a number, got 'small'"),
        ({"atol": -1.0}, ValueError, "`atol` must be a finite number of at least 0"),
        ({"max_passes": 0}, ValueError, "`max_passes` must be above 0, got 0"),
        ({"threads": 0}, ValueError, "`threads` must be an integer of at least 1, got 0"),
        ({"threads": 1.5}, ValueError, "`threads` must be an integer of at least 1, got 1.5"),
        ({"threads": True}, ValueError, "`threads` must be an integer of at least 1, got True"),
        ({"threads": "2"}, ValueError, "`threads` must be an integer of at least 1, got '2'"),
        ({"max_seconds": -5}, ValueError, "`max_seconds` must be above 0, got -5"),
        ({"max_seconds": np.nan}, ValueError, "`max_seconds` must be above 0"),
        ({"check": "none"}, ValueError, "`check` must be 'sampled' or 'full', got 'none'"),
        ({"x0": [1.0, 2.0]}, ValueError, "`x0` must have one entry per column of `A`: expected 3, got 2"),
        ({"x0": [1.0, np.nan, 2.0]}, ValueError, "`x0` must be finite: entry 1 is nan"),
        ({"rng": -1}, ValueError, "`rng` must be an integer of at least 0 or a numpy.random.Generator, got -1"),
        ({"rng": "seed"}, TypeError, "`rng` must be an integer"),
        ({"callback": 3}, TypeError, "`callback` must be callable, got 3"),
    ],
)
def test_options__are_explained(options, error, words):
    with pytest.raises(error, match=words):
        rowsolve.solve(A, b, **options)


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
@pytest.mark.parametrize("size", [1e-170, 1e170])
def test_rows__whose_squares_do_not_fit_are_explained(make, size):
    words = r"row \d of `A` has entries up to 1.0e.170"
    with pytest.raises(ValueError, match=words), np.errstate(all="ignore"):
        rowsolve.solve(make(np.eye(4, 3) * size), b, rng=0)


def test_x__beyond_the_range_is_explained():
    with pytest.raises(ValueError, match="x is too large for float64: rescale"), np.errstate(all="ignore"):
        rowsolve.solve(np.eye(4, 3) * 1e-150, b * 1e140, rng=0)
    with pytest.raises(ValueError, match="x is too small for float64: rescale"):
        rowsolve.solve(np.eye(4, 3) * 1e80, b * 1e-80, rng=0)


def test_numbers_too_far_apart__end_the_run():
    assert not rowsolve.solve(np.eye(4, 3) * 1e140, b * 1e-140, "randomized", rng=0).converged
