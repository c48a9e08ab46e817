"""Test systems with a known solution."""

from __future__ import annotations

import math
from typing import Literal, get_args

import numpy as np
from scipy import linalg

__all__ = ["NoiseOn", "clustered_system", "gaussian_system", "least_squares"]

NoiseOn = Literal["A", "b", "A after b"]


def gaussian_system(
    n_rows: int, n_columns: int, rng: int | np.random.Generator | None = None, *, noise: float = 0.0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (A, b, x): A and x have entries N(0, 1), and b is A x plus normal noise of `noise` times the sd of A x."""
    rng = np.random.default_rng(rng)
    A = rng.standard_normal((n_rows, n_columns))
    x = rng.standard_normal(n_columns)
    b = A @ x
    if noise:
        b += noise * np.std(b) * rng.standard_normal(n_rows)
    return A, b, x


def clustered_system(
    n_rows: int,
    n_columns: int,
    n_clusters: int,
    separation: float | Literal["loose", "tight"],
    noise_on: NoiseOn = "A",
    noise: float = 0.1,
    rng: int | np.random.Generator | None = None,
    *,
    spread: float = 0.1,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return a system whose rows are clustered around a few centroids.

    Parameters
    ----------
    n_rows, n_columns, n_clusters : int
        The shape of A and the number of clusters. These have equal sizes, or one row more, in random order.
    separation : float, "loose" or "tight"
        A centroid has a random direction and the norm ``separation * sqrt(n_columns)``, so `separation` is the typical
        size of an entry. ``"tight"`` is 1, as for entries N(0, 1); ``"loose"`` is ``1 / sqrt(n_columns)``, for which
        the norm is 1.
    noise_on : {"A", "b", "A after b"}
        ``"A"``: a row is its centroid plus N(0, noise**2) in every entry, and ``b = A x_true`` exactly, so that the
        system is consistent. ``"b"``: the entries of A vary by `spread` instead, and normal noise of `noise` times the
        standard deviation of ``A x_true`` is added to b, so that the system is inconsistent. ``"A after b"``: A is the
        same as for ``"A"``, but b is computed from the centroids, before the noise, so that the system is
        inconsistent, and b contains only `n_clusters` numbers of information about `x_true`.
    noise : float
        The level of the noise.
    rng : int or numpy.random.Generator, optional
        Seed or generator.
    spread : float
        The variation of A with ``noise_on="b"``, without which A would have only `n_clusters` different rows.

    Returns
    -------
    A, b, x_true, labels : ndarray
        `x_true` has entries N(0, 1); ``labels[i]`` is the cluster of row i.
    """
    if noise_on not in get_args(NoiseOn):
        raise ValueError(f"`noise_on` must be 'A', 'b' or 'A after b', got {noise_on!r}.")
    rng = np.random.default_rng(rng)
    centroids = rng.standard_normal((n_clusters, n_columns))
    centroids *= (_size_of_an_entry(separation, n_columns) * math.sqrt(n_columns)) / np.linalg.norm(
        centroids, axis=1, keepdims=True
    )
    labels = rng.permutation(np.arange(n_rows) % n_clusters)
    A = rng.standard_normal((n_rows, n_columns))
    A *= spread if noise_on == "b" else noise
    A += centroids[labels]
    x_true = rng.standard_normal(n_columns)
    b = (centroids @ x_true)[labels] if noise_on == "A after b" else A @ x_true
    if noise_on == "b":
        b += noise * np.std(b) * rng.standard_normal(n_rows)
    return A, b, x_true, labels


def least_squares(A: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the least-squares solution by the normal equations; these systems are well-conditioned enough."""
    return linalg.solve(A.T @ A, A.T @ b, assume_a="pos")


def _size_of_an_entry(separation: float | str, n_columns: int) -> float:
    named = {"loose": 1.0 / math.sqrt(n_columns), "tight": 1.0}
    if isinstance(separation, str):
        if separation not in named:
            raise ValueError(f"`separation` must be 'loose', 'tight' or a number, got {separation!r}.")
        return named[separation]
    return float(separation)
