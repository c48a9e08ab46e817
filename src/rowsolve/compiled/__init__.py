"""Numba: compile flags, the cache of machine code, vector instructions, and atomic operations.

Only this package imports Numba.

May import: nothing.
"""
