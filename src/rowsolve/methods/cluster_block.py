"""Block Kaczmarz with one row of each cluster: the paper's second method."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from rowsolve.checkpoint.state import Kind, StateError, array, integer, row_numbers
from rowsolve.methods.base import check_edges, one_of, positive_integer
from rowsolve.methods.oblivious import NO_ROWS, ONE_BY_ONE, Oblivious, ObliviousPlan
from rowsolve.partition.clusters import METRICS, Metric, cluster_rows, partition_across, partition_within

__all__ = ["ClusterBlock"]


class _Plan(ObliviousPlan):
    members: np.ndarray
    starts: np.ndarray

    saved: ClassVar[dict[str, Kind]] = {
        **ObliviousPlan.saved,
        "rows_per_step": integer(1),
        "members": row_numbers(),
        "starts": array(None, dtype=np.int64),
    }
    derived = tuple(name for name in ObliviousPlan.derived if name != "rows_per_step")

    @classmethod
    def from_state(cls, method, system, state):
        """Return the plan with that state."""
        most = max(method.n_clusters, method.block_size or 1)
        plan = cls(system, integer(1, most)(state.get("rows_per_step"), system.sizes))
        plan.restore(state)
        check_edges(plan.starts, plan.members.size)
        if np.diff(plan.starts).max(initial=0) > plan.rows_per_step:
            raise StateError(f"starts: expected blocks of up to {plan.rows_per_step} rows")
        return plan


@dataclass(frozen=True)
class ClusterBlock(Oblivious):
    """Cluster the rows, partition them into blocks once, then draw blocks uniformly (Li, Mo and Ye 2016).

    Parameters
    ----------
    n_clusters : int
        Clustering reads A once. If `rowsolve.convert` has stored the rows in blocks of the same number of clusters,
        these blocks are used.
    metric : {"direction", "euclidean", "jaccard", "hamming"}
        The distance between rows; ``"euclidean"`` is that of the paper. The last two compare the sparsity patterns of
        sparse rows.
    pairing : {"across", "within"}
        ``"across"``, as in the paper: a block has one row of each cluster. ``"within"``: all rows of a block are from
        one cluster (for sparse rows clustered by pattern: Pomparău and Popa 2014; there is no fill-in, since only rows
        of A are used). ``"within"`` is much faster for tight clusters and a consistent system, because differences of
        nearly parallel rows determine the weak directions; but if b is noisy, x fluctuates further away from the
        least-squares solution.
    block_size : int or None
        For ``"within"``; None stands for `n_clusters`. With ``"across"`` a block has `n_clusters` rows.
    n_directions : int
        Size of the memory, which saves rows on ill-conditioned systems (see `rowsolve.methods.oblivious.Oblivious`).
    """

    n_clusters: int = 4
    metric: Metric = "direction"
    pairing: Literal["across", "within"] = "across"
    block_size: int | None = None

    name: ClassVar[str] = "cluster-block"
    summary: ClassVar[str] = "blocks with one row of each cluster, or with rows of one cluster"
    citation: ClassVar[str] = "Li, Mo and Ye 2016 (the paper's RKA-Cluster-Block); within: Pomparău and Popa 2014"
    plan_type: ClassVar[type[_Plan]] = _Plan

    def __post_init__(self):
        super().__post_init__()
        positive_integer("n_clusters", self.n_clusters)
        one_of("metric", self.metric, METRICS)
        one_of("pairing", self.pairing, ("across", "within"))
        if self.block_size is not None:
            positive_integer("block_size", self.block_size)
            if self.pairing == "across":
                raise ValueError(
                    "`block_size` is for `pairing='within'`: blocks across have one row of each of `n_clusters`."
                )

    def prepare(self, system, rng):
        """Cluster the rows (one pass) and partition them into blocks, unless they are stored in such blocks."""
        known = system.source.arrangement
        paper = self.pairing == "across" and self.metric == "direction"
        if known is not None and paper and known.n_clusters == self.n_clusters:
            plan = _Plan(system, self.n_clusters)
            plan.members, plan.starts = np.arange(known.starts[-1]), known.starts
            return plan
        clusters = cluster_rows(system, self.n_clusters, rng, metric=self.metric)
        if self.pairing == "across":
            size = max(1, clusters.n_clusters)
            members, starts = partition_across(clusters, rng)
        else:
            size = self.block_size or self.n_clusters
            members, starts = partition_within(clusters, size, rng)
        plan = _Plan(system, size)
        plan.members, plan.starts = members, starts
        return plan

    def draw(self, plan, n_rows, rng):
        """Draw about `n_rows` rows, a block at a time."""
        n_blocks = plan.starts.size - 1
        if n_blocks == 0:  # A is all zero
            return NO_ROWS, ONE_BY_ONE
        chosen = rng.integers(0, n_blocks, max(1, n_rows // plan.rows_per_step))
        starts = plan.starts[chosen]
        sizes = plan.starts[chosen + 1] - starts
        within = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        return plan.members[np.repeat(starts, sizes) + within], sizes
