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
    row_numbers,
    state_of,
    tuple_of,
)
from rowsolve.kernels.accelerated import factor_block, factor_workspace, project_on_factored
from rowsolve.methods.base import Capabilities, Plan, RowMethod, number_between, positive_integer
from rowsolve.methods.drawing import CARDS, Cards
from rowsolve.policy.thresholds import (
    CLEARLY_MORE,
    FEWEST_IN_MEAN,
    GATHERED,
    LARGEST_BLOCK,
    LEAST_FRICTION,
    ROWS_TOGETHER,
)

__all__ = ["AcceleratedBlock"]


class _Block(NamedTuple):
    rows: np.ndarray
    scale: np.ndarray
    factor: np.ndarray | None  # None if there was no room for it


class _Momentum:
    """The momentum of x and of the probe. Its friction is adapted to the probe, whose system is always consistent.

    With friction ``f`` the moves are ``m = (1 - f) / (1 + f) * (m + step)``, and ``weight * m`` is added to each step.
    The squared error then decreases by a factor of exp(-r) per step, where ``r = c**2 / f`` for f above some c (too
    much friction) and about ``2 f`` below it (the moves overshoot), so ``sqrt(r f)`` is an approximation of c from both
    sides. r is measured as the decrease of the probe's squared steps from one window of about 2 / f steps to the next.
    """

    def __init__(self, n_columns: int, block_size: int) -> None:
        self.moves = np.zeros((2, n_columns))
        self.weight = min(1.0, block_size / n_columns)
        self.friction = 1.0
        self.window = FEWEST_IN_MEAN
        self.steps, self.total = 0, 0.0
        self.earlier = math.nan, 0  # mean squared step of the window before, and its length
        self.left = np.zeros((2, n_columns))  # x and the probe after the last step

    def apply(self, iterates: np.ndarray, steps: np.ndarray) -> None:
        """Move `iterates` by `steps` and by the momentum of earlier steps."""
        self.moves += steps
        self.moves *= (1.0 - self.friction) / (1.0 + self.friction)
        iterates += steps
        iterates += self.weight * self.moves

    def learn(self, squared_step: float) -> None:
        """Add a step of the probe to the window; adapt friction and weight at the end of a window."""
        self.steps += 1
        self.total += squared_step
        mean, length = self.earlier
        too_far = self.total > CLEARLY_MORE**2 * self.window * mean
        if self.steps < self.window and not too_far:
            return
        now = self.total / self.steps
        if now >= mean > 0.0:
            self.moves[:] = 0.0
            self.weight /= 2.0
        elif mean > now > 0.0:
            rate = 2.0 * math.log(mean / now) / (self.steps + length)
            self.friction = min(1.0, max(LEAST_FRICTION, math.sqrt(rate * self.friction)))
        self.earlier = now, self.steps
        self.window = max(FEWEST_IN_MEAN, math.ceil(2.0 / self.friction))
        self.steps, self.total = 0, 0.0

    def leave(self, iterates: np.ndarray) -> None:
        """Note x and the probe at the end of a burst."""
        self.left[:] = iterates

    def reset_if_changed(self, iterates: np.ndarray) -> None:
        """Reset the momentum if x or the probe has been changed since `leave`."""
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
        """Return all attributes."""
        return state_of(self)


