"""Pavings: partitions of the rows into blocks, and the convergence of projections on these blocks."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from rowsolve.policy.thresholds import EPS
from rowsolve.theory._inputs import as_blocks, as_matrix, check_count, check_not_negative, check_positive, rank_of

__all__ = ["PavingConstants", "paving_bound", "paving_bound_as_printed", "paving_constants"]


class PavingConstants(NamedTuple):
    """The constants that determine the convergence of block Kaczmarz.

    Attributes
    ----------
    m : int
        Number of blocks.
    alpha : float
        The smallest eigenvalue of ``A_t A_t'`` over all blocks t.
    beta : float
        The largest eigenvalue.
    """

    m: int
    alpha: float
    beta: float


def paving_constants(A: Any, blocks: Iterable[Any]) -> PavingConstants:
    """Return (m, alpha, beta) of a paving: ``alpha <= lambda(A_t A_t') <= beta`` for each of its m blocks t.

    The rows are not normalised. Needell and Tropp, whose bounds use these constants, assume rows of norm 1: normalise A
    and b first to compare with their results. alpha is 0 if a block has more rows than columns, or linearly dependent
    rows.

    Parameters
    ----------
    A : array_like or sparse matrix of shape (n, p)
        The matrix; the blocks of a sparse matrix are made dense one at a time.
    blocks : iterable of arrays of int
        The row indices of the blocks; every row of `A` must be in exactly one block.

    Returns
    -------
    PavingConstants
    """
    A = A.tocsr() if hasattr(A, "tocsr") else as_matrix(A)
    indices = as_blocks(blocks, A.shape[0])
    _check_partition(indices, A.shape[0])
    extremes = [_extreme_eigenvalues(as_matrix(A[rows])) for rows in indices]
    return PavingConstants(len(indices), min(low for low, _ in extremes), max(high for _, high in extremes))


def paving_bound(
    j: int, error0_sq: float, smallest_singular_value: float, paving: PavingConstants, noise_sq: float
) -> float:
    """Return the bound on the mean squared error of block Kaczmarz after j steps (Needell and Tropp 2014).

    For A of full column rank, ``x*`` the least-squares solution and blocks of a fixed paving drawn uniformly,

        E norm(x_j - x*)^2 <= (1 - s^2 / (beta m))^j norm(x_0 - x*)^2 + (beta / alpha) norm(A x* - b)^2 / s^2

    where s is the smallest singular value of A. The second term is the error that noise in b leaves however many steps
    are taken. The paper omits the exponent j (`paving_bound_as_printed`).

    Parameters
    ----------
    j : int
        Number of steps, each of which projects on one block.
    error0_sq : float
        ``norm(x_0 - x*)^2``.
    smallest_singular_value : float
        The smallest singular value of A, not of ``A A'``; above 0, as A has full column rank.
    paving : PavingConstants
    noise_sq : float
        ``norm(A x* - b)^2``.
    """
    check_count("j", j, least=0)
    rate, floor = _rate_and_floor(error0_sq, smallest_singular_value, paving, noise_sq)
    return rate**j * error0_sq + floor


def paving_bound_as_printed(
    error0_sq: float, smallest_singular_value: float, paving: PavingConstants, noise_sq: float
) -> float:
    """Return `paving_bound` as printed in the paper, without the exponent j: the same for any number of steps.

        (1 - s^2 / (beta m)) norm(x_0 - x*)^2 + (beta / alpha) norm(A x* - b)^2 / s^2

    This is the bound after one step. It holds for j >= 1, but does not imply convergence; for j = 0 and no noise it is
    false. The parameters are those of `paving_bound`.
    """
    rate, floor = _rate_and_floor(error0_sq, smallest_singular_value, paving, noise_sq)
    return rate * error0_sq + floor


def _rate_and_floor(
    error0_sq: float, smallest_singular_value: float, paving: PavingConstants, noise_sq: float
) -> tuple[float, float]:
    check_not_negative("error0_sq", error0_sq)
    check_not_negative("noise_sq", noise_sq)
    check_positive("smallest_singular_value", smallest_singular_value)
    m, alpha, beta = paving
    check_count("m", m)
    if not 0.0 <= alpha <= beta < math.inf:
        raise ValueError(f"`paving` must have 0 <= alpha <= beta, got alpha {alpha!r} and beta {beta!r}.")
    share = smallest_singular_value**2 / (beta * m) if beta > 0.0 else math.inf
    if share > 1.0 + math.sqrt(EPS):  # the constants may be rounded
        raise ValueError(
            "`smallest_singular_value` squared must be at most beta * m, as it is for any paving of the same A; "
            f"got {smallest_singular_value!r} squared and {beta!r} * {m}."
        )
    if noise_sq == 0.0:
        floor = 0.0  # whatever alpha is
    else:
        floor = beta / alpha * noise_sq / smallest_singular_value**2 if alpha > 0.0 else math.inf
    return max(1.0 - share, 0.0), floor


def _check_partition(blocks: list[np.ndarray], n_rows: int) -> None:
    times = np.bincount(np.concatenate(blocks), minlength=n_rows)
    if (times > 1).any():
        row = int(np.argmax(times > 1))
        raise ValueError(f"every row must be in exactly one block; row {row} occurs {times[row]} times.")
    if (times == 0).any():
        raise ValueError(f"every row must be in exactly one block; row {int(np.argmin(times))} is in none.")


def _extreme_eigenvalues(block: np.ndarray) -> tuple[float, float]:
    """Return the smallest and the largest eigenvalue of ``block @ block.T``.

    They are computed from singular values, which does not lose half of the digits; one that is mere rounding is set to
    zero.
    """
    values = np.linalg.svd(block, compute_uv=False)
    independent = rank_of(values, block.shape) == block.shape[0]
    return float(values[-1] ** 2) if independent else 0.0, float(values[0] ** 2)
