"""Solving with a factor of all rows: a sparse one, or a dense one by LAPACK where the system is small."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from rowsolve._blas import blas_threads
from rowsolve._solution import Status
from rowsolve._state import Kind, array, fill, integer, number, packed, state_of
from rowsolve._vectors import norm, norms, products
from rowsolve.kernels.rows import CSRRows
from rowsolve.lstsq.box import fit_within
from rowsolve.lstsq.dense import fit
from rowsolve.methods.base import Step
from rowsolve.methods.descent import Descent
from rowsolve.methods.factor import QR_PER_PRODUCT, find_odd_rows, gather
from rowsolve.methods.sparse_factor import SparseFactor, eliminated

if TYPE_CHECKING:
    from rowsolve._monitor import Tolerance
    from rowsolve._system import System
    from rowsolve.methods.factor import Factor

__all__ = ["AT_ONCE", "ExactSteps", "by_lapack", "fits_lapack"]

_SHRINKS = 0.1  # of the error that a step leaves, at most
_TRIES = 2  # steps that leave more, before others take over
SMALL = 2e9  # multiplications of a dense factor of all rows: some tenths of a second
AT_ONCE = 5e7  # the same of a factor that takes next to no time
_SMALL_BOX = 2e8  # the same where entries of x may have to be exchanged many times
_EPS = float(np.finfo(float).eps)
_LEAST = 1e-280  # sum of squares below which rows may be too small to be squared
_COPIES = 3  # of A, while it is factored


class _Exact(Descent):
    """Newton's steps: ``x + (R'R)**-1 A'(b - A x)``, each from a gradient that is computed anew.

    What the factor makes of a gradient is how far x is from the solution. There is no need for a probe (it stays zero):
    the factor is known to have digits enough.
    """

    def __init__(self, system: System, x0: np.ndarray, factor: Factor) -> None:
        self.system, self.factor, self.under_way, self.no_time_for_factor = system, factor, None, False
        self.at = np.vstack([x0, np.zeros(system.n_columns)])
        self.start()

    def start(self) -> None:
        """Compute the gradient at x, and what is left of the way."""
        gradients, self.squares = self._gradients(1.0, self.at)
        self._downhill = np.ascontiguousarray(gradients)
        self.residual_sq = self.squares[:-1]
        if self.system.damp:
            self.residual_sq = self.residual_sq + self.system.damp**2 * products(self.x, self.x)
        assert self.factor is not None
        self.factor.solve(self._downhill[:-1])
        self.error = norms(self._downhill[:-1])

    def step(self, wanted: np.ndarray | None = None) -> None:
        """Go there, with all x: it costs no more than with those `wanted`."""
        self.at += self._downhill
        self.start()

    saved: ClassVar[dict[str, Kind]] = {
        **dict.fromkeys(("at", "_downhill"), array("v", "p")),
        "squares": array("v"),
        **dict.fromkeys(("residual_sq", "error"), array("k")),
        "seconds_a_pass": number,
    }
    derived = ("system", "factor", "under_way", "no_time_for_factor")

    def state(self) -> dict[str, Any]:
        """Return where it has got to."""
        return {**state_of(self), "factor": packed(self.factor)}

    @classmethod
    def restored(cls, system: System, state: Any) -> _Exact:
        """Return the steps that have got there."""
        found = cls.__new__(cls)
        found.system, found.under_way, found.no_time_for_factor = system, None, False
        fill(found, state, system.sizes, besides=("factor",))
        found.factor = SparseFactor.from_state(state["factor"], system.sizes)
        return found


def fits_lapack(system: System, most: float = SMALL) -> bool:
    """Tell whether all rows can be written out in memory and factored with at most so many multiplications."""
    n, p = system.n_rows, system.n_columns
    products = n * float(p) * min(n, p)
    fits = products <= most and 8.0 * _COPIES * n * p <= system.room
    return not system.stored and fits and system.has_time_for(QR_PER_PRODUCT * products)


def by_lapack(system: System, x0: np.ndarray, tolerance: Tolerance) -> Step:
    """Return the least-squares solution of all rows, written out; within the bounds, if there are any."""
    n, p = system.n_rows, system.n_columns
    order = np.arange(n)
    (part,) = system.parts(order)
    (rows,) = gather(part, p, room=math.inf)
    if not _LEAST < np.einsum("ij,ij->", rows, rows) < math.inf:
        find_odd_rows(system, order)  # raises, unless all are zero or only the sum leaves the range
    with blas_threads(n * float(p) * min(n, p), system.threads):
        step, n_reads = (
            _fit(system, rows, x0, tolerance) if system.bounds is None else _fit_within(system, rows, x0, tolerance)
        )
    system.use_all()
    system.rows_read += n_reads * n
    system.residual_norm = step.residual or 0.0
    return step


def _fit(system: System, rows: np.ndarray, x0: np.ndarray, tolerance: Tolerance) -> tuple[Step, int]:
    starts = np.atleast_2d(x0)
    found = fit(rows, system.b.reshape(len(rows), -1), starts, system.damp, tolerance)
    system.rank, system.rank_is_clear = found.rank, found.has_gap
    good = (found.error <= tolerance.at(norms(found.x), norms(starts))).all()
    status = Status.CONVERGED if good else Status.PRECISION
    return Step(found.x, found.error, status, math.sqrt(float(found.residual_sq.sum()))), found.n_reads


def _fit_within(system: System, rows: np.ndarray, x0: np.ndarray, tolerance: Tolerance) -> tuple[Step, int]:
    assert system.bounds is not None
    found = fit_within(rows, system.b, system.bounds, x0, system.damp, lambda: system.clock.left > 0.0)
    system.optimality, system.unique = found.optimality, found.unique
    norm_x = norm(found.x)
    error = max(found.error, _EPS * math.sqrt(x0.size) * norm_x)
    good = found.is_optimal and error <= tolerance.at(norm_x, norm(x0))
    status = Status.CONVERGED if good else Status.PRECISION if system.clock.left > 0.0 else None
    return Step(found.x, error if found.is_optimal else math.nan, status, math.sqrt(found.residual_sq)), found.n_reads


class ExactSteps:
    """Steps with a factor of all rows, if they have one that is good; else those that `begin_others` returns."""

    def __init__(self, system: System, x0: np.ndarray, tolerance: Tolerance, begin_others: Callable[[], Any]) -> None:
        self.system, self.x0, self.tolerance, self._begin_others = system, x0, tolerance, begin_others
        self.descent: _Exact | None = None
        self.others: Any = None
        self.norms_x0, self.tries = norms(np.atleast_2d(x0)), 0

    def __iter__(self) -> Iterator[Step]:
        return self

    def __next__(self) -> Step:
        with np.errstate(all="ignore"):  # an x out of range is told by its error
            if self.others is not None:
                return next(self.others)
            if self.descent is None:
                sparse = isinstance(self.system.rows, CSRRows) and self.system.bounds is None
                factor = eliminated(self.system) if sparse else None
                if factor is None:
                    return self._written_out()
                self.descent = _Exact(self.system, self.x0, factor)
            before = self.descent.error
            self.descent.step()
            self.tries += not (self.descent.error <= _SHRINKS * before).all()
            return self._judge(self.descent) if self.tries <= _TRIES else self._written_out()

    def _written_out(self) -> Step:
        """Solve with a dense factor if the system is small."""
        if fits_lapack(self.system, SMALL if self.system.bounds is None else _SMALL_BOX):
            return by_lapack(self.system, self.x0, self.tolerance)
        return self.leave_to_others()

    def leave_to_others(self) -> Step:
        """Return their first step."""
        self.others = self._begin_others()
        return next(self.others)

    @property
    def can_be_saved(self) -> bool:
        """Whether a pass is under way that can be resumed."""
        return self.others is not None and self.others.can_be_saved

    def _judge(self, descent: _Exact) -> Step:
        """Say how far x is, and whether that is good: as asked, or as good as rounding lets it be."""
        rounding, allowed = descent.rounding(self.tolerance.eps), self.tolerance.at(norms(descent.x), self.norms_x0)
        error = np.maximum(descent.error, rounding)
        if not (descent.error <= np.maximum(allowed, rounding)).all():
            return Step(descent.x, error)
        assert descent.factor is not None
        self.system.rank = descent.factor.rank
        self.system.residual_norm = math.sqrt(float(descent.residual_sq.sum()))
        status = Status.CONVERGED if (error <= allowed).all() else Status.PRECISION
        return Step(descent.x, error, status, math.sqrt(float(descent.squares[:-1].sum())))

    saved: ClassVar[dict[str, Kind]] = {"norms_x0": array("k"), "tries": integer()}
    derived: ClassVar[tuple[str, ...]] = ("system", "x0", "tolerance", "_begin_others", "descent", "others")

    def state(self) -> dict[str, Any]:
        """Return how far they have got, or others that took over."""
        return {**state_of(self), "descent": packed(self.descent), "others": packed(self.others)}

    def restore(self, state: Any) -> None:
        """Go on from there."""
        fill(self, state, self.system.sizes, besides=("descent", "others"))
        if state["descent"] is not None:
            self.descent = _Exact.restored(self.system, state["descent"])
        if state["others"] is not None:
            self.others = self._begin_others()
            self.others.restore(state["others"])
