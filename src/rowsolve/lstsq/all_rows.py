"""Least squares from all rows at once: compressed to p x p numbers, or as a dense matrix factored by LAPACK."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from rowsolve._solution import Status
from rowsolve.checkpoint.state import StateError, array, check_keys, integer, named, optional, packed
from rowsolve.estimate.estimator import ErrorEstimator
from rowsolve.estimate.step import Findings, Step
from rowsolve.kernels.rows import CSRRows
from rowsolve.lstsq.band import compress_to_band, factor_band
from rowsolve.lstsq.box import BoxFit, fit_within
from rowsolve.lstsq.dense import fit
from rowsolve.lstsq.factor import find_odd_rows
from rowsolve.lstsq.normal import Fit, factor_gram, fit_normal
from rowsolve.lstsq.state import Compressed, compress, slopes_at
from rowsolve.lstsq.triangle import Triangle, triangulate
from rowsolve.parallel.blas import blas_threads
from rowsolve.parallel.vectors import norm, norms, rows_for_the_tail
from rowsolve.policy.least_squares import makes_a_band
from rowsolve.policy.thresholds import WORK_OF_A_FACTOR
from rowsolve.problem.reader import Piece
from rowsolve.problem.system import System

__all__ = ["AllRows", "by_lapack"]

_COMPRESSED = named(
    Compressed, gram=array("p", "p"), sides=array("p", "k"), squares=array("k"), n_rows=integer(0, "n")
)  # fmt: skip
_TRIANGLE = named(
    Triangle, triangle=array("p", "p"), sides=array("p", "k"), squares=array("k"), n_rows=integer(0, "n")
)  # fmt: skip


class AllRows:
    """The least-squares solution from one pass that compresses the rows, and a second one that certifies x if needed.

    The compressed state is kept between two pieces of the first pass, so that it can be saved. Sparse rows that have a
    sparse factor are compressed at once. With bounds, x is always certified by a pass, and with `by_qr` the rows are
    reduced to a triangle instead.
    """

    def __init__(self, system: System, estimator: ErrorEstimator, *, by_qr: bool = False) -> None:
        self.system, self.estimator = system, estimator
        self.by_qr, self.compressing, self.n_done = by_qr, False, 0
        band = system.bounds is None and makes_a_band(system)
        self.state_so_far: Any = None if band else _nothing(system, Triangle if by_qr else Compressed)

    def step(self) -> Step | None:
        """Return the solution; None if the squares of A do not determine it."""
        system = self.system
        with blas_threads(math.inf, 1):  # threads of BLAS would slow down the next pass
            if system.bounds is not None:
                return self._within(system.bounds)
            found = self._by_band() if self.state_so_far is None else self._by_dense_factor()
        if found is None:
            return None
        if system.stored and np.isnan(found.residual_sq).any():  # single rows take as long to read as all
            found = found._replace(residual_sq=self._slopes(found.x.T)[1])
        system.counter.use_all()
        return step_of(found, self.estimator)

    def _by_band(self) -> Fit | None:
        (rows, b), *_ = _blocks(self.system, whole=True)
        assert self.system.facts.layout is not None
        state = compress_to_band(rows, b, self.system.facts.layout, self.system.limits.threads)
        factor = factor_band(state.gram, self.system.damp)
        return None if factor is None else self._fit(state, factor)

    def _by_dense_factor(self) -> Fit | None:
        system, state = self.system, self._compress_all()
        if state is None:
            return None
        with blas_threads(WORK_OF_A_FACTOR * system.n_columns**3, system.limits.threads):
            factor = factor_gram(state.gram, system.damp, system.facts.null_vectors)
        return None if factor is None else self._fit(state, factor)

    def _within(self, bounds: tuple[np.ndarray, np.ndarray]) -> Step | None:
        """Return the solution within `bounds`."""
        system, state = self.system, self._compress_all()
        if state is None:
            return None
        with blas_threads(WORK_OF_A_FACTOR * system.n_columns**3, system.limits.threads):
            state = state.damped(system.damp) if self.by_qr else state
            has_time = lambda: system.clock.left > 0.0  # noqa: E731
            found = fit_within(state, bounds, self.estimator, system.damp, self._slopes, has_time)
        return None if found is None else self._step_within(found)

    def _step_within(self, found: BoxFit) -> Step:
        system, estimator, norm_x = self.system, self.estimator, norm(found.x)
        system.counter.use_all()
        residual_norm = math.sqrt(found.residual_sq)
        findings = Findings(optimality=found.optimality, unique=found.unique, residual_norm=residual_norm)
        error = max(found.error, estimator.floor(norm_x, as_given=0.0))
        good = found.is_optimal and estimator.is_good(error, np.array([norm_x]))
        status = Status.CONVERGED if good else Status.PRECISION if system.clock.left > 0.0 else None
        unknown = max(norm_x, float(estimator.norm_x0[0])) or 1.0  # an error as large as x
        return Step(found.x, error if found.is_optimal else unknown, status, residual_norm, findings)

    def _compress_all(self) -> Any:
        """Make the first pass, or the rest of it; return None if sums overflow or all rows are zero."""
        system, state = self.system, self.state_so_far
        reduce_rows = triangulate if self.by_qr else compress
        self.compressing = True
        if system.stored and system.n_rhs == 1:  # `auto` will need their residuals
            system.reader.keep(np.arange(system.n_rows)[rows_for_the_tail(system.n_rows)])
        for rows, b in _blocks(system, skip=self.n_done):
            part = reduce_rows(rows, b, system.limits.threads)
            self.state_so_far = state = state.merge(part) if state.n_rows else part
            self.n_done += 1
        self.compressing = False
        total = float(np.abs(state[0]).sum() if self.by_qr else state[0].trace())
        if (total > 0.0 or self.by_qr) and total < math.inf and np.isfinite(state.squares).all():
            return state
        find_odd_rows(system, np.arange(system.n_rows))  # raises, unless all are zero or only the sum is too large
        return None

    def _fit(self, state: Compressed, factor: Any) -> Fit | None:
        estimator = self.estimator
        return fit_normal(state, factor, estimator.x0, self.system.damp, estimator.tolerance, self._slopes)

    def _slopes(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return ``A'(b - A x)`` and the squared norm of each residual; make one pass."""
        slope, squares = np.zeros_like(x), np.zeros(x.shape[1])
        for rows, b in _blocks(self.system, whole=self.state_so_far is None):
            more, further = slopes_at(rows, b, x, self.system.limits.threads)
            slope, squares = slope + more, squares + further
        return slope, squares

    def state(self) -> dict[str, Any]:
        """Return the state compressed so far."""
        return {"n_done": self.n_done, "state_so_far": packed(self.state_so_far)}

    def restore(self, state: Any) -> None:
        """Restore the state compressed so far."""
        check_keys(state, ("n_done", "state_so_far"))
        self.n_done = integer()(state["n_done"], self.system.sizes)
        found = optional(_TRIANGLE if self.by_qr else _COMPRESSED)(state["state_so_far"], self.system.sizes)
        if (found is None) is not (self.state_so_far is None):
            raise StateError("state_so_far: expected a state, or none if A is banded")
        self.state_so_far = found


