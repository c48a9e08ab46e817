"""The prices that every decision is based on: nanoseconds on two cores, between those of a Zen 4 and of a Zen 5.

Only their ratios matter: relative to reading, arithmetic takes 1.8 times as long on a Zen 4. ``make bench-prices``
measures them on your machine and shows which decisions they would change.
"""

from __future__ import annotations

import math

__all__ = [
    "ENTRY",
    "FACTOR_PRODUCT",
    "FEWEST_PASSES",
    "FEW_NUMBERS",
    "LOCAL_PASSES",
    "NUMBER",
    "NUMBER_EACH",
    "NUMBER_OF_MANY",
    "PAIR",
    "PRODUCT",
    "QR_PER_PRODUCT",
    "RANDOM_NUMBER",
    "SCIPY_PAIR",
    "SMALL_BOX",
    "SMALL_SYSTEM",
    "SQUARES",
    "STORED_NUMBER",
    "TRIANGLE",
    "a_pass",
    "band",
    "band_at_once",
    "compressed_at_once",
    "compressed_at_once_sparse",
    "dense_gram_of_sparse",
    "gram",
    "orthogonal",
    "passes_of_random_rows",
    "sample",
    "small_system",
    "widest_band",
    "worth_a_look_for_band",
    "worth_a_sample",
    "worth_writing_out",
]  # fmt: skip

NUMBER = 0.13  # to read a dense number in a pass and use it twice
NUMBER_OF_MANY, NUMBER_EACH = 0.75, 0.035  # the same for several right-hand sides, by BLAS; for each of them
RANDOM_NUMBER = 0.45  # a dense number of a random row in memory, on which x and the probe are projected
STORED_NUMBER = 2.0  # to read a number of a file, at least: HDF5 and Parquet 1.5 to 2, Zarr 6, packed 25, CSV 70
GRAM_NUMBER = 0.3  # to read a dense number for ``A'A`` and ``A'b``, which matters with few columns
PRODUCT = 0.009  # a multiplication in ``A'A``, of which one triangle is computed
ORTHOGONAL_PRODUCT = 0.2  # a multiplication in QR, which takes twice as many
SPARSE_NUMBER = 1.2  # to read a sparse number in a pass and use it twice
PAIR = 2.7  # a product of two numbers of a sparse row, added to a dense Gram matrix
_COLUMNS_IN_CACHE, _NEAR = 1000.0, 0.1  # of a Gram matrix that just fits; the factor of a price if it does
ORDER_NUMBER = 10.0  # a sparse number, to find an order of the columns that leaves a narrow band
BAND_PRODUCT, BAND_NUMBER = 0.033, 6.0  # a multiplication in the factor of a band; a number of it, in some solves
GRAM_ENTRY = 2.0  # to make, add up, scale and copy an entry of a dense Gram matrix
FACTOR_PRODUCT = 0.04  # a multiplication in a dense factor, p**3 / 3 of them
TRIANGLE = 0.5  # a number of a dense triangle, in two solves with it
ENTRY = 10.0  # what a step of conjugate gradients does with each entry of x
STEP = 5e3  # the rest of such a step
BEGIN = 4e5  # the start and the end of a solve by passes
QR_PER_PRODUCT = 8.0  # matrix multiplications in the time of one in QR, which takes twice as many
SQUARES = 6  # p x p arrays that are in memory while a factor is computed
SCIPY_PAIR = 5.0  # to multiply two stored entries in ``A.T @ A`` of scipy, on a core of 2020
FEW_NUMBERS = 200_000  # entries up to which a sparse A is converted to dense
_NARROW = 64  # columns; with more, fewer
LITTLE = 0.3  # of a price: what may be spent to find out whether there is a better way
DIGITS = math.log(1e6)  # of a typical tolerance
SMALL_SYSTEM = 5e5  # a system that is solved at once, in less time than a choice would take
SMALL_BOX = 6e6  # the same within bounds, where passes take many more steps
SHORT_BREAK = 2e7  # of work that is done without a check of the clock
SAMPLE, SAMPLE_NUMBER, SAMPLE_PRODUCT = 6e4, 2.5, 0.048  # to solve p rows: at least; a number; a multiplication in LU
LOCAL_PASSES = 100.0  # of conjugate gradients if rows are between adjacent columns
FEWEST_PASSES = 10  # of conjugate gradients, for six digits or so
_VECTORS_PER_PASS = 8  # over sparse rows takes as long for so many as for two; with more, arithmetic dominates


