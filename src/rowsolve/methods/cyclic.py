"""The classical Kaczmarz method: the rows in their order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rowsolve.checkpoint.state import Kind, row_number
from rowsolve.methods.base import Capabilities
from rowsolve.methods.drawing import ONE_BY_ONE
from rowsolve.methods.oblivious import Oblivious, ObliviousPlan

__all__ = ["Cyclic"]


class _Plan(ObliviousPlan):
    next_row = 0

    def draw(self, n_rows, rng):
        """Return the next `n_rows` rows."""
        order = (self.next_row + np.arange(n_rows)) % self.system.n_rows
        self.next_row = int(order[-1] + 1) % self.system.n_rows
        return order, ONE_BY_ONE

    saved: ClassVar[dict[str, Kind]] = {**ObliviousPlan.saved, "next_row": row_number}


@dataclass(frozen=True)
class Cyclic(Oblivious):
    """Project on rows 0, 1, 2, …, repeatedly (Kaczmarz 1937).

    The rows are read in the order of memory, which is fastest. Convergence is slow if neighbouring rows are nearly
    parallel. The last rows are not used before all others, so the solve continues if a check of fresh rows fails.

    Parameters
    ----------
    n_directions : int
        Size of the memory, which saves rows on ill-conditioned systems (see `rowsolve.methods.oblivious.Oblivious`).
    """

    name: ClassVar[str] = "cyclic"
    summary: ClassVar[str] = "rows 0, 1, 2, … one at a time"
    citation: ClassVar[str] = "Kaczmarz 1937"
    can: ClassVar[Capabilities] = Oblivious.can._replace(in_given_order=True)

    def prepare(self, system, rng):
        """Return a plan; read no rows."""
        return _Plan(system)
