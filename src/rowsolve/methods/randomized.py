"""Randomized Kaczmarz: one random row at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from rowsolve.checkpoint.state import Kind, optional, pack, row_number, row_numbers
from rowsolve.kernels.sampling import Deck, deal, deck_by_weight, draw_many, new_cards
from rowsolve.methods.base import deck_of_rows, one_of
from rowsolve.methods.oblivious import NO_ROWS, ONE_BY_ONE, Oblivious, ObliviousPlan

__all__ = ["Randomized"]

AT_LEAST = 1024  # rows drawn at a time: with fewer, the overhead of the call dominates
# Times p rows, half of what a well-conditioned consistent system takes, but at most so many: rows that are used
# displace the cards, from which rows are dealt, from the cache.
AHEAD, MOST_AHEAD = 16, 100_000


class _Plan(ObliviousPlan):
    deck: Deck | None = None  # for draws by norm
    cards: np.ndarray | None = None  # for draws without replacement
    next_card = 0
    drawn = NO_ROWS  # rows drawn and not used yet

    saved: ClassVar[dict[str, Kind]] = {
        **ObliviousPlan.saved,
        "deck": optional(deck_of_rows),
        "cards": optional(pack),
        "next_card": row_number,
        "drawn": row_numbers(),
    }


@dataclass(frozen=True)
class Randomized(Oblivious):
    """Draw row ``i`` with probability ``norm(A[i])**2 / norm(A, 'fro')**2`` (Strohmer and Vershynin 2009).

    Parameters
    ----------
    weights : {"norms", "uniform"}
        ``"norms"`` is the published method and reads A once beforehand; ``"uniform"`` reads no rows beforehand.
    replace : bool
        Whether to sample with replacement. If False, all rows are used in random order before any row is used again
        (random reshuffling), which requires ``weights="uniform"``.
    n_directions : int
        Size of the memory, which saves rows on ill-conditioned systems (see `rowsolve.methods.oblivious.Oblivious`).
    """

    weights: Literal["norms", "uniform"] = "norms"
    replace: bool = True

    name: ClassVar[str] = "randomized"
    summary: ClassVar[str] = "one random row at a time, drawn by squared norm or uniformly"
    citation: ClassVar[str] = "Strohmer and Vershynin 2009 (the paper's RKA)"
    plan_type: ClassVar[type[_Plan]] = _Plan

    def __post_init__(self):
        super().__post_init__()
        one_of("weights", self.weights, ("norms", "uniform"))
        if not isinstance(self.replace, bool):
            raise ValueError(f"`replace` must be True or False, got {self.replace!r}.")
        if not self.replace and self.weights == "norms":
            raise ValueError(
                "`replace=False` visits every row equally often, so it needs `weights='uniform'`, got 'norms'."
            )

    def prepare(self, system, rng):
        """Compute the norms (one pass) for weighted draws; allocate the cards for draws without replacement."""
        plan = _Plan(system)
        if self.weights == "norms":
            plan.deck = deck_by_weight(system.norms_sq())
        elif not self.replace:
            plan.cards = new_cards(system.n_rows)
        return plan

    def draw(self, plan, n_rows, rng):
        """Draw `n_rows` rows."""
        if plan.drawn.size < n_rows:
            ahead = min(AHEAD * plan.system.n_columns, MOST_AHEAD)
            more = self._draw_in_bulk(plan, max(n_rows, AT_LEAST, ahead), rng)
            plan.drawn = np.concatenate([plan.drawn, more])
        order, plan.drawn = plan.drawn[:n_rows], plan.drawn[n_rows:]
        return order, ONE_BY_ONE

    def _draw_in_bulk(self, plan, count, rng):
        n, order = plan.system.n_rows, np.empty(count, np.int64)
        if plan.cards is not None:
            deal(plan.cards, plan.next_card, rng.random(count), order)
            plan.next_card = (plan.next_card + count) % n
            return order
        if plan.deck is not None:
            draw_many(plan.deck, 0, rng, order)
            return order
        return rng.integers(0, n, count)
