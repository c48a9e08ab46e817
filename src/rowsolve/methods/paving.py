"""Block Kaczmarz over a fixed partition with a controlled spectrum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from rowsolve.checkpoint.state import Kind, StateError, array, integer, optional, sided, tuple_of
from rowsolve.kernels.blocks import block_workspace
from rowsolve.kernels.rows import DenseRows, frozen
from rowsolve.methods.base import one_of, positive_integer
from rowsolve.methods.drawing import Blocks, blocks_of_rows
from rowsolve.methods.oblivious import Oblivious, ObliviousPlan
from rowsolve.partition.pavings import KINDS, blocks_of, incoherence_transform

__all__ = ["Paving"]


class _Plan(ObliviousPlan):
    """Blocks of the rows of A, or of `mixed` rows and their b."""

    def __init__(self, system, blocks, block_size, mixed=None):
        super().__init__(system, block_size)
        self.blocks: Blocks = blocks
        self.workspace = block_workspace(max(blocks.largest, block_size), system.n_columns)
        self.mixed: tuple[np.ndarray, np.ndarray] | None = mixed
        if mixed is not None:
            self.rows, self.b = DenseRows(mixed[0]), mixed[1]

    def draw(self, n_rows, rng):
        """Draw about `n_rows` rows, a block at a time."""
        return self.blocks.draw(max(1, n_rows // self.rows_per_step), rng)

    saved: ClassVar[dict[str, Kind]] = {
        **ObliviousPlan.saved,
        "rows_per_step": integer(1),
        "blocks": blocks_of_rows,
        "mixed": optional(tuple_of(array("n", "p", frozen=True), sided("n", frozen=True))),
    }
    derived = tuple(name for name in ObliviousPlan.derived if name != "rows_per_step")

    @classmethod
    def from_state(cls, method, system, state):
        """Return the plan with that state."""
        if (state.get("mixed") is None) is (method.kind == "incoherent"):
            raise StateError("mixed: expected transformed rows if and only if kind='incoherent'")
        names, sizes = ("blocks", "rows_per_step", "mixed"), system.sizes
        blocks, size, mixed = (cls.saved[name](state.get(name), sizes) for name in names)
        if size > blocks.largest:
            raise StateError(f"rows_per_step: expected at most {blocks.largest}, got {size}")
        plan = cls(system, blocks, size, mixed)
        plan.restore(state)
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
        if self.kind != "incoherent":
            return _Plan(system, Blocks.of(blocks), size)
        mixed = _transformed(system, rng)
        blocks = np.array_split(rng.permutation(system.n_rows), max(1, len(blocks)))
        return _Plan(system, Blocks.of(blocks), size, mixed)


def _transformed(system, rng) -> tuple[np.ndarray, np.ndarray]:
    if not isinstance(system.rows, DenseRows):
        raise ValueError(
            "`kind='incoherent'` mixes all rows, which would make a sparse `A` dense: use another kind, or pass "
            "`A.toarray()`."
        )
    A, b = incoherence_transform(np.asarray(system.rows.values, dtype=float), system.b, rng)
    system.counter.add(system.n_rows)
    system.counter.use_all()
    return frozen(np.ascontiguousarray(A)), frozen(np.ascontiguousarray(b))
