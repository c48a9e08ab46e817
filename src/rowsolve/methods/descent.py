"""Conjugate gradients for least squares, each step one pass over A, with a probe that tells the error."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from rowsolve.kernels.gradient import add_gradients
from rowsolve.kernels.rows import norm
from rowsolve.methods.factor import Factor, find_odd_rows

if TYPE_CHECKING:
    from rowsolve._system import System

__all__ = ["Descent"]

_EPS = float(np.finfo(float).eps)
_UNLUCKY = 1e3  # a random unit vector has less than 1 / 1000 of a p-th in a given direction once in forty times
_AT_REST = 30.0  # times the error asked for: the last step of a method that gains a digit or so a step
_ROUNDED = 64.0  # units of rounding of b: all equations are satisfied
_NOTHING = 1e-300  # a gradient of the probe: all rows are zero, or their squares are
_SPENT = 1e-6  # a probe so short says little but what rounding made of it


class Descent:
    """Conjugate gradients on ``(A'A + damp**2) x = A'b``, preconditioned by a `Factor` or not (CGLS).

    Next to x a random probe z takes the same steps, with the same coefficients, towards the solution of
    ``A'A z = 0``. Its error is z itself. So is what a gradient is worth: with ``w = M**-1 (A'(b - A x))``, and v the
    same of z,

        norm(x - x*)  ~  norm(w) * norm(z) / norm(v).

    It sees the directions that A barely tells apart: z has a part in each of them.

    Attributes
    ----------
    at : ndarray of shape (2, p)
        x and z.
    error : float
        Estimated ``norm(x - x*)``.
    residual_sq : float
        ``norm(b - A x)**2 + damp**2 norm(x)**2``, updated from step to step.
    fresh : bool
        Whether the gradient has been computed at this x, and not only updated.
    drift : float
        What the rounding of a gradient that is only updated may be worth in x.
    """

    def __init__(self, system: System, x0: np.ndarray, rng: np.random.Generator, factor: Factor | None = None) -> None:
        self.system, self.factor, self._rng = system, factor, rng
        self.x0, self.last_step = x0.copy(), math.inf
        self.at = np.stack([x0, np.zeros_like(x0)])
        self.start()

    @property
    def x(self) -> np.ndarray:
        """The current x."""
        return self.at[0]

    def precondition(self, factor: Factor) -> None:
        """Go on from here with `factor`."""
        self.factor = factor
        if factor.deficient:
            factor.project(self.at[1:])
            self.start()
        else:
            self._set_out()

    def start(self) -> None:
        """Compute the gradient at x anew (one pass) and go downhill from there."""
        if norm(self.at[1]) < _SPENT:
            probe = self._rng.standard_normal(self.x.size)
            self.at[1] = probe / norm(probe)
            if self.factor is not None:
                self.factor.project(self.at[1:])
        self.slope, squares = self._gradients(1.0, self.at)
        self.fresh = True
        self.residual_sq = float(squares[0]) + self.system.damp**2 * float(self.x @ self.x)
        self._set_out()

    def step(self) -> None:
        """Go as far as the gradient falls along the direction, and turn: one pass."""
        change, squares = self._gradients(0.0, self.direction)
        curvature = squares[0] + self.system.damp**2 * float(self.direction[0] @ self.direction[0])
        if curvature > 0.0:
            length = self._worth / curvature
            self.at += length * self.direction
            self.last_step = length * norm(self.direction[0])
            self.slope += length * change
            self.residual_sq = max(self.residual_sq - length * self._worth, 0.0)
            self.fresh = False
        before = self._worth
        self._look()
        self.direction *= self._worth / before if before > 0.0 else 0.0
        self.direction += self._downhill

    def _set_out(self) -> None:
        if self.factor is None:  # any unit will do that keeps squares in range
            largest = float(np.abs(self.slope[1]).max())
            if largest < _NOTHING:
                find_odd_rows(self.system, np.arange(self.system.n_rows))
            self._unit = 1.0 / (largest or 1.0)
        self._look()
        self.direction = self._downhill.copy()
        most = self.factor.spread if self.factor is not None else math.sqrt(self._unit * self.amplification)
        self.drift = 8.0 * _EPS * norm(most * self.slope[0]) * most

    def _look(self) -> None:
        """Precondition the gradients, and estimate the error by them."""
        if self.factor is not None:
            self._downhill = self.slope.copy()
            self.factor.solve(self._downhill)
        else:
            self._downhill = self._unit * self.slope
        self._worth = float(self.slope[0] @ self._downhill[0])
        probe_norm = norm(self._downhill[1])
        self.amplification = norm(self.at[1]) / probe_norm if probe_norm > 0.0 else 0.0
        self.error = norm(self._downhill[0]) * self.amplification

    def _gradients(self, weight: float, vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Make one pass: ``A'(weight * b - A v)`` less ``damp**2 v``, and the sums of squares inside."""
        system, parts = self.system, []

        def add(start: int, stop: int, _: np.ndarray) -> None:
            out, squares = np.zeros_like(vectors), np.zeros(2)
            add_gradients(system.rows, system.b, weight, start, stop, vectors, out, squares)
            parts.append((start, out, squares))

        system.pass_over(add)
        parts.sort(key=lambda part: part[0])  # the same sum whichever thread was first
        gradients, squares = -(system.damp**2) * vectors, np.zeros(2)
        for _, out, square in parts:
            gradients += out
            squares += square
        if not np.isfinite(gradients).all():
            find_odd_rows(system, np.arange(system.n_rows))
            raise ValueError("the squares of `A` and `b` leave the range of float64: rescale them.")
        return gradients, squares

    def is_below(self, enough: float) -> bool:
        """Tell whether the error is at most `enough`, as far as can be known.

        A factor makes the gradient tell it whatever its direction. Without one it is estimated as if it were like a
        random vector. So x must also have come to rest; and one that started somewhere may have its error in
        slow directions only, of which z had about a p-th of its square (see `Monitor._worst`).
        """
        if self.error > enough:
            return False
        if self.factor is not None or math.sqrt(self.residual_sq) <= _ROUNDED * _EPS * self.system.norm_b:
            return True
        if self.x0.any():
            share = math.sqrt(_UNLUCKY * self.x.size) * norm(self.at[1])
            if share >= 1.0 or share / (1.0 - share) * norm(self.x - self.x0) > enough:
                return False
        return self.last_step <= _AT_REST * enough

    def rounding(self, eps: float) -> float:
        """Return how far rounding keeps x from the solution; `eps` is the relative precision of A and b as given.

        That of A x spreads to x by ``A**+``, that of the sums in ``A'r`` by ``(A'A)**-1``, that of the numbers of a
        row, a third of `eps` or so each, like noise in b; all are random.
        """
        norm_x, n, p = norm(self.x), self.system.n_rows, self.x.size
        if self.factor is None:
            return max(_EPS * math.sqrt(p), 0.3 * eps * math.sqrt(p / n)) * norm_x
        as_given = 0.3 * eps * self.factor.harm / math.sqrt(n * p) * norm_x
        of_sums = math.sqrt(self.residual_sq / self.x.size) * self.factor.spread
        of_products = min(1.0, 8.0 / math.sqrt(self.x.size)) * norm_x  # their terms are that much smaller than x
        return max(as_given, _EPS * self.factor.harm / math.sqrt(n) * (of_products + of_sums))
