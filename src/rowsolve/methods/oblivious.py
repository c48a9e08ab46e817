"""Methods whose rows do not depend on x, so that they can run in chains on several threads, or with memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from rowsolve.checkpoint.state import Kind, StateError, array, check_keys, fill, integer, packed, state_of
from rowsolve.kernels import chains
from rowsolve.kernels.blocks import BlockWorkspace, block_workspace, project_blocks
from rowsolve.kernels.many import laid_out, project_many
from rowsolve.kernels.memory import best_with_memory
from rowsolve.kernels.rounds import cancel, new_progress, run_rounds
from rowsolve.kernels.rows import CSRRows
from rowsolve.kernels.sweep import sweep
from rowsolve.methods.base import Capabilities, Plan, RowMethod, positive_integer
from rowsolve.methods.drawing import ONE_BY_ONE
from rowsolve.parallel.pool import run_as_one, run_together
from rowsolve.parallel.vectors import sum_of_squares
from rowsolve.policy.thresholds import (
    FEW_COLUMNS,
    MEMORY_WINDOW,
    NUMBERS_IN_CACHE,
    POLLS_PER_NUMBER,
    ROUND_OF_A_CHAIN,
    ROWS_TOGETHER,
)
from rowsolve.problem.system import System

__all__ = ["Oblivious", "ObliviousPlan", "sweep_rows"]


class ObliviousPlan(Plan):
    """The rows to project on, the chains that they are distributed to, if any, and the memory, if any.

    A subclass draws the rows.

    Parameters
    ----------
    system : System
    block_size : int, optional
        The number of rows that are projected on at once, at most.
    n_extra : int, optional
        The number of entries that the vectors which rows act on have in addition to x (see `DeflatedRows`).
    """

    def __init__(self, system: System, block_size: int = 1, n_extra: int = 0) -> None:
        work = system.entries_per_row * (1 + block_size / 2) + block_size**2 / 6 if block_size > 1 else 0.0
        super().__init__(system, work, block_size)
        self.work_per_row *= (system.n_rhs + 1) / 2
        self.rows: Any = system.rows
        self.b = system.b
        self.width = system.n_columns + n_extra
        self.workspace: BlockWorkspace = block_workspace(block_size, self.width)
        self.chains: Chains | None = None
        self.directions: Directions | None = None

    def draw(self, n_rows: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Return about `n_rows` rows and the sizes of the blocks they come in, or `ONE_BY_ONE`."""
        raise NotImplementedError

    def distribute(self, n_chains: int) -> None:
        """Distribute the rows of each burst to chains, one for each thread."""
        self.chains = Chains(self, n_chains)

    def remember(self, n_directions: int) -> None:
        """Keep so many directions in memory."""
        self.directions, self.window = Directions(self, n_directions), MEMORY_WINDOW

    def continue_from(self, before: Any) -> None:
        """Keep the memory of the plan before."""
        super().continue_from(before)
        self.directions, self.window = before.directions, before.window

    @property
    def n_chains(self) -> int:
        """The number of chains."""
        return 1 if self.chains is None else self.chains.n_chains

    @property
    def assumes_consistency(self) -> bool:
        """Whether x is moved by a combination of chains or by memory."""
        return self.seems_consistent and (self.chains is not None or self.directions is not None)

    def project(self, order: np.ndarray, sizes: np.ndarray, iterates: np.ndarray, drops: np.ndarray) -> None:
        """Project on the rows in `order`, one by one or in blocks of the given `sizes`."""
        if self.directions is not None and self.seems_consistent:
            self.directions.project(self, order, sizes, iterates, drops)
        else:
            self.project_once(order, sizes, iterates, drops)

    def project_once(self, order: np.ndarray, sizes: np.ndarray, iterates: np.ndarray, drops: np.ndarray) -> None:
        """Project on the rows in `order` without memory."""
        if self.system.n_rhs > 1:
            _project_many(self.system, self.rows, self.b, self.system.facts.b_magnitude, order, sizes, iterates, drops)
        elif self.chains is not None and self.seems_consistent:
            self.chains.project(self, order, sizes, iterates, drops)
        elif sizes is ONE_BY_ONE:
            sweep(self.rows, self.b, order, iterates, drops, self.system.counter.flagged_rows)
        else:
            project_blocks(
                self.rows, self.b, order, sizes, iterates, drops, self.workspace, self.system.counter.flagged_rows
            )

    derived = (*Plan.derived, "rows", "b", "width", "workspace", "chains", "directions")

    def state(self) -> dict[str, Any]:
        """Return the state for a checkpoint."""
        return {**super().state(), "directions": packed(self.directions)}

    def restore(self, state: Any) -> None:
        """Set the state to one that `state` returned."""
        check_keys(state, (*self.saved, "others", "directions"))
        super().restore({key: value for key, value in state.items() if key != "directions"})
        if state["directions"] is not None:
            self.directions = Directions.from_state(self, state["directions"])

    @classmethod
    def from_state(cls, method: Any, system: System, state: Any) -> Any:
        """Return the plan with that state."""
        plan = cls(system)
        plan.restore(state)
        return plan


