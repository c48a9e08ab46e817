"""A row method over rows that are not in memory: it works on one chunk after another."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from rowsolve.checkpoint.state import Kind, fill, integer, state_of
from rowsolve.methods.base import RowMethod
from rowsolve.problem.system import System

__all__ = ["InChunks"]


class InChunks:
    """The plan of a method for the chunk in hand, made anew for every chunk.

    A chunk is a system of its own, of which a method takes as many rows as it has, in its own way (so weights, blocks
    and clusters are those of the chunk); then comes the next. To the driver it is like a `Plan`.

    Attributes
    ----------
    plan : Plan
        That of the chunk in hand.
    first : int
        The number of its first row.
    n_left : int
        How many more rows are to be taken of it.
    """

    def __init__(self, method: RowMethod, system: System, rng: np.random.Generator) -> None:
        self.method, self.system = method, system
        self.seed, self.turn = int(rng.integers(2**62)), -1
        self.plan: Any = None
        self.first = self.n_left = 0
        self.walk: Iterator[tuple[int, Any]] = system.source.endless(*self.place)  # type: ignore[attr-defined]
        self._next(rng)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["plan"], name)

    @property
    def agreeing(self) -> bool:
        """Whether the equations seem to agree."""
        return self.plan.agreeing

    @agreeing.setter
    def agreeing(self, value: bool) -> None:
        self.plan.agreeing = value

    @property
    def place(self) -> tuple[int, int, bool]:
        """Which walk it is, and which chunk of it is in hand; before there is one, the first."""
        return self.seed, max(self.turn, 0), self.method.can.in_given_order

    def _next(self, rng: np.random.Generator) -> None:
        """Go on to the next chunk."""
        self.turn += 1
        self.first, source = next(self.walk)
        chunk, before = self.system.visible(self.first, source), self.plan  # type: ignore[attr-defined]
        self.plan = self.method.begin(chunk, rng)
        if before is not None:
            self.plan.take_over(before)
        self.n_left = chunk.n_rows
        self._count(chunk)

    def _count(self, chunk: System) -> None:
        """Count in the whole what has been read of a chunk besides the rows taken."""
        chunk.look_at_odd_rows()
        self.system.counter.add(chunk.counter.take())

    def advance(self, iterates: np.ndarray, n_rows: int, rng: np.random.Generator, drops: np.ndarray) -> np.ndarray:
        """Move `iterates` with about `n_rows` rows, of as many chunks as that takes; return their numbers in A."""
        taken, n_taken, part = [], 0, np.zeros_like(drops)
        drops[:] = 0.0
        while n_taken < n_rows:
            if self.n_left < self.plan.rows_per_step:
                self._next(rng)
            self.system.source.make_sure()  # type: ignore[attr-defined]
            wanted = min(n_rows - n_taken, self.n_left)
            order = self.method.advance(self.plan, iterates, max(wanted, 1), rng, part)
            drops += part
            taken.append(self.first + order)
            n_taken += max(order.size, 1)
            self.n_left -= max(order.size, 1)
            self._count(self.plan.system)
        return np.concatenate(taken)

    saved: ClassVar[dict[str, Kind]] = {
        "seed": integer(0, 2**62), "turn": integer(0, 2**62), "n_left": integer(-math.inf),
    }  # fmt: skip
    derived: ClassVar[tuple[str, ...]] = ("method", "system", "plan", "first", "walk")

    def state(self) -> dict[str, Any]:
        """Return which chunk is in hand, what is known of it, and how far its plan has got."""
        return {**state_of(self), "chunk": self.plan.system.counter.state(), "plan": self.method.save(self.plan)}

    @classmethod
    def from_state(cls, method: RowMethod, system: System, state: Any) -> InChunks:
        """Return the plan with that state; its chunk is read again."""
        found = cls.__new__(cls)
        found.method, found.system = method, system
        fill(found, state, {}, besides=("chunk", "plan"))
        found.walk = system.source.endless(*found.place)  # type: ignore[attr-defined]
        found.first, source = next(found.walk)
        chunk = system.visible(found.first, source)  # type: ignore[attr-defined]
        found.plan = method.resume(chunk, state["plan"])
        chunk.counter.restore(state["chunk"], chunk.sizes)
        return found
