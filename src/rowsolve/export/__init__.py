"""Copies of a matrix in another format, and in the order of its clusters.

Files are written whole or not at all, and never over one that is being read.

May import: `_validate`, `methods`, `partition`, `problem`, `sources`.
"""
