"""Compiled loops: arrays in, arrays out.

They are written against the primitives of `rows`, so that each runs on dense and on sparse rows.

May import: `compiled`.
"""
