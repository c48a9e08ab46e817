"""`make bench-wild`: the draws, their solutions, the peers, and the figures of the report."""

from __future__ import annotations

import json
from pathlib import Path

import families
import numpy as np
import peers
import pytest
import reference
import wild
import wild_picture
import wild_report
from scipy import sparse

from rowsolve.race import machine

MADE_UP = {
    "settings": {"lsmr": "1e-05"},
    "status": "CONVERGED",
    "method": "refined",
    "reason": "It is small.",
    "out": {},
}
SMALL = [name for name in families.FAMILIES if name not in families.TABLE_FAMILIES]


@pytest.fixture
def small(monkeypatch):
    """Draws of at most 60,000 numbers."""
    drawn = families.between
    monkeypatch.setattr(families, "NUMBERS", 6e4)
    monkeypatch.setattr(families, "FLOPS", 2e6)
    monkeypatch.setattr(families, "between", lambda rng, low, high: drawn(rng, low, min(high, max(2 * low, 12))))


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def result(family, ours, wrong=False, index=0, busy_cores=0.0, **theirs):
    seconds = {"rested": {"rowsolve": ours, **theirs}}
    error = 1e-3 if wrong else 1e-9
    return {"index": index, "family": family, "what": "9x3 c", "seconds": seconds, "error": error, "wrong": wrong,
            "busy_cores": busy_cores, **MADE_UP}  # fmt: skip


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("name", SMALL)
def test_family__makes_the_same_system_again_with_a_solution_whose_gradient_is_zero(name):
    index = list(families.FAMILIES).index(name)
    one, again = families.draw(3, index), families.draw(3, index)
    A, b = one.A.astype(float), one.b.astype(float)
    assert one.family == name
    assert A.shape[0] > A.shape[1] > 0
    assert str(one) == str(again)
    np.testing.assert_array_equal(one.b, again.b)
    assert abs(one.A - again.A).max() == 0
    gradient = A.T @ (b - A @ one.x)
    size = np.linalg.norm(A.toarray() if sparse.issparse(A) else A) * np.linalg.norm(b)
    assert np.linalg.norm(gradient) <= 1e-11 * size


def test_families__alternate_and_seeds_give_different_systems():
    count = len(families.FAMILIES)
    assert count >= 28
    assert families.family_of(count + 2) == families.family_of(2) == "polynomial"
    tiny = list(families.FAMILIES).index("tiny")
    assert str(families.draw(1, tiny)) != str(families.draw(2, tiny))


def test_tables__are_left_out_where_the_packages_are_missing(monkeypatch):
    monkeypatch.setattr(families.importlib.util, "find_spec", lambda name: None)
    assert families.left_out() == ["table", "table-one-hot"]
    args = wild.arguments(["--count", str(len(families.FAMILIES))])
    assert [families.family_of(index) for index in wild.indices_of(args)] == SMALL


@pytest.mark.parametrize("name", families.TABLE_FAMILIES)
def test_table__has_an_intercept_numbers_and_levels(rng, monkeypatch, name):
    pd = pytest.importorskip("pandas", reason="needs pip install 'rowsolve[tables]'")
    colour = np.resize(["red", "blue"], 40)
    table = pd.DataFrame({"rownames": range(40), "size": rng.random(40), "age": rng.random(40), "colour": colour})
    monkeypatch.setattr(families, "_loaders", lambda: {str(i): lambda: table for i in range(5)})
    one = families.draw(1, list(families.FAMILIES).index(name))
    A = one.A.toarray() if sparse.issparse(one.A) else one.A
    known, other = ("age", "size") if np.array_equal(one.b, table["size"]) else ("size", "age")
    np.testing.assert_array_equal(one.b, table[other])
    levels = [colour == "blue", colour == "red"] if name == "table-one-hot" else []
    np.testing.assert_array_equal(A, np.stack([np.ones(40), table[known], *levels], axis=1))


@pytest.mark.parametrize("solve", [reference.by_gram, reference.by_iterations, reference.solution_of])
def test_reference__is_the_minimum_norm_solution(rng, solve):
    A = sparse.csr_array(np.hstack([np.ones((60, 1)), np.eye(6)[rng.integers(0, 6, 60)]]))
    b = rng.standard_normal(60)
    np.testing.assert_allclose(solve(A, b), np.linalg.pinv(A.toarray()) @ b, rtol=0, atol=1e-9)


