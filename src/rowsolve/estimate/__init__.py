"""Estimates of the error of x, and of whether the equations are consistent.

An `ErrorEstimator` estimates the error of x from that of a probe, and knows the error that is allowed. A method that
uses it for itself reports a `Step`; for all others a `Monitor` watches each burst of rows.

May import: `_solution`, `checkpoint`, `parallel`, `policy.thresholds`, `problem`.
"""