def gram(n_rows: float, n_columns: float) -> float:
    """Return the price of the Gram matrix of dense rows and its factor."""
    return n_rows * n_columns * (GRAM_NUMBER + PRODUCT * n_columns / 2) + FACTOR_PRODUCT * n_columns**3 / 3


def a_pass(
    n_numbers: float, n_columns: float, n_sides: int = 1, *, sparse: bool, stored: bool = False
) -> float:  # fmt: skip
    """Return the price of a step of conjugate gradients: one pass over A, and the work on x."""
    vectors = max(1.0, (n_sides + 1) / _VECTORS_PER_PASS)
    number = vectors * SPARSE_NUMBER if sparse else NUMBER if n_sides == 1 else NUMBER_OF_MANY + n_sides * NUMBER_EACH
    return (number + STORED_NUMBER * stored) * n_numbers + vectors * ENTRY * n_columns + STEP


def dense_gram_of_sparse(n_pairs: float, n_columns: float) -> float:
    """Return the price of the dense Gram matrix of sparse rows with so many pairs of numbers, and its factor."""
    far = min(1.0, max(_NEAR, n_columns / _COLUMNS_IN_CACHE))  # a small matrix stays in the cache
    return far * PAIR * n_pairs + FACTOR_PRODUCT * n_columns**3 / 3 + GRAM_ENTRY * n_columns**2


def band(n_columns: float, width: float) -> float:
    """Return the price of the factor of a band and of the solves with it."""
    return n_columns * (BAND_PRODUCT * width**2 + BAND_NUMBER * width + 100.0)


def worth_writing_out(n_rows: int, n_columns: int) -> bool:
    """Return whether a sparse A is so small that it is converted to dense."""
    return n_rows * n_columns * max(1.0, n_columns / _NARROW) <= FEW_NUMBERS


def widest_band(n_columns: float, n_numbers: float, n_pairs: float) -> float:
    """Return the largest width of a band that pays: it is factored in less time than passes or another factor take."""
    passes = LOCAL_PASSES * a_pass(n_numbers, n_columns, sparse=True)
    left = min(dense_gram_of_sparse(n_pairs, n_columns), passes) / n_columns - 100.0
    if left <= 0.0:
        return 0.0
    half = BAND_NUMBER / (2.0 * BAND_PRODUCT)
    return math.sqrt(half**2 + left / BAND_PRODUCT) - half


def worth_a_look_for_band(n_rows: float, n_columns: float, n_numbers: float) -> bool:
    """Return whether ordering the columns, to see how narrow the band is, costs little compared with passes."""
    passes = passes_of_random_rows(n_rows, n_columns, DIGITS) * a_pass(n_numbers, n_columns, sparse=True)
    return ORDER_NUMBER * n_numbers <= LITTLE * (passes + BEGIN)


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
    if price <= SMALL_SYSTEM:
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
    return price <= min(SHORT_BREAK, BEGIN + LOCAL_PASSES * a_pass(n_numbers, n_columns, sparse=True))


def sample(n_columns: int) -> float:
    """Return the price of the solution of p dense rows, and of checking whether it satisfies some others."""
    return SAMPLE + SAMPLE_NUMBER * n_columns**2 + SAMPLE_PRODUCT * n_columns**3 / 3


def worth_a_sample(n_rows: int, n_columns: int, n_sides: int = 1) -> bool:
    """Return whether solving p rows costs so little beside all rows that it pays to check consistency in this way."""
    if n_rows <= n_columns:
        return False
    passes = BEGIN + FEWEST_PASSES * a_pass(n_rows * float(n_columns), n_columns, n_sides, sparse=False)
    price = min(gram(n_rows, n_columns), passes)
    return price > SMALL_SYSTEM and sample(n_columns) <= LITTLE * price
