"""The kinds of saved values: what they accept, and their error messages."""

from __future__ import annotations

import io
import math
from typing import NamedTuple

import numpy as np
import pytest

from rowsolve import Status
from rowsolve.checkpoint import state as kinds
from rowsolve.checkpoint.archive import read_archive, write_archive
from rowsolve.checkpoint.state import StateError

SIZES = {"n": 5, "p": 3, "k": 1, "v": 2, "sparse": False}
GENERATORS = [np.random.PCG64, np.random.PCG64DXSM, np.random.MT19937, np.random.Philox, np.random.SFC64]


class Pair(NamedTuple):
    one: float
    two: np.ndarray


PAIR = kinds.named(Pair, one=kinds.number, two=kinds.array("p"))
TAKEN = [
    (kinds.flag, [True, np.bool_(False)], [1, None, "True"]),
    (kinds.text, ["", "x"], [1, None]),
    (kinds.number, [0.5, math.nan, np.float64(1.0)], [1, True, "1", None]),
    (kinds.amount, [0.5, 1, np.float64(1.0), np.int64(2)], [True, "1", None]),
    (kinds.integer(), [0, 10**30, np.int64(7)], [-1, 1.0, True, None]),
    (kinds.integer(1, "n"), [1, 5], [0, 6]),
    (kinds.row_number, [0, 4], [-1, 5]),
    (kinds.optional(kinds.flag), [None, True], [0]),
    (kinds.listed(kinds.flag), [[], [True]], [None, [1], {"a": True}]),
    (kinds.listed(kinds.flag, "p"), [[True] * 3], [[True] * 2]),
    (kinds.member(Status), ["SLOW"], ["slow", "__class__", 1, ["SLOW"]]),
    (kinds.tuple_of(kinds.flag, kinds.text), [[True, "x"]], [[True], ["x", True], None]),
    (kinds.row_numbers(), [np.arange(5), np.empty(0, int)], [np.array([5]), np.array([-1]), np.zeros(2), [1]]),
    (kinds.row_numbers(2, of="p"), [np.array([0, 2])], [np.array([0, 3]), np.array([0])]),
    (kinds.pack, [np.zeros(5, int), np.array([4, -1, 0, 1, -4])], [np.array([5, 0, 0, 0, 0]), np.zeros(4, int)]),
    (kinds.bits, [np.uint8([255])], [np.uint8([1, 1]), np.array([1])]),
    (kinds.array("p"), [np.zeros(3)], [np.zeros(4), np.zeros(3, int), np.zeros((3, 1)), np.zeros(3, ">f8"), [0.0] * 3]),
    (kinds.array(None, "m", dtype=bool), [np.ones((2, 9), bool)], [np.ones((2, 9)), np.ones(2, bool)]),
    (kinds.sided("n"), [np.zeros(5)], [np.zeros((5, 1))]),
    (PAIR, [{"one": 1.0, "two": np.zeros(3)}], [{"one": 1.0}, {"one": 1.0, "two": np.zeros(3), "three": 1}, [], None]),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "good", "bad"), TAKEN)
def test_kind__accepts_only_values_of_its_kind(kind, good, bad):
    for value in good:
        kind(value, dict(SIZES))
    for value in bad:
        with pytest.raises(StateError):
            kind(value, dict(SIZES))


def test_named_lengths__must_be_the_same_in_all_of_a_part():
    sizes = dict(SIZES)
    kinds.array("m", "p")(np.zeros((7, 3)), sizes)
    with pytest.raises(StateError, match=r"expected an array with axes of \('m',\), 7 for m, got .* of shape \(6,\)"):
        kinds.array("m")(np.zeros(6), sizes)


@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays__are_laid_out_as_kernels_take_them(order):
    values = np.asarray(np.arange(6.0).reshape(2, 3), order=order)
    values.flags.writeable = False
    for wanted, sizes in (
        ("C", SIZES), ("F", SIZES), ("vectors", SIZES), ("vectors", {**SIZES, "sparse": True}),
        ("many", {**SIZES, "sparse": True}), ("many", {**SIZES, "sparse": True, "k": 2}),
    ):  # fmt: skip
        found = kinds.array(2, "p", order=wanted)(values.copy(order="K"), dict(sizes))
        by_columns = wanted == "F" or (sizes["sparse"] and (wanted == "vectors" or sizes["k"] > 1))
        assert found.flags.f_contiguous == by_columns
        assert found.flags.writeable
        np.testing.assert_array_equal(found, values)
    assert not kinds.array(2, "p", frozen=True)(values.copy(), dict(SIZES)).flags.writeable


