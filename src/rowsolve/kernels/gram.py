"""Gram matrices of dense rows: ``A'A``, ``A'b`` and ``b'b`` in one pass.

Blocks of rows are copied into panels of a few columns, which stay in the cache, and tiles of the Gram matrix are
accumulated in registers. This is near peak arithmetic performance for many columns, and several times as fast as BLAS
for few columns.
"""

from __future__ import annotations

import numpy as np

from rowsolve.compiled.jit import kernel
from rowsolve.compiled.simd import LANES, PANEL, add_tile, copy_to_panels
from rowsolve.kernels.turned import turn

_NUMBERS_OF_A_BLOCK = 1 << 16  # which stays in the second-level cache
_ROWS_OF_A_BLOCK = 64  # at least; twice as many if that keeps to the numbers


def place_of_sides(n_columns, n_sides):
    """Return the first column of the right-hand sides in the output of `add_products`.

    Few right-hand sides directly follow the columns of A; many of them begin at a panel, so that they can be copied
    with vector instructions.
    """
    return n_columns if n_sides < LANES else -(-n_columns // PANEL) * PANEL


def zeros_for_products(n_columns, n_sides):
    """Return zeros for `add_products`: rows for the columns of A, columns for those and the right-hand sides."""
    rows = n_columns + (n_sides if n_sides < LANES else 0)
    width = -(-(place_of_sides(n_columns, n_sides) + n_sides) // PANEL) * PANEL
    return np.zeros((-(-rows // LANES) * LANES, width))


@kernel
def _copy_rows(values, start, stop, panels, first, in_vectors):  # panels: INOUT
    """Copy rows to the columns from `first` on; with vector instructions, `in_vectors`, if these begin at a panel.

    Whole vectors are then read, also beyond the end of a row; the columns after the last one are not used.
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
    """Add the products of the columns of `values` with each other and with `sides`, over rows `start` to `stop`.

    Right-hand sides begin at column `place` (see `place_of_sides`). Only the upper triangle is valid. If there are few
    right-hand sides, their products with each other are included.
    """
    n_columns = place + sides.shape[1]
    n_panels, n_vectors, n_tiles = -(-n_columns // PANEL), -(-n_columns // LANES), out.shape[0] // LANES
    size = max(_ROWS_OF_A_BLOCK, min(2 * _ROWS_OF_A_BLOCK, _NUMBERS_OF_A_BLOCK // n_columns))
    panels = np.zeros((n_panels, size, PANEL))
    for first in range(start, stop, size):
        last = min(first + size, stop)
        _copy_rows(values, first, last, panels, 0, True)
        _copy_rows(sides, first, last, panels, place, sides.shape[1] >= LANES)
        for panel in range(n_panels):
            wide = min(PANEL // LANES, n_vectors - panel * (PANEL // LANES))
            for tile in range(min(n_tiles, panel * (PANEL // LANES) + wide)):
                add_tile(panels, tile, panel, last - first, wide, out)
