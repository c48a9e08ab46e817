"""Test problems, and the figures of the paper.

Figures 1 to 3 also perform single steps of methods, and cluster the rows.

May import: `partition`, `policy.thresholds`, `problem`, `sources`, and the public names.
"""