@pytest.mark.parametrize("solve", [reference.by_cholesky, reference.by_sparse_factor])
def test_reference__by_a_factor_needs_full_rank(rng, solve):
    A, b = sparse.csr_array(np.vstack([np.eye(8)] * 3) + 0.1), rng.standard_normal(24)
    np.testing.assert_allclose(solve(A, b), np.linalg.pinv(A.toarray()) @ b, rtol=0, atol=1e-12)
    assert solve(sparse.csr_array(sparse.hstack([A, A])), b) is None


def test_reference__is_none_where_it_is_in_doubt(rng):
    U, V = np.linalg.qr(rng.standard_normal((40, 5)))[0], np.linalg.qr(rng.standard_normal((5, 5)))[0]
    b = rng.standard_normal(40)
    for least in (1e-7, 1e-12):  # too ill-conditioned for this noise; of no certain rank
        assert reference.solution_of((U * np.geomspace(1, least, 5)) @ V, b) is None
    assert reference.solution_of(U * 10.0 ** np.arange(-4, 6, 2), b) is not None  # only units


@pytest.mark.parametrize("stored", [np.asarray, np.float32, sparse.csr_array])
def test_peers__reach_the_error(rng, stored, monkeypatch):
    monkeypatch.setattr(machine, "_seconds_a_flop", lambda: 1e-10)
    monkeypatch.setattr(peers, "APART", np.inf)
    A = stored(rng.standard_normal((90, 6)))
    b = A.astype(float) @ np.ones((6, 2)) + rng.standard_normal((90, 2))
    truth = reference.solution_of(A, b)
    found, out = peers.field(A, b, truth)
    assert {name for name, why in out.items() if not why.startswith(("does not support", "is not inst"))} == set()
    assert len(found) >= 5
    assert max(peers.error_of(one.run(), truth) for one in found) <= 1e-6


def test_peer__that_misses_the_error_is_excluded_with_the_reason(rng, monkeypatch):
    monkeypatch.setattr(machine, "_seconds_a_flop", lambda: 1e-10)
    A = rng.standard_normal((50, 3))
    A = np.hstack([A, A])
    b = A @ np.ones(6)
    found, out = peers.field(A, b, reference.solution_of(A, b))
    assert "cholesky" in out
    assert {"lsmr", "lsqr"} <= {one.name for one in found} | set(out)


def test_error__is_that_of_the_worst_right_hand_side():
    truth = np.array([[3.0, 1.0], [4.0, 0.0]])
    assert peers.error_of(np.array([[3.0, 1.5], [4.0, 0.0]]), truth) == 0.5
    assert peers.error_of(np.full(2, np.nan), truth[:, 0]) == np.inf


def test_within__stops_what_takes_too_long():
    assert peers.within(lambda: None, 600.0)
    assert not peers.within(lambda: wild.time.sleep(60), 0.1)


def test_within__is_false_where_it_raises(capfd):
    singular = sparse.csc_array(np.ones((3, 3)))
    assert not peers.within(lambda: peers.splu(singular), 10.0)
    assert capfd.readouterr().err == ""


def test_report__has_ratios_by_value():
    results = [result("a", 1.0, lsmr=0.5, gelsy=0.75), result("a", 1.0, lsmr=4.0), result("b", 2.0, cholesky=2.0)]
    assert wild_report.table_of(results, "rested") == [
        "family                  count      min       5%   median      max",
        "a                           2      0.5    0.675     2.25        4",
        "b                           1        1        1        1        1",
        "all                         3      0.5     0.55        1        4",
    ]
    assert wild_report.overall(results, "rested") == [
        "Quantiles of 3: 0% 0.5  5% 0.55  25% 0.75  50% 1  75% 2.5  100% 4",
        "Shares: >= 1: 66.7%  >= 0.9: 66.7%  >= 0.5: 100.0%",
    ]


def test_report__judges_small_systems_by_the_difference():
    results = [result("a", 6e-4, lsmr=5e-4), result("a", 9e-4, lsmr=5e-4), result("a", 1.0, lsmr=1.0)]
    assert wild_report.ratios_of(results, "rested").tolist() == [1.0]
    assert wild_report.small_in_words(results, "rested") == [
        "Best peer below 1 ms: rowsolve takes at most 0.15 ms longer in 1 of 2 draws;",
        "the difference is +0.250 ms in the median and +0.400 ms at most.",
    ]


