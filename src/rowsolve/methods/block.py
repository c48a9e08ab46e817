"""Block Kaczmarz: several random rows at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rowsolve.checkpoint.state import Kind
from rowsolve.methods.base import positive_integer
from rowsolve.methods.drawing import CARDS, Cards
from rowsolve.methods.oblivious import Oblivious, ObliviousPlan

__all__ = ["Block"]


class _Plan(ObliviousPlan):
    def __init__(self, system, block_size):
        super().__init__(system, block_size)
        self.cards = Cards.of(system.n_rows)

    def draw(self, n_rows, rng):
        """Draw about `n_rows` rows, a block at a time."""
        size = self.rows_per_step
        blocks = self.cards.deal_blocks(max(1, n_rows // size), size, rng)
        return blocks.ravel(), np.full(len(blocks), size)

    saved: ClassVar[dict[str, Kind]] = {**ObliviousPlan.saved, "cards": CARDS}


@dataclass(frozen=True)
class Block(Oblivious):
    """Project on `block_size` rows at once, drawn uniformly without replacement (Elfving 1980, Needell and Tropp 2014).

    The step is ``x += pinv(A_t) (b_t - A_t x)``. If b is noisy, x fluctuates around a *weighted* least-squares
    solution, so the method does not solve least-squares problems.

    Parameters
    ----------
    block_size : int
        At least 1; a block with at least p independent rows solves a consistent system in one step.
    n_directions : int
        Size of the memory, which saves rows on ill-conditioned systems (see `rowsolve.methods.oblivious.Oblivious`).
    """

    block_size: int = 4

    name: ClassVar[str] = "block"
    summary: ClassVar[str] = "exact projection on several random rows at once"
    citation: ClassVar[str] = "Elfving 1980, Needell and Tropp 2014 (the paper's RKA-Block)"

    def __post_init__(self):
        super().__post_init__()
        positive_integer("block_size", self.block_size)

    def prepare(self, system, rng):
        """Allocate the cards and the workspace; read no rows."""
        if self.block_size > system.n_rows:
            raise ValueError(
                f"`block_size` must be at most the number of rows, {system.n_rows}, got {self.block_size}."
            )
        return _Plan(system, self.block_size)
