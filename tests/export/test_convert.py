"""Rows are the same in every format and within any memory limit; a failure leaves no files."""

from __future__ import annotations

import errno
import os
import resource
import tempfile
import tracemalloc
from pathlib import Path

import h5py
import numpy as np
import pyarrow.parquet as pq
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import rowsolve
from rowsolve.sources import load_matrix, load_system, load_vector, open_store, text
from rowsolve.sources.writers import WRITERS

A = np.random.default_rng(0).standard_normal((300, 6))
b = A @ np.arange(6.0)
SPARSE = sparse.csr_array(np.where(A > 0.5, A, 0.0))
ENDINGS = [ending for ending in WRITERS if ending != ".hdf5"]


def dense(matrix):
    return matrix.toarray() if sparse.issparse(matrix) else np.asarray(matrix)


def files(folder):
    return sorted(path.name for path in folder.iterdir())


def place_of_b(path):
    if path.suffix in (".csv", ".parquet", ".h5", ".zarr"):
        return f"{path}:b"
    return path.with_name(f"{path.name.split('.')[0]}.b.npy")


@pytest.mark.parametrize("ending", ENDINGS)
def test_every_format__holds_a_and_b(ending, tmp_path):
    path = tmp_path / f"rows{ending}"
    rowsolve.convert(A, path, rhs=b)
    found, rhs = load_system(path, place_of_b(path))
    np.testing.assert_array_equal(dense(found), A)
    np.testing.assert_array_equal(rhs, b)
    assert len(files(tmp_path)) == (2 if ending in (".npy", ".npz", ".mtx", ".mtx.gz") else 1)


@pytest.mark.parametrize("ending", ENDINGS)
def test_every_format__holds_sparse_rows_in_float32_and_several_sides(ending, tmp_path):
    path = tmp_path / f"rows{ending}"
    csr = SPARSE.astype(np.float32)
    rowsolve.convert(csr, path, rhs=np.column_stack([b, 2 * b]))
    sides = ":b0,b1" if ending in (".csv", ".parquet") else ""
    found, rhs = load_system(path, f"{path}{sides}" if sides else place_of_b(path))
    np.testing.assert_array_equal(dense(found), csr.toarray())
    np.testing.assert_array_equal(rhs, np.column_stack([b, 2 * b]))
    assert sparse.issparse(found) == (ending not in (".npy", ".csv", ".parquet"))
    assert found.dtype == (np.float64 if ending in (".csv", ".mtx", ".mtx.gz") else np.float32)


@settings(max_examples=25)
@given(data=st.data())
def test_conversions__in_a_row_lose_nothing(data):
    shape = data.draw(st.tuples(st.integers(1, 40), st.integers(1, 5)))
    dtype = data.draw(st.sampled_from(["f4", "f8"]))
    values = np.random.default_rng(data.draw(st.integers(0, 99))).standard_normal(shape).astype(dtype)
    kinds = st.sampled_from([".npy", ".h5", ".zarr", ".parquet", ".csv"])
    last = values
    with tempfile.TemporaryDirectory() as folder:
        for number, ending in enumerate(data.draw(st.lists(kinds, min_size=1, max_size=3))):
            path = Path(folder, f"{number}{ending}")
            chunk = data.draw(st.integers(1, 50)) if WRITERS[ending].chunk_bytes else None
            rowsolve.convert(last, path, memory=data.draw(st.sampled_from(["70kB", "256MB"])), chunk=chunk)
            last = path
        with open_store(last) as store:
            np.testing.assert_array_equal(store.read(0, shape[0]), values)


@pytest.mark.parametrize(
    ("start", "ending"),
    [(".npy", ".h5"), (".h5", ".zarr"), (".zarr", ".npy"), (".npy", ".parquet"), (".csv", ".npy"), (".h5", ".csv")],
)
def test_memory__stays_within_what_is_allowed(start, ending, tmp_path, monkeypatch):
    monkeypatch.setattr(text, "BLOCK_BYTES", 1 << 16)
    rows, memory = np.tile(A, (8, 8)), 700_000  # 0.9 MB: as text they take a while
    if ".csv" not in (start, ending):
        rows, memory = np.tile(A, (120, 16)), 6_000_000  # 28 MB
    rowsolve.convert(rows, tmp_path / f"in{start}", memory=memory)
    tracemalloc.start()
    try:
        rowsolve.convert(tmp_path / f"in{start}", tmp_path / f"out{ending}", memory=memory)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < memory
    np.testing.assert_array_equal(load_matrix(tmp_path / f"out{ending}"), rows)


