"""``rowsolve reproduce``: its files, its messages, and interrupted runs."""

from __future__ import annotations

import csv
from dataclasses import replace

import pytest
from typer.testing import CliRunner

import rowsolve.cli.reproduce
from rowsolve.cli import app
from rowsolve.experiments.convergence import BlockFigure, JLFigure
from rowsolve.experiments.sketches import SketchFigure
from rowsolve.experiments.spectra import SpectraFigure
from rowsolve.experiments.winners import MapFigure

TINY = {
    "1": JLFigure("quick", 120, 10, 2, noises=(0.2,), goal=0.5, rows_per_column=30, rows_per_column_noisy=20),
    "2": BlockFigure("quick", 120, 10, 2, noises=(0.2,), goal=0.5, rows_per_column_noisy=20),
    "3": SpectraFigure("quick", 120, 10, 3, n_blocks=10),
    "map": MapFigure("quick", 120, 10, 1, separations=(0.1,), noises=(0.1,), goal=0.5, rows_per_column_noisy=20),
    "sketch": SketchFigure("quick", 120, 10, 1, sketch_size=4, n_candidates=10),
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(rowsolve.cli.reproduce, "figures_of", lambda _: TINY)
    return tmp_path


def run(*args, columns=200):
    return CliRunner().invoke(app, ["reproduce", "--quick", *map(str, args)], env={"COLUMNS": str(columns)})


def lines_without_time(path):
    with path.open() as file:
        return [{name: cell for name, cell in line.items() if name != "seconds"} for line in csv.DictReader(file)]


@pytest.fixture
def no_pictures(monkeypatch):
    """Do not draw, which takes longest and is checked by the first test only."""
    monkeypatch.setattr(rowsolve.cli.reproduce, "_draw", lambda _: None)


@pytest.fixture
def seeds_run(monkeypatch):
    """The seeds of figure 3 that are computed; the one in `stop_at` is interrupted."""
    seen, stop_at, steps = [], [], SpectraFigure.steps

    def watched(self, seed):
        seen.append(seed)
        if seed in stop_at:
            raise KeyboardInterrupt
        yield from steps(self, seed)

    monkeypatch.setattr(SpectraFigure, "steps", watched)
    return seen, stop_at


def test_reproduce__writes_a_table_and_a_picture_of_each_figure_and_names_them(folder):
    result = run("--out", "new/figures")
    assert result.exit_code == 0, result.output
    names = ["figure-1-quick", "figure-2-quick", "figure-3-quick", "map-quick", "sketch-quick"]
    found = sorted(path.name for path in (folder / "new/figures").iterdir())
    assert found == [f"{name}{ending}" for name in names for ending in (".csv", ".png")]
    for name in names:
        assert f"new/figures/{name}.png, new/figures/{name}.csv" in result.stdout
        assert (folder / f"new/figures/{name}.png").read_bytes().startswith(b"\x89PNG")
    lines = lines_without_time(folder / "new/figures/figure-2-quick.csv")
    assert {line["method"] for line in lines} == {"block", "cluster-block"}
    assert {line["noise_on"] for line in lines} == {"A", "b", "A after b"}
    assert {line["n_steps"] for line in lines if line["n_draws"] == "15"} == {"1", "2", "5", "10"}
    assert all(float(line["relative_residual"]) > 0.0 for line in lines)
    assert all(line["settings"].startswith("size=quick n_rows=120 n_columns=10") for line in lines)


def test_reproduce__fits_80_columns(folder, no_pictures):
    result = run("--figure", "3", columns=80)
    assert result.exit_code == 0
    (folder / "rowsolve-figures/figure-3-quick.csv").write_text(f"{'time,value,' * 20}\n")
    for output in (result.output, run("--figure", "3", columns=80).output, run("--figure", "4", columns=80).output):
        assert max(map(len, output.splitlines())) <= 80


def test_reproduce__figures_have_titles():
    assert [rowsolve.cli.reproduce._title(figure) for figure in TINY.values()] == [
        "Figure 1", "Figure 2", "Figure 3", "Map", "Sketch",
    ]  # fmt: skip


def test_reproduce__makes_only_the_figure_asked_for(folder):
    assert run("--figure", "3").exit_code == 0
    assert sorted(path.name for path in (folder / "rowsolve-figures").iterdir()) == [
        "figure-3-quick.csv", "figure-3-quick.png",
    ]  # fmt: skip


def test_reproduce__interrupted_is_resumed(folder, seeds_run, no_pictures):
    seen, stop_at = seeds_run
    assert run("--figure", "3", "--out", "whole").exit_code == 0
    stop_at.append(1)
    seen.clear()
    result = run("--figure", "3", "--out", "parts")
    assert result.exit_code == 1
    assert "interrupted: finished seeds are saved in parts. Run the same command again to continue." in result.stderr
    assert [path.name for path in (folder / "parts").iterdir()] == ["figure-3-quick.csv"]
    stop_at.clear()
    assert run("--figure", "3", "--out", "parts").exit_code == 0
    assert seen == [0, 1, 1, 2]
    whole, parts = (folder / name / "figure-3-quick.csv" for name in ("whole", "parts"))
    assert parts.read_bytes() == whole.read_bytes()
    assert run("--figure", "3", "--out", "parts").exit_code == 0
    assert seen == [0, 1, 1, 2]  # nothing is left to do but to draw


def test_reproduce__gives_the_same_errors_whether_interrupted_or_not(folder, monkeypatch, no_pictures):
    figure = TINY["1"]
    assert run("--figure", "1", "--out", "whole").exit_code == 0
    monkeypatch.setitem(TINY, "1", replace(figure, n_seeds=1))
    assert run("--figure", "1", "--out", "parts").exit_code == 0
    monkeypatch.setitem(TINY, "1", figure)
    assert run("--figure", "1", "--out", "parts").exit_code == 0
    whole, parts = (lines_without_time(folder / name / "figure-1-quick.csv") for name in ("whole", "parts"))
    assert parts == whole


def cut_off(text):
    return text[: len(text) * 2 // 3].rstrip("\n")


def drop_a_line(text):
    return "".join(text.splitlines(keepends=True)[:-1])


def without_a_cell(text):
    lines = text.splitlines(keepends=True)
    return "".join([*lines[:3], lines[3].partition(",")[2], *lines[4:]])


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (cut_off, "the last line is truncated"),
        (drop_a_line, "seed 2: expected 80 lines, got 79. Delete all lines of seed 2 to keep the other seeds. Nothing"),
        (without_a_cell, "line 4: expected 9 values, got 8"),
        (lambda text: text.replace("n_rows=120", "n_rows=10000"), "line 2: expected the settings"),
        (lambda text: text.replace("loose,0.1,", "loose,0.1x,", 1), "line 2: expected a number for noise, got '0.1x'"),
        (lambda _: "time,value\n1,2\n", "but got time, value Nothing was changed"),
        (lambda _: "", "the last line is truncated"),
        (lambda _: "\n", "expected the columns settings, seed, lines_of_seed, "),
        (lambda _: '"', "the last line is truncated"),
        (lambda _: '"\n', "it is not a valid CSV file"),
        (lambda _: "\udcff\n", "it is not a text file"),
    ],
)
def test_table__that_is_truncated_or_foreign_raises_an_error_and_is_kept(folder, seeds_run, no_pictures, spoil, words):
    assert run("--figure", "3").exit_code == 0
    seeds_run[0].clear()
    path = folder / "rowsolve-figures/figure-3-quick.csv"
    spoiled = spoil(path.read_text()).encode(errors="surrogateescape")
    path.write_bytes(spoiled)
    result = run()  # all figures: found out before the first is begun
    assert result.exit_code == 2
    found = " ".join(result.stderr.split())
    assert words in found
    assert "rowsolve-figures/figure-3-quick.csv: not a valid table of this figure" in found
    assert "Nothing was changed. To start again, move this file and its PNG file, or choose another folder" in found
    assert path.read_bytes() == spoiled
    assert not seeds_run[0]