@dataclass(frozen=True)
class Oblivious(RowMethod):
    """A method that draws rows independently of x.

    Parameters
    ----------
    n_directions : int
        The size of the memory. After about every p / 2 rows, x is moved to the best point in the span of the last move
        and the directions in memory (see `rowsolve.kernels.memory`). This saves few rows if A is well-conditioned, but
        many if the rows are in tight clusters or if A has a few large singular values. Memory assumes a consistent
        system and is not used while the system seems inconsistent. With memory, the rows are not distributed to
        threads.
    """

    n_directions: int = field(default=0, kw_only=True)

    def __post_init__(self):
        positive_integer("n_directions", self.n_directions, least=0)

    can: ClassVar[Capabilities] = Capabilities(many_b=True, bounds=True)

    def runs_in_chains(self, n_columns, entries_per_row, threads):
        """Return whether the rows are distributed: with several threads, if a burst is long enough for more than one.

        With memory they are not: where memory helps, the moves of several chains are nearly parallel, and a single
        chain with memory converges faster.
        """
        work = max(n_columns, FEW_COLUMNS) * entries_per_row
        return not self.n_directions and threads > 1 and work >= NUMBERS_IN_CACHE

    def begin(self, system, rng):
        """Return a plan with chains, if they pay, or with memory."""
        plan = self.prepare(system, rng)
        if self.n_directions:
            plan.remember(self.n_directions)
        return self._in_chains(plan)

    def resume(self, system, state):
        """Return the plan of an earlier run, with chains if they pay."""
        return self._in_chains(super().resume(system, state))

    def _in_chains(self, plan):
        system = plan.system
        if system.n_rhs == 1 and self.runs_in_chains(system.n_columns, system.entries_per_row, system.limits.threads):
            plan.distribute(system.limits.threads)
        return plan

    def advance(self, plan, iterates, n_rows, rng, drops):
        """Project on about `n_rows` rows."""
        order, sizes = plan.draw(n_rows, rng)
        plan.project(order, sizes, iterates, drops)
        return order


