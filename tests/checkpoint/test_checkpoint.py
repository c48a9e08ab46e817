"""Checkpoints: a resumed solve gives the same bits; a damaged file or that of another solve raises an error."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from checkpoints import state_in
from conftest import JIT, gaussian
from scipy import sparse

import rowsolve
from rowsolve import METHODS, Status
from rowsolve.checkpoint import file as checkpoint_file
from rowsolve.export import output
from rowsolve.methods.base import Plan, RowMethod
from rowsolve.methods.oblivious import sweep_rows

N, P = (2000, 40) if JIT else (600, 12)
A, b, X = gaussian(N, P)
NOISY = gaussian(N, P, noise=0.05)[1]
MEMORY = 400_000 if JIT else 100_000
WIDE, b_of_wide, _ = gaussian(2000 if JIT else 600, 80 if JIT else 50)  # a sketch of its rows is smaller
ENOUGH_FOR_A_SKETCH = 1_270_000 if JIT else 475_000


@pytest.fixture(autouse=True)
def save_whenever_possible(monkeypatch):
    monkeypatch.setenv("ROWSOLVE_CHECKPOINT_SECONDS", "0")
    monkeypatch.setattr(checkpoint_file, "CHECKPOINT_SHARE", 1e9)


class Enough(Exception):
    pass


def interrupted(after, how, *args, **options):
    """Solve until the callback got `after` events; return whether this was before the end."""
    n_events = 0

    def callback(event):
        nonlocal n_events
        n_events += 1
        if n_events == after:
            if how is bool:
                return True
            raise how
        return False

    try:
        found = rowsolve.solve(*args, callback=callback, **options)
    except Enough:
        return True
    return found.status in (Status.STOPPED, Status.INTERRUPTED)


def same(found, expected):
    np.testing.assert_array_equal(found.x, expected.x)
    assert found.status is expected.status
    assert found.rows_read == expected.rows_read
    assert found.message == expected.message
    np.testing.assert_array_equal(found.error_estimates, expected.error_estimates)
    np.testing.assert_array_equal(found.rows_off, expected.rows_off)
    np.testing.assert_array_equal(found.history.error_estimate, expected.history.error_estimate)
    assert found.history.method == expected.history.method
    assert str(found.row_check) == str(expected.row_check)


def check_resumes(path, args, options, places=(2, 4, 7, 12, 30)):
    """Interrupt a solve several times and resume it from the last file; the result must be the same."""
    expected = rowsolve.solve(*args, **options)
    kept = {**options, "checkpoint": path, "resume": True}
    n_files = 0
    for after, how in zip(places, (Enough, bool, KeyboardInterrupt, Enough, bool), strict=True):
        if interrupted(after, how, *args, **kept):
            n_files += path.exists()
    same(rowsolve.solve(*args, **kept), expected)
    return n_files


@pytest.mark.parametrize(
    ("method", "where"),
    [(name, "memory") for name in METHODS] + [(name, "stored") for name in METHODS if METHODS[name]().can.stored],
)
def test_every_method__resumes_with_the_same_bits(method, where, tmp_path):
    options = {"rng": 0, "threads": 1, "rtol": 1e-9, "max_passes": 60}
    rowsolve.convert(A, tmp_path / "A.h5", chunk=50)
    if where == "stored":
        options["memory"] = MEMORY
    args = (A if where == "memory" else tmp_path / "A.h5", b, method)
    if where == "stored" and method.endswith("jl"):
        args, options["memory"] = (WIDE, b_of_wide, method), ENOUGH_FOR_A_SKETCH
        options["rtol"] = 1e-9 if JIT else 0.1
    n_files = check_resumes(tmp_path / "state", args, options)
    assert n_files or method in ("direct", "refined")  # they are done before there is anything to save


@pytest.mark.parametrize(
    ("what", "more"),
    [
        ("auto", {}),
        ("auto, noisy", {}),
        ("auto, wild", {}),
        ("tail-average, noisy", {"max_passes": 30}),
        ("randomized, noisy", {}),
        ("refined, damp", {"damp": 2.0}),
        ("refined, bounds", {"bounds": (0.0, 0.5)}),
        ("randomized, bounds", {"bounds": (-5.0, 5.0)}),
        ("block, threads", {"threads": 2}),
        ("refined, threads", {"threads": 2}),
        ("randomized, many", {}),
        ("refined, many", {}),
        ("refined, sparse", {}),
        ("randomized, sparse", {}),
        ("refined, full", {"check": "full"}),
        ("quantile, full", {"check": "full"}),
    ],
)
@pytest.mark.parametrize("memory", [None, MEMORY], ids=["memory", "stored"])
def test_every_kind_of_solve__resumes_with_the_same_bits(what, more, memory, tmp_path):
    method, _, kind = what.partition(", ")
    rhs = {"noisy": NOISY, "many": np.column_stack([b, 2 * b, NOISY])}.get(kind, b)
    if kind == "wild":
        rhs = b.copy()
        rhs[[3, 77]] += 50.0
    matrix = sparse.csr_array(A) if kind == "sparse" else A
    memory = 3 * memory if kind in ("sparse", "many") and memory else memory
    check_resumes(
        tmp_path / "state", (matrix, rhs, method), {"rng": 1, "rtol": 1e-9, "threads": 1, "memory": memory, **more}
    )


@pytest.mark.parametrize(
    "method", [rowsolve.Refined("none"), rowsolve.Refined("sample"), rowsolve.Randomized("uniform", n_directions=4)]
)
def test_parameters__are_part_of_the_state(method, tmp_path):
    check_resumes(tmp_path / "state", (A, NOISY, method), {"rng": 1, "rtol": 1e-10, "max_passes": 40})


def test_a_pass__is_gone_on_with_in_its_middle(tmp_path, monkeypatch):
    """A solve killed in the middle of a pass does not read the first half again."""
    events, path = [], tmp_path / "state"
    memory = MEMORY if JIT else 40_000
    options = {"rng": 0, "memory": memory, "checkpoint": path, "resume": True, "threads": 1}

    def stop_in_the_middle(event):
        events.append(event.rows_read)
        if 1.3 < event.passes < 1.9:
            raise Enough

    with pytest.raises(Enough):
        rowsolve.solve(A, NOISY, rowsolve.Refined("none"), callback=stop_in_the_middle, **options)
    before = events[-2]
    del events[:]
    rowsolve.solve(A, NOISY, rowsolve.Refined("none"), callback=lambda event: events.append(event.rows_read), **options)
    assert events[0] == before
    assert before % N
    assert events[1] <= before + 2 * N // 3


def test_a_solve_that_is_done__is_done_again_from_its_last_state(tmp_path):
    options = {"rng": 0, "checkpoint": tmp_path / "state", "resume": True}
    first = rowsolve.solve(A, b, "randomized", **options)
    again = rowsolve.solve(A, b, "randomized", **options)
    same(again, first)
    assert again.seconds >= 0.0


def test_limits_and_callback__may_differ_when_resumed(tmp_path):
    options = {"rng": 0, "rtol": 1e-12, "checkpoint": tmp_path / "state", "resume": True}
    assert rowsolve.solve(A, b, "randomized", max_passes=0.2, **options).status in (Status.MAX_PASSES, Status.SLOW)
    found = rowsolve.solve(A, b, "randomized", max_passes=100, max_seconds=1e6, **options)
    assert found.converged
    assert np.linalg.norm(found.x - X) < 1e-10 * np.linalg.norm(X)


def test_seconds__go_on_from_those_before(tmp_path, clock):
    options = {"rng": 0, "rtol": 1e-9, "checkpoint": tmp_path / "state", "resume": True}

    def slowly(event):
        clock.now += 100.0
        if event.seconds > 150.0:
            raise Enough

    with pytest.raises(Enough):
        rowsolve.solve(A, NOISY, rowsolve.Refined("none"), callback=slowly, **options)
    clock.now += 1000.0
    assert 100.0 < rowsolve.solve(A, NOISY, rowsolve.Refined("none"), **options).seconds < 300.0


def test_file_that_is_there__is_not_overwritten_unasked(tmp_path):
    (tmp_path / "state").write_text("precious")
    with pytest.raises(FileExistsError, match=r"state: exists already\. Try resume=True \(--resume\) to resume"):
        rowsolve.solve(A, b, checkpoint=tmp_path / "state")
    assert (tmp_path / "state").read_text() == "precious"
    with pytest.raises(ValueError, match="`resume` requires `checkpoint`"):
        rowsolve.solve(A, b, resume=True)
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        rowsolve.solve(A, b, checkpoint=tmp_path / "nowhere" / "state")


def one_changed(values, at):
    values = values.copy()
    values[at] += 1.0
    return values


OTHERS = {
    "b": {"b": one_changed(b, 5)},
    "A": {"A": one_changed(A, (N // 3, 2))},
    "A ": {"A": A.astype(np.float32)},
    "rtol, atol": {"rtol": 1e-8},
    "method": {"method": rowsolve.Block(5)},
    "rng": {"rng": 2},
    "check": {"check": "full"},
    "threads": {"threads": 2},
    "x0": {"x0": np.ones(P)},
    "bounds": {"bounds": (-9, 9)},
    "memory": {"memory": 10**9},
}


@pytest.mark.parametrize("key", OTHERS)
def test_another_solve__raises_an_error_that_says_what_differs(key, tmp_path):
    path = tmp_path / "state"
    same_as = {"A": A, "b": b, "method": "block", "rtol": 1e-9, "rng": 1, "threads": 1, "checkpoint": path}
    assert interrupted(4, Enough, **same_as)
    whole = path.read_bytes()
    with pytest.raises(
        ValueError, match=rf"state: is the checkpoint of another solve, with different [\w, ]*{key.strip()}\b"
    ):
        rowsolve.solve(**same_as | OTHERS[key] | {"resume": True})
    assert path.read_bytes() == whole
    assert rowsolve.solve(**same_as, resume=True).converged


@pytest.mark.parametrize("kind", [np.asarray, np.asfortranarray, np.float32, sparse.csr_array, lambda A: A[::-1, ::-1]])
def test_an_array_with_one_number_changed__raises_an_error_wherever_that_is(kind, tmp_path):
    """A change outside the 64 rows that are compared is detected too."""
    remembered = np.linspace(0, N - 1, 64).astype(int)
    row = next(row for row in range(N // 2, N) if row not in remembered)
    options = {"method": "block", "rng": 0, "rtol": 1e-9, "checkpoint": tmp_path / "state", "threads": 1}
    assert interrupted(2, Enough, kind(A), b, **options)
    with pytest.raises(ValueError, match="state: is the checkpoint of another solve, with different A"):
        rowsolve.solve(kind(one_changed(A, (row, 2))), b, resume=True, **options)


@pytest.mark.parametrize("memory", [None, MEMORY], ids=["memory", "stored"])
def test_rows_and_bytes__are_those_of_a_solve_without_a_checkpoint(memory, tmp_path):
    """The checksum of A is not counted; the 64 rows read from a file are counted in bytes."""
    np.save(tmp_path / "A.npy", A)
    args, options = (tmp_path / "A.npy", b, "block"), {"rng": 0, "memory": memory, "threads": 1}
    plain, kept = rowsolve.solve(*args, **options), rowsolve.solve(*args, checkpoint=tmp_path / "state", **options)
    assert kept.rows_read == plain.rows_read
    assert kept.bytes_read == plain.bytes_read + (64 * 8 * P if memory else 0)


@pytest.mark.parametrize("ending", ["npy", "h5", "zarr", "csv", "parquet"])
@pytest.mark.parametrize("memory", [None, MEMORY])
def test_a_file_with_one_number_changed__raises_an_error(ending, memory, tmp_path, monkeypatch):
    monkeypatch.setattr("rowsolve.sources.text.BLOCK_BYTES", 4096)
    file, state = tmp_path / f"A.{ending}", tmp_path / "state"
    chunk = None if ending in ("npy", "csv") else 50
    rowsolve.convert(A, file, chunk=chunk)
    options = {"method": "block", "rng": 0, "rtol": 1e-9, "checkpoint": state, "memory": memory, "threads": 1}
    assert interrupted(2, Enough, file, b, **options)
    time.sleep(0.02)
    rowsolve.convert(one_changed(A, (N // 3, 2)), file, chunk=chunk, force=True)
    with pytest.raises(ValueError, match="state: is the checkpoint of another solve, with different A"):
        rowsolve.solve(file, b, resume=True, **options)


def test_zarr__with_one_chunk_written_anew_raises_an_error(tmp_path):
    import zarr

    rowsolve.convert(A, tmp_path / "A.zarr", chunk=50)
    options = {
        "method": "block",
        "rng": 0,
        "checkpoint": tmp_path / "state",
        "memory": MEMORY,
        "rtol": 1e-9,
        "threads": 1,
    }
    assert interrupted(4, Enough, tmp_path / "A.zarr", b, **options)
    time.sleep(0.02)
    zarr.open(str(tmp_path / "A.zarr"))["A"][101, 3] = 7.0
    with pytest.raises(ValueError, match="another solve, with different A"):
        rowsolve.solve(tmp_path / "A.zarr", b, resume=True, **options)


@pytest.mark.compiled
def test_free_memory__may_change_before_it_is_resumed(tmp_path, monkeypatch):
    rowsolve.convert(A, tmp_path / "A.h5", chunk=50)
    args, options = (
        (tmp_path / "A.h5", b, "block"),
        {"rng": 0, "rtol": 1e-9, "checkpoint": tmp_path / "state", "threads": 1},
    )
    monkeypatch.setattr("rowsolve._validate.free_memory", lambda: 1.51234 * A.nbytes)
    assert interrupted(5, Enough, *args, **options)
    monkeypatch.setattr("rowsolve._validate.free_memory", lambda: 1e12)
    assert rowsolve.solve(*args, resume=True, **options).converged


@pytest.fixture
def state(tmp_path):
    path = tmp_path / "state"
    assert interrupted(5, Enough, A, b, "block", rng=0, rtol=1e-9, memory=MEMORY, threads=1, checkpoint=path)
    return path


def resume(path, **more):
    return rowsolve.solve(
        A, b, "block", rng=0, rtol=1e-9, memory=MEMORY, threads=1, checkpoint=path, resume=True, **more
    )


def test_damage_anywhere__is_reported(state):
    whole, dice = state.read_bytes(), np.random.default_rng(0)
    end = whole.index(b"\n")
    places = [*range(0, end + 2, 7), *dice.integers(end, len(whole), 20), len(whole) - 1]
    for place in places:
        for bit in (1, 64):
            state.write_bytes(whole[:place] + bytes([whole[place] ^ bit]) + whole[place + 1 :])
            with pytest.raises(ValueError, match=r"state: is (a checkpoint of a newer version|damaged or not a ch)"):
                resume(state)
    for length in (0, 1, 30, end, end + 1, len(whole) // 2, len(whole) - 1):
        state.write_bytes(whole[:length])
        with pytest.raises(ValueError, match=r"state: is damaged or not a checkpoint of rowsolve .*\. Remove it to"):
            resume(state)
    state.write_bytes(whole + b"x")
    with pytest.raises(ValueError, match="state: is damaged"):
        resume(state)
    state.write_bytes(whole)
    assert resume(state).converged


def fail_from(n_good, monkeypatch):
    """Make the disk full after a number of files."""
    replace, count = output._replace, [0]

    def replace_while_there_is_room(place, part):
        count[0] += 1
        if count[0] > n_good:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        replace(place, part)

    monkeypatch.setattr(output, "_replace", replace_while_there_is_room)


def test_a_full_disk__is_reported_and_the_last_good_file_is_kept(tmp_path, monkeypatch):
    path, args, options = tmp_path / "state", (A, b, "block"), {"rng": 0, "rtol": 1e-9, "threads": 1}
    expected = rowsolve.solve(*args, **options)
    for n_good, words in ((0, "there is no previous one"), (2, "the previous one is kept")):
        with monkeypatch.context() as patch:
            fail_from(n_good, patch)
            with pytest.warns(RuntimeWarning, match=f"checkpoint could not be written, {words}"):
                found = rowsolve.solve(*args, checkpoint=path, **options)
        np.testing.assert_array_equal(found.x, expected.x)
        assert f"The last checkpoint could not be written, {words}: " in found.message
        assert "No space left on device" in found.message
        assert [file.name for file in tmp_path.iterdir()] == (["state"] if n_good else [])
    same(rowsolve.solve(*args, checkpoint=path, resume=True, **options), expected)


def test_a_full_disk__that_has_space_again_resets_the_warning(tmp_path, monkeypatch):
    replace, count = output._replace, [0]

    def fail_once(place, part):
        count[0] += 1
        if count[0] == 2:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        replace(place, part)

    monkeypatch.setattr(output, "_replace", fail_once)
    with pytest.warns(RuntimeWarning, match="No space left"):
        found = rowsolve.solve(A, b, "block", rng=0, rtol=1e-9, checkpoint=tmp_path / "state")
    assert count[0] > 2
    assert "checkpoint" not in found.message


@dataclass(frozen=True)
class Mine(rowsolve.Randomized):
    """A user's own method."""


