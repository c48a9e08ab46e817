"""The mean of the iterates of an inconsistent system."""

from __future__ import annotations

import math
from typing import Any

from rowsolve._solution import Status
from rowsolve.checkpoint.state import Sizes, StateError, check_keys, in_place, integer, listed, packed
from rowsolve.engine.burst import Burst
from rowsolve.engine.iterates import Iterates
from rowsolve.engine.tail import Tail
from rowsolve.methods.base import Method, RowMethod
from rowsolve.policy.thresholds import FEWEST_IN_MEAN

__all__ = ["Averaging"]

_MOST = FEWEST_IN_MEAN**2  # bursts to average: so many in each batch of a `Tail`


class Averaging:
    """The means of the iterates of some right-hand sides.

    Attributes
    ----------
    tails : dict
        The mean of each, by the column of b.
    so_far : int
        The number of bursts before averaging began.
    wanted : int
        The number of bursts to average over.
    """

    def __init__(self, tails: dict[int, Tail], so_far: int, wanted: int, iterates: Iterates, method: Method) -> None:
        assert isinstance(method, RowMethod)
        self.tails, self.so_far, self.wanted = tails, so_far, wanted
        self._iterates, self._converges = iterates, method.can.averages

    @classmethod
    def of(cls, iterates: Iterates, method: RowMethod) -> Averaging:
        """Return means over as many bursts as there were before, or at most 64 if the means do not converge."""
        noisy = [c for c, verdict in enumerate(iterates.verdicts) if verdict is Status.INCONSISTENT]
        tails = {c: Tail(iterates.x.shape[-1]) for c in noisy}
        so_far = iterates.monitor.bursts.n_rows // iterates.monitor.bursts.rows[-1]
        wanted = max(so_far if method.can.averages else min(so_far, _MOST), FEWEST_IN_MEAN)
        return cls(tails, so_far, wanted, iterates, method)

    @property
    def tail(self) -> Tail:
        """The first of the means."""
        return next(iter(self.tails.values()))

    def go(self, burst: Burst) -> Status:
        """Average the iterates of more bursts: in an inconsistent system x keeps moving around its mean.

        If the mean converges to the least-squares solution, averaging goes on until it is accurate enough, unless that
        takes more rows than are allowed. Otherwise `wanted` bursts are averaged. Over fewer bursts than there were
        before averaging, the iterates may be strongly correlated, so such a mean is not called converged.
        """
        tail, clock = self.tail, burst.context.system.clock
        try:
            while clock.left > 0.0 and burst.rows_allowed >= 1:
                burst.context.offer_to_save()
                burst.advance()
                for c, each in self.tails.items():
                    each.add(self._iterates.values[c])
                burst.progress.report("solve")
                if tail.count < self.wanted:
                    continue
                if not self._converges:
                    break
                missing = self._bursts_left()
                if missing <= 0.0:
                    return Status.CONVERGED
                if missing * self._iterates.monitor.bursts.rows[-1] > burst.rows_allowed:
                    break
                self.wanted = tail.count + min(math.ceil(missing), tail.count)
            return Status.INCONSISTENT
        finally:
            for c, each in self.tails.items():
                self._take_mean(c, each, measured=self._converges and tail.count >= self.so_far)

    def _bursts_left(self) -> float:
        """Return how many more bursts are needed: the error decreases with the square root of their number."""
        monitor, tail = self._iterates.monitor, self.tail
        allowed = monitor.allowed / monitor.estimator.margin
        return tail.count * ((tail.error / allowed) ** 2 - 1.0) if allowed > 0.0 else math.inf

    @property
    def rows_left(self) -> float:
        """The number of rows until the mean is accurate enough; NaN if averaging does not make it converge."""
        return self._bursts_left() * self._iterates.monitor.bursts.rows[-1] if self._converges else math.nan

    @property
    def n_rows(self) -> int:
        """The number of rows that the mean is taken over."""
        return self.tail.count * self._iterates.monitor.bursts.rows[-1]

    def _take_mean(self, c: int, tail: Tail, *, measured: bool) -> None:
        """Replace the x of right-hand side `c` by the mean, unless the tail is too short for an error estimate.

        Successive iterates are correlated, so the mean of many is only as accurate as that of fewer independent ones.
        The error of a short tail is at least the one that follows from this; the error of a long one is `measured`.
        """
        if math.isnan(tail.error):
            return
        monitor = self._iterates.monitors[c]
        likeness = math.sqrt(monitor.bursts.memory(monitor.bursts.rows[-1]))
        worth = max(1.0, tail.count * (1.0 - likeness) / (1.0 + likeness))
        expected = 0.0 if measured else monitor.error / math.sqrt(worth)
        self._iterates.values[c] = tail.mean
        monitor.record(tail.mean, max(expected, tail.error))

    def state(self) -> dict[str, Any]:
        """Return the state, with the tails in the order of their right-hand sides."""
        tails = {"columns": list(self.tails), "tails": packed(list(self.tails.values()))}
        return {**tails, "so_far": self.so_far, "wanted": self.wanted}

    @classmethod
    def from_state(cls, state: Any, sizes: Sizes, iterates: Iterates, method: Method) -> Averaging:
        """Return the means with that state."""
        check_keys(state, ("columns", "tails", "so_far", "wanted"))
        columns = listed(integer(0, sizes["k"] - 1))(state["columns"], sizes)
        if not columns or sorted(set(columns)) != columns:
            raise StateError("columns: expected at least one, in increasing order")
        if not all(monitor.bursts.rows for monitor in iterates.monitors):
            raise StateError("rows: expected at least one burst, as iterates are averaged")
        tails = [Tail.from_state(each, sizes["p"]) for each in listed(in_place, len(columns))(state["tails"], sizes)]
        so_far, wanted = (integer()(state[name], sizes) for name in ("so_far", "wanted"))
        return cls(dict(zip(columns, tails, strict=True)), so_far, wanted, iterates, method)