def test_report__lists_wrong_ones_first_then_the_slowest():
    results = [
        result("fast", 1.0, index=1, lsmr=9.0),
        result("slow", 1.0, index=2, lsmr=0.2),
        result("wrong", 1.0, index=3, wrong=True, lsmr=5.0),
        result("alone", 1.0, index=4, busy_cores=0.7),
        result("small", 6e-4, index=5, lsmr=5e-4),
    ]
    lines = wild_report.report(results)
    starts = [line.split()[1] for line in lines if line[:5].strip().isdigit()]
    assert starts == ["wrong", "slow", "fast", "alone", "small"]
    assert "WRONG: error 1.0e-03; rowsolve 1000 ms, lsmr 1e-05 5000 ms; CONVERGED, refined: It is" in " ".join(
        line.strip() for line in lines
    )
    assert lines[-3:] == [
        "Other programs kept up to 0.7 cores busy in 1 of 5 draws.",
        "",
        "True error above 1e-6 in 1 of 5 draws: [3]",
    ]
    assert "No peer reached the error: 1" in lines
    assert max(map(len, lines)) <= 80


def test_picture__has_a_colour_for_each_condition():
    one = result("a", 1.0, lsmr=3.0)
    one["seconds"]["busy"] = {"rowsolve": 1.0, "rowsolve threads=1": 2.0}
    axes = wild_picture.picture_of([one, result("b", 1e-4, lsmr=2e-4)]).axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a", "b"]
    assert [text.get_text() for text in axes.get_legend().get_texts()][:2] == [
        "idle before each call",
        "one core busy: threads=1 / default",
    ]
    points = [tuple(point) for dots in axes.collections for point in dots.get_offsets().tolist()]
    assert sorted(round(x, 6) for x, _ in points) == [2.0, 2.0, 3.0]


def test_command__draws_measures_and_writes(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(wild, "REST", 0.0)
    monkeypatch.setattr(machine, "_seconds_a_flop", lambda: 1e-10)
    path, tiny = tmp_path / "wild.json", list(families.FAMILIES).index("tiny")
    assert wild.main(["--index", str(tiny), "--json", str(path), "--ways", "rested,product,busy"]) == 0
    (found,) = json.loads(path.read_text())["results"]
    assert (found["index"], found["family"], found["wrong"]) == (tiny, "tiny", False)
    assert found["reason"].endswith("computed the least-squares solution.")
    assert list(found["seconds"]) == ["rested", "product", "busy"]
    assert list(found["seconds"]["busy"]) == ["rowsolve", "rowsolve threads=1"]
    assert path.with_suffix(".png").stat().st_size > 0
    written = capsys.readouterr().out
    path.with_suffix(".png").unlink()
    assert wild.main(["--replot", "--json", str(path)]) == 0
    assert capsys.readouterr().out in written
    assert path.with_suffix(".png").exists()


def test_command__reports_that_no_system_has_a_certain_solution(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(families, "solution_of", lambda A, b: None)
    monkeypatch.setattr(families, "ATTEMPTS", 2)
    assert wild.main(["--only", "tiny", "--count", "1", "--json", str(tmp_path / "wild.json")]) == 2
    written = capsys.readouterr().out
    assert "The solution is not known accurately for any of 2 systems of the family 'tiny'." in written
    assert "No system was drawn. Try a larger --count, or another --only." in written


def test_command__repeats_families_and_indices():
    count, tiny = len(families.FAMILIES), list(families.FAMILIES).index("tiny")
    assert wild.indices_of(wild.arguments(["--only", "tiny", "--count", "2"])) == [tiny, tiny + count]
    assert wild.indices_of(wild.arguments(["--start", "3", "--count", "2"])) == [3, 4]
    assert wild.indices_of(wild.arguments(["--index", "7", "--index", "1"])) == [7, 1]


def test_command__needs_results_to_draw_again(tmp_path, capsys):
    with pytest.raises(SystemExit):
        wild.arguments(["--replot", "--json", str(tmp_path / "none.json")])
    assert "none.json, which does not exist. Try without --replot first." in capsys.readouterr().err


def test_command__lists_the_conditions(capsys):
    with pytest.raises(SystemExit):
        wild.arguments(["--ways", "rested,asleep"])
    assert "--ways must be one or more of rested,product,busy, got rested,asleep." in capsys.readouterr().err


def test_makefile__has_the_target():
    lines = (Path(wild.__file__).parents[1] / "Makefile").read_text(encoding="utf-8").splitlines()
    at = lines.index("bench-wild: .venv/ready-tables .venv/ready-bench")
    assert lines[at + 1] == "\t$(RUN) benchmarks/wild.py $(ARGS)"