KEPT = {"nothing": None, "array": np.arange(3), "function": len, "list": [object()], "objects": np.array([None])}


class Own(Plan):
    """A user's own plan: its numbers, text and arrays are saved."""

    seen, counts = 0, np.zeros(2)

    def __init__(self, system, order):
        super().__init__(system)
        self.order, self.place, self.label, self.sizes = order, 0, "x", [1, 2.5, None]


@dataclass(frozen=True)
class InOneOrder(RowMethod):
    """Rows in one random order, repeatedly."""

    name: ClassVar[str] = "in one order"
    what: str = "nothing"

    def prepare(self, system, rng):
        plan = Own(system, rng.permutation(system.n_rows))
        plan.kept = KEPT[self.what]
        return plan

    def advance(self, plan, iterates, n_rows, rng, drops):
        order = plan.order[(plan.place + np.arange(n_rows)) % plan.order.size]
        plan.place, plan.seen = (plan.place + n_rows) % plan.order.size, plan.seen + n_rows
        plan.counts = plan.counts + 1.0
        assert (plan.label, plan.sizes) == ("x", [1, 2.5, None])
        drops[:] = 0.0
        sweep_rows(plan.system, order, iterates, drops)
        return order


@pytest.mark.parametrize("memory", [None, MEMORY], ids=["memory", "stored"])
@pytest.mark.parametrize("method", [Mine(), InOneOrder(), InOneOrder("array")], ids=["as it is", "own", "array"])
def test_methods_of_others__can_be_saved(method, memory, tmp_path):
    assert check_resumes(tmp_path / "state", (A, b, method), {"rng": 0, "rtol": 1e-9, "memory": memory})


