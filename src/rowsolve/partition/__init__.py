"""Partitions of the rows: clusters of nearly parallel rows, blocks made of them, and pavings.

Methods project on the blocks; `rowsolve.pave` and `rowsolve.inspect` return information about them.

May import: `kernels`, `parallel`, `policy.thresholds`, `problem`.
"""
