"""Block Kaczmarz over a fixed partition with a controlled spectrum."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, Literal

import numpy as np

from rowsolve.checkpoint.state import Kind, StateError, array, integer, optional, row_numbers, sided, tuple_of
from rowsolve.kernels.blocks import block_workspace
from rowsolve.kernels.rows import DenseRows, frozen
from rowsolve.methods.base import check_edges, one_of, positive_integer
from rowsolve.methods.oblivious import NO_ROWS, ONE_BY_ONE, Oblivious, ObliviousPlan
from rowsolve.partition.pavings import KINDS, blocks_of, incoherence_transform

__all__ = ["Paving"]


class _Plan(ObliviousPlan):
    blocks: list[np.ndarray]

    saved: ClassVar[dict[str, Kind]] = {
        **ObliviousPlan.saved,
        "rows_per_step": integer(1),
        "partition": tuple_of(row_numbers(), array(None, dtype=np.int64)),
        "mixed": optional(tuple_of(array("n", "p", frozen=True), sided("n", frozen=True))),
    }
    derived = (*(name for name in ObliviousPlan.derived if name != "rows_per_step"), "blocks")

    @property
    def partition(self):
        """The rows of all blocks, concatenated, and the index at which each block starts."""
        sizes = [block.size for block in self.blocks]
        return np.concatenate([NO_ROWS, *self.blocks]), np.cumsum([0, *sizes])

    @partition.setter
    def partition(self, value):
        members, starts = value
        check_edges(starts, members.size)
        self.blocks = [members[start:stop] for start, stop in pairwise(starts)] if members.size else []

    @property
    def mixed(self):
        """The transformed rows and b, or None if those of A are used."""
        return None if self.rows is self.system.rows else (self.rows.values, self.b)

    @mixed.setter
    def mixed(self, value):
        if value is not None:
            self.rows, self.b = DenseRows(value[0]), value[1]

    @classmethod
    def from_state(cls, method, system, state):
        """Return the plan with that state."""
        if (state.get("mixed") is None) is (method.kind == "incoherent"):
            raise StateError("mixed: expected rows that were mixed, or none")
        members, starts = cls.saved["partition"](state.get("partition"), system.sizes)
        check_edges(starts, members.size)
        largest = int(np.diff(starts).max(initial=1))
        plan = cls(system, integer(1, largest)(state.get("rows_per_step"), system.sizes))
        plan.restore(state)
        plan.workspace = block_workspace(largest, system.n_columns)
        return plan


@dataclass(frozen=True)
class Paving(Oblivious):
    """Partition the rows once, then project on a block drawn uniformly (Needell and Tropp 2014).

    Parameters
    ----------
    kind : {"random", "incoherent", "subset", "cluster"}
        The kind of partition, see `rowsolve.pave`. ``"incoherent"`` uses an orthogonal transform of the rows, a dense
        copy of A, which does not change the solution.
    n_blocks : int or None
        None stands for the squared spectral norm of the normalised rows, which gives blocks of somewhat fewer than p
        rows. A projection on a block of t rows takes about ``t**2 p / 2`` operations.
    n_directions : int
        Size of the memory, which saves rows on ill-conditioned systems (see `rowsolve.methods.oblivious.Oblivious`).
    """

    kind: Literal["random", "incoherent", "subset", "cluster"] = "random"
    n_blocks: int | None = None

    name: ClassVar[str] = "paving"
    summary: ClassVar[str] = "blocks of a fixed partition with a controlled spectrum"
    citation: ClassVar[str] = "Needell and Tropp 2014"
    plan_type: ClassVar[type[_Plan]] = _Plan

    def __post_init__(self):
        super().__post_init__()
        one_of("kind", self.kind, KINDS)
        if self.n_blocks is not None:
            positive_integer("n_blocks", self.n_blocks)

    def prepare(self, system, rng):
        """Partition the rows (at least one pass, and another one for ``"incoherent"``)."""
        blocks = blocks_of(system, self.kind, self.n_blocks, rng)
        size = max((block.size for block in blocks), default=1)
        plan = _Plan(system, size)
        plan.blocks = blocks
        if self.kind == "incoherent":
            plan.rows, plan.b = _transformed(system, rng)
            plan.blocks = np.array_split(rng.permutation(system.n_rows), max(1, len(blocks)))
            plan.workspace = block_workspace(max(block.size for block in plan.blocks), system.n_columns)
        return plan

    def draw(self, plan, n_rows, rng):
        """Draw about `n_rows` rows, a block at a time."""
        if not plan.blocks:  # A is all zero
            return NO_ROWS, ONE_BY_ONE
        picked = rng.integers(0, len(plan.blocks), max(1, n_rows // plan.rows_per_step))
        chosen = [plan.blocks[t] for t in picked]
        return np.concatenate(chosen), np.array([block.size for block in chosen])


def _transformed(system, rng) -> tuple[DenseRows, np.ndarray]:
    if not isinstance(system.rows, DenseRows):
        raise ValueError(
            "`kind='incoherent'` mixes all rows, which would make a sparse `A` dense: use another kind, or pass "
            "`A.toarray()`."
        )
    A, b = incoherence_transform(np.asarray(system.rows.values, dtype=float), system.b, rng)
    system.counter.add(system.n_rows)
    system.counter.use_all()
    return DenseRows(frozen(np.ascontiguousarray(A))), frozen(np.ascontiguousarray(b))
