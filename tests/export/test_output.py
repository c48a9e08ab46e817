"""Names of the same file: no file that is read or written may be replaced."""

from __future__ import annotations

import os

import numpy as np
import pytest

import rowsolve
from rowsolve.export import output
from rowsolve.export.output import OutputFile, make_sure_apart


def test_names_of_the_same_file__are_recognised_even_if_it_does_not_exist(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "way").symlink_to("folder")
    (tmp_path / "here").touch()
    (tmp_path / "link").symlink_to("here")
    (tmp_path / "ahead").symlink_to("folder/coming")
    os.link("here", "hard")
    paths = [tmp_path / name for name in ("here", "link", "hard", "folder/../here", "way/../here")]
    coming = [tmp_path / name for name in ("folder/coming", "way/coming", "ahead")]
    for group, others in ((paths, coming), (coming, paths)):
        for path in group:
            for same in group:
                with pytest.raises(ValueError, match=r"is the file that `A` is read from.*: choose another name\."):
                    make_sure_apart(path, {"`A` is read from": [same]})
            make_sure_apart(path, {"`A` is read from": others})


def test_names_that_differ_in_case__are_one_file_if_the_file_system_ignores_case(tmp_path, monkeypatch):
    one, other = tmp_path / "x.npy", tmp_path / "X.npy"
    ignores_case = (tmp_path / "a").touch() or (tmp_path / "A").exists()
    if not ignores_case:
        make_sure_apart(one, {"the checkpoint is written to": [other]})
    monkeypatch.setattr(output, "_is_same_name", lambda *paths: paths[0].name.lower() == paths[1].name.lower())
    with pytest.raises(ValueError, match=r"x\.npy: is the file that the checkpoint is written to \(.*X\.npy\)"):
        make_sure_apart(one, {"the checkpoint is written to": [other]})
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_output_file__that_is_read_raises_an_error_even_without_force(tmp_path):
    path = tmp_path / "x.npy"
    path.write_text("mine")
    for force in (False, True):
        with pytest.raises(ValueError, match="is the file that `b` is read from: choose another name"):
            OutputFile(path, (".npy",), force=force, apart_from={"`b` is read from": [path]})
    with pytest.raises(FileExistsError, match="exists already: choose another name, or --force to replace it"):
        OutputFile(path, (".npy",))
    OutputFile(path, (".npy",), force=True).write(lambda file: file.write(b"new") and None)
    assert path.read_text() == "new"


def test_checkpoint__is_never_a_file_that_is_read(tmp_path):
    A = np.random.default_rng(0).standard_normal((60, 3))
    for name, values in (("A.npy", A), ("b.npy", A.sum(axis=1)), ("x0.npy", np.ones(3))):
        np.save(tmp_path / name, values)
    before = [path.read_bytes() for path in sorted(tmp_path.iterdir())]
    paths = tmp_path / "A.npy", tmp_path / "b.npy", tmp_path / "x0.npy"
    mapped = [np.load(path, mmap_mode="r") for path in paths]
    for A, b, x0 in (paths, mapped, map(str, paths)):
        for path, what in zip(paths, ("`A`", "`b`", "`x0`"), strict=True):
            for resume in (False, True):
                with pytest.raises(ValueError, match=rf"{path.name}: is the file that {what} is read from"):
                    rowsolve.solve(A, b, x0=x0, checkpoint=path, resume=resume)
    assert [path.read_bytes() for path in sorted(tmp_path.iterdir())] == before


def test_x0__may_be_a_file(tmp_path):
    A = np.random.default_rng(0).standard_normal((60, 3))
    np.save(tmp_path / "x0.npy", [1.0, 2.0, 3.0])
    found = rowsolve.solve(A[:2], A[:2] @ [1.0, 2.0, 3.0], x0=tmp_path / "x0.npy", rng=0)
    np.testing.assert_allclose(found.x, [1.0, 2.0, 3.0], rtol=1e-12)  # of all solutions, the one nearest to x0
