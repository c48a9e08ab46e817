"""Bounds on the spectrum of ``A A'`` for k rows of norm 1, in terms of the cosines between them.

``eps`` is an upper bound on ``abs(<a_i, a_j>)``, i != j: the orthogonality value or more. ``delta`` is a lower bound.
The correct bounds follow from Gershgorin's theorem: the diagonal of ``A A'`` is 1, so an eigenvalue differs from 1 by
at most the sum of the absolute values of the k - 1 other entries of a row. They are sharp: rows whose products are all
``eps`` attain the upper bound, rows whose products are all ``-eps`` the lower one.
"""

from __future__ import annotations

import math

from rowsolve.theory._inputs import check_count, check_fraction

__all__ = [
    "condition_number_upper_bound",
    "condition_number_upper_bound_as_printed",
    "smallest_singular_value_lower_bound",
    "smallest_singular_value_lower_bound_as_printed",
    "spectral_norm_lower_bound",
    "spectral_norm_lower_bound_as_printed",
    "spectral_norm_lower_bound_signed",
    "spectral_norm_upper_bound",
    "spectral_norm_upper_bound_as_printed",
]


def spectral_norm_upper_bound(k: int, eps: float) -> float:
    """Return ``1 + (k - 1) eps``, an upper bound on ``norm(A A')`` if every ``abs(<a_i, a_j>)`` is at most eps."""
    _check(k, "eps", eps)
    return float(1.0 + (k - 1) * eps)


def spectral_norm_upper_bound_as_printed(k: int, eps: float) -> float:
    """Return the paper's ``1 + k eps``: correct, but eps larger than necessary (see `spectral_norm_upper_bound`)."""
    _check(k, "eps", eps)
    return float(1.0 + k * eps)


def spectral_norm_lower_bound(k: int, delta: float) -> float:
    """Return ``1 + (k - 1) delta^2``, a lower bound on ``norm(A A')`` if every ``abs(<a_i, a_j>)`` is at least delta.

    The largest eigenvalue is at least the sum of the squared eigenvalues over their sum, which is
    ``norm(A A')_F^2 / k``. Three vectors in the plane at 120 degrees attain the bound. If the products themselves,
    with their signs, are at least delta, `spectral_norm_lower_bound_signed` is better.
    """
    _check(k, "delta", delta)
    return float(1.0 + (k - 1) * delta**2)


def spectral_norm_lower_bound_signed(k: int, delta: float) -> float:
    """Return ``1 + (k - 1) delta``, a lower bound on ``norm(A A')`` if every ``<a_i, a_j>`` is at least delta.

    The signs matter: the bound is the Rayleigh quotient of the vector of ones.
    """
    _check(k, "delta", delta)
    return float(1.0 + (k - 1) * delta)


def spectral_norm_lower_bound_as_printed(k: int, delta: float) -> float:
    """Return the paper's ``1 + (k - 1) delta`` for ``abs(<a_i, a_j>) >= delta``, which is false for k >= 3.

    Counterexample: three vectors at 120 degrees have absolute products 0.5 and norm 1.5, but the printed bound is 2.
    The proof omits the absolute values. See `spectral_norm_lower_bound` and `spectral_norm_lower_bound_signed`.
    """
    return spectral_norm_lower_bound_signed(k, delta)


def smallest_singular_value_lower_bound(k: int, eps: float) -> float:
    """Return ``max(0, 1 - (k - 1) eps)``, a lower bound on ``sigma_min(A A')`` if every ``abs(<a_i, a_j>) <= eps``."""
    _check(k, "eps", eps)
    if k > 1 and eps >= 1.0 / (k - 1):
        return 0.0
    return float(max(0.0, 1.0 - (k - 1) * eps))


def smallest_singular_value_lower_bound_as_printed(k: int, eps: float) -> float:
    """Return the paper's ``1 - eps``, which is false for k >= 3.

    The proof uses one off-diagonal entry of a row of ``A A'`` in place of the sum of all k - 1. Counterexample: for
    three rows whose products are all -0.4, ``sigma_min(A A')`` is 0.2, but the printed bound is 0.6.
    """
    _check(k, "eps", eps)
    return float(1.0 - eps)


def condition_number_upper_bound(k: int, eps: float) -> float:
    """Return ``(1 + (k - 1) eps) / (1 - (k - 1) eps)``, or infinity for ``eps >= 1/(k - 1)``.

    It is an upper bound on the condition number of ``A A'`` if every ``abs(<a_i, a_j>)`` is at most eps. For
    ``eps >= 1/(k - 1)`` the rows may be linearly dependent.
    """
    least = smallest_singular_value_lower_bound(k, eps)
    return spectral_norm_upper_bound(k, eps) / least if least > 0.0 else math.inf


def condition_number_upper_bound_as_printed(k: int, eps: float) -> float:
    """Return the paper's ``(1 + k eps) / (1 - eps)``, or infinity at ``eps = 1``; it is false for k >= 3.

    Counterexample: for three rows whose products are all -0.4, the condition number is 7, but the printed bound is
    3.67. The assumption ``ov(A) >= 1/eps`` is a misprint, too: no matrix has ``ov(A) > 1``, so eps would have to be 1
    or more, where the bound is infinite or negative. Here it is taken as ``ov(A) <= eps``.
    """
    least = smallest_singular_value_lower_bound_as_printed(k, eps)
    return spectral_norm_upper_bound_as_printed(k, eps) / least if least > 0.0 else math.inf


def _check(k: int, name: str, cosine: float) -> None:
    check_count("k", k)
    check_fraction(name, cosine)
