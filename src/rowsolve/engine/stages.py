"""The stages of ``method="auto"``: each decision of `rowsolve.policy.auto` is a sentence of the message."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from rowsolve._solution import Status
from rowsolve.checkpoint.state import Kind, StateError, fill, listed, named, packed, state_of, text
from rowsolve.engine.messages import FOR_FAR_ROWS
from rowsolve.engine.outcome import Outcome
from rowsolve.engine.outliers import OutlierSearch, outliers_among
from rowsolve.engine.residuals import residuals_of
from rowsolve.engine.stage import Context, Stage, Task
from rowsolve.methods import Deflated, Direct, Method, Randomized, Refined
from rowsolve.parallel.vectors import norm
from rowsolve.policy.auto import (
    Choice,
    Ending,
    first_choice,
    has_common_directions,
    next_choice,
    slow_if_another_is_faster,
)
from rowsolve.policy.thresholds import ROWS_TO_CHECK

__all__ = ["SAYS", "Auto"]

SAYS = {
    "deflated": "'deflated' projected on random rows, with their common directions removed.",
    "direct": "'direct' solved a sample of the rows.",
    "randomized": "'randomized' projected on random rows.",
    "refined": "'refined' computed the least-squares solution.",
}


class Auto:
    """The stages of one solve: given the outcome of one, this object decides on the next.

    Attributes
    ----------
    words : list of str
        Why each stage was begun.
    remark : str
        A remark on outliers, for the end of the message.
    """

    def __init__(self, context: Context, task: Task) -> None:
        self._context, self._task = context, task
        self.words: list[str] = []
        self.remark = ""
        self.choice: Choice | None = None  # the present one
        self.outlier_search: OutlierSearch | None = None  # the stage without outliers, once it has begun

    def first(self) -> Stage:
        """Return the first stage."""
        context, task = self._context, self._task
        return self._begun(first_choice(context.system, context.tolerance.rtol, task.max_rows), task.x0)

    def after(self, outcome: Outcome) -> Stage | Outcome:
        """Return the stage after one with this outcome; or the outcome of the solve, if that was the last stage."""
        system, task = self._context.system, self._task
        if self.outlier_search is not None:
            found, end = self.outlier_search.ending(outcome)
            self.words[-1] = self.outlier_search.why + end
            return found
        sharing = has_common_directions(system, outcome.status, self._context.rng)
        suspicious = outcome.outlook.suspicious
        choice = next_choice(Ending(system, outcome.method, outcome.status, suspicious, outcome.clipped, sharing))
        if choice is not None and task.max_rows - system.counter.rows_read < system.n_rows:  # it would read all
            return outcome._replace(status=Status.MAX_PASSES)
        if choice is not None:
            x0, probe = self._start_of(choice.method, outcome)
            return replace(self._begun(choice, x0), probe=probe, findings=outcome.findings)
        seen = outliers_among(system, outcome)
        if seen and task.drop:
            self.outlier_search = OutlierSearch.begun(system, outcome, seen)
            self.words.append(f"{self.outlier_search.why}.")
            return self.outlier_search.stage(task)
        self.remark = FOR_FAR_ROWS.format(seen) if seen else ""
        return outcome

    def _begun(self, choice: Choice, x0: np.ndarray) -> Stage:
        """Return the stage of a choice that begins now."""
        says = SAYS[choice.method.name]
        if choice.method.can.least_squares and self._context.system.bounds is not None:
            says = says.replace("solution", "solution within the bounds")
        self.choice = choice
        self.words.append(choice.why + says)
        return replace(self._stage_of(choice), x0=x0)

    def _stage_of(self, choice: Choice) -> Stage:
        return replace(self._task.stage(choice.method), give_up=slow_if_another_is_faster)

    def _start_of(self, method: Method, last: Outcome) -> tuple[np.ndarray, np.ndarray | None]:
        """Return the x at which the next method starts, and a vector that resembles its error, if one is known.

        That is the x of the random rows if it has a smaller residual; otherwise x0. The error of an x left by other
        methods does not resemble a random vector. Without such a vector the error estimate would not be reliable at
        once, which would cost more than the better start saves.
        """
        system, x0 = self._context.system, self._task.x0
        plain = system.n_rhs == 1 and system.bounds is None and not system.stored and not x0.any()
        if not plain or not isinstance(method, Refined) or not isinstance(last.method, Randomized | Deflated):
            return x0, None
        order, _ = system.sample(ROWS_TO_CHECK, self._context.rng)
        off, b = residuals_of(system, order, last.x), system.b[order]
        return (last.x.copy(), _random_error_vector(last.probe, self._context.rng)) if off @ off < b @ b else (x0, None)

    saved: ClassVar[dict[str, Kind]] = {"words": listed(text), "remark": text}
    derived: ClassVar[tuple[str, ...]] = ("_context", "_task", "choice", "outlier_search")

    def state(self) -> dict[str, Any]:
        """Return the present stage, and why it was begun."""
        assert self.choice is not None
        why, method = self.choice
        choice = {"why": why, "method": {"name": method.name, **_parameters(method)}}
        return {**state_of(self), "choice": choice, "outlier_search": packed(self.outlier_search)}

    def restored(self, state: Any) -> Stage:
        """Restore the state; return the stage that was at work."""
        system = self._context.system
        fill(self, state, system.sizes, besides=("choice", "outlier_search"))
        self.choice = named(Choice, why=text, method=self._method_named)(state["choice"], system.sizes)
        if state["outlier_search"] is None:
            return self._stage_of(self.choice)
        self.outlier_search = OutlierSearch.from_state(state["outlier_search"], system, self.choice.method)
        return self.outlier_search.stage(self._task)

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
        if self._context.system.n_rhs > 1 and not method.can.many_b:
            raise StateError(f"method: expected one for several right-hand sides, got {name}")
        return method


def _random_error_vector(left: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return a vector that resembles the error of an x computed from random rows, which have `left` this probe.

    It is the sum of the remaining probe, which resembles the rest of the error at the start, and of a random vector for
    the error due to noise, which is about equal in all directions.
    """
    added = rng.standard_normal(left.size)
    mixed = left / (norm(left) or 1.0) + added / norm(added)
    return mixed / norm(mixed)


def _parameters(method: Method) -> dict[str, Any]:
    """Return the parameters of a method that differ from the defaults."""
    given, usual = method.parameters(), type(method)().parameters()
    return {key: value for key, value in given.items() if value != usual[key]}
