"""Greedy choice of rows by sketched distances, over all rows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from rowsolve.checkpoint.state import Kind, StateError, array, integer, named, optional
from rowsolve.kernels.extended import residual_of
from rowsolve.kernels.rows import zeros_for_vectors
from rowsolve.kernels.sampling import Deck, fill_alias_table
from rowsolve.kernels.sketched import Position, Sketch, choose_two, greedy_sweep, sketch_rows, step_to_better
from rowsolve.methods.base import Capabilities, Plan, RowMethod, one_of, positive_integer
from rowsolve.methods.drawing import deck_of_rows
from rowsolve.problem.system import System

__all__ = ["JL", "SketchedPlan", "advance_sketched", "prepare_sketched"]


class Equations(NamedTuple):
    """The centroid equations of clusters, or none."""

    centroids: np.ndarray
    targets: np.ndarray

    @classmethod
    def of(cls, system: System, clusters: Any) -> Equations:
        """Return the equations of `clusters`, or none if it is None."""
        targets = np.zeros(0) if clusters is None else clusters.targets
        centroids = zeros_for_vectors(system.rows, targets.size, system.n_columns)
        if clusters is not None:
            centroids[:] = clusters.centroids
        return cls(centroids, targets)


class SketchedPlan(Plan):
    """Sketches of all rows, and the decks that candidates are drawn from.

    Attributes
    ----------
    origin : ndarray of shape (p,)
        The x at which residuals are known exactly.
    steps_to_refresh : int or None
        The number of steps after which they are computed again, if at all.
    """

    def __init__(
        self, system: System, phi: np.ndarray, equations: Equations, sketch: Sketch, deck: Deck, n_candidates: int,
        steps_to_refresh: int | None = None,
    ) -> None:  # fmt: skip
        size, k = len(phi), equations.targets.size
        work = system.entries_per_row + n_candidates * (size + 8) / 2
        price = 1.0 if steps_to_refresh is None else 1 + system.n_rows / (2 * steps_to_refresh)
        super().__init__(system, work, rows_per_step=2, price_of_row=price)
        self.phi, self.equations, self.sketch, self.deck = phi, equations, sketch, deck
        self.n_candidates, self.steps_to_refresh = n_candidates, steps_to_refresh
        self.origin = np.zeros(system.n_columns)
        norms = np.linalg.norm(equations.centroids, axis=1)
        self.position = Position(np.zeros(size), np.zeros(k), np.where(norms > 0.0, norms, np.inf))

    def refresh(self, x: np.ndarray) -> None:
        """Compute the residuals at `x` (one pass) and make it the reference point."""
        system, residual = self.system, np.empty(self.system.n_rows)

        def fill(piece, start, stop, _odd):
            residual_of(piece.rows, piece.of(system.b), start, stop, x, piece.of(residual))

        system.pass_over(fill)
        usable = self.sketch.length > 0.0
        self.sketch.target[usable] = residual[usable] / self.sketch.length[usable]
        self.origin = x.copy()

    def move_to(self, x: np.ndarray) -> None:
        """Sketch `x` anew, as in every burst, so that rounding errors do not accumulate."""
        centroids, targets = self.equations
        self.position.sketched[:] = self.phi @ (x - self.origin)
        self.position.centroid_gaps[:] = (targets - centroids @ x) / self.position.centroid_norms

    saved: ClassVar[dict[str, Kind]] = {
        **Plan.saved,
        "phi": array("size", "p", order="vectors"),
        "equations": named(Equations, centroids=array("clusters", "p", order="vectors"), targets=array("clusters")),
        "sketch": named(
            Sketch, unit=array("n", "size"), length=array("n"), target=array("n"), norms_sq=array("n"),
            overlaps=array("n", "clusters"),
        ),
        "deck": deck_of_rows,
        "n_candidates": integer(1),
        "position": named(
            Position, sketched=array("size"), centroid_gaps=array("clusters"), centroid_norms=array("clusters")
        ),
        "origin": array("p"),
        "steps_to_refresh": optional(integer(1)),
    }  # fmt: skip

    @classmethod
    def from_state(cls, method: Any, system: System, state: Any) -> SketchedPlan:
        """Return the plan with that state."""
        names, sizes = ("phi", "equations", "sketch", "deck", "n_candidates", "steps_to_refresh"), system.sizes
        plan = cls(system, *(cls.saved[name](state.get(name), sizes) for name in names))
        plan.restore(state)
        if plan.deck.starts.size - 1 != max(1, plan.equations.targets.size):
            raise StateError("deck: expected a group for each cluster")
        return plan


@dataclass(frozen=True)
class JL(RowMethod):
    """Project on the furthest of `n_candidates` random rows, by sketched distances (Eldar and Needell 2011).

    With ``Phi`` of shape (sketch_size, p) and entries N(0, 1/sketch_size), ``alpha_i = Phi a_i`` is computed
    once (one pass over A, ``n * sketch_size`` numbers of memory). Candidates are drawn by squared norm and
    scored by ``abs(b_i - <alpha_i, Phi x>) / norm(alpha_i)``; the best is compared, exactly, with the first
    one drawn.

    The error of the sketch is about ``norm(a) norm(x) / sqrt(sketch_size)``, and a residual is about
    ``norm(a) norm(x* - x) / sqrt(p)``, so the choice is almost random when x is near ``x*``.
    ``reference="refresh"`` avoids this: the residuals at a reference point are computed exactly, and only the
    difference of x from that point is sketched. Each refresh is a pass over A, so it does not make the method faster;
    it is meant for experiments.

    Parameters
    ----------
    sketch_size : int or None
        None stands for ``ceil(4 log(p))``, at least 1.
    n_candidates : int or None
        None stands for p.
    reference : {"origin", "refresh"}
        Whether x itself is sketched, or its difference from the last reference point.
    refresh_every : int or None
        Steps between two reference points; None stands for p / 10.
    """

    sketch_size: int | None = None
    n_candidates: int | None = None
    reference: Literal["origin", "refresh"] = "origin"
    refresh_every: int | None = None

    name: ClassVar[str] = "jl"
    summary: ClassVar[str] = "the furthest of many random rows, by sketched distance"
    citation: ClassVar[str] = "Eldar and Needell 2011 (the paper's RKA-JL)"
    plan_type: ClassVar[type[SketchedPlan]] = SketchedPlan
    can: ClassVar[Capabilities] = Capabilities(bounds=True, in_chunks=False)

    def __post_init__(self):
        check_sketch_parameters(self)
        one_of("reference", self.reference, ("origin", "refresh"))
        if self.refresh_every is not None:
            positive_integer("refresh_every", self.refresh_every)
            if self.reference == "origin":
                raise ValueError("`refresh_every` requires reference='refresh'.")

    def prepare(self, system, rng):
        """Sketch every row (one pass)."""
        every = None if self.reference == "origin" else self.refresh_every or max(1, system.n_columns // 10)
        return prepare_sketched(self, system, rng, [np.arange(system.n_rows)], steps_to_refresh=every)

    def advance(self, plan, iterates, n_rows, rng, drops):
        """Take greedy steps, two rows of A each."""
        return advance_sketched(plan, iterates, n_rows, rng, drops)


def check_sketch_parameters(method: Any) -> None:
    """Raise unless the parameters of a sketch are valid."""
    for name in ("sketch_size", "n_candidates"):
        if getattr(method, name) is not None:
            positive_integer(name, getattr(method, name))


def prepare_sketched(method, system, rng, groups, clusters=None, steps_to_refresh=None) -> SketchedPlan:
    """Sketch the rows and make a deck of each group; `clusters`, if not None, has the centroid equations."""
    n, p = system.n_rows, system.n_columns
    size = method.sketch_size or max(1, math.ceil(4 * math.log(p)))
    equations = Equations.of(system, clusters)
    centroids, k = equations.centroids, equations.targets.size
    others = len(Sketch._fields) - 2 + len(Deck._fields) - 1  # numbers of a row in the sketch and the decks, besides
    system.limits.check_memory(8.0 * n * (size + k + 2 * others), "a sketch of all rows")  # some while it is made
    phi = zeros_for_vectors(system.rows, size, p)
    phi[:] = rng.standard_normal((size, p)) / math.sqrt(size)
    whole = Sketch(np.zeros((n, size)), np.zeros(n), np.zeros(n), np.zeros(n), np.zeros((n, k)))

    def sketch(piece, start, stop, flagged_rows):
        here = Sketch(*map(piece.of, whole))
        sketch_rows(piece.rows, piece.of(system.b), start, stop, phi, centroids, here, flagged_rows)

    system.pass_over(sketch, times_used=1 + (size + k) // 8)  # several multiplications for each number loaded
    deck = _decks(groups, whole)
    return SketchedPlan(system, phi, equations, whole, deck, method.n_candidates or p, steps_to_refresh)


def _decks(groups, sketch) -> Deck:
    """Return alias tables by squared norm for each group, of the rows that can be candidates."""
    groups = [rows[sketch.length[rows] > 0.0] for rows in groups]
    members = np.concatenate([*groups, np.empty(0, np.int64)])
    starts = np.cumsum([0, *(rows.size for rows in groups)])
    deck = Deck(members, starts, np.empty(members.size), np.empty(members.size, np.int64))
    for start, stop in pairwise(starts):
        if stop > start:
            weights = sketch.norms_sq[members[start:stop]]
            fill_alias_table(weights, deck.keep[start:stop], deck.other[start:stop])
    return deck


def advance_sketched(plan, iterates, n_rows, rng, drops) -> np.ndarray:
    """Take greedy steps that read about `n_rows` rows of A."""
    system = plan.system
    if plan.deck.members.size == 0:  # A is all zero
        drops[:] = 0.0
        return np.empty(0, np.int64)
    if plan.steps_to_refresh is not None:
        n_rows = min(n_rows, 2 * plan.steps_to_refresh)
        plan.refresh(iterates[0])
    plan.move_to(iterates[0])
    visited = np.empty(2 * max(1, n_rows // 2), np.int64)
    if system.stored:
        _fetch_and_step(plan, iterates, rng, drops, visited)
        return visited
    greedy_sweep(
        system.rows, system.b, plan.sketch, plan.deck, plan.n_candidates,
        plan.position, iterates, rng, drops, visited,
    )  # fmt: skip
    return visited


def _fetch_and_step(plan, iterates, rng, drops, visited) -> None:  # iterates, drops, visited: INOUT
    """Do the same as `greedy_sweep` for rows that are not in memory: fetch the two rows of each step."""
    system, workspace = plan.system, min(plan.n_candidates, plan.deck.members.size)
    candidates, uniforms = np.empty(workspace, np.int64), np.empty(workspace)
    drops[:] = 0.0
    for two in visited.reshape(-1, 2):
        two[:] = choose_two(plan.sketch, plan.deck, plan.n_candidates, plan.position, rng, uniforms, candidates)
        (part,) = system.parts(two)
        step_to_better(part.rows, part.of(system.b), 0, 1, plan.sketch, *two, plan.position, iterates, drops)
