"""Kaczmarz steps that leave out rows too far away: for right-hand sides of which a few are grossly wrong."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rowsolve.checkpoint.state import Kind, array, named, number, optional, pack, row_number
from rowsolve.kernels.rows import distances
from rowsolve.kernels.sampling import deal, new_cards
from rowsolve.kernels.sweep import Gate, guarded_sweep
from rowsolve.methods.base import Plan, RowMethod, number_between

__all__ = ["Quantile"]

FIRST_SAMPLE = 64  # rows whose distances make the first level
PACE = 0.05  # by which a row moves the logarithm of the level: the last 20 rows or so count
FAST_PACE = 2.0  # over p, for few columns: the level must follow an error that falls by e in 2 p rows
_EPS = float(np.finfo(float).eps)


class _Plan(Plan):
    cards: np.ndarray
    next_card = 0
    gate: Gate | None = None

    def take_over(self, before):
        """Keep the level of the gate."""
        super().take_over(before)
        self.gate = before.gate

    saved: ClassVar[dict[str, Kind]] = {
        **Plan.saved,
        "cards": pack,
        "next_card": row_number,
        "gate": optional(named(Gate, level=array(2), slack_sq=number, up=number, down=number)),
    }


@dataclass(frozen=True)
class Quantile(RowMethod):
    """Skip rows far away: solve ``A x = b`` although some entries of b are grossly wrong (Haddock et al. 2022).

    Rows are visited in random order, each once before any comes again. A row is used if its distance
    ``abs(b_i - <a_i, x>) / norm(a_i)`` is at most `slack` times the `quantile` of the distances lately measured.
    Wrong rows stay where they are while the others come near, so sooner or later they are always skipped; x then
    converges to the solution of the right ones, as fast as without the others. The quantile follows every row by a
    small factor up or down, so a row is read once, whether it is used or not. Reads 64 rows beforehand.

    The rows that x contradicts at the end are in ``solution.rows_off``. With plain noise in b all rows are off a
    little, and no x satisfies most of them: the status is then ``INCONSISTENT``.

    The distances of all rows must shrink together. Where a few rows alone say something of a column (very sparse rows),
    a wrong one may be believed and the right ones skipped; and wrong rows that agree with each other (nearly the same
    row many times, off by the same amount) can hold x at their place. The status is then ``INCONSISTENT``.

    Parameters
    ----------
    quantile : float
        From 0.5 up to, not including, 1. A share of wrong rows near ``1 - quantile`` or above it cannot be told from
        right ones. For sparse rows with a few wrong ones (2%), 0.9 with a slack of 5 works better than the defaults.
    slack : float
        At least 1, which is the published method. More slack skips fewer right rows: to 1e-6 of a normal system with 2%
        wrong rows the defaults visit 36 p rows, the published method 74 p with ``quantile=0.8`` and 120 p with 0.7, a
        method without wrong rows 29 p. Too much lets wrong rows in: 3 stands 20% of them, 4 stands 10%.
    """

    quantile: float = 0.5
    slack: float = 3.0

    name: ClassVar[str] = "quantile"
    summary: ClassVar[str] = "one random row at a time, but none far away: a few wrong entries of b do no harm"
    citation: ClassVar[str] = "Haddock, Needell, Rebrova and Swartworth 2022"

    def __post_init__(self):
        number_between("quantile", self.quantile, 0.5, 1.0)
        number_between("slack", self.slack, 1.0, math.inf)

    @property
    def max_outlier_fraction(self):
        """Where as many rows are off, they are no exception."""
        return 1.0 - self.quantile

    def prepare(self, system, rng):
        """Lay out the cards; read nothing."""
        plan = _Plan(system)
        plan.cards = new_cards(system.n_rows)
        return plan

    def advance(self, plan, iterates, n_rows, rng, drops):
        """Visit `n_rows` rows and project on those that are near enough."""
        system, order = plan.system, np.empty(n_rows, np.int64)
        if plan.gate is None:
            plan.gate = self._gate_at(system, iterates[0], rng)
        plan.gate.level[1] = (_EPS * float(np.linalg.norm(iterates[0]))) ** 2
        deal(plan.cards, plan.next_card, rng.random(n_rows), order)
        plan.next_card = (plan.next_card + n_rows) % system.n_rows
        guarded_sweep(system.rows, system.b, order, iterates, drops, system.counter.flagged_rows, plan.gate)
        return order

    def _gate_at(self, system, x, rng) -> Gate:
        """Return a gate with the level of a sample of rows, as far as they have something to say."""
        order = rng.integers(0, system.n_rows, min(FIRST_SAMPLE, system.n_rows))
        found = np.empty(order.size)
        distances(system.rows, system.b, order, x, found, 1.0 / system.facts.norm_b, system.counter.flagged_rows)
        system.counter.add(order.size)
        system.look_at_odd_rows()
        first = float(np.quantile(found[found > 0.0], self.quantile)) if found.any() else 0.0
        pace = 2.0 * max(PACE, min(FAST_PACE / system.n_columns, 1.0))  # of squares
        up, down = math.exp(pace * self.quantile), math.exp(-pace * (1.0 - self.quantile))
        return Gate(np.array([first**2, 0.0]), float(self.slack) ** 2, up, down)
