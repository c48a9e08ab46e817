"""Checks of a method by solving small systems with it. Each raises AssertionError if the method fails."""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import FrozenInstanceError, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

import rowsolve
from rowsolve import Event, Solution, Status
from rowsolve.methods.base import Method
from rowsolve.policy.thresholds import EPS, ROUNDED

__all__ = [
    "CHECKS", "check_capabilities", "check_consistent", "check_counts", "check_inconsistent", "check_inputs",
    "check_method", "check_repeatable", "check_resumable", "check_words",
]  # fmt: skip


def check_method(method: Method | type[Method]) -> None:
    """Check that a method does what every method of rowsolve promises.

    Small systems are solved with it, which takes some seconds. Nothing has to be registered.

    Parameters
    ----------
    method : Method or type
        The method, or its class, which then is used with its default parameters.

    Raises
    ------
    AssertionError
        If the method fails a check. The message says which, and by how much.
    """
    for check in CHECKS:
        check(method() if isinstance(method, type) else method)


def check_words(method: Method) -> None:
    """Check that a method is a frozen dataclass that has a name, a summary and a citation."""
    _require(is_dataclass(method), method, "must be a frozen dataclass")
    for name in ("name", "summary", "citation"):
        _require(bool(getattr(method, name, "")), method, f"must have a {name}")
    parameters: dict[str, Any] = method.parameters()
    _require(type(method)(**parameters) == method, method, "must be equal to a method with the same parameters")
    for name, value in parameters.items():
        try:
            setattr(method, name, value)
        except FrozenInstanceError:
            continue
        _require(False, method, f"must be frozen, but `{name}` can be set")


def check_consistent(method: Method) -> None:
    """Check that a method solves consistent systems, and that it knows the error of its solution."""
    for seed, (shift, x0) in enumerate([(0.0, None), (0.0, np.linspace(-1.0, 1.0, 20)), (0.5, None)]):
        A, b, x = _gaussian(600, 20, seed, shift)
        solution = rowsolve.solve(A, b, method, x0=x0, rng=seed)
        _require_accurate(method, solution, x, "a consistent system")
    solution = rowsolve.solve(A, b, method, x0=x, rng=seed)
    _require(_distance(solution.x, x) <= 1e-10, method, "must not move an x0 that is the solution")


def check_inconsistent(method: Method) -> None:
    """Check that a least-squares method converges if b is noisy, and that another one says that it does not."""
    A, b, _ = _gaussian(600, 20, 4, noise=0.1)
    solution = rowsolve.solve(A, b, method, rng=4)
    best = np.linalg.lstsq(A, b)[0]
    if method.can.least_squares:
        _require_accurate(method, solution, best, "a least-squares problem")
        return
    error, estimate = _distance(solution.x, best), solution.error_estimate
    _require(not solution.converged, method, f"must not claim to solve an inconsistent system, got {solution.status}")
    _require(
        bool(estimate >= error / 5 or np.isnan(estimate)),
        method,
        f"estimates the error {estimate:.1e} in place of {error:.1e}",
    )


def check_capabilities(method: Method) -> None:
    """Check that a method solves for several b and keeps to bounds, if it says that it can."""
    A, b, x = _gaussian(600, 20, 12)
    if method.can.many_b:
        solution = rowsolve.solve(A, np.column_stack([b, -2.0 * b]), method, rng=12)
        for c, expected in enumerate((x, -2.0 * x)):
            error = _distance(solution.x[:, c], expected)
            _require(
                solution.converged and error <= 2e-6, method, f"must solve for each b, got an error of {error:.1e}"
            )
    if method.can.bounds:
        low, high = x - 0.5, x + 0.1
        solution = rowsolve.solve(A, b, method, bounds=(low, high), rng=12)
        within = bool(((low <= solution.x) & (solution.x <= high)).all())
        _require(within, method, "must keep x within its bounds")
        _require_accurate(method, solution, x, "a consistent system within bounds")


def check_counts(method: Method) -> None:
    """Check that all rows that a method reads are counted.

    Each row of A has an entry in a column of its own. If that entry of x has changed, the row has been read.
    """
    A, b, _ = _gaussian(120, 10, 5)
    A = np.hstack([A, np.eye(120)])

    def look(event: Event) -> None:
        if event.stage == "solve":
            n_changed = np.count_nonzero(event.x[10:])
            words = f"has used at least {n_changed} rows, of which {event.rows_read} were counted"
            _require(bool(n_changed <= event.rows_read), method, words)

    solution = rowsolve.solve(A, b, method, rng=5, max_passes=8.0, callback=look)
    counts = solution.history.rows_read
    _require(bool(np.all(np.diff(counts) > 0)), method, "must count the rows of every step")
    _require(solution.rows_read == round(120 * solution.passes), method, "must count rows and passes alike")