def _nothing(system: System, kind: Any) -> Any:
    """Return the state of no rows."""
    p, k = system.n_columns, system.n_rhs
    return kind(np.zeros((p, p)), np.zeros((p, k)), np.zeros(k), 0)


def _blocks(system: System, skip: int = 0, *, whole: bool = False) -> Iterator[tuple[Any, np.ndarray]]:
    """Yield all rows in pieces, as an array or a sparse matrix, with their right-hand sides, in one counted pass."""
    for piece in [Piece(system.rows, 0, 0, system.n_rows)] if whole else system.pieces(skip=skip):
        part, b = slice(piece.start, piece.stop), piece.of(system.b)[piece.start : piece.stop]
        rows = piece.rows
        if isinstance(rows, CSRRows):
            matrix = system.source.as_matrix() if rows is system.rows else _matrix_of(rows, system.n_columns)
            yield matrix if piece.n_rows == matrix.shape[0] else matrix[part], b.reshape(piece.n_rows, -1)
        else:
            yield rows.values[part], b.reshape(piece.n_rows, -1)
    if whole:
        system.counter.add(system.n_rows)


def step_of(found: Fit, estimator: ErrorEstimator) -> Step:
    """Return the last step, from a solution."""
    good = estimator.is_good(found.error, norms(found.x))
    status, residual_sq = Status.CONVERGED if good else Status.PRECISION, float(found.residual_sq.sum())
    if math.isnan(residual_sq):  # too small for sums over all rows: some rows are more accurate
        return Step(found.x, found.error, status, findings=Findings(found.rank, found.has_gap, residual_norm=0.0))
    residual_norm = math.sqrt(residual_sq)
    findings = Findings(found.rank, found.has_gap, residual_norm=residual_norm)
    return Step(found.x, found.error, status, residual_norm, findings)


def _matrix_of(rows: CSRRows, n_columns: int) -> Any:
    from scipy import sparse

    return sparse.csr_array(tuple(rows), shape=(rows.indptr.size - 1, n_columns))


def by_lapack(system: System, estimator: ErrorEstimator, *, by_qr: bool = False) -> Step | None:
    """Return the least-squares solution of all rows; None if passes are needed."""
    n, rows = system.n_rows, system.source.as_matrix()
    rows = rows.toarray() if isinstance(system.rows, CSRRows) else rows
    rows, b = rows.astype(float, copy=False), system.b.reshape(n, -1)
    found = fit(rows, b, estimator.x0, system.damp, estimator.tolerance, system.limits.threads, by_qr=by_qr)
    if found is None:
        find_odd_rows(system, np.arange(n))  # raises, unless all are zero or only sums leave the range
        return None
    system.counter.use_all()
    system.counter.add(found.n_reads * n)
    return step_of(found, estimator)
