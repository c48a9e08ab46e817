"""Solves of rows in files: the same x as in memory, for every format and method."""

from __future__ import annotations

import gc
import os
import threading
from functools import partial

import h5py
import numpy as np
import pytest
import zarr
from conftest import JIT, gaussian, relative_error
from scipy import sparse

import rowsolve
from rowsolve import METHODS, Status
from rowsolve.sources import StoredRows, open_store
from rowsolve.sources import text as text_module
from rowsolve.sources.streams import Chunks

N, P = (3000, 20) if JIT else (1200, 10)
A, b, X = gaussian(N, P)
MEMORY = 300_000 if JIT else 150_000
WIDE, b_of_wide, X_OF_WIDE = gaussian(2000 if JIT else 600, 80 if JIT else 50)  # a sketch of its rows is smaller
ENOUGH_FOR_A_SKETCH = 1_270_000 if JIT else 475_000
ABLE = [name for name, method in METHODS.items() if method().can.stored]
UNABLE = [name for name in METHODS if name not in ABLE]


@pytest.fixture(autouse=True)
def nothing_left():
    """No reading thread and no open file remains after a solve, however it ended."""
    before = open_files()
    yield
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("rowsolve-reader")]
    if not open_files() <= before:
        gc.collect()  # a map is gone with the last array that was made of it
    assert open_files() <= before


@pytest.fixture(autouse=True)
def short_blocks_of_lines(monkeypatch):
    monkeypatch.setattr(text_module, "BLOCK_BYTES", 4096)


