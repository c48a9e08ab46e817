"""Bounds on the spectrum of ``A A'`` for k rows of norm 1, by the cosines between them.

``eps`` is a number that no ``abs(<a_i, a_j>)``, i != j, exceeds: the orthogonality value or more. ``delta`` is one that
none falls below. What is true follows from Gershgorin's discs: an eigenvalue of ``A A'``, whose diagonal
is 1, is off from 1 by at most the sum of the k - 1 other entries of a row. It cannot be improved: rows
whose products are all ``eps`` attain the upper end, rows whose products are all ``-eps`` the lower.
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
    """Return ``1 + (k - 1) eps``, which ``norm(A A')`` does not exceed if no ``abs(<a_i, a_j>)`` exceeds eps."""
    _check(k, "eps", eps)
    return float(1.0 + (k - 1) * eps)


def spectral_norm_upper_bound_as_printed(k: int, eps: float) -> float:
    """Return the paper's ``1 + k eps``: true, but looser than need be by eps (`spectral_norm_upper_bound`)."""
    _check(k, "eps", eps)
    return float(1.0 + k * eps)


def spectral_norm_lower_bound(k: int, delta: float) -> float:
    """Return ``1 + (k - 1) delta^2``, which ``norm(A A')`` reaches if every ``abs(<a_i, a_j>)`` is at least delta.

    The largest eigenvalue is at least the sum of the squared ones over their sum, which is
    ``norm(A A')_F^2 / k``. Three vectors in the plane at 120 degrees attain it. If the products themselves, signs
    included, are at least delta, `spectral_norm_lower_bound_signed` says more.
    """
    _check(k, "delta", delta)
    return float(1.0 + (k - 1) * delta**2)


def spectral_norm_lower_bound_signed(k: int, delta: float) -> float:
    """Return ``1 + (k - 1) delta``, which ``norm(A A')`` reaches if every ``<a_i, a_j>`` is at least delta.

    The signs matter: the sum of all entries of ``A A'`` over k is a Rayleigh quotient.
    """
    _check(k, "delta", delta)
    return float(1.0 + (k - 1) * delta)


def spectral_norm_lower_bound_as_printed(k: int, delta: float) -> float:
    """Return ``1 + (k - 1) delta``, printed for ``abs(<a_i, a_j>) >= delta``, where it is false for k >= 3.

    Three vectors at 120 degrees: absolute products 0.5, norm 1.5, printed bound 2. The proof drops the absolute
    values. See `spectral_norm_lower_bound` and `spectral_norm_lower_bound_signed`.
    """
    return spectral_norm_lower_bound_signed(k, delta)


def smallest_singular_value_lower_bound(k: int, eps: float) -> float:
    """Return ``max(0, 1 - (k - 1) eps)``; ``sigma_min(A A')`` is no less if no ``abs(<a_i, a_j>)`` exceeds eps."""
    _check(k, "eps", eps)
    if k > 1 and eps >= 1.0 / (k - 1):
        return 0.0
    return float(max(0.0, 1.0 - (k - 1) * eps))


def smallest_singular_value_lower_bound_as_printed(k: int, eps: float) -> float:
    """Return the paper's ``1 - eps``, which is false for k >= 3.

    The proof takes one entry of a row of ``A A'`` beside the diagonal for the sum of all k - 1. Three rows
    whose products are all -0.4: ``sigma_min(A A')`` is 0.2, printed bound 0.6.
    """
    _check(k, "eps", eps)
    return float(1.0 - eps)


def condition_number_upper_bound(k: int, eps: float) -> float:
    """Return ``(1 + (k - 1) eps) / (1 - (k - 1) eps)``, infinity from ``eps = 1/(k - 1)`` on.

    The condition number of ``A A'`` does not exceed it if no ``abs(<a_i, a_j>)`` exceeds eps. From
    ``1/(k - 1)`` on the rows may be linearly dependent.
    """
    least = smallest_singular_value_lower_bound(k, eps)
    return spectral_norm_upper_bound(k, eps) / least if least > 0.0 else math.inf


def condition_number_upper_bound_as_printed(k: int, eps: float) -> float:
    """Return the paper's ``(1 + k eps) / (1 - eps)``, infinity at ``eps = 1``; it is false for k >= 3.

    Three rows whose products are all -0.4: condition number 7, printed bound 3.67. The hypothesis is
    misprinted as well, as ``ov(A) >= 1/eps``: no matrix has ``ov(A) > 1``, so eps would have to be 1 or more, where
    the bound is infinite or negative. It is taken as ``ov(A) <= eps`` here.
    """
    least = smallest_singular_value_lower_bound_as_printed(k, eps)
    return spectral_norm_upper_bound_as_printed(k, eps) / least if least > 0.0 else math.inf


def _check(k: int, name: str, cosine: float) -> None:
    check_count("k", k)
    check_fraction(name, cosine)
