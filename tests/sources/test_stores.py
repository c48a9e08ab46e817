"""Every format stores the same rows: what is read equals a slice of the array that was written."""

from __future__ import annotations

import tempfile
from itertools import combinations_with_replacement
from pathlib import Path

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr
from conftest import gaussian, relative_error
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scipy import io, sparse

import rowsolve
from rowsolve.sources import Chunks, load_matrix, load_system, load_vector, open_store, open_system
from rowsolve.sources import parquet as parquet_module
from rowsolve.sources import store as store_module
from rowsolve.sources import text as text_module
from rowsolve.sources.store import precision

A, b, X_TRUE = gaussian(120, 5)
DTYPES = ["f2", "f4", "f8", ">f4", ">f8", "i1", "u4", "i8", "?"]


def write_hdf5(path, values, chunk):
    with h5py.File(path, "w") as file:
        file.create_dataset("rows", data=values, chunks=(chunk, *values.shape[1:]), fletcher32=True)


def write_zarr(path, values, chunk):
    zarr.create_array(path, data=values, chunks=(chunk, *values.shape[1:]))


def write_zarr_2(path, values, chunk):
    group = zarr.create_group(path, zarr_format=2)
    group.create_array("rows", data=values, chunks=(chunk, *values.shape[1:]))


def write_parquet(path, values, chunk):
    native = values.astype(values.dtype.newbyteorder("="))
    table = pa.table({f"x{i}": column for i, column in enumerate(native.T)})
    pq.write_table(table, path, row_group_size=chunk)


def write_csv(path, values, _chunk):
    np.savetxt(path, values.astype(float), delimiter=",", fmt="%.17g")


def write_npy(path, values, _chunk):
    np.save(path, values)


def write_fortran(path, values, _chunk):
    np.save(path, np.asfortranarray(values))


def write_npz(path, values, _chunk):
    np.savez(path, rows=values)


DENSE = {
    "a.npy": write_npy, "f.npy": write_fortran, "a.npz": write_npz, "a.csv": write_csv, "a.h5": write_hdf5,
    "b.hdf5": write_hdf5, "a.zarr": write_zarr, "v2.zarr": write_zarr_2, "a.parquet": write_parquet,
}  # fmt: skip


def csr_in_hdf5(path, csr, chunk):
    with h5py.File(path, "w") as file:
        group = file.create_group("S")
        group.attrs["shape"] = csr.shape
        for part in ("data", "indices", "indptr"):
            values = getattr(csr, part)
            group.create_dataset(part, data=values, chunks=(min(chunk, values.size),))


def csr_in_zarr(path, csr, chunk):
    group = zarr.create_group(path)
    group.create_array("shape", data=np.array(csr.shape))
    for part in ("data", "indices", "indptr"):
        group.create_array(part, data=getattr(csr, part), chunks=(chunk,))


def csr_in_npz(path, csr, _chunk):
    sparse.save_npz(path, csr)


def csr_in_mtx(path, csr, _chunk):
    io.mmwrite(path, csr.astype(float), symmetry="general")


SPARSE = {"s.h5": csr_in_hdf5, "s.zarr": csr_in_zarr, "s.npz": csr_in_npz, "s.mtx": csr_in_mtx}


def kept(dtype):
    return np.float32 if dtype.kind == "f" and dtype.itemsize <= 4 else np.float64


@pytest.mark.parametrize("name", DENSE)
@settings(max_examples=12)
@given(data=st.data())
def test_read__equals_a_slice_for_every_start_and_stop(name, data):
    shape = data.draw(st.tuples(st.integers(1, 7), st.integers(1, 4)))
    values = data.draw(arrays.arrays(np.dtype(data.draw(st.sampled_from(DTYPES))), shape))
    chunk = data.draw(st.integers(1, shape[0]))
    expected = values.astype(float if name == "a.csv" else kept(values.dtype))
    with tempfile.TemporaryDirectory() as folder:
        DENSE[name](Path(folder, name), values, chunk)
        with open_store(Path(folder, name)) as store:
            assert store.shape == shape
            assert store.dtype == expected.dtype
            assert not store.sparse
            assert store.footprint.entries_per_row == shape[1]
            assert store.footprint.bytes_per_row == expected[0].nbytes
            spans = list(combinations_with_replacement(range(shape[0] + 1), 2))
            for start, stop in data.draw(st.permutations(spans)):
                found = store.read(start, stop)
                np.testing.assert_array_equal(found, expected[start:stop])
                assert found.dtype == expected.dtype
                assert found.flags.c_contiguous
                out = np.full((stop - start, shape[1]), -1, expected.dtype)
                assert store.read(start, stop, out) is out
                np.testing.assert_array_equal(out, expected[start:stop])
            order = np.array(data.draw(st.lists(st.integers(0, shape[0] - 1), max_size=9)), dtype=int)
            np.testing.assert_array_equal(store.take(order), expected[order])


