"""Methods whose rows do not depend on x: what they draw can be shared out among chains on several threads."""

from __future__ import annotations

from abc import abstractmethod
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from rowsolve._barrier import new_meeting, release_all
from rowsolve._threads import run_as_one
from rowsolve.kernels.blocks import BlockRoom, block_room, project_blocks
from rowsolve.kernels.chains import chain_room, run_chain
from rowsolve.kernels.sweep import sweep
from rowsolve.methods.base import Method, Plan, RowMethod

if TYPE_CHECKING:
    from rowsolve._system import System

__all__ = ["NO_ROWS", "ONE_BY_ONE", "Chains", "Oblivious", "ObliviousPlan", "chains_pay"]

NO_ROWS = np.empty(0, np.int64)
ONE_BY_ONE = np.empty(0, np.int64)  # the sizes of blocks, when there are none
ROWS_OF_A_ROUND = 128  # of one chain; more cost convergence, fewer cost time at the meetings
LEAST_WORK = 1_000_000  # numbers read in a burst of one chain: less is done before a second thread has woken up


class ObliviousPlan(Plan):
    """The rows to project on and, if they pay, the chains to share them out to.

    `n_extra` is how many numbers the vectors that the rows act on have more than x (see `DeflatedRows`).
    """

    def __init__(self, system: System, block_size: int = 1, n_extra: int = 0) -> None:
        work = system.entries_per_row * (1 + block_size / 2) + block_size**2 / 6 if block_size > 1 else 0.0
        super().__init__(system, work, block_size)
        self.rows: Any = system.rows
        self.b = system.b
        self.width = system.n_columns + n_extra
        self.room: BlockRoom = block_room(block_size, self.width)
        self.chains: Chains | None = None

    def project(self, order: np.ndarray, sizes: np.ndarray, iterates: np.ndarray, drops: np.ndarray) -> None:
        """Project on the rows in `order`, one by one or in blocks of the given `sizes`."""
        if self.chains is not None:
            self.chains.project(self, order, sizes, iterates, drops)
        elif sizes is ONE_BY_ONE:
            sweep(self.rows, self.b, order, iterates, drops, self.system.odd)
        else:
            project_blocks(self.rows, self.b, order, sizes, iterates, drops, self.room, self.system.odd)


class Oblivious(RowMethod):
    """A method that draws rows without looking at x."""

    @abstractmethod
    def draw(self, plan: Any, n_rows: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Return about `n_rows` rows and the sizes of the blocks they come in, or `ONE_BY_ONE`."""

    def advance(self, plan, iterates, n_rows, rng, drops):
        """Project on about `n_rows` rows."""
        order, sizes = self.draw(plan, n_rows, rng)
        plan.project(order, sizes, iterates, drops)
        return order


class Chains:
    """One chain for each thread, and the arrays they work in. See `rowsolve.kernels.chains`."""

    def __init__(self, plan: ObliviousPlan, n_chains: int) -> None:
        self.n_chains, p = n_chains, plan.system.n_columns
        self.shown, self.gained = np.empty((2, n_chains, 2, plan.width)), np.empty((2, n_chains, 2))
        self.rooms = [chain_room(n_chains, plan.width, plan.room.scale.size) for _ in range(n_chains)]
        # Sparse rows: bringing the chains together must not cost more than running them.
        rows = max(min(ROWS_OF_A_ROUND, p // (4 * n_chains)), 8 * p / plan.system.entries_per_row)
        self.units_of_a_round = max(1, int(rows / plan.rows_per_step))

    def project(self, plan: ObliviousPlan, order, sizes, iterates, drops) -> None:
        """Project on the rows in `order` with all chains; fill `drops`."""
        edges = sizes if sizes is ONE_BY_ONE else np.concatenate([[0], np.cumsum(sizes)])
        meeting = new_meeting()

        def chain(me: int) -> None:
            run_chain(
                plan.rows, plan.b, order, edges, self.units_of_a_round, me,
                iterates, self.shown, self.gained, meeting, self.rooms[me],
            )  # fmt: skip

        run_as_one([partial(chain, me) for me in range(self.n_chains)], lambda: release_all(meeting))
        iterates[:], drops[:] = self.rooms[0].start, self.rooms[0].drops
        for room in self.rooms:
            np.maximum(plan.system.odd, room.odd, out=plan.system.odd)
            room.odd[:] = -1


def chains_pay(method: Method, n_columns: int, entries_per_row: float, threads: int) -> bool:
    """Tell whether `method` is to run in chains: on several threads, in bursts long enough for more than one."""
    work = max(n_columns, 64) * entries_per_row
    return isinstance(method, Oblivious) and threads > 1 and work >= LEAST_WORK
