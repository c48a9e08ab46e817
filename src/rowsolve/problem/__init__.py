"""The linear system as methods see it: rows, right-hand sides, bounds, limits, and a count of the rows read.

What the pattern of sparse rows tells (a band, a null space) is here too.

May import: `checkpoint`, `kernels`, `parallel`, `policy.prices`, `policy.thresholds`, `sources`.
"""