def test_plan_that_others_prepare__is_filled_with_what_it_was(tmp_path):
    options = {"rng": 0, "rtol": 1e-9, "checkpoint": tmp_path / "state"}
    assert interrupted(4, Enough, A, b, InOneOrder(), **options)
    state = state_in(tmp_path / "state")["run"]["loop"]["plan"]
    assert sorted(state["others"]) == ["counts", "kept", "label", "order", "place", "seen", "sizes"]
    assert state["others"]["seen"] > 0


class Unfit(rowsolve.Randomized):
    def prepare(self, system, rng):
        plan = super().prepare(system, rng)
        plan.__class__ = type("Better", (type(plan),), {})
        return plan


@pytest.mark.parametrize(
    ("method", "words"),
    [
        (
            InOneOrder("function"),
            "the plan has `kept`, a builtin_function_or_method: only numbers, text and arrays can",
        ),
        (InOneOrder("list"), "the plan has `kept`, a list: only numbers"),
        (InOneOrder("objects"), "kept is an array of object, which cannot be saved"),
        (Unfit(), "Unfit makes Better objects instead of _Plan: set its `plan_type` to None"),
    ],
)
def test_methods_of_others_that_cannot_be_saved__are_reported(method, words, tmp_path):
    with pytest.warns(RuntimeWarning, match=f"checkpoint could not be written, there is no previous one: .*{words}"):
        found = rowsolve.solve(A, b, method, rng=0, checkpoint=tmp_path / "state")
    assert found.converged
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize("method", sorted(METHODS))
def test_our_own_plans__say_how_to_save_all_that_they_have(method, tmp_path):
    """Attributes that are not named would be saved too, but not checked when they are read."""
    interrupted(6, Enough, A, b, method, rng=0, rtol=1e-9, checkpoint=tmp_path / "state")
    if (tmp_path / "state").exists():
        plan = state_in(tmp_path / "state")["run"]["loop"]["plan"]
        assert plan is None or plan["others"] == {}


