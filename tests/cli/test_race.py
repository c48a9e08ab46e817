"""`rowsolve race` on a user's own files."""

from __future__ import annotations

import json

import numpy as np
import pytest
from conftest import gaussian
from scipy import io, sparse
from typer.testing import CliRunner

import rowsolve
import rowsolve.cli.race as command
from rowsolve.cli import app
from rowsolve.race import lineup
from rowsolve.race.results import of_document

A, b, _ = gaussian(600, 6)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(lineup, "find_spec", lambda name: None if name in ("sklearn", "kaczmarz") else object())
    np.save("A.npy", A)
    np.save("b.npy", b)
    return tmp_path


def run(*args, columns=200):
    return CliRunner().invoke(app, ["race", *map(str, args)], env={"COLUMNS": str(columns)})


def files(folder):
    return sorted(path.name for path in folder.iterdir())


def test_race__prints_a_table_the_fastest_solver_and_missing_packages(folder):
    result = run("A.npy", "b.npy", "--methods", "block, cyclic", "--repeats", 2, "--threads", 1, "--json", "race.json")
    assert result.exit_code == 0, result.output
    for words in (
        "600 x 6 (dense), to a true relative error of 1e-06, 1 thread", "rowsolve auto", "rowsolve block",
        "rowsolve cyclic", "scipy lsmr", "normal equations", "numpy lstsq", ", to a true relative error",
        "Reference: the least-squares solution by LAPACK.",
        "Not timed: sklearn SGDRegressor, not installed (pip install scikit-learn).",
    ):  # fmt: skip
        assert words in result.output
    (found,) = of_document(json.loads((folder / "race.json").read_text()))
    assert (found.case, found.n_rows, found.n_columns, found.conditions.threads, found.error) == (
        "A.npy",
        600,
        6,
        1,
        1e-6,
    )
    assert (found.ours.name, found.conditions.limit) == ("rowsolve auto", 60.0)
    assert len(found.ours.seconds) in (2, 3)
    assert all(one.error <= 1e-6 for one in found.outcomes if one.verdict == "reached")
    assert set(found.absent) == {"sklearn LinearRegression", "sklearn SGDRegressor", "kaczmarz-algorithms"}


def test_race__shows_a_table_that_does_not_fit_vertically(folder):
    result = run("A.npy", "b.npy", "--repeats", 1, "--threads", 1, columns=80)
    assert result.exit_code == 0, result.output
    assert max(map(len, result.output.splitlines())) <= 80
    assert "…" not in result.output
    block = result.output.split("solver: scipy lsmr\n")[1].split("\n\n")[0]
    names = [line.strip().split(": ")[0] for line in block.splitlines()]
    assert names == ["seconds", "ratio", "true error", "setting", "passes over A", "timed runs", "remarks"]


def test_race__replaces_no_file_that_is_read_and_others_only_by_force(folder, monkeypatch):
    (folder / "race.json").write_text("mine")
    (folder / "b.json").symlink_to("b.npy")
    with monkeypatch.context() as patch:
        patch.setattr(command, "run_race", lambda *_: pytest.fail("raced first"))
        result = run("A.npy", "b.npy", "--json", "race.json")
        assert result.exit_code == 2
        assert "race.json: exists already: choose another name, or --force to replace it." in result.stderr
        result = run("A.npy", "b.npy", "--json", "b.json", "--force")
        assert result.exit_code == 2
        assert "b.json: is the file that `b` is read from (b.npy): choose another name." in result.stderr
    assert (folder / "race.json").read_text() == "mine"
    assert run("A.npy", "b.npy", "--repeats", 1, "--json", "race.json", "--force").exit_code == 0
    assert len(of_document(json.loads((folder / "race.json").read_text()))) == 1


def test_race__that_rowsolve_cannot_finish_exits_with_1_and_says_why(folder, monkeypatch):
    solve = rowsolve.solve
    monkeypatch.setattr(rowsolve, "solve", lambda A, b, _, **more: solve(A, b, "randomized", **more))
    np.save("b.npy", b + np.random.default_rng(1).standard_normal(600))
    result = run("A.npy", "b.npy", "--repeats", 1, "--error", 1e-8)
    assert result.exit_code == 1
    assert "rowsolve auto did not reach a true relative error of 1e-08 (never: best error " in result.output
    assert "did, in " in result.output


def test_race__takes_sparse_matrices(folder):
    io.mmwrite("A.mtx", sparse.coo_array(np.where(np.abs(A) > 0.3, A, 0.0)))
    result = run("A.mtx", "b.npy", "--repeats", 1, "--error", 1e-3)
    assert "600 x 6 (sparse, 77% stored)" in result.output
    assert "skipped: does not support sparse" in result.output


def test_race__leaves_a_large_file_where_it_is(folder, monkeypatch):
    monkeypatch.setattr(command, "free_memory", lambda: 0.0)
    result = run("A.npy", "b.npy", "--repeats", 1)
    assert "(memory map)" in result.output
    assert "A is large compared with the free memory, so it is memory-mapped" in result.output
    assert "skipped: would copy the file into memory" in result.output


def test_race__says_when_the_machine_is_busy_and_when_the_reference_is_poor(folder, monkeypatch):
    monkeypatch.setattr(command, "busy_cores", lambda: 1.5)
    poor = A.copy()
    poor[:, 0] = A[:, 1] + 1e-9 * A[:, 0]
    np.save("A.npy", poor)
    np.save("b.npy", poor @ np.ones(6))
    result = run("A.npy", "b.npy", "--repeats", 1)
    assert "Other programs used 1.5 cores. Run again on an idle machine for reliable times." in result.output
    assert "A is ill-conditioned: the relative error of the reference may be" in result.output


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("missing.npy", "b.npy"), "missing.npy: no such file"),
        (("A.npy", "A.npy"), "`b` must have one dimension"),
        (("A.npy", "b.npy", "--error", 0), "--error must be between 0 and 1, got 0."),
        (("A.npy", "b.npy", "--error", "nan"), "--error must be between 0 and 1, got nan."),
        (("A.npy", "b.npy", "--limit", -1), "--limit must be positive, got -1."),
        (("A.npy", "b.npy", "--methods", "blok"), "unknown method 'blok' in --methods: see `rowsolve methods`"),
        (("A.npy", "b.npy", "--json", "race.txt"), "race.txt: expected a file name ending in .json"),
        (("A.npy", "zero.npy"), "the solution is x = 0"),
        (("bad.npy", "b.npy"), "`A` must be finite: row 7 has nan in column 1."),
    ],
)
def test_bad_input__exits_with_2_and_writes_nothing(folder, args, words):
    np.save("zero.npy", np.zeros(600))
    np.save("bad.npy", np.where((np.arange(600)[:, None] == 7) & (np.arange(6) == 1), np.nan, A))
    before = files(folder)
    output = () if "--json" in args else ("--json", "race.json")
    result = run(*args, *output)
    assert result.exit_code == 2
    assert words in result.stderr
    assert "Traceback" not in result.output
    assert files(folder) == before


def test_ctrl_c__writes_nothing(folder, monkeypatch):
    def press(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "run_race", press)
    result = run("A.npy", "b.npy", "--json", "race.json")
    assert result.exit_code == 1
    assert "error: interrupted, no output was written." in result.stderr
    assert files(folder) == ["A.npy", "b.npy"]


def test_integers__are_raced_as_floats(folder):
    np.save("A.npy", np.random.default_rng(0).integers(-9, 9, (300, 5)))
    np.save("b.npy", np.load("A.npy") @ np.arange(1, 6))
    assert run("A.npy", "b.npy", "--repeats", 1).exit_code == 0
