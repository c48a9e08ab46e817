"""The generated parts of the README and of the guides are up to date."""

from __future__ import annotations

import importlib
import inspect
from itertools import combinations
from pathlib import Path

import pytest

from rowsolve.cli.methods import methods_as_markdown
from rowsolve.engine import outliers, stages
from rowsolve.policy import auto
from rowsolve.race.results import Outcome, Result

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_readme__has_the_table_of_methods_of_the_registry():
    assert methods_as_markdown() in README, "run `make docs`"


def test_readme__has_the_table_of_the_last_race(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    from make import race

    assert f"<!-- race -->\n{race()}<!-- end of race -->" in README, "run `make docs`"


def test_contributing__has_the_table_of_packages(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    from make import packages

    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert f"<!-- packages -->\n{packages()}<!-- end of packages -->" in text, "run `make docs`"


def test_readme__python_runs():
    code = README.split("```python\n")[1].split("```")[0]
    names: dict = {}
    exec(code, names)
    assert names["solution"].converged


@pytest.mark.parametrize(
    "name",
    ["LICENSE", "CHANGELOG.md", "CONTRIBUTING.md", "docs/choosing.md", "docs/demo.png", "benchmarks/results/race.png"],
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


@pytest.mark.parametrize(
    ("ratios", "loose", "tight"),
    [
        ((0.99, 1.04, 7.2, 25.74), "level on loose clusters (0.99 to 1.04), ",
         "does **not** hold on tight clusters (7.20 to 25.7)"),
        ((1.0, 1.002, 0.026, 0.4), "level on loose clusters (1.00), ", "**holds** on tight clusters (0.026 to 0.40)"),
        ((0.9, 0.9, 1.0, 1.1), "**holds** on loose clusters (0.90), ",
         "on tight clusters level at noise 0.1 (1.00) and does **not** hold at noise 0.2 (1.10)"),
        ((0.96, 0.97, 1.0, 1.05), "level on loose ", "and tight clusters (0.96 to 1.05)"),
    ],
)  # fmt: skip
def test_paper__says_where_a_claim_holds(monkeypatch, ratios, loose, tight):
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    from paper import in_words

    kinds = [(clusters, noise) for clusters in ("loose", "tight") for noise in (0.1, 0.2)]
    assert in_words(dict(zip(kinds, ratios, strict=True))) == loose + tight


@pytest.fixture
def choosing(monkeypatch):
    """The script that fills docs/choosing.md."""
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    import choosing

    return choosing


def test_choosing__has_the_tables_of_the_policy_and_of_the_last_race(choosing):
    text = choosing.PAGE.read_text(encoding="utf-8")
    assert choosing.filled(text) == text, "run `make docs`"
    assert "(choosing.png)" in text


def test_choosing__has_every_decision_of_auto_and_no_other(choosing):
    turns = [*choosing.first_turns(), *(turn for turns in choosing.next_turns().values() for turn in turns)]
    said, reasons = [turn.says for turn in turns if turn.says], {rule.why for rule in (*auto.FIRST, *auto.NEXT)} - {""}
    known = "".join(reasons) + inspect.getsource(stages) + inspect.getsource(outliers)
    assert [words for words in said if words not in known] == []
    assert [reason for reason in reasons if not any(words in reason for words in said)] == []


def test_choosing__has_the_last_method_of_auto(choosing):
    def outcome(name, status, passes, seconds=(), *, ours=False):
        verdict = "reached" if seconds else "never"
        return Outcome(name, ours, "tolerance", verdict, "too hard", None, seconds, 0.1, status, passes)

    def result(case, family, *outcomes):
        return Result(case, family, 20_000, 100, "dense", 1e-6, "known", 1, outcomes)

    quick = outcome("rowsolve auto", "CONVERGED (direct)", 0.0123, (0.5,), ours=True)
    short = outcome("rowsolve auto", "MAX_PASSES (refined)", 1234.5, ours=True)
    failed = outcome("rowsolve auto", "raised ValueError: no", None, ours=True)
    lsqr, gram = outcome("scipy lsqr", "", 37.0, (2.0,)), outcome("normal equations", "", None, (3.0,))
    races = [result("a", "one", quick, gram, lsqr), result("b", "one", short, gram), result("c", "two", failed)]
    assert choosing.corpus(races).splitlines() == [
        "`auto` reached a true relative error of 1e-06 in 1 of 3 cases, and was the fastest solver in 1 of them.",
        "",
        "| family | case | size | `auto` ended with | passes over A | best peer | its passes | its time / ours |",
        "|---|---|---|---|---|---|---|---|",
        "| one | a | 20,000 x 100 | `direct` | 0.01 | scipy lsqr | 37 | 4.00 |",
        "|  | b | 20,000 x 100 | `refined`: MAX_PASSES | 1,234 | normal equations | in memory | never |",
        "| two | c | 20,000 x 100 | never: best error 1.0e-01; too hard |  | none |  | none |",
    ]


@pytest.mark.parametrize("page", ["choosing", "architecture"])
def test_pictures__are_up_to_date_and_their_texts_do_not_overlap(page, choosing):
    from PIL import Image

    script = importlib.import_module(page)
    figure = script.picture()
    assert f"({script.PICTURE.name})" in (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    with Image.open(script.PICTURE) as kept:
        assert kept.text["Description"] == choosing.words_of(figure), "run `make docs`"
    figure.draw_without_rendering()
    boxes = [(text.get_text(), text.get_window_extent()) for text in figure.axes[0].texts if text.get_text()]
    assert [words for words, box in boxes if box.x0 < 0 or box.x1 > figure.bbox.x1 or box.y0 < 0] == []
    assert [(a, b) for (a, one), (b, other) in combinations(boxes, 2) if one.overlaps(other)] == []
