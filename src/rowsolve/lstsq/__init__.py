"""Least squares of all rows together, whatever the condition and the rank of A: what least-squares methods stand on.

Arrays in, arrays out: nothing here knows of methods, stages or checkpoints.
"""
