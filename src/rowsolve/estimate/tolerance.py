"""The error at which to stop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["Tolerance"]


@dataclass(frozen=True)
class Tolerance:
    """The tolerance: a solve stops if ``norm(x - x*) <= rtol * norm(x) + atol``.

    `eps` is the relative precision of A and b as given. A solution of zero has no relative error, so
    ``norm(x)`` counts as at least ``eps * norm(x0)``.
    """

    rtol: float
    atol: float
    eps: float

    def at(self, norm_x: Any, norm_x0: Any) -> Any:
        """Return the absolute error allowed: for one x, or for an array of norms."""
        least = self.eps * norm_x0
        larger = np.maximum(norm_x, least) if isinstance(norm_x, np.ndarray) else max(norm_x, least)
        return self.rtol * larger + self.atol
