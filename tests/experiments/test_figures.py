"""The numbers behind the figures of the paper, at sizes that take no time."""

from __future__ import annotations

import numpy as np
import pytest

import rowsolve
from rowsolve.experiments.convergence import BlockFigure, JLFigure
from rowsolve.experiments.paper import FIGURE_NAMES, figures_of
from rowsolve.experiments.problems import clustered_system
from rowsolve.experiments.sketches import SketchFigure
from rowsolve.experiments.spectra import SpectraFigure, cluster_blocks, random_blocks
from rowsolve.experiments.style import COLOURS
from rowsolve.experiments.tracing import Point, floor_of, rows_to, thinned, trace
from rowsolve.experiments.winners import MapFigure, _verdict

TINY = {
    "1": JLFigure("quick", 120, 10, 2, noises=(0.2,), goal=0.5, rows_per_column=30),
    "2": BlockFigure("quick", 120, 10, 2, noises=(0.2,), goal=0.5, rows_per_column_noisy=20),
    "3": SpectraFigure("quick", 120, 10, 2, n_blocks=10),
    "map": MapFigure(
        "quick", 120, 10, 1, separations=(0.1, 1.0), noises=(0.5,), goal=0.1,
        rows_per_column=30, rows_per_column_noisy=20,
    ),
    "sketch": SketchFigure("quick", 120, 10, 2, sketch_size=4, n_candidates=10),
}  # fmt: skip


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
            assert {line.get_label(): line.get_color() for line in axes.get_lines()}.items() <= COLOURS.items()


def test_trace__follows_the_true_error():
    A, b, x_true, _ = clustered_system(200, 10, 4, "loose", "A", 0.5, 0)
    method = rowsolve.ClusterBlock()
    points = trace(A, b, x_true, method, rows_a_step=4, max_rows=1e5, goal=1e-3, rng=3)
    assert points[0].error == 1.0
    assert points[0].n_rows >= 200  # clustering reads A
    assert points[-1].error <= 1e-3 < points[-2].error
    x = rowsolve.solve(A, b, method, rtol=0.0, max_passes=points[-1].n_rows / 200, rng=3).x
    assert points[-1].error == pytest.approx(np.linalg.norm(x - x_true) / np.linalg.norm(x_true))
    assert points[-1].n_steps == (points[-1].n_rows - points[0].n_rows) / 4
    assert [one.error for one in points] == sorted((one.error for one in points), reverse=True)


def test_trace__passes_ctrl_c_on(monkeypatch):
    A, b, x_true, _ = clustered_system(200, 10, 4, "loose")
    monkeypatch.setattr(np.linalg, "norm", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        trace(A, b, x_true, rowsolve.Block(), rows_a_step=4, max_rows=1e5, goal=0.0, rng=0)


def test_rows_to__goes_by_the_logarithm_between_bursts():
    points = [Point(0, 100, 0.0, 1.0), Point(1, 200, 0.0, 1e-2), Point(2, 300, 0.0, 1e-4)]
    assert rows_to(points, 1e-3) == pytest.approx(250)
    assert rows_to(points, 1e-5) == np.inf


def test_floor__is_the_median_of_the_last_third():
    assert floor_of(np.arange(10, 20), np.arange(10.0)[::-1]) == 1.5


def test_thinned__keeps_both_ends():
    points = [Point(i, i, 0.0, 1.0) for i in range(1000)]
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


@pytest.mark.compiled
def test_figure_2__clusters_cost_rows_where_tight_and_lower_the_floor_where_b_is_noisy():
    table = table_of(BlockFigure("quick", 1_000, 100, 1, noises=(0.1,), goal=1e-4))

    def end(method, noise_on):
        case = (table["clusters"] == "tight") & (table["method"] == method) & (table["noise_on"] == noise_on)
        return table["rows_read"][case][-1], np.median(table["relative_error"][case][-20:])

    assert end("cluster-block", "A")[0] > 5 * end("block", "A")[0]
    assert end("cluster-block", "b")[1] < 0.7 * end("block", "b")[1]


@pytest.mark.parametrize(
    ("rows", "factor", "words"),
    [
        ((100, 200, 150), 0.5, "block\n0.5"),
        ((200, 100, 102), 2.0, "cluster\n~ single\n2"),
        ((100, np.inf, np.inf), 0.1, "block\n≤ 0.1"),
        ((np.inf, 100, np.inf), 10.0, "cluster\n≥ 10"),
        ((np.inf, np.inf, np.inf), 1.0, "none\nin time"),
    ],
)
def test_map__names_the_winner_and_the_factor(rows, factor, words):
    medians = dict(zip(("block", "cluster-block", "randomized"), rows, strict=True))
    assert _verdict(medians, 1000) == (factor, words)


@pytest.mark.compiled
def test_sketch__loses_its_power_unless_refreshed():
    table = table_of(SketchFigure("quick", 4_000, 200, 2))
    ends = {name: np.median(table["relative_error"][table["method"] == name][-1:]) for name in set(table["method"])}
    assert ends["jl, refreshed"] < ends["jl"] / 5 < ends["randomized"] / 5
    assert table["n_steps"].max() == 4 * 200
