"""Truncated, changed and invalid files: an error that names the file, never a crash."""

from __future__ import annotations

import random
import re

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr
from scipy import sparse

import rowsolve
from rowsolve.sources import load_matrix, open_store

A = np.random.default_rng(0).standard_normal((60, 4))
SPARSE = sparse.csr_array(np.where(A > 0.3, A, 0.0))
KINDS = [(ending, kind) for ending in ("h5", "zarr", "parquet") for kind in ("dense", "sparse")]


def written(folder, ending, kind):
    """Return a file as `convert` writes it: all of it has checksums."""
    path = folder / f"a.{ending}"
    rowsolve.convert(A if kind == "dense" else SPARSE, path, chunk=10 if kind == "dense" else None)
    return path


def files_of(path):
    return [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]


def told_or_same(path, kind):
    """Return whether the damage was reported; if not, the numbers read must be those written."""
    try:
        found = load_matrix(path)
    except (ValueError, OSError) as error:
        words = str(error)
    else:
        found, expected = (found.toarray() if sparse.issparse(found) else found), SPARSE.toarray()
        np.testing.assert_array_equal(found, A if kind == "dense" else expected)
        return False
    assert words.startswith(str(path))
    assert "\n" not in words
    return True


@pytest.mark.filterwarnings("ignore:Object at .* is not recognized")
@pytest.mark.parametrize(("ending", "kind"), KINDS)
def test_files_cut_anywhere__raise_an_error(ending, kind, tmp_path):
    path = written(tmp_path, ending, kind)
    for file in files_of(path):
        whole = file.read_bytes()
        for share in (0.0, 0.01, 0.3, 0.7, 0.99):
            file.write_bytes(whole[: int(share * len(whole))])
            assert told_or_same(path, kind)
        file.write_bytes(whole[:-1])
        assert told_or_same(path, kind)
        file.write_bytes(whole)
    assert not told_or_same(path, kind)


@pytest.mark.filterwarnings("ignore:Object at .* is not recognized")
@pytest.mark.parametrize(("ending", "kind"), KINDS)
def test_bits_that_flip__are_reported_or_do_no_harm(ending, kind, tmp_path):
    path = written(tmp_path, ending, kind)
    dice, n_told = random.Random(0), 0
    for file in files_of(path):
        whole = file.read_bytes()
        for _ in range(60 if path.is_file() else 5):
            changed = bytearray(whole)
            changed[dice.randrange(len(whole))] ^= 1 << dice.randrange(8)
            file.write_bytes(changed)
            n_told += told_or_same(path, kind)
        file.write_bytes(whole)
    assert n_told > 10


@pytest.mark.parametrize("ending", ["h5", "zarr", "parquet"])
def test_damage_deep_inside__is_reported_with_its_rows(ending, tmp_path):
    path = written(tmp_path, ending, "dense")
    place = A[25, 2].tobytes()
    file = next(file for file in files_of(path) if place in file.read_bytes())
    whole = file.read_bytes()
    at = whole.index(place)
    file.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    with open_store(path) as store:
        np.testing.assert_array_equal(store.read(0, 20), A[:20])
        with pytest.raises(
            ValueError, match=rf"a\.{ending}.*: rows 22 to 28 cannot be read \(damaged or truncated\): "
        ):
            store.read(22, 28)
        np.testing.assert_array_equal(store.read(30, 60), A[30:])


def test_zarr__that_lost_a_chunk_raises_an_error(tmp_path):
    path = written(tmp_path, "zarr", "dense")
    (path / "A" / "c.2.0").unlink()
    with pytest.raises(ValueError, match=r"a\.zarr:/A: 1 of its 6 chunks are missing"):
        open_store(path)


def test_npy_and_csv__that_shrink_while_open_are_reported(tmp_path):
    np.save(tmp_path / "a.npy", A)
    rowsolve.convert(A, tmp_path / "a.csv")
    for name in ("a.npy", "a.csv"):
        path = tmp_path / name
        with open_store(path) as store:
            path.write_bytes(path.read_bytes()[:-200])
            with pytest.raises(ValueError, match=f"{name}: was truncated after it was opened"):
                store.read(50, 60)


def test_csv__that_changes_while_open_is_reported(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("1,2\n3,4\n5,6\n")
    with open_store(path) as store:
        path.write_text("11,22\n33,44\n")  # as many bytes
        with pytest.raises(ValueError, match=r"a\.csv: has changed .* line 1 on has 2 rows instead of 3"):
            store.read(0, 3)


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ("1 1 1.5\0\n2 2 1", "it is not a text file"),
        ("1 1 1.5\n3 2 1", "is not a complete"),
        ("1 1 1.5", "is not a complete"),
    ],
)
def test_mtx__that_would_crash_the_reader_raises_an_error(lines, words, tmp_path):
    (tmp_path / "a.mtx").write_text(f"%%MatrixMarket matrix coordinate real general\n2 2 2\n{lines}")
    with pytest.raises(ValueError, match=rf"a\.mtx: .*{words}"):
        open_store(tmp_path / "a.mtx")


