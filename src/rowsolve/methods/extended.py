"""Randomized extended Kaczmarz: the least-squares solution of an inconsistent system."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rowsolve.checkpoint.state import Kind, array, optional
from rowsolve.kernels.extended import extended_sweep, residual_of
from rowsolve.kernels.rows import norms_of
from rowsolve.kernels.sampling import deck_by_weight, draw_many
from rowsolve.methods.base import Capabilities, Plan, RowMethod

__all__ = ["Extended"]


class _Plan(Plan):
    """The transposed copy of A, the decks of its rows and columns, and the copy of b that columns are removed from."""

    def __init__(self, system):
        n, p = system.n_rows, system.n_columns
        super().__init__(system, system.entries_per_row * (1 + n / p), price_of_row=1 + n / p)
        norms_sq, self.column_norms_sq = system.norms_sq(), np.empty(p)
        self.columns = system.source.columns()
        norms_of(self.columns, np.zeros(p), 0, p, self.column_norms_sq, np.full(3, -1))
        system.counter.add(n)
        self.deck, self.column_deck = deck_by_weight(norms_sq), deck_by_weight(self.column_norms_sq)
        self.residual: np.ndarray | None = None

    def residual_at(self, x) -> np.ndarray:
        """Return the copy of b; at first ``b - A x``, with which steps do not move x if it is the solution."""
        if self.residual is None:
            self.residual = _residual_at(self.system, x)
        return self.residual

    saved: ClassVar[dict[str, Kind]] = {**Plan.saved, "residual": optional(array("n"))}
    derived = (*Plan.derived, "deck", "columns", "column_norms_sq", "column_deck")


@dataclass(frozen=True)
class Extended(RowMethod):
    """Alternate between a column and a row, each drawn by squared norm (Zouzias and Freris 2013).

    A column step makes a copy of b orthogonal to the column; the copy converges to the residual of the least-squares
    solution, and x to the least-squares solution of minimum norm. So the method converges for
    inconsistent systems, for which the other row methods fluctuate. But each step also reads a column of n numbers, and
    thus costs ``1 + n / p`` rows, and a transposed copy of A is kept. A is read twice beforehand.
    """

    name: ClassVar[str] = "extended"
    summary: ClassVar[str] = "a random row and a random column in turn; converges to the least-squares solution"
    citation: ClassVar[str] = "Zouzias and Freris 2013"
    # It reads columns, so all rows must be in memory.
    can: ClassVar[Capabilities] = Capabilities(least_squares=True, stored=False)

    def prepare(self, system, rng):
        """Transpose A (one pass) and compute the norms of its rows and columns (another)."""
        return _Plan(system)

    def advance(self, plan, iterates, n_rows, rng, drops):
        """Take `n_rows` steps, each with a column and a row."""
        system, residual = plan.system, plan.residual_at(iterates[0])
        order, column_order = np.empty(n_rows, np.int64), np.empty(n_rows, np.int64)
        draw_many(plan.deck, 0, rng, order)
        draw_many(plan.column_deck, 0, rng, column_order)
        extended_sweep(
            system.rows, system.b, order, plan.columns, plan.column_norms_sq, column_order,
            residual, iterates, drops, system.counter.flagged_rows,
        )  # fmt: skip
        system.counter.add(round(n_rows * system.n_rows / system.n_columns))  # the columns, in rows
        return order


def _residual_at(system, x) -> np.ndarray:
    """Return ``b - A x``."""
    residual = system.b.copy()

    def fill(piece, start, stop, _odd):
        residual_of(piece.rows, system.b, start, stop, x, residual)

    if x.any():
        system.pass_over(fill)
    return residual
