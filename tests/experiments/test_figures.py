"""The numbers of the figures of the paper, for small sizes."""

from __future__ import annotations

import numpy as np
import pytest

import rowsolve
from rowsolve.experiments.comparing import after, at_the_end, needed
from rowsolve.experiments.convergence import BlockFigure, JLFigure
from rowsolve.experiments.figure import only
from rowsolve.experiments.paper import FIGURE_NAMES, figures_of
from rowsolve.experiments.problems import clustered_system
from rowsolve.experiments.sketches import SketchFigure
from rowsolve.experiments.spectra import SpectraFigure, cluster_blocks, random_blocks
from rowsolve.experiments.style import COLOURS
from rowsolve.experiments.tracing import (
    Point,
    first_steps,
    floor_of,
    relative_residuals,
    rows_to,
    thinned,
    trace,
)
from rowsolve.experiments.winners import MapFigure, _verdict

TINY = {
    "1": JLFigure("quick", 120, 10, 2, noises=(0.2,), goal=0.5, rows_per_column=30, rows_per_column_noisy=20),
    "2": BlockFigure("quick", 120, 10, 2, noises=(0.2,), goal=0.5, rows_per_column_noisy=20),
    "3": SpectraFigure("quick", 120, 10, 2, n_blocks=10),
    "map": MapFigure(
        "quick", 120, 10, 1, separations=(0.1, 1.0), noises=(0.5,), goal=0.1,
        rows_per_column=30, rows_per_column_noisy=20,
    ),
    "sketch": SketchFigure("quick", 120, 10, 2, sketch_size=4, n_candidates=10),
}  # fmt: skip
X = np.zeros(3)


def table_of(figure):
    lines = [(seed, *line) for seed in range(figure.n_seeds) for _, new in figure.steps(seed) for line in new]
    return dict(zip(("seed", *figure.columns), map(np.array, zip(*lines, strict=True)), strict=True))


def test_figures__have_the_sizes_of_the_paper():
    full = figures_of("full")
    assert tuple(full) == tuple(figures_of("quick")) == FIGURE_NAMES
    for name in ("1", "2", "3"):
        assert (full[name].n_rows, full[name].n_columns, full[name].n_clusters) == (10_000, 1_000, 4)
        assert full[name].noises == (0.1, 0.2)
        assert full[name].n_seeds >= 5
    assert len(full["map"].separations) >= 6
    assert len(full["map"].noises) >= 6
    assert full["1"].settings != figures_of("quick")["1"].settings


@pytest.mark.parametrize("name", FIGURE_NAMES)
def test_every_figure__has_its_steps_and_a_picture(name):
    figure = TINY[name]
    steps = list(figure.steps(0))
    assert len(steps) == figure.n_steps
    assert all(len(line) == len(figure.columns) for _, lines in steps for line in lines)
    picture = figure.draw(table_of(figure))
    panels = [axes for axes in picture.axes if axes.get_label() != "<colorbar>"]
    assert all(axes.get_xlabel() for axes in panels if name != "3")
    assert panels[0].get_ylabel()


def test_pictures__use_one_colour_a_method():
    assert len(set(COLOURS.values())) == len(COLOURS)
    for name in ("1", "2"):
        for axes in TINY[name].draw(table_of(TINY[name])).axes:
            lines = {line.get_label(): line.get_color() for line in axes.get_lines() if line.get_linestyle() != ":"}
            assert lines.items() <= COLOURS.items()
            assert len(lines) == 2


@pytest.mark.parametrize(("name", "n_readings"), [("1", 6), ("2", 8)])
def test_figures_1_and_2__show_error_and_residual_of_every_reading(name, n_readings):
    axes = TINY[name].draw(table_of(TINY[name])).axes
    assert len(axes) == 2 * n_readings  # loose and tight
    errors, residuals = (
        [one for one in axes[::2] if one.get_ylabel().startswith(f"relative {what}")] for what in ("error", "residual")
    )
    assert len(errors) + len(residuals) == n_readings
    assert len(residuals) == len(TINY[name].noisy)
    for one in residuals:
        assert {line.get_xdata()[0] for line in one.get_lines() if line.get_linestyle() != ":"} == {1}
    dotted = [line.get_ydata()[0] for one in residuals for line in one.get_lines() if line.get_linestyle() == ":"]
    assert len(dotted) == len(residuals) - 1  # none where the equations agree
    assert all(0.0 < least < 1.0 for least in dotted)


