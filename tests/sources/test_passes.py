"""One pass over rows in a file: the same numbers in every format, read-ahead, and the memory of columns."""

from __future__ import annotations

import threading

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr

import rowsolve
from rowsolve.problem.system import System
from rowsolve.sources import open_store
from rowsolve.sources import parquet as parquet_module
from rowsolve.sources.arrays import is_mapped
from rowsolve.sources.stored import memory_for, open_stored
from rowsolve.sources.streams import prefetched

SHAPES = [(1, 7), (30, 90), (157, 5), (1001, 3)]
DTYPES = ["f2", "f4", "f8", ">f8", "i2", "?"]


def numbers(shape, dtype):
    values = 10.0 * np.random.default_rng(0).standard_normal(shape)
    return (values > 0.0) if dtype == "?" else values.astype(dtype)


def write_h5(path, values, **options):
    with h5py.File(path, "w") as file:
        file.create_dataset("A", data=values, **options)


def write_parquet(path, values, size, **options):
    native = values.astype(values.dtype.newbyteorder("="))
    columns = {f"x{j}": np.ascontiguousarray(column) for j, column in enumerate(native.T)}
    pq.write_table(pa.table(columns), path, row_group_size=size, **options)


WRITERS = {
    "rows.h5": write_h5,
    "chunks.h5": lambda path, values: write_h5(path, values, chunks=True, compression="gzip"),
    "rows.zarr": lambda path, values: zarr.create_array(path, data=values),
    "rows.parquet": lambda path, values: write_parquet(path, values, 53),
    "one.parquet": lambda path, values: write_parquet(path, values, 5000, data_page_size=64),
    "plain.parquet": lambda path, values: write_parquet(path, values, 7, use_dictionary=False, compression="none"),
}


def rows_in(store):
    """Return all rows from the pieces of a pass within the least possible memory."""
    least = 2.0 * store.footprint.least_bytes + 16.0 * store.shape[0] + 1e6
    rows = open_stored(store, memory_for(store, 1, least, 1))
    system = System(rows, np.ones(store.shape[0]))
    found = [piece.rows.values[piece.start : piece.stop].copy() for piece in system.pieces()]
    rows.close()
    return np.vstack(found)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", WRITERS)
def test_a_pass__brings_the_numbers_that_were_written(name, shape, dtype, tmp_path, monkeypatch):
    monkeypatch.setattr(parquet_module, "PIECE_BYTES", 40 * 8 * shape[1])
    monkeypatch.setattr(parquet_module, "BLOCK_BYTES", 11 * 8 * shape[1])
    values = numbers(shape, dtype)
    WRITERS[name](tmp_path / name, values)
    with open_store(tmp_path / name) as store:
        found = rows_in(store)
    assert found.dtype == (np.float32 if dtype in ("f2", "f4") else np.float64)
    np.testing.assert_array_equal(found, values)


@pytest.mark.parametrize("statistics", [True, False])
def test_nulls__are_nan_in_any_tile_or_an_error(statistics, tmp_path, monkeypatch):
    monkeypatch.setattr(parquet_module, "PIECE_BYTES", 40 * 16)
    monkeypatch.setattr(parquet_module, "BLOCK_BYTES", 11 * 16)
    values = numbers((157, 2), "f8")
    spoiled = [None if i in (3, 62, 156) else value for i, value in enumerate(values[:, 1])]
    table = pa.table({"a": values[:, 0], "b": pa.array(spoiled)})
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=60, write_statistics=statistics)
    values[[3, 62, 156], 1] = np.nan
    with open_store(tmp_path / "t.parquet", allow_nan=True) as store:
        np.testing.assert_array_equal(rows_in(store), values)
    with pytest.raises(ValueError, match=r"t\.parquet: column 'b' has no value in row 3:"):  # noqa: SIM117
        with open_store(tmp_path / "t.parquet") as store:
            rows_in(store)


PAGES = [
    {"use_dictionary": False}, {}, {"compression": "zstd"}, {"data_page_version": "2.0"}, {"data_page_size": 1 << 14},
    {"use_dictionary": False, "write_page_checksum": True},
]  # fmt: skip


@pytest.mark.parametrize("options", PAGES, ids=str)
def test_open_columns__take_as_much_memory_as_their_pages_and_dictionaries_tell(options, tmp_path):
    write_parquet(tmp_path / "t.parquet", numbers((60_000, 20), "f8"), 60_000, **options)
    with open_store(tmp_path / "t.parquet") as store:
        pool = pa.default_memory_pool()
        before = pool.bytes_allocated()
        batches = store._file.iter_batches(16, use_threads=False)
        next(batches)
        taken = pool.bytes_allocated() - before
        del batches
        assert 0.6 * taken <= store._bytes_open <= 1.7 * taken


