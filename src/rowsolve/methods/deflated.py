"""Kaczmarz with deflation: combinations of rows are kept satisfied while x is projected on random rows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from rowsolve.checkpoint.state import Kind, StateError, array, in_place, integer, named, number, pack, state_of
from rowsolve.kernels.blocks import DEPENDENT
from rowsolve.kernels.deflated import find_parts, lift, lower, write_unit_rows
from rowsolve.kernels.rows import DeflatedRows, zeros_for_vectors
from rowsolve.kernels.sampling import deal, new_cards
from rowsolve.lstsq.spectrum import CommonDirections, look_at_spectrum
from rowsolve.methods.base import Capabilities, one_of, positive_integer
from rowsolve.methods.drawing import ONE_BY_ONE
from rowsolve.methods.oblivious import Oblivious, ObliviousPlan
from rowsolve.parallel.blas import blas_threads
from rowsolve.partition.clusters import cluster_rows, sample_size
from rowsolve.policy.least_squares import spectrum_estimate_pays
from rowsolve.policy.thresholds import EPS, KNOWN_EQUATIONS, NUMBERS_IN_CACHE, PACK_GROWTH, PACK_ROWS, ROWS_PER_EQUATION

__all__ = ["Deflated"]

# Rounding of a mean, for each row in it. (Of m equal rows, where it is worst, it was m / 12 units; a row is allowed 8.)
EPS_OF_A_SUM = EPS / 64


@dataclass
class _Pack:
    """Random rows, dealt without replacement; when all have been dealt, the pack grows by a quarter."""

    cards: np.ndarray
    size: int
    next_card: int = 0

    def deal(self, n_rows, rng) -> np.ndarray:
        """Return the next `n_rows` rows."""
        order, done = np.empty(n_rows, np.int64), 0
        while done < n_rows:
            if self.next_card == self.size:
                self.size, self.next_card = min(self.size + self.size // PACK_GROWTH, self.cards.size), 0
            stop = min(n_rows, done + self.size - self.next_card)
            deal(self.cards[: self.size], self.next_card, rng.random(stop - done), order[done:stop])
            self.next_card, done = self.next_card + stop - done, stop
        return order


def _pack_of(value, sizes) -> _Pack:
    """Return the pack in a saved state."""
    found = named(_Pack, cards=pack, size=integer(1, "n"), next_card=integer(0, "n"))(value, sizes)
    if found.next_card > found.size:
        raise StateError("next_card: expected a position in the random order of the rows")
    return found


class _InnerParts:
    """The parts of rows in the span of the basis, each computed when the row is first used.

    Attributes
    ----------
    values : ndarray of shape (n, r)
    known : ndarray of shape (n,), bool
        The rows for which they have been computed.
    """

    def __init__(self, system, basis):
        self._system, self._basis = system, basis
        self.values = np.zeros((system.n_rows, len(basis)))
        self.known, self.n_known = np.zeros(system.n_rows, dtype=bool), 0
        self.sum_of_ratios = 0.0  # of the squared norm of a known row to that of its part orthogonal to the basis

    def find(self, order) -> None:
        """Compute those of the rows in `order` that are not known yet."""
        new = np.unique(order[~self.known[order]])
        if not new.size:
            return
        ratios, work = np.empty(new.size), new.size * self._system.entries_per_row * (1 + len(self._basis) // 8)

        def find(start, stop, _odd):
            find_parts(self._system.rows, new, start, stop, self._basis, self.values, ratios)

        self._system.in_slices(find, 0, new.size, work)
        self.known[new] = True
        self.n_known += new.size
        self.sum_of_ratios += float(ratios.sum())

    @property
    def rounding(self) -> float:
        """The rounding error of a step: it is longer than the distance of its row, as only the outer part is used."""
        return math.sqrt(self.sum_of_ratios / self.n_known)

    saved: ClassVar[dict[str, Kind]] = {
        "known": array("n", dtype=bool),
        "n_known": integer(0, "n"),
        "sum_of_ratios": number,
        "known_values": array(None, None),
    }
    derived: ClassVar[tuple[str, ...]] = ("_system", "_basis", "values")

    @property
    def known_values(self):
        """The parts that are known."""
        return self.values[self.known]

    @known_values.setter
    def known_values(self, values):
        if values.shape != (np.count_nonzero(self.known), len(self._basis)):
            raise StateError("known_values: expected the part of each row that is known")
        self.values[self.known] = values

    def state(self):
        """Return the parts that are known."""
        return state_of(self)


class _Plan(ObliviousPlan):
    """Known equations ``basis @ x = targets``, and a pack of rows of which only the part orthogonal to basis is used.

    The inner part of a row is its part in the span of the basis.
    """

    def __init__(self, system, basis, targets, eps):
        super().__init__(system, n_extra=targets.size)
        self.eps, self.targets = eps, targets
        self.basis = zeros_for_vectors(system.rows, *basis.shape)
        self.basis[:] = basis
        self.inner = _InnerParts(system, self.basis)
        self.rows = DeflatedRows(system.rows, self.inner.values)
        self.lifted, self.known_drops = np.empty((2, self.width)), np.empty(2)
        self.pack = _Pack(new_cards(system.n_rows), min(PACK_ROWS * system.n_columns, system.n_rows))

    def draw(self, n_rows, rng):
        """Draw `n_rows` rows of the pack."""
        return self.pack.deal(n_rows, rng), ONE_BY_ONE

    def project_once(self, order, sizes, iterates, drops):
        """Project on the known equations, then on the rows in `order` while the known equations stay satisfied."""
        lift(self.basis, self.targets, iterates, self.lifted, self.known_drops)
        n_chunks = math.ceil(order.size * self.system.entries_per_row / NUMBERS_IN_CACHE)
        if n_chunks < 2 or self.inner.known[order].all():
            chunks = [order]
        else:
            chunks = np.array_split(order, min(n_chunks, order.size))
        for chunk in chunks:
            self.inner.find(chunk)
            super().project_once(chunk, sizes, self.lifted, drops)
            self.known_drops += drops
        lower(self.basis, self.lifted, iterates)
        drops[:] = self.known_drops
        self.rounding = self.inner.rounding

    saved: ClassVar[dict[str, Kind]] = {
        **ObliviousPlan.saved,
        "basis": array("r", "p", order="vectors"),
        "targets": array("r"),
        "pack": _pack_of,
        "inner": in_place,
    }
    derived = (*ObliviousPlan.derived, "lifted", "known_drops")

    @classmethod
    def from_state(cls, method, system, state):
        """Return the plan with that state."""
        sizes = system.sizes
        basis, targets = (cls.saved[name](state.get(name), sizes) for name in ("basis", "targets"))
        if sizes["r"] > system.n_columns:
            raise StateError("basis: expected no more vectors than columns")
        plan = cls(system, basis, targets, 0.0)
        plan.restore({**state, "basis": plan.basis})  # the array that its inner parts are found with
        return plan


@dataclass(frozen=True)
class Deflated(Oblivious):
    """Project on random rows, orthogonally to the span of Q, while r known equations ``Q x = y`` stay satisfied.

    Any linear combination of equations is an equation. Clusters of rows, or a sample of rows, supply combinations in
    the common directions of (nearly) all rows, which slow down the convergence in all other directions. Deflation
    removes such directions from conjugate gradients (Nicolaides 1987); here, with orthonormal Q and ``w_i = Q a_i``,
    a step is ``x += (b_i - <a_i, x>) / (norm(a_i)**2 - norm(w_i)**2) * (a_i - Q' w_i)``. It costs O(p + r), because
    ``a_i - Q' w_i`` is never formed. x is projected on the known equations before every burst.

    The first time that a row is used its ``w_i`` is computed, which costs about ``r / 8`` steps. So rows are taken from
    a pack of 8 p random rows; when all of these have been used, the pack grows by a quarter.

    Parameters
    ----------
    source : {"clusters", "rows"}
        ``"clusters"``: the centroid equations (mean of rows, mean of their b) of online k-means by direction, over 3 p
        random rows, for rows in clusters, however tight. ``"rows"``: the leading right singular vectors of a sample of
        rows, which are combinations of these rows, for A with a few large singular values; three rows are read for
        each equation.
    n_clusters : int or None
        For ``"clusters"``; None stands for 16, or a quarter of the columns if that is less. A number larger than the
        actual number of clusters does no harm.
    n_equations : int or None
        For ``"rows"``: the number of large singular values, or somewhat more. With None, in a large system in which a
        sample of 512 rows has a few large singular values and the others are nearly equal, it is the number of large
        ones; otherwise 64, or the number of columns if that is smaller.
    n_directions : int
        Size of the memory, which saves rows on ill-conditioned systems (see `rowsolve.methods.oblivious.Oblivious`).
    """

    source: Literal["clusters", "rows"] = "clusters"
    n_clusters: int | None = None
    n_equations: int | None = None

    name: ClassVar[str] = "deflated"
    summary: ClassVar[str] = "random rows without their common directions, found from clusters or from a sample of rows"
    citation: ClassVar[str] = "deflation: Nicolaides 1987; with rows and centroids: new here"
    plan_type: ClassVar[type[_Plan]] = _Plan
    # With several b, the known equations would need a target for each right-hand side.
    can: ClassVar[Capabilities] = Oblivious.can._replace(many_b=False)

    def __post_init__(self):
        super().__post_init__()
        one_of("source", self.source, ("clusters", "rows"))
        for name, source in (("n_clusters", "clusters"), ("n_equations", "rows")):
            if getattr(self, name) is not None:
                positive_integer(name, getattr(self, name))
                if self.source != source:
                    raise ValueError(f"`{name}` requires source={source!r}, got source={self.source!r}.")

    def prepare(self, system, rng):
        """Find the known equations, unless they are stored with the rows: cluster or combine a sample of the rows."""
        stored = system.source.arrangement
        if self.source == "clusters" and stored is not None and self._fits(stored):
            equations, count = _of_unit_norm(stored.centroids, stored.targets), stored.n_clusters
            eps = EPS_OF_A_SUM * system.n_rows
        elif self.source == "clusters":
            few = min(max(4, min(KNOWN_EQUATIONS, system.n_columns) // 4), system.n_rows)
            equations, eps = _centroids(system, self.n_clusters or few, rng)
            count = len(equations[0])
        elif (found := self._common_directions(system, rng)) is not None:
            equations, count, eps = found[:2], len(found.equations), EPS_OF_A_SUM * found.n_rows
        else:
            count, eps = self._n_combinations(system), 0.0
            equations = _sampled(system, ROWS_PER_EQUATION * count, rng)
        with blas_threads(equations[0].size * float(len(equations[0])), 1):
            known = _orthonormal(*equations, count)
        return _Plan(system, *known, eps)

    def _fits(self, stored) -> bool:
        """Return whether the equations that are stored with the rows have the requested parameters."""
        return stored.targets is not None and self.n_clusters in (None, stored.n_clusters)

    def _common_directions(self, system, rng) -> CommonDirections | None:
        """Return the common directions of the rows, if their number was not given and a look at some rows is cheap."""
        if self.n_equations is not None or not spectrum_estimate_pays(system):
            return None
        return look_at_spectrum(system, rng).common_directions

    def _n_combinations(self, system):
        most = min(system.n_rows, system.n_columns)
        if self.n_equations is not None and self.n_equations > most:
            raise ValueError(
                f"`n_equations` must be at most the number of rows and of columns, {most}, got {self.n_equations}: "
                "more cannot be independent."
            )
        return self.n_equations or min(KNOWN_EQUATIONS, most)


def _centroids(system, n_clusters, rng) -> tuple[tuple[np.ndarray, np.ndarray], float]:
    """Return the centroid equations of a sample of the rows, and their relative precision."""
    if n_clusters > system.n_rows:
        raise ValueError(
            f"`n_clusters` must be at most the number of rows, {system.n_rows}, got {n_clusters}: "
            f"choose fewer clusters."
        )
    count = max(ROWS_PER_EQUATION * system.n_columns, sample_size(n_clusters))
    sample = system.part(np.sort(system.sample(count, rng)[0]))
    if sample is None:
        return (np.zeros((1, system.n_columns)), np.zeros(1)), 0.0
    clusters = cluster_rows(sample, min(n_clusters, sample.n_rows), rng)
    largest = np.bincount(clusters.labels + 1)[1:].max(initial=0)
    return _of_unit_norm(clusters.centroids, clusters.targets), EPS_OF_A_SUM * largest


def _of_unit_norm(equations, targets) -> tuple[np.ndarray, np.ndarray]:
    norms = np.linalg.norm(equations, axis=1)
    scale = np.divide(1.0, norms, out=np.zeros_like(norms), where=norms > 0.0)
    return equations * scale[:, None], targets * scale


def _sampled(system, count, rng) -> tuple[np.ndarray, np.ndarray]:
    """Return the equations of up to `count` random rows, scaled to unit norm."""
    order, _ = system.sample(count, rng)
    units, targets = np.empty((order.size, system.n_columns)), np.empty(order.size)
    write_unit_rows(system.rows, system.b, order, units, targets, system.counter.flagged_rows)
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
