"""Products of all columns with each other over dense rows: ``A'A``, ``A'b`` and ``b'b`` in one read.

Blocks of rows are copied side by side into panels of a few columns, which stay in the cache, and tiles of the Gram
matrix are summed in registers: at the limit of the arithmetic for many columns, several times as fast as BLAS for few.
"""

from __future__ import annotations

import numpy as np

from rowsolve.compiled.jit import kernel
from rowsolve.compiled.simd import LANES, PANEL, add_tile, copy_to_panels
from rowsolve.kernels.turned import turn

_NUMBERS, _FEWEST_ROWS, _MOST_ROWS = 1 << 16, 64, 128  # of a block, which stays in the cache of a core


def place_of_sides(n_columns, n_sides):
    """Return the first column of the right-hand sides in what `add_products` makes.

    A few follow the columns of A; many begin with a panel, so that they are copied in vectors.
    """
    return n_columns if n_sides < LANES else -(-n_columns // PANEL) * PANEL


def room_for_products(n_columns, n_sides):
    """Return zeros that `add_products` can add to: columns of A down, these and the right-hand sides across."""
    rows = n_columns + (n_sides if n_sides < LANES else 0)
    width = -(-(place_of_sides(n_columns, n_sides) + n_sides) // PANEL) * PANEL
    return np.zeros((-(-rows // LANES) * LANES, width))


@kernel
def _copy_rows(values, start, stop, panels, first, in_vectors):  # panels: INOUT
    """Copy rows to columns `first` and following; `in_vectors` if they begin with a panel.

    Whole vectors are read, beyond the end of a row: what they leave behind the last column counts for nothing.
    """
    n, p = values.shape
    one_by_one = start
    if in_vectors and not values.flags.c_contiguous:
        for j in range(0, p, PANEL):
            turn(values.T[j : j + PANEL], start, stop, panels[(first + j) // PANEL])
        return
    if in_vectors:
        one_by_one = max(start, min(stop, n - -(-LANES // p)))
        for i in range(start, one_by_one):
            copy_to_panels(values, i, panels[first // PANEL :], i - start, p)
    for j in range(p):
        panel, c = panels[(first + j) // PANEL], (first + j) % PANEL
        for i in range(one_by_one, stop):
            panel[i - start, c] = values[i, j]


@kernel
def add_products(values, sides, place, start, stop, out):  # out: INOUT
    """Add products of columns over rows `start` to `stop`: those of `values` with each other, and with `sides`.

    Right-hand sides begin with column `place` (see `place_of_sides`). Only the upper triangle counts. Of a few sides
    the products with each other are there as well.
    """
    n_columns = place + sides.shape[1]
    n_panels, n_vectors, n_tiles = -(-n_columns // PANEL), -(-n_columns // LANES), out.shape[0] // LANES
    size = max(_FEWEST_ROWS, min(_MOST_ROWS, _NUMBERS // n_columns))
    panels = np.zeros((n_panels, size, PANEL))
    for first in range(start, stop, size):
        last = min(first + size, stop)
        _copy_rows(values, first, last, panels, 0, True)
        _copy_rows(sides, first, last, panels, place, sides.shape[1] >= LANES)
        for panel in range(n_panels):
            wide = min(PANEL // LANES, n_vectors - panel * (PANEL // LANES))
            for tile in range(min(n_tiles, panel * (PANEL // LANES) + wide)):
                add_tile(panels, tile, panel, last - first, wide, out)
