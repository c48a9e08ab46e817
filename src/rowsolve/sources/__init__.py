"""Where rows are stored: arrays, sparse matrices, files, streams.

`open_store` opens any of them for reading a few rows at a time; `open_rows` prepares rows in memory for the kernels.

May import: `kernels`, `parallel`, `policy.thresholds`.
"""

from rowsolve.sources.files import load_matrix, load_system, load_vector, open_store, open_system
from rowsolve.sources.rows import Source, open_rows
from rowsolve.sources.store import Store
from rowsolve.sources.stored import StoredRows
from rowsolve.sources.streams import Chunks

__all__ = [
    "Chunks",
    "Source",
    "Store",
    "StoredRows",
    "load_matrix",
    "load_system",
    "load_vector",
    "open_rows",
    "open_store",
    "open_system",
]
