"""The report: its predictions, its advice and its text."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from conftest import JIT, gaussian
from scipy import sparse

import rowsolve
from rowsolve.experiments.problems import clustered_system
from rowsolve.inspection.report import Noise, Prediction
from rowsolve.inspection.words import lines, seconds_in_words, table, warnings

N_ROWS, N_COLUMNS = (3000, 60) if JIT else (400, 8)
A, b, X_TRUE = gaussian(N_ROWS, N_COLUMNS)
RANDOM_ROWS = rowsolve.Randomized("uniform", replace=False)


def noisy(level=0.01):
    return b + level * np.std(b) * np.random.default_rng(9).standard_normal(N_ROWS)


def with_wild_rows(values, share=0.02):
    values, wrong = values.copy(), np.random.default_rng(8).choice(N_ROWS, round(share * N_ROWS), replace=False)
    values[wrong] += 30.0 * np.std(b)
    return values


def by_name(report):
    return {one.method: one for one in report.predictions}


def said(report, label):
    return dict(lines(report))[label]


def test_inspect__describes_a_well_conditioned_consistent_system():
    report = rowsolve.inspect(A, b, rng=0)
    assert report.layout == dataclasses.replace(
        report.layout, n_rows=N_ROWS, n_columns=N_COLUMNS, dtype="float64", order="C", density=1.0
    )
    assert report.condition.least <= np.linalg.cond(A) <= report.condition.most
    assert report.directions.n_clusters == 0
    assert report.noise.relative == 0.0
    assert 0.5 < report.slowness < 1.5
    assert (report.first, report.method) == ("refined", "auto")  # the system is small
    assert report.rows_read > report.condition.n_rows
    assert not list(warnings(report))


def test_inspect__is_reproducible():
    one, two = (rowsolve.inspect(A, noisy(), rng=3) for _ in range(2))
    for name in ("layout", "norms", "condition", "directions", "noise", "slowness", "rows_read"):
        assert getattr(one, name) == getattr(two, name)
    assert [p.rows for p in one.predictions if p.method != "refined"] == [
        p.rows for p in two.predictions if p.method != "refined"
    ]


def test_predictions__are_near_what_solve_reads():
    predicted = by_name(rowsolve.inspect(A, b, rng=0, threads=1))
    random_rows = rowsolve.solve(A, b, RANDOM_ROWS, rng=1, threads=1)
    assert predicted["randomized"].rows == pytest.approx(random_rows.rows_read, rel=0.3)
    assert predicted["direct"].rows == pytest.approx(rowsolve.solve(A, b, "direct").rows_read, rel=0.1)
    assert 0.4 < predicted["refined"].rows / rowsolve.solve(A, b, "refined").rows_read < 2.5
    assert all(one.reaches and not one.at_least and one.seconds > 0.0 for one in predicted.values())


@pytest.mark.compiled
@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_predictions__include_deflated_if_common_directions_slow_down_random_rows(noise):
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((4, 600))[rng.integers(0, 4, 9_000)] + 0.1 * rng.standard_normal((9_000, 600))
    values = rows @ rng.standard_normal(600)
    values += noise * np.std(values) * rng.standard_normal(9_000)
    report = rowsolve.inspect(rows, values, rng=0, threads=1)
    predicted = by_name(report)["deflated"]
    assert report.method == ("deflated" if noise == 0.0 else "refined")
    if noise:
        assert (predicted.rows, predicted.reaches) == (None, False)
    else:
        found = rowsolve.solve(rows, values, rowsolve.Deflated("rows"), rng=1, threads=1)
        assert predicted.rows == pytest.approx(found.rows_read, rel=0.2)
        assert predicted.reaches
        assert predicted.seconds > 0.0


@pytest.mark.compiled
def test_predictions__grow_with_the_digits_asked_for():
    few, many = (by_name(rowsolve.inspect(A, b, rng=0, rtol=rtol, threads=1)) for rtol in (1e-3, 1e-12))
    assert 2.0 < many["randomized"].rows / few["randomized"].rows < 5.0
    assert many["direct"].rows == few["direct"].rows


@pytest.mark.compiled
def test_predictions__are_lower_bounds_if_convergence_slows_down():
    B = A * 1e3 ** -np.linspace(0.0, 1.0, N_COLUMNS)
    report = rowsolve.inspect(B, B @ X_TRUE, rng=0)
    random_rows = by_name(report)["randomized"]
    assert report.slowness > 1.5
    assert random_rows.at_least
    assert random_rows.rows < rowsolve.solve(B, B @ X_TRUE, RANDOM_ROWS, rng=0, max_passes=300).rows_read
    assert table(report)[1][1].startswith("> ")


@pytest.mark.parametrize("level", [0.01, 1e-9])
def test_noise__matters_if_it_prevents_x_from_reaching_the_tolerance(level):
    report = rowsolve.inspect(A, noisy(level), rng=0)
    assert report.noise.relative == pytest.approx(level, rel=0.15)
    assert by_name(report)["refined"].reaches
    for name in ("randomized", "direct"):
        assert by_name(report)[name].reaches is (level < 1e-6)
    assert (report.first, report.method) == ("refined", "auto")
    assert "the system is inconsistent" in said(report, "noise in b")
    assert ("The system is inconsistent" in report.advice) is (level > 1e-6)


def test_outliers__are_reported_and_can_be_dropped_if_the_others_are_consistent():
    report = rowsolve.inspect(A, with_wild_rows(b), rng=0)
    assert report.noise.n_wild == pytest.approx(0.02 * report.noise.n_rows, rel=0.6)
    assert report.noise.relative == 0.0
    assert "the others are consistent: outliers='drop' solves without them" in report.advice
    assert "sampled rows are outliers" in next(warnings(report))
    assert table(report)[1][1:4] == ("never",) * 3
    if JIT:
        assert rowsolve.solve(A, with_wild_rows(b), rng=0, outliers="drop").history.method[-1] == "quantile"


def test_outliers__with_noise_lead_to_least_squares_and_a_warning():
    report = rowsolve.inspect(A, with_wild_rows(noisy()), rng=0)
    assert "the least-squares solution with 'refined'" in report.advice
    assert "Check the outliers first" in report.advice


def sparse_system(n_rows, n_columns, per_row):
    rng = np.random.default_rng(0)
    columns = rng.integers(0, n_columns, n_rows * per_row)
    starts = np.arange(0, n_rows * per_row + 1, per_row)
    return sparse.csr_array((rng.standard_normal(columns.size), columns, starts), shape=(n_rows, n_columns))


SYSTEMS = [
    gaussian(300, 20)[0],  # tiny
    sparse_system(500, 40, 4),  # tiny and sparse
    *([gaussian(20_000, 60)[0], gaussian(8000, 600)[0], sparse_system(60_000, 400, 8)] if JIT else []),
]


@pytest.mark.parametrize("matrix", SYSTEMS, ids=lambda matrix: f"{matrix.shape}")
def test_first__is_what_auto_begins_with(matrix):
    right = matrix @ np.ones(matrix.shape[1])
    assert rowsolve.inspect(matrix, right, rng=0).first == rowsolve.solve(matrix, right, rng=0).history.method[0]


@pytest.mark.parametrize("matrix", SYSTEMS, ids=lambda matrix: f"{matrix.shape}")
def test_method__is_the_last_one_of_auto_on_an_inconsistent_system(matrix):
    right = matrix @ np.ones(matrix.shape[1])
    right += 0.1 * np.std(right) * np.random.default_rng(4).standard_normal(right.size)
    report, solution = rowsolve.inspect(matrix, right, rng=0), rowsolve.solve(matrix, right, rng=0)
    assert report.first == solution.history.method[0]
    assert report.method == (solution.method if report.first != solution.method else "auto")
    assert "the least-squares solution" in report.advice


@pytest.mark.compiled
def test_rounding__that_prevents_direct_from_converging_is_reported():
    B, _, x_true = gaussian(60_000, 260)
    B = B.astype(np.float32)
    right = B @ x_true.astype(np.float32)
    report, solution = rowsolve.inspect(B, right, rng=0, rtol=1e-7), rowsolve.solve(B, right, rng=0, rtol=1e-7)
    assert report.noise.relative == 0.0
    assert by_name(report)["direct"].reaches is False
    assert report.method == solution.method == "refined"
    assert "is inconsistent (because of rounding errors only)" in report.advice


@pytest.mark.compiled
def test_slow_rows__lead_to_the_method_that_auto_goes_on_with():
    B, right, _, _ = clustered_system(6000, 600, 4, "tight", "A", 0.1, 0)
    report = rowsolve.inspect(B, right, rng=0)
    assert (report.first, report.directions.n_clusters) == ("randomized", 4)
    assert report.method == rowsolve.solve(B, right, rng=0).method
    assert "4 by direction, tight" in said(report, "clusters")
    assert "in the same cluster" in said(report, "orthogonality")


@pytest.mark.compiled
@pytest.mark.parametrize("level", [0.0, 0.3])
def test_many_columns__are_judged_by_the_pace(level):
    B, right, _ = gaussian(8000, 1501, noise=level)
    report = rowsolve.inspect(B, right, rng=0)
    assert report.condition is None
    assert "would take too long" in said(report, "condition")
    assert report.noise.relative is None
    assert report.noise.suspected is (level > 0.0)
    if level:
        assert level / np.hypot(1.0, level) < report.noise.at_most < 2.0 * level
        assert "probably some" in said(report, "noise in b")
        assert report.method == "refined"
    else:
        assert report.noise.at_most < 0.01
        assert said(report, "noise in b").startswith("unknown: at most")
        rows = rowsolve.solve(B, right, RANDOM_ROWS, rng=0).rows_read
        assert by_name(report)["randomized"].rows == pytest.approx(rows, rel=0.3)


def test_sparse__is_described_as_such():
    S = sparse_system(400, 40, 4).astype(np.float32)
    report = rowsolve.inspect(S, S @ np.ones(40), rng=0)
    assert (report.layout.order, report.layout.dtype) == ("CSR", "float32")
    assert report.layout.density == pytest.approx(S.nnz / 16_000)
    assert said(report, "A").startswith("400 x 40 float32, sparse, 9")


@pytest.mark.parametrize(
    ("store", "order"), [(np.asfortranarray, "Fortran"), (lambda M: np.repeat(M, 2, 1)[:, ::2], "strided")]
)
def test_rows_in_many_places__are_warned_of(store, order):
    report = rowsolve.inspect(store(A[:200]), b[:200], rng=0)
    assert report.layout.order == order
    assert f"{order} order: the entries of a row are not contiguous" in next(warnings(report))


def test_every_other_row__is_in_c_order():
    report = rowsolve.inspect(A[:400:2], b[:400:2], rng=0)
    assert report.layout.order == "C"
    assert not any("contiguous" in words for words in warnings(report))


def test_rank__that_is_missing_is_warned_of():
    B = A[:300].copy()
    B[:, 1] = B[:, 0]
    (words,) = warnings(rowsolve.inspect(B, B @ X_TRUE, rng=0))
    assert f"A has rank {N_COLUMNS - 1}, less than the {N_COLUMNS} columns" in words
    (words,) = warnings(rowsolve.inspect(A[:5], b[:5], rng=0))
    assert "fewer rows than columns" in words


def test_zero_rows__are_reported_and_one_with_a_nonzero_b_gives_a_warning():
    B, right = A[:300].copy(), b[:300].copy()
    B[7], right[7] = 0.0, 2.0
    report = rowsolve.inspect(B, right, rng=0)
    assert "1 of 300 sampled rows is zero" in said(report, "rows")
    assert "row 7 is zero but its b is not" in next(warnings(report))


@pytest.mark.parametrize(
    ("matrix", "right"),
    [
        (np.zeros((40, 3)), np.zeros(40)),
        (np.zeros((40, 3)), np.ones(40)),
        (np.ones((1, 1)), np.ones(1)),
        (np.ones((3, 1)), np.zeros(3)),
        (np.ones((40, 3)), np.ones(40)),
        (np.eye(40)[:, :9], np.ones(40)),
        (1e140 * A[:99], 1e140 * b[:99]),
    ],
    ids=["zero", "zero against b", "1 x 1", "b = 0", "rank 1", "hardly any row", "huge"],
)
def test_degenerate_systems__are_described_as_unknown(matrix, right):
    report = rowsolve.inspect(matrix, right, rng=0)
    text = str(report)
    assert "nan" not in text
    assert "inf" not in text
    assert report.first in ("refined", "direct")
    assert report.first == rowsolve.solve(matrix, right, rng=0).history.method[0]
    if not matrix.any():
        assert said(report, "condition") == "unknown: all sampled rows are zero"
        assert said(report, "noise in b").startswith("unknown")


def test_report__has_the_expected_text():
    seen, predicted, advice, closing = str(rowsolve.inspect(A, b, rng=0, threads=1)).split("\n\n")
    labels = [line.split("  ")[0] for line in seen.splitlines() if not line.startswith(" ")]
    assert labels == ["A", "rows", "condition", "clusters", "orthogonality", "noise in b"]
    title, *rows = predicted.splitlines()
    assert title == "Predicted for a relative error of 1e-06 in x, with 1 thread:"
    assert [row.split()[0] for row in rows] == ["method", "randomized", "direct", "refined"]
    assert len(rows[0]) == len(rows[2])  # figures are aligned on the right, and 'direct' has no remark
    assert advice == "The system is small: `auto` starts with 'refined'."
    assert "may differ" in closing
    assert "may differ" not in str(rowsolve.inspect(A[:100], b[:100], rng=0))  # all of them were in the sample
    assert max(map(len, seen.splitlines())) <= 88


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (1e-5, "< 1 ms"),
        (0.0012, "1 ms"),
        (0.0234, "23 ms"),
        (0.999, "1 s"),
        (3.44, "3.4 s"),
        (40.0, "40 s"),
        (600.0, "10 min"),
        (9e4, "25 h"),
    ],
)
def test_seconds__in_words(seconds, words):
    assert seconds_in_words(seconds) == words


@pytest.mark.parametrize("rtol", [0.0, -1.0, 1.0, np.inf])
def test_rtol__must_be_between_0_and_1(rtol):
    with pytest.raises(ValueError, match=r"`rtol` must be (above 0|between 0 and 1), got"):
        rowsolve.inspect(A, b, rtol=rtol)


def test_bad_rows__are_named_as_by_solve():
    B = A[:100].copy()
    B[5, 1] = np.nan
    with pytest.raises(ValueError, match="row 5 has nan in column 1"):
        rowsolve.inspect(B, b[:100])
    with pytest.raises(ValueError, match="one entry per row"):
        rowsolve.inspect(A, b[:-1])


@pytest.mark.compiled
def test_bad_rows__are_found_in_the_rows_that_are_only_timed():
    B, right, _ = gaussian(20_000, 60)
    B[12_345, 6] = np.inf
    with pytest.raises(ValueError, match="row 12345 has inf in column 6"):
        rowsolve.inspect(B, right, rng=0)


def test_report__is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Noise(0.0).relative = 1.0
    assert Prediction("direct", None, None).reaches is None


@pytest.mark.parametrize("ending", ["npy", "h5", "csv"])
def test_file_larger_than_memory__is_mapped_or_refused(ending, tmp_path, monkeypatch):
    A, b, _ = gaussian(500, 10)
    rowsolve.convert(A, tmp_path / f"A.{ending}")
    assert rowsolve.inspect(tmp_path / f"A.{ending}", b, rng=0).layout.n_rows == 500
    monkeypatch.setattr("rowsolve._validate.free_memory", lambda: 1000.0)
    if ending == "npy":
        assert rowsolve.inspect(tmp_path / f"A.{ending}", b, rng=0).layout.n_rows == 500
        np.save(tmp_path / "I.npy", A.astype(int))
        ending, A = "npy", tmp_path / "I.npy"
    else:
        A = tmp_path / f"A.{ending}"
    with pytest.raises(ValueError, match=rf"{ending}.*: needs 4e-05 GB of memory, but only 1e-06 GB are free"):
        rowsolve.inspect(A, b, rng=0)