def states_on_the_way(path, args, options, most=8):
    """Solve, and return some of the checkpoints written during the solve, and the solution."""
    found = []

    def look(event):
        if path.exists() and path.read_bytes() not in found[-1:]:
            found.append(path.read_bytes())

    solution = rowsolve.solve(*args, checkpoint=path, callback=look, **options)
    return [found[i] for i in np.unique(np.linspace(0, len(found) - 1, most).astype(int))] if found else [], solution


def check_states(path, args, options, expected_parts=()):
    """Resume from one state after another; each of `expected_parts` must occur in one of them."""
    states, expected = states_on_the_way(path, args, options)
    assert states
    same(rowsolve.solve(*args, check_finite=False, **options), expected)  # with a checkpoint all of A is looked at
    missing = list(expected_parts)
    for state in states:
        path.write_bytes(state)
        tree = state_in(path)
        missing = [part for part in missing if not _has(tree, part)]
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("ROWSOLVE_CHECKPOINT_SECONDS", "1000")
            same(rowsolve.solve(*args, checkpoint=path, resume=True, **options), expected)
    assert not missing


def _has(tree, part):
    for key in part.split("."):
        tree = tree.get(key) if isinstance(tree, dict) else None
    return tree is not None


SPARSE = sparse.csr_array(A * (np.random.default_rng(5).random(A.shape) < 0.3))
TWO = np.column_stack([b, NOISY])
ALIKE = np.column_stack([A[:, :-1], A[:, 0] + 1e-9 * A[:, -1]])
DEPENDENT = np.column_stack([A, A[:, 0] + A[:, 1]])
WILD = b.copy()
WILD[::25] += 50.0
STATES = {
    "wild rows": (A, WILD, "auto", {"rtol": 1e-9, "outliers": "drop"}, ["auto.outlier_search"]),
    "compressed": (A, NOISY, rowsolve.Refined("all"), {"memory": MEMORY}, ["run.loop.all_rows"]),
    "sparse, several, gradients": (SPARSE, TWO, rowsolve.Refined("none"), {}, ["run.loop.descent"]),
    "sparse, several, rows": (SPARSE, SPARSE @ np.column_stack([X, 2 * X]), "block", {}, []),
    "sparse, known equations": (SPARSE, SPARSE @ X, "deflated", {}, []),
    "sparse, sketched": (SPARSE, SPARSE @ X, "cluster-jl", {}, []),
    "bounds, without a factor": (
        A,
        NOISY,
        rowsolve.Refined("none"),
        {"bounds": (0.0, 0.5)},
        ["run.loop.descent"],
    ),
    "bounds, compressed": (
        A,
        NOISY,
        rowsolve.Refined("all"),
        {"bounds": (0.0, 0.5), "memory": MEMORY},
        ["run.loop.all_rows.state_so_far.gram"],
    ),
    "bounds, triangle": (
        ALIKE,
        NOISY,
        rowsolve.Refined("all"),
        {"bounds": (0.0, 0.5), "memory": MEMORY},
        ["run.loop.all_rows.state_so_far.triangle"],
    ),
    "sample": (A, NOISY, rowsolve.Refined("sample"), {"rtol": 1e-12}, ["run.loop.descent.factor._triangle"]),
    "dependent": (DEPENDENT, NOISY, rowsolve.Refined("sample"), {"rtol": 0.0}, ["run.loop.descent.factor._rows"]),
    "mixed rows": (A, b, rowsolve.Paving("incoherent"), {}, ["run.loop.plan.mixed"]),
    "within clusters": (A, b, rowsolve.ClusterBlock(3, pairing="within", block_size=5), {}, []),
    "refreshed": (A, b, rowsolve.JL(reference="refresh"), {"max_passes": 200}, ["run.loop.plan.steps_to_refresh"]),
    "odd blocks": (A, b, rowsolve.AcceleratedBlock(7), {}, []),
    "memory of several": (A, TWO, rowsolve.Block(3, n_directions=3), {}, ["run.loop.plan.directions"]),
    "averaged": (A, TWO, "randomized", {"max_passes": 40}, ["run.loop.averaging"]),
    "x0": (A, NOISY, rowsolve.Refined("none"), {"x0": np.ones(P)}, []),
}


