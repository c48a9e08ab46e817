"""A row method for rows that are not in memory: it works on one chunk after another."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from rowsolve.checkpoint.state import Kind, check_keys, integer, state_of
from rowsolve.methods.base import RowMethod
from rowsolve.problem.system import System, loaded

__all__ = ["InChunks"]


@dataclass(frozen=True)
class InChunks(RowMethod):
    """Another method, which is prepared again for every chunk.

    A chunk is a system of its own, so weights, blocks and clusters are those of the chunk. The method draws as many
    rows as the chunk has, then the next chunk is read.
    """

    method: RowMethod

    def prepare(self, system, rng):
        """Prepare the method for the first chunk."""
        plan = _Plan(self.method, system, int(rng.integers(2**62)))
        plan.next_chunk(rng)
        return plan

    def advance(self, plan, iterates, n_rows, rng, drops):
        """Take about `n_rows` rows, from one or more chunks; return their indices in A."""
        return plan.advance(iterates, n_rows, rng, drops)

    def resume(self, system, state):
        """Return the plan of an earlier run; its chunk is read again."""
        return _Plan.from_state(self.method, system, state)


class _Plan:
    """The plan of a method for the current chunk. The interface is that of a `Plan`.

    Attributes
    ----------
    plan : Plan
        The plan for the current chunk.
    first : int
        The index of the first row of the chunk.
    n_left : int
        The number of rows still to be taken from the chunk.
    """

    def __init__(self, method: RowMethod, system: System, seed: int, turn: int = 0) -> None:
        self.method, self.system = method, system
        self.seed, self.turn = seed, turn  # the walk over all chunks, and the current chunk of it
        self.walk = system.source.endless(seed, turn, method.can.in_given_order)  # type: ignore[attr-defined]
        self.plan: Any = None
        self.first = self.n_left = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["plan"], name)

    def next_chunk(self, rng: np.random.Generator) -> None:
        """Prepare the method for the next chunk, or for the first."""
        chunk, before = self._read(), self.plan
        self.plan = self.method.begin(chunk, rng)
        if before is not None:
            self.turn += 1
            self.plan.continue_from(before)
        self.n_left = chunk.n_rows
        self._count(chunk)

    def _read(self) -> System:
        self.first, source = next(self.walk)
        return loaded(self.system, source, range(self.first, self.first + source.shape[0]))

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
                self.next_chunk(rng)
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
    def from_state(cls, method: RowMethod, system: System, state: Any) -> _Plan:
        """Return the plan with that state; its chunk is read again."""
        check_keys(state, (*cls.saved, "chunk", "plan"))
        seed, turn, n_left = (kind(state[name], {}) for name, kind in cls.saved.items())
        found = cls(method, system, seed, turn)
        found._resume(n_left, state["plan"], state["chunk"])
        return found

    def _resume(self, n_left: int, plan: Any, counter: Any) -> None:
        chunk = self._read()
        self.plan, self.n_left = self.method.resume(chunk, plan), n_left
        chunk.counter.restore(counter, chunk.sizes)
