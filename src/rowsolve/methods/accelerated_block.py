"""Block Kaczmarz with momentum: large blocks, factored once, for A with a decaying spectrum."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from rowsolve.checkpoint.state import (
    Kind,
    StateError,
    amount,
    array,
    in_place,
    integer,
    named,
    number,
    pack,
    row_numbers,
    state_of,
    tuple_of,
)
from rowsolve.kernels.accelerated import FactorRoom, factor_block, factor_room, project_on_factored
from rowsolve.kernels.sampling import deal, new_cards
from rowsolve.methods.base import Capabilities, Plan, RowMethod, number_between, positive_integer

__all__ = ["AcceleratedBlock"]

_SMALLEST_BLOCK, _LARGEST_BLOCK = 6, 512  # rows, where no size is given
_KEPT_AT_LEAST = 2**25  # numbers in the factors of blocks: 256 MB
_SHORTEST_WINDOW = 8  # steps
_GROWTH = 4.0  # of the probe's steps, beyond which no window is waited for
_LEAST_FRICTION = 1e-4


class _Block(NamedTuple):
    rows: np.ndarray
    scale: np.ndarray
    factor: np.ndarray | None  # None if there was no room for it


class _Momentum:
    """What is kept of earlier steps, x's and the probe's alike: learned from the probe, whose equations agree.

    With friction ``f`` the moves are ``m = (1 - f) / (1 + f) * (m + step)``, and each step goes on by ``weight * m``.
    The squared error then falls by a factor exp(-r) a step, where ``r = c**2 / f`` for f above some c (too much
    friction) and about ``2 f`` below it (the moves overshoot). So ``sqrt(r f)`` leads to c from both sides. r is
    measured: by how much the probe's squared steps fall from one window of some 2 / f steps to the next.
    """

    def __init__(self, n_columns: int, block_size: int) -> None:
        self.moves = np.zeros((2, n_columns))
        self.weight = min(1.0, block_size / n_columns)
        self.friction = 1.0
        self.window = _SHORTEST_WINDOW
        self.steps, self.total = 0, 0.0
        self.earlier = math.nan, 0  # mean squared step of the window before, and its length
        self.left = np.zeros((2, n_columns))  # x and the probe as they were left

    def carry(self, iterates: np.ndarray, steps: np.ndarray) -> None:
        """Move `iterates` by `steps` and by what is kept of the moves before."""
        self.moves += steps
        self.moves *= (1.0 - self.friction) / (1.0 + self.friction)
        iterates += steps
        iterates += self.weight * self.moves

    def learn(self, squared_step: float) -> None:
        """Take in a step of the probe; at the end of a window adapt."""
        self.steps += 1
        self.total += squared_step
        mean, length = self.earlier
        too_far = self.total > _GROWTH * self.window * mean
        if self.steps < self.window and not too_far:
            return
        now = self.total / self.steps
        if now >= mean > 0.0:
            self.moves[:] = 0.0
            self.weight /= 2.0
        elif mean > now > 0.0:
            rate = 2.0 * math.log(mean / now) / (self.steps + length)
            self.friction = min(1.0, max(_LEAST_FRICTION, math.sqrt(rate * self.friction)))
        self.earlier = now, self.steps
        self.window = max(_SHORTEST_WINDOW, math.ceil(2.0 / self.friction))
        self.steps, self.total = 0, 0.0

    def pick_up(self, iterates: np.ndarray) -> None:
        """Forget all moves if x or the probe have been moved by others."""
        if not np.array_equal(iterates, self.left):
            self.moves[:] = 0.0
            self.steps, self.total, self.earlier = 0, 0.0, (math.nan, 0)

    saved: ClassVar[dict[str, Kind]] = {
        **dict.fromkeys(("moves", "left"), array(2, "p")),
        **dict.fromkeys(("weight", "friction", "total"), number),
        "window": integer(1),
        "steps": integer(),
        "earlier": tuple_of(number, integer()),
    }
    derived: ClassVar[tuple[str, ...]] = ()

    def state(self) -> dict[str, Any]:
        """Return all of it."""
        return state_of(self)


class _Plan(Plan):
    cards: np.ndarray
    blocks: list[_Block]
    workspace: FactorRoom
    room_left: float  # for factors to keep, in numbers
    momentum: _Momentum

    saved: ClassVar[dict[str, Kind]] = {
        **Plan.saved,
        "cards": pack,
        "momentum": in_place,
        "room_left": amount,
        "drawn_so_far": named(
            dict, rows=row_numbers("rows"), scale=array("rows"), kept=array(None, dtype=bool), factors=array(None)
        ),
    }
    derived = (*Plan.derived, "blocks", "workspace")

    @property
    def drawn_so_far(self):
        """The blocks, one after another: their rows and scales, whether their factors were kept, and these."""
        return {
            "rows": np.concatenate([np.empty(0, np.int64), *(block.rows for block in self.blocks)]),
            "scale": np.concatenate([np.empty(0), *(block.scale for block in self.blocks)]),
            "kept": np.array([block.factor is not None for block in self.blocks], dtype=bool),
            "factors": np.concatenate([np.empty(0), *(b.factor.ravel() for b in self.blocks if b.factor is not None)]),
        }

    @drawn_so_far.setter
    def drawn_so_far(self, found):
        n, size, kept = self.system.n_rows, self.rows_per_step, found["kept"]
        sizes = np.minimum(size, n - size * np.arange(kept.size))
        ends, edges = np.cumsum(sizes), np.cumsum(np.where(kept, sizes**2, 0))
        lengths = found["rows"].size, found["factors"].size
        if (sizes < 1).any() or (int(sizes.sum()), int(np.sum(sizes[kept] ** 2))) != lengths:
            raise StateError("drawn_so_far: expected blocks of as many rows as are drawn at once")
        self.blocks = []
        for k, m in enumerate(sizes.tolist()):
            part, square = slice(ends[k] - m, ends[k]), slice(edges[k] - m * m, edges[k])
            factor = found["factors"][square].reshape(m, m).copy() if kept[k] else None
            self.blocks.append(_Block(found["rows"][part].copy(), found["scale"][part].copy(), factor))


@dataclass(frozen=True)
class AcceleratedBlock(RowMethod):
    """Draw blocks of a fixed random partition, with momentum (Dereziński, Needell, Rebrova and Yang 2025, Kaczmarz++).

    With ``A_t`` the normalised rows of a block, the step is ``A_t.T @ inv(A_t @ A_t.T + ridge * I) @ (b_t - A_t x)``;
    of all steps so far a part is carried on. A block is factored when it is drawn for the first time, and the factors
    are kept as long as they fit (256 MB, or half as many numbers as A has if that is more). How much is carried on is
    learned from the ratio of the probe's steps from window to window; when they grow, momentum starts again from
    nothing, with half its weight.

    It is for singular values that decay: 8,000 x 200 with condition 100 to 1e-6 takes 383 p rows (220 p in blocks of
    p / 2), but 12,100 p one by one, 11,500 p in blocks of 4 and 3,100 p in blocks of p / 4 without momentum. Where rows
    are well-conditioned, or but for a few outlying singular values that a block can hold, momentum gains nothing
    (107 p against 41 p for 20 outliers).

    Parameters
    ----------
    block_size : int or None
        None stands for p / 4, at least 6 and at most 512. Factors take ``n * block_size`` numbers in all.
    ridge : float
        Keeps steps in bounds where rows of a block are nearly parallel.
    """

    block_size: int | None = None
    ridge: float = 1e-6

    name: ClassVar[str] = "accelerated-block"
    summary: ClassVar[str] = "large blocks of a fixed partition, factored once, with momentum; for decaying spectra"
    citation: ClassVar[str] = "Dereziński, Needell, Rebrova and Yang 2025"
    # Its blocks are drawn from all rows, again and again.
    can: ClassVar[Capabilities] = Capabilities(stored=False)

    def __post_init__(self):
        if self.block_size is not None:
            positive_integer("block_size", self.block_size)
        number_between("ridge", self.ridge, 0.0, 1.0)

    def prepare(self, system, rng):
        """Lay out the cards that blocks are dealt from; read nothing."""
        n, p = system.n_rows, system.n_columns
        size = self.block_size or min(max(p // 4, _SMALLEST_BLOCK), _LARGEST_BLOCK, n)
        if size > n:
            raise ValueError(f"`block_size` must be at most the number of rows, {n}, got {size}.")
        plan = _Plan(system, system.entries_per_row * (2 + size / 4) + size**2 / 6, rows_per_step=size)
        plan.cards, plan.blocks, plan.momentum = new_cards(n), [], _Momentum(p, size)
        plan.workspace = factor_room(system.rows, size, p)
        plan.room_left = max(_KEPT_AT_LEAST, n * system.entries_per_row / 2)
        return plan

    def advance(self, plan, iterates, n_rows, rng, drops):
        """Take steps on about `n_rows` rows.

        With momentum the error does not fall by the squared step, but both x and the probe go through the same
        linear steps: what a block finds of the error of x and of the probe has the ratio of these errors.
        """
        system, momentum, order = plan.system, plan.momentum, []
        steps = np.empty_like(iterates)
        drops[:] = 0.0
        momentum.pick_up(iterates)
        for _ in range(max(1, n_rows // plan.rows_per_step)):
            block = self._draw(plan, rng)
            project_on_factored(system.rows, system.b, *block, iterates, steps, plan.workspace)
            squares = np.einsum("ij,ij->i", steps, steps)
            momentum.carry(iterates, steps)
            momentum.learn(float(squares[1]))
            drops += squares
            order.append(block.rows)
        momentum.left[:] = iterates
        return np.concatenate(order)

    def _draw(self, plan, rng) -> _Block:
        """Return a block of the partition; one that was never drawn before is made up of rows that are left."""
        n, size = plan.system.n_rows, plan.rows_per_step
        which, known = int(rng.integers(-(-n // size))), len(plan.blocks)
        if which < known:
            block = plan.blocks[which]
            return block if block.factor is not None else self._factored(plan, block)
        rows = np.empty(min(size, n - known * size), np.int64)
        deal(plan.cards, known * size, rng.random(rows.size), rows)
        block = self._factored(plan, _Block(rows, np.empty(rows.size), None))
        plan.room_left -= rows.size**2
        plan.blocks.append(block if plan.room_left >= 0 else block._replace(factor=None))
        return block

    def _factored(self, plan, block) -> _Block:
        system, factor = plan.system, np.empty((block.rows.size, block.rows.size))
        factor_block(
            system.rows,
            system.b,
            block.rows,
            self.ridge,
            block.scale,
            factor,
            plan.workspace,
            system.counter.flagged_rows,
        )
        return block._replace(factor=factor)
