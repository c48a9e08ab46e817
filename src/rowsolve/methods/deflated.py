"""Kaczmarz with known equations: combinations of rows that are kept, so that the others act through the rest."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from rowsolve._blas import blas_threads
from rowsolve.clustering import cluster_rows
from rowsolve.kernels.deflated import find_parts, lift, lower, write_unit_rows
from rowsolve.kernels.rows import DeflatedRows, room_for_vectors
from rowsolve.kernels.sampling import deal, new_cards
from rowsolve.methods.base import one_of, positive_integer
from rowsolve.methods.oblivious import ONE_BY_ONE, Oblivious, ObliviousPlan

__all__ = ["Deflated"]

CLUSTERS, EQUATIONS = 4, 64  # if nothing is asked for
ROWS_FOR_ONE = 3  # sampled rows for each combination of them
# Rows of the pack, in p: more save next to no steps, and to find the part of a row inside costs many steps.
PACK = 8
GROWTH = 4  # after each round the pack grows by one in so many, so that a long run gets to see all rows
# Rounding of a mean, for each row in it. (Of m equal rows, where it is worst, it was m / 12 units; a row is allowed 8.)
EPS_OF_A_SUM = float(np.finfo(float).eps) / 64
# Squared singular value, relative to the largest, below which an equation follows from the others up to rounding.
DEPENDENT = 1e-8


class _Plan(ObliviousPlan):
    """Equations ``basis @ x = targets`` that are kept, and a pack of rows that act through their part outside."""

    def __init__(self, system, known, eps):
        basis, self.targets = known
        self.eps = eps
        super().__init__(system, n_extra=self.targets.size)
        self.basis = room_for_vectors(system.rows, *basis.shape)
        self.basis[:] = basis
        self.rows = DeflatedRows(system.rows, np.zeros((system.n_rows, self.targets.size)))
        self.lifted, self.known_drops = np.empty((2, self.width)), np.empty(2)
        self.cards, self.n_in_pack, self.next_card = new_cards(system.n_rows), 0, 0
        self.sum_of_ratios = 0.0

    def take_more(self, count, rng):
        """Take up to `count` more random rows into the pack: find their parts inside, for which each is read."""
        system, r = self.system, self.targets.size
        new = np.empty(min(count, system.n_rows - self.n_in_pack), np.int64)
        deal(self.cards, self.n_in_pack, rng.random(new.size), new)
        ratios = np.empty(new.size)

        def find(piece, start, stop, _odd):
            find_parts(piece.rows, new, start, stop, self.basis, self.rows.parts, ratios)

        system.pass_over(find, times_used=1 + r // 8, n_rows=new.size)
        self.n_in_pack += new.size
        self.sum_of_ratios += float(ratios.sum())
        # A row moves x further than its distance is, because it acts through its part outside.
        self.rounding = math.sqrt(self.sum_of_ratios / self.n_in_pack)

    def project_once(self, order, sizes, iterates, drops):
        """Project on the known equations, then on the rows in `order` without leaving them."""
        lift(self.basis, self.targets, iterates, self.lifted, self.known_drops)
        super().project_once(order, sizes, self.lifted, drops)
        lower(self.basis, self.lifted, iterates)
        drops += self.known_drops


@dataclass(frozen=True)
class Deflated(Oblivious):
    """Keep r known equations ``Q x = y`` while random rows act through their part outside the span of Q.

    Any combination of equations is an equation. Clusters of rows, or a sample of rows, supply combinations in the
    directions that (nearly) all rows share, which are what makes all others slow. Deflation is how conjugate
    gradients get rid of such directions (Nicolaides 1987); here, with orthonormal Q and ``w_i = Q a_i``,
    a step is ``x += (b_i - <a_i, x>) / (norm(a_i)**2 - norm(w_i)**2) * (a_i - Q' w_i)``. It costs O(p + r), because
    ``a_i - Q' w_i`` is never formed. The known equations are satisfied anew before every burst.

    To know its ``w_i`` a row is read once more, which costs about ``r / 8`` steps. So rows come from a pack of 8 p
    random ones; when all have been used it grows by a quarter.

    Parameters
    ----------
    source : {"clusters", "rows"}
        ``"clusters"``: the centroid equations (mean of rows, mean of their b) of online k-means by direction, one pass
        over A. For rows in tight clusters, however tight. ``"rows"``: the leading right singular vectors of a sample of
        rows, which are combinations of these; it reads three rows for each. For A with some tens of
        outlying singular values.
    n_clusters : int or None
        For ``"clusters"``; None stands for 4.
    n_equations : int or None
        For ``"rows"``: as many as there are outlying singular values, or somewhat more. None stands for 64, or for the
        number of columns if that is smaller.
    memory : int
        Remember so many directions: fewer rows on hard systems (see `rowsolve.methods.oblivious.Oblivious`).
    """

    source: Literal["clusters", "rows"] = "clusters"
    n_clusters: int | None = None
    n_equations: int | None = None

    name: ClassVar[str] = "deflated"
    summary: ClassVar[str] = "random rows without what they share: centroids of clusters, or combinations of a sample"
    citation: ClassVar[str] = "deflation: Nicolaides 1987; with rows and centroids: new here"
    takes_many: ClassVar[bool] = False  # the known equations would need a target for each right-hand side

    def __post_init__(self):
        super().__post_init__()
        one_of("source", self.source, ("clusters", "rows"))
        for name, source in (("n_clusters", "clusters"), ("n_equations", "rows")):
            if getattr(self, name) is not None:
                positive_integer(name, getattr(self, name))
                if self.source != source:
                    raise ValueError(f"`{name}` is for `source={source!r}`, got `source={self.source!r}`.")

    def prepare(self, system, rng):
        """Find the known equations: cluster the rows (one pass), or read a sample of them; then deal the pack."""
        stored = system.arrangement
        if self.source == "clusters" and stored is not None and self._fits(stored):
            equations, count = _of_unit_norm(stored.centroids, stored.targets), stored.n_clusters
            eps = EPS_OF_A_SUM * system.n_rows
        elif self.source == "clusters":
            clusters = cluster_rows(system, self.n_clusters or min(CLUSTERS, system.n_rows), rng)
            equations, count = _of_unit_norm(clusters.centroids, clusters.targets), clusters.n_clusters
            eps = EPS_OF_A_SUM * np.bincount(clusters.labels + 1)[1:].max(initial=0)
        else:
            count, eps = self._n_combinations(system), 0.0
            equations = _sampled(system, ROWS_FOR_ONE * count, rng)
        with blas_threads(equations[0].size * float(len(equations[0])), 1):
            known = _orthonormal(*equations, count)
        plan = _Plan(system, known, eps)
        plan.take_more(PACK * system.n_columns, rng)
        return plan

    def _fits(self, stored) -> bool:
        """Tell whether equations that are stored with the rows are those that are asked for."""
        return stored.targets is not None and self.n_clusters in (None, stored.n_clusters)

    def _n_combinations(self, system):
        most = min(system.n_rows, system.n_columns)
        if self.n_equations is not None and self.n_equations > most:
            raise ValueError(
                f"`n_equations` must be at most the number of rows and of columns, {most}, got {self.n_equations}: "
                "more cannot be independent."
            )
        return self.n_equations or min(EQUATIONS, most)

    def draw(self, plan, n_rows, rng):
        """Draw `n_rows` rows of the pack, each once before any comes again and before the pack grows."""
        order, done = np.empty(n_rows, np.int64), 0
        while done < n_rows:
            if plan.next_card == plan.n_in_pack:
                plan.take_more(plan.n_in_pack // GROWTH, rng)
                plan.next_card = 0
            stop = min(n_rows, done + plan.n_in_pack - plan.next_card)
            deal(plan.cards[: plan.n_in_pack], plan.next_card, rng.random(stop - done), order[done:stop])
            plan.next_card, done = plan.next_card + stop - done, stop
        return order, ONE_BY_ONE


def _of_unit_norm(equations, targets) -> tuple[np.ndarray, np.ndarray]:
    norms = np.linalg.norm(equations, axis=1)
    scale = np.divide(1.0, norms, out=np.zeros_like(norms), where=norms > 0.0)
    return equations * scale[:, None], targets * scale


def _sampled(system, count, rng) -> tuple[np.ndarray, np.ndarray]:
    """Return the equations of up to `count` random rows, scaled to unit norm."""
    order, _ = system.sample(count, rng)
    units, targets = np.empty((order.size, system.n_columns)), np.empty(order.size)
    write_unit_rows(system.rows, system.b, order, units, targets, system.odd)
    system.count(order)
    return units, targets


def _orthonormal(equations, targets, count) -> tuple[np.ndarray, np.ndarray]:
    """Return the `count` leading right singular vectors of `equations`, as equations; fewer if some are dependent."""
    for _ in range(2):  # the first time, rounding leaves them orthogonal to about 1e-16 / DEPENDENT
        values, vectors = np.linalg.eigh(equations @ equations.T)
        kept = np.flatnonzero(values > DEPENDENT * values.max(initial=0.0))[-count:]
        mix = vectors[:, kept].T / np.sqrt(values[kept, None])
        equations, targets = mix @ equations, mix @ targets
    return equations, targets
