"""NaN and infinity are detected: a small A is checked completely; for a large one the message says how much."""

from __future__ import annotations

import warnings
from pathlib import Path

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import JIT, gaussian
from scipy import sparse
from typer.testing import CliRunner

import rowsolve
from rowsolve import _validate
from rowsolve.cli import app
from rowsolve.problem.system import System
from rowsolve.sources import open_rows
from rowsolve.sources.finite import NotFinite, first_not_finite

KINDS = {
    "c": np.ascontiguousarray, "fortran": np.asfortranarray, "float32": lambda A: A.astype(np.float32),
    "strided": lambda A: np.repeat(np.repeat(A, 2, axis=0), 2, axis=1)[::2, ::2],
    "csr": sparse.csr_array, "csc": sparse.csc_matrix,
}  # fmt: skip
SMALL = 2000 if JIT else 300
LARGE = (40_000, 40)  # more numbers than are looked at beforehand, or factored at once
LARGEST = (100_000, 90)  # not solved at once
WORDS = r"`A` must be finite: row {} has {} in column {}\. Try removing or repairing such rows \(and their entries of"


@pytest.fixture(autouse=True)
def _no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def with_one(value, shape=(SMALL, 20), at=(7, 3)):
    A, b, _ = gaussian(*shape)
    A[at] = value
    return A, b


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_one_nonfinite_row__never_passes(kind, value):
    A, b = with_one(value)
    for seed in range(5):
        with pytest.raises(ValueError, match=WORDS.format(7, value, 3)):
            rowsolve.solve(KINDS[kind](A), b, rng=seed)
    with pytest.raises(ValueError, match=WORDS.format(7, value, 3)):
        rowsolve.inspect(KINDS[kind](A), b, rng=0)


def test_first_not_finite__agrees_with_a_closer_look(monkeypatch):
    monkeypatch.setattr("rowsolve.sources.finite.BYTES_AT_ONCE", 96)
    rng = np.random.default_rng(0)
    for _ in range(50):
        A = rng.standard_normal((9, 4)) * (rng.random((9, 4)) < 0.5)
        A[tuple(rng.integers(0, A.shape, 2))] = rng.choice([np.nan, np.inf, -np.inf, 1.0])
        A[tuple(rng.integers(0, A.shape, 2))] = rng.choice([np.inf, -np.inf, 2.0])
        expected = next((NotFinite(i, j, A[i, j]) for i, j in np.ndindex(A.shape) if not np.isfinite(A[i, j])), None)
        for rows in (A, np.asfortranarray(A), sparse.csr_array(A)):
            found = first_not_finite(rows)
            assert (found is None) == (expected is None)
            if found is not None:
                np.testing.assert_equal(tuple(found), tuple(expected))


def test_huge_numbers__whose_sum_overflows_are_no_infinity():
    assert first_not_finite(np.full((50, 3), 1e308)) is None
    assert first_not_finite(np.full(300, 3e38, np.float32)) is None
    A, b, x = gaussian(300, 5)
    scale = np.float32(1e37)
    found = rowsolve.solve((A * scale).astype(np.float32), b * scale, rng=0, rtol=1e-4)
    np.testing.assert_allclose(found.x, x, rtol=1e-3)


@pytest.mark.compiled
def test_a_large_matrix__is_checked_as_it_is_read_and_the_message_says_so():
    A, b = with_one(np.nan, LARGE, (39_999, 2))
    found = rowsolve.solve(A, b, "cyclic", rng=3)
    assert found.converged
    extremes = 2  # of b
    n_used = found.rows_read - found.row_check.n_rows - extremes  # each once, so all of them are different
    checked = f" Only the {n_used + found.row_check.n_fresh:,} rows that were read (of 40,000) were checked for NaN and"
    assert found.message.endswith(f"{checked} infinity.")
    for options in ({"check": "full"}, {"method": "refined"}, {"method": "jl"}):  # all rows are read
        with pytest.raises(ValueError, match=WORDS.format(39_999, "nan", 2)), np.errstate(all="ignore"):
            rowsolve.solve(A, b, **{"method": "cyclic", "rng": 3, **options})
    assert "NaN" not in str(rowsolve.solve(A, b, "cyclic", rng=3, check_finite=False).message)


@pytest.mark.compiled
@pytest.mark.parametrize("options", [{"check": "full"}, {"method": "refined"}, {"method": "jl"}])
def test_a_large_matrix_whose_rows_are_all_read__needs_no_message(options):
    A, b, _ = gaussian(*LARGEST)
    assert "NaN" in rowsolve.solve(A, b, rng=0).message
    assert "NaN" not in rowsolve.solve(A, b, rng=0, **options).message
    assert "NaN" not in rowsolve.solve(A.astype(int), b, rng=0, max_passes=1).message  # integers have none
    report = rowsolve.inspect(A, b, rng=0)
    assert not report.checked
    assert "Only the rows that were read were checked for NaN and infinity." in " ".join(str(report).split())
    report = rowsolve.inspect(A[:2000], b[:2000], rng=0)
    assert report.checked
    assert "NaN" not in str(report)


