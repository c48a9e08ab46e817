"""The stages of ``method="auto"``: each decision of `rowsolve.policy.auto` is a sentence of the message."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from rowsolve._solution import Status
from rowsolve.checkpoint.state import (
    Kind,
    StateError,
    fill,
    in_place,
    listed,
    named,
    number,
    optional,
    state_of,
    text,
    tuple_of,
)
from rowsolve.engine.check import ROWS_TO_CHECK, residuals_of
from rowsolve.engine.iterates import OutOfRange
from rowsolve.engine.messages import FOR_FAR_ROWS, far_rows
from rowsolve.engine.run import Run
from rowsolve.engine.stage import Stage
from rowsolve.estimate.monitor import Monitor
from rowsolve.methods import Deflated, Direct, Method, Quantile, Randomized, Refined
from rowsolve.parallel.vectors import norm, rows_for_the_tail
from rowsolve.policy.auto import TALL, Choice, first_choice, is_hopeless, is_plain, next_choice, rows_share_much
from rowsolve.problem.system import System

__all__ = ["CLEAN", "SAYS", "Auto"]

_ROWS_TO_LEAVE_OUT, _FEWEST_COLUMNS = 2000, 64  # times p rows, to look for outliers; p counts as 64 at least
CLEAN = 1e-4  # relative residual below which outliers are not looked for

SAYS = {
    "deflated": "'deflated' projected on random rows without their common directions.",
    "direct": "'direct' solved a sample of the rows.",
    "randomized": "'randomized' projected on random rows.",
    "refined": "'refined' computed the least-squares solution.",
}


class Auto:
    """The stages of one solve.

    Attributes
    ----------
    run : Run
        The last stage.
    words : list of str
        Why each stage was begun.
    """

    def __init__(
        self, system: System, rtol: float, begin: Callable[[Stage], Run], rng: np.random.Generator, first: Stage, *,
        drop: bool = False,
    ) -> None:  # fmt: skip
        self.system, self.rtol, self.rng = system, rtol, rng
        self.drop = drop  # whether outliers may be left out
        self._begin = begin
        self.words: list[str] = []
        self.run: Any = None  # the Run of the stage, once it has begun
        self.choice: Choice | None = first_choice(system, rtol, first.max_rows)
        self.x0, self.stage = first.x0, first  # from which the next stage is made
        self.least_squares: Run | None = None  # the solution with all rows, while 'quantile' looks for outliers
        self.seen, self.remark = "", ""  # the outliers seen; a remark on them, at the end of the message
        self.most_rows = math.inf  # that may have been read at the end of that look

    def go(self) -> Status:
        """Solve, or resume a solve; return how the last stage ended."""
        if self.least_squares is not None:
            return self._without_wild_rows(self.least_squares, self.seen)
        while self.choice is not None:
            status = self._run_stage(self.choice)
            suspicious = any(monitor.suspicious for monitor in self.run.iterates.monitors)
            sharing = rows_share_much(self.system, status, self.rng)
            self.choice = next_choice(
                self.system, self.choice.method, status,
                suspicious=suspicious, outside=self.run.loop.cut_off, sharing=sharing,
            )  # fmt: skip
            if self.choice is not None and not self.run.may_read_all:  # the next method would read all rows
                return Status.MAX_PASSES
            if self.choice is not None:
                x0, probe = self._start_of(self.choice.method)
                self.stage, self.run = replace(self.stage, x0=x0, probe=probe, findings=self.run.findings), None
        has_outliers = isinstance(self.run.method, Refined) and status is Status.CONVERGED and is_plain(self.system)
        seen = self._wild_rows() if has_outliers else ""
        if seen and self.drop:
            return self._without_wild_rows(self.run, seen)
        self.remark = FOR_FAR_ROWS.format(seen) if seen else ""
        return status

    def _run_stage(self, choice: Choice) -> Status:
        """Run one method."""
        if self.run is None:
            says = SAYS[choice.method.name]
            if choice.method.can.least_squares and self.system.bounds is not None:
                says = says.replace("solution", "solution within the bounds")
            self.words.append(choice.why + says)
            self.run = self._begin(replace(self.stage, method=choice.method, give_up=self._watch))
        return self.run.go()

    def _start_of(self, method: Method) -> tuple[np.ndarray, np.ndarray | None]:
        """Return the x at which the next method starts, and a vector that resembles its error, if one is known.

        That is the x of the random rows if it has a smaller residual; otherwise x0. The error of an x left by other
        methods does not resemble a random vector. Without such a vector the error estimate would not be reliable at
        once, which would cost more than the better start saves.
        """
        system, last, start = self.system, self.run, (self.x0, None)
        plain = system.n_rhs == 1 and system.bounds is None and not system.stored and not self.x0.any()
        if not plain or not isinstance(method, Refined) or not isinstance(last.method, Randomized | Deflated):
            return start
        order, _ = system.sample(ROWS_TO_CHECK, self.rng)
        off, b = residuals_of(system, order, last.iterates.x), system.b[order]
        return (last.iterates.x.copy(), self._like_the_error(last)) if off @ off < b @ b else start

    def _like_the_error(self, last: Run) -> np.ndarray:
        """Return a vector that resembles the error of an x computed from random rows.

        It is the sum of the remaining probe, which resembles the rest of the error at the start, and of a random vector
        for the error due to noise, which is about equal in all directions.
        """
        left, added = last.iterates.probe, self.rng.standard_normal(self.system.n_columns)
        mixed = left / (norm(left) or 1.0) + added / norm(added)
        return mixed / norm(mixed)

    def _watch(self, monitor: Monitor) -> Status | None:
        """Return `Status.SLOW`, which ends a stage of random rows, when another method is clearly faster."""
        return Status.SLOW if is_hopeless(monitor) else None

    def _without_wild_rows(self, least_squares: Run, seen: str) -> Status:
        """Look for an x without the outliers; if there is none, keep the least-squares solution of all rows."""
        why = f"{seen}, so 'quantile' looked for a solution without them"
        if self.least_squares is None:
            self.seen = seen
            self.words.append(f"{why}.")
            most = _ROWS_TO_LEAVE_OUT * max(self.system.n_columns, _FEWEST_COLUMNS)  # the look has its own limit
            self.most_rows = float(self.system.counter.rows_read + most)
            self.least_squares = least_squares
            self.run = self._look_aside()
        try:
            found = self.run.go()
        except OutOfRange:  # rows with a b of zero give x = 0, which need not satisfy the others
            found = Status.INCONSISTENT
        if found is Status.CONVERGED and self.run.fresh.off.size:
            return found
        self.run = least_squares
        if found in (Status.CONVERGED, Status.INCONSISTENT, Status.SLOW, Status.PRECISION):
            self.words[-1] = (
                f"{why}, but the other rows are inconsistent too: x is the least-squares solution of all rows."
            )
            return Status.CONVERGED
        self.words[-1] = f"{why}, but was stopped early: x is the least-squares solution of all rows."
        return found if found in (Status.STOPPED, Status.INTERRUPTED) else Status.CONVERGED

    def _look_aside(self) -> Run:
        """Return a run that looks for an x without outliers."""
        assert self.least_squares is not None
        most, findings = min(self.stage.max_rows, self.most_rows), self.least_squares.findings
        # All rows are checked, so that all outliers are listed.
        return self._begin(Stage(Quantile(), self.x0, most, "full", findings=findings))

    def _wild_rows(self) -> str:
        """Return a clause on outliers among the rows; an empty string if there are none."""
        system, x = self.system, self.run.iterates.x
        if (
            system.n_rhs > 1 or self.run.findings.residual_norm <= CLEAN * system.facts.norm_b
        ):  # 'quantile' takes only one b
            return ""
        if system.n_rows < TALL * system.n_columns:  # some rows could be satisfied whatever their b
            return ""
        order = np.arange(system.n_rows)[rows_for_the_tail(system.n_rows)]
        return far_rows(residuals_of(system, order, x), system.n_rows, self.run.findings.residual_norm)

    saved: ClassVar[dict[str, Kind]] = {"words": listed(text), "most_rows": number, "seen": text, "remark": text}
    derived: ClassVar[tuple[str, ...]] = (
        "system", "x0", "rtol", "rng", "drop", "_begin", "run", "choice", "stage", "least_squares",
    )  # fmt: skip

    def state(self) -> dict[str, Any]:
        """Return the current stage and its state."""
        choice, found = self.choice, self.least_squares
        return {
            **state_of(self),
            "choice": None if choice is None else {"why": choice.why, "method": _name_of(choice.method)},
            "run": self.run.state(),
            "least_squares": None if found is None else [_name_of(found.method), found.state(done=True)],
        }

    def restore(self, state: Any) -> None:
        """Restore the current stage and its state."""
        sizes = self.system.sizes
        fill(self, state, sizes, besides=("choice", "run", "least_squares"))
        self.choice = optional(named(Choice, why=text, method=self._method_named))(state["choice"], sizes)
        if state["least_squares"] is not None:
            if self.choice is not None or self.system.n_rhs > 1 or not is_plain(self.system):
                raise StateError("least_squares: expected none")
            method, found = tuple_of(self._method_named, in_place)(state["least_squares"], sizes)
            self.least_squares = self._begin(Stage(method, self.x0))
            self.least_squares.restore(found, done=True)
            self.run = self._look_aside()
        elif self.choice is not None:
            self.run = self._begin(replace(self.stage, method=self.choice.method, give_up=self._watch))
        else:
            raise StateError("choice: expected one")
        self.run.restore(state["run"])

    def _method_named(self, state: Any, _: Any) -> Method:
        """Return the method in a saved state; raise `StateError` if it cannot be a stage of this solve."""
        kinds = {kind.name: kind for kind in (Deflated, Direct, Randomized, Refined)}
        parameters = dict(state) if isinstance(state, dict) else {}
        name = parameters.pop("name", None)
        if not isinstance(name, str) or name not in kinds or not set(map(type, parameters.values())) <= {str, bool}:
            raise StateError("method: expected a name and parameters")
        try:
            method = kinds[name](**parameters)
        except (TypeError, ValueError) as error:
            raise StateError(f"method: {error}") from None
        if self.system.n_rhs > 1 and not method.can.many_b:
            raise StateError(f"method: expected one for several right-hand sides, got {name}")
        return method


def _name_of(method: Method) -> dict[str, Any]:
    """Return the name of a method and its parameters that differ from the defaults."""
    given, usual = method.parameters(), type(method)().parameters()
    return {"name": method.name, **{key: value for key, value in given.items() if value != usual[key]}}
