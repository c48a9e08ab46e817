"""``rowsolve convert``, for users and for scripts."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import gaussian, relative_error
from typer.testing import CliRunner

import rowsolve
from rowsolve.cli import app
from rowsolve.sources import open_store

A, b, X_TRUE = gaussian(200, 4)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("A.npy", A)
    np.save("b.npy", b)
    return tmp_path


def run(*args, columns=200):
    return CliRunner().invoke(app, [str(arg) for arg in args], env={"COLUMNS": str(columns)})


def files(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize(
    ("name", "rhs"), [("rows.h5", "rows.h5:/b"), ("rows.zarr", "rows.zarr:/b"), ("rows.parquet", "rows.parquet:b")]
)
def test_convert__writes_what_solve_reads(folder, name, rhs):
    result = run("convert", "A.npy", name, "--rhs", "b.npy", "--chunk", 50)
    assert result.exit_code == 0
    assert result.stdout == f"200 rows written to {name}\n"
    with open_store(name) as store:
        assert store.chunk == 50
    assert run("solve", name, rhs, "-o", "x.npy", "--seed", 0).exit_code == 0
    assert relative_error(np.load("x.npy"), X_TRUE) < 2e-6


def test_convert__fits_80_columns(folder):
    for args in (("A.npy", "B.h5"), ("A.npy", "B.h5"), ("A.npy", "B.h5", "--memory", "1")):
        assert max(map(len, run("convert", *args, columns=80).output.splitlines())) <= 80


def test_convert__obeys_dtype_memory_and_force(folder):
    assert run("convert", "A.npy", "B.npy", "--dtype", "float32", "--memory", "10kB").exit_code == 0
    np.testing.assert_array_equal(np.load("B.npy"), A.astype(np.float32))
    result = run("convert", "A.npy", "B.npy")
    assert result.exit_code == 2
    assert "error: B.npy: exists already: choose another name, or --force" in result.stderr
    assert run("convert", "A.npy", "B.npy", "--force").exit_code == 0
    np.testing.assert_array_equal(np.load("B.npy"), A)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("none.h5", "B.npy"), "none.h5: no such file"),
        (("A.npy", "B.xls"), "B.xls: expected a file ending in .npy"),
        (("A.npy", "B.h5", "--rhs", "A.csv"), "A.csv: no such file"),
        (("A.npy", "B.h5", "--memory", "1"), "MB of memory are not enough"),
        (("A.npy", "B.npy", "--chunk", "7"), "B.npy: `chunk` does not apply to this format"),
    ],
)
def test_bad_input__exits_with_2_and_writes_nothing(folder, args, words):
    result = run("convert", *args)
    assert result.exit_code == 2
    assert words in result.stderr
    assert "Traceback" not in result.output
    assert files(folder) == ["A.npy", "b.npy"]


def test_ctrl_c__writes_nothing_and_says_so(folder, monkeypatch):
    def press_ctrl_c(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(rowsolve, "convert", press_ctrl_c)
    result = run("convert", "A.npy", "B.h5")
    assert result.exit_code == 1
    assert "error: interrupted, no output was written." in result.stderr