@pytest.mark.compiled
def test_the_limit__grows_with_the_columns(monkeypatch):
    seen = []
    look = _validate.Source.first_not_finite
    monkeypatch.setattr(_validate.Source, "first_not_finite", lambda self: seen.append(self.shape) or look(self))
    for shape in ((20_020, 5), (20_021, 5), (1400, 100), (1401, 100)):
        A, b, _ = gaussian(*shape)
        rowsolve.solve(A, b, "direct", rng=0)
    assert seen == [(20_020, 5), (1400, 100)]
    seen.clear()
    A, b, _ = gaussian(20_000, 40)
    rowsolve.solve(sparse.csr_array(A), b, rng=0)
    assert seen == [(20_000, 40)]  # all of its indices are looked at, too


@pytest.mark.compiled
@pytest.mark.parametrize("ending", ["npz", "h5", "zarr", "csv", "parquet", "mtx"])
def test_a_file_that_is_read_whole__is_checked_whole(ending, folder):
    A, b = with_one(np.inf, LARGE, (39_999, 2))
    rowsolve.convert(A, f"A.{ending}", allow_nan=True)
    place = {"h5": ":/A", "zarr": ":/A"}.get(ending, "")
    column = "'c2'" if ending == "parquet" else "2"
    with pytest.raises(ValueError, match=rf"^A\.{ending}{place}: {WORDS.format(39_999, 'inf', column)}"):
        rowsolve.solve(f"A.{ending}", b, rng=0)


@pytest.mark.compiled
def test_a_mapped_file__is_checked_like_an_array(folder):
    A, b = with_one(np.nan, LARGEST, (77_777, 2))
    np.save("A.npy", A)
    assert "(of 100,000) were checked for NaN and infinity." in rowsolve.solve("A.npy", b, rng=0).message
    with pytest.raises(ValueError, match=rf"^A\.npy: {WORDS.format(77_777, 'nan', 2)}"):
        rowsolve.solve("A.npy", b, rng=0, checkpoint="state")  # for which all of it is read
    np.save("A.npy", A[75_778:77_778])
    with pytest.raises(ValueError, match=rf"^A\.npy: {WORDS.format(1999, 'nan', 2)}"):
        rowsolve.solve("A.npy", b[75_778:77_778], rng=0)


def test_a_function__is_checked_when_its_rows_are_counted():
    A, b = with_one(np.nan, (300, 6), (250, 5))
    for make in (np.asarray, sparse.csr_array):
        for memory in (None, "30kB"):
            with pytest.raises(ValueError, match=WORDS.format(250, "nan", 5)):
                rowsolve.solve(
                    lambda: ((make(A[i : i + 70]), b[i : i + 70]) for i in range(0, 300, 70)),  # noqa: B023
                    None, memory=memory, rng=0,
                )  # fmt: skip


def test_rows_that_stay_in_their_file__are_reported_by_file_row_and_column(folder):
    A, b = with_one(np.nan, (300, 3), (17, 1))
    pq.write_table(pa.table(dict(zip(("age", "rooms", "area"), A.T, strict=True))), "t.parquet", row_group_size=50)
    for memory in (None, "200kB"):
        for method in ("direct", "refined", "cyclic"):
            with pytest.raises(ValueError, match=r"^t\.parquet: " + WORDS.format(17, "nan", "'rooms'")):
                rowsolve.solve("t.parquet", b, method, memory=memory, rng=0, check="full")


def test_patterns__do_not_hide_it():
    A, b = with_one(np.nan, (300, 6), (250, 5))
    source = open_rows(sparse.csr_array(A))
    with pytest.raises(ValueError, match=WORDS.format(250, "nan", 5)):
        System(source, b).reader.flagged.check_all()
    method = rowsolve.ClusterBlock(n_clusters=2, metric="jaccard")
    with pytest.raises(ValueError, match=WORDS.format(250, "nan", 5)):
        method.begin(System(source, b), np.random.default_rng(0))


def test_b_and_x0__are_named_with_their_files(folder):
    A, b, _ = gaussian(60, 3)
    b[5] = np.inf
    (folder / "t.csv").write_text("x,y\n" + "1,2\n" * 59 + "1,nan\n")
    with h5py.File("b.h5", "w") as file:
        file["b"] = np.column_stack([b, b])
    np.save("x0.npy", [1.0, np.nan, 2.0])
    for rhs, words in (
        (b, "`b` must be finite: entry 5 is inf"), ("t.csv:y", "t.csv:y: `b` must be finite: entry 59 is nan"),
        ("b.h5:/b", r"b.h5:/b: `b` must be finite: entry \(5, 0\) is inf"),
    ):  # fmt: skip
        for memory in (None, "1MB"):
            with pytest.raises(ValueError, match=f"^{words}"):
                rowsolve.solve(A, rhs, memory=memory)
    with pytest.raises(ValueError, match=r"^x0\.npy: `x0` must be finite: entry 1 is nan"):
        rowsolve.solve(A, np.ones(60), x0="x0.npy")


