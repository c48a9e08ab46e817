"""Clusters of rows: which rows point the same way, and what to do with that."""

from rowsolve.clustering.online import Clusters, cluster_rows
from rowsolve.clustering.partition import partition_across

__all__ = ["Clusters", "cluster_rows", "partition_across"]
