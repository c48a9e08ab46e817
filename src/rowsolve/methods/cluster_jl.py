"""Greedy choice of rows by sketched distances, within the furthest cluster: the paper's first method."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from rowsolve.methods.base import Capabilities, RowMethod, one_of, positive_integer
from rowsolve.methods.jl import SketchedPlan, advance_sketched, check_sketch_parameters, prepare_sketched
from rowsolve.partition.clusters import EQUATION_METRICS, cluster_rows

__all__ = ["ClusterJL"]


@dataclass(frozen=True)
class ClusterJL(RowMethod):
    """Choose the cluster whose centroid equation is furthest from x, then a row of it as `JL` (Li, Mo and Ye 2016).

    The paper does not define the right-hand side of a centroid; here it is the mean of the b of its rows (with their
    signs and normalised like them), which the solution of a consistent system satisfies. A is read twice beforehand,
    to cluster the rows and to sketch them.

    Parameters
    ----------
    n_clusters : int
    sketch_size, n_candidates : int or None
        As for `JL`. In a cluster of at most `n_candidates` rows all rows are candidates.
    metric : {"direction", "euclidean"}
        The distance between rows; ``"euclidean"`` is that of the paper.
    """

    n_clusters: int = 4
    sketch_size: int | None = None
    n_candidates: int | None = None
    metric: Literal["direction", "euclidean"] = "direction"

    name: ClassVar[str] = "cluster-jl"
    summary: ClassVar[str] = "as jl, with candidates from the furthest cluster"
    citation: ClassVar[str] = "Li, Mo and Ye 2016 (the paper's RKA-Cluster-JL)"
    plan_type: ClassVar[type[SketchedPlan]] = SketchedPlan
    can: ClassVar[Capabilities] = Capabilities(bounds=True, in_chunks=False)

    def __post_init__(self):
        positive_integer("n_clusters", self.n_clusters)
        check_sketch_parameters(self)
        one_of("metric", self.metric, EQUATION_METRICS)

    def prepare(self, system, rng):
        """Cluster the rows (one pass), then sketch them (another)."""
        clusters = cluster_rows(system, self.n_clusters, rng, metric=self.metric)
        return prepare_sketched(self, system, rng, clusters.members(), clusters)

    def advance(self, plan, iterates, n_rows, rng, drops):
        """Take greedy steps, two rows of A each."""
        return advance_sketched(plan, iterates, n_rows, rng, drops)
