"""Partitions of the rows: clusters of nearly parallel rows, blocks made of them, and pavings.

Methods project on their blocks; `rowsolve.pave` and `rowsolve.inspect` show them.

May import: `kernels`, `parallel`, `problem`.
"""