class Part:
    saved = {"a": kinds.number, "b": kinds.array("p")}  # noqa: RUF012
    derived = ("c",)

    def __init__(self):
        self.a, self.b, self.c = 1.0, np.zeros(3), object()


def test_part__is_filled_with_what_it_has_saved():
    part, other = Part(), Part()
    part.a, part.b = 2.5, np.arange(3.0)
    kinds.fill(other, kinds.state_of(part), SIZES)
    assert other.a == 2.5
    np.testing.assert_array_equal(other.b, part.b)
    for state, words in (
        ({"a": 1.0}, "b is missing"),
        ({"a": 1.0, "b": np.zeros(3), "c": 1}, "'c' is not expected"),
        ({"a": "x", "b": np.zeros(3)}, "a: expected a number, got 'x'"),
        ([], "expected a, b, got a list"),
    ):
        with pytest.raises(StateError, match=words):
            kinds.fill(other, state, SIZES)


def test_attribute_that_was_forgotten__is_reported():
    part = Part()
    part.d = 1
    with pytest.raises(TypeError, match="Part has attributes that are neither in `saved` nor in `derived`: d"):
        kinds.state_of(part)


def test_packed__is_plain():
    assert kinds.packed({"a": (1, Status.SLOW), "b": Pair(1.0, 2)}) == {"a": [1, "SLOW"], "b": {"one": 1.0, "two": 2}}
    with pytest.raises(TypeError, match="function objects cannot be saved: only numbers, text and arrays can"):
        kinds.packed(lambda: 0)


@pytest.mark.parametrize("kind", GENERATORS)
def test_generator__is_resumed(kind):
    rng = np.random.Generator(kind(3))
    rng.integers(10, size=3, dtype=np.uint32)  # half of a number is left
    state = read_archive(io.BytesIO(write_archive(kinds.state_of_generator(rng))))
    again = kinds.generator_of(state)
    assert type(again.bit_generator) is kind
    first = rng.integers(2**40, size=1000)
    np.testing.assert_array_equal(again.integers(2**40, size=1000), first)
    kinds.restart(again, state)
    np.testing.assert_array_equal(again.integers(2**40, size=1000), first)


def with_changed(state, place, value):
    changed = {**state, "state": dict(state["state"])}
    (changed if len(place) == 1 else changed["state"])[place[-1]] = value
    return changed


@pytest.mark.parametrize(
    ("kind", "place", "values"),
    [
        (np.random.MT19937, ("state", "pos"), [-1, 625, 2**31, "1"]),
        (np.random.MT19937, ("state", "key"), [np.zeros(623, np.uint32), np.zeros(624), 0]),
        (np.random.Philox, ("buffer_pos",), [-1, 5]),
        (np.random.Philox, ("buffer",), [np.zeros(3, np.uint64)]),
        (np.random.SFC64, ("uinteger",), [2**32, -1]),
        (np.random.PCG64, ("state", "state"), [2**128, -1, 1.0]),
        (np.random.PCG64, ("has_uint32",), [2]),
        (np.random.PCG64, ("bit_generator",), ["MT19937", "SeedSequence", None, ["PCG64"]]),
        (np.random.PCG64, ("more",), [1]),
    ],
)
def test_generator_in_no_state_of_its_own__raises_an_error(kind, place, values):
    state = np.random.Generator(kind(0)).bit_generator.state
    for value in values:
        with pytest.raises(StateError):
            kinds.generator_of(with_changed(state, place, value))


def test_generator_of_others__cannot_be_saved():
    class Own(np.random.PCG64):
        pass

    with pytest.raises(TypeError, match="bit generator Own cannot be saved"):
        kinds.state_of_generator(np.random.Generator(Own(0)))
