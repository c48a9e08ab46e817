"""What a solve gives back: `Solution`, with its `Status`, `RowCheck` and `History`; and `Event`, on the way."""

from __future__ import annotations

import enum
import math
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Cost", "Event", "History", "RowCheck", "Solution", "Status"]

LINE_WIDTH = 80  # columns of a terminal
_TEXT = LINE_WIDTH - 16  # columns of the values that describe a solution, after their names
_ENTRIES = 6  # of x that are shown; of more, two from each end


class _ByValue:
    """Equal to another of its class if all fields are equal; hence without a hash."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        names = [each.name for each in fields(self)]  # type: ignore[arg-type]
        return all(_are_equal(getattr(self, name), getattr(other, name)) for name in names)


def _are_equal(one: Any, other: Any) -> bool:
    """Tell whether two values are equal, where NaN equals NaN; those of arrays and lists one by one."""
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return np.array_equal(one, other, equal_nan=True)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_are_equal, one, other))
    return bool(one == other) or (one != one and other != other)


class Status(enum.Enum):
    """How a solve ended. The value is the sentence that says so."""

    CONVERGED = "The estimated error is within the tolerance."
    INCONSISTENT = "The system is inconsistent: no x satisfies all equations."
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


@dataclass(eq=False)
class History(_ByValue):
    """What was known after each iteration: each attribute is a list with one entry per iteration.

    Two histories are equal (``==``) if all their entries are; NaN equals NaN. They cannot be hashed.

    Attributes
    ----------
    method : list of str
        The name of the method that ran. Method ``"auto"`` may run several, one after the other.
    rows_read : list of int
        The number of rows of A read so far.
    seconds : list of float
        The time since the start.
    drop : list of float
        How much the iteration reduced ``norm(x - x*)**2``. NaN for methods that do not project on rows.
    error_estimate : list of float
        The estimated relative error ``norm(x - x*) / norm(x)``.
    """

    method: list[str] = field(default_factory=list)
    rows_read: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    drop: list[float] = field(default_factory=list)
    error_estimate: list[float] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.rows_read)

    def add(self, method: str, rows_read: int, seconds: float, drop: float, error_estimate: float) -> None:
        """Append one iteration."""
        self.method.append(method)
        self.rows_read.append(rows_read)
        self.seconds.append(seconds)
        self.drop.append(drop)
        self.error_estimate.append(error_estimate)

    def columns(self) -> Iterator[tuple[str, np.ndarray]]:
        """Yield each column's name and values."""
        for name in ("method", "rows_read", "seconds", "drop", "error_estimate"):
            yield name, np.asarray(getattr(self, name))


@dataclass(frozen=True, eq=False)
class RowCheck(_ByValue):
    """How well x satisfies the rows that were checked before it was returned.

    Two checks are equal (``==``) if all their attributes are; NaN equals NaN. They cannot be hashed.

    Attributes
    ----------
    residual : float
        The 2-norm of ``b - A x`` over all rows and right-hand sides. It is exact if `full` is true. Otherwise it is
        estimated: the norm over the checked rows times ``sqrt(n / n_rows)``, where n is the number of rows of A.
    relative : float
        The norm of ``b - A x`` over the norm of b, both over the checked rows only.
    n_rows : int
        The number of rows that were checked.
    n_fresh : int
        The number of those that were not used to compute x.
    full : bool
        Whether all rows of A were checked.
    gradient : float or None
        The norm of ``A.T @ (b - A x)``, which is zero at the least-squares solution. None unless ``check="full"``
        computed it.
    """

    residual: float
    relative: float
    n_rows: int
    n_fresh: int
    full: bool
    gradient: float | None = None

    def __str__(self) -> str:
        if self.full:
            return f"{self.relative:.2g} over all {self.n_rows:,} rows"
        return f"{self.relative:.2g} over {self.n_rows:,} sampled rows ({self.n_fresh:,} never used before)"


class Cost(NamedTuple):
    """What a solve has read, and how long it took; the attributes are those of `Solution` with the same names."""

    rows_read: int
    passes: float
    bytes_read: float
    seconds: float
    compile_seconds: float


class _Message:
    """A text, or a function that makes it when it is read for the first time.

    The function must be one that can be pickled and copied, as a partial of a function of a module can.
    """

    def __get__(self, solution: Any, _: Any = None) -> Any:
        if solution is None:  # of the class
            return self
        text = vars(solution)["_message"]
        if callable(text):
            text = vars(solution)["_message"] = text()
        return text

    def __set__(self, solution: Any, text: str | Callable[[], str]) -> None:
        vars(solution)["_message"] = text


