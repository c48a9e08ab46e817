"""``rowsolve inspect``, for users and for scripts."""

from __future__ import annotations

import dataclasses
import gzip
import json

import numpy as np
import pytest
from conftest import gaussian
from scipy import io, sparse
from typer.testing import CliRunner

import rowsolve
from rowsolve.cli import app
from rowsolve.inspection.report import Prediction

A, b, _ = gaussian(400, 8, noise=0.02)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("A.npy", A)
    np.save("b.npy", b)
    return tmp_path


def run(*args, columns=240):
    return CliRunner().invoke(app, ["inspect", *(str(arg) for arg in args)], env={"COLUMNS": str(columns)})


def test_inspect__prints_the_report(folder):
    result = run("A.npy", "b.npy", "--seed", 0, "--threads", 1)
    assert result.exit_code == 0
    for words in (
        "400 x 8 float64, dense, C order",
        "none of 384 sampled rows are zero",
        "in a sample of 384 rows",
        "none found among 384 sampled rows",
        "% of b, from 384 sampled rows: the system is inconsistent",
        "Predicted for a relative error of 1e-06 in x, with 1 thread:",
        "direct never never never the system is inconsistent",
        "`auto` starts with 'refined'",
        "`auto` will compute the least-squares solution with 'refined'",
        "rows were read",
    ):
        assert words in " ".join(result.output.split())
    assert sorted(path.name for path in folder.iterdir()) == ["A.npy", "b.npy"]


@pytest.mark.parametrize("remark", ["the pace is not known", "the equations seem to contradict each other"])
def test_inspect__fits_80_columns(folder, monkeypatch, remark):
    report = rowsolve.inspect("A.npy", "b.npy", rng=0)
    far = Prediction("randomized", 1.23e9, 4e5, at_least=True, remark=remark)
    report = dataclasses.replace(report, predictions=(far, *report.predictions[1:]))
    monkeypatch.setattr(rowsolve, "inspect", lambda *_, **__: report)
    output = run("A.npy", "b.npy", columns=80).output
    assert max(map(len, output.splitlines())) <= 80
    wide = "method: randomized rows: > 1,200,000,000 passes over A: > 3.1e+06 time: > 111 h remark: the equations seem"
    assert (wide in " ".join(output.split())) == ("seem" in remark)  # a table that is too wide is shown vertically


def test_inspect__as_json_is_the_report(folder):
    found = json.loads(run("A.npy", "b.npy", "--seed", 0, "--json", "--rtol", 1e-3).stdout)
    report = rowsolve.inspect("A.npy", "b.npy", rng=0, rtol=1e-3)
    assert found["layout"]["n_rows"] == 400
    assert found["condition"]["sampled"] == report.condition.sampled
    assert found["noise"]["relative"] == report.noise.relative == pytest.approx(0.02, rel=0.15)
    assert [one["method"] for one in found["predictions"]] == ["randomized", "direct", "refined"]
    assert (found["first"], found["method"], found["warnings"]) == ("refined", "auto", [])
    assert found["rtol"] == 1e-3


def test_json__has_null_for_unknown_values(folder):
    np.save("A.npy", np.zeros((20, 3)))
    np.save("b.npy", np.ones(20))
    found = json.loads(run("A.npy", "b.npy", "--json").stdout)
    assert found["condition"] is found["directions"] is found["noise"]["relative"] is None
    (warning,) = found["warnings"]
    assert "is zero but its b is not" in warning


def test_warnings__are_printed(folder):
    np.save("A.npy", np.asfortranarray(A))
    assert "warning        Fortran order: the entries of a row are not contiguous" in run("A.npy", "b.npy").output


@pytest.mark.parametrize("name", ["A.npz", "A.mtx", "A.mtx.gz", "A.csv"])
def test_formats__are_those_of_solve(folder, name):
    def write_compressed():
        with gzip.open(name, "wb") as file:
            io.mmwrite(file, sparse.coo_array(A))

    {
        "A.npz": lambda: sparse.save_npz(name, sparse.csr_array(A)),
        "A.mtx": lambda: io.mmwrite(name, sparse.coo_array(A)),
        "A.mtx.gz": write_compressed,
        "A.csv": lambda: np.savetxt(name, A, delimiter=","),
    }[name]()
    result = run(name, "b.npy")
    assert result.exit_code == 0
    assert "400 x 8 float64, " in result.output


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("missing.npy", "b.npy"), "missing.npy: no such file"),
        (("A.npy", "b.txt"), "expected a file ending in"),
        (("A.npy", "A.npy"), "`inspect` requires a single right-hand side, got 8"),
        (("A.npy", "short.npy"), "`b` must have one entry per row of `A`: expected 400, got 399"),
        (("nan.npy", "b.npy"), "`A` must be finite: row 5 has nan in column 1"),
        (("A.npy", "b.npy", "--rtol", "2"), "`rtol` must be between 0 and 1, got 2.0"),
    ],
)
def test_bad_input__exits_with_2(folder, args, words):
    np.save("short.npy", b[1:])
    np.save("nan.npy", np.where((np.arange(400)[:, None] == 5) & (np.arange(8) == 1), np.nan, A))
    result = run(*args)
    assert result.exit_code == 2
    assert words in result.stderr
    assert "Traceback" not in result.output
    found = json.loads(run(*args, "--json").stdout)
    assert found["status"] == "BAD_INPUT"
    assert words in found["message"]


def test_ctrl_c__ends_inspect_with_a_message(folder, monkeypatch):
    def press_ctrl_c(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(rowsolve, "inspect", press_ctrl_c)
    result = run("A.npy", "b.npy")
    assert result.exit_code == 1
    assert "interrupted" in result.stderr
