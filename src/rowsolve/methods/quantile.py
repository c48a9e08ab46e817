"""Kaczmarz steps that skip distant rows: for a b with a few outliers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rowsolve.checkpoint.state import Kind, array, named, number, optional
from rowsolve.kernels.rows import distances
from rowsolve.kernels.sweep import Gate, guarded_sweep
from rowsolve.methods.base import Capabilities, Plan, RowMethod, number_between
from rowsolve.methods.drawing import CARDS, Cards
from rowsolve.policy.thresholds import EPS, FAST_LEVEL_PACE, LEVEL_PACE, SPOTS

__all__ = ["Quantile"]


class _Plan(Plan):
    """Cards, and the gate, which is set by a sample of rows at the first x.

    The logarithm of its level moves up or down at a pace such that the level is the `quantile` of recent distances.
    """

    def __init__(self, system, quantile, slack):
        super().__init__(system)
        self.cards = Cards.of(system.n_rows)
        self.gate: Gate | None = None
        self.quantile, self.slack = quantile, slack

    def continue_from(self, before):
        """Keep the level of the plan before."""
        super().continue_from(before)
        self.gate = before.gate

    def gate_at(self, x, rng) -> Gate:
        """Return the gate, with a level above the rounding errors of distances from `x`."""
        if self.gate is None:
            self.gate = self._new_gate(x, rng)
        self.gate.level[1] = (EPS * float(np.linalg.norm(x))) ** 2
        return self.gate

    def _new_gate(self, x, rng) -> Gate:
        """Return a gate whose level is computed from a sample of rows, without odd ones."""
        system = self.system
        order = rng.integers(0, system.n_rows, min(SPOTS, system.n_rows))
        found = np.empty(order.size)
        distances(system.rows, system.b, order, x, found, 1.0 / system.facts.norm_b, system.counter.flagged_rows)
        system.counter.add(order.size)
        system.check_flagged()
        positive = found[found > 0.0]  # none if x is NaN, as in a damaged checkpoint
        first = float(np.quantile(positive, self.quantile)) if positive.size else 0.0
        pace = 2.0 * max(LEVEL_PACE, min(FAST_LEVEL_PACE / system.n_columns, 1.0))  # of squares
        up, down = math.exp(pace * self.quantile), math.exp(-pace * (1.0 - self.quantile))
        return Gate(np.array([first**2, 0.0]), float(self.slack) ** 2, up, down)

    saved: ClassVar[dict[str, Kind]] = {
        **Plan.saved,
        "cards": CARDS,
        "gate": optional(named(Gate, level=array(2), slack_sq=number, up=number, down=number)),
    }
    derived = (*Plan.derived, "quantile", "slack")


@dataclass(frozen=True)
class Quantile(RowMethod):
    """Project on random rows, but skip distant ones: for a b with a few outliers (Haddock et al. 2022).

    Rows are visited in random order, without replacement until all have been visited. A row is used if its distance
    ``abs(b_i - <a_i, x>) / norm(a_i)`` is at most `slack` times the `quantile` of the most recent distances. The
    distances of the other rows decrease while those of outliers do not, so from some point on outliers are always
    skipped, and x converges to the solution of the other rows, as fast as without outliers. The quantile is updated
    with every row by a small factor up or down, so a row is read once, whether it is used or not. 64 rows are read
    beforehand.

    The outliers found at the end are in ``solution.rows_off``. If all entries of b are noisy, no x satisfies most of
    the rows, and the status is ``INCONSISTENT``.

    The distances of all rows must decrease together. If only a few rows involve a column (very sparse rows), an outlier
    may be used and the correct rows skipped; and outliers that are consistent with each other (nearly the same row many
    times, with the same error in b) may keep x near their own solution. In both cases the status is ``INCONSISTENT``.

    Parameters
    ----------
    quantile : float
        At least 0.5 and less than 1. The fraction of outliers must be well below ``1 - quantile``, or they cannot be
        recognized. For sparse rows with a few outliers (2%), 0.9 with a slack of 5 works better than the defaults.
    slack : float
        At least 1, which is the published method. With more slack fewer correct rows are skipped: to reach 1e-6 on a
        normal system with 2% outliers the defaults visit 36 p rows, and the published method visits 74 p rows with
        ``quantile=0.8`` and 120 p with 0.7; without outliers a row method takes 29 p. With too much slack outliers are
        used: 3 tolerates 20% of them, 4 tolerates 10%.
    """

    quantile: float = 0.5
    slack: float = 3.0

    name: ClassVar[str] = "quantile"
    summary: ClassVar[str] = "one random row at a time, skipping distant rows; tolerates a few outliers in b"
    citation: ClassVar[str] = "Haddock, Needell, Rebrova and Swartworth 2022"

    def __post_init__(self):
        number_between("quantile", self.quantile, 0.5, 1.0)
        number_between("slack", self.slack, 1.0, math.inf)

    @property
    def can(self):  # type: ignore[override]
        """What it can do: it leaves out at most as large a fraction of the rows as is above the quantile."""
        return Capabilities(max_outlier_fraction=1.0 - self.quantile)

    def prepare(self, system, rng):
        """Allocate the cards; read no rows."""
        return _Plan(system, self.quantile, self.slack)

    def advance(self, plan, iterates, n_rows, rng, drops):
        """Visit `n_rows` rows and project on those within the allowed distance."""
        system, gate = plan.system, plan.gate_at(iterates[0], rng)
        order = plan.cards.deal(n_rows, rng)
        guarded_sweep(system.rows, system.b, order, iterates, drops, system.counter.flagged_rows, gate)
        return order