def check_repeatable(method: Method) -> None:
    """Check that a method gives the same bits for the same seed."""
    A, b, _ = _gaussian(600, 20, 6)
    one, two = (rowsolve.solve(A, b, method, rng=7) for _ in range(2))
    _require(_same(one, two), method, "must give the same x, to the last bit, for the same seed")


def check_resumable(method: Method) -> None:
    """Check that a solve that is resumed from a checkpoint gives the same bits as one that was not interrupted."""
    A, b, _ = _gaussian(600, 20, 8, noise=0.1 if method.can.least_squares else 0.0)
    whole = rowsolve.solve(A, b, method, rng=9)
    for last in sorted({1, whole.nit // 2, whole.nit - 1} - {0}):
        with tempfile.TemporaryDirectory() as folder, _saved_at_every_step() as trouble:
            path = Path(folder, "state")
            rowsolve.solve(A, b, method, rng=9, checkpoint=path, callback=_stop_after(last))
            _require(not trouble, method, "must have a state that can be saved")
            if not path.exists():  # it has done all in one step
                continue
            again = rowsolve.solve(A, b, method, rng=9, checkpoint=path, resume=True)
        words = f"resumed after {last} of {whole.nit} steps, must give the same x to the last bit"
        _require(_same(whole, again), method, words)


def check_inputs(method: Method) -> None:
    """Check that a method does not write to A, b or x0."""
    A, b, _ = _gaussian(600, 20, 10)
    x0 = np.ones(20)
    given = {"A": (A, A.copy()), "b": (b, b.copy()), "x0": (x0, x0.copy())}
    rowsolve.solve(A, b, method, x0=x0, rng=11)
    for name, (value, before) in given.items():
        _require(bool(np.array_equal(value, before)), method, f"must not write to {name}")


CHECKS: tuple[Callable[[Method], None], ...] = (
    check_words, check_consistent, check_inconsistent, check_capabilities, check_counts, check_repeatable,
    check_resumable, check_inputs,
)  # fmt: skip


def _gaussian(
    n_rows: int, n_columns: int, seed: int, shift: float = 0.0, noise: float = 0.0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return A, b and x; a `shift` of all entries makes one singular value larger than the others."""
    rng = np.random.default_rng(seed)
    A, x = rng.standard_normal((n_rows, n_columns)) + shift, rng.standard_normal(n_columns)
    b = A @ x
    return A, b + noise * np.std(b) * rng.standard_normal(n_rows), x


def _require(condition: bool, method: Method, words: str) -> None:
    if not condition:
        raise AssertionError(f"{method!r} {words}.")


def _require_accurate(method: Method, solution: Solution, x: np.ndarray, what: str, rtol: float = 1e-6) -> None:
    """Raise unless the solution has converged, its error is within twice the tolerance, and so is its estimate."""
    error, estimate = _distance(solution.x, x), solution.error_estimate
    _require(solution.status is Status.CONVERGED, method, f"must solve {what}, got {solution.message}")
    _require(error <= 2.0 * rtol, method, f"must solve {what} to {rtol:.0e}, got a relative error of {error:.1e}")
    known = estimate >= error / 5 or error <= ROUNDED * EPS  # the rest is rounding
    _require(known, method, f"estimates the error {estimate:.1e} in place of {error:.1e}")


def _distance(x: np.ndarray, reference: np.ndarray) -> float:
    return float(np.linalg.norm(x - reference) / np.linalg.norm(reference))


def _same(one: Solution, two: Solution) -> bool:
    estimates = one.history.error_estimate == two.history.error_estimate
    return bool(np.array_equal(one.x, two.x)) and estimates and one.rows_read == two.rows_read


def _stop_after(last: int) -> Callable[[Event], bool]:
    events: list[Event] = []

    def stop(event: Event) -> bool:
        events.append(event)
        return sum(each.stage == "solve" for each in events) >= last

    return stop


@contextmanager
def _saved_at_every_step() -> Iterator[list[warnings.WarningMessage]]:
    """Write checkpoints at every opportunity; yield the list of warnings that one could not be written."""
    before = os.environ.get("ROWSOLVE_CHECKPOINT_SECONDS")
    os.environ["ROWSOLVE_CHECKPOINT_SECONDS"] = "0"
    try:
        with warnings.catch_warnings(record=True) as trouble:
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", RuntimeWarning)
            yield trouble
    finally:
        if before is None:
            del os.environ["ROWSOLVE_CHECKPOINT_SECONDS"]
        else:
            os.environ["ROWSOLVE_CHECKPOINT_SECONDS"] = before
