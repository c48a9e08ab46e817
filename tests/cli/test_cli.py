"""The command line, for users and for scripts."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest
from conftest import gaussian, relative_error
from typer.testing import CliRunner

import rowsolve
from rowsolve.cli import app
from rowsolve.cli.methods import methods_as_markdown
from rowsolve.cli.progress import SolveProgress

A, b, X_TRUE = gaussian(600, 12)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("A.npy", A)
    np.save("b.npy", b)
    return tmp_path


def run(*args, columns=200):
    return CliRunner().invoke(app, [str(arg) for arg in args], env={"COLUMNS": str(columns)})


def widest(text):
    return max(map(len, text.splitlines()))


def files(folder):
    return sorted(path.name for path in folder.iterdir())


def test_solve__writes_x_and_says_so(folder):
    result = run("solve", "A.npy", "b.npy", "-o", "x.npy", "--seed", 0)
    assert result.exit_code == 0
    assert "CONVERGED" in result.output
    assert "written to x.npy" in result.output
    assert relative_error(np.load("x.npy"), X_TRUE) < 2e-6
    assert files(folder) == ["A.npy", "b.npy", "x.npy"]


@pytest.mark.parametrize("method", sorted(rowsolve.METHODS))
def test_solve__is_the_same_as_in_python(folder, method):
    assert run("solve", "A.npy", "b.npy", "-o", "x.csv", "--seed", 3, "-m", method, "--rtol", 1e-4).exit_code == 0
    expected = rowsolve.solve(A, b, method, rtol=1e-4, rng=3).x
    np.testing.assert_array_equal(np.loadtxt("x.csv"), expected)


def test_solve__keeps_x_within_bounds(folder):
    assert run("solve", "A.npy", "b.npy", "-o", "x.npy", "--seed", 0, "--lower", 0).exit_code == 0
    np.testing.assert_array_equal(np.load("x.npy"), rowsolve.solve(A, b, bounds=(0.0, np.inf), rng=0).x)
    assert run("solve", "A.npy", "b.npy", "-o", "x.npy", "--force", "--lower", -0.1, "--upper", 0.2).exit_code == 0
    assert np.load("x.npy").min() == -0.1
    assert np.load("x.npy").max() == 0.2
    result = run("solve", "A.npy", "b.npy", "--lower", 1, "--upper", 0)
    assert result.exit_code == 2
    assert "are infeasible for entry 0 of x: from 1 to 0" in result.output


@pytest.mark.parametrize("ending", ["npy", "csv"])
def test_solve__takes_several_right_hand_sides(folder, ending):
    np.save("b.npy", np.column_stack([b, 2 * b, 0 * b]))
    result = run("solve", "A.npy", "b.npy", "-o", f"x.{ending}", "--seed", 0, "--json")
    found = np.load("x.npy") if ending == "npy" else np.loadtxt("x.csv", delimiter=",")
    np.testing.assert_allclose(found, np.outer(X_TRUE, [1, 2, 0]), rtol=1e-5, atol=1e-12)
    assert result.exit_code == 0
    assert json.loads(result.stdout)["n_columns"] == 12
    assert json.loads(result.stdout)["n_rhs"] == 3


def test_solve__without_output_prints_a_short_x(folder):
    result = run("solve", "A.npy", "b.npy", "--seed", 0, columns=80)
    assert result.exit_code == 0
    (line,) = (line for line in result.output.splitlines() if line.startswith("x = "))
    entries, size = line.removeprefix("x = [").split("]")
    first, last = entries.split("...")
    np.testing.assert_allclose(np.array(first.split(), float), X_TRUE[:3], atol=1e-4)
    np.testing.assert_allclose(np.array(last.split(), float), X_TRUE[-3:], atol=1e-4)
    assert size == "  (length 12)"
    assert "x was not saved; use -o FILE" in result.output
    for words in ("CONVERGED", "estimated error  ", "The estimated error is within the tolerance"):
        assert words in " ".join(result.output.split("\n"))
    assert widest(result.output) <= 80


def test_solve__prints_a_short_x_with_several_columns_and_a_whole_one_with_few_entries(folder):
    np.save("b.npy", np.column_stack([b, 2 * b, 1e9 * b, 1e-9 * b, b, b]))
    result = run("solve", "A.npy", "b.npy", columns=80)
    assert "(shape (12, 6))" in result.output
    assert widest(result.output) <= 80
    np.save("A.npy", A[:, :2])
    np.save("b.npy", A[:, :2] @ [1.0, -2.0])
    assert "x = [ 1. -2.]  (length 2)" in run("solve", "A.npy", "b.npy", columns=80).output


def test_solve__that_does_not_converge_exits_with_1_and_writes_x(folder):
    result = run("solve", "A.npy", "b.npy", "-o", "x.npy", "-m", "randomized", "--max-passes", 0.2, "--seed", 0)
    assert result.exit_code == 1
    assert "MAX_PASSES" in result.output
    assert np.load("x.npy").shape == (12,)


def test_solve__prints_that_the_error_is_unknown(folder):
    result = run("solve", "A.npy", "b.npy", "-m", "jl", "--max-passes", 0.1)
    assert result.exit_code == 1
    assert "estimated error    not known" in result.output


def test_solve__as_json(folder):
    result = run("solve", "A.npy", "b.npy", "-o", "x.npy", "--seed", 0, "--json", "--check", "full")
    found = json.loads(result.stdout)
    assert result.exit_code == 0
    assert found["status"] == "CONVERGED"
    assert found["row_check"]["full"] is True
    assert found["residual"] == pytest.approx(np.linalg.norm(np.load("b.npy") - np.load("A.npy") @ np.load("x.npy")))
    assert found["output"] == "x.npy"
    assert found["error_estimate"] < 1e-6
    assert found["rows_read"] == pytest.approx(600 * found["passes"])
    with (folder / "b.npy").open("wb") as file:
        np.save(file, np.full(600, np.nan))
    result = run("solve", "A.npy", "b.npy", "--json")
    assert result.exit_code == 2
    assert json.loads(result.stdout) == {"status": "BAD_INPUT", "message": "b.npy: `b` must be finite: entry 0 is nan."}


def test_solve__as_json_has_the_rank_if_it_is_known(folder):
    assert json.loads(run("solve", "A.npy", "b.npy", "--json").stdout)["rank"] == 12
    assert json.loads(run("solve", "A.npy", "b.npy", "--json", "-m", "cyclic").stdout)["rank"] is None
    deficient = A.copy()
    deficient[:, 3] = deficient[:, 4]
    np.save("A.npy", deficient)
    np.save("b.npy", deficient @ X_TRUE)
    assert json.loads(run("solve", "A.npy", "b.npy", "--json").stdout)["rank"] == 11


def test_solve__with_damp_is_ridge_regression(folder):
    result = run("solve", "A.npy", "b.npy", "-o", "x.npy", "--damp", 3, "--seed", 0)
    assert result.exit_code == 0
    assert relative_error(np.load("x.npy"), np.linalg.solve(A.T @ A + 9.0 * np.eye(12), A.T @ b)) < 1e-6


def test_solve__starts_from_x0(folder):
    np.save("x0.npy", X_TRUE)
    args = ("solve", "A.npy", "b.npy", "--x0", "x0.npy", "--json", "--seed", 0, "--method", "randomized")
    found = json.loads(run(*args).stdout)
    assert found["status"] == "CONVERGED"
    assert found["rows_read"] < json.loads(run(*args[:3], *args[5:]).stdout)["rows_read"]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("missing.npy", "b.npy"), "missing.npy: no such file"),
        (("A.npy", "b.txt"), "expected a file ending in"),
        (("A.npy", "A.npy", "--method", "jl"), "'jl' requires a single right-hand side, got 12"),
        (("A.npy", "b.npy", "--rtol", "-1"), "`rtol` must be a finite number of at least 0, got -1.0"),
        (("A.npy", "b.npy", "--method", "cluster_jl"), "did you mean 'cluster-jl'"),
        (("A.npy", "b.npy", "--damp", "1", "-m", "cyclic"), "`damp`"),
        (("A.npy", "b.npy", "--check", "no"), "`check` must be 'sampled' or 'full'"),
        (("A.npy", "b.npy", "--x0", "none.npy"), "none.npy: no such file"),
        (("A.npy", "b.npy", "--x0", "b.npy"), "`x0` must have one entry per column"),
        (("A.npy", "b.npy", "-o", "x.xls"), "x.xls: expected a file name ending in .npy or .csv"),
        (("A.npy", "b.npy", "-o", "nowhere/x.npy"), "there is no folder nowhere"),
    ],
)
def test_bad_input__exits_with_2_and_writes_nothing(folder, args, words):
    output = () if "-o" in args else ("-o", "x.npy")
    result = run("solve", *args, *output)
    assert result.exit_code == 2
    assert words in result.stderr
    assert "Traceback" not in result.output
    assert files(folder) == ["A.npy", "b.npy"]


def test_bad_input__leaves_an_older_output_alone(folder):
    np.save("x.npy", np.arange(3))
    np.save("A.npy", np.where(np.arange(600)[:, None] == 0, np.nan, A))
    result = run("solve", "A.npy", "b.npy", "-o", "x.npy", "--force", "-m", "cyclic")
    assert result.exit_code == 2
    assert "row 0 has nan in column 0" in result.stderr
    assert np.load("x.npy").tolist() == [0, 1, 2]
    assert files(folder) == ["A.npy", "b.npy", "x.npy"]


def test_output__that_cannot_be_written_is_found_out_before_solving(folder, monkeypatch):
    monkeypatch.setattr(rowsolve, "solve", lambda *_, **__: pytest.fail("solved first"))
    (folder / "taken.npy").mkdir()
    for name, words in (("taken.npy", "is a folder"), ("no/x.npy", "there is no folder")):
        result = run("solve", "A.npy", "b.npy", "-o", name)
        assert result.exit_code == 2
        assert words in result.stderr


def test_output__that_exists_is_replaced_only_by_force_and_this_is_reported_before_solving(folder, monkeypatch):
    np.save("x.npy", np.arange(3))
    with monkeypatch.context() as patch:
        patch.setattr(rowsolve, "solve", lambda *_, **__: pytest.fail("solved first"))
        result = run("solve", "A.npy", "b.npy", "-o", "x.npy")
    assert result.exit_code == 2
    assert "x.npy: exists already: choose another name, or --force to replace it." in result.stderr
    assert np.load("x.npy").tolist() == [0, 1, 2]
    assert run("solve", "A.npy", "b.npy", "-o", "x.npy", "--force").exit_code == 0
    assert np.load("x.npy").shape == (12,)


def test_output__that_is_read_raises_an_error_under_any_name_even_with_force(folder):
    np.savetxt("t.csv", np.column_stack([A, b]), delimiter=",", header=",".join("abcdefghijklp"), comments="")
    np.save("x0.npy", X_TRUE)
    (folder / "link.npy").symlink_to("A.npy")
    os.link("b.npy", "hard.npy")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    for args, output, what in (
        (("t.csv", "t.csv:p"), "t.csv", "`A`"), (("t.csv:a,b", "b.npy"), folder / "t.csv", "`A`"),
        (("A.npy", "b.npy"), "b.npy", "`b`"), (("A.npy", "t.csv:p"), "./t.csv", "`b`"),
        (("A.npy", "b.npy"), "link.npy", "`A`"), (("A.npy", "b.npy"), "hard.npy", "`b`"),
        (("link.npy", "b.npy"), "A.npy", "`A`"), (("A.npy", "b.npy", "--x0", "x0.npy"), "x0.npy", "`x0`"),
    ):  # fmt: skip
        result = run("solve", *args, "-o", output, "--force", "--json")
        assert result.exit_code == 2
        assert f"is the file that {what} is read from" in json.loads(result.stdout)["message"]
        assert "choose another name" in json.loads(result.stdout)["message"]
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_output__inside_a_folder_that_is_read_raises_an_error(folder):
    rowsolve.convert(A, "A.zarr")
    for option in ("-o", "--checkpoint"):
        result = run("solve", "A.zarr", "b.npy", option, "A.zarr/x.npy", "--force")
        assert result.exit_code == 2
        assert "A.zarr/x.npy: is inside A.zarr, which `A` is read from: choose another place" in result.stderr


def test_output__that_is_read_along_with_stored_clusters_raises_an_error(folder):
    rowsolve.convert("A.npy", "rows.npy", rhs="b.npy", cluster=3, rng=0)
    result = run("solve", "rows.npy", "b.npy", "-o", "rows.centroids.npy", "--force")
    assert result.exit_code == 2
    assert "rows.centroids.npy: is the file that the clusters of `A` are read from" in result.stderr


def test_output__on_a_full_disk_leaves_nothing_half_written(folder, monkeypatch):
    def full(_):
        raise OSError(28, "No space left on device")

    np.save("x.npy", np.arange(3))
    monkeypatch.setattr(os, "fsync", full)
    result = run("solve", "A.npy", "b.npy", "-o", "x.npy", "--force")
    assert result.exit_code == 2
    assert "x.npy: could not be written: No space left on device" in result.stderr
    assert np.load("x.npy").tolist() == [0, 1, 2]
    assert files(folder) == ["A.npy", "b.npy", "x.npy"]


def test_output__has_the_usual_permissions(folder):
    run("solve", "A.npy", "b.npy", "-o", "x.npy")
    plain = folder / "plain"
    plain.touch()
    assert (folder / "x.npy").stat().st_mode == plain.stat().st_mode


def test_ctrl_c__writes_x_and_says_so(folder, monkeypatch, press_ctrl_c):
    calls = []

    def interrupt(_self, event):
        calls.append(event)
        if len(calls) == 4:
            press_ctrl_c()

    monkeypatch.setattr(SolveProgress, "__call__", interrupt)
    result = run("solve", "A.npy", "b.npy", "-o", "x.npy", "-m", "randomized", "--rtol", "1e-12", "--seed", 0)
    assert result.exit_code == 1
    assert "INTERRUPTED" in result.output
    assert "written to x.npy" in result.output
    assert 1e-12 < relative_error(np.load("x.npy"), X_TRUE) < 1e-1


def test_ctrl_c__before_the_solve_writes_nothing(folder, monkeypatch):
    def press_ctrl_c(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(rowsolve, "solve", press_ctrl_c)
    result = run("solve", "A.npy", "b.npy", "-o", "x.npy")
    assert result.exit_code == 1
    assert "error: interrupted before the solve started, no output was written." in result.stderr
    assert files(folder) == ["A.npy", "b.npy"]


def test_output__named_like_markup_is_written_and_named(folder):
    result = run("solve", "A.npy", "b.npy", "-o", "x[bold]y.npy")
    assert "written to x[bold]y.npy" in result.output
    assert "x[bold]y.npy" in files(folder)


def test_output__through_a_link_reaches_its_target(folder):
    (folder / "link.npy").symlink_to("target.npy")
    assert run("solve", "A.npy", "b.npy", "-o", "link.npy").exit_code == 0
    assert (folder / "link.npy").is_symlink()
    assert np.load("target.npy").shape == (12,)


def test_json__has_no_infinities(folder):
    np.save("A.npy", A * 1e140)
    np.save("b.npy", b * 1e140)
    found = json.loads(run("solve", "A.npy", "b.npy", "--json", "--check", "full").stdout)
    assert found["status"] == "CONVERGED"


def test_methods__lists_auto_and_the_registry():
    result = run("methods", columns=80)
    assert result.exit_code == 0
    assert widest(result.output) <= 80
    assert "…" not in result.output.replace("rows 0, 1, 2, …", "")
    said = " ".join(result.output.split())
    found = [line.split(": ")[1] for line in result.output.splitlines() if line.startswith("method: ")]
    assert found == ["auto", *rowsolve.METHODS]
    auto = "starts with the method predicted to be fastest, and continues with another if necessary"
    assert f"method: auto description: {auto} parameters: none" in said
    assert methods_as_markdown().splitlines()[2].startswith(f"| `auto` | {auto} |")
    for name, method in rowsolve.METHODS.items():
        assert f"method: {name} description: {method.summary} parameters: " in said
        assert f"| `{name}` | {method.summary} |" in methods_as_markdown()


def test_methods__is_a_table_where_there_is_room():
    lines = run("methods", columns=400).output.splitlines()
    (line,) = (line for line in lines if " block " in line[:20])
    assert line.split("│")[3].strip() == "block_size=4, n_directions=0"


@pytest.mark.compiled
def test_demo__prints_a_table_and_writes_a_picture(folder):
    result = run("demo", "--quick", "--out", "demo.png")
    assert result.exit_code == 0
    for words in (
        "rowsolve auto", "scipy lsmr", "scipy lsqr", "normal equations", "numpy lstsq", "true error",
        "Picture: demo.png",
    ):  # fmt: skip
        assert words in result.output
    assert (folder / "demo.png").read_bytes().startswith(b"\x89PNG")
    assert run("demo", "--quick", "--out", "nowhere/demo.png").exit_code == 2
    (folder / "demo.png").write_bytes(b"mine")
    result = run("demo", "--quick", "--out", "demo.png")
    assert result.exit_code == 2
    assert "demo.png: exists already: choose another name, or --force to replace it" in result.stderr
    assert (folder / "demo.png").read_bytes() == b"mine"
    assert run("demo", "--quick", "--out", "demo.png", "--force").exit_code == 0
    assert (folder / "demo.png").read_bytes().startswith(b"\x89PNG")
    for _ in range(2):  # its own usual picture is made anew
        assert "Picture: rowsolve-demo.png" in run("demo", "--quick").output


@pytest.mark.compiled
def test_demo__leaves_out_a_solver_that_would_take_long_and_leaves_busy_cores_to_others(folder, monkeypatch):
    from rowsolve.cli import demo
    from rowsolve.race.direct import Lstsq

    monkeypatch.setattr(Lstsq, "expected_seconds", lambda *_: 40.0)
    monkeypatch.setattr(demo, "available_cores", lambda: 2)
    monkeypatch.setattr(demo, "busy_cores", lambda _: 1.2)
    result = run("demo", "--quick")
    assert result.exit_code == 0
    assert "skipped: about 40 s expected" in result.output
    assert "to a true relative error of 1e-06, 1 thread " in result.output
    assert "Other programs used 1.2 cores. Run again on an idle machine for reliable times." in result.output


def test_version_and_help():
    assert run("--version").output.strip() == f"rowsolve {rowsolve.__version__}"
    assert "Exit codes of solve: 0 if converged" in run("--help").output
    assert run("nonsense").exit_code == 2


@pytest.mark.parametrize(
    "command", [None, "solve", "inspect", "convert", "methods", "demo", "race", "reproduce", "nonsense"]
)
def test_help__fits_80_columns(command):
    result = run(*([command] if command else []), "--help", columns=80)
    assert widest(result.output) <= 80
    assert "..." not in result.output.replace("[ARGS]...", "")  # nothing is cut off


def test_messages__are_not_wrapped_in_files(folder):
    args = ["solve", "A.npy", "A.npy", "-m", "jl", "-o", f"{'long-name-' * 10}/x.npy"]
    error = CliRunner().invoke(app, args, env={"COLUMNS": None}).stderr
    assert len(error.splitlines()) == 1
    assert len(error) > 200


@pytest.mark.parametrize("columns", [80, 60])
def test_messages__are_wrapped_between_words(folder, columns):
    name = f"{'long-name-' * 10}.npy"
    for args in (("solve", "A.npy", "b.npy", "-o", "x.npy"), ("solve", "A.npy", "A.npy", "-m", "jl"), ("solve", "A")):
        assert widest(run(*args, columns=columns).output) <= columns
    error = run("solve", "A.npy", "b.npy", "-o", f"no-folder/{name}", columns=columns).stderr
    assert widest(error.replace(f"no-folder/{name}", "")) <= columns
    assert f"no-folder/{name}: cannot" in error.replace("\n", " ")  # a file name is not broken
    assert run("solve", "A.npy", "b.npy", "-o", name, columns=columns).exit_code == 0
    assert name in run("solve", "A.npy", "b.npy", "-o", name, "--force", columns=columns).output
