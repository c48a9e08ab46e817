"""Crafted or changed checkpoints: nothing in them is executed, and invalid states raise an error."""

from __future__ import annotations

import hashlib
import json
import pickle
import random
import struct

import numpy as np
import pytest
from checkpoints import as_npy, at, from_npy, parts_of, places_in, write_body, write_parts
from conftest import JIT, gaussian
from scipy import sparse

import rowsolve
from rowsolve.checkpoint import file as checkpoint_file

N, P = (400, 12) if JIT else (200, 6)
A, b, X = gaussian(N, P)
NOISY = gaussian(N, P, noise=0.05)[1]
MEMORY = 60_000 if JIT else 30_000
SPARSE = sparse.csr_array(A * (np.random.default_rng(5).random(A.shape) < 0.3))
TWO = np.column_stack([b, NOISY])
ALIKE = np.column_stack([A[:, :-1], A[:, 0] + 1e-9 * A[:, -1]])
WILD = b.copy()
WILD[::25] += 50.0
BOUNDS = {"bounds": (0.0, 0.5), "rtol": 0.0}
SOLVES = {
    "block, stored": (A, b, "block", {"memory": MEMORY}),
    "cyclic": (A, b, "cyclic", {}),
    "randomized": (A, b, "randomized", {}),
    "uniform, memory": (A, b, rowsolve.Randomized("uniform", replace=False, n_directions=2), {}),
    "greedy": (A, b, "greedy", {}),
    "quantile, stored": (A, b, "quantile", {"memory": MEMORY}),
    "jl": (A, b, "jl", {}),
    "cluster-jl, sparse": (SPARSE, SPARSE @ X, "cluster-jl", {}),
    "cluster-block": (A, b, "cluster-block", {}),
    "paving": (A, b, rowsolve.Paving("incoherent"), {}),
    "accelerated-block": (A, b, rowsolve.AcceleratedBlock(5), {}),
    "extended": (A, b, "extended", {}),
    "deflated": (A, b, "deflated", {}),
    "averaged, two": (A, TWO, "randomized", {"max_passes": 60}),
    "refined, two, stored": (A, TWO, rowsolve.Refined("none"), {"memory": MEMORY * 2}),
    "refined, sample": (A, NOISY, rowsolve.Refined("sample"), {"rtol": 1e-13}),
    "refined, compressed": (A, NOISY, rowsolve.Refined("all"), {"memory": MEMORY}),
    "bounds": (A, NOISY, rowsolve.Refined("none"), BOUNDS),
    "bounds, compressed": (A, NOISY, rowsolve.Refined("all"), {**BOUNDS, "memory": MEMORY}),
    "bounds, triangle": (ALIKE, NOISY, rowsolve.Refined("all"), {**BOUNDS, "memory": MEMORY}),
    "auto": (A, NOISY, "auto", {"memory": MEMORY}),
    "auto, wild": (A, WILD, "auto", {"outliers": "drop"}),
}
WHOLE = ("auto", "auto, wild", "averaged, two", "bounds")  # the states of the others differ only in what is in run.loop
DAMAGED = "state: is damaged or not a checkpoint of rowsolve"