@pytest.mark.parametrize("what", STATES)
def test_every_state__resumes_with_the_same_bits(what, tmp_path, monkeypatch):
    *args, more, parts = STATES[what]
    check_states(tmp_path / "state", args, {"rng": 2, "rtol": 1e-9, "threads": 1, "max_passes": 60, **more}, parts)


def test_search_for_outliers__keeps_to_its_own_limit(tmp_path, monkeypatch):
    monkeypatch.setattr("rowsolve.engine.outliers.ROWS_TO_LEAVE_OUT", 20 if JIT else 6)
    args, options = (A, WILD, "auto"), {"rng": 2, "rtol": 1e-9, "threads": 1, "outliers": "drop"}
    assert "stopped early" in rowsolve.solve(*args, **options).message
    check_states(tmp_path / "state", args, options, ["auto.outlier_search"])


def test_blocks_without_room_for_their_factors__go_on(tmp_path, monkeypatch):
    monkeypatch.setattr("rowsolve.methods.accelerated_block.GATHERED", 0)
    path, options = tmp_path / "state", {"rng": 2, "rtol": 1e-9, "threads": 1, "max_passes": 60}
    check_states(path, (SPARSE, SPARSE @ X, rowsolve.AcceleratedBlock(P // 2)), options)
    kept = state_in(path)["run"]["loop"]["plan"]["drawn_so_far"]["kept"]
    assert kept.any()
    assert not kept.all()


@pytest.mark.parametrize("kind", ["PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64"])
def test_generator_of_the_caller__is_that_of_the_file_when_it_is_resumed(kind, tmp_path):
    def generator():
        return np.random.Generator(getattr(np.random, kind)(4))

    options = {"rtol": 1e-9, "threads": 1}
    expected = rowsolve.solve(A, b, "randomized", rng=generator(), **options)
    options |= {"checkpoint": tmp_path / "state", "resume": True}
    assert interrupted(4, Enough, A, b, "randomized", rng=generator(), **options)
    same(rowsolve.solve(A, b, "randomized", rng=np.random.default_rng(99), **options), expected)


SHARING, of_sharing, _ = gaussian(12_000, 800) if JIT else (A, b, X)
SHARING = SHARING + np.random.default_rng(1).standard_normal(SHARING.shape[1])
WIDEST, of_widest, _ = gaussian(1500, 1000) if JIT else (A, b, X)


@pytest.mark.compiled
@pytest.mark.skipif(not JIT, reason="needs large systems")
@pytest.mark.parametrize(
    ("args", "more", "parts"),
    [
        ((SHARING, of_sharing, "refined"), {}, ["run.loop.descent.outliers", "context.spectrum.common_directions"]),
        (
            (SHARING, SHARING @ np.ones(SHARING.shape[1]), rowsolve.Deflated("rows")),
            {},
            ["context.spectrum.common_directions"],
        ),
        ((WIDEST, of_widest, "block"), {"threads": 2, "max_passes": 10}, ["run.loop.plan"]),
    ],
    ids=["outliers", "shared", "chains"],
)
def test_every_state_of_a_large_system__resumes_with_the_same_bits(args, more, parts, tmp_path):
    check_states(tmp_path / "state", args, {"rng": 2, "rtol": 1e-9, "threads": 1, **more}, parts)


@pytest.mark.compiled
@pytest.mark.skipif(not JIT, reason="needs large systems")
def test_outliers_of_several_right_hand_sides__resume_with_the_same_bits(tmp_path, monkeypatch):
    monkeypatch.setattr("rowsolve.policy.least_squares.gram", lambda n, p: np.inf)  # as if there were more columns
    args = SHARING, np.column_stack([of_sharing, -of_sharing]), "refined"
    check_states(tmp_path / "state", args, {"rng": 2, "rtol": 1e-9, "threads": 1}, ["run.loop.descent.outliers"])


def test_size__is_that_of_the_state_not_of_the_rows(tmp_path):
    rowsolve.convert(A, tmp_path / "A.h5", chunk=50)
    for method in ("randomized", "block", "deflated", "greedy", rowsolve.Refined("none")):
        path = tmp_path / f"state of {method}"
        options = {"rng": 0, "memory": MEMORY, "threads": 1, "checkpoint": path, "max_passes": 20}
        rowsolve.solve(tmp_path / "A.h5", NOISY, method, **options)
        assert path.stat().st_size < A.nbytes / 4 + 30_000


def test_interval_between_checkpoints__is_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("ROWSOLVE_CHECKPOINT_SECONDS", "1000")
    rowsolve.solve(A, b, "block", rng=0, checkpoint=tmp_path / "state")
    assert not (tmp_path / "state").exists()


SCRIPT = """
import os, signal, sys, threading, time
import numpy as np, rowsolve
from rowsolve.checkpoint import file as checkpoint_file
checkpoint_file.CHECKPOINT_SHARE = 1e9
folder, where, method, memory, kill_after = sys.argv[1:]
killer = threading.Timer(float(kill_after), os.kill, (os.getpid(), signal.SIGKILL))

def slowly(event):
    if float(kill_after) < 1.0 and os.path.exists(f"{folder}/state") and not killer.ident:
        killer.start()
    time.sleep(0.004)

found = rowsolve.solve(
    f"{folder}/{where}", f"{folder}/b.npy", eval(method), rng=3, rtol=1e-9, threads=1, memory=int(memory),
    max_passes=12, checkpoint=f"{folder}/state", resume=True, callback=slowly,
)
while killer.ident:
    signal.pause()
np.save(f"{folder}/x.npy", found.x)
"""


@pytest.mark.compiled
@pytest.mark.skipif(not JIT or not hasattr(signal, "SIGKILL"), reason="needs compiled kernels and kill")
@pytest.mark.parametrize(
    ("where", "method"),
    [("A.npy", "'randomized'"), ("A.h5", "rowsolve.Refined('none')")],
)
def test_killed_at_any_moment__resumes_with_the_same_bits(where, method, tmp_path):
    np.save(tmp_path / "A.npy", A)
    np.save(tmp_path / "b.npy", NOISY)
    rowsolve.convert(A, tmp_path / "A.h5", chunk=50)
    command = [sys.executable, "-c", textwrap.dedent(SCRIPT), tmp_path, where, method, str(MEMORY)]
    environment = {**os.environ, "ROWSOLVE_CHECKPOINT_SECONDS": "0"}
    moment = np.random.default_rng().uniform(0.0, 0.05)  # after the first checkpoint
    assert subprocess.run([*command, str(moment)], env=environment, check=False).returncode == -signal.SIGKILL
    assert (tmp_path / "state").exists()
    assert not (tmp_path / "x.npy").exists()
    subprocess.run([*command, "inf"], env=environment, check=True)
    options = {"rng": 3, "rtol": 1e-9, "threads": 1, "memory": MEMORY, "max_passes": 12}
    expected = rowsolve.solve(tmp_path / where, NOISY, eval(method), **options)
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), expected.x)


def test_warnings_as_errors__end_the_solve_and_leave_no_thread(tmp_path, monkeypatch):
    fail_from(1, monkeypatch)
    with pytest.raises(RuntimeWarning, match="No space left"):
        resume(tmp_path / "state")
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("rowsolve-reader")]
