"""A system and the reference for the error of x: the known solution, or the least-squares solution."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from rowsolve.parallel.memory import free_memory
from rowsolve.policy.thresholds import EPS
from rowsolve.race.contestant import TimeIsUp, is_sparse
from rowsolve.race.iterative import LSMR
from rowsolve.race.machine import seconds_for_flops

__all__ = ["Problem", "Reference", "known", "least_squares", "tiny_like"]


@dataclass(frozen=True, eq=False)
class Reference:
    """The reference solution.

    Attributes
    ----------
    x : ndarray
    words : str
        How it was obtained.
    doubt : float
        An estimate of its own relative error (a first-order bound, often too large); 0 if it is exact.
    """

    x: np.ndarray
    words: str
    doubt: float = 0.0


@dataclass(frozen=True, eq=False)
class Problem:
    """A system A x = b and its reference solution."""

    A: Any
    b: np.ndarray
    reference: Reference

    def __post_init__(self) -> None:
        if not np.any(self.reference.x):
            raise ValueError("the solution is x = 0, for which the relative error is not defined.")

    def error_of(self, x: np.ndarray) -> float:
        """Return ``norm(x - reference) / norm(reference)``; infinity if x is not finite."""
        error = float(np.linalg.norm(x - self.reference.x) / np.linalg.norm(self.reference.x))
        return error if math.isfinite(error) else math.inf

    @property
    def kind(self) -> str:
        """How A is stored, as text."""
        if is_sparse(self.A):
            return f"sparse, {100.0 * self.A.nnz / math.prod(self.A.shape):.2g}% stored"
        return "memory map" if isinstance(self.A, np.memmap) else "dense"


def known(x: np.ndarray) -> Reference:
    """Return a reference from the x with which the system was generated."""
    return Reference(np.asarray(x, dtype=float), "the solution that b was made of")


def least_squares(A: Any, b: np.ndarray, seconds: float = math.inf) -> Reference:
    """Return the minimum-norm least-squares solution by LAPACK, or by LSMR if that would take too long.

    The QR factorization of ``[A b]`` is computed piece by piece, ``R = qr([R; piece])``, so that no copy of a large A,
    or of a file, is made. Householder QR is stable, and so is the x computed from R.

    Raises
    ------
    ValueError
        If A is not finite, or if LSMR takes longer than `seconds`, too.
    """
    n_rows, n_columns = A.shape
    needed = 8.0 * (_piece_rows(n_columns) + 3 * n_columns) * n_columns
    expected = seconds_for_flops(2.0 * (1.0 + n_columns / _piece_rows(n_columns)) * n_rows * n_columns**2)
    if expected <= seconds and needed <= 0.5 * free_memory():
        return _by_qr(A, b)
    too_much = f"about {expected:.0f} s" if expected > seconds else f"{needed / 1e9:.1f} GB of memory"
    return _by_lsmr(A, b, seconds, too_much)


def _by_qr(A: Any, b: np.ndarray) -> Reference:
    from scipy.linalg import lapack, qr, solve_triangular

    n_columns = A.shape[1]
    R = np.empty((0, n_columns + 1))
    for piece, right in _pieces(A, b):
        block = np.empty((len(R) + len(right), n_columns + 1), order="F")
        block[: len(R)], block[len(R) :, :-1], block[len(R) :, -1] = R, piece, right
        R = qr(block, mode="r", overwrite_a=True, check_finite=False)[0][: n_columns + 1]
    square = R[:n_columns, :n_columns]
    inverse_condition = lapack.dtrcon(square)[0] if len(R) >= n_columns else 0.0
    if inverse_condition <= EPS * n_columns:
        x = np.linalg.lstsq(R[:, :-1], R[:, -1])[0]
        return Reference(x, "the minimum-norm least-squares solution by LAPACK (the columns of A are dependent)")
    x = solve_triangular(square, R[:n_columns, -1])
    misfit = abs(R[n_columns, -1]) if len(R) > n_columns else 0.0
    condition = 1.0 / inverse_condition
    doubt = EPS * condition * (1.0 + condition * misfit / (np.linalg.norm(square, 1) * np.linalg.norm(x) or 1.0))
    return Reference(x, "the least-squares solution by LAPACK", float(doubt))


def _by_lsmr(A: Any, b: np.ndarray, seconds: float, too_much: str) -> Reference:
    try:
        x = LSMR().run(A, b, 1e-14, seconds).x
    except TimeIsUp:
        raise ValueError(
            f"no reference solution was found: LAPACK would take {too_much}, and LSMR took more than {seconds:g} s. "
            "Try a larger --limit."
        ) from None
    return Reference(x, f"LSMR with a tolerance of 1e-14, because LAPACK would take {too_much}")


def _piece_rows(n_columns: int) -> int:
    """Return the number of rows of a piece, so large that factoring R again costs little."""
    return max(2 * n_columns, 2048)


def _pieces(A: Any, b: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    step = _piece_rows(A.shape[1])
    rows = A.tocsr() if is_sparse(A) else A
    for start in range(0, A.shape[0], step):
        piece = rows[start : start + step]
        piece = piece.toarray() if is_sparse(piece) else np.asarray(piece)
        bad = np.argwhere(~np.isfinite(piece))
        if len(bad):
            row, column = bad[0]
            raise ValueError(f"`A` must be finite: row {start + row} has {piece[row, column]} in column {column}.")
        yield piece, b[start : start + step]


def tiny_like(A: Any) -> tuple[Any, np.ndarray]:
    """Return a system of 40 equations in 4 unknowns, with the types and memory layout of `A`."""
    from scipy import sparse

    values = np.random.default_rng(0).standard_normal((40, 4)).astype(A.dtype)
    if is_sparse(A):
        small = sparse.csr_array(values) if isinstance(A, sparse.sparray) else sparse.csr_matrix(values)
        return small, values.sum(axis=1, dtype=float)
    fortran = A.flags.f_contiguous and not A.flags.c_contiguous
    return np.asfortranarray(values) if fortran else values, values.sum(axis=1, dtype=float)