def test_a_header_that_is_none__counts_as_a_page_of_a_megabyte():
    for header in (b"", b"\x15", b"\x15\x00\x2c\x15\x02", b"\xff" * 64):
        assert parquet_module._bytes_of_page(header, 8) == 1 << 20


def decoders():
    return [thread for thread in threading.enumerate() if thread.name.startswith("rowsolve-decoder")]


def test_prefetched__keeps_the_order_and_makes_the_next_one_meanwhile():
    made = []

    def items():
        for i in range(5):
            made.append((i, threading.current_thread().name))
            yield i

    ahead = prefetched(items())
    assert next(ahead) == 0
    assert [i for i, _ in made] == [0]  # who wants but one does not wait for another
    assert next(ahead) == 1
    for _ in range(1000):
        if len(made) == 3:
            break
        threading.Event().wait(0.005)
    assert [i for i, _ in made] == [0, 1, 2]
    assert made[2][1].startswith("rowsolve-decoder")
    assert list(ahead) == [2, 3, 4]
    assert not decoders()
    assert list(prefetched(iter(()))) == []


def test_prefetched__tells_what_went_wrong_and_ends_when_it_is_left():
    def items():
        yield from (0, 1)
        raise OSError("a scratch")

    ahead = prefetched(items())
    assert [next(ahead), next(ahead)] == [0, 1]
    with pytest.raises(OSError, match="a scratch"):
        next(ahead)
    ahead = prefetched(iter(range(9)))
    assert [next(ahead), next(ahead)] == [0, 1]
    assert decoders()
    ahead.close()
    assert not decoders()


def test_hdf5__that_is_stored_in_one_piece_is_mapped(tmp_path):
    values, path = numbers((500, 6), "f8"), tmp_path / "a.h5"
    with h5py.File(path, "w", userblock_size=512) as file:
        file["A"] = values
    with open_store(path) as store:
        assert store.has_views
        assert is_mapped(store)
        np.testing.assert_array_equal(store.view(17, 400), values[17:400])
        np.testing.assert_array_equal(store.take(np.array([499, 0, 3])), values[[499, 0, 3]])
        np.testing.assert_array_equal(store.whole(), values)
        path.write_bytes(path.read_bytes()[: -6 * 8 * 100])
        with pytest.raises(ValueError, match=r"a\.h5:/A: was truncated .*: rows from 4\d\d on are missing"):
            store.view(0, 500)
    b = values @ np.ones(6)
    write_h5(path, values)
    found = rowsolve.solve(path, b, memory="40kB", rng=0)
    np.testing.assert_allclose(found.x, 1.0, rtol=1e-6)


def test_hdf5__that_is_in_another_file_or_has_other_numbers_is_read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    values = numbers((40, 3), "f8")
    write_h5("a.h5", values)
    write_h5("ints.h5", np.arange(12).reshape(4, 3))
    write_h5("swapped.h5", values.astype(">f8"))
    with h5py.File("outside.h5", "w") as file:
        file.create_dataset("A", values.shape, "f8", external=[("raw.bin", 0, values.nbytes)])[...] = values
    with h5py.File("virtual.h5", "w") as file:
        layout = h5py.VirtualLayout(values.shape, "f8")
        layout[...] = h5py.VirtualSource("a.h5", "A", values.shape)
        file.create_virtual_dataset("A", layout)
    with h5py.File("link.h5", "w") as file:
        file["A"] = h5py.ExternalLink("a.h5", "/A")
    for name, mapped in (("ints", False), ("swapped", False), ("outside", False), ("virtual", False), ("link", True)):
        with open_store(f"{name}.h5") as store:
            assert store.has_views == mapped
            expected = np.arange(12).reshape(4, 3) if name == "ints" else values
            np.testing.assert_array_equal(store.read(0, store.shape[0]), expected)
            if name in ("virtual", "link"):
                assert tmp_path / "a.h5" in {file.absolute() for file in store.files}


def test_a_pass_in_order__takes_less_memory_than_chunks_and_reads_what_is_stored_together_once(tmp_path):
    values = numbers((40_000, 100), "f8")
    write_h5(tmp_path / "a.h5", values, chunks=(3000, 100))
    with open_store(tmp_path / "a.h5") as store:
        rows = open_stored(store, memory_for(store, 1, 100e6, 1))
        system = System(rows, np.ones(40_000))
        assert rows.memory.chunk == 12_000
        assert [piece.n_rows for piece in system.pieces()] == [9_000] * 4 + [4_000]  # 7.2 MB
        assert store.bytes_read == values.nbytes
        found = [piece.first for piece in system.pieces(skip=2)]
        assert found == [18_000, 27_000, 36_000]
        rows = open_stored(store, memory_for(store, 1, 300e6, 1))
        assert rows.rows_of_a_piece == 9_000 < rows.memory.chunk
