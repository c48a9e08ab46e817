"""Compiled loops over arrays.

They use the primitives of `rows`, so that each of them works for dense and for sparse rows.

May import: `compiled`.
"""