def test_rows__are_written_a_few_at_a_time(tmp_path):
    told = []
    options = {"memory": "20kB", "chunk": 16, "progress": lambda *numbers: told.append(numbers)}
    rowsolve.convert(A, tmp_path / "a.h5", **options)
    steps = np.diff([0, *(done for done, _ in told)])
    assert told[-1] == (300, 300)
    assert len(told) > 3
    assert all(step % 16 == 0 for step in steps[:-1])
    assert max(steps) * 6 * 8 * 4 <= 20_000


def test_chunk_and_dtype__are_obeyed(tmp_path):
    for ending in (".h5", ".zarr", ".parquet"):
        rowsolve.convert(A, tmp_path / f"a{ending}", chunk=32, dtype="float32")
        with open_store(tmp_path / f"a{ending}") as store:
            assert (store.chunk, store.dtype, store.stored_dtype) == (32, np.float32, np.float32)
            np.testing.assert_array_equal(store.read(0, 300), A.astype(np.float32))
    assert pq.ParquetFile(tmp_path / "a.parquet").metadata.num_row_groups == 10
    rowsolve.convert(A, tmp_path / "big.h5")
    with h5py.File(tmp_path / "big.h5") as file:
        assert file["A"].chunks == (300, 6)
        assert file["A"].fletcher32


def test_names_of_columns__are_kept(tmp_path):
    (tmp_path / "t.csv").write_text("age,rooms,price\n1,2,3\n4,5,6\n")
    rowsolve.convert(tmp_path / "t.csv", tmp_path / "t.parquet", rhs=f"{tmp_path}/t.csv:price")
    assert pq.read_schema(tmp_path / "t.parquet").names == ["age", "rooms", "b"]
    rowsolve.convert(f"{tmp_path}/t.parquet:rooms,b", tmp_path / "u.csv")
    assert (tmp_path / "u.csv").read_text() == "rooms,b\n2,3\n5,6\n"
    with pytest.raises(ValueError, match=r"two columns would have the name 'b'\. Try renaming one of them"):
        rowsolve.convert(tmp_path / "u.csv", tmp_path / "v.parquet", rhs=[1.0, 2.0])


def test_vectors__stay_vectors(tmp_path):
    for ending in (".npy", ".h5", ".zarr", ".npz"):
        rowsolve.convert(b, tmp_path / f"b{ending}")
        assert load_matrix(tmp_path / f"b{ending}").shape == (300,)
        np.testing.assert_array_equal(load_vector(tmp_path / f"b{ending}"), b)
    rowsolve.convert(b, tmp_path / "b.csv")
    np.testing.assert_array_equal(load_vector(tmp_path / "b.csv"), b)


def test_chunks__bring_their_b(tmp_path):
    rowsolve.convert(lambda: ((A[i : i + 70], b[i : i + 70]) for i in range(0, 300, 70)), tmp_path / "a.h5")
    found, rhs = load_system(tmp_path / "a.h5", tmp_path / "a.h5:b")
    np.testing.assert_array_equal(found, A)
    np.testing.assert_array_equal(rhs, b)


def test_b_in_a_row__is_taken(tmp_path):
    (tmp_path / "b.csv").write_text(",".join(map(repr, b.tolist())))
    rowsolve.convert(A, tmp_path / "a.npy", rhs=tmp_path / "b.csv")
    np.testing.assert_array_equal(np.load(tmp_path / "a.b.npy"), b)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"rhs": b[:-1]}, "must have one entry per row of A: expected 300, got 299"),
        ({"dtype": "int8"}, "`dtype` must be 'float32' or 'float64', got 'int8'"),
        ({"memory": "much"}, "`memory` must be a number of bytes such as 1000000, '256MB' or '1.5GB', got 'much'"),
        ({"memory": "1kB", "chunk": 100}, r"0\.001 MB of memory are not enough: .* 100 rows are written at once"),
        ({"chunk": 0}, "`chunk` must be"),
        ({"rng": 0}, r"`rng` \(--seed\) is used for clustering only"),
    ],
)
def test_options__that_are_invalid_raise_an_error(options, words, tmp_path):
    with pytest.raises((ValueError, TypeError), match=words):
        rowsolve.convert(A, tmp_path / "a.h5", **options)
    assert files(tmp_path) == []


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("a.xls", {}, "expected a file ending in .npy"),
        ("no/a.h5", {}, "there is no folder"),
        ("a.npy", {"chunk": 3}, "`chunk` does not apply to this format"),
        ("a.npy:/A", {}, "holds a single matrix: remove `:/A`"),
        ("a.mtx", {"memory": "10kB"}, "written in one piece, which takes 1 MB of memory"),
    ],
)
def test_targets__that_are_invalid_raise_an_error(name, options, words, tmp_path):
    with pytest.raises((ValueError, OSError), match=words):
        rowsolve.convert(A, f"{tmp_path}/{name}", **options)
    assert files(tmp_path) == []


