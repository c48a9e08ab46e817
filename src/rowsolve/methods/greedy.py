"""Greedy choice of rows by exact distances, from a sample."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rowsolve.checkpoint.state import Kind
from rowsolve.kernels.greedy import project_on_furthest
from rowsolve.methods.base import Capabilities, Plan, RowMethod, positive_integer
from rowsolve.methods.drawing import CARDS, Cards

__all__ = ["Greedy"]


class _Plan(Plan):
    def __init__(self, system, n_candidates):
        super().__init__(system, rows_per_step=min(n_candidates, system.n_rows))
        self.cards = Cards.of(system.n_rows)

    saved: ClassVar[dict[str, Kind]] = {**Plan.saved, "cards": CARDS}


@dataclass(frozen=True)
class Greedy(RowMethod):
    """Project on the furthest of `n_candidates` random rows (Motzkin; De Loera, Haddock and Needell 2017).

    The distances ``abs(b_i - <a_i, x>) / norm(a_i)`` are exact, so every candidate counts as a row read. Candidates are
    drawn without replacement until all rows have been used.

    A step decreases the squared error more than a step on a random row does, for normal rows about
    ``2 log(n_candidates)`` times as much, but reads `n_candidates` times as many rows. So fewer steps and more rows are
    needed: a system of 4,000 x 200 takes 1,250 steps and 5.0 passes to 1e-6 with 16 candidates, and 5,600 steps and 1.4
    passes with random rows. If most rows carry no new information (for instance if only one row in a hundred involves
    half of the columns), as many rows are read and the method is faster, because a candidate costs less than a step.

    Parameters
    ----------
    n_candidates : int
        1 is random reshuffling; as many as there are rows is Motzkin's method.
    """

    n_candidates: int = 16

    name: ClassVar[str] = "greedy"
    summary: ClassVar[str] = "the furthest of several random rows, by exact distance"
    citation: ClassVar[str] = "De Loera, Haddock and Needell 2017"
    can: ClassVar[Capabilities] = Capabilities(bounds=True)

    def __post_init__(self):
        positive_integer("n_candidates", self.n_candidates)

    def prepare(self, system, rng):
        """Allocate the cards; read no rows."""
        return _Plan(system, self.n_candidates)

    def advance(self, plan, iterates, n_rows, rng, drops):
        """Take steps that read `n_rows` rows."""
        system, order = plan.system, plan.cards.deal(n_rows, rng)
        project_on_furthest(
            system.rows, system.b, order, plan.rows_per_step, iterates, drops, system.counter.flagged_rows
        )
        return order
