"""A row method for rows that are not in memory: it works on one chunk after another."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from rowsolve.checkpoint.state import Kind, fill, integer, state_of
from rowsolve.methods.base import RowMethod
from rowsolve.problem.system import System, loaded

__all__ = ["InChunks"]


class InChunks:
    """The plan of a method for the current chunk, prepared again for every chunk.

    A chunk is a system of its own, so weights, blocks and clusters are those of the chunk. The method draws as many
    rows as the chunk has, then the next chunk is read. The interface is that of a `Plan`.

    Attributes
    ----------
    plan : Plan
        The plan for the current chunk.
    first : int
        The index of the first row of the chunk.
    n_left : int
        The number of rows still to be taken from the chunk.
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
        """Whether the system seems consistent."""
        return self.plan.agreeing

    @agreeing.setter
    def agreeing(self, value: bool) -> None:
        self.plan.agreeing = value

    @property
    def place(self) -> tuple[int, int, bool]:
        """The walk over all chunks, and the current chunk of it; initially the first."""
        return self.seed, max(self.turn, 0), self.method.can.in_given_order

    def _next(self, rng: np.random.Generator) -> None:
        """Continue with the next chunk."""
        self.turn += 1
        self.first, source = next(self.walk)
        chunk, before = loaded(self.system, source, range(self.first, self.first + source.shape[0])), self.plan
        self.plan = self.method.begin(chunk, rng)
        if before is not None:
            self.plan.take_over(before)
        self.n_left = chunk.n_rows
        self._count(chunk)

    def _count(self, chunk: System) -> None:
        """Add the rows of a chunk that were read besides those taken to the counter of the whole system."""
        chunk.check_flagged()
        self.system.counter.add(chunk.counter.take())

    def advance(self, iterates: np.ndarray, n_rows: int, rng: np.random.Generator, drops: np.ndarray) -> np.ndarray:
        """Update `iterates` with about `n_rows` rows, from one or more chunks; return their indices in A."""
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
        """Return the current chunk, what is known of it, and the state of its plan."""
        return {**state_of(self), "chunk": self.plan.system.counter.state(), "plan": self.method.save(self.plan)}

    @classmethod
    def from_state(cls, method: RowMethod, system: System, state: Any) -> InChunks:
        """Return the plan with that state; its chunk is read again."""
        found = cls.__new__(cls)
        found.method, found.system = method, system
        fill(found, state, {}, besides=("chunk", "plan"))
        found.walk = system.source.endless(*found.place)  # type: ignore[attr-defined]
        found.first, source = next(found.walk)
        chunk = loaded(system, source, range(found.first, found.first + source.shape[0]))
        found.plan = method.resume(chunk, state["plan"])
        chunk.counter.restore(state["chunk"], chunk.sizes)
        return found
