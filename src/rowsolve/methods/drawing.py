"""What rows are drawn from: cards (without replacement), decks (by weight), and blocks of a partition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from rowsolve.checkpoint.state import Sizes, StateError, array, named, pack, row_number, row_numbers
from rowsolve.kernels.sampling import Deck, deal, deal_blocks, new_cards

__all__ = ["CARDS", "NO_ROWS", "ONE_BY_ONE", "Blocks", "Cards", "blocks_of_rows", "deck_of_rows"]

NO_ROWS = np.empty(0, np.int64)
ONE_BY_ONE = np.empty(0, np.int64)  # the sizes of blocks, when there are none


@dataclass
class Cards:
    """All rows in random order: each is dealt once before any is dealt again.

    Attributes
    ----------
    cards : ndarray of int64
        The permutation, see `rowsolve.kernels.sampling.new_cards`.
    next_card : int
        The index of the next card.
    """

    cards: np.ndarray
    next_card: int = 0

    @classmethod
    def of(cls, n_rows: int) -> Cards:
        """Return the cards of `n_rows` rows."""
        return cls(new_cards(n_rows))

    def deal(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Return the next `count` rows."""
        order = np.empty(count, np.int64)
        deal(self.cards, self.next_card, rng.random(count), order)
        self.next_card = (self.next_card + count) % self.cards.size
        return order

    def deal_blocks(self, count: int, size: int, rng: np.random.Generator) -> np.ndarray:
        """Return `count` blocks of `size` rows, of shape (count, size): the rows of a block are distinct."""
        blocks = np.empty((count, size), np.int64)
        deal_blocks(self.cards, rng.random(blocks.shape), blocks)
        return blocks


CARDS = named(Cards, cards=pack, next_card=row_number)


class Blocks(NamedTuple):
    """A partition of rows into blocks: block ``t`` has the rows ``members[starts[t]:starts[t + 1]]``."""

    members: np.ndarray
    starts: np.ndarray

    @classmethod
    def of(cls, blocks: list[np.ndarray]) -> Blocks:
        """Return the partition with these blocks."""
        return cls(np.concatenate([NO_ROWS, *blocks]), np.cumsum([0, *(block.size for block in blocks)]))

    @property
    def largest(self) -> int:
        """The number of rows of the largest block; 1 if there are no blocks."""
        return int(np.diff(self.starts).max(initial=1))

    def draw(self, count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows of `count` random blocks, and the sizes of these blocks."""
        n_blocks = self.starts.size - 1
        if n_blocks == 0:  # A is all zero
            return NO_ROWS, ONE_BY_ONE
        chosen = rng.integers(0, n_blocks, count)
        starts = self.starts[chosen]
        sizes = self.starts[chosen + 1] - starts
        within = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        return self.members[np.repeat(starts, sizes) + within], sizes


def blocks_of_rows(value: Any, sizes: Sizes) -> Blocks:
    """Return the blocks in a saved state (see `rowsolve.checkpoint.state`)."""
    found = named(Blocks, members=row_numbers(), starts=array(None, dtype=np.int64))(value, dict(sizes))
    _check_edges(found.starts, found.members.size)
    return found


def deck_of_rows(value: Any, sizes: Sizes) -> Deck:
    """Return the deck of rows in a saved state (see `rowsolve.checkpoint.state`)."""
    integers = array("m", dtype=np.int64)
    look = named(Deck, members=row_numbers("m"), starts=array(None, dtype=np.int64), keep=array("m"), other=integers)
    found = look(value, dict(sizes))
    edges, size = found.starts, found.members.size
    _check_edges(edges, size)
    lengths = np.diff(edges)
    if not ((found.other >= 0) & (found.other < np.repeat(lengths, lengths))).all():
        raise StateError("other: expected positions within the groups")
    return found


def _check_edges(edges: np.ndarray, size: int) -> None:
    """Raise unless `edges` divide `size` rows into nonempty groups, or into none if there are no rows."""
    grows = (edges[1:] > edges[:-1]).all() if size else not edges.any()
    if edges.ndim != 1 or not edges.size > (size > 0) or edges[0] != 0 or edges[-1] != size or not grows:
        raise StateError(f"starts: expected increasing positions from 0 to {size}")
