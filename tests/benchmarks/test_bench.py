"""`make bench`: the files that it writes and the tables that it prints."""

from __future__ import annotations

import json
import sys

import pytest
import race as bench
from corpus import CORPUS
from rich.console import Console

from rowsolve.race.lineup import line_up
from rowsolve.race.results import Conditions, Outcome, Result


def result(case, ours, *, target=12.0):
    outcomes = (
        Outcome("rowsolve auto", True, "tolerance", "reached", seconds=(ours,)),
        Outcome("scipy lsmr", False, "tolerance", "reached", seconds=(6.0,)),
        Outcome("numpy lstsq", False, "", "skipped", "about 70 s expected"),
    )
    return Result(case, "family", 9, 3, "dense", 1e-6, "known", Conditions(2), outcomes, {"x": "not installed"}, target)


def test_merged__replaces_cases_and_keeps_the_order_of_the_corpus():
    names = list(CORPUS)[:3]
    old = [result(names[2], 1.0), result(names[0], 1.0)]
    found = bench.merged(old, [result(names[1], 2.0), result(names[0], 3.0)])
    assert [(one.case, one.ours.best) for one in found] == [(names[0], 3.0), (names[1], 2.0), (names[2], 1.0)]


def test_growth__is_judged_when_both_cases_are_there():
    small, large = result("gaussian-20000x1000", 1.0), result("gaussian-200000x1000", 1.5)
    assert bench.growth_in_words([small]) == ""
    assert bench.growth_in_words([small, large]).endswith("the time of rowsolve grows 1.50 times (target 1.2: short).")


def test_table__has_ratios_and_words(capsys):
    Console(width=200).print(bench.table_of([result("a", 0.5)]))
    line = next(line for line in capsys.readouterr().out.splitlines() if "│ a " in line)
    cells = [cell.strip() for cell in line.strip("│").split("│")]
    assert cells == [
        "a",
        "0.500 s",
        "12.0",
        "absent",
        "absent",
        "skipped",
        "absent",
        "absent",
        "absent",
        "12.0",
        "12: met",
    ]


@pytest.fixture
def quick_bench(tmp_path, monkeypatch):
    """A function that runs the command with a separate results folder and few solvers."""
    monkeypatch.setattr(bench, "RESULTS", tmp_path)
    monkeypatch.setattr(
        bench, "line_up", lambda threads, outliers: (line_up(threads=threads)[0][:2], {"x": "not installed"})
    )

    def run(*args):
        monkeypatch.setattr(sys, "argv", ["race.py", *args])
        return bench.main()

    return run


@pytest.mark.compiled
def test_quick_run__writes_its_own_files_and_a_case_updates_them(quick_bench, tmp_path, capsys):
    assert quick_bench("--quick", "--case", "gaussian-200000x200", "--repeats", "1") == 0
    assert quick_bench("--quick", "--case", "clustered-loose-0.2", "--case", "file", "--repeats", "2") == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["race-quick.json", "race-quick.png"]
    document = json.loads((tmp_path / "race-quick.json").read_text())
    assert list(document["cases"]) == ["gaussian-200000x200", "clustered-loose-0.2"]
    assert document["cases"]["gaussian-200000x200"]["threads"] == 1
    assert document["machines"][0]["versions"]["numpy"]
    said = capsys.readouterr().out
    assert "file-npy: skipped, has no quick size" in said
    assert "Not compared: x, not installed." in said


def test_list_and_wrong_names(quick_bench, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    assert quick_bench("--list") == 0
    assert "gaussian-50000x1000" in capsys.readouterr().out
    assert quick_bench("--case", "nonsense") == 2
    assert "unknown case 'nonsense'" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        quick_bench("--repeats", "0")
    assert list(tmp_path.iterdir()) == []