class Crafted:
    """A solve and its states; everything that the callback got is recorded."""

    def __init__(self, path, what, monkeypatch):
        self.path, self.what, self._patch = path, what, monkeypatch
        *self.args, more = SOLVES[what]
        self.options = {"rng": 0, "rtol": 1e-9, "threads": 1, "max_passes": 30, **more}
        monkeypatch.setattr(checkpoint_file, "CHECKPOINT_SHARE", 1e9)
        self.states = self._states()

    def _states(self):
        """Return the first state, one in the middle, and the last, as fingerprints and archives."""
        found = []

        def look(event):
            if self.path.exists():
                found.append(parts_of(self.path))

        self._patch.setenv("ROWSOLVE_CHECKPOINT_SECONDS", "0")
        rowsolve.solve(*self.args, checkpoint=self.path, callback=look, **self.options)
        self._patch.setenv("ROWSOLVE_CHECKPOINT_SECONDS", "1000")
        assert found
        return [found[0], found[len(found) // 2], found[-1]]

    def resume(self):
        told = []
        try:
            return rowsolve.solve(*self.args, checkpoint=self.path, resume=True, callback=told.append, **self.options)
        finally:
            assert all(type(event) is rowsolve.Event for event in told)

    def places(self, tree):
        """Yield the places to change: of a list the first entry, and what all solves have in common in a few only."""
        for place in places_in(tree):
            if place[-1] == "others":  # what somebody's own plan may have besides
                continue
            if any(key for key in place if isinstance(key, int)):
                continue
            if self.what in WHOLE or place[:2] == ("run", "loop"):
                yield place

    def refuses(self, fingerprint, members):
        write_parts(self.path, fingerprint, members)
        with pytest.raises(ValueError, match=DAMAGED):
            self.resume()


@pytest.fixture
def crafted(request, tmp_path, monkeypatch):
    return Crafted(tmp_path / "state", request.param, monkeypatch)


def evil_pickle(argument):
    """Return a pickle that calls the object registered as "callback"."""
    name, text = (pickle.BINUNICODE + struct.pack("<I", len(each)) + each for each in (b"callback", argument.encode()))
    return pickle.PROTO + b"\4" + name + pickle.BINPERSID + text + pickle.TUPLE1 + pickle.REDUCE + pickle.STOP


@pytest.mark.parametrize("crafted", ["cyclic"], indirect=True)
def test_callback__is_never_called_by_a_checkpoint(crafted):
    """In an early version the state was a pickle, which could call the callback."""
    fingerprint, members = crafted.states[0]
    body = evil_pickle("x")
    head = {"fingerprint": fingerprint, "place": [None], "bytes": len(body)}
    head["sha256"] = hashlib.sha256(json.dumps([fingerprint, [None]]).encode() + body).hexdigest()
    crafted.path.write_bytes(f"rowsolve checkpoint 1 {json.dumps(head)}\n".encode() + body)
    with pytest.raises(ValueError, match=r"is a checkpoint of an older version of rowsolve\. Remove it to start over"):
        crafted.resume()
    write_body(crafted.path, fingerprint, body)
    with pytest.raises(ValueError, match=DAMAGED):
        crafted.resume()
    for name in members:
        crafted.refuses(fingerprint, {**members, name: body})


@pytest.mark.parametrize("crafted", ["cyclic"], indirect=True)
def test_first_line__is_checked(crafted):
    whole = crafted.path.read_bytes()
    line, _, body = whole.partition(b"\n")
    head = json.loads(line.split(b" ", 3)[3])
    for text, words in (
        ("rowsolve checkpoint 3 {}", "is a checkpoint of a newer version of rowsolve. Remove it to start over"),
        ("rowsolve checkpoint 2 {}", DAMAGED),
        ("rowsolve checkpoint 2 []", DAMAGED),
        ("rowsolve checkpoint 2 {", DAMAGED),
        ("rowsolve checkpoint 2 " + '{"a":' * 50_000 + "1" + "}" * 50_000, DAMAGED),
        ("rowsolve checkpoint 2 " + json.dumps({**head, "more": 1}), DAMAGED),
        ("rowsolve checkpoint 2 " + json.dumps({**head, "fingerprint": [1]}), DAMAGED),
        ("rowsolve checkpoint 2 " + json.dumps({**head, "bytes": None}), DAMAGED),
        ("rowsolve checkpoint 2 " + json.dumps({**head, "sha256": 1}), DAMAGED),
        ("precious", DAMAGED),
    ):
        crafted.path.write_bytes(text.encode() + b"\n" + body)
        with pytest.raises(ValueError, match=words):
            crafted.resume()
    crafted.path.write_bytes(whole)
    assert crafted.resume().converged


@pytest.mark.parametrize("crafted", SOLVES, indirect=True)
def test_every_part_of_a_state__must_be_there_and_of_its_kind(crafted):
    fingerprint, members = crafted.states[1]
    for place in crafted.places(json.loads(members["state.json"])):
        tree = json.loads(members["state.json"])
        within, key = at(tree, place[:-1]), place[-1]
        within[key] = {"another": 1}
        crafted.refuses(fingerprint, {**members, "state.json": json.dumps(tree)})
        if isinstance(within, dict) and key != "preconditioner":  # a parameter of a method, which has a default
            within.pop(key)
            crafted.refuses(fingerprint, {**members, "state.json": json.dumps(tree)})
            within = at(tree := json.loads(members["state.json"]), place[:-1])
            if key == next(iter(within)):
                within["another"] = 1
                crafted.refuses(fingerprint, {**members, "state.json": json.dumps(tree)})


@pytest.mark.parametrize("crafted", SOLVES, indirect=True)
def test_every_array_of_a_state__must_be_of_its_type_and_shape(crafted):
    fingerprint, members = crafted.states[1]
    for name in members.keys() - {"state.json"}:
        if crafted.what not in WHOLE and not name.startswith("run.loop."):
            continue
        array = from_npy(members[name])
        with np.errstate(invalid="ignore"):
            other = array.astype({"f": np.int32, "U": "S9"}.get(array.dtype.kind, np.float32))
        for changed in (array[None], array[..., None], other):
            crafted.refuses(fingerprint, {**members, name: as_npy(changed)})
        rest = {key: value for key, value in members.items() if key != name}
        crafted.refuses(fingerprint, rest)
        crafted.refuses(fingerprint, {**rest, f"x{name}": members[name]})


@pytest.mark.parametrize("crafted", SOLVES, indirect=True)
def test_rows_that_a_does_not_have__raise_an_error(crafted):
    """Compiled code would read or write out of range."""
    places = (
        "cards",
        "drawn",
        "members",
        "other",
        "partition.0",
        "so_far.rows",
        "columns",
        "places",
        "flagged_rows",
        "off",
    )
    for fingerprint, members in crafted.states:
        for name in members:
            array = from_npy(members[name]) if name != "state.json" else np.empty(0)
            if array.dtype == np.int64 and array.size and name.removesuffix(".npy").endswith(places):
                array.flat[array.size // 2] = 10**12
                crafted.refuses(fingerprint, {**members, name: as_npy(array)})


NUMBERS = [0, -1, 1, 2**31, 2**62, -(2**62), 10**40, 0.0, 1e308, -1e308, 1e-308, np.nan, np.inf, True, None, "x"]


def changed(members, dice):
    """Return the files of an archive with a plausible change."""
    members, tree = dict(members), json.loads(members["state.json"])
    names = sorted(members.keys() - {"state.json"})
    name, other = dice.sample(names, 2)
    array = from_npy(members[name]).copy()
    match dice.choice(["leaf", "number", "number", "numbers", "swap", "order", "shorter", "bit"]):
        case "leaf":
            place = dice.choice(list(places_in(tree)))
            at(tree, place[:-1])[place[-1]] = dice.choice(NUMBERS)
            members["state.json"] = json.dumps(tree)
        case "number" | "numbers" as how if array.size and array.dtype.kind in "fi":
            limits = np.iinfo(array.dtype) if array.dtype.kind == "i" else np.finfo(array.dtype)
            values = [0, -1, 1, array.size % 100, limits.max, limits.min]
            values += [np.nan, np.inf, 1e-300, 1e160] if array.dtype == float else []
            array.flat[slice(None) if how == "numbers" else dice.randrange(array.size)] = dice.choice(values)
            members[name] = as_npy(array)
        case "swap":
            members[name], members[other] = members[other], members[name]
        case "order":
            members[name] = as_npy(np.asfortranarray(array))
        case "shorter" if array.ndim:
            members[name] = as_npy(array[: len(array) // 2])
        case _:
            name = dice.choice([name, "state.json"])
            content = bytearray(members[name])
            content[dice.randrange(len(content))] ^= 1 << dice.randrange(8)
            members[name] = bytes(content)
    return members


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of numbers that overflow
@pytest.mark.parametrize("crafted", SOLVES, indirect=True)
def test_changed_state__ends_in_a_solution_or_a_value_error(crafted, request):
    dice = random.Random(request.node.name)
    for _ in range(40):
        fingerprint, members = dice.choice(crafted.states)
        write_parts(crafted.path, fingerprint, changed(members, dice))
        try:
            solution = crafted.resume()
        except ValueError:
            continue
        assert solution.x.shape == X.shape + crafted.args[1].shape[1:]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("crafted", ["accelerated-block"], indirect=True)
def test_invalid_numbers__are_reported_with_the_file(crafted):
    fingerprint, members = crafted.states[1]
    tree = json.loads(members["state.json"])
    tree["run"]["loop"]["plan"]["momentum"]["friction"] = 1e-320
    tree["run"]["loop"]["plan"]["momentum"]["window"] = 1
    tree["run"]["loop"]["plan"]["momentum"]["earlier"] = [0.0, 1]
    write_parts(crafted.path, fingerprint, {**members, "state.json": json.dumps(tree)})
    with pytest.raises(ValueError, match=rf"{DAMAGED} \(its numbers are invalid: cannot convert float infinity"):
        crafted.resume()


@pytest.mark.parametrize("crafted", ["cyclic"], indirect=True)
def test_errors_of_the_callback__are_its_own(crafted):
    def fail(event):
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        rowsolve.solve(*crafted.args, checkpoint=crafted.path, resume=True, callback=fail, **crafted.options)


@pytest.mark.parametrize("crafted", ["cyclic"], indirect=True)
@pytest.mark.parametrize(
    "name", ["__class__", "system", "project", "continue_from", "restore", "seems_consistent", "directions"]
)
def test_saved_attributes__that_determine_others_cannot_be_changed(crafted, name):
    fingerprint, members = crafted.states[0]
    tree = json.loads(members["state.json"])
    tree["run"]["loop"]["plan"]["others"] = {name: 1}
    crafted.refuses(fingerprint, {**members, "state.json": json.dumps(tree)})


@pytest.mark.parametrize("crafted", ["auto"], indirect=True)
@pytest.mark.parametrize(
    "method",
    [
        {"name": "cyclic"}, {"name": "refined", "preconditioner": "x"}, {"name": "refined", "more": "x"}, {},
        {"name": "deflated", "memory": 10**9}, {"name": "direct"}, {"name": "randomized"}, "refined", None,
    ],
)  # fmt: skip
def test_another_stage__raises_an_error(crafted, method):
    fingerprint, members = crafted.states[0]
    tree = json.loads(members["state.json"])
    tree["auto"]["choice"]["method"] = method
    crafted.refuses(fingerprint, {**members, "state.json": json.dumps(tree)})
