"""The README says nothing that a command did not say."""

from __future__ import annotations

from pathlib import Path

import pytest

from rowsolve.cli.methods import methods_as_markdown

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_readme__has_the_table_of_methods_of_the_registry():
    assert methods_as_markdown() in README, "run `make docs`"


def test_readme__has_the_table_of_the_last_race(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    from make import race

    assert f"<!-- race -->\n{race()}<!-- end of race -->" in README, "run `make docs`"


def test_readme__python_runs():
    code = README.split("```python\n")[1].split("```")[0]
    names: dict = {}
    exec(code, names)
    assert names["solution"].converged


@pytest.mark.parametrize(
    "name", ["LICENSE", "CHANGELOG.md", "CONTRIBUTING.md", "docs/demo.png", "benchmarks/results/race.png"]
)
def test_files__that_the_readme_points_to_are_there(name):
    assert (ROOT / name).exists()
    assert name in README


def test_paper__has_the_numbers_of_the_tables_that_the_command_wrote(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    from paper import filled

    text = (ROOT / "docs" / "paper.md").read_text(encoding="utf-8")
    assert filled(text) == text, "run `make paper`"
    for name in ("figure-1.png", "figure-2.png", "figure-3.png", "map.png", "sketch.png"):
        assert (ROOT / "docs" / "paper" / name).exists()
        assert f"(paper/{name})" in text