@pytest.mark.parametrize(
    ("memory", "expected"), [(5, 5), ("12", 12), ("2kB", 2e3), ("1.5 GB", 1.5e9), ("1MiB", 2**20), ("1g", 1e9)]
)
def test_memory__accepts_numbers_and_units(memory, expected):
    from rowsolve._validate import memory_of

    assert memory_of(memory) == expected


@pytest.mark.parametrize("ending", ENDINGS)
def test_an_older_target__is_replaced_only_by_force(ending, tmp_path):
    path = tmp_path / f"a{ending}"
    rowsolve.convert(A, path)
    with pytest.raises(FileExistsError, match=r"exists already: choose another name, or --force"):
        rowsolve.convert(2 * A, path)
    np.testing.assert_array_equal(dense(load_matrix(path)), A)
    rowsolve.convert(2 * A, path, force=True, dtype="float32")
    np.testing.assert_array_equal(dense(load_matrix(path)), (2 * A).astype(np.float32))
    assert files(tmp_path) == [f"a{ending}"]


def content(folder):
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_file_that_is_read__is_never_a_target(ending, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name = f"a{ending}"
    rowsolve.convert(A, name)
    Path("link" + ending).symlink_to(name)
    Path("folder").mkdir()
    names = [name, f"./folder/../{name}", str(tmp_path / name), f"link{ending}"]
    if ending != ".zarr":  # a folder has no hard links
        os.link(name, f"hard{ending}")
        names.append(f"hard{ending}")
    before = content(tmp_path)
    for target in names:
        with pytest.raises(ValueError, match=r"is the file that `source` is read from.*: choose another name"):
            rowsolve.convert(name, target, force=True)
        with pytest.raises(ValueError, match=r"is the file that `rhs` is read from.*: choose another name"):
            rowsolve.convert(np.eye(300), target, rhs=name, force=True)
    assert content(tmp_path) == before


@pytest.mark.parametrize("ending", [".h5", ".zarr"])
def test_another_place_in_the_file_that_is_read__is_no_target(ending, tmp_path):
    path = tmp_path / f"rows{ending}"
    rowsolve.convert(A, path, rhs=b)
    before = content(tmp_path)
    for source, rhs in ((f"{path}:/A", None), (A, f"{path}:/b")):
        with pytest.raises(ValueError, match=r"is the file that `(source|rhs)` is read from: choose another name"):
            rowsolve.convert(source, f"{path}:/x", rhs=rhs, force=True)
    with open_store(f"{path}:/A") as store, pytest.raises(ValueError, match="is the file that `source` is read from"):
        rowsolve.convert(store, path, force=True)
    assert content(tmp_path) == before


def test_arrays_over_files_and_files_behind_links__are_no_targets(tmp_path):
    np.save(tmp_path / "a.npy", A)
    mapped = np.load(tmp_path / "a.npy", mmap_mode="r")
    rowsolve.convert(A, tmp_path / "a.h5")
    with h5py.File(tmp_path / "linked.h5", "w") as file:
        file["outer"] = h5py.ExternalLink("a.h5", "/A")
        layout = h5py.VirtualLayout(A.shape, float)
        layout[...] = h5py.VirtualSource("a.h5", "A", A.shape)
        file.create_virtual_dataset("virtual", layout)
    before = content(tmp_path)
    with h5py.File(tmp_path / "a.h5") as file:
        for source, target in (
            (mapped[10:], "a.npy"), (file["A"], "a.h5"), (f"{tmp_path}/linked.h5:/outer", "a.h5"),
            (f"{tmp_path}/linked.h5:/virtual", "a.h5"),
        ):  # fmt: skip
            with pytest.raises(ValueError, match=rf"{target}: is the file that `source` is read from"):
                rowsolve.convert(source, tmp_path / target, force=True)
    assert content(tmp_path) == before


def test_a_file_inside_a_folder_that_is_read__is_no_target(tmp_path):
    rowsolve.convert(A, tmp_path / "a.zarr")
    with pytest.raises(ValueError, match=r"x\.npy: is inside .*a\.zarr, which `source` is read from: choose ano"):
        rowsolve.convert(tmp_path / "a.zarr", tmp_path / "a.zarr" / "x.npy")
    np.save(tmp_path / "a.zarr" / "inner.npy", A)
    with pytest.raises(ValueError, match=r"a\.zarr: contains .*inner\.npy, which `source` is read from: choose anoth"):
        rowsolve.convert(tmp_path / "a.zarr" / "inner.npy", tmp_path / "a.zarr", force=True)
    (tmp_path / "a.zarr" / "inner.npy").unlink()
    np.testing.assert_array_equal(load_matrix(tmp_path / "a.zarr"), A)


def test_files_beside_the_target__are_not_lost_either(tmp_path):
    np.save(tmp_path / "rows.b.npy", b)
    np.save(tmp_path / "rows.labels.npy", b)
    before = content(tmp_path)
    with pytest.raises(ValueError, match=r"rows\.b\.npy: is the file that `rhs` is read from: choose another name"):
        rowsolve.convert(A, tmp_path / "rows.npy", rhs=tmp_path / "rows.b.npy", force=True)
    with pytest.raises(FileExistsError, match=r"rows\.b\.npy: exists already: choose another name, or --force"):
        rowsolve.convert(A, tmp_path / "rows.npy", rhs=b)
    told = []
    with pytest.raises(FileExistsError, match=r"rows\.labels\.npy: exists already: choose another name, or --force"):
        rowsolve.convert(A, tmp_path / "rows.npy", cluster=2, rng=0, progress=lambda *done: told.append(done))
    assert not told  # before anything is read
    with pytest.raises(ValueError, match=r"rows\.labels\.npy: is the file that `source` is read from"):
        rowsolve.convert(tmp_path / "rows.labels.npy", tmp_path / "rows.csv", cluster=2, rng=0, force=True)
    assert content(tmp_path) == before
    (tmp_path / "other.b.npy").symlink_to("other.npy")
    with pytest.raises(ValueError, match=r"other\.b\.npy: is the file that OUT is written to .*other\.npy"):
        rowsolve.convert(A, tmp_path / "other.npy", rhs=b)


def test_a_folder_that_is_no_zarr_store__is_never_replaced(tmp_path):
    (tmp_path / "a.zarr").mkdir()
    (tmp_path / "a.zarr" / "thesis.tex").write_text("years")
    with pytest.raises(FileExistsError, match="exists and is not a Zarr store, so it is not replaced"):
        rowsolve.convert(A, tmp_path / "a.zarr", force=True)
    assert files(tmp_path / "a.zarr") == ["thesis.tex"]


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_a_write_that_fails__leaves_the_older_target_as_it_was(ending, kind, tmp_path):
    """A limit on the file size makes each library fail as with a full disk."""
    path = tmp_path / f"a{ending}"
    rowsolve.convert(A[:3], path)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    matrix = np.random.default_rng(1).standard_normal((6000, 6))
    matrix = matrix if kind == "dense" else sparse.csr_array(matrix)
    resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, before[1]))
    try:
        with pytest.raises(OSError, match=rf"a{ending}: could not be written: File too large"):
            rowsolve.convert(matrix, path, memory="3MB", force=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    np.testing.assert_array_equal(dense(load_matrix(path)), A[:3])
    assert files(tmp_path) == [f"a{ending}"]


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_full_disk__raises_an_error_and_leaves_no_file(ending, tmp_path, monkeypatch):
    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=rf"a{ending}: could not be written: No space left on device"):
        rowsolve.convert(A, tmp_path / f"a{ending}")
    assert files(tmp_path) == []


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("error", [ValueError("broken"), KeyboardInterrupt("broken")])
def test_damage_in_the_source_and_ctrl_c__leave_nothing(ending, error, tmp_path):
    n_calls = 0

    def chunks():
        nonlocal n_calls
        n_calls += 1
        yield A, b
        if n_calls > 1:  # the first time, rows are only counted
            raise error
        yield A, b

    with pytest.raises(type(error), match="broken"):
        rowsolve.convert(chunks, tmp_path / f"a{ending}", memory="150kB")
    assert files(tmp_path) == []


def test_zarr__counts_its_chunks_even_those_of_zeros(tmp_path):
    rowsolve.convert(np.zeros((100, 3)), tmp_path / "a.zarr", chunk=10)
    array = zarr.open_group(tmp_path / "a.zarr", mode="r")["A"]
    assert array.nchunks_initialized == array.nchunks == array.attrs["rowsolve_n_chunks"] == 10
