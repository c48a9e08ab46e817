"""What a solve gives back: `Solution`, with its `Status`, `Residual` and `History`; and `Event`, on the way."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Event", "History", "Residual", "Solution", "Status"]


class Status(enum.Enum):
    """How a solve ended. The value is the sentence that says so."""

    CONVERGED = "The estimated error is within the tolerance."
    INCONSISTENT = (
        "The system is inconsistent: no x satisfies all equations. x is the least-squares solution up to the noise."
    )
    SLOW = "A is ill-conditioned: this method would need more passes than allowed, so it stopped early."
    PRECISION = "x is as accurate as the precision of A and b allows, which does not reach the tolerance."
    MAX_PASSES = "The limit on passes over A was reached before the tolerance."
    MAX_SECONDS = "The time limit was reached before the tolerance."
    INTERRUPTED = "Interrupted from the keyboard; x is the best estimate so far."
    STOPPED = "Stopped by the callback; x is the best estimate so far."


@dataclass(frozen=True, eq=False)
class Event:
    """What is known after a burst of rows; `callback` gets one each time.

    Attributes
    ----------
    stage : str
        ``"open"`` (rows that are not in memory are about to be read; `note` tells how), ``"prepare"`` (reading A to
        sketch or cluster it), ``"solve"``, or ``"check"`` (looking at all rows).
    error_estimate : float
        Estimated ``norm(x - x*) / norm(x)``, the largest of several; NaN while nothing is known.
    passes_left, seconds_left : float
        Predicted; NaN while nothing is known, infinity when the error no longer falls.
    x : ndarray
        A read-only view of the current x, of the shape it is given back in, valid during the call: copy it to keep it.
    """

    stage: str
    rows_read: int
    passes: float
    bytes_read: float
    seconds: float
    error_estimate: float
    passes_left: float
    seconds_left: float
    x: np.ndarray = field(repr=False)
    note: str = ""


@dataclass
class History:
    """One entry a burst or a step: method, rows read, seconds, drop of the squared error, relative error estimate.

    The drop is NaN for methods that do not project on rows. `method` tells the stages of ``"auto"`` apart.
    """

    method: list[str] = field(default_factory=list)
    rows_read: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    drop: list[float] = field(default_factory=list)
    error_estimate: list[float] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.rows_read)

    def add(self, method: str, rows_read: int, seconds: float, drop: float, error_estimate: float) -> None:
        """Append one burst."""
        self.method.append(method)
        self.rows_read.append(rows_read)
        self.seconds.append(seconds)
        self.drop.append(drop)
        self.error_estimate.append(error_estimate)

    def columns(self) -> Iterator[tuple[str, np.ndarray]]:
        """Yield each column's name and values."""
        for name in ("method", "rows_read", "seconds", "drop", "error_estimate"):
            yield name, np.asarray(getattr(self, name))


@dataclass(frozen=True)
class Residual:
    """``norm(b - A x) / norm(b)``, over all rows or over a random sample of them.

    Attributes
    ----------
    relative : float
        Over the rows looked at.
    n_rows, n_fresh : int
        How many rows were looked at, and how many of them the solve had never used.
    full : bool
        Whether these were all rows of A.
    gradient : float or None
        ``norm(A.T @ r)``, zero at the least-squares solution; from a full check only.
    """

    relative: float
    n_rows: int
    n_fresh: int
    full: bool
    gradient: float | None = None

    def __float__(self) -> float:
        return self.relative

    def __str__(self) -> str:
        if self.full:
            return f"{self.relative:.2g} over all {self.n_rows:,} rows"
        return f"{self.relative:.2g} over {self.n_rows:,} sampled rows ({self.n_fresh:,} never used before)"


class _Message:
    """A text, or a function that makes it when it is read for the first time."""

    def __get__(self, solution: Any, _: Any = None) -> str:
        text = vars(solution)["_message"]
        if callable(text):
            text = vars(solution)["_message"] = text()
        return text

    def __set__(self, solution: Any, text: str | Callable[[], str]) -> None:
        vars(solution)["_message"] = text


@dataclass(frozen=True, eq=False)
class Solution:
    """The solution, an estimate of its error, and what it cost.

    Attributes
    ----------
    x : ndarray of shape (p,), or (p, k) for k right-hand sides, float64
    status : Status
    message : str
        What happened, with figures, and what to try if the tolerance was not reached.
    error_estimate : float
        Estimated ``norm(x - x*) / norm(x)``, comparable with `rtol`. If the system is inconsistent, ``x*`` is the
        least-squares solution. NaN if it is not known. The largest of `error_estimates`.
    error_estimates : ndarray of shape (k,)
        The same for each right-hand side; k = 1 if there is only one.
    rank : int or None
        The rank of A, if a factorization has told it; else None.
    optimality : float or None
        With bounds: the largest entry of the gradient ``A.T @ (b - A @ x)`` (less the damping) that leads inwards, over
        the norm of its column and that of b. It is 0 but for rounding where no x within the bounds is better. None if
        it was not computed.
    residual : Residual or None
        Relative residual, sampled or full, over all right-hand sides; None if no row could be looked at.
    method : str
        The name of the method that ran.
    rows_read : int
        Rows of A read in all: preparation, iterations and checks.
    passes : float
        ``rows_read`` over the number of rows.
    bytes_read : float
        The same in bytes: of the numbers as they are stored, and of whole chunks where rows are stored in chunks.
    seconds : float
    compile_seconds : float
        Spent before the clock started on compiling the kernels, or on loading them from their cache on disk.
    rows_off : ndarray of int64
        The rows known to be inconsistent with the others, in order: with ``CONVERGED`` those that `quantile` left
        out, with ``INCONSISTENT`` those that the message names; else empty. And, for methods that solve equations, a
        row of zeros whose b is not zero, if one was read (all of them with ``check="full"``): no x satisfies it, and it
        does not affect x or the status.
    history : History
    """

    x: np.ndarray
    status: Status
    message: str
    error_estimate: float
    error_estimates: np.ndarray = field(repr=False)
    rank: int | None
    optimality: float | None
    residual: Residual | None
    method: str
    rows_read: int
    passes: float
    bytes_read: float
    seconds: float
    compile_seconds: float
    rows_off: np.ndarray = field(repr=False)
    history: History = field(repr=False)

    @property
    def converged(self) -> bool:
        """Whether the status is CONVERGED."""
        return self.status is Status.CONVERGED

    def plot(self, ax: Axes | None = None, *, against: str = "rows_read", **line: Any) -> Axes:
        """Draw the estimated error against ``"rows_read"`` or ``"seconds"``; return the axes."""
        try:
            from matplotlib import pyplot as plt
        except ModuleNotFoundError:
            raise ImportError("Solution.plot needs matplotlib: pip install 'rowsolve[plot]'.") from None

        labels = {"rows_read": "rows read", "seconds": "time (s)"}
        if against not in labels:
            raise ValueError(f"`against` must be one of {sorted(labels)}, got {against!r}.")
        if ax is None:
            _, ax = plt.subplots(layout="constrained")
        line.setdefault("label", self.method)
        ax.semilogy(getattr(self.history, against), self.history.error_estimate, **line)
        ax.set_xlabel(labels[against])
        ax.set_ylabel(r"estimated relative error $\|x - x^*\| / \|x\|$")
        ax.grid(visible=True, which="major", alpha=0.3)
        ax.legend()
        return ax


Solution.message = _Message()  # type: ignore[assignment]
