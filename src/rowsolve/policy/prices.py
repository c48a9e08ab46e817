"""The prices that every decision is based on: nanoseconds on two cores, between those of a Zen 4 and of a Zen 5.

Only their ratios matter: relative to reading, arithmetic takes 1.8 times as long on a Zen 4. ``make bench-prices``
measures `NUMBER`, `SPARSE_NUMBER`, the products, `PAIR`, `ENTRY` and `STEP` on your machine and shows which decisions
they would change. A price stands for several operations if no decision tells them apart: 4 of 732 choices, between
methods of nearly the same price, depended on having one for each.
"""

from __future__ import annotations

import math

from rowsolve.policy.thresholds import FEW_COLUMNS, FEW_NUMBERS, NUMBERS_IN_CACHE, ORDER_OF_MAGNITUDE, SPARE_SHARE

__all__ = [
    "BEGIN",
    "FACTOR_PRODUCT",
    "FEWEST_PASSES",
    "LITTLE",
    "LONG_BREAK",
    "MANY_PASSES",
    "PAIR",
    "PRODUCT",
    "QR_PER_PRODUCT",
    "RANDOM_NUMBER",
    "SHORT_BREAK",
    "SMALL_BOX",
    "SPARSE_NUMBER",
    "SQUARES",
    "a_pass",
    "band",
    "band_at_once",
    "compressed_at_once",
    "compressed_at_once_sparse",
    "dense_gram_of_sparse",
    "gram",
    "ordering_pays",
    "orthogonal",
    "pairs_in_gram",
    "passes_of_random_rows",
    "sample",
    "small_system",
    "widest_band",
    "worth_a_sample",
    "worth_writing_out",
]  # fmt: skip

# --- Nanoseconds for each number that is read
NUMBER = 0.13  # dense, in a pass, used twice
RANDOM_NUMBER = 0.45  # dense, of a random row or of a triangle in memory, used twice
STORED_NUMBER = 2.0  # of a file, at least: HDF5 and Parquet 1.5 to 2, Zarr 6, packed 25, CSV 70
GRAM_NUMBER = 0.3  # dense, for ``A'A`` and ``A'b``, which matters with few columns
SPARSE_NUMBER = 1.2  # sparse, in a pass, used twice

# --- Nanoseconds for each multiplication
PRODUCT = 0.009  # in ``A'A``, of which one triangle is computed
FACTOR_PRODUCT = 0.04  # in a factor of a dense matrix, ``p**3 / 3`` of them, or of a band; with several vectors
ORTHOGONAL_PRODUCT = 0.2  # in QR, which takes twice as many
PAIR = 2.7  # of two numbers of a sparse row, added to a dense Gram matrix; scipy takes twice as long on a core of 2020
COLUMNS_IN_CACHE = math.sqrt(NUMBERS_IN_CACHE)  # of a Gram matrix that just fits: with fewer, a pair costs less

# --- Nanoseconds for each entry
GRAM_ENTRY = 2.0  # of a p x p matrix: to make, add up, scale and copy it
ENTRY = 10.0  # of x in a step of conjugate gradients; of A while its columns are ordered; of a band in some solves

# --- Nanoseconds for each call
STEP = 5e3  # of conjugate gradients, besides numbers and entries
BEGIN = 5e5  # the start and the end of a solve by passes: a system is small if all rows take less than that
SHORT_BREAK = 2e7  # of work that is done without a check of the clock
LONG_BREAK = 3e8  # of a dense QR factor of all rows by LAPACK, where other methods are slow or fail

# --- Other units
QR_PER_PRODUCT = ORTHOGONAL_PRODUCT / FACTOR_PRODUCT  # which takes twice as many
SQUARES = 6  # p x p arrays that are in memory while a factor is computed
LITTLE = 0.3  # of a price: what may be spent to find out whether there is a better way
FEWEST_PASSES = 10  # of conjugate gradients for six digits or so, or factorizations of the free columns within bounds
SMALL_BOX = FEWEST_PASSES * BEGIN  # what small means within bounds, where passes begin again with other free columns
MANY_PASSES = ORDER_OF_MAGNITUDE * FEWEST_PASSES  # if rows are between adjacent columns, or rounding hides directions
DIGITS = math.log(1e6)  # of a typical tolerance


def gram(n_rows: float, n_columns: float) -> float:
    """Return the price of the Gram matrix of dense rows and its factor."""
    return n_rows * n_columns * (GRAM_NUMBER + PRODUCT * n_columns / 2) + FACTOR_PRODUCT * n_columns**3 / 3


def a_pass(
    n_numbers: float, n_columns: float, n_sides: int = 1, *, sparse: bool, stored: bool = False
) -> float:  # fmt: skip
    """Return the price of a step of conjugate gradients: one pass over A, and the work on x."""
    number = SPARSE_NUMBER if sparse else NUMBER
    if n_sides > 1:
        number += NUMBER * (n_sides - 1) if sparse else RANDOM_NUMBER + n_sides * FACTOR_PRODUCT
    return (number + STORED_NUMBER * stored) * n_numbers + ENTRY * n_columns + STEP


