"""The prices of least-squares solutions of a system from all rows, from a sample or by passes, and which one pays.

The arithmetic of prices is in `rowsolve.policy.prices`; properties of the rows are taken from the system.
"""

from __future__ import annotations

import math
from typing import Any

from rowsolve.kernels.rows import CSRRows
from rowsolve.parallel.vectors import pairs_of
from rowsolve.policy import prices
from rowsolve.policy.prices import (
    FACTOR_PRODUCT,
    FEWEST_PASSES,
    LITTLE,
    LONG_BREAK,
    MANY_PASSES,
    PAIR,
    PRODUCT,
    QR_PER_PRODUCT,
    RANDOM_NUMBER,
    SQUARES,
    a_pass,
    compressed_at_once,
    compressed_at_once_sparse,
    dense_gram_of_sparse,
    gram,
    orthogonal,
    passes_of_random_rows,
    worth_writing_out,
)
from rowsolve.policy.thresholds import (
    CLEARLY_MORE,
    FEWEST_IN_MEAN,
    LOOK_BLOCK,
    LOOK_SHARE,
    MOST_COLUMNS,
    NUMBERS_IN_CACHE,
)
from rowsolve.problem.layout import narrow_band
from rowsolve.problem.system import System

__all__ = [
    "cheapest_sample",
    "fits_a_factor",
    "fits_lapack",
    "has_time_for_qr",
    "has_workspace",
    "is_small",
    "makes_a_band",
    "passes_at_first",
    "passes_left",
    "price_of_all",
    "price_of_passes",
    "spectrum_estimate_pays",
]


def spectrum_estimate_pays(system: System) -> bool:
    """Return whether a look at some rows costs little compared with the passes that it may save."""
    n, p = system.n_rows, system.n_columns
    large = n * p >= NUMBERS_IN_CACHE and n >= 2 * LOOK_SHARE * LOOK_BLOCK and p >= 4 * LOOK_BLOCK
    return large and not isinstance(system.rows, CSRRows) and not system.stored


def makes_a_band(system: System) -> bool:
    """Return whether sparse rows in memory have a band that is factored in less time than a dense Gram matrix."""
    layout, p = system.facts.layout, system.n_columns
    return layout is not None and prices.band(p, layout.width) < dense_gram_of_sparse(system.facts.row_pairs, p)


def has_workspace(system: System) -> bool:
    """Return whether a dense factor fits in the workspace."""
    return 8.0 * SQUARES * system.n_columns**2 <= system.limits.workspace_bytes


def fits_a_factor(system: System) -> bool:
    """Return whether a dense factor fits in the workspace, and has so few columns that it is considered at all."""
    return system.n_columns <= MOST_COLUMNS and has_workspace(system)


def price_of_all(system: System) -> float:
    """Return the price of the least-squares solution from all rows; infinity if memory or time is insufficient."""
    p = system.n_columns
    if system.n_rows < p and not system.damp:
        return _price_of_few_rows(system)
    if makes_a_band(system) and system.bounds is None:
        assert system.facts.layout is not None
        return PAIR * system.facts.row_pairs + prices.band(p, system.facts.layout.width)
    return _price_of_gram(system) if fits_a_factor(system) else math.inf


def _price_of_few_rows(system: System) -> float:
    """Return the price of fewer rows than columns; within bounds only, as the solution is not unique otherwise."""
    if system.bounds is None or not fits_a_factor(system) or not has_time_for_qr(system):
        return math.inf
    return orthogonal(system.n_rows, system.n_columns)


def _price_of_gram(system: System) -> float:
    """Return the price of a dense Gram matrix of all rows, and of making sure of x."""
    n, p, entries = system.n_rows, system.n_columns, system.entries_per_row
    if isinstance(system.rows, CSRRows):
        price = dense_gram_of_sparse(n * entries**2 if system.stored else system.facts.row_pairs, p)
        products = n * entries * entries
    else:
        price, products = gram(n, p), n * entries * (p / 2)
    price += p**2 * system.n_rhs * PRODUCT + price_of_passes(system, 2.0 if system.reader.slow else 1.0)
    return price if system.clock.has_time_for(products + p**3 / 3) else math.inf


def is_small(rows: Any, n_rows: int, n_columns: int, n_sides: int = 1) -> bool:
    """Return whether the least-squares solution of rows in memory takes little time, and no method takes less."""
    if not isinstance(rows, CSRRows) or worth_writing_out(n_rows, n_columns):
        return compressed_at_once(n_rows, n_columns, n_sides)
    if (layout := narrow_band(rows, n_columns)) is not None:
        return n_rows >= n_columns and prices.band_at_once(n_columns, rows.data.size, layout.width)
    if not compressed_at_once_sparse(n_rows, n_columns, rows.data.size, rows.data.size**2 / n_rows, n_sides):
        return False  # there are at least as many pairs, and counting them is slow
    return compressed_at_once_sparse(n_rows, n_columns, rows.data.size, pairs_of(rows.indptr), n_sides)


