"""Kaczmarz's own method: the rows in their order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rowsolve.checkpoint.state import Kind, row_number
from rowsolve.methods.base import Capabilities
from rowsolve.methods.oblivious import ONE_BY_ONE, Oblivious, ObliviousPlan

__all__ = ["Cyclic"]


class _Plan(ObliviousPlan):
    next_row = 0

    saved: ClassVar[dict[str, Kind]] = {**ObliviousPlan.saved, "next_row": row_number}


@dataclass(frozen=True)
class Cyclic(Oblivious):
    """Project on rows 0, 1, 2, … and start again (Kaczmarz 1937).

    Reads memory in the order it likes best. Slow when neighbouring rows are alike; rows far behind are not
    seen before the first ones have been used, so a fresh-row check that fails sends it on.

    Parameters
    ----------
    n_directions : int
        Remember so many directions: fewer rows on hard systems (see `rowsolve.methods.oblivious.Oblivious`).
    """

    name: ClassVar[str] = "cyclic"
    summary: ClassVar[str] = "rows 0, 1, 2, … one at a time"
    citation: ClassVar[str] = "Kaczmarz 1937"
    can: ClassVar[Capabilities] = Oblivious.can._replace(in_given_order=True)

    def prepare(self, system, rng):
        """Nothing to prepare."""
        return _Plan(system)

    def draw(self, plan, n_rows, rng):
        """Take the next `n_rows` rows."""
        order = (plan.next_row + np.arange(n_rows)) % plan.system.n_rows
        plan.next_row = int(order[-1] + 1) % plan.system.n_rows
        return order, ONE_BY_ONE
