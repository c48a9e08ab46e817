"""Projections on blocks whose factors are kept and reused.

BLAS is not used: on a busy machine its threads wait for each other a hundred times longer than a block takes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rowsolve.compiled.jit import kernel, row_primitive
from rowsolve.kernels.blocks import add_block, factor_gram, solve_triangles
from rowsolve.kernels.rows import CSRRows, DenseRows, add_row, row_dot, row_products, usable_norm_sq

_STRIP = 512  # columns, of which six rows stay in the first-level cache while they are multiplied


class FactorWorkspace(NamedTuple):
    """Workspace to factor blocks, and to project on them."""

    values: np.ndarray  # the normalised rows of a block, padded with rows of zeros; a row of zeros for sparse rows
    gram: np.ndarray
    gaps: np.ndarray
    steps: np.ndarray


def factor_workspace(rows: DenseRows | CSRRows, block_size: int, n_columns: int) -> FactorWorkspace:
    """Return a workspace for blocks of up to `block_size` rows."""
    padded = -(-block_size // 4) * 4
    return FactorWorkspace(
        values=np.zeros((1 if isinstance(rows, CSRRows) else padded, n_columns)),
        gram=np.zeros((padded, padded)),
        gaps=np.empty((block_size, 2)),
        steps=np.empty((2, block_size)),
    )


def _gram_dense(rows, block, scale, workspace):
    """Multiply four rows by two rows at a time: more sums would not fit into the registers."""
    values, gram = workspace.values, workspace.gram
    n_rows, n_columns = values.shape
    values[block.size :] = 0.0
    for s in range(block.size):
        for j in range(n_columns):
            values[s, j] = scale[s] * rows.values[block[s], j]
    gram[:] = 0.0
    for start in range(0, n_columns, _STRIP):
        strip = values[:, start : min(start + _STRIP, n_columns)]
        for s in range(0, n_rows, 4):
            for t in range(0, s + 4, 2):
                _add_products(strip, s, t, gram)


@kernel
def _add_products(values, s, t, gram):  # gram: INOUT
    """Add the products of rows ``s`` to ``s + 3`` with rows ``t`` and ``t + 1``."""
    a, b, c, d, u, v = values[s], values[s + 1], values[s + 2], values[s + 3], values[t], values[t + 1]
    au, bu, cu, du, av, bv, cv, dv = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for j in range(values.shape[1]):
        au += a[j] * u[j]
        bu += b[j] * u[j]
        cu += c[j] * u[j]
        du += d[j] * u[j]
        av += a[j] * v[j]
        bv += b[j] * v[j]
        cv += c[j] * v[j]
        dv += d[j] * v[j]
    gram[s, t] += au
    gram[s + 1, t] += bu
    gram[s + 2, t] += cu
    gram[s + 3, t] += du
    gram[s, t + 1] += av
    gram[s + 1, t + 1] += bv
    gram[s + 2, t + 1] += cv
    gram[s + 3, t + 1] += dv


def _gram_csr(rows, block, scale, workspace):
    """Write one row as a dense vector, so that the product of two rows is a `row_dot`."""
    spread = workspace.values[0]
    for s in range(block.size):
        add_row(rows, block[s], 1.0, spread)
        for t in range(s + 1):
            workspace.gram[s, t] = row_dot(rows, block[t], spread) * scale[s] * scale[t]
        add_row(rows, block[s], -1.0, spread)  # back to zero, exactly


_GRAM: dict[type, Any] = {DenseRows: _gram_dense, CSRRows: _gram_csr}


@row_primitive(_GRAM)
def _fill_gram(rows, block, scale, workspace):  # workspace: INOUT
    """Fill the lower triangle of ``workspace.gram`` with the products of the normalised rows of `block`."""
    _GRAM[type(rows)](rows, block, scale, workspace)


@kernel
def factor_block(
    rows, b, block, ridge, scale, factor, workspace, flagged_rows
):  # scale, factor, workspace, flagged_rows: INOUT
    """Fill `factor`, and `scale` with ``1 / norm(a_i)``, or 0 for a row that does not define a hyperplane.

    `factor` is that of ``A_t @ A_t.T + ridge * I`` (see `factor_gram`), where A_t are the normalised rows.
    """
    for s in range(block.size):
        norm_sq = usable_norm_sq(rows, b, block[s], flagged_rows)
        scale[s] = 1.0 / np.sqrt(norm_sq) if norm_sq > 0.0 else 0.0
    _fill_gram(rows, block, scale, workspace)
    for s in range(block.size):
        workspace.gram[s, s] += ridge
    factor_gram(block.size, workspace.gram, factor)


@kernel
def project_on_factored(rows, b, block, scale, factor, iterates, moves, workspace):  # moves, workspace: INOUT
    """Fill `moves` with the steps of x and the probe onto `block`, which `factor_block` has factored."""
    gaps, size = workspace.gaps[: block.size], block.size
    row_products(rows, block, 0, size, iterates, gaps)
    for s in range(size):
        workspace.steps[0, s] = (b[block[s]] - gaps[s, 0]) * scale[s]
        workspace.steps[1, s] = -gaps[s, 1] * scale[s]
    for c in range(2):
        solve_triangles(size, factor, workspace.steps[c])
        for s in range(size):
            workspace.steps[c, s] *= scale[s]
    moves[:] = 0.0
    add_block(rows, block, workspace.steps, moves[0], moves[1])