def fits_lapack(system: System) -> bool:
    """Return whether all rows can be stored as a dense matrix and factored in some tenths of a second."""
    n, p = system.n_rows, system.n_columns
    written = worth_writing_out(n, p) or not isinstance(system.rows, CSRRows)
    fits = written and orthogonal(n, p) <= LONG_BREAK and 8.0 * SQUARES * n * p <= system.limits.workspace_bytes
    return not system.stored and fits and has_time_for_qr(system)


def has_time_for_qr(system: System) -> bool:
    """Return whether an orthogonal factor of all rows can be computed before the deadline."""
    n, p = system.n_rows, system.n_columns
    return system.clock.has_time_for(QR_PER_PRODUCT * n * float(p) * min(n, p))


def passes_at_first(system: System, digits: float) -> float:
    """Return the predicted number of passes without a preconditioner, before the first pass.

    It is that for a random A, for which the error decreases by a factor of ``sqrt(p / n)`` per pass. Sparse rows
    between adjacent columns (splines, grids, series) need many more passes, and so does an x within bounds that is not
    unique.
    """
    not_unique = system.bounds is not None and system.n_rows < system.n_columns and not system.damp
    if makes_a_band(system) or not_unique:
        return MANY_PASSES
    slower = 1.0
    soon = isinstance(system.rows, CSRRows) and price_of_passes(system, FEWEST_PASSES) <= LITTLE * price_of_all(system)
    if not soon and not spectrum_estimate_pays(system):  # otherwise some passes, or a look, improve the prediction
        slower = max(1.0, system.facts.unevenness / CLEARLY_MORE)
    return slower * passes_of_random_rows(system.n_rows, system.n_columns, digits)


def passes_left(system: System, slopes: list[float], digits: float) -> float:
    """Return the predicted number of further passes without a preconditioner.

    It is that of `passes_at_first` at the first slope, and zero before there are enough of them. Slopes fluctuate, and
    a few large singular values slow down the first passes, so the best of three slopes, or of a quarter of them, is
    compared with the best of as many before. (Errors cannot be used: they are known late if A has a null space.)
    """
    if len(slopes) == 1:
        return passes_at_first(system, digits)
    if len(slopes) < FEWEST_IN_MEAN:
        return 0.0
    width = max(3, len(slopes) // 4)
    fall = math.log(min(slopes[-2 * width : -width]) / min(slopes[-width:])) / width
    return digits / fall if fall > 0.0 else math.inf


def price_of_passes(system: System, count: float) -> float:
    """Return the price of so many passes, each with a step of conjugate gradients."""
    n, entries, p = system.n_rows, system.entries_per_row, system.n_columns
    sparse = isinstance(system.rows, CSRRows)
    return count * a_pass(n * entries, p, system.n_rhs, sparse=sparse, stored=system.reader.slow)


def cheapest_sample(system: System, digits: float, which: str = "auto") -> tuple[int, float]:
    """Return the number of rows to factor, and the predicted price of the solve: a ``"sample"``, ``"all"``, or either.

    With R from m rows the error decreases by a factor of ``sqrt(p / m)`` per pass; with all rows one or two passes
    suffice.
    """
    n, p = system.n_rows, system.n_columns
    choices = {m: _price_with_sample(system, m, digits) for m in _samples(system, which)}
    if not choices or which != "sample":
        pivoting = 0.0 if system.bounds is None else FEWEST_PASSES * FACTOR_PRODUCT * min(n, p) ** 3 / 3
        choices[n] = price_of_all(system) + pivoting
    best = min(choices, key=lambda m: (choices[m], -m))
    return best, choices[best]


def _samples(system: System, which: str) -> list[int]:
    """Return the numbers of rows of samples to consider; a sample of sparse rows has columns without an entry."""
    n, p, sparse = system.n_rows, system.n_columns, isinstance(system.rows, CSRRows)
    if which == "all" or system.bounds is not None or not fits_a_factor(system) or (sparse and which != "sample"):
        return []
    return [m for m in (4 * p, 8 * p, 16 * p, 32 * p) if m < n]


def _price_with_sample(system: System, n_rows: int, digits: float) -> float:
    """Return the price of a factor of so many rows, and of the passes with it."""
    p = system.n_columns
    sparse = isinstance(system.rows, CSRRows)
    price = dense_gram_of_sparse(n_rows * system.entries_per_row**2, p) if sparse else gram(n_rows, p)
    steps = price_of_passes(system, 1.0) + RANDOM_NUMBER * p * p
    return price + steps * (1.0 + 2.0 * digits / math.log(n_rows / p))