def dense_gram_of_sparse(n_pairs: float, n_columns: float) -> float:
    """Return the price of the dense Gram matrix of sparse rows with so many pairs of numbers, and its factor."""
    return pairs_in_gram(n_pairs, n_columns) + FACTOR_PRODUCT * n_columns**3 / 3 + GRAM_ENTRY * n_columns**2


def pairs_in_gram(n_pairs: float, n_columns: float) -> float:
    """Return the price of the Gram matrix of sparse rows with so many pairs of numbers, without its factor."""
    far = min(1.0, max(n_columns, FEW_COLUMNS) / COLUMNS_IN_CACHE)  # a small matrix stays in the cache
    return far * PAIR * n_pairs


def band(n_columns: float, width: float) -> float:
    """Return the price of the factor of a band and of the solves with it."""
    return n_columns * (FACTOR_PRODUCT * width**2 + ENTRY * width)


def worth_writing_out(n_rows: int, n_columns: int) -> bool:
    """Return whether a sparse A is so small that it is converted to dense."""
    return n_rows * n_columns * max(1.0, n_columns / FEW_COLUMNS) <= FEW_NUMBERS


def widest_band(n_columns: float, n_numbers: float, n_pairs: float) -> float:
    """Return the largest width of a band that pays: it is factored in less time than passes or another factor take."""
    passes = MANY_PASSES * a_pass(n_numbers, n_columns, sparse=True)
    left = min(dense_gram_of_sparse(n_pairs, n_columns), passes) / n_columns
    half = ENTRY / (2.0 * FACTOR_PRODUCT)
    return math.sqrt(half**2 + left / FACTOR_PRODUCT) - half


def ordering_pays(n_rows: float, n_columns: float, n_numbers: float) -> bool:
    """Return whether ordering the columns, to see how narrow the band is, costs little compared with passes."""
    passes = passes_of_random_rows(n_rows, n_columns, DIGITS) * a_pass(n_numbers, n_columns, sparse=True)
    return ENTRY * n_numbers <= LITTLE * (passes + BEGIN)


def passes_of_random_rows(n_rows: float, n_columns: float, digits: float) -> float:
    """Return the number of conjugate-gradient passes if the error decreases by ``sqrt(p / n)`` per pass."""
    return max(FEWEST_PASSES, 2.0 * digits / math.log(max(n_rows / n_columns, 2.0)))


def orthogonal(n_rows: float, n_columns: float) -> float:
    """Return the price of an orthogonal factor of dense rows."""
    return ORTHOGONAL_PRODUCT * n_rows * n_columns * min(n_rows, n_columns)


def small_system(n_rows: int, n_columns: int) -> float:
    """Return the price of a dense least-squares solution by LAPACK."""
    return gram(n_rows, n_columns) if n_rows > n_columns else orthogonal(n_rows, n_columns)


def compressed_at_once(n_rows: int, n_columns: int, n_sides: int = 1) -> bool:
    """Return whether all rows of a dense system are compressed: it is small, or passes would take longer."""
    price = small_system(n_rows, n_columns)
    if price <= BEGIN:
        return True
    passes = BEGIN + FEWEST_PASSES * a_pass(n_rows * float(n_columns), n_columns, n_sides, sparse=False)
    return n_rows > n_columns and price <= min(SHORT_BREAK, passes)


def compressed_at_once_sparse(n_rows: int, n_columns: int, n_numbers: int, n_pairs: float, n_sides: int = 1) -> bool:
    """Return the same for sparse rows with so many pairs of numbers, whose Gram matrix is dense."""
    price = dense_gram_of_sparse(n_pairs, n_columns)
    passes = BEGIN + FEWEST_PASSES * a_pass(n_numbers, n_columns, n_sides, sparse=True)
    return n_rows > n_columns and price <= min(SHORT_BREAK, passes)


def band_at_once(n_columns: int, n_numbers: int, width: float) -> bool:
    """Return whether a narrow band of sparse rows, between adjacent columns, is factored without comparing prices."""
    price = n_numbers * PAIR * width / 2 + band(n_columns, width)
    return price <= min(SHORT_BREAK, BEGIN + MANY_PASSES * a_pass(n_numbers, n_columns, sparse=True))


def sample(n_columns: int) -> float:
    """Return the price of solving a sample of dense rows, some more than columns, and of checking it on others."""
    return (1.0 + SPARE_SHARE) * (GRAM_ENTRY * n_columns**2 + FACTOR_PRODUCT * n_columns**3 / 3)


def worth_a_sample(n_rows: int, n_columns: int, n_sides: int = 1) -> bool:
    """Return whether solving p rows costs so little beside all rows that it pays to check consistency in this way."""
    if n_rows <= n_columns:
        return False
    passes = BEGIN + FEWEST_PASSES * a_pass(n_rows * float(n_columns), n_columns, n_sides, sparse=False)
    price = min(gram(n_rows, n_columns), passes)
    return sample(n_columns) <= LITTLE * (price - BEGIN)  # the method that solves a sample takes as long to begin
