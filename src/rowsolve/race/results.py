"""What a race found, to be written down and read again."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

__all__ = ["NEVER", "REACHED", "SKIPPED", "Attempt", "Outcome", "Result", "as_document", "of_document"]

FORMAT = 1
REACHED, NEVER, SKIPPED = "reached", "never", "skipped"


@dataclass(frozen=True)
class Attempt:
    """One run while the loosest setting was looked for that is tight enough.

    `error` is None if there was no x, because the time was up or an error was raised; `status` says which.
    """

    setting: float
    seconds: float
    error: float | None
    status: str
    passes: float | None = None


@dataclass(frozen=True)
class Outcome:
    """What became of one contestant.

    Attributes
    ----------
    verdict : str
        ``"reached"``, ``"never"`` or ``"skipped"``.
    why : str
        For the last two: the reason, in words.
    setting : float or None
        The one that was timed.
    seconds : tuple of float
        Every timed run, first that of the search; the least counts. It is the only one if it was too slow to be
        repeated.
    error : float or None
        The largest true error of the timed runs; for ``"never"`` the least one that was reached.
    attempts : tuple of Attempt
        The search.
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
        """The least time; infinity if the error was never reached."""
        return min(self.seconds) if self.verdict == REACHED else math.inf

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Outcome:
        """Undo `dataclasses.asdict` and JSON."""
        attempts = tuple(Attempt(**one) for one in values["attempts"])
        return cls(**{**values, "seconds": tuple(values["seconds"]), "attempts": attempts})


@dataclass(frozen=True)
class Result:
    """A whole race.

    The ratio of a peer is its time over ours; above 1 we are faster. Ours is ``rowsolve auto``, the first outcome.

    Attributes
    ----------
    target : float or None
        The ratio to the best peer that is to be reached.
    target_passes : float or None
        How many times more often than ours `scipy lsqr` is to read A.
    limit : float or None
        Seconds that one run was allowed.
    busy : float or None
        Cores that other programs kept busy just before; where it is not near 0 the times mean little.
    """

    case: str
    family: str
    n_rows: int
    n_columns: int
    kind: str
    error: float
    reference: str
    threads: int
    outcomes: tuple[Outcome, ...]
    absent: dict[str, str] = field(default_factory=dict)
    target: float | None = None
    target_passes: float | None = None
    limit: float | None = None
    busy: float | None = None
    machine: dict[str, Any] = field(default_factory=dict)

    @property
    def ours(self) -> Outcome:
        """The outcome of rowsolve auto."""
        return self.outcomes[0]

    @property
    def peers(self) -> tuple[Outcome, ...]:
        """The outcomes of all that are not rowsolve."""
        return tuple(one for one in self.outcomes if not one.ours)

    @property
    def best_peer(self) -> Outcome | None:
        """The quickest peer that reached the error, if any."""
        return min((one for one in self.peers if one.verdict == REACHED), key=lambda one: one.best, default=None)

    def ratio(self, peer: Outcome | None) -> float:
        """Return the time of `peer` over ours: infinity if only we got there, 0 if only it did, NaN if neither."""
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
        """How many times more often than ours `scipy lsqr` read A; None if that is not known."""
        lsqr = next((one for one in self.peers if one.name == "scipy lsqr"), None)
        if lsqr is None or not lsqr.passes or not self.ours.passes:
            return None
        return lsqr.passes / self.ours.passes

    @property
    def on_target(self) -> bool | None:
        """Whether all targets are met; None if there are none. Where nobody reached the error, none is."""
        if self.target is None:
            return None
        enough = self.target_passes is None or (self.passes_ratio or 0.0) >= self.target_passes
        return self.best_ratio >= self.target and enough

    def as_dict(self) -> dict[str, Any]:
        """Return plain values that JSON knows."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Result:
        """Undo `as_dict` and JSON."""
        return cls(**{**values, "outcomes": tuple(Outcome.from_dict(one) for one in values["outcomes"])})


def as_document(results: Iterable[Result]) -> dict[str, Any]:
    """Return `results` as one JSON document; machines that several races share are written once."""
    machines: list[dict[str, Any]] = []
    cases = {}
    for result in results:
        if result.machine not in machines:
            machines.append(result.machine)
        cases[result.case] = {**result.as_dict(), "machine": machines.index(result.machine)}
    return {"format": FORMAT, "machines": machines, "cases": cases}


def of_document(document: dict[str, Any]) -> list[Result]:
    """Undo `as_document`.

    Raises
    ------
    ValueError
        If it is of another format.
    """
    if document.get("format") != FORMAT:
        raise ValueError(f"expected results of format {FORMAT}, got {document.get('format')!r}: run the race anew.")
    machines = document["machines"]
    return [Result.from_dict({**one, "machine": machines[one["machine"]]}) for one in document["cases"].values()]
