"""Clusters of rows: which rows point the same way, and what to do with that."""

from rowsolve.clustering.online import (
    EQUATION_METRICS,
    METRICS,
    Clusters,
    Metric,
    cluster_rows,
    cluster_stream,
    sample_size,
)
from rowsolve.clustering.partition import partition_across, partition_within

__all__ = [
    "EQUATION_METRICS",
    "METRICS",
    "Clusters",
    "Metric",
    "cluster_rows",
    "cluster_stream",
    "partition_across",
    "partition_within",
    "sample_size",
]