class Chains:
    """One chain for each thread, and their workspace. See `rowsolve.kernels.chains`."""

    def __init__(self, plan: ObliviousPlan, n_chains: int) -> None:
        self.n_chains, p = n_chains, plan.system.n_columns
        self.legs, self.states, self.workspaces = chains.chain_workspaces(
            n_chains, plan.width, plan.workspace.scale.size
        )
        # Sparse rows: combining the chains must not cost more than running them.
        rows = max(min(ROUND_OF_A_CHAIN, p // (4 * n_chains)), 8 * p / plan.system.entries_per_row)
        self.units_of_a_round = max(1, int(rows / plan.rows_per_step))
        self.patience = int(POLLS_PER_NUMBER * self.units_of_a_round * plan.rows_per_step * plan.work_per_row)

    def project(self, plan: ObliviousPlan, order, sizes, iterates, drops) -> None:
        """Project on the rows in `order` with all chains; fill `drops`."""
        edges = sizes if sizes is ONE_BY_ONE else np.concatenate([[0], np.cumsum(sizes)])
        progress, states = new_progress(self.n_chains), self.states
        states.start[0, 0], states.drops[0, 0], states.flagged_rows[0, 0] = iterates, 0.0, -1

        def run(me: int) -> int:
            workspace, per_round = self.workspaces[me], self.units_of_a_round
            work = chains.Chains(plan.rows, plan.b, order, edges, per_round, self.legs, states, workspace)
            return run_rounds(work, self.patience, me, progress)

        last = run_as_one([partial(run, me) for me in range(self.n_chains)], lambda: cancel(progress)) % 2
        iterates[:], drops[:] = states.start[last, 0], states.drops[last, 0]
        np.maximum(plan.system.counter.flagged_rows, states.flagged_rows[last, 0], out=plan.system.counter.flagged_rows)


class Directions:
    """The memory: directions in which the errors of x and of the probe are minimal. See `rowsolve.kernels.memory`."""

    def __init__(self, plan: ObliviousPlan, count: int) -> None:
        p, entries, n_vectors = plan.system.n_columns, plan.system.entries_per_row, plan.system.n_rhs + 1
        self.kept = np.empty((n_vectors, count, p))
        self.best, self.gains = np.empty((n_vectors, p)), np.empty(n_vectors)
        # Sparse rows: the directions must not cost more than the rows.
        self.rows_of_a_round = max(p / 2, 32, 2 * count * p / entries)
        self.n_followed, self.end = 0, np.full((n_vectors, p), np.nan)

    def project(self, plan: ObliviousPlan, order, sizes, iterates, drops) -> None:
        """Project on the rows in `order`, in rounds, with a step with memory after each; fill `drops`."""
        if not np.array_equal(self.end, iterates):  # they were changed elsewhere: the errors are no longer orthogonal
            self.n_followed = 0
        total = np.zeros_like(drops)
        for rows, blocks in self._rounds(order, sizes):
            start = iterates.copy()
            plan.project_once(rows, blocks, iterates, drops)
            self._follow(start, iterates, drops)
            total += drops
        self.end[:], drops[:] = iterates, total

    def _rounds(self, order, sizes) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        n_rounds = max(1, round(order.size / self.rows_of_a_round))
        if sizes is ONE_BY_ONE:
            yield from ((rows, sizes) for rows in np.array_split(order, n_rounds))
            return
        edges = np.concatenate([[0], np.cumsum(sizes)])
        for units in np.array_split(np.arange(sizes.size), min(n_rounds, sizes.size)):
            yield order[edges[units[0]] : edges[units[-1] + 1]], sizes[units]

    def _follow(self, start, iterates, drops) -> None:
        """Move `iterates` to the best points, unless the moves from `start` are in the memory's span; update `drops`.

        The error of the probe is known: if it increases, the directions are inaccurate because of rounding.
        """
        count = self.kept.shape[1]
        n_kept, place = min(self.n_followed, count), self.n_followed % count
        ends = np.ascontiguousarray(iterates)
        for c in range(len(ends)):
            self.gains[c] = best_with_memory(start[c], ends[c], drops[c], self.kept[c], n_kept, place, self.best[c])
        if self.gains.min() < 0.0 or sum_of_squares(self.best[-1]) > sum_of_squares(start[-1]):
            self.n_followed = 0
            return
        iterates[:], drops[:] = self.best, self.gains
        self.n_followed += 1

    saved: ClassVar[dict[str, Kind]] = {
        "kept": array("v", "count", "p"), "n_followed": integer(), "end": array("v", "p"),
    }  # fmt: skip
    derived: ClassVar[tuple[str, ...]] = ("best", "gains", "rows_of_a_round")

    def state(self) -> dict[str, Any]:
        """Return the directions, and the iterates after the last step."""
        return state_of(self)

    @classmethod
    def from_state(cls, plan: ObliviousPlan, state: Any) -> Directions:
        """Return the memory with that state."""
        check_keys(state, cls.saved)
        kept = cls.saved["kept"](state["kept"], plan.system.sizes)
        if not kept.shape[1]:
            raise StateError("directions: expected at least one")
        directions = cls(plan, kept.shape[1])
        fill(directions, state, plan.system.sizes)
        return directions


def sweep_rows(system: System, order: np.ndarray, iterates: np.ndarray, drops: np.ndarray) -> None:
    """Project the x of each right-hand side, and the probe, on the rows in `order`, one by one; add to `drops`."""
    own = np.empty_like(drops)
    for part in system.parts(order):
        if system.n_rhs == 1:
            sweep(part.rows, part.of(system.b), part.order, iterates, own, system.counter.flagged_rows)
        else:
            _project_many(
                system,
                part.rows,
                part.of(system.b),
                part.of(system.facts.b_magnitude),
                part.order,
                ONE_BY_ONE,
                iterates,
                own,
            )
        drops += own


def _project_many(system: System, rows: Any, b: np.ndarray, b_magnitude, order, sizes, iterates, drops) -> None:
    """Project an even number of the iterates on all rows in each thread, so that results are always the same."""
    in_turn = sizes is ONE_BY_ONE
    if in_turn:  # products of sparse rows with each other do not pay
        at_once = 1 if isinstance(rows, CSRRows) else ROWS_TOGETHER
        sizes = np.full(-(-order.size // at_once), at_once)
        sizes[-1:] = order.size - at_once * (sizes.size - 1)
    work = order.size * system.entries_per_row * len(iterates)
    share = 2 * -(-len(iterates) // (2 * system.limits.threads_for(work)))
    parts = list(pairwise([*range(0, len(iterates), share), len(iterates)]))
    flags = np.full((len(parts), 3), -1)

    def project(start: int, stop: int, flagged_rows: np.ndarray) -> None:
        part, workspace = (
            laid_out(rows, iterates[start:stop]),
            block_workspace(max(sizes, default=1), system.n_columns, share),
        )
        project_many(
            rows, b, b_magnitude, start, order, sizes, in_turn, part, drops[start:stop], workspace, flagged_rows
        )
        iterates[start:stop] = part

    run_together([partial(project, *part, flagged_rows) for part, flagged_rows in zip(parts, flags, strict=True)])
    np.maximum(system.counter.flagged_rows, flags.max(axis=0), out=system.counter.flagged_rows)
