"""Rows of a matrix in Fortran order, copied side by side as kernels take them.

A row of such a matrix is a number here and a number there. A tile of rows is turned in registers, some columns at a
time, into a copy that stays in the cache.
"""

from __future__ import annotations

from rowsolve._jit import kernel
from rowsolve._simd import LANES, takes_blocks, turn_block


@kernel
def turn(turned, start, stop, target):  # target: INOUT
    """Copy columns `start` to `stop` of `turned` to the first rows of `target`, of which each is at least as long.

    As many columns that follow are asked for from memory meanwhile.
    """
    n_long, count = turned.shape[0], stop - start
    whole = count // LANES * LANES if takes_blocks(turned) and n_long >= LANES else 0
    if whole:
        for j in range(0, n_long - LANES + 1, LANES):
            for i in range(0, whole, LANES):
                turn_block(turned, j, start + i, target, i, j, count)
        if n_long % LANES:  # some are copied twice
            for i in range(0, whole, LANES):
                turn_block(turned, n_long - LANES, start + i, target, i, n_long - LANES, count)
    for j in range(n_long):
        for i in range(whole, count):
            target[i, j] = turned[j, start + i]
