"""The results of a race, which can be stored as JSON."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields
from typing import Any

__all__ = ["NEVER", "REACHED", "SKIPPED", "Attempt", "Conditions", "Outcome", "Result", "as_document", "of_document"]

FORMAT = 1
REACHED, NEVER, SKIPPED = "reached", "never", "skipped"


@dataclass(frozen=True)
class Attempt:
    """One run of the search for the loosest setting that is tight enough.

    `error` is None if there is no x, because the time was up or an exception was raised; `status` tells which.
    """

    setting: float
    seconds: float
    error: float | None
    status: str
    passes: float | None = None


@dataclass(frozen=True)
class Outcome:
    """The outcome of one contestant.

    Attributes
    ----------
    verdict : {"reached", "never", "skipped"}
    why : str
        The reason, for ``"never"`` and ``"skipped"``.
    setting : float or None
        The setting that was timed.
    seconds : tuple of float
        The times of all timed runs, that of the search first; the shortest one counts. There is only one if the run was
        too slow to be repeated.
    error : float or None
        The largest true error of the timed runs; for ``"never"`` the smallest one that was reached.
    attempts : tuple of Attempt
        The runs of the search.
    """

    name: str
    ours: bool
    knob: str
    verdict: str
    why: str = ""
    setting: float | None = None
    seconds: tuple[float, ...] = ()
    error: float | None = None
    status: str = ""
    passes: float | None = None
    attempts: tuple[Attempt, ...] = ()

    @property
    def best(self) -> float:
        """The shortest time; infinity if the error was not reached."""
        return min(self.seconds) if self.verdict == REACHED else math.inf

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Outcome:
        """Return an outcome from the dict that `dataclasses.asdict` and JSON have made of it."""
        attempts = tuple(Attempt(**one) for one in values["attempts"])
        return cls(**{**values, "seconds": tuple(values["seconds"]), "attempts": attempts})


@dataclass(frozen=True)
class Conditions:
    """The conditions of a race.

    Attributes
    ----------
    threads : int
        The number of threads of BLAS and of rowsolve.
    limit : float or None
        The time limit of one run in seconds.
    busy : float or None
        Cores that other programs used just before the race; unless it is near 0 the times are unreliable.
    machine : dict
        The machine, as `rowsolve.race.machine.describe` returns it.
    """

    threads: int
    limit: float | None = None
    busy: float | None = None
    machine: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Result:
    """The result of a race.

    The ratio of a peer is its time over ours, that of ``rowsolve auto``, the first outcome. Above 1 we are faster.

    Attributes
    ----------
    target : float or None
        The required ratio to the best peer.
    target_passes : float or None
        The required ratio of the passes over A of `scipy lsqr` to ours.
    """

    case: str
    family: str
    n_rows: int
    n_columns: int
    kind: str
    error: float
    reference: str
    conditions: Conditions
    outcomes: tuple[Outcome, ...]
    absent: dict[str, str] = field(default_factory=dict)
    target: float | None = None
    target_passes: float | None = None

    @property
    def ours(self) -> Outcome:
        """The outcome of rowsolve auto."""
        return self.outcomes[0]

    @property
    def peers(self) -> tuple[Outcome, ...]:
        """The outcomes of all solvers except rowsolve."""
        return tuple(one for one in self.outcomes if not one.ours)

    @property
    def best_peer(self) -> Outcome | None:
        """The fastest peer that reached the error, if any."""
        return min((one for one in self.peers if one.verdict == REACHED), key=lambda one: one.best, default=None)

    def ratio(self, peer: Outcome | None) -> float:
        """Return the time of `peer` over ours: infinity if only we reached the error, 0 if only it did, else NaN."""
        theirs = math.inf if peer is None else peer.best
        if math.isinf(self.ours.best):
            return math.nan if math.isinf(theirs) else 0.0
        return theirs / self.ours.best

    @property
    def best_ratio(self) -> float:
        """The ratio to the best peer."""
        return self.ratio(self.best_peer)

    @property
    def passes_ratio(self) -> float | None:
        """The passes over A of `scipy lsqr` over ours; None if unknown."""
        lsqr = next((one for one in self.peers if one.name == "scipy lsqr"), None)
        if lsqr is None or not lsqr.passes or not self.ours.passes:
            return None
        return lsqr.passes / self.ours.passes

    @property
    def on_target(self) -> bool | None:
        """Whether all targets are met; None if there are none. If nobody reached the error, they are not."""
        if self.target is None:
            return None
        enough = self.target_passes is None or (self.passes_ratio or 0.0) >= self.target_passes
        return self.best_ratio >= self.target and enough

    def as_dict(self) -> dict[str, Any]:
        """Return plain values that can be stored as JSON."""
        values = asdict(self)
        values.update(values.pop("conditions"))
        return values

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Result:
        """Return a result from the dict that `as_dict` and JSON have made of it."""
        others = dict(values)
        conditions = Conditions(**{one.name: others.pop(one.name) for one in fields(Conditions) if one.name in others})
        outcomes = tuple(Outcome.from_dict(one) for one in others.pop("outcomes"))
        return cls(**others, conditions=conditions, outcomes=outcomes)


def as_document(results: Iterable[Result]) -> dict[str, Any]:
    """Return `results` as one JSON document, with each machine stored once."""
    machines: list[dict[str, Any]] = []
    cases = {}
    for result in results:
        machine = result.conditions.machine
        if machine not in machines:
            machines.append(machine)
        cases[result.case] = {**result.as_dict(), "machine": machines.index(machine)}
    return {"format": FORMAT, "machines": machines, "cases": cases}


def of_document(document: dict[str, Any]) -> list[Result]:
    """Return the results in a document that `as_document` has made.

    Raises
    ------
    ValueError
        If the document has another format.
    """
    if document.get("format") != FORMAT:
        raise ValueError(f"expected results of format {FORMAT}, got {document.get('format')!r}. Run the race again.")
    machines = document["machines"]
    return [Result.from_dict({**one, "machine": machines[one["machine"]]}) for one in document["cases"].values()]
