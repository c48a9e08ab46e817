"""Greedy choice of rows by sketched distances, inside the furthest cluster: the paper's first method."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from rowsolve.methods.base import Capabilities, RowMethod, one_of, positive_integer
from rowsolve.methods.jl import SketchedPlan, advance_sketched, check_sketch_parameters, prepare_sketched
from rowsolve.partition.clusters import EQUATION_METRICS, cluster_rows

__all__ = ["ClusterJL"]


@dataclass(frozen=True)
class ClusterJL(RowMethod):
    """Pick the cluster whose centroid equation is furthest, then proceed as `JL` inside it (Li, Mo and Ye 2016).

    The paper leaves the right-hand side of a centroid open; here it is the mean of the b of its rows (signed
    and normalised like them), which the solution of a consistent system satisfies. Reads A twice
    beforehand: to cluster, then to sketch.

    Parameters
    ----------
    n_clusters : int
    sketch_size, n_candidates : int or None
        As for `JL`. A cluster of no more than `n_candidates` rows is scored whole.
    metric : {"direction", "euclidean"}
        How rows are compared; ``"euclidean"`` is the paper to the letter.
    """

    n_clusters: int = 4
    sketch_size: int | None = None
    n_candidates: int | None = None
    metric: Literal["direction", "euclidean"] = "direction"

    name: ClassVar[str] = "cluster-jl"
    summary: ClassVar[str] = "as jl, but candidates come from the furthest cluster"
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
