"""Test problems, and the figures of the paper.

Figures 1 to 3 also take single steps and make clusters.

May import: `partition`, `problem`, `sources`, and the public names.
"""
