from __future__ import annotations

import json
import math

import pytest

from rowsolve.race.results import Attempt, Conditions, Outcome, Result, as_document, of_document


def outcome(name, *seconds, ours=False, passes=None):
    """Return an outcome that reached the error in `seconds`, or never."""
    verdict = "reached" if seconds else "never"
    attempts = (Attempt(1e-6, 0.5, 1e-3, "short"), Attempt(1e-7, 0.5, None, "time limit: 1 s"))
    return Outcome(
        name, ours, "tolerance", verdict, "" if seconds else "why", 1e-7, seconds, 1e-7, "ok", passes, attempts
    )


def result(*outcomes, case="a", busy=None, machine=None, **more):
    conditions = Conditions(2, busy=busy, machine=machine or {"cpu": "x", "cores": 2})
    return Result(
        case, "family", 100, 10, "dense", 1e-6, "known", conditions, tuple(outcomes), {"gone": "not installed"}, **more
    )


def test_ratio__is_the_least_time_of_a_peer_over_our_least():
    found = result(
        outcome("rowsolve auto", 2.0, 1.0, ours=True), outcome("rowsolve block", 0.1, ours=True),
        outcome("p", 9.0, 8.0), outcome("q", 7.0, 6.0, 12.0), outcome("r"),
    )  # fmt: skip
    assert [found.ratio(peer) for peer in found.peers] == [8.0, 6.0, math.inf]
    assert found.best_peer.name == "q"
    assert found.best_ratio == 6.0


def test_ratio__if_a_solver_does_not_reach_the_error():
    ours, never = outcome("rowsolve auto", 1.0, ours=True), outcome("rowsolve auto", ours=True)
    assert result(ours, outcome("p")).best_ratio == math.inf
    assert result(never, outcome("p", 1.0)).best_ratio == 0.0
    assert math.isnan(result(never, outcome("p")).best_ratio)


@pytest.mark.parametrize(
    ("theirs", "target", "target_passes", "met"),
    [
        ((6.0,), None, None, None), ((6.0,), 6.0, None, True), ((6.0,), 6.5, None, False), ((), 6.5, None, True),
        ((6.0,), 2.0, 10.0, True), ((6.0,), 2.0, 11.0, False),
    ],
)  # fmt: skip
def test_target__is_met_or_not(theirs, target, target_passes, met):
    found = result(
        outcome("rowsolve auto", 1.0, ours=True, passes=0.5), outcome("scipy lsqr", *theirs, passes=5.0),
        target=target, target_passes=target_passes,
    )  # fmt: skip
    assert found.passes_ratio == 10.0
    assert found.on_target is met


def test_target__is_not_met_if_no_solver_reaches_the_error():
    assert result(outcome("rowsolve auto", ours=True), outcome("p"), target=0.9).on_target is False


def test_json__brings_back_the_same_results_and_writes_a_machine_once():
    found = [
        result(outcome("rowsolve auto", 1.0, 2.0, ours=True), outcome("p"), case=name, target=3.0, busy=0.1, machine=m)
        for name, m in (("a", {"cpu": "x"}), ("b", {"cpu": "x"}), ("c", {"cpu": "y"}))
    ]
    document = json.loads(json.dumps(as_document(found), allow_nan=False))
    assert of_document(document) == found
    assert document["machines"] == [{"cpu": "x"}, {"cpu": "y"}]
    assert document["cases"]["a"]["outcomes"][0]["seconds"] == [1.0, 2.0]


def test_json__of_another_format_raises_an_error():
    with pytest.raises(ValueError, match=r"expected results of format 1, got 7\. Run the race again"):
        of_document({"format": 7})