class _Plan(Plan):
    """The blocks drawn so far, with their factors, and the momentum."""

    def __init__(self, system, block_size, ridge):
        work = system.entries_per_row * (2 + block_size / 4) + block_size**2 / 6
        super().__init__(system, work, rows_per_step=block_size)
        self.cards = Cards.of(system.n_rows)
        self.blocks: list[_Block] = []
        self.momentum = _Momentum(system.n_columns, block_size)
        self.workspace = factor_workspace(system.rows, block_size, system.n_columns)
        self.factor_budget = max(GATHERED / 8, system.n_rows * system.entries_per_row / 2)  # for factors, in numbers
        self.ridge = ridge

    def draw(self, rng) -> _Block:
        """Return a random block of the partition; a new block is made of rows that are in no block yet."""
        n, size = self.system.n_rows, self.rows_per_step
        which, known = int(rng.integers(-(-n // size))), len(self.blocks)
        if which < known:
            block = self.blocks[which]
            return block if block.factor is not None else self._factored(block.rows)
        block = self._factored(self.cards.deal(min(size, n - known * size), rng))
        self.factor_budget -= block.rows.size**2
        self.blocks.append(block if self.factor_budget >= 0 else block._replace(factor=None))
        return block

    def _factored(self, rows) -> _Block:
        system, scale, factor = self.system, np.empty(rows.size), np.empty((rows.size, rows.size))
        factor_block(
            system.rows, system.b, rows, self.ridge, scale, factor, self.workspace, system.counter.flagged_rows
        )
        return _Block(rows, scale, factor)

    saved: ClassVar[dict[str, Kind]] = {
        **Plan.saved,
        "cards": CARDS,
        "momentum": in_place,
        "factor_budget": amount,
        "drawn_so_far": named(
            dict, rows=row_numbers("rows"), scale=array("rows"), kept=array(None, dtype=bool), factors=array(None)
        ),
    }
    derived = (*Plan.derived, "blocks", "workspace", "ridge")

    @property
    def drawn_so_far(self):
        """The blocks, concatenated: their rows and scales, whether their factors were kept, and the kept factors."""
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
            raise StateError("drawn_so_far: expected blocks of `block_size` rows")
        self.blocks = []
        for k, m in enumerate(sizes.tolist()):
            part, square = slice(ends[k] - m, ends[k]), slice(edges[k] - m * m, edges[k])
            factor = found["factors"][square].reshape(m, m).copy() if kept[k] else None
            self.blocks.append(_Block(found["rows"][part].copy(), found["scale"][part].copy(), factor))


@dataclass(frozen=True)
class AcceleratedBlock(RowMethod):
    """Draw blocks of a fixed random partition, with momentum (Dereziński, Needell, Rebrova and Yang 2025, Kaczmarz++).

    With ``A_t`` the normalised rows of a block, the step is ``A_t.T @ inv(A_t @ A_t.T + ridge * I) @ (b_t - A_t x)``,
    plus a multiple of the earlier steps (momentum). A block is factored when it is drawn for the first time, and the
    factors are kept as long as they fit (256 MB, or half as many numbers as A has if that is more). The momentum is
    adapted to the decrease of the probe's steps from window to window; if they grow, it is reset to zero and its weight
    is halved.

    The method is meant for decaying singular values. A system of 8,000 x 200 with condition number 100 takes 383 p rows
    to 1e-6 (220 p in blocks of p / 2), but 12,100 p with single rows, 11,500 p in blocks of 4 and 3,100 p in blocks of
    p / 4 without momentum. If A is well-conditioned, or is so except for a few large singular values that a block can
    capture, momentum gains nothing (107 p against 41 p for 20 such values).

    Parameters
    ----------
    block_size : int or None
        None stands for p / 4, at least 6 and at most 512. The factors take ``n * block_size`` numbers in total.
    ridge : float
        Regularization, which keeps steps small if a block has nearly parallel rows.
    """

    block_size: int | None = None
    ridge: float = 1e-6

    name: ClassVar[str] = "accelerated-block"
    summary: ClassVar[str] = "large blocks of a fixed partition, factored once, with momentum; for decaying spectra"
    citation: ClassVar[str] = "Dereziński, Needell, Rebrova and Yang 2025"
    # Its blocks are drawn from all rows, repeatedly.
    can: ClassVar[Capabilities] = Capabilities(stored=False)

    def __post_init__(self):
        if self.block_size is not None:
            positive_integer("block_size", self.block_size)
        number_between("ridge", self.ridge, 0.0, 1.0)

    def prepare(self, system, rng):
        """Allocate the cards that blocks are dealt from; read no rows."""
        n, p = system.n_rows, system.n_columns
        size = self.block_size or min(max(p // 4, ROWS_TOGETHER), LARGEST_BLOCK, n)
        if size > n:
            raise ValueError(f"`block_size` must be at most the number of rows, {n}, got {size}.")
        return _Plan(system, size, self.ridge)

    def advance(self, plan, iterates, n_rows, rng, drops):
        """Take steps on about `n_rows` rows.

        With momentum the squared error does not decrease by the squared step. But x and the probe undergo the same
        linear steps, so the steps of x and of the probe have the ratio of their errors.
        """
        system, momentum, order = plan.system, plan.momentum, []
        steps = np.empty_like(iterates)
        drops[:] = 0.0
        momentum.reset_if_changed(iterates)
        for _ in range(max(1, n_rows // plan.rows_per_step)):
            block = plan.draw(rng)
            project_on_factored(system.rows, system.b, *block, iterates, steps, plan.workspace)
            squares = np.einsum("ij,ij->i", steps, steps)
            momentum.apply(iterates, steps)
            momentum.learn(float(squares[1]))
            drops += squares
            order.append(block.rows)
        momentum.leave(iterates)
        return np.concatenate(order)
