"""Contestants that iterate: with a tolerance, or for a number of steps or epochs that grows until it is enough."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import numpy as np

from rowsolve.race.contestant import Contestant, Deadline, Finish, is_sparse

__all__ = ["LSMR", "LSQR", "SGD", "Kaczmarz"]

MANY = 10**9  # iterations: the clock ends a run, not a count
GROWTH = 1.5  # of an amount of work that was not enough: the last is then at most half as much again as needed
GROWN = 30  # times


class Bidiagonalisation(Contestant):
    """A solver of `scipy.sparse.linalg` with ``atol = btol`` = the tolerance, no limit on condition or iterations."""

    solver: ClassVar[str]
    limit: ClassVar[str]  # what it calls the most iterations

    def run(self, A: Any, b: np.ndarray, setting: float, seconds: float) -> Finish:
        """Iterate to the tolerance."""
        from scipy.sparse import linalg

        products, options = CountedProducts(A, seconds), {"conlim": 0.0, self.limit: MANY}
        solve = getattr(linalg, self.solver)
        x, istop, iterations = solve(products.operator, b, atol=setting, btol=setting, **options)[:3]
        return Finish(x, f"istop {istop} after {iterations} iterations", products.passes)


class LSMR(Bidiagonalisation):
    """`scipy.sparse.linalg.lsmr`."""

    name, solver, limit = "scipy lsmr", "lsmr", "maxiter"


class LSQR(Bidiagonalisation):
    """`scipy.sparse.linalg.lsqr`."""

    name, solver, limit = "scipy lsqr", "lsqr", "iter_lim"


class CountedProducts:
    """A as scipy takes it, with the products it would make itself; counts them and watches the clock."""

    def __init__(self, A: Any, seconds: float) -> None:
        from scipy.sparse.linalg import LinearOperator

        self.passes = 0
        self._deadline = Deadline(seconds)
        transposed = A.T
        self.operator = LinearOperator(
            A.shape, matvec=lambda v: self._product(A, v), rmatvec=lambda v: self._product(transposed, v), dtype=A.dtype
        )

    def _product(self, A: Any, v: np.ndarray) -> np.ndarray:
        self._deadline()
        self.passes += 1
        return A @ v


def _growing(amount: int) -> Iterator[float]:
    for _ in range(GROWN):
        yield float(amount)
        amount = math.ceil(GROWTH * amount)


class SGD(Contestant):
    """`sklearn.linear_model.SGDRegressor` without intercept and penalty, for 1, 2, 3, 5, 8, … epochs.

    Its own learning rate (0.01, falling) makes x explode when a row has a squared norm above 200. It gets the constant
    rate 1 / (largest squared norm of a row), found inside the clock: the largest that is safe for every row, and
    for rows of equal norm a projection on each, which is the method of Kaczmarz.
    """

    name = "sklearn SGDRegressor"
    library, package = "sklearn", "scikit-learn"
    knob: ClassVar[str] = "epochs"

    def settings(self, A: Any, error: float) -> Iterator[float]:
        """Let the number of epochs grow."""
        yield from _growing(1)

    def run(self, A: Any, b: np.ndarray, setting: float, seconds: float) -> Finish:
        """Fit for `setting` epochs."""
        from sklearn.linear_model import SGDRegressor

        rate = 1.0 / float(squared_norms(A).max())
        model = SGDRegressor(
            penalty=None, fit_intercept=False, tol=None, max_iter=int(setting),
            learning_rate="constant", eta0=rate, random_state=0,
        )  # fmt: skip
        return Finish(model.fit(A, b).coef_, f"constant learning rate {rate:.1e}", setting + 1.0)


def squared_norms(A: Any) -> np.ndarray:
    """Return the squared norm of every row."""
    if is_sparse(A):
        return np.asarray(A.multiply(A).sum(axis=1)).ravel()
    return np.einsum("ij,ij->i", A, A)


class Kaczmarz(Contestant):
    """kaczmarz-algorithms: `SVRandom` without its stopping test, which would cost a pass after every step.

    The first number of steps is what the theory says for orthogonal columns, ``2 p log(1 / error)``; then it grows.
    """

    name = "kaczmarz-algorithms"
    library, package = "kaczmarz", "kaczmarz-algorithms"
    knob: ClassVar[str] = "steps"

    def settings(self, A: Any, error: float) -> Iterator[float]:
        """Let the number of steps grow."""
        yield from _growing(math.ceil(2.0 * A.shape[1] * max(1.0, math.log(1.0 / error))))

    def run(self, A: Any, b: np.ndarray, setting: float, seconds: float) -> Finish:
        """Take `setting` steps."""
        import kaczmarz

        np.random.seed(0)  # noqa: NPY002 - the library draws from the global state
        watch: Callable[..., None] = Deadline(seconds)
        x = kaczmarz.SVRandom.solve(A, b, tol=None, maxiter=int(setting), callback=watch)
        return Finish(np.asarray(x).ravel(), "all steps taken", setting / A.shape[0] + 2.0)

    def refusal(self, A: Any) -> str:
        """Refuse files: it copies A."""
        return "would copy the file into memory" if isinstance(A, np.memmap) else ""

    def expected_bytes(self, A: Any) -> float:
        """Two copies, one of them with rows of norm 1."""
        return 2.0 * (12.0 * A.nnz if is_sparse(A) else A.nbytes)