def test_trace__follows_the_true_error():
    A, b, x_true, _ = clustered_system(200, 10, 4, "loose", "A", 0.5, 0)
    method = rowsolve.ClusterBlock()
    points = trace(A, b, x_true, method, rows_a_step=4, max_rows=1e5, goal=1e-3, rng=3)
    assert points[0].error == 1.0
    assert points[0].n_rows >= 200  # clustering reads A
    assert points[-1].error <= 1e-3 < points[-2].error
    x = rowsolve.solve(A, b, method, rtol=0.0, max_passes=points[-1].n_rows / 200, rng=3).x
    assert points[-1].error == pytest.approx(np.linalg.norm(x - x_true) / np.linalg.norm(x_true))
    np.testing.assert_allclose(points[-1].x, x)
    assert not points[0].x.any()
    assert points[-1].n_steps == (points[-1].n_rows - points[0].n_rows) / 4
    assert [one.error for one in points] == sorted((one.error for one in points), reverse=True)


def test_trace__passes_ctrl_c_on(monkeypatch):
    A, b, x_true, _ = clustered_system(200, 10, 4, "loose")
    monkeypatch.setattr(np.linalg, "norm", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        trace(A, b, x_true, rowsolve.Block(), rows_a_step=4, max_rows=1e5, goal=0.0, rng=0)


def test_first_steps__are_the_steps_of_the_method():
    A, b, _, _ = clustered_system(40, 10, 4, "loose", "A", 0.5, 0)
    n_rows, x = first_steps(A, b, rowsolve.Cyclic(), (1, 3), 2, np.random.default_rng(0))
    expected = np.zeros(10)
    for row in range(3):
        expected += (b[row] - A[row] @ expected) / (A[row] @ A[row]) * A[row]
        if row == 0:
            np.testing.assert_allclose(x[0, 0], expected)
    np.testing.assert_allclose(x[0, 1], expected)
    assert n_rows.tolist() == [[1, 3], [1, 3]]
    n_rows, x = first_steps(A, b, rowsolve.ClusterBlock(), (1, 2, 5), 3, np.random.default_rng(0))
    assert x.shape == (3, 3, 10)
    assert n_rows[:, 0].min() > 40  # clustering reads A
    assert len(np.unique(x[:, 0, 0])) > 1  # starts differ


def test_relative_residuals__are_1_at_the_start_and_0_at_the_solution():
    A, b, x_true, _ = clustered_system(40, 10, 4, "loose", "A", 0.5, 0)
    x = np.array([[np.zeros(10), x_true], [2 * x_true, 0.5 * x_true]])
    np.testing.assert_allclose(relative_residuals(A, b, x), [[1.0, 0.0], [1.0, 0.5]], atol=1e-14)


def test_rows_to__goes_by_the_logarithm_between_bursts():
    points = [Point(0, 100, 0.0, 1.0, X), Point(1, 200, 0.0, 1e-2, X), Point(2, 300, 0.0, 1e-4, X)]
    assert rows_to(points, 1e-3) == pytest.approx(250)
    assert rows_to(points, 1e-5) == np.inf


def test_floor__is_the_median_of_the_last_third():
    assert floor_of(np.arange(10, 20), np.arange(10.0)[::-1]) == 1.5


def test_thinned__keeps_both_ends():
    points = [Point(i, i, 0.0, 1.0, X) for i in range(1000)]
    assert [one.n_rows for one in thinned(points, 4)] == [0, 333, 666, 999]
    assert thinned(points[:3], 4) == points[:3]


def test_blocks__of_clusters_have_a_row_of_each():
    A, b, _, labels = clustered_system(400, 30, 4, "tight", "A", 0.05, 0)
    rng = np.random.default_rng(1)
    blocks = cluster_blocks(A, b, 4, 50, rng)
    assert np.sort(labels[blocks], axis=1).tolist() == [[0, 1, 2, 3]] * 50
    blocks = random_blocks(400, 4, 500, rng)
    assert all(len(set(block)) == 4 for block in blocks)
    assert len({tuple(row) for row in np.sort(labels[blocks], axis=1).tolist()}) > 20


def test_blocks__where_clusters_are_missing_or_tiny_are_all_different():
    rng = np.random.default_rng(0)
    A = np.repeat(np.eye(3, 5), [50, 50, 2], axis=0)  # three different rows, four clusters asked for
    blocks = cluster_blocks(A, np.zeros(102), 4, 20, rng)
    assert blocks.shape == (2, 3)
    assert np.unique(blocks).size == 6


@pytest.mark.compiled
def test_figure_3__cluster_blocks_are_better_conditioned_and_smaller():
    table = table_of(SpectraFigure("quick", 1_000, 100, 3))
    for clusters in ("loose", "tight"):
        for noise in (0.1, 0.2):
            case = (table["clusters"] == clusters) & (table["noise"] == noise)
            for name in ("condition_number", "spectral_norm"):
                random, clustered = (
                    np.median(table[name][case & (table["method"] == method)]) for method in ("block", "cluster-block")
                )
                assert clustered < random, (clusters, noise, name)


@pytest.fixture(scope="module")
def tight():
    """Figure 2 on tight clusters: a function that returns a quantity for block and cluster-block."""
    figure = BlockFigure("quick", 1_000, 100, 3, noises=(0.1,), goal=1e-4)
    table = table_of(figure)

    def pair(measure, noise_on, *args):
        return measure(only(table, clusters="tight", noise_on=noise_on), figure.names, *args)

    return pair


@pytest.mark.compiled
def test_figure_2__by_the_error_clusters_cost_rows_where_tight(tight):
    rows, level = tight(needed, "A", "rows_read", "relative_error", 1e-4)
    assert level == 1e-4
    assert (rows.ratios > 5).all()


@pytest.mark.compiled
@pytest.mark.parametrize(("noise_on", "at_most"), [("A", 0.7), ("A after b", 0.2)])
def test_figure_2__by_the_residual_the_first_step_across_tight_clusters_is_the_better(tight, noise_on, at_most):
    assert np.median(tight(after, noise_on, 1, "relative_residual").ratios) < at_most
    assert np.median(tight(after, noise_on, 10, "relative_residual").ratios) > 0.5  # a few steps on, no more


@pytest.mark.compiled
@pytest.mark.parametrize("noise_on", ["b", "A after b"])
def test_figure_2__blocks_across_tight_clusters_have_a_smaller_final_error_if_inconsistent(tight, noise_on):
    assert (tight(at_the_end, noise_on, "relative_error").ratios < 0.7).all()
    assert np.median(tight(at_the_end, noise_on, "relative_residual").ratios) < 0.95


@pytest.mark.parametrize(
    ("rows", "factor", "words"),
    [
        ((100, 200, 150), 0.5, "block\n0.5"),
        ((200, 100, 102), 2.0, "cluster\n~ single\n2"),
        ((100, np.inf, np.inf), 0.1, "block\n≤ 0.1"),
        ((np.inf, 100, np.inf), 10.0, "cluster\n≥ 10"),
        ((np.inf, np.inf, np.inf), 1.0, "none"),
    ],
)
def test_map__has_the_best_method_and_the_ratio(rows, factor, words):
    medians = dict(zip(("block", "cluster-block", "randomized"), rows, strict=True))
    assert _verdict(medians, 1000) == (factor, words)


@pytest.mark.compiled
def test_sketch__becomes_less_effective_unless_refreshed():
    table = table_of(SketchFigure("quick", 4_000, 200, 2))
    ends = {name: np.median(table["relative_error"][table["method"] == name][-1:]) for name in set(table["method"])}
    assert ends["jl, refreshed"] < ends["jl"] / 5 < ends["randomized"] / 5
    assert table["n_steps"].max() == 4 * 200
