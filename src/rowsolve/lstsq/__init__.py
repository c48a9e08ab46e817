"""Least squares with all rows, whatever the condition and the rank of A.

The compressed state (`state`, `triangle`) and its solution (`normal`, `inverse`, `band`, `box`), small systems by
LAPACK (`dense`, `orthogonal`), conjugate gradients (`descent`, `box_descent`), what these are made of (`passes`,
`conjugate`, `probe`, `rounding`, `steps`), and their preconditioner (`factor`, `spectrum`).

May import: `_solution`, `checkpoint`, `estimate`, `kernels`, `parallel`, `policy.least_squares`, `policy.prices`,
`policy.thresholds`, `problem`.
"""