@dataclass(frozen=True, eq=False, repr=False)
class Solution(_ByValue):
    """The solution of a linear system, an estimate of its error, and what it cost.

    Two solutions are equal (``==``) if all their attributes are, times included; NaN equals NaN. Solutions cannot be
    hashed. They can be copied and pickled.

    Attributes
    ----------
    x : ndarray of shape (p,), or (p, k) for k right-hand sides
        The solution, in float64.
    success : bool
        Whether the estimated error is within the tolerance: whether `status` is ``Status.CONVERGED``.
    converged : bool
        The same as `success`.
    status : Status
        Why the solver stopped.
    message : str
        What the solver did and why it stopped. If the tolerance was not met, it also says what to try.
    error_estimate : float
        The estimated relative error ``norm(x - x*) / norm(x)``, to be compared with `rtol`. If the system is
        inconsistent, ``x*`` is the least-squares solution. NaN if the error is not known. For several right-hand sides
        it is the largest of `error_estimates`.
    error_estimates : ndarray of shape (k,)
        The estimated relative error for each of the k right-hand sides; k is 1 if there is only one.
    residual : float
        The 2-norm of ``b - A x``; for several right-hand sides, the Frobenius norm. It is exact, up to rounding, if all
        rows were checked, and else estimated from those that were (see `row_check`). NaN if no row was checked.
    row_check : RowCheck or None
        Which rows were checked, and the relative residual over them. None if no row was checked.
    rank : int or None
        The rank of A. None if it is not known.
    optimality : float or None
        How far x is from optimal within its bounds: the largest entry of the gradient ``A.T @ (b - A x)`` (less the
        damping) that points into the bounds, over the norm of its column and that of b. It is 0, up to rounding, if no
        x within the bounds is better. None if there are no bounds, or if it was not computed.
    method : str
        The name of the method that computed x.
    nit : int
        The number of iterations: bursts of rows, or steps of a method that uses all rows. `history` has an entry for
        each.
    rows_read : int
        The number of rows of A that were read. A row counts each time it is read.
    passes : float
        ``rows_read`` over the number of rows of A.
    bytes_read : float
        The number of bytes of A that were read, as they are stored. Where rows are stored in chunks, whole chunks
        count.
    seconds : float
        The time it took, without `compile_seconds`.
    compile_seconds : float
        The time it took to compile the kernels or to load them from disk.
    cost : Cost
        The five values above, as a named tuple.
    rows_off : ndarray of int64
        The indices, in order, of the rows that are known to be inconsistent with the others. If the status is
        ``CONVERGED``, these are the rows that were left out as outliers; if it is ``INCONSISTENT``, those that the
        message names. Also rows of zeros whose b is not zero, if the method solves equations and has read them: no x
        satisfies them, and they do not affect x.
    history : History
        What was known after each iteration.
    """

    x: np.ndarray
    status: Status
    message: str
    error_estimates: np.ndarray
    rank: int | None
    optimality: float | None
    row_check: RowCheck | None
    method: str
    cost: Cost
    rows_off: np.ndarray
    history: History

    @property
    def success(self) -> bool:
        """Whether the estimated error is within the tolerance."""
        return self.status is Status.CONVERGED

    @property
    def converged(self) -> bool:
        """The same as `success`."""
        return self.success

    @property
    def error_estimate(self) -> float:
        """The largest of `error_estimates`; NaN if any is NaN."""
        return float(self.error_estimates.max())

    @property
    def residual(self) -> float:
        """The 2-norm of ``b - A x``: exact if all rows were checked, else estimated; NaN if none was."""
        return math.nan if self.row_check is None else self.row_check.residual

    @property
    def nit(self) -> int:
        """The number of iterations."""
        return len(self.history)

    @property
    def rows_read(self) -> int:
        """The number of rows of A that were read."""
        return self.cost.rows_read

    @property
    def passes(self) -> float:
        """``rows_read`` over the number of rows of A."""
        return self.cost.passes

    @property
    def bytes_read(self) -> float:
        """The number of bytes of A that were read."""
        return self.cost.bytes_read

    @property
    def seconds(self) -> float:
        """The time it took, without `compile_seconds`."""
        return self.cost.seconds

    @property
    def compile_seconds(self) -> float:
        """The time it took to compile or load the kernels."""
        return self.cost.compile_seconds

    def __repr__(self) -> str:
        entries = list(self._entries())
        column = max(len(name) for name, _ in entries) + 2
        lines = []
        for name, text in entries:
            wrapped = textwrap.wrap(text, _TEXT, break_on_hyphens=False) if name == "message" else text.split("\n")
            lines.append(f"{name:>{column - 2}}: " + f"\n{'':{column}}".join(wrapped))
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """Return a table for notebooks."""
        from html import escape

        rows = "".join(
            f'<tr><th style="text-align: right; vertical-align: top">{name}</th>'
            f'<td style="text-align: left; white-space: pre-wrap">{escape(text)}</td></tr>'
            for name, text in self._entries()
        )
        return f"<table>{rows}</table>"

    def _entries(self) -> Iterator[tuple[str, str]]:
        """Yield the names and values to be shown."""
        yield "message", self.message
        yield "success", str(self.success)
        yield "status", str(self.status)
        yield "x", _shortened(self.x)
        yield "error_estimate", f"{self.error_estimate:.3g}"
        yield "residual", f"{self.residual:.3g}"
        if self.rank is not None:
            yield "rank", str(self.rank)
        yield "method", self.method
        yield "passes", f"{self.passes:.3g}"
        yield "seconds", f"{self.seconds:.3g}"

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


def _shortened(x: np.ndarray) -> str:
    """Return a few entries of x as text."""
    ends = 2 if x.ndim == 1 else 1
    return np.array2string(x, _TEXT, precision=5, threshold=_ENTRIES, edgeitems=ends)