@pytest.mark.parametrize("name", SPARSE)
@settings(max_examples=12)
@given(data=st.data())
def test_read__of_sparse_rows_equals_a_slice(name, data):
    shape = data.draw(st.tuples(st.integers(1, 7), st.integers(1, 4)))
    dtype = np.dtype(data.draw(st.sampled_from(["f4", "f8", "i4"])))
    filled = data.draw(arrays.arrays(bool, shape).filter(np.any))
    csr = sparse.csr_array(np.where(filled, np.arange(1, 1 + filled.size).reshape(shape), 0).astype(dtype))
    with tempfile.TemporaryDirectory() as folder:
        SPARSE[name](Path(folder, name), csr, data.draw(st.integers(1, csr.nnz)))
        with open_store(Path(folder, name)) as store:
            assert store.shape == shape
            assert store.sparse
            assert store.footprint.entries_per_row == csr.nnz / shape[0]
            for start, stop in combinations_with_replacement(range(shape[0] + 1), 2):
                found = store.read(start, stop)
                assert isinstance(found, sparse.csr_array)
                assert found.dtype == (np.float64 if name == "s.mtx" else kept(dtype))
                np.testing.assert_array_equal(found.toarray(), csr[start:stop].toarray())
            order = np.array(data.draw(st.lists(st.integers(0, shape[0] - 1), max_size=9)), dtype=int)
            np.testing.assert_array_equal(store.take(order).toarray(), csr.toarray()[order])


@pytest.mark.parametrize("name", ["a.npy", "a.h5", "a.zarr", "a.parquet", "a.csv"])
def test_solve__takes_the_file(name, tmp_path):
    DENSE[name](tmp_path / name, A, 16)
    np.save(tmp_path / "b.npy", b)
    assert relative_error(rowsolve.solve(tmp_path / name, tmp_path / "b.npy", rng=0).x, X_TRUE) < 2e-6


def test_solve__takes_sparse_groups_and_chunks(tmp_path):
    csr_in_hdf5(tmp_path / "s.h5", sparse.csr_array(A), 16)
    assert relative_error(rowsolve.solve(tmp_path / "s.h5:/S", b, rng=0).x, X_TRUE) < 2e-6
    assert relative_error(rowsolve.solve(in_chunks(A, b, 50), None, rng=0).x, X_TRUE) < 2e-6
    assert relative_error(rowsolve.solve(open_store(in_chunks(A, b, 50)), None, rng=0).x, X_TRUE) < 2e-6


def test_chunk__is_what_the_format_stores_together(tmp_path):
    found = {}
    for name, write in DENSE.items():
        write(tmp_path / name, A, 16)
        with open_store(tmp_path / name) as store:
            found[name] = store.chunk
            assert not store.ordered
    assert found == {
        "a.npy": 1, "f.npy": 120, "a.npz": 1, "a.csv": 120, "a.h5": 16, "b.hdf5": 16, "a.zarr": 16, "v2.zarr": 16,
        "a.parquet": 16,
    }  # fmt: skip


def test_eps__is_that_of_the_stored_numbers(tmp_path):
    for dtype, eps in (("f2", 2.0**-10), ("f4", 2.0**-23), ("f8", 2.0**-52), ("i2", 2.0**-52)):
        write_hdf5(tmp_path / "a.h5", A.astype(dtype), 7)
        with open_store(tmp_path / "a.h5") as store:
            assert precision(store.stored_dtype) == eps
            assert store.whole().dtype == dtype  # so that solve knows it too


