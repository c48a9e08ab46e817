"""Systems whose solution is known."""

from __future__ import annotations

import numpy as np

__all__ = ["gaussian_system"]


def gaussian_system(
    n_rows: int, n_columns: int, rng: int | np.random.Generator | None = None, *, noise: float = 0.0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return A and x with entries N(0, 1), and b = A x plus `noise` times the spread of A x, as (A, b, x)."""
    rng = np.random.default_rng(rng)
    A = rng.standard_normal((n_rows, n_columns))
    x = rng.standard_normal(n_columns)
    b = A @ x
    if noise:
        b += noise * np.std(b) * rng.standard_normal(n_rows)
    return A, b, x
