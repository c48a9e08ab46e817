"""Randomized Kaczmarz: one random row at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from rowsolve.checkpoint.state import Kind, optional, row_numbers
from rowsolve.kernels.sampling import Deck, deck_by_weight, draw_many
from rowsolve.methods.base import one_of
from rowsolve.methods.drawing import CARDS, NO_ROWS, ONE_BY_ONE, Cards, deck_of_rows
from rowsolve.methods.oblivious import Oblivious, ObliviousPlan
from rowsolve.policy.thresholds import DRAWN_AHEAD, FEW_COLUMNS

__all__ = ["Randomized"]


class _Plan(ObliviousPlan):
    """Rows drawn in bulk: by weight from a deck, without replacement from cards, or else uniformly."""

    def __init__(self, system, deck=None, cards=None):
        super().__init__(system)
        self.deck: Deck | None = deck
        self.cards: Cards | None = cards
        self.drawn = NO_ROWS  # and not used yet

    def draw(self, n_rows, rng):
        """Draw `n_rows` rows."""
        if self.drawn.size < n_rows:
            ahead = DRAWN_AHEAD * max(self.system.n_columns, FEW_COLUMNS)
            self.drawn = np.concatenate([self.drawn, self._draw_in_bulk(max(n_rows, ahead), rng)])
        order, self.drawn = self.drawn[:n_rows], self.drawn[n_rows:]
        return order, ONE_BY_ONE

    def _draw_in_bulk(self, count, rng):
        if self.cards is not None:
            return self.cards.deal(count, rng)
        if self.deck is None:
            return rng.integers(0, self.system.n_rows, count)
        order = np.empty(count, np.int64)
        draw_many(self.deck, 0, rng, order)
        return order

    saved: ClassVar[dict[str, Kind]] = {
        **ObliviousPlan.saved,
        "deck": optional(deck_of_rows),
        "cards": optional(CARDS),
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
        if self.weights == "norms":
            return _Plan(system, deck=deck_by_weight(system.norms_sq()))
        return _Plan(system, cards=None if self.replace else Cards.of(system.n_rows))
