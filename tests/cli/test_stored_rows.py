"""``rowsolve solve --memory --checkpoint --resume`` for users and for scripts."""

from __future__ import annotations

import errno
import json
import os

import numpy as np
import pytest
from conftest import gaussian, relative_error
from typer.testing import CliRunner

import rowsolve
from rowsolve.checkpoint import file as checkpoint_file
from rowsolve.cli import app
from rowsolve.export import output

A, b, X_TRUE = gaussian(1500, 12)
LITTLE = "100kB"  # A has 144 kB


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ROWSOLVE_CHECKPOINT_SECONDS", "0")
    monkeypatch.setattr(checkpoint_file, "CHECKPOINT_SHARE", 1e9)
    rowsolve.convert(A, "A.h5", chunk=30)
    np.save("b.npy", b)
    return tmp_path


def run(*args):
    args = ("solve", "A.h5", "b.npy", "--threads", 1, "--seed", 3, *args)
    return CliRunner().invoke(app, [str(arg) for arg in args], env={"COLUMNS": "200"})


def files(folder):
    return sorted(path.name for path in folder.iterdir())


def test_memory__keeps_rows_in_the_file_and_says_how(folder):
    result = run("--memory", LITTLE, "-o", "x.npy", "-m", "block")
    assert result.exit_code == 0
    assert "Reading A.h5:/A in " in result.stderr
    assert "of 0.1 MB allowed." in result.stderr
    assert "passes over A, " in result.output
    expected = rowsolve.solve("A.h5", b, "block", memory=LITTLE, rng=3, threads=1)
    np.testing.assert_array_equal(np.load("x.npy"), expected.x)
    assert relative_error(expected.x, X_TRUE) < 2e-6


def test_memory__as_json_is_silent_but_for_the_object(folder):
    result = run("--memory", LITTLE, "--json", "-m", "refined")
    assert result.stderr == ""
    found = json.loads(result.stdout)
    assert found["status"] == "CONVERGED"
    assert found["bytes_read"] >= A.nbytes


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("--memory", "5kB"), "0.005 MB of memory are not enough for A.h5:/A"),
        (("--memory", "lots"), "`memory` must be a number of bytes"),
        (("--memory", LITTLE, "-m", "extended"), "needs all rows in memory"),
        (("--resume",), "`resume` requires `checkpoint`"),
        (("--checkpoint", "nowhere/state"), "there is no folder nowhere"),
        (("--checkpoint", "other.npy"), "other.npy: exists already. Try resume=True (--resume) to resume from it"),
        (("--checkpoint", "other.npy", "--resume"), "other.npy: is damaged or not a checkpoint of rowsolve"),
        (("--checkpoint", "b.npy", "--resume"), "b.npy: is the file that `b` is read from: choose another name"),
        (("--checkpoint", "A.h5", "--resume"), "A.h5: is the file that `A` is read from: choose another name"),
        (("--checkpoint", "x.npy"), "x.npy: is the file that the checkpoint is written to: choose another name"),
        (("--x0", "other.npy", "--checkpoint", "other.npy"), "other.npy: is the file that `x0` is read from"),
    ],
)
def test_bad_input__exits_with_2_and_writes_nothing(folder, args, words):
    np.save("other.npy", X_TRUE)
    result = run(*args, "-o", "x.npy")
    assert result.exit_code == 2
    assert words in result.output
    assert files(folder) == ["A.h5", "b.npy", "other.npy"]
    np.testing.assert_array_equal(np.load("other.npy"), X_TRUE)
    np.testing.assert_array_equal(np.load("b.npy"), b)


def test_checkpoint__is_removed_when_x_is_written(folder):
    assert run("--checkpoint", "state", "-o", "x.npy", "-m", "block").exit_code == 0
    assert files(folder) == ["A.h5", "b.npy", "x.npy"]
    assert run("--checkpoint", "state", "-m", "block").exit_code == 0
    assert files(folder) == ["A.h5", "b.npy", "state", "x.npy"]  # x was not written


def test_resume__continues_after_a_limit(folder):
    args = ("--checkpoint", "state", "--resume", "-o", "x.npy", "-m", "block", "--rtol", 1e-9, "--memory", LITTLE)
    assert run(*args, "--max-passes", 0.3).exit_code == 1
    assert "state" in files(folder)
    result = run(*args, "--max-passes", 100)
    assert result.exit_code == 2
    assert "x.npy: exists already: choose another name, or --force to replace it" in result.output
    result = run(*args, "--max-passes", 100, "--force")
    assert result.exit_code == 0
    assert "state" not in files(folder)
    found = rowsolve.solve("A.h5", b, "block", memory=LITTLE, rng=3, threads=1, rtol=1e-9)
    assert relative_error(np.load("x.npy"), found.x) < 1e-8


def test_resume__of_another_solve_raises_an_error_and_leaves_all_as_it_was(folder):
    assert run("--checkpoint", "state", "-m", "block").exit_code == 0
    np.save("x.npy", X_TRUE)
    before = (folder / "state").read_bytes()
    result = run("--checkpoint", "state", "--resume", "-m", "block", "--rtol", 1e-3, "-o", "x.npy", "--force")
    assert result.exit_code == 2
    assert "state: is the checkpoint of another solve, with different rtol, atol." in result.output
    np.testing.assert_array_equal(np.load("x.npy"), X_TRUE)
    assert (folder / "state").read_bytes() == before


def full_disk(monkeypatch, fails):
    replace = output._replace

    def replace_unless_full(place, part):
        if fails(place.name):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        replace(place, part)

    monkeypatch.setattr(output, "_replace", replace_unless_full)


def test_full_disk__for_x_keeps_the_checkpoint_and_nothing_half_written(folder, monkeypatch):
    full_disk(monkeypatch, lambda name: name == "x.npy")
    args = ("--checkpoint", "state", "--resume", "-o", "x.npy", "-m", "block")
    result = run(*args)
    assert result.exit_code == 2
    assert "x.npy: could not be written: No space left on device" in result.output
    assert files(folder) == ["A.h5", "b.npy", "state"]
    monkeypatch.undo()
    os.chdir(folder)
    assert run(*args).exit_code == 0
    np.testing.assert_array_equal(np.load("x.npy"), rowsolve.solve("A.h5", b, "block", rng=3, threads=1).x)


def test_full_disk__for_the_checkpoint_is_reported_and_x_is_written(folder, monkeypatch):
    full_disk(monkeypatch, lambda name: name == "state")
    with pytest.warns(RuntimeWarning, match="No space left"):
        result = run("--checkpoint", "state", "-o", "x.npy", "-m", "block")
    assert result.exit_code == 0
    assert "The last checkpoint could not be written, there is no previous one" in " ".join(result.output.split())
    assert files(folder) == ["A.h5", "b.npy", "x.npy"]


def test_damaged_rows__leave_an_older_output_alone(folder):
    whole = (folder / "A.h5").read_bytes()
    at = whole.index(A[700, 5].tobytes())
    (folder / "A.h5").write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    np.save("x.npy", X_TRUE)
    for method in ("refined", "cyclic"):
        result = run("--memory", LITTLE, "-o", "x.npy", "--force", "-m", method, "--rtol", 1e-12, "--check", "full")
        assert result.exit_code == 2
        assert "A.h5:/A: rows " in result.output
        assert "cannot be read (damaged or truncated)" in result.output
        np.testing.assert_array_equal(np.load("x.npy"), X_TRUE)
        assert files(folder) == ["A.h5", "b.npy", "x.npy"]
