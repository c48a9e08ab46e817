"""Plain data is restored bit for bit; any other bytes raise an error."""

from __future__ import annotations

import io
import json
import math
import pickle
import zipfile

import numpy as np
import pytest
from checkpoints import archive_of, as_npy
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from rowsolve.checkpoint.archive import ArchiveError, read_archive, write_archive

LONG = [math.nan, math.inf, -0.0, 1e-320, *map(float, range(20))]


def there_and_back(tree):
    return read_archive(io.BytesIO(write_archive(tree)))


def same(found, expected):
    assert type(found) is type(expected)
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for key in expected:
            same(found[key], expected[key])
    elif isinstance(expected, list):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            same(one, other)
    elif isinstance(expected, np.ndarray):
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        assert found.flags.writeable == expected.flags.writeable
        for order in ("c_contiguous", "f_contiguous"):
            assert getattr(found.flags, order) == getattr(expected.flags, order)
        assert found.tobytes() == expected.tobytes()
    elif isinstance(expected, float):
        assert np.float64(found).tobytes() == np.float64(expected).tobytes()
    else:
        assert found == expected


def test_tree__comes_back_with_the_same_types_and_bits():
    frozen = np.arange(5.0)
    frozen.flags.writeable = False
    same(
        there_and_back(tree := {
            "floats": [0.1, -0.0, math.inf, -math.inf, math.nan, 5e-324],
            "ints": [0, -1, 2**128 - 1, True, None],
            "scalars": [np.float64(0.1), np.float64(math.nan), np.int64(-3), np.bool_(True), np.float32(0.1)],
            "text": ["", "ä\n\"", "$array"],
            "long": {"floats": LONG, "ints": list(range(-10, 30)), "big": [2**70] * 20, "texts": ["aä", ""] * 10},
            "mixed": [1.0] * 20 + [np.float64(2.0)],
            "empty": {"list": [], "dict": {}, "array": np.empty((0, 3))},
            "arrays": {
                "C": np.arange(6.0).reshape(2, 3), "F": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
                "strided": np.ascontiguousarray(np.arange(12.0)[::2]), "single": np.float32([1.5, np.nan]),
                "0-d": np.array(3), "bools": np.array([True, False]), "bytes": np.uint8([1, 255]),
                "small": np.int8([-1]), "long words": np.uint64([2**64 - 1]), "frozen": frozen,
                "other end": np.array([1.0, 2.0], ">f8"),
            },
        }),
        tree,
    )  # fmt: skip


@given(arrays.arrays(st.sampled_from([float, np.float32, np.int64, bool]), arrays.array_shapes(min_dims=0, min_side=0)))
def test_every_array__comes_back(array):
    same(there_and_back([array]), [array])
    same(there_and_back([np.asfortranarray(array)]), [np.asfortranarray(array)])


@pytest.mark.parametrize(
    ("tree", "words"),
    [
        ({"a": {"b": object()}}, "a.b is a object, which cannot be saved"),
        ({"a": [1, lambda: 0]}, "a.1 is a function"),
        ({"a": np.array([None])}, "a is an array of object"),
        ({"a": np.array([1j])}, "a is an array of complex128"),
        ({"a": {"$array": 1}}, "a is a dict"),
        ({"a": {1: 2}}, "a is a dict"),
        ({"a": (1, 2)}, "a is a tuple"),
        ({"a": np.datetime64("2020")}, "a is a datetime64"),
    ],
)
def test_what_is_not_plain__cannot_be_written(tree, words):
    with pytest.raises(TypeError, match=words):
        write_archive(tree)


class Trap:
    def __reduce__(self):
        return pytest.fail, ("a pickle was run",)


