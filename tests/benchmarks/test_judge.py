"""`make honesty`: wrong solutions are detected, and the reference is correct."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace
from fractions import Fraction

import draws
import honesty
import judge
import numpy as np
import pytest
from judge import EPS, reference

import rowsolve
from rowsolve import Status

OPTIONS = {"rtol": 1e-6, "rng": 0}


def system(n=60, p=5, condition=10.0, noise=0.1, seed=0):
    rng = np.random.default_rng(seed)
    r = min(n, p)
    U, V = np.linalg.qr(rng.standard_normal((n, r)))[0], np.linalg.qr(rng.standard_normal((p, r)))[0]
    A = (U * np.geomspace(1, 1 / condition, r)) @ V.T
    return A, A @ rng.standard_normal(p) + noise * rng.standard_normal(n)


def spoiled(monkeypatch, **changes):
    """Make `solve` return a solution with some fields changed; functions are called with the correct value."""
    solve = rowsolve.solve

    def changed(*args, **kwargs):
        right = solve(*args, **kwargs)
        return replace(right, **{k: v(getattr(right, k)) if callable(v) else v for k, v in changes.items()})

    monkeypatch.setattr(rowsolve, "solve", changed)


def exact(A, b):
    """Return the least-squares solution for A of full rank, by elimination in rational numbers."""
    M, v = [[Fraction(t) for t in row] for row in A.tolist()], [Fraction(t) for t in b.tolist()]
    wide = len(M) < len(M[0])
    columns = M if wide else [list(column) for column in zip(*M, strict=True)]
    dot = lambda s, t: sum(x * y for x, y in zip(s, t, strict=True))  # noqa: E731
    rows = [[dot(s, t) for t in columns] + [v[i] if wide else dot(s, v)] for i, s in enumerate(columns)]
    for i, pivot in enumerate(rows):
        for j, row in enumerate(rows):
            if i != j:
                rows[j] = [s - row[i] / pivot[i] * t for s, t in zip(row, pivot, strict=True)]
    y = [row[-1] / row[i] for i, row in enumerate(rows)]
    return np.array([float(t) for t in ([dot(y, column) for column in zip(*M, strict=True)] if wide else y)])


@pytest.mark.parametrize("shape", [(12, 4), (4, 9), (5, 5)])
@pytest.mark.parametrize("condition", [1e2, 1e7, 1e10])
def test_reference__is_right_and_better_than_lapack(shape, condition):
    A, b = system(*shape, condition=condition, noise=1.0)
    found, x = reference(A, b[:, None], None, 0.0, EPS), exact(A, b)
    error = np.linalg.norm(found.x[:, 0] - x) / np.linalg.norm(x)
    assert found.determined
    assert error <= found.uncertain[0] <= 1e-17 * condition + 1e-15
    assert np.linalg.norm(np.linalg.lstsq(A, b)[0] - x) / np.linalg.norm(x) <= 10 * found.lapack[0]


def test_reference__is_nearest_to_x0_and_damped():
    A, b = system(8, 12)
    x0 = np.arange(12.0)
    found = reference(A, b[:, None], x0[:, None], 0.0, EPS)
    np.testing.assert_allclose(found.x[:, 0], x0 + np.linalg.lstsq(A, b - A @ x0)[0], rtol=1e-12)
    damped = reference(A, b[:, None], None, 0.5, EPS).x[:, 0]
    np.testing.assert_allclose(damped, np.linalg.solve(A.T @ A + 0.25 * np.eye(12), A.T @ b), rtol=1e-12)


@pytest.mark.parametrize(("smallest", "determined"), [(1e-8, True), (3e-13, False), (0.0, True)])
def test_reference__reports_a_rank_without_a_gap_as_uncertain(smallest, determined):
    A, b = system(60, 5)
    A[:, 4] = A[:, 0] + smallest * A[:, 4]
    assert reference(A, b[:, None], None, 0.0, EPS).determined is determined


def test_reference__reports_a_rank_that_depends_on_units_as_uncertain():
    A, b = system(60, 5)
    assert not reference(A * [1, 1, 1, 1, 1e-18], b[:, None], None, 0.0, EPS).determined


def test_right_answers__have_no_failures():
    verdict = judge.judge(*system(), OPTIONS)
    assert (verdict.failures, verdict.notes, verdict.status) == ([], [], "CONVERGED")
    assert verdict.error < 1e-6


@pytest.mark.parametrize(("times", "wrong"), [(3.0, False), (8.0, True)])
def test_error_of_more_than_five_tolerances__is_wrong(monkeypatch, times, wrong):
    spoiled(monkeypatch, x=lambda x: x * (1 + times * 1e-6))
    verdict = judge.judge(*system(), OPTIONS)
    assert verdict.error == pytest.approx(times * 1e-6, rel=1e-3)
    assert [failure.split(" at ")[0] for failure in verdict.failures] == (["WRONG: error 8.0e-06"] if wrong else [])


def test_error_that_the_status_admits__is_no_failure_but_has_a_low_estimate_and_stops_short(monkeypatch):
    spoiled(monkeypatch, x=lambda x: x * 1.01, status=Status.PRECISION, error_estimates=np.array([1e-8]))
    verdict = judge.judge(*system(), OPTIONS)
    assert verdict.failures == []
    assert verdict.ratio == pytest.approx(1e-6, rel=1e-3)
    assert [note.split(",")[0] for note in verdict.notes] == ["SHORT: error 1.0e-02", "estimate 1.0e-06 of the error"]


def test_x_of_a_rank_in_doubt__is_judged_by_its_residual(monkeypatch):
    A, b = system()
    A[:, 4] = A[:, 0] + 3e-13 * A[:, 4]
    away = np.array([1.0, 0, 0, 0, -1.0])
    spoiled(monkeypatch, x=lambda x: x + away, status=Status.CONVERGED, error_estimates=np.array([1e-9]))
    assert judge.judge(A, b, OPTIONS).failures == []
    spoiled(monkeypatch, x=lambda x: x + abs(away))
    assert judge.judge(A, b, OPTIONS).failures[0].startswith("WRONG: residual")


def test_estimate_above_the_tolerance__contradicts_converged(monkeypatch):
    spoiled(monkeypatch, error_estimates=np.array([1e-5]))
    assert judge.judge(*system(), OPTIONS).failures == ["CONVERGED with an estimate of 1.0e-05 at rtol 1e-06"]


def test_nan_warning_and_exception__are_failures(monkeypatch):
    def warn(x):
        warnings.warn("divide by zero", RuntimeWarning, stacklevel=1)
        return x * np.nan

    def fail(*args, **kwargs):
        raise ValueError("x is too small: rescale it.")

    spoiled(monkeypatch, x=warn)
    assert judge.judge(*system(), OPTIONS).failures == ["RuntimeWarning: divide by zero", "NaN in x"]
    monkeypatch.setattr(rowsolve, "solve", fail)
    assert judge.judge(*system(), OPTIONS).failures == ["ValueError: x is too small: rescale it."]


def test_error_for_norms_out_of_range__is_not_a_failure():
    A, b = system()
    verdict = judge.judge(A * 1e160, b, OPTIONS)
    assert (verdict.status, verdict.failures) == ("out of range", [])


def test_rows_left_out__are_right_only_if_they_were_made_wrong():
    A, b = system(400, 4, noise=0.0)
    b[[3, 90]] = 50.0
    wild = np.isin(np.arange(400), [3, 90])
    options = {**OPTIONS, "outliers": "drop"}
    assert judge.judge(A, b, OPTIONS, wild=wild).failures == []
    assert judge.judge(A, b, options, wild=wild).failures == []
    assert judge.judge(A, b, options, wild=~wild).failures[0].endswith("at rtol 1e-06, 2 rows left out")


@pytest.mark.parametrize("status", [Status.CONVERGED, Status.PRECISION])
def test_cost_within_bounds__is_compared_with_that_of_scipy(monkeypatch, status):
    options = {**OPTIONS, "bounds": (0, np.inf)}
    assert judge.judge_bounded(*system(), options).failures == []
    spoiled(monkeypatch, x=lambda x: x + 0.01, status=status)
    verdict = judge.judge_bounded(*system(), options)
    found = verdict.failures if status is Status.CONVERGED else verdict.notes
    assert [words.split(":")[0] for words in found] == ["WRONG" if status is Status.CONVERGED else "SHORT"]
    spoiled(monkeypatch, x=lambda x: x - 1.0)
    assert "x is outside the bounds" in judge.judge_bounded(*system(), options).failures


def test_scipy_within__takes_out_equal_bounds():
    A, b = system()
    low = np.array([0.5, 0.0, 0.0, 0.0, 0.0])
    high = np.array([0.5, np.inf, np.inf, np.inf, np.inf])
    least, _ = judge.scipy_within(A, b, low, high)
    assert least == pytest.approx(judge.scipy_within(A[:, 1:], b - A[:, 0] / 2, low[1:], high[1:])[0], rel=1e-12)
    assert judge.scipy_within(A, b, low, low)[0] == pytest.approx(judge.cost(A, b, low))


@pytest.mark.parametrize("make", [draws.draw, draws.draw_bounded])
def test_draw__is_made_from_seed_and_index_alone(make):
    one, again, other = make(3, 17), make(3, 17), make(4, 17)
    assert (str(one), one.kind) == (str(again), again.kind)
    np.testing.assert_array_equal(judge.dense_of(one.A), judge.dense_of(again.A))
    np.testing.assert_array_equal(one.b, again.b)
    assert one.kind == other.kind
    assert str(one) != str(other) or not np.array_equal(one.b, other.b)


@pytest.mark.parametrize("name", draws.KINDS)
def test_every_kind__is_drawn_finite_and_of_the_size_it_asks_for(name):
    first = list(draws.KINDS).index(name)
    for index in range(first, first + 6 * len(draws.KINDS), len(draws.KINDS)):
        one = draws.draw(5, index)
        A = judge.dense_of(one.A)
        n, p = A.shape
        assert one.kind == name
        assert one.b.shape[0] == n
        assert np.isfinite(A).all()
        assert np.isfinite(one.b).all()
        fits = {
            "wide": n < p,
            "square": n == p,
            "barely": p < n < p + 4,
            "row": n == 1,
            "column": p == 1,
            "many": n >= 600,
        }
        assert fits.get(draws.SIZES[name], True)


def test_command__prints_a_table_writes_json_and_tells_failure_by_its_exit_code(monkeypatch, capsys, tmp_path):
    chosen = ["--seed", "0", "--only", "0", "--only", "1", "--json", str(tmp_path / "v.json")]
    assert honesty.main(chosen) == 0
    assert "0 of 2 draws failed." in capsys.readouterr().out
    assert [one["index"] for one in json.loads((tmp_path / "v.json").read_text())] == [0, 1]
    spoiled(monkeypatch, x=lambda x: 2.0 * x + 1.0, status=Status.CONVERGED)
    assert honesty.main(chosen) == 1
    shown = capsys.readouterr().out
    assert "2 of 2 draws failed." in shown
    assert "WRONG: error" in shown
