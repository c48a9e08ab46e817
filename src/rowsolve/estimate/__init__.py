"""Estimates of the error of x, and of whether the equations are consistent.

A method that judges itself reports a `Step`; for all others a `Monitor` watches each burst of rows.

May import: `_solution`, `checkpoint`, `policy.thresholds`, `problem`.
"""
