"""The orthogonality of rows: of a given matrix, and as expected for Gaussian rows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rowsolve.policy.thresholds import NUMBERS_IN_CACHE
from rowsolve.theory._inputs import as_matrix, check_count, check_fraction, check_positive, unit_rows

__all__ = [
    "alignment_probability",
    "alignment_probability_upper_bound",
    "orthogonality_probability_lower_bound_as_printed",
    "orthogonality_value",
]


def orthogonality_value(A: Any) -> float:
    """Return ``ov(A) = max over i != j of abs(<a_i, a_j>) / (norm(a_i) norm(a_j))``.

    0 for orthogonal rows, 1 if two rows are parallel; neither the scale nor the sign of a row matters.

    Parameters
    ----------
    A : array_like or sparse matrix of shape (k, p)
        At least two rows, none of them zero.
    """
    A = as_matrix(A)
    k = A.shape[0]
    if k < 2:
        raise ValueError("`A` must have at least 2 rows to compare, got 1.")
    zero = ~A.any(axis=1)
    if zero.any():
        raise ValueError(f"`A` must have no zero rows, but row {int(np.argmax(zero))} is zero.")
    directions = unit_rows(A)
    largest = 0.0
    at_once = max(1, NUMBERS_IN_CACHE // k)
    for start in range(0, k, at_once):
        strip = directions[start : start + at_once]
        cosines = np.abs(strip @ directions[start:].T)
        np.fill_diagonal(cosines, 0.0)  # the products of the rows of the strip with themselves
        largest = max(largest, float(cosines.max()))
    return min(largest, 1.0)


def alignment_probability(eps: float, d: int) -> float:
    """Return ``P(abs(cos) > eps)`` for two Gaussian vectors, exactly.

    The angle of two independent vectors with entries N(0, sigma^2) in d dimensions has
    ``cos^2 ~ Beta(1/2, (d - 1)/2)``. So, with ``theta = arcsin(eps)``,

        P(abs(cos) <= eps) = integral of cos^(d-2) from 0 to theta / the same from 0 to pi/2,

    which integration by parts turns into a sum of positive terms. The result is accurate to about 1e-15,
    absolutely.
    """
    check_fraction("eps", eps)
    check_count("d", d)
    if d == 1:  # the cosine is 1 or -1
        return float(eps < 1.0)
    cosine_sq = (1.0 - eps) * (1.0 + eps)
    if d % 2 == 0:
        below, term, first = 2.0 * math.asin(eps) / math.pi, 2.0 * eps * math.sqrt(cosine_sq) / math.pi, 2
    else:
        below, term, first = float(eps), eps * cosine_sq / 2.0, 3
    if d > first:
        power = np.arange(first, d - 3, 2)
        terms = term * np.cumprod(np.append(1.0, cosine_sq * power / (power + 1)))
        below += float(terms.sum())
    return min(max(1.0 - below, 0.0), 1.0)


def alignment_probability_upper_bound(eps: float, d: int) -> float:
    """Return ``min(1, 1 / (d eps^2))``, an upper bound on ``P(abs(cos) > eps)`` for two Gaussian vectors.

    It is Chebyshev's inequality with ``E[cos] = 0`` and ``Var(cos) = 1/d``, both exact for vectors with independent
    entries N(0, sigma^2) in d dimensions. This is the corrected form of the paper's theorem on orthogonality in high
    dimensions; see `orthogonality_probability_lower_bound_as_printed` for the printed form.
    """
    check_fraction("eps", eps)
    check_count("d", d)
    root = eps * math.sqrt(d)  # its square may underflow
    return 1.0 if root <= 1.0 else 1.0 / root**2


def orthogonality_probability_lower_bound_as_printed(eps: float, d: int, delta: float, c: float) -> float:
    """Return the paper's bound ``(1 - 1 / (eps^2 (1 - delta)^4 d)) (1 - 6 exp(-c delta^2 d))``.

    The paper states that this is a lower bound on ``P(abs(cos) <= eps)``, for any delta from 0 to 1 and a fixed
    constant c. That is false: with ``delta = 0`` and ``d eps^2 < 1`` both factors are negative, and their product may
    exceed 1. If at least one factor is not negative, the statement is true, but no better than ``1 - 1 / (d eps^2)``
    (`alignment_probability_upper_bound`), because the angle does not depend on the lengths that delta bounds.

    Parameters
    ----------
    eps : float
        Above 0, at most 1.
    d : int
        Dimension.
    delta : float
        At least 0 and below 1, where the formula would divide by zero.
    c : float
        The constant of the Gaussian annulus theorem, which the paper does not specify; above 0.
    """
    check_fraction("eps", eps)
    check_count("d", d)
    check_fraction("delta", delta)
    if eps == 0.0 or delta == 1.0:
        raise ValueError(f"`eps` must be above 0 and `delta` below 1 (the formula divides), got {eps!r} and {delta!r}.")
    check_positive("c", c)
    deviations = eps * (1.0 - delta) ** 2 * math.sqrt(d)
    by_chebyshev = 1.0 - 1.0 / deviations / deviations
    by_annulus = 1.0 - 6.0 * math.exp(-c * delta**2 * d)
    return by_chebyshev * by_annulus
