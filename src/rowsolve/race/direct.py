"""Direct solvers: they have no tolerance and cannot be interrupted, so their time is predicted."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from rowsolve.policy.prices import PAIR
from rowsolve.race.contestant import Contestant, Finish, is_sparse
from rowsolve.race.machine import seconds_for_flops

__all__ = ["Cholesky", "LinearRegression", "Lstsq"]


class Direct(Contestant):
    """A direct solver, which needs a single run."""

    knob: ClassVar[str] = ""

    def settings(self, A: Any, error: float) -> Iterator[float]:
        """Yield one setting, which is not used."""
        yield 0.0

    def run(self, A: Any, b: np.ndarray, setting: float, seconds: float) -> Finish:
        """Solve the system."""
        return Finish(self.solve(A, b, setting), "solved")

    @abstractmethod
    def solve(self, A: Any, b: np.ndarray, setting: float) -> np.ndarray:
        """Return x."""


class Lstsq(Direct):
    """`numpy.linalg.lstsq`: singular value decomposition by gelsd of LAPACK. It copies A."""

    name = "numpy lstsq"
    library = package = "numpy"

    def solve(self, A: Any, b: np.ndarray, setting: float) -> np.ndarray:
        """Return the minimum-norm least-squares solution."""
        return np.linalg.lstsq(A, b)[0]

    def refusal(self, A: Any) -> str:
        """Return a reason for matrices that it would have to copy into memory in another form."""
        if is_sparse(A):
            return "does not support sparse matrices"
        return "would copy the file into memory" if isinstance(A, np.memmap) else ""

    def expected_seconds(self, A: Any) -> float:
        """Return the time of QR of A and of the singular value decomposition of R."""
        n_rows, n_columns = A.shape
        return seconds_for_flops(2.0 * n_rows * n_columns**2 + 12.0 * n_columns**3)

    def expected_bytes(self, A: Any) -> float:
        """Return the size of a copy in Fortran order and of the workspace."""
        return 1.2 * A.nbytes + 24.0 * A.shape[1] ** 2


class LinearRegression(Lstsq):
    """`sklearn.linear_model.LinearRegression` without intercept: gelsd by scipy, after two copies of A.

    Singular values below its `tol` (1e-6 by default) times the largest one are treated as zero.
    """

    name = "sklearn LinearRegression"
    library, package = "sklearn", "scikit-learn"
    knob: ClassVar[str] = "tolerance"

    def settings(self, A: Any, error: float) -> Iterator[float]:
        """Yield its default tolerance first, or the required error if that is smaller."""
        yield from Contestant.settings(self, A, min(error, 1e-6))

    def solve(self, A: Any, b: np.ndarray, setting: float) -> np.ndarray:
        """Fit and return the coefficients."""
        from sklearn.linear_model import LinearRegression as Estimator

        model = Estimator(fit_intercept=False)
        if "tol" in model.get_params():  # since 1.7
            model.set_params(tol=setting)
        return model.fit(A, b).coef_

    def refusal(self, A: Any) -> str:
        """Return a reason for sparse matrices, for which it only calls another solver."""
        if is_sparse(A):
            return "uses scipy lsqr for sparse matrices, which is timed separately"
        return super().refusal(A)

    def expected_bytes(self, A: Any) -> float:
        """Return the size of two copies of A and of the workspace."""
        return super().expected_bytes(A) + A.nbytes


class Cholesky(Direct):
    """The normal equations ``A.T @ A x = A.T @ b`` by Cholesky: one pass, but the condition number is squared."""

    name = "normal equations"

    def solve(self, A: Any, b: np.ndarray, setting: float) -> np.ndarray:
        """Return x; raise LinAlgError if the Gram matrix is numerically not positive definite."""
        from scipy.linalg import cho_factor, cho_solve

        gram = A.T @ A
        if is_sparse(gram):
            gram = gram.toarray()
        return cho_solve(cho_factor(gram, overwrite_a=True), A.T @ b)

    def expected_seconds(self, A: Any) -> float:
        """Return the time of the upper triangle of the Gram matrix and of its factor."""
        n_columns = A.shape[1]
        factor = seconds_for_flops(n_columns**3 / 3.0)
        if is_sparse(A):
            per_row = np.diff(A.tocsr().indptr).astype(float)
            return factor + 1e-9 * 2.0 * PAIR * float(per_row @ per_row)
        return factor + seconds_for_flops(1.0 * A.shape[0] * n_columns**2)

    def expected_bytes(self, A: Any) -> float:
        """Return the size of the Gram matrix, both sparse and dense if A is sparse."""
        return (24.0 if is_sparse(A) else 8.0) * A.shape[1] ** 2