def test_mtx__with_rubbish_after_the_last_number_does_not_crash_the_reader(tmp_path):
    (tmp_path / "a.mtx").write_text("%%MatrixMarket matrix coordinate real general\n2 2 2\n1 1 1.5\n2 2 1x")
    assert load_matrix(tmp_path / "a.mtx").toarray().tolist() == [[1.5, 0.0], [0.0, 1.0]]


def csr_group(path, **changes):
    parts = {"data": SPARSE.data, "indices": SPARSE.indices, "indptr": SPARSE.indptr, "shape": (60, 4)} | changes
    with h5py.File(path, "w") as file:
        file.attrs["shape"] = parts.pop("shape")
        for part, values in parts.items():
            file[part] = values
    return path


def changed(values, at, value):
    values = values.copy()
    values[at] = value
    return values


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"indptr": changed(SPARSE.indptr, 30, 10**6)}, r"`indptr` must not decrease, but does after row 30"),
        ({"indptr": changed(SPARSE.indptr, 30, -1)}, r"`indptr` must not decrease, but does after row 29"),
        ({"indices": changed(SPARSE.indices, 7, 4)}, r"rows 0 to 60: column numbers must be from 0 to 3, got 0 to 4"),
        ({"indices": changed(SPARSE.indices, 7, -1)}, r"column numbers must be from 0 to 3, got -1 to 3"),
        ({"indices": SPARSE.indices[:-1]}, r"`indices` and `data` must have the same length"),
        ({"indices": SPARSE.indices.astype(float)}, r"`indices` must hold integers, got float64"),
        ({"indptr": changed(SPARSE.indptr, 0, 1)}, r"`indptr` must run from 0 to \d+, the number .* entries, got 1 "),
        ({"indptr": SPARSE.indptr[:-1]}, r"`indptr` must have 61 entries, got 60"),
        ({"shape": (4, 60)}, r"`indptr` must have 5 entries, got 61\. The format seems to be CSC\."),
        ({"shape": (60, 4, 1)}, r"must have `shape` \(rows, columns\)"),
        ({"data": SPARSE.data * 1j}, r"expected real numbers, got complex128\. Stack the real"),
        ({"data": SPARSE.data[:, None]}, r"`data` must have one dimension"),
    ],
)
def test_sparse_groups__that_are_invalid_raise_an_error(changes, words, tmp_path):
    with pytest.raises(ValueError, match=rf"s\.h5.*{words}"):
        load_matrix(csr_group(tmp_path / "s.h5", **changes))


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (A * 1j, "expected real numbers, got complex128"),
        (np.zeros((3, 2, 2)), r"expected one or two dimensions, got shape \(3, 2, 2\)"),
        (np.array(5.0), r"got shape \(\)"),
        (np.zeros((0, 4)), r"contains no numbers: its shape is \(0, 4\)"),
        (np.array([[b"a", b"b"]]), "expected real numbers, got .S1"),
    ],
)
def test_arrays__that_are_no_matrix_raise_an_error(values, words, tmp_path):
    np.save(tmp_path / "a.npy", values)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = values
    zarr.create_group(tmp_path / "a.zarr")
    for name in ("a.npy", "a.h5"):
        with pytest.raises(ValueError, match=rf"{re.escape(name)}.*: .*{words}"):
            open_store(tmp_path / name)


def test_places_without_numbers__raise_an_error(tmp_path):
    zarr.create_group(tmp_path / "empty.zarr")
    h5py.File(tmp_path / "empty.h5", "w").close()
    pq.write_table(pa.table({"street": ["x", "y"]}), tmp_path / "words.parquet")
    pq.write_table(pa.table({"x": pa.array([], pa.float64())}), tmp_path / "empty.parquet")
    (tmp_path / "other.zarr").mkdir()
    (tmp_path / "file.zarr").write_text("x")
    for name, words in (
        ("empty.zarr", "contains no dataset"),
        ("empty.h5", "contains no dataset"),
        ("words.parquet", r"column 'street' \(string\) is not numeric. There is no other numeric column"),
        ("empty.parquet", r"contains no numbers: its shape is \(0, 1\)"),
        ("other.zarr", "is not a Zarr store"),
        ("gone.zarr", "no such file"),
        ("file.zarr", "is a file, but a Zarr store is a folder"),
    ):
        with pytest.raises((ValueError, OSError), match=f"{name}: {words}"):
            open_store(tmp_path / name)
    np.save(tmp_path / "a.npy", A)
    with pytest.raises(ValueError, match="holds a single matrix: remove `:x`"):
        open_store(f"{tmp_path}/a.npy:x")
