"""The directions of the rows: clusters, and how far from orthogonal the rows are."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from rowsolve.engine.check import ROWS_TO_CHECK
from rowsolve.inspection.report import Directions
from rowsolve.inspection.sample import Sample
from rowsolve.partition.clusters import cluster_rows
from rowsolve.policy.thresholds import (
    ALMOST_ALL,
    HARDLY_MORE,
    MUCH_MORE,
    NUMBERS_OF_A_SAMPLE,
    SAMPLE_ROWS_EACH,
)
from rowsolve.problem.system import System

__all__ = ["look_at_directions", "rows_to_compare"]

_COUNTS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16)
_FEWEST_ROWS = 2 * SAMPLE_ROWS_EACH  # one half makes the clusters, the other tests them


def rows_to_compare(system: System) -> int:
    """Return the number of rows to compare."""
    half = max(int(NUMBERS_OF_A_SAMPLE / system.entries_per_row), _FEWEST_ROWS)
    return min(system.n_rows, 2 * min(ROWS_TO_CHECK, half))


class _Clustering(NamedTuple):
    """Clusters, and the share of a row that they explain: the mean squared cosine to the nearest centroid."""

    n_clusters: int
    explained: float
    by_chance: float
    labels: np.ndarray

    @property
    def gain(self) -> float:
        return self.explained - self.by_chance


def look_at_directions(sample: Sample, rng: np.random.Generator) -> Directions | None:
    """Return the clusters among the rows of `sample`, and the angles between rows; None if there are too few rows.

    One half of the rows defines the clusters, the other half tests them, because rows are close to a centroid that was
    made from them in any case. The share that the centroids explain is compared with that of as many random
    directions, one of which is always the nearest, too.
    """
    order = rng.permutation(sample.n_rows)[: rows_to_compare(sample.system)]
    if order.size < _FEWEST_ROWS or sample.system.n_columns == 1:
        return None
    training, others = (sample.part(np.sort(half)) for half in np.array_split(order, 2))
    rows = _unit_rows(others)
    best = _fewest(list(_clusterings(training, rows, rng)))
    found = replace(_angles(rows, best.labels), n_rows=order.size)
    if _are_clusters(best, found):
        return replace(found, n_clusters=best.n_clusters, cosine=math.sqrt(best.explained))
    return replace(found, within=None, across=None)


def _clusterings(training: Sample, rows: Any, rng: np.random.Generator) -> Iterator[_Clustering]:
    """Yield increasing numbers of clusters, made from `training` and tested with `rows`."""
    p = training.system.n_columns
    for count in _COUNTS:
        if count * SAMPLE_ROWS_EACH > training.n_rows or count > p:
            return
        centroids = cluster_rows(training.system, count, rng).centroids
        if len(centroids) < count:
            return  # there are fewer different rows
        cosines = np.abs(rows @ (centroids / np.linalg.norm(centroids, axis=1, keepdims=True)).T)
        explained = float(np.mean(cosines.max(axis=1) ** 2))
        yield _Clustering(count, explained, _by_chance(count, p), cosines.argmax(axis=1))


def _fewest(found: list[_Clustering]) -> _Clustering:
    """Return the smallest number of clusters that explains nearly as much as the best one."""
    best = max(found, key=lambda one: one.gain)
    for one in found:
        if one.gain >= ALMOST_ALL * best.gain and 1.0 - one.explained <= HARDLY_MORE * (1.0 - best.explained):
            return one
    return best


def _are_clusters(clusters: _Clustering, angles: Directions) -> bool:
    """Return whether centroids explain rows much better than random directions do, and rows those of their cluster."""
    within = angles.typical if angles.within is None else angles.within
    across = max(angles.of_gaussian, angles.across or 0.0)
    return _is_much_more(clusters.explained, clusters.by_chance) and _is_much_more(within, across)


def _is_much_more(likeness: float, other: float) -> bool:
    return likeness > MUCH_MORE * other or MUCH_MORE * (1.0 - likeness) < 1.0 - other


def _by_chance(count: int, p: int) -> float:
    """Return the share of a row that `count` random directions in p dimensions explain.

    It is the mean of the largest squared cosine. Each squared cosine has a beta distribution, and the mean is the
    integral of ``P(largest > t)``.
    """
    from scipy.special import betainc

    squares = np.linspace(0.0, min(1.0, 40.0 / p), 129)  # the probability beyond is negligible
    return float(np.trapezoid(1.0 - betainc(0.5, 0.5 * (p - 1), squares) ** count, squares))


def _angles(rows: Any, labels: np.ndarray) -> Directions:
    """Return the statistics of the cosines between pairs of unit rows with equal and with different labels."""
    from scipy.special import betaincinv

    products = rows @ rows.T
    cosines = np.abs(products.toarray() if hasattr(products, "toarray") else products)
    i, j = np.triu_indices(len(cosines), 1)
    pairs, same = cosines[i, j], labels[i] == labels[j]
    several = not same.all()
    return Directions(
        n_clusters=0,
        cosine=None,
        typical=float(np.median(pairs)),
        of_gaussian=math.sqrt(betaincinv(0.5, 0.5 * (rows.shape[1] - 1), 0.5)),
        within=float(np.median(pairs[same])) if several else None,
        across=float(np.median(pairs[~same])) if several else None,
        largest=min(float(pairs.max()), 1.0),
        n_rows=rows.shape[0],
    )


def _unit_rows(sample: Sample) -> Any:
    """Return the rows divided by their norms."""
    norms, matrix = sample.norms[:, None], sample.matrix
    return matrix.multiply(1.0 / norms).tocsr() if hasattr(matrix, "tocsr") else matrix / norms
