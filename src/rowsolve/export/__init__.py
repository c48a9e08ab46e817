"""Conversion of a matrix to another format, and to the order of its clusters.

Files are written atomically, and never replace a file that is being read.

May import: `_validate`, `methods`, `partition`, `policy.thresholds`, `problem`, `sources`.
"""
