"""Iterative solvers: with a tolerance, or with a number of steps or epochs that is increased until it suffices."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import numpy as np

from rowsolve.policy.thresholds import HARDLY_MORE
from rowsolve.race.contestant import Contestant, Deadline, Finish, is_sparse

__all__ = ["LSMR", "LSQR", "SGD", "Kaczmarz"]


class Bidiagonalisation(Contestant):
    """A solver of `scipy.sparse.linalg` with ``atol = btol = setting``, without limits on condition or iterations."""

    solver: ClassVar[str]
    limit: ClassVar[str]  # the name of its maximum number of iterations

    def run(self, A: Any, b: np.ndarray, setting: float, seconds: float) -> Finish:
        """Iterate to the tolerance."""
        from scipy.sparse import linalg

        products, options = CountedProducts(A, seconds), {"conlim": 0.0, self.limit: sys.maxsize}
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
    """A as a LinearOperator with the same products, which counts them and checks the time limit."""

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
    """Yield increasing amounts of work, without end: the race stops before the time limit would be exceeded."""
    while True:
        yield float(amount)
        amount = math.ceil(HARDLY_MORE * amount)


class SGD(Contestant):
    """`sklearn.linear_model.SGDRegressor` without intercept and penalty, for 1, 2, 3, 5, 8, … epochs.

    With its default learning rate (0.01, decreasing) x diverges if the squared norm of a row is above 200. So the rate
    is constant, 1 / (largest squared norm of a row), the computation of which is timed. It is the largest rate that is
    safe for every row; for rows of equal norm a step is a projection on the row, as in the Kaczmarz method.
    """

    name = "sklearn SGDRegressor"
    library, package = "sklearn", "scikit-learn"
    knob: ClassVar[str] = "epochs"

    def settings(self, A: Any, error: float) -> Iterator[float]:
        """Yield increasing numbers of epochs."""
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
    """`SVRandom` of kaczmarz-algorithms, without its stopping test, which would need a pass after every step.

    The first number of steps is the theoretical one for orthogonal columns, ``2 p log(1 / error)``.
    """

    name = "kaczmarz-algorithms"
    library, package = "kaczmarz", "kaczmarz-algorithms"
    knob: ClassVar[str] = "steps"

    def settings(self, A: Any, error: float) -> Iterator[float]:
        """Yield increasing numbers of steps."""
        yield from _growing(math.ceil(2.0 * A.shape[1] * max(1.0, math.log(1.0 / error))))

    def run(self, A: Any, b: np.ndarray, setting: float, seconds: float) -> Finish:
        """Run `setting` steps."""
        import kaczmarz

        np.random.seed(0)  # noqa: NPY002 - the library draws from the global state
        watch: Callable[..., None] = Deadline(seconds)
        x = kaczmarz.SVRandom.solve(A, b, tol=None, maxiter=int(setting), callback=watch)
        return Finish(np.asarray(x).ravel(), "step limit reached", setting / A.shape[0] + 2.0)

    def refusal(self, A: Any) -> str:
        """Return a reason for memory-mapped files, as it copies A."""
        return "would copy the file into memory" if isinstance(A, np.memmap) else ""

    def expected_bytes(self, A: Any) -> float:
        """Return the size of two copies of A, one of them normalised."""
        return 2.0 * (12.0 * A.nnz if is_sparse(A) else A.nbytes)