def test_reproduce__figure_that_is_not_there(folder):
    result = run("--figure", "4")
    assert result.exit_code == 2
    assert "unknown figure '4': expected one of 1, 2, 3, map, sketch" in result.stderr
    assert not list(folder.iterdir())


def test_reproduce__leaves_a_picture_alone_that_has_no_table_of_its_own(folder, seeds_run):
    (folder / "figure-3-quick.png").write_bytes(b"holiday")
    result = run("--figure", "3", "--out", ".")
    assert result.exit_code == 2
    assert "figure-3-quick.png: exists already, but its table figure-3-quick.csv does not" in result.stderr
    assert "Move it away, or choose another folder with --out" in " ".join(result.stderr.split())
    assert (folder / "figure-3-quick.png").read_bytes() == b"holiday"
    assert not seeds_run[0]
    (folder / "figure-3-quick.png").unlink()
    assert run("--figure", "3", "--out", ".").exit_code == 0
    (folder / "figure-3-quick.png").write_bytes(b"old")
    assert run("--figure", "3", "--out", ".").exit_code == 0  # beside its own table it is drawn anew
    assert (folder / "figure-3-quick.png").read_bytes().startswith(b"\x89PNG")


def test_reproduce__does_not_write_two_figures_to_one_file(folder, seeds_run):
    assert run("--figure", "3", "--out", ".").exit_code == 0
    seeds_run[0].clear()
    table = (folder / "figure-3-quick.csv").read_bytes()
    (folder / "figure-3-quick.png").unlink()
    (folder / "figure-3-quick.png").symlink_to("figure-3-quick.csv")
    result = run("--figure", "3", "--out", ".")
    assert result.exit_code == 2
    assert "figure-3-quick.png: is the file that its table is written to (figure-3-quick.csv)" in result.stderr
    assert (folder / "figure-3-quick.csv").read_bytes() == table
    (folder / "map-quick.csv").symlink_to("later.csv")
    (folder / "sketch-quick.csv").symlink_to("later.csv")
    (folder / "figure-3-quick.png").unlink()
    result = run("--out", ".")
    assert "sketch-quick.csv: is the file that another one is written to (map-quick.csv)" in result.stderr
    assert not seeds_run[0]


def test_reproduce__folder_that_cannot_be_written_is_found_out_before_computing(folder, monkeypatch):
    for figure in {type(figure) for figure in TINY.values()}:
        monkeypatch.setattr(figure, "steps", lambda *_: pytest.fail("computed first"))
    (folder / "taken").write_text("mine")
    (folder / "half/map-quick.png").mkdir(parents=True)
    for name, words in (
        ("taken", "taken: expected a folder for the figures (--out), but this is a file."),
        ("taken/inside", "taken/inside: the folder cannot be created: Not a directory"),
        ("half", "half/map-quick.png: is a folder, expected the name of a file"),
    ):
        result = run("--out", name)
        assert result.exit_code == 2
        assert words in result.stderr
    assert (folder / "taken").read_text() == "mine"
