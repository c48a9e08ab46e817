"""Transposition of rows in Fortran order into a contiguous copy.

The entries of a row in Fortran order are far apart in memory. A tile of rows is transposed in registers, some columns
at a time, into a copy that stays in the cache.
"""

from __future__ import annotations

from rowsolve.compiled.jit import kernel
from rowsolve.compiled.simd import LANES, takes_blocks, turn_block


@kernel
def turn(turned, start, stop, target):  # target: INOUT
    """Copy columns `start` to `stop` of `turned` to the first rows of `target`, which may be longer.

    If they are long enough, the copy is padded to a multiple of `LANES`; the entries of the padding are arbitrary. As
    many of the following columns are prefetched.
    """
    n_long, count = turned.shape[0], stop - start
    in_blocks = n_long if target.shape[1] >= -(-n_long // LANES) * LANES else n_long // LANES * LANES
    whole = count // LANES * LANES if takes_blocks(turned, target) else 0
    for i in range(0, whole, LANES):
        for j in range(0, in_blocks, LANES):
            turn_block(turned, j, start + i, target, i, j, count)
        for j in range(in_blocks, n_long):
            for k in range(i, i + LANES):
                target[k, j] = turned[j, start + k]
    for j in range(n_long):
        for i in range(whole, count):
            target[i, j] = turned[j, start + i]
