"""No column is dropped silently: columns without numbers and missing values raise an error."""

from __future__ import annotations

import datetime
import warnings

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr
from typer.testing import CliRunner

import rowsolve
from rowsolve.cli import app
from rowsolve.sources import load_matrix, load_system, load_vector, open_store, open_system
from rowsolve.sources import text as text_module

N = 60
RNG = np.random.default_rng(0)
AGE, ROOMS = RNG.integers(0, 90, N), RNG.standard_normal(N)
GARDEN = RNG.random(N) < 0.5
PRICE = 2.0 * AGE + 3.0 * ROOMS - GARDEN
CITY = np.array(["London", "Oslo, N", "Łódź"] * (N // 3))
NUMBERS = np.column_stack([AGE, ROOMS, GARDEN])
X = np.array([2.0, 3.0, -1.0])


def write_parquet(path):
    columns = {"city": CITY, "age": AGE, "rooms": ROOMS, "garden": GARDEN, "price": PRICE}
    pq.write_table(pa.table(columns), path, row_group_size=25)


def write_csv(path):
    lines = ['"city",age,rooms,garden,price']
    for city, *cells in zip(CITY, AGE, ROOMS, GARDEN.astype(int), PRICE, strict=True):
        lines.append(",".join([f'"{city}"', *(repr(cell.item()) for cell in cells)]))
    path.write_text("\n".join(lines), encoding="utf-8")


def records():
    kinds = [("city", "S9"), ("age", "i4"), ("rooms", "f8"), ("garden", "?"), ("price", "f8")]
    found = np.empty(N, kinds)
    for (name, _), values in zip(kinds, (np.char.encode(CITY, "utf-8"), AGE, ROOMS, GARDEN, PRICE), strict=True):
        found[name] = values
    return found


def write_npy(path):
    np.save(path, records())


def write_npz(path):
    np.savez(path, houses=records())


def write_hdf5(path):
    with h5py.File(path, "w") as file:
        file.create_dataset("houses", data=records(), chunks=(25,))


def write_zarr(path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its text is not in the specification
        zarr.create_group(path, zarr_format=2).create_array("houses", data=records(), chunks=(25,))


def write_root_zarr(path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        zarr.create_array(path, data=records(), chunks=(25,), zarr_format=2)


# How each is written, and how the table in it is called.
TABLES = {
    "t.parquet": (write_parquet, ""), "t.csv": (write_csv, ""), "t.npy": (write_npy, ""), "t.npz": (write_npz, ""),
    "t.h5": (write_hdf5, "/houses:"), "t.zarr": (write_zarr, "/houses:"), "root.zarr": (write_root_zarr, ""),
}  # fmt: skip


@pytest.fixture(params=TABLES)
def table(request, tmp_path, monkeypatch):
    """The name of a file and a colon, to which column names are appended."""
    monkeypatch.chdir(tmp_path)
    write, place = TABLES[request.param]
    write(tmp_path / request.param)
    return f"{request.param}:{place}"


def test_a_column_of_text__is_an_error_that_says_how_to_choose(table):
    for where, rhs in (
        (table.rstrip(":"), PRICE),
        (table.rstrip(":"), f"{table}price"),
        (table.partition(":")[0], PRICE),
    ):
        for call in (rowsolve.solve, rowsolve.inspect, load_system, open_system):
            with pytest.raises(ValueError, match=r"city.* Choose columns by name, as in") as error:
                call(where, rhs)
            words = str(error.value)
            assert words.startswith(table.partition(":")[0])
            assert f"as in {table}age,rooms,garden." in words
    with pytest.raises(ValueError, match="'city'"):
        rowsolve.convert(table.rstrip(":"), "u.parquet")
    with pytest.raises(ValueError, match="'city'"):
        rowsolve.solve(NUMBERS, f"{table}city")


def test_columns__are_chosen_by_name_beside_text(table, monkeypatch):
    for fast in (True, False):
        if not fast:
            monkeypatch.setattr(text_module, "_fast", lambda *_, **__: None)
        np.testing.assert_array_equal(load_matrix(f"{table}rooms,age"), NUMBERS[:, [1, 0]])
        np.testing.assert_array_equal(load_vector(f"{table}price"), PRICE)
        with open_store(f"{table}garden,rooms") as store:
            assert store.columns == ("garden", "rooms")
            np.testing.assert_array_equal(store.read(17, 49), NUMBERS[17:49][:, [2, 1]])
    found = rowsolve.solve(f"{table}age,rooms,garden", f"{table}price", rng=0)
    np.testing.assert_allclose(found.x, X, rtol=1e-6)
    found = rowsolve.solve(f"{table}age,rooms,garden", f"{table}price", rng=0, memory="200kB")
    np.testing.assert_allclose(found.x, X, rtol=1e-6)
    rowsolve.convert(f"{table}age,rooms,garden", "u.csv", rhs=f"{table}price")
    with open_store("u.csv") as store:
        assert store.columns == ("age", "rooms", "garden", "b")
    with pytest.raises(ValueError, match=r"has no column 'cost'; there are city, age, rooms, garden, price"):
        load_matrix(f"{table}cost")


def test_b__is_left_out_of_a_in_every_format(table):
    rowsolve.convert(f"{table}age,rooms,garden", "u.csv", rhs=f"{table}price")
    whole = load_matrix("u.csv")
    kinds = [(name, float) for name in ("age", "rooms", "garden", "price")]
    plain = np.array(list(map(tuple, whole)), kinds)
    if table.startswith("t.h5"):
        with h5py.File("v.h5", "w") as file:
            file["houses"] = plain
            file["others"] = plain
        places = [("v.h5:/houses", "v.h5:/houses:price"), ("v.h5:houses", "v.h5:houses:price")]
    elif table.startswith("t.npy"):
        np.save("v.npy", plain)
        places = [("v.npy", "v.npy:price")]
    elif table.startswith("root.zarr"):
        zarr.create_array("v.zarr", data=plain, zarr_format=2)
        places = [("v.zarr", "v.zarr:price")]
    else:
        places = [("u.csv", "u.csv:b")]
    for where, rhs in places:
        found, b = load_system(where, rhs)
        np.testing.assert_array_equal(found, NUMBERS)
        np.testing.assert_array_equal(b, PRICE)
    if table.startswith("t.h5"):  # a column of another table is none of this one
        assert load_system("v.h5:/others", "v.h5:/houses:price")[0].shape == (N, 4)
        with h5py.File("one.h5", "w") as file:
            file["houses"] = plain
        np.testing.assert_array_equal(load_system("one.h5", "one.h5:/houses:price")[0], NUMBERS)


def test_every_kind_that_is_no_number__is_named(tmp_path):
    day = datetime.date(2020, 1, 1)
    pq.write_table(
        pa.table(
            {
                "a": [1.0],
                "day": [day],
                "list": [[1, 2]],
                "none": pa.nulls(1),
                "kind": pa.array(["x"]).dictionary_encode(),
            }
        ),
        tmp_path / "t.parquet",
    )
    words = (
        r"columns 'day' \(date32\[day\]\), 'list' \(list<.*>\), 'none' \(null\), 'kind' \(dictionary<.*>\) are not num"
    )
    with pytest.raises(ValueError, match=words):
        open_store(tmp_path / "t.parquet")
    kinds = [("a", float), ("day", "datetime64[D]"), ("pair", float, (2,)), ("z", complex)]
    np.save(tmp_path / "t.npy", np.zeros(3, kinds))
    words = r"columns 'day' \(datetime64\[D\]\), 'pair' \(.*\), 'z' \(complex128\) are not numeric. Choose .*t\.npy:a\."
    with pytest.raises(ValueError, match=words):
        open_store(tmp_path / "t.npy")
    np.save(tmp_path / "t.npy", np.zeros((3, 2), kinds))
    with pytest.raises(ValueError, match="expected a one-dimensional array of records"):
        open_store(tmp_path / "t.npy")
    with pytest.raises(
        TypeError, match=r"`A` must be an array of numbers, got records. Try np.column_stack\(\[A\['a'\], "
    ):
        rowsolve.solve(np.zeros(3, kinds), np.ones(3))


def test_a_csv_without_names__says_that_names_are_needed_to_choose(tmp_path):
    (tmp_path / "t.csv").write_text("London,1,2020-01-01\nOslo,2,2020-01-02\n")
    words = r"t\.csv, line 1: .* got 'London' in column 0, '2020-01-01' in column 2\. To choose columns by name, add"
    with pytest.raises(ValueError, match=words):
        load_matrix(tmp_path / "t.csv")
    (tmp_path / "t.csv").write_text("city,age\nLondon,1,2\n")
    with pytest.raises(ValueError, match="has 2 names in its header row but 3 columns, so columns cannot be chosen"):
        load_matrix(f"{tmp_path}/t.csv:age")


def test_a_csv_of_many_lines__names_the_line_and_the_column(tmp_path, monkeypatch):
    monkeypatch.setattr(text_module, "BLOCK_BYTES", 100)
    lines = [f"{i},{i / 2},x{i}" for i in range(100)]
    for spoiled, words in (
        (
            "70,NA,x70",
            r"line 72: expected numbers .*, got 'NA' in column 'b'\. Choose columns by name, as in .*t\.csv:a\.",
        ),
        ("70,,x70", r"line 72: column 'b' has no value: fill it in, or remove such lines"),
        ("70, ,x70", r"line 72: column 'b' has no value: fill it in, or remove such lines"),
        ("70,1", r"line 72: expected numbers .*, 3 of them as in the previous lines, got 2"),
        ("70,1,2,x70", r"line 72: expected numbers .*, 3 of them as in the previous lines, got 4"),
    ):
        path = tmp_path / "t.csv"
        path.write_text("\n".join(["a,b,c", *lines[:70], spoiled, *lines[71:]]))
        for _ in range(2):
            with pytest.raises(ValueError, match=rf"t\.csv, {words}"):
                load_matrix(f"{path}:a,b")
            if "got 2" not in words and "got 4" not in words:
                assert load_matrix(f"{path}:a").shape == (100, 1)
            monkeypatch.setattr(text_module, "_fast", lambda *_, **__: None)
        monkeypatch.undo()
        monkeypatch.setattr(text_module, "BLOCK_BYTES", 100)


def write_with_nulls(path, statistics):
    rooms = pa.array([None if i in (37, 41) else float(i) for i in range(N)])
    floors = pa.array([None if i == 39 else i for i in range(N)])
    columns = {"age": AGE, "rooms": rooms, "floors": floors, "deep": [{"age": None, "x": 1}] * N}
    pq.write_table(pa.table(columns), path, row_group_size=10, write_statistics=statistics)


@pytest.mark.parametrize("statistics", [True, False])
def test_a_null__is_an_error_with_its_column_and_row(statistics, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_with_nulls("t.parquet", statistics)
    words = r"t\.parquet: column 'rooms' has no value in row 37: fill it in, or remove such rows \(and their"
    for seed in range(5):
        with pytest.raises(ValueError, match=words):
            rowsolve.solve("t.parquet:age,rooms,floors", PRICE, rng=seed)
    with pytest.raises(ValueError, match="column 'floors' has no value in row 39"):
        rowsolve.solve("t.parquet:age", "t.parquet:floors")
    with pytest.raises(ValueError, match=words):
        rowsolve.convert("t.parquet:age,rooms", "t.npy")
    assert not (tmp_path / "t.npy").exists()
    if statistics:  # known without a look at the rows
        with pytest.raises(ValueError, match=words):
            open_store("t.parquet:rooms")
    assert load_matrix("t.parquet:age").shape == (N, 1)  # the others do not matter
    rowsolve.convert("t.parquet:age,rooms", "t.npy", allow_nan=True)
    expected = np.where(np.isin(np.arange(N), (37, 41)), np.nan, np.arange(N))
    np.testing.assert_array_equal(np.load("t.npy")[:, 1], expected)


@pytest.mark.parametrize("fast", [True, False])
def test_an_empty_cell__becomes_nan_only_if_that_is_asked_for(fast, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if not fast:
        monkeypatch.setattr(text_module, "_fast", lambda *_, **__: None)
    (tmp_path / "t.csv").write_text("a,b\n1,\n,4\n5,6\n")
    with pytest.raises(ValueError, match=r"t\.csv, line 2: column 'b' has no value"):
        rowsolve.convert("t.csv", "t.npy")
    rowsolve.convert("t.csv", "t.npy", allow_nan=True)
    np.testing.assert_array_equal(np.load("t.npy"), [[1, np.nan], [np.nan, 4], [5, 6]])


def test_what_convert_writes__lacks_no_value_by_its_schema(tmp_path):
    rowsolve.convert(NUMBERS, tmp_path / "t.parquet", rhs=PRICE)
    assert not any(field.nullable for field in pq.read_schema(tmp_path / "t.parquet"))


def test_records__that_were_cut_raise_an_error(tmp_path):
    write_npy(tmp_path / "t.npy")
    with open_store(f"{tmp_path}/t.npy:age,rooms") as store:
        whole = (tmp_path / "t.npy").read_bytes()
        (tmp_path / "t.npy").write_bytes(whole[:-1])
        np.testing.assert_array_equal(store.read(0, N - 1), NUMBERS[:-1, :2])
        with pytest.raises(ValueError, match="the file was truncated after it was opened"):
            store.read(N - 2, N)


def test_command_line__names_the_column_and_how_to_choose(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_parquet(tmp_path / "t.parquet")
    for command, *options in (("solve", "-o", "x.npy"), ("inspect",), ("race",)):
        args = [command, "t.parquet", "t.parquet:price", *options]
        result = CliRunner().invoke(app, args, env={"COLUMNS": "200"})
        assert result.exit_code == 2
        assert (
            "error: t.parquet: column 'city' (string) is not numeric. Choose columns by name, as in "
            "t.parquet:age,rooms,garden." in result.stderr
        )
    result = CliRunner().invoke(app, ["convert", "t.parquet", "u.npy"])
    assert "column 'city' (string) is not numeric" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["t.parquet"]
