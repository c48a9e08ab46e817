"""`rowsolve.solve`: options, statuses, limits and the callback."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from conftest import JIT, N_ROWS, gaussian, relative_error
from scipy import sparse

import rowsolve
from rowsolve import Status
from rowsolve.methods.base import RowMethod

UNIFORM = rowsolve.Randomized(weights="uniform")
ROW_METHODS = sorted(name for name, method in rowsolve.METHODS.items() if issubclass(method, RowMethod))


@pytest.mark.compiled
def test_auto__reports_the_method():
    A, b, x_true = gaussian(30_000, 400, seed=1)
    solution = rowsolve.solve(A, b, rng=0)
    assert solution.method == "direct"
    assert solution.message.startswith("A has few columns: 'direct' solved a sample of the rows.")
    assert relative_error(solution.x, x_true) < 1e-12
    assert solution.passes < 1


def test_method__may_be_a_name_a_class_or_an_object():
    A, b, _ = gaussian(200, 10)
    found = [rowsolve.solve(A, b, method, rng=0).x for method in ("block", rowsolve.Block, rowsolve.Block(4))]
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


def test_inputs__are_left_as_they_were():
    A, b, _ = gaussian(200, 10)
    x0 = np.ones(10)
    before = A.copy(), b.copy(), x0.copy()
    rowsolve.solve(A, b, x0=x0, rng=0)
    for now, then in zip((A, b, x0), before, strict=True):
        np.testing.assert_array_equal(now, then)
        assert now.flags.writeable


def test_generator__is_advanced_and_reproducible():
    A, b, _ = gaussian(200, 10)
    rng = np.random.default_rng(5)
    one, two = rowsolve.solve(A, b, UNIFORM, rng=rng), rowsolve.solve(A, b, UNIFORM, rng=rng)
    assert not np.array_equal(one.x, two.x)
    again = rowsolve.solve(A, b, UNIFORM, rng=np.random.default_rng(5))
    np.testing.assert_array_equal(one.x, again.x)


def test_seed__may_be_that_of_the_data():
    for seed in range(4):  # the first numbers of default_rng(seed) are then the first row of A
        A, b, x_true = gaussian(400, 20, seed=seed)
        solution = rowsolve.solve(A, b, "cyclic", rng=seed)
        assert relative_error(solution.x, x_true) < 3e-6


def test_rtol__bounds_the_error_of_x():
    A, b, x_true = gaussian(seed=2)
    errors = [relative_error(rowsolve.solve(A, b, UNIFORM, rtol=rtol, rng=0).x, x_true) for rtol in (1e-2, 1e-5, 1e-10)]
    assert errors[0] < 2e-2
    assert errors[1] < 2e-5
    assert errors[2] < 2e-10
    assert errors[0] > errors[1] > errors[2]


def test_atol__bounds_the_error_of_x():
    A, b, x_true = gaussian(seed=2)
    solution = rowsolve.solve(A, b, UNIFORM, rtol=0.0, atol=1e-3, rng=0)
    assert solution.status is Status.CONVERGED
    assert 1e-6 < np.linalg.norm(solution.x - x_true) < 2e-3


def test_solution_of_zero__is_found_from_elsewhere():
    A, _, _ = gaussian(400, 10)
    solution = rowsolve.solve(A, np.zeros(400), x0=np.ones(10), rng=0)
    assert solution.status is Status.CONVERGED
    assert np.abs(solution.x).max() < 1e-15
    assert rowsolve.solve(A, np.zeros(400), rng=0).x.tolist() == [0.0] * 10


def test_callback__gets_events_and_can_stop():
    A, b, _ = gaussian(seed=3)
    events, kept = [], []

    def watch(event):
        events.append(event)
        kept.append(event.x.copy())
        return len(events) == 3

    solution = rowsolve.solve(A, b, UNIFORM, callback=watch, rng=0)
    assert solution.status is Status.STOPPED
    assert len(events) == len(solution.history) == 3
    assert [event.rows_read for event in events] == solution.history.rows_read
    assert events[-1].passes == pytest.approx(events[-1].rows_read / N_ROWS)
    assert events[-1].stage == "solve"
    np.testing.assert_array_equal(kept[-1], solution.x)
    with pytest.raises(ValueError, match="read-only"):
        events[0].x[0] = 1.0


def test_callback__may_answer_with_a_bool_of_numpy():
    A, b, x_true = gaussian(seed=3)
    solution = rowsolve.solve(A, b, callback=lambda event: np.linalg.norm(event.x - x_true) < 0.1, rng=0)
    assert solution.status is Status.STOPPED


def test_callback__is_called_during_the_preparation_and_can_stop_it():
    A, b, _ = gaussian(300, 10)
    stages = []
    rowsolve.solve(A, b, "cluster-jl", callback=lambda event: stages.append(event.stage), rng=0)
    assert stages[:2] == ["prepare", "prepare"]
    assert set(stages[2:]) == {"solve"}
    solution = rowsolve.solve(A, b, "cluster-jl", callback=lambda _: True, rng=0)
    assert solution.status is Status.STOPPED
    assert not solution.x.any()


def test_callback__returning_something_truthy_does_not_stop():
    A, b, _ = gaussian(300, 10)
    assert rowsolve.solve(A, b, callback=lambda event: event.rows_read, rng=0).converged


def test_errors_of_the_callback__reach_the_caller():
    A, b, _ = gaussian(300, 10)
    with pytest.raises(ZeroDivisionError):
        rowsolve.solve(A, b, callback=lambda _: 1 / 0)


def test_history__has_an_entry_a_burst():
    A, b, x_true = gaussian(seed=4)
    solution = rowsolve.solve(A, b, UNIFORM, rng=0)
    history = dict(solution.history.columns())
    assert {len(column) for column in history.values()} == {len(solution.history)}
    assert (np.diff(history["seconds"]) >= 0).all()
    # The squared error is the sum of the drops still to come.
    np.testing.assert_allclose(history["drop"].sum(), np.sum(x_true**2), rtol=1e-9)


def test_ctrl_c__returns_the_current_x(press_ctrl_c):
    A, b, _ = gaussian(seed=5)
    calls = []

    def interrupt(event):
        calls.append(event.error_estimate)
        if len(calls) == 4:
            press_ctrl_c()

    solution = rowsolve.solve(A, b, UNIFORM, rtol=1e-12, callback=interrupt, rng=0)
    assert solution.status is Status.INTERRUPTED
    assert "Interrupted" in solution.message
    assert solution.error_estimate == calls[-1]
    assert solution.x.any()


@pytest.mark.compiled
@pytest.mark.parametrize("method", ["randomized", "cluster-jl"])
def test_ctrl_c__interrupts_between_bursts(method, press_ctrl_c):
    A, _, x_true = gaussian(2000, 100)
    A[:, 0] = A[:, 1] + 1e-6 * A[:, 0]  # takes for ever
    somebody = threading.Thread(target=press_ctrl_c)

    def press_soon(event):
        if event.stage == "solve" and not somebody.ident:
            somebody.start()

    solution = rowsolve.solve(A, A @ x_true, method, rtol=1e-9, max_passes=1e12, callback=press_soon, rng=0)
    somebody.join()
    assert solution.status is Status.INTERRUPTED


@pytest.mark.compiled
@pytest.mark.parametrize("method", ROW_METHODS)
def test_max_seconds__is_kept_by_a_shorter_last_burst(method, clock):
    A, _, x_true = gaussian(1000, 100)
    A[:, 0] = A[:, 1] + 1e-3 * A[:, 0]
    solution = rowsolve.solve(A, A @ x_true, method, rtol=1e-12, max_seconds=1.0, max_passes=1e9, rng=0)
    assert solution.status is Status.MAX_SECONDS
    assert "max_seconds" in solution.message
    assert 1.0 <= solution.seconds < 1.2


@pytest.mark.parametrize("method", ["jl", "cluster-block"])
def test_max_seconds__ends_the_preparation_too(method, clock, monkeypatch):
    monkeypatch.setattr("rowsolve.problem.reader.WORK_OF_A_BURST", 1000)
    A, b, _ = gaussian(600, 10)
    solution = rowsolve.solve(A, b, method, max_seconds=0.001, rng=0)
    assert solution.status is Status.MAX_SECONDS
    assert "was still preparing, so x is x0" in solution.message
    assert not solution.x.any()
    assert solution.rows_read < 600  # it did not finish the pass


def test_max_passes__is_kept():
    A, b, _ = gaussian(seed=6)
    solution = rowsolve.solve(A, b, UNIFORM, max_passes=0.25, rng=0)
    assert solution.status is Status.MAX_PASSES
    assert solution.history.rows_read[-1] == N_ROWS // 4
    assert "more passes would be needed" in solution.message


def test_check__sampled_looks_at_fresh_rows():
    A, b, _ = gaussian(20_000, 10)
    solution = rowsolve.solve(A, b, UNIFORM, rng=0)
    assert solution.row_check.n_rows == solution.row_check.n_fresh == 256
    assert not solution.row_check.full
    assert solution.row_check.relative < 1e-5
    assert "256 rows that were not used before, so at most 1.2% of all rows are inconsistent" in solution.message


def test_check__full_reports_residual_and_gradient():
    A, b, _ = gaussian(noise=0.1, seed=7)
    solution = rowsolve.solve(A, b, check="full", rng=0)
    r = b - A @ solution.x
    assert solution.row_check.full
    assert solution.row_check.relative == pytest.approx(np.linalg.norm(r) / np.linalg.norm(b))
    assert solution.row_check.gradient == pytest.approx(np.linalg.norm(A.T @ r))


def test_rare_directions__are_found_by_fresh_rows_and_used():
    # The first rows know nothing of half of the columns; cyclic would stop before it meets the others.
    rng = np.random.default_rng(0)
    A, x_true = rng.standard_normal((6000, 20)), rng.standard_normal(20)
    A[:4000, 10:] = 0.0
    solution = rowsolve.solve(A, A @ x_true, "cyclic", rng=0)
    assert solution.status is Status.CONVERGED
    assert relative_error(solution.x, x_true) < 2e-6


def test_rows_of_enormous_weight__do_not_hide_the_others():
    # Drawing by norm takes only a few rows; the others are news to the fresh-row check.
    A, b, x_true = gaussian(400, 10, seed=1)
    scale = np.where(np.arange(400) < 5, 1e12, 1.0)
    solution = rowsolve.solve(A * scale[:, None], b * scale, "randomized", rng=0)
    assert solution.status is Status.CONVERGED
    assert relative_error(solution.x, x_true) < 2e-6


def test_a_few_outliers__are_found_and_listed():
    A, b, _ = gaussian(3000, 12, seed=2)
    wild = np.arange(0, 3000, 60)  # 2%; the first is met by fresh rows at the latest
    b[wild] += 100.0
    solution = rowsolve.solve(A, b, UNIFORM, rng=1, check="full")
    assert solution.status is Status.INCONSISTENT
    assert "system is inconsistent" in solution.message


def test_one_outlier__is_found_by_the_full_check():
    A, b, x_true = gaussian(20_000, 12, seed=2)
    b[777] += 100.0
    solution = rowsolve.solve(A, b, UNIFORM, rng=1, check="full")
    assert solution.status is Status.INCONSISTENT
    assert "but not 1 row(s): 777." in solution.message
    assert relative_error(solution.x, x_true) < 2e-6


def test_tall_rank_deficient__gives_least_norm():
    A, _, x_true = gaussian(500, 12, seed=3)
    A = A @ np.diag([1.0] * 9 + [0.0] * 3) @ np.linalg.qr(np.random.default_rng(0).standard_normal((12, 12)))[0]
    b = A @ x_true
    solution = rowsolve.solve(A, b, rng=0)
    assert solution.status is Status.CONVERGED
    assert relative_error(solution.x, np.linalg.lstsq(A, b, rcond=1e-10)[0]) < 2e-6


@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (5, 1), (2, 2), (7, 3)])
def test_tiny_systems__are_solved(shape):
    A, b, _ = gaussian(*shape, seed=4)
    for method in ("cyclic", "randomized", "jl", rowsolve.Block(1), rowsolve.ClusterBlock(1), rowsolve.ClusterJL(1)):
        solution = rowsolve.solve(A, b, method, rng=0)
        assert solution.status is Status.CONVERGED
        assert relative_error(solution.x, np.linalg.lstsq(A, b)[0]) < 3e-6


def test_duplicate_rows__do_no_harm():
    A, b, x_true = gaussian(50, 8, seed=5)
    A, b = np.repeat(A, 10, axis=0), np.repeat(b, 10)
    for name in rowsolve.METHODS:
        solution = rowsolve.solve(A, b, name, rng=0)
        assert solution.status is Status.CONVERGED
        assert relative_error(solution.x, x_true) < 3e-6


def test_plot__draws_the_estimate():
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    A, b, _ = gaussian(300, 10)
    solution = rowsolve.solve(A, b, rng=0)
    ax = solution.plot()
    np.testing.assert_array_equal(ax.lines[0].get_xdata(), solution.history.rows_read)
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), solution.history.error_estimate)
    assert solution.plot(ax, against="seconds").get_xlabel() == "time (s)"
    with pytest.raises(ValueError, match="`against` must be one of"):
        solution.plot(against="bytes")
    plt.close("all")


def test_solution__says_what_it_is():
    A, b, _ = gaussian(300, 10)
    solution = rowsolve.solve(A, b, rng=0)
    assert solution.converged
    assert "Status.CONVERGED" in repr(solution)
    assert str(solution.row_check).endswith("over all 300 rows")
    assert str(rowsolve.solve(A, b, "direct", rng=0).row_check).endswith("never used before)")


def test_one_hot_rows__are_not_solved_before_every_column_is_used():
    for seed in range(6):
        rng = np.random.default_rng(seed)
        n_rows, n_columns = (4000, 400) if JIT else (600, 60)
        columns = rng.integers(0, n_columns, n_rows)
        A = sparse.csr_array((np.ones(n_rows), (np.arange(n_rows), columns)), shape=(n_rows, n_columns))
        x_true = rng.standard_normal(n_columns)
        x_true[np.setdiff1d(np.arange(n_columns), columns)] = 0.0
        solution = rowsolve.solve(A, A @ x_true, UNIFORM, rng=seed)
        assert solution.status is Status.CONVERGED
        assert relative_error(solution.x, x_true) < 2e-6


def test_residual__of_huge_numbers_is_finite():
    A, b, _ = gaussian(300, 10)
    solution = rowsolve.solve(A * 1e100, b * 1e140, check="full", rng=0)
    assert solution.converged
    assert solution.row_check.relative < 1e-5
    assert 0 < solution.row_check.gradient < np.inf
