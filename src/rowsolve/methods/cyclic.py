"""Kaczmarz's own method: the rows in their order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rowsolve.kernels.sweep import sweep
from rowsolve.methods.base import Method, Plan

__all__ = ["Cyclic"]


class _Plan(Plan):
    next_row = 0


@dataclass(frozen=True)
class Cyclic(Method):
    """Project on rows 0, 1, 2, … and start again (Kaczmarz 1937).

    Reads memory in the order it likes best. Slow when neighbouring rows are alike; rows far behind are not
    seen before the first ones have been used, so a fresh-row check that fails sends it on.
    """

    name: ClassVar[str] = "cyclic"
    summary: ClassVar[str] = "rows 0, 1, 2, … one at a time"
    citation: ClassVar[str] = "Kaczmarz 1937"
    in_given_order: ClassVar[bool] = True

    def prepare(self, system, rng):
        """Nothing to prepare."""
        return _Plan(system)

    def advance(self, plan, iterates, n_rows, rng, drops):
        """Project on the next `n_rows` rows."""
        system = plan.system
        order = (plan.next_row + np.arange(n_rows)) % system.n_rows
        plan.next_row = int(order[-1] + 1) % system.n_rows
        sweep(system.rows, system.b, order, iterates, drops, system.odd)
        return order
