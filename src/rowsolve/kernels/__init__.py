"""Compiled loops: arrays in, arrays out. Written against `rows`, so that each runs over every kind of rows."""