def open_files():
    if not os.path.isdir("/proc/self/fd"):
        return set()
    names = (os.path.realpath(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd"))
    return {name for name in names if "pytest-" in name}


def in_chunks(matrix, rhs, size):
    return lambda: ((matrix[i : i + size], rhs[i : i + size]) for i in range(0, matrix.shape[0], size))


def save(path, values):
    np.save(path, values)
    return path


def saved_by_convert(path, values):
    chunk = None if path.suffix in (".npy", ".csv") else 64 if JIT else 32
    rowsolve.convert(values, path, chunk=chunk, allow_nan=True)
    return path


def csr_in_hdf5(path, csr):
    with h5py.File(path, "w") as file:
        file.attrs["shape"] = csr.shape
        for part in ("data", "indices", "indptr"):
            file.create_dataset(part, data=getattr(csr, part), chunks=(300,), fletcher32=True)
    return path


def csr_in_zarr(path, csr):
    group = zarr.create_group(path)
    group.attrs["shape"] = csr.shape
    for part in ("data", "indices", "indptr"):
        group.create_array(part, data=getattr(csr, part), chunks=(6000 if JIT else 1200,))
    return path


def memmap(path, values):
    np.save(path, values)
    return np.load(path, mmap_mode="r")


# What the rows are kept as, and what x is then known to.
KEPT = {
    "npy": lambda folder: save(folder / "A.npy", A),
    "fortran": lambda folder: save(folder / "A.npy", np.asfortranarray(A)),
    "big-endian": lambda folder: save(folder / "A.npy", A.astype(">f8")),
    "h5": lambda folder: saved_by_convert(folder / "A.h5", A),
    "zarr": lambda folder: saved_by_convert(folder / "A.zarr", A),
    "parquet": lambda folder: saved_by_convert(folder / "A.parquet", A),
    "csv": lambda folder: saved_by_convert(folder / "A.csv", A),
    "array": lambda _: A,
    "strided": lambda _: np.repeat(np.repeat(A, 2, axis=0), 2, axis=1)[::2, ::2],
    "memmap": lambda folder: memmap(folder / "A.npy", A),
    "store": lambda _: Chunks(in_chunks(A, b, 130)),
    "csr-h5": lambda folder: csr_in_hdf5(folder / "A.h5", sparse.csr_array(A)),
    "csr-zarr": lambda folder: csr_in_zarr(folder / "A.zarr", sparse.csr_array(A)),
    "csr": lambda _: sparse.csr_array(A),
    "csc": lambda _: sparse.csc_matrix(A),
}


def solve(where, rhs=b, method="auto", **options):
    """Solve within a memory limit that the rows exceed."""
    options = {"memory": MEMORY, "rng": 0, "threads": 1} | options
    if isinstance(where, Chunks):
        rhs = None
    return rowsolve.solve(where, rhs, method, **options)


@pytest.mark.parametrize("kept", KEPT)
def test_formats__give_the_x_of_the_equations(kept, tmp_path):
    notes = []
    where = KEPT[kept](tmp_path)
    for method in ("auto", "block"):
        memory = (3 if kept.startswith("csr-") and JIT else 1) * MEMORY
        found = solve(where, method=method, memory=memory, callback=lambda event: notes.append(event.note))
        assert found.status is Status.CONVERGED
        assert relative_error(found.x, X) < 2e-6
        assert found.bytes_read > 0
    assert notes[0].startswith("Reading ")


def test_a_function_that_yields_chunks__is_read_again_and_again():
    for matrix in (A, sparse.csr_array(A)):
        for method in ("auto", "randomized", "refined"):
            found = rowsolve.solve(in_chunks(matrix, b, N // 20), None, method, memory=MEMORY, rng=0, threads=1)
            assert relative_error(found.x, X) < 2e-6


@pytest.mark.parametrize(("method", "threads"), [(method, 1 + i % 2) for i, method in enumerate(ABLE)])
def test_methods__solve_from_a_file(method, threads, tmp_path):
    sketched = method.endswith("jl")
    matrix, rhs, x = (WIDE, b_of_wide, X_OF_WIDE) if sketched else (A, b, X)
    path = saved_by_convert(tmp_path / "A.h5", matrix)
    options = {"threads": threads, "memory": ENOUGH_FOR_A_SKETCH if sketched else MEMORY}
    options["rtol"] = 1e-6 if JIT or not sketched else 1e-2
    run = partial(solve, path, rhs, method, **options)
    found = run()
    assert found.status is Status.CONVERGED
    assert found.method == method
    assert relative_error(found.x, x) <= 3 * max(found.error_estimate, 1e-15)
    assert relative_error(found.x, x) < 2 * options["rtol"]
    np.testing.assert_array_equal(found.x, run().x)


@pytest.mark.parametrize("method", ["cyclic", "direct", "jl"])
def test_methods_that_take_rows_as_they_come__take_the_same_as_in_memory(method):
    """The first methods use one chunk after another; the others use all rows."""
    options = {"rtol": 1e-6 if JIT else 1e-2, "rng": 0, "threads": 1}
    found = rowsolve.solve(WIDE, b_of_wide, method, memory=ENOUGH_FOR_A_SKETCH, **options)
    expected = rowsolve.solve(WIDE, b_of_wide, method, **options)
    if method == "cyclic":
        assert relative_error(found.x, expected.x) < 10 * options["rtol"]
    else:
        np.testing.assert_allclose(found.x, expected.x, rtol=1e-12)
        assert found.rows_read == expected.rows_read


@pytest.mark.parametrize("method", UNABLE)
def test_methods_that_need_all_rows__raise_an_error_that_names_alternatives(method, tmp_path):
    path = save(tmp_path / "A.npy", A)
    with pytest.raises(ValueError, match=rf"{method}.* needs all rows in memory.*or allow 1 MB\.") as refusal:
        solve(path, method=method)
    assert all(repr(name) in str(refusal.value) for name in ABLE)
    assert solve(path, method=method, memory="1MB").status is Status.CONVERGED


def test_methods_that_need_much__say_how_much_and_that_works(tmp_path):
    wide, rhs, _ = gaussian(1500 if JIT else 500, 300 if JIT else 100)
    path = save(tmp_path / "A.npy", wide)
    memory = "2MB" if JIT else 300_000
    for method in ("direct", rowsolve.Refined("all"), *([rowsolve.JL(sketch_size=200)] if JIT else [])):
        with pytest.raises(ValueError, match=r"takes about [\d,]+ MB.*allow [\d,]+ MB, or use another") as refusal:
            solve(path, rhs, method, memory=memory)
        told = str(refusal.value).split("allow ")[1].split(" MB")[0].replace(",", "")
        assert solve(path, rhs, method, memory=f"{told}MB", rtol=0.1, max_passes=200).rows_read
    assert solve(path, rhs, memory=memory).status is Status.CONVERGED  # auto finds another way


def test_float32__stays_float32(tmp_path):
    halves = np.round(A * 64) / 64  # exact in float32
    rhs = halves @ X
    found = solve(save(tmp_path / "A.npy", halves.astype(np.float32)), rhs, "refined")
    assert relative_error(found.x, X) < 2e-6
    assert found.bytes_read == found.rows_read * 4 * P  # not as float64
    path = saved_by_convert(tmp_path / "A.h5", halves.astype(np.float32))
    with open_store(path) as store:
        assert store.dtype == np.float32
    assert relative_error(solve(path, rhs, "refined").x, X) < 2e-6


def test_integers__are_exact(tmp_path):
    whole = np.round(A * 50)
    found = solve(save(tmp_path / "A.npy", whole.astype(np.int16)), whole @ X, "refined", rtol=1e-12)
    assert relative_error(found.x, X) < 1e-11


def test_least_squares__is_that_of_lapack(tmp_path):
    noisy = gaussian(N, P, noise=0.1)[1]
    expected = np.linalg.lstsq(A, noisy, rcond=None)[0]
    for kept in ("h5", "csr-h5", "fortran"):
        (tmp_path / kept).mkdir()
        found = solve(KEPT[kept](tmp_path / kept), noisy, "refined", rtol=1e-10, memory=2 * MEMORY)
        assert found.status is Status.CONVERGED
        assert relative_error(found.x, expected) < 1e-9


def test_damp__is_that_of_lapack():
    damped = np.linalg.lstsq(np.vstack([A, 3.0 * np.eye(P)]), np.append(b, np.zeros(P)), rcond=None)[0]
    assert relative_error(solve(A, damp=3.0, rtol=1e-10).x, damped) < 1e-9


def test_bounds__are_kept_and_the_best_x_within_is_found():
    from scipy.optimize import lsq_linear

    noisy = gaussian(N, P, noise=0.1)[1]
    best = lsq_linear(A, noisy, (0.0, 1.0), tol=1e-14).x
    for method in ("auto", "refined"):
        found = solve(A, noisy, method, bounds=(0.0, 1.0), rtol=1e-9)
        assert relative_error(found.x, best) < 1e-6
        assert found.x.min() >= 0.0
    inside = A @ np.abs(X)
    for method in ("randomized", "block", "greedy"):
        found = solve(A, inside, method, bounds=(0.0, np.inf))
        assert found.x.min() >= 0.0
        assert relative_error(found.x, np.abs(X)) < 2e-6


@pytest.mark.parametrize("method", ["auto", "direct", "refined", "randomized", "block", "cluster-block"])
@pytest.mark.parametrize("threads", [1, 2])
def test_several_right_hand_sides__are_solved_at_once(method, threads, tmp_path):
    many = np.column_stack([X, -2.0 * X, np.arange(P)])
    for where in (saved_by_convert(tmp_path / "A.h5", A), sparse.csr_array(A)):
        found = solve(where, A @ many, method, threads=threads, check="full")
        assert found.status is Status.CONVERGED
        assert found.row_check.full
        assert relative_error(found.x, many) < 2e-6


@pytest.mark.parametrize("method", ["auto", "randomized", "refined", "quantile"])
def test_full_check__reads_all_rows_and_finds_every_one_that_is_off(method, tmp_path):
    wrong = b.copy()
    wrong[[7, N // 2, N - 1]] += 100.0
    path = saved_by_convert(tmp_path / "A.h5", A)
    found = solve(path, b, method, check="full")
    assert found.row_check.full
    assert found.row_check.n_rows == N
    if method in ("auto", "quantile"):
        found = solve(path, wrong, method, check="full", **({"outliers": "drop"} if method == "auto" else {}))
        assert found.rows_off.tolist() == [7, N // 2, N - 1]
        assert relative_error(found.x, X) < 2e-6


def test_full_check__is_the_same_as_in_memory():
    noisy, x0 = gaussian(N, P, noise=0.1)[1], X + 0.01
    options = {"check": "full", "x0": x0, "rng": 0, "max_passes": 2, "threads": 1}
    method = rowsolve.Refined("none")
    found, expected = (rowsolve.solve(A, noisy, method, **options, **more) for more in ({"memory": MEMORY}, {}))
    assert found.row_check.relative == pytest.approx(expected.row_check.relative, rel=1e-12)
    assert found.row_check.gradient == pytest.approx(expected.row_check.gradient, rel=1e-3, abs=1e-8 * N)


def test_limits__end_a_solve(tmp_path, clock):
    path = saved_by_convert(tmp_path / "A.h5", A)
    slow = A.copy()
    slow[:, 0] = slow[:, 1] + 1e-5 * slow[:, 0]
    for method in ("randomized", "refined"):
        found = solve(path, method=method, max_passes=1e-9)
        assert found.status is Status.MAX_PASSES or (method == "refined" and found.passes <= 2)  # its first step
        found = solve(slow, slow @ X, "randomized", max_seconds=0.05, rtol=1e-12)
        assert found.status is Status.MAX_SECONDS


@pytest.mark.parametrize("method", ["randomized", "refined", "greedy", "quantile"])
def test_callback__stops_it(method, tmp_path):
    path, events = saved_by_convert(tmp_path / "A.h5", A), []

    def stop(event):
        events.append(event)
        return event.stage == "solve"

    assert solve(path, method=method, callback=stop, rtol=1e-14).status is Status.STOPPED
    assert events[0].stage == "open"
    assert f"Reading {path}:/A in " in events[0].note
    assert events[-1].bytes_read > 0
    assert events[-1].passes == events[-1].rows_read / N


@pytest.mark.parametrize("method", ["randomized", "refined", "direct"])
@pytest.mark.parametrize("raised", [KeyboardInterrupt, RuntimeError])
def test_callback_that_raises__ends_it(method, raised, tmp_path):
    def complain(event):
        if event.stage != "open":
            raise raised("enough")

    run = partial(solve, saved_by_convert(tmp_path / "A.h5", A), method=method, callback=complain)
    if raised is KeyboardInterrupt:
        assert run().status is Status.INTERRUPTED
    else:
        with pytest.raises(RuntimeError, match="enough") as error:
            run()
        assert not [thread for thread in threading.enumerate() if thread.name.startswith("rowsolve-reader")]
        assert error.value.args == ("enough",)  # and what it refers to is still there


@pytest.mark.parametrize("method", ["randomized", "refined", "quantile"])
def test_ctrl_c__while_a_store_is_read_ends_it_soon(method, monkeypatch, press_ctrl_c):
    store, reads = Chunks(in_chunks(A, b, 100)), []
    read = store.read

    def read_until_interrupted(*args):
        reads.append(args)
        if len(reads) == 6:
            press_ctrl_c()
        return read(*args)

    monkeypatch.setattr(store, "read", read_until_interrupted)
    found = solve(store, method=method, rtol=1e-15)
    assert found.status is Status.INTERRUPTED
    assert len(reads) < 9  # the one under way, and perhaps the next


@pytest.mark.parametrize(
    ("kept", "method"),
    [
        *(("npy", "refined"), ("fortran", "randomized"), ("h5", "refined"), ("h5", "randomized"), ("h5", "cyclic")),
        *(
            ("zarr", "cyclic"),
            ("parquet", "refined"),
            ("csv", "randomized"),
            ("csr-h5", "cyclic"),
            ("csr-h5", "refined"),
        ),
    ],
)
def test_nan_deep_inside__is_reported_with_file_and_place(kept, method, tmp_path, monkeypatch):
    bad = A.copy()
    bad[N - 37, 3] = np.nan
    monkeypatch.setitem(globals(), "A", bad)
    where = KEPT[kept](tmp_path)
    with pytest.raises(ValueError, match=rf"A\.\w+.*row {N - 37} has nan in column ('c3'|3)") as error:
        solve(where, method=method, check="full", rtol=1e-13)
    assert str(error.value).startswith(str(tmp_path))


def test_nan__in_the_sample_of_direct_is_reported_by_its_row_number():
    bad = A.copy()
    bad[5:, 2] = np.inf
    with pytest.raises(ValueError, match=r"the array: `A` must be finite: row (\d+) has inf in column 2"):
        solve(bad, method="direct")


def test_rows_of_zeros__are_left_out_and_one_with_a_nonzero_b_is_reported(tmp_path):
    zeros, rhs = A.copy(), b.copy()
    zeros[100:300], rhs[100:300] = 0.0, 0.0
    path = saved_by_convert(tmp_path / "A.h5", zeros)
    for method in ("randomized", "refined", "direct"):
        assert relative_error(solve(path, rhs, method).x, X) < 2e-6
    rhs[150] = 1.0
    found = solve(path, rhs, "randomized", check="full")
    assert found.status is Status.CONVERGED  # a row of zeros does not affect x
    assert found.rows_off.tolist() == [150]
    assert "150" in found.message


@pytest.mark.parametrize("kept", ["npy", "fortran", "csv", "zarr"])
@pytest.mark.parametrize("method", ["randomized", "refined"])
def test_file_cut_during_the_solve__is_reported(kept, method, tmp_path):
    where = KEPT[kept](tmp_path)
    files = [where] if where.is_file() else sorted(file for file in where.rglob("c.*"))

    def cut(event):
        if event.stage != "open":
            for file in files:
                os.truncate(file, 1000)

    with pytest.raises(ValueError, match=rf"A\.{where.suffix[1:]}.*truncated"):
        solve(where, method=method, callback=cut, rtol=1e-15, check="full", max_passes=50)


def flip(path, what):
    """Change a bit of the number `what` where it is stored."""
    for file in [path] if path.is_file() else path.rglob("*"):
        whole = file.read_bytes() if file.is_file() else b""
        at = whole.find(what.tobytes())
        if at >= 0:
            file.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
            return
    raise AssertionError("not found")


@pytest.mark.parametrize("kept", ["h5", "zarr", "parquet"])
@pytest.mark.parametrize("method", ["randomized", "refined"])
def test_flipped_bit__is_reported_with_file_and_rows(kept, method, tmp_path):
    where = KEPT[kept](tmp_path)
    flip(where, A[N - 10, 2])
    with pytest.raises(ValueError, match=rf"A\.{kept}.*: rows \d+ to \d+ cannot be read \(damaged or truncated\)"):
        solve(where, method=method, check="full")


def test_masked_entries__raise_an_error():
    masked = np.ma.masked_array(A, np.zeros_like(A, dtype=bool))
    masked.mask[3, 1] = True
    with pytest.raises(ValueError, match="masked"):
        solve(masked)


def test_too_little_memory__is_reported_with_the_least_that_works(tmp_path):
    for kept in ("npy", "h5", "parquet", "csv", "csr-zarr", "fortran"):
        (tmp_path / kept).mkdir()
        where = KEPT[kept](tmp_path / kept)
        with pytest.raises(ValueError, match=r"0\.01 MB of memory are not enough for .*Allow [\d,]+ MB\.") as refusal:
            solve(where, memory=10_000)
        least = str(refusal.value).split("Allow ")[1].split(" MB")[0].replace(",", "")
        assert solve(where, memory=f"{least}MB").status is Status.CONVERGED


def test_memory__that_all_rows_fit_in_changes_nothing(tmp_path):
    path = saved_by_convert(tmp_path / "A.h5", A)
    for method in ("auto", "randomized", "refined"):
        found, expected = (rowsolve.solve(path, b, method, rng=0, memory=memory) for memory in ("1GB", None))
        np.testing.assert_array_equal(found.x, expected.x)


@pytest.mark.parametrize("memory", ["", "much", "0", -1, "1.2.3MB", "12 PB"])
def test_memory__that_is_no_number_of_bytes_raises_an_error(memory):
    with pytest.raises(ValueError, match="`memory` must be a number of bytes"):
        rowsolve.solve(A, b, memory=memory)


def test_rows_that_would_fill_the_memory__stay_where_they_are(tmp_path, monkeypatch):
    path, kinds = saved_by_convert(tmp_path / "A.h5", A), []
    monkeypatch.setattr("rowsolve._validate.free_memory", lambda: 1.9 * A.nbytes)
    monkeypatch.setattr(
        StoredRows,
        "endless",
        lambda self, *place, endless=StoredRows.endless: (kinds.append(1), endless(self, *place))[1],
    )
    assert relative_error(rowsolve.solve(path, b, "randomized", rng=0, threads=1).x, X) < 2e-6
    assert kinds
    del kinds[:]
    monkeypatch.setattr("rowsolve._validate.free_memory", lambda: 3.0 * A.nbytes)
    rowsolve.solve(path, b, "randomized", rng=0, threads=1)
    assert not kinds


def test_zarr_and_hdf5_groups__of_others_are_read_too(tmp_path):
    """Chunks that divide columns, and one matrix of several."""
    with h5py.File(tmp_path / "A.h5", "w") as file:
        file.create_dataset("train/A", data=A, chunks=(N // 4, 7))
        file["b"] = b
    group = zarr.create_group(tmp_path / "A.zarr")
    group.create_array("train/A", data=A, chunks=(N // 4, 7))
    for name in ("A.h5", "A.zarr"):
        found = solve(f"{tmp_path}/{name}:/train/A", method="refined", memory=2 * MEMORY)
        assert relative_error(found.x, X) < 2e-6


@pytest.mark.compiled
@pytest.mark.parametrize("kept", ["parquet", "zarr", "h5", "store"])
def test_noisy_rows__are_read_once(kept, tmp_path, monkeypatch):
    tall, rhs, _ = gaussian(20_000, 20, noise=0.1)
    monkeypatch.setitem(globals(), "A", tall)
    where = Chunks(in_chunks(tall, rhs, 1300)) if kept == "store" else KEPT[kept](tmp_path)
    found = solve(where, rhs, memory="5MB")
    assert found.status is Status.CONVERGED
    assert relative_error(found.x, np.linalg.lstsq(tall, rhs)[0]) < 1e-9
    assert found.bytes_read <= 1.05 * tall.nbytes  # rows whose residuals are looked at were kept as they came by
    assert found.row_check.full
