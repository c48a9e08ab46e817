"""Block Kaczmarz with one row of each cluster: the paper's second method."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from rowsolve.checkpoint.state import Kind, integer
from rowsolve.methods.base import one_of, positive_integer
from rowsolve.methods.drawing import Blocks, blocks_of_rows
from rowsolve.methods.oblivious import Oblivious, ObliviousPlan
from rowsolve.partition.clusters import METRICS, Metric, cluster_rows, partition_across, partition_within

__all__ = ["ClusterBlock"]


class _Plan(ObliviousPlan):
    def __init__(self, system, blocks, block_size):
        super().__init__(system, block_size)
        self.blocks: Blocks = blocks

    def draw(self, n_rows, rng):
        """Draw about `n_rows` rows, a block at a time."""
        return self.blocks.draw(max(1, n_rows // self.rows_per_step), rng)

    saved: ClassVar[dict[str, Kind]] = {**ObliviousPlan.saved, "rows_per_step": integer(1), "blocks": blocks_of_rows}
    derived = tuple(name for name in ObliviousPlan.derived if name != "rows_per_step")

    @classmethod
    def from_state(cls, method, system, state):
        """Return the plan with that state."""
        blocks = blocks_of_rows(state.get("blocks"), system.sizes)
        most = max(method.n_clusters, method.block_size or 1)
        plan = cls(system, blocks, integer(blocks.largest, most)(state.get("rows_per_step"), system.sizes))
        plan.restore(state)
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
                    "`block_size` requires pairing='within': blocks across clusters have one row of each cluster."
                )

    def prepare(self, system, rng):
        """Cluster the rows (one pass) and partition them into blocks, unless they are stored in such blocks."""
        known = system.source.arrangement
        paper = self.pairing == "across" and self.metric == "direction"
        if known is not None and paper and known.n_clusters == self.n_clusters:
            return _Plan(system, Blocks(np.arange(known.starts[-1]), known.starts), self.n_clusters)
        clusters = cluster_rows(system, self.n_clusters, rng, metric=self.metric)
        if self.pairing == "across":
            return _Plan(system, Blocks(*partition_across(clusters, rng)), max(1, clusters.n_clusters))
        size = self.block_size or self.n_clusters
        return _Plan(system, Blocks(*partition_within(clusters, size, rng)), size)