def test_datasets__are_chosen_by_name(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["train/A"], file["train/b"], file["C"] = A, b, 2 * A
    group = zarr.create_group(tmp_path / "a.zarr")
    for name, values in (("train/A", A), ("train/b", b), ("C", 2 * A)):
        group.create_array(name, data=values)
    for file in (tmp_path / "a.h5", tmp_path / "a.zarr"):
        np.testing.assert_array_equal(load_matrix(f"{file}:/train/A"), A)
        np.testing.assert_array_equal(load_vector(f"{file}:train/b"), b)
        with pytest.raises(
            ValueError, match=r"several datasets, C \(120 x 5\), train/A \(120 x 5\), train/b \(120\)\. Choo"
        ):
            open_store(file)
        with pytest.raises(ValueError, match=r"has no dataset 'D'; there are C \(120 x 5\), train/A"):
            open_store(f"{file}:/D")


def test_columns__are_chosen_by_name_and_b_is_left_out_of_a(tmp_path):
    names = ["age", "rooms", "area", "x y", "é"]
    columns = {**dict(zip(names, A.T, strict=True)), "price": b}
    pq.write_table(pa.table(columns), tmp_path / "t.parquet", row_group_size=50)
    lines = [",".join(columns), *(",".join(map(repr, row)) for row in np.column_stack([A, b]).tolist())]
    (tmp_path / "t.csv").write_text("\n".join(lines), encoding="utf-8")
    for file in (tmp_path / "t.parquet", tmp_path / "t.csv"):
        found, rhs = load_system(file, f"{file}:price")
        np.testing.assert_array_equal(found, A)
        np.testing.assert_array_equal(rhs, b)
        store, rhs = open_system(f"{file}:é,age", f"{file}:price")
        with store, rhs:
            assert store.columns == ("é", "age")
            np.testing.assert_array_equal(store.read(7, 90), A[7:90][:, [4, 0]])
        with pytest.raises(ValueError, match="has no column 'cost'; there are age, rooms, area, x y, é, price"):
            load_system(file, f"{file}:cost")


def test_parquet__reads_every_kind_of_number(tmp_path):
    table = pa.table({
        "a": pa.array([1, 2, 3], pa.int64()), "b": pa.array([True, False, True]),
        "c": pa.array(["0.5", "1.5", "2.5"]).cast(pa.decimal128(5, 2)), "d": pa.array([1.0, 2.0, 3.0], pa.float32()),
    })  # fmt: skip
    pq.write_table(table, tmp_path / "a.parquet")
    np.testing.assert_array_equal(load_matrix(tmp_path / "a.parquet"), [[1, 1, 0.5, 1], [2, 0, 1.5, 2], [3, 1, 2.5, 3]])


@pytest.mark.parametrize("name", ["a.csv", "a.parquet"])
def test_streams__of_many_blocks_are_read_from_anywhere(name, tmp_path, monkeypatch):
    monkeypatch.setattr(text_module, "BLOCK_BYTES", 300)
    monkeypatch.setattr(parquet_module, "PIECE_BYTES", 300)
    DENSE[name](tmp_path / name, A, 50)
    with open_store(tmp_path / name) as store:
        assert store.chunk == (50 if name == "a.parquet" else 4)
        rng = np.random.default_rng(0)
        monkeypatch.setattr(store_module, "BYTES_AT_ONCE", 300)
        order = rng.permutation(120)[:50]
        np.testing.assert_array_equal(store.take(order), A[order])
        for start, stop in np.sort(rng.integers(0, 121, (200, 2)), axis=1):
            np.testing.assert_array_equal(store.read(start, stop), A[start:stop])


def test_csv__is_read_alike_without_pyarrow(tmp_path, monkeypatch):
    (tmp_path / "a.csv").write_text("1, 2\n 3e0 ,+4\n\n-5.5,1e-320\n")
    with_it = load_matrix(tmp_path / "a.csv")
    monkeypatch.setattr(text_module, "_fast", lambda *_, **__: None)
    assert load_matrix(tmp_path / "a.csv").tolist() == with_it.tolist() == [[1, 2], [3, 4], [-5.5, 1e-320]]


def in_chunks(A, b, size):
    def chunks():
        for start in range(0, len(b), size):
            yield A[start : start + size], b[start : start + size]

    return chunks


@settings(max_examples=30)
@given(data=st.data())
def test_chunks__equal_slices(data):
    n_rows, size = data.draw(st.integers(1, 9)), data.draw(st.integers(1, 9))
    make = data.draw(st.sampled_from([np.asarray, sparse.csr_array]))
    values = np.arange(1.0, 1 + 3 * n_rows, dtype=np.float32).reshape(n_rows, 3)
    store = Chunks(in_chunks(make(values), np.arange(n_rows), size))
    assert store.shape == (n_rows, 3)
    assert store.dtype == np.float32
    assert store.ordered
    assert store.chunk == min(size, n_rows)
    assert store.sparse == (make is not np.asarray)
    assert store.rhs.tolist() == list(range(n_rows))
    for start, stop in data.draw(st.permutations(list(combinations_with_replacement(range(n_rows + 1), 2)))):
        found = store.read(start, stop)
        np.testing.assert_array_equal(found.toarray() if store.sparse else found, values[start:stop])


@pytest.mark.parametrize(
    ("chunks", "words"),
    [
        ([A], "chunk 0 must be a pair"),
        ([(A, b[:3])], r"chunk 0: A_chunk has 120 rows, but b_chunk has shape \(3,\)"),
        ([(A, b), (A[:, :2], b)], "chunk 1 has 2 columns, but chunk 0 has 5"),
        ([(A * 1j, b)], "chunk 0 must hold real numbers"),
        ([], "contains no numbers"),
    ],
)
def test_chunks__that_are_invalid_raise_an_error(chunks, words):
    with pytest.raises(ValueError, match=words):
        open_store(lambda: iter(chunks))


def test_chunks__must_be_the_same_each_time():
    calls = []

    def fewer_each_time():
        calls.append(1)
        yield A[: 100 // len(calls)], b[: 100 // len(calls)]

    store = open_store(fewer_each_time)
    with pytest.raises(ValueError, match=r"has fewer rows than when it was opened \(100\)"):
        store.read(90, 100)
    with pytest.raises(ValueError, match="an iterator can be read only once: pass the function"):
        open_store(iter([(A, b)]))
    with pytest.raises(ValueError, match="the right-hand side is part of the chunks: pass None for `b`"):
        rowsolve.solve(in_chunks(A, b, 9), b)
    with pytest.raises(ValueError, match="there is no right-hand side: pass `b`"):
        open_system(A, None)


def test_stores_of_the_caller__stay_open(tmp_path):
    write_hdf5(tmp_path / "a.h5", A, 16)
    write_hdf5(tmp_path / "b.h5", b, 16)
    with open_store(tmp_path / "a.h5") as store, open_store(tmp_path / "b.h5") as rhs:
        load_system(store, rhs)
        rowsolve.convert(store, tmp_path / "c.npy")
        rowsolve.convert(store, tmp_path / "d.npy", rhs=rhs)
        np.testing.assert_array_equal(store.read(0, 120), A)
        np.testing.assert_array_equal(rhs.read(0, 120)[:, 0], b)
    np.testing.assert_array_equal(np.load(tmp_path / "d.b.npy"), b)


def test_colons__may_be_in_names_too(tmp_path):
    write_npy(tmp_path / "a.csv:b.npy", A, 1)
    np.testing.assert_array_equal(load_matrix(tmp_path / "a.csv:b.npy"), A)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x.csv:y"] = A
    np.testing.assert_array_equal(load_matrix(f"{tmp_path}/a.h5:/x.csv:y"), A)


def test_out__must_fit(tmp_path):
    write_npy(tmp_path / "a.npy", A, 1)
    with open_store(tmp_path / "a.npy") as store:
        for out in (np.empty((2, 5)), np.empty((3, 5), np.float32), np.empty((5, 3)).T):
            with pytest.raises(ValueError, match=r"`out` must have shape \(3, 5\) and dtype float64 in C order"):
                store.read(0, 3, out)
        with pytest.raises(IndexError, match=r"rows 119 to 121 are out of range: there are 120 rows"):
            store.read(119, 121)
    with pytest.raises(TypeError, match="is sparse, so its rows cannot be read into an array"):
        open_store(sparse.csr_array(A)).read(0, 3, np.empty((3, 5)))


@pytest.mark.parametrize(("ending", "extra"), [("h5", "hdf5"), ("zarr", "zarr"), ("parquet", "parquet")])
def test_libraries_that_are_absent__are_named_with_the_way_to_get_them(ending, extra, tmp_path, monkeypatch):
    def absent(name):
        raise ImportError(f"No module named {name}")

    DENSE[f"a.{ending}"](tmp_path / f"a.{ending}", A, 16)
    monkeypatch.setattr(store_module.importlib, "import_module", absent)
    with pytest.raises(ImportError, match=rf"{ending} needs \w+: pip install 'rowsolve\[{extra}\]'"):
        open_store(tmp_path / f"a.{ending}")


def test_a_column_that_is_not_there__names_some_of_those_that_are(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({f"c{j}": [1.0, 2.0] for j in range(40)}), tmp_path / "wide.parquet")
    with pytest.raises(ValueError, match=r"has no column 'b'; there are c0, c1, .*, c11 and 28 more"):
        open_store(f"{tmp_path / 'wide.parquet'}:b")
