"""The prices that every decision rests on: nanoseconds on two cores of an EPYC with AVX-512.

Only their ratios matter, and these vary little from machine to machine: ``make bench-prices`` measures them on yours
and shows which decisions they would change.
"""

from __future__ import annotations

__all__ = [
    "ENTRY", "FACTOR_PRODUCT", "NUMBER", "PAIR", "PRODUCT", "SMALL_SYSTEM", "TRIANGLE", "a_pass",
    "dense_gram_of_sparse", "gram", "leaves_sparse_factor", "orthogonal", "small_system", "sparse_gram",
]  # fmt: skip

NUMBER = 0.35  # to read a dense number in a pass and use it twice
PRODUCT = 0.02  # a multiplication in ``A'A``, of which BLAS computes one triangle
ORTHOGONAL_PRODUCT = 0.15  # a multiplication in QR, which takes two for each of the other
SPARSE_NUMBER = 1.5  # to read a sparse number in a pass and use it twice
PAIR = 2.5  # a product of two numbers of a sparse row, added to a dense Gram matrix
PAIR_OF_SPARSE = 4.0  # the same, added to a sparse Gram matrix
SPARSE_PRODUCT = 0.4  # a multiplication in a sparse factor, counted with columns in an order of small bandwidth
FACTOR_PRODUCT = 0.03  # a multiplication in a dense factor, p**3 / 3 of them
TRIANGLE = 0.5  # a number of a dense triangle, in two solves with it
ENTRY = 60.0  # what a step of conjugate gradients does with each entry of x
STEP = 2e5  # the rest of such a step
SMALL_SYSTEM = 6e6  # a system that is solved at once, without a look at a sample or at a clock
_VECTORS_PER_PASS = 8  # a pass takes as long for so many vectors as for two: from then on, arithmetic does


def gram(n_rows: float, n_columns: float) -> float:
    """Return the price of the Gram matrix of dense rows and its factor."""
    return PRODUCT * n_rows * n_columns**2 / 2 + FACTOR_PRODUCT * n_columns**3 / 3


def a_pass(n_numbers: float, n_columns: float, n_sides: int = 1, *, sparse: bool) -> float:
    """Return the price of a step of conjugate gradients: one pass over A, and what is done with x."""
    vectors = max(1.0, (n_sides + 1) / _VECTORS_PER_PASS)
    return vectors * ((SPARSE_NUMBER if sparse else NUMBER) * n_numbers + ENTRY * n_columns) + STEP


def dense_gram_of_sparse(n_pairs: float, n_columns: float) -> float:
    """Return the price of the dense Gram matrix of sparse rows with so many pairs of numbers, and its factor."""
    return PAIR * n_pairs + FACTOR_PRODUCT * n_columns**3 / 3 + n_columns**2


def sparse_gram(n_pairs: float, n_columns: float, width: float) -> float:
    """Return the price of a sparse Gram matrix and its factor, if no row is wider than `width` columns."""
    return PAIR_OF_SPARSE * n_pairs + SPARSE_PRODUCT * n_columns * width**2 + 100.0 * n_columns


def leaves_sparse_factor(n_pairs: float, n_columns: int, width: int) -> bool:
    """Tell whether sparse rows of at most so many columns leave a sparse factor that costs less than a dense one."""
    cheaper = sparse_gram(n_pairs, n_columns, width) < dense_gram_of_sparse(n_pairs, n_columns)
    return 2 * width < n_columns and cheaper


def orthogonal(n_rows: float, n_columns: float) -> float:
    """Return the price of an orthogonal factor of dense rows."""
    return ORTHOGONAL_PRODUCT * n_rows * n_columns * min(n_rows, n_columns)


def small_system(n_rows: int, n_columns: int) -> float:
    """Return the price of a dense least-squares solution by LAPACK."""
    return gram(n_rows, n_columns) if n_rows > n_columns else orthogonal(n_rows, n_columns)