TRAPS = np.empty(1, object)
TRAPS[0] = Trap()
OBJECTS = io.BytesIO()
np.lib.format.write_array(OBJECTS, TRAPS, allow_pickle=True)
NUMBERS = as_npy(np.arange(3.0))
TEXT = json.dumps({"a": {"$array": "a.npy"}})
DEEP = "[" * 100_000 + "]" * 100_000
CRAFTED = {
    "object array": {"state.json": TEXT, "a.npy": OBJECTS.getvalue()},
    "pickle": {"state.json": TEXT, "a.npy": pickle.dumps(Trap())},
    "pickle for text": {"state.json": pickle.dumps(Trap())},
    "no text": {"a.npy": NUMBERS},
    "no array": {"state.json": TEXT},
    "one too many": {"state.json": TEXT, "a.npy": NUMBERS, "b.npy": NUMBERS},
    "one array in two places": {"state.json": json.dumps([{"$array": "a.npy"}] * 2), "a.npy": NUMBERS},
    "another name": {"state.json": TEXT, "../a.npy": NUMBERS},
    "text as an array": {"state.json": json.dumps({"$array": "state.json"})},
    "huge shape": {"state.json": TEXT, "a.npy": NUMBERS.replace(b"(3,)", b"(999999999999,)")},
    "negative shape": {"state.json": TEXT, "a.npy": NUMBERS.replace(b"(3,)", b"(-3,)")},
    "many axes": {"state.json": TEXT, "a.npy": NUMBERS.replace(b"(3,)", b"(" + b"1, " * 100 + b"3,)")},
    "huge item": {"state.json": TEXT, "a.npy": NUMBERS.replace(b"<f8", b"<U999999999")},
    "structured": {"state.json": TEXT, "a.npy": as_npy(np.zeros(3, "f8,i8"))},
    "no such type": {"state.json": TEXT, "a.npy": NUMBERS.replace(b"<f8", b"<f7")},
    "cut short": {"state.json": TEXT, "a.npy": NUMBERS[:-1]},
    "too long": {"state.json": TEXT, "a.npy": NUMBERS + b"12345678"},
    "no header": {"state.json": TEXT, "a.npy": b""},
    "endless header": {"state.json": TEXT, "a.npy": NUMBERS[:60].replace(b"(3,)", b"(" + b"1" * 9999)},
    "deep": {"state.json": DEEP},
    "deep objects": {"state.json": '{"a":' * 100_000 + "1" + "}" * 100_000},
    "no JSON": {"state.json": "{"},
    "no such scalar": {"state.json": json.dumps({"$scalar": ["object", 1]})},
    "no number": {"state.json": json.dumps({"$scalar": ["float64", "x"]})},
    "name is no text": {"state.json": json.dumps({"$array": ["a.npy"]}), "a.npy": NUMBERS},
}


@pytest.mark.parametrize("name", CRAFTED)
def test_crafted_archive__raises_an_error(name):
    with pytest.raises(ArchiveError):
        read_archive(io.BytesIO(archive_of(CRAFTED[name])))


def test_what_unpacks_to_more__raises_an_error():
    members = {"state.json": TEXT, "a.npy": as_npy(np.zeros(10_000_000))}
    with pytest.raises(ArchiveError, match="its contents are larger than the file"):
        read_archive(io.BytesIO(archive_of(members, compression=zipfile.ZIP_DEFLATED)))


def test_one_array_many_times__raises_an_error():
    """Many entries of the archive's directory share one array."""
    body = bytearray(archive_of({"a.npy": as_npy(np.zeros(10_000)), "b.npy": NUMBERS, "state.json": "1"}))
    for entry in range(1, 3):
        at = [i for i in range(len(body)) if body[i : i + 4] == b"PK\x01\x02"][entry]
        body[at + 20 : at + 28] = (80_128).to_bytes(4, "little") * 2
        body[at + 42 : at + 46] = bytes(4)
    with pytest.raises(ArchiveError, match="its contents are larger than the file"):
        read_archive(io.BytesIO(bytes(body)))


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_arrays_of_one_name__raise_an_error():
    room = io.BytesIO()
    with zipfile.ZipFile(room, "w") as archive:
        for name, content in (("a.npy", NUMBERS), ("a.npy", NUMBERS), ("state.json", TEXT)):
            archive.writestr(name, content)
    with pytest.raises(ArchiveError, match="two arrays have the same name"):
        read_archive(room)


def test_bytes_of_any_kind__are_rejected_or_read():
    """Flip bits of an archive outside its arrays: reading may only raise ArchiveError."""
    whole, dice = archive_of({"state.json": TEXT, "a.npy": NUMBERS}), np.random.default_rng(0)
    for _ in range(2000):
        body = bytearray(whole)
        for place in dice.integers(0, len(body), dice.integers(1, 4)):
            body[place] ^= 1 << dice.integers(8)
        try:
            tree = read_archive(io.BytesIO(bytes(body)))
        except ArchiveError:
            continue
        same(tree, {"a": np.arange(3.0)})