def test_check_finite_false__checks_nothing_beforehand(monkeypatch):
    def fail(_):
        pytest.fail("looked")

    monkeypatch.setattr(_validate.Source, "first_not_finite", fail)
    A, b, x = gaussian(300, 5)
    np.testing.assert_allclose(rowsolve.solve(A, b, rng=0, check_finite=False).x, x, rtol=1e-5)
    b[3] = np.nan
    assert np.isnan(_validate.system_of(A, b, check_finite=False)[1][3])
    with pytest.raises(ValueError, match="`b` must be finite: entry 3 is nan"):
        rowsolve.solve(np.ones((300, 1), int), b, rng=0)
    A[:] = np.nan
    with pytest.raises(ValueError, match="`A` must be finite"), np.errstate(all="ignore"):
        rowsolve.solve(A, np.ones(300), "cyclic", check_finite=False)  # rows that are read


def run(*args):
    return CliRunner().invoke(app, [str(arg) for arg in args], env={"COLUMNS": "200"})


def test_command_line__names_file_row_and_column_and_writes_nothing(folder):
    A, b = with_one(np.nan, (300, 3), (17, 1))
    text = ["age,rooms,area", *(",".join(map(repr, row)) for row in A.tolist())]
    (folder / "t.csv").write_text("\n".join(text))
    np.save("b.npy", b)
    words = "error: t.csv: `A` must be finite: row 17 has nan in column 'rooms'."
    for args in (("solve", "-o", "x.npy"), ("inspect",), ("race", "--json", "race.json")):
        result = run(args[0], "t.csv", "b.npy", *args[1:])
        assert result.exit_code == 2
        assert words in result.stderr
    assert sorted(path.name for path in folder.iterdir()) == ["b.npy", "t.csv"]
    np.save("b.npy", np.where(np.arange(300) == 4, np.nan, b))
    result = run("race", "t.csv:age,area", "b.npy")
    assert "error: b.npy: `b` must be finite: entry 4 is nan." in result.stderr


@pytest.mark.compiled
def test_command_line__prints_how_many_rows_were_checked(folder):
    A, b, _ = gaussian(*LARGEST)
    np.save("A.npy", A)
    np.save("b.npy", b)
    assert "were checked for NaN and infinity" in run("solve", "A.npy", "b.npy").output
    result = run("solve", "A.npy", "b.npy", "--no-check-finite")
    assert result.exit_code == 0
    assert "NaN" not in result.output


@pytest.mark.parametrize("ending", [".npy", ".npz", ".mtx", ".csv", ".h5", ".zarr", ".parquet"])
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_convert__writes_no_nan_and_no_infinity_unless_asked_to(ending, make, folder):
    A, _ = with_one(np.inf, (300, 3), (217, 1))
    A[250, 2] = np.nan
    target = Path(f"rows{ending}")
    with pytest.raises(ValueError, match=r"row 217 has inf in column 1\. Try removing or repairing such rows, or --al"):
        rowsolve.convert(make(A), target, memory="70kB" if ending not in (".npz", ".mtx") else "1MB")
    assert not target.exists()
    rowsolve.convert(make(A), target, allow_nan=True)
    found = rowsolve.sources.load_matrix(target)
    np.testing.assert_array_equal(found.toarray() if sparse.issparse(found) else found, A)


def test_convert__names_the_file_the_row_and_the_column(folder):
    (folder / "t.csv").write_text("age,rooms\n1,2\n3,inf\n")
    np.save("b.npy", [1.0, np.nan])
    result = run("convert", "t.csv", "t.parquet")
    assert result.exit_code == 2
    assert "error: t.csv: row 1 has inf in column 'rooms'. Try removing or repairing such rows, or --" in result.stderr
    result = run("convert", "t.csv:age", "t.parquet", "--rhs", "b.npy")
    assert "error: b.npy: row 1 has nan. Try removing or repairing such rows, or --allow-nan" in result.stderr
    assert sorted(path.name for path in folder.iterdir()) == ["b.npy", "t.csv"]
    assert run("convert", "t.csv", "t.parquet", "--rhs", "b.npy", "--allow-nan").exit_code == 0
    np.testing.assert_array_equal(pq.read_table("t.parquet")["b"].to_numpy(), [1.0, np.nan])


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_convert__makes_no_infinity_of_a_number_that_is_too_large(make, folder):
    A, _ = with_one(1e300, (300, 3), (217, 1))
    for allow_nan in (False, True):
        with pytest.raises(ValueError, match=r"row 217 has 1e\+300 in column 1, too large for float32\. Try float64"):
            rowsolve.convert(make(A), "a.npy", dtype="float32", allow_nan=allow_nan)
