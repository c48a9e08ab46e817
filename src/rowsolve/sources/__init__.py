"""Where rows live: arrays, sparse matrices, files. `open_rows` turns any of them into rows for the kernels."""

from rowsolve.sources.files import load_matrix, load_vector
from rowsolve.sources.rows import Source, open_rows

__all__ = ["Source", "load_matrix", "load_vector", "open_rows"]
