"""The one loop: a burst of rows, the monitor's opinion, an event; then the check of fresh rows."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

import numpy as np

from rowsolve._solution import Event, History, Status
from rowsolve.checkpoint.state import (
    Kind,
    Sizes,
    StateError,
    array,
    check_keys,
    fill,
    flag,
    in_place,
    integer,
    listed,
    member,
    number,
    optional,
    packed,
    row_numbers,
    state_of,
)
from rowsolve.engine.check import (
    FINDING,
    ROWS_TO_CHECK,
    Finding,
    check_of_used_rows,
    far_from_usual,
    finding_of,
    full_check,
    is_backed,
    rows_off,
    rows_that_reach,
    sampled_check,
)  # fmt: skip
from rowsolve.engine.chunks import InChunks
from rowsolve.engine.tail import Tail
from rowsolve.estimate.monitor import Monitor, Tolerance
from rowsolve.estimate.step import FINDINGS, NOTHING_YET, Findings, Step
from rowsolve.kernels.rows import room_for_vectors
from rowsolve.methods.base import Method, Plan, RowMethod, StepMethod
from rowsolve.methods.oblivious import sweep_rows
from rowsolve.problem.clock import OutOfTime
from rowsolve.problem.system import WORK_OF_A_BURST, System

__all__ = ["OutOfRange", "Run", "go_on"]

_SMALLEST_X = 1e-152  # its square must not be lost
_NO_ROWS = np.empty(0, np.int64)
_LONG = 200  # times p rows, in which an x that comes nearer does so visibly
_WORK_OF_A_LOOK = 10_000  # numbers: reading so many takes as long as judging a burst
_STEADY = 64  # columns from which on the error decays steadily
_SHRUNK = 30.0  # times the tolerance
_NEAR = 10.0  # times how far x may be from a row: no more can be asked where rounding ends the run
_FAR = 4  # times the usual rows of a burst
_GROWN = 2  # times the rows of the last
_STEPS_TO_GO_BY = 3
_ODD = 3.0  # excess at which it is time to look more often: it is about 1 if the equations agree
_GROWTH = 1 / 128  # of the run so far: a long run of small bursts would be all overhead
# Of several right-hand sides the first of these is what holds for all; None is no verdict yet.
_BY_GRAVITY = (Status.SLOW, None, Status.INCONSISTENT, Status.PRECISION, Status.CONVERGED)
_FEWEST_AVERAGED, _MOST_AVERAGED = 8, 64  # bursts whose iterates are averaged when the system is inconsistent


class OutOfRange(ValueError):
    """x has left the range of float64."""


class _StoppedByCallback(Exception):
    pass


def go_on(_: Monitor) -> Status | None:
    """Never give up."""
    return None


@dataclass
class Run:
    """One solve: what it needs, and what it has found so far."""

    method: Method
    system: System
    tolerance: Tolerance
    x0: np.ndarray
    max_rows: float
    check: str
    rng: np.random.Generator
    callback: Callable[[Event], Any] | None = None
    give_up: Callable[[Monitor], Status | None] = go_on  # asked after every burst
    history: History = field(default_factory=History)
    save: Callable[[], Any] | None = None  # called where the state can be saved
    probe: np.ndarray | None = None  # what the error of x0 is like, if that is known
    suspects: np.ndarray = field(default_factory=lambda: _NO_ROWS)  # fresh rows that disagreed with x
    off: np.ndarray = field(default_factory=lambda: _NO_ROWS)  # rows that contradict the others
    zero_rows: np.ndarray = field(default_factory=lambda: _NO_ROWS)  # rows of zeros whose b is not
    finding: Finding | None = None
    tail: Tail | None = None  # of the iterates, if they were averaged
    findings: Findings = NOTHING_YET  # of this stage and those before
    cut_off: bool = False  # whether x was brought within its bounds, of which the method knows nothing

    def __post_init__(self) -> None:
        self.clock = self.system.clock
        self.rows_prepared = 0
        self.prepared_at = 0.0
        self.rows_to_look_again = 0
        self.plan: Any = None  # of a row method, once there is one
        self.steps: Any = None  # of a method that judges itself
        self.averaging: _Averaging | None = None
        n_rhs, p = self.system.n_rhs, self.system.n_columns
        self.iterates = np.empty((2, p)) if n_rhs == 1 else room_for_vectors(self.system.rows, n_rhs + 1, p)
        self.drops = np.zeros(n_rhs + 1)
        self.bounds = self.system.bounds if self.method.takes_bounds else None
        self.iterates[:-1] = self.x0
        self._start_monitors(warm=bool(self.x0.any()))

    @property
    def x(self) -> np.ndarray:
        """The current x, of shape (p,); or one for each right-hand side, of shape (n_rhs, p)."""
        return self.iterates[0] if self.system.n_rhs == 1 else self.iterates[:-1]

    @property
    def monitor(self) -> Monitor:
        """The monitor that tells when all will be done: that of the x furthest behind, without a verdict if any is."""
        if len(self.monitors) == 1:
            return self.monitors[0]
        undecided = [each for each, verdict in zip(self.monitors, self.verdicts, strict=True) if verdict is None]
        return max(undecided or self.monitors, key=lambda each: each.shortfall)

    @property
    def relative_errors(self) -> np.ndarray:
        """The estimated relative error of each x."""
        return np.array([each.relative_error for each in self.monitors])

    @property
    def worst_error(self) -> float:
        """The largest of them; NaN if one is."""
        return self.monitors[0].relative_error if len(self.monitors) == 1 else float(self.relative_errors.max())

    @property
    def rows_allowed(self) -> float:
        """How many rows may still be read."""
        return self.max_rows - self.system.rows_read

    def go(self) -> Status:
        """Prepare, iterate and check; return how it ended. Ctrl-C ends it with the x so far."""
        try:
            if isinstance(self.method, StepMethod):
                return self._certify(self._follow(self.method))
            assert isinstance(self.method, RowMethod)
            return self._certify(self._project(self.method))
        except KeyboardInterrupt:
            return Status.INTERRUPTED
        except OutOfTime:
            return Status.MAX_SECONDS
        except _StoppedByCallback:
            return Status.STOPPED

    def _follow(self, method: StepMethod) -> Status:
        """Take the steps of a method that judges itself, until x is good or no better x is to be had."""
        self.system.counter.watch(self._on_piece, self.max_rows)
        if self.steps is None:
            self.steps = method.steps(self.system, self.x0, self.tolerance, self.rng, self.probe)
        for step in self.steps:
            self._take_step(step)
            self.findings = self.findings.updated(step.findings)
            self._record(math.nan)
            status = step.status
            if self.cut_off and status is not None:
                return status
            if status in (Status.CONVERGED, Status.PRECISION):
                if method.least_squares and step.residual is not None and self.check == "sampled":
                    self.finding = finding_of(self.system, step.residual)
                    return status
                self.off = self._rows_that_disagree()
                return Status.INCONSISTENT if self.off.size else status
            if status is not None:
                return status
            if self.rows_allowed < self.system.n_rows:  # a step is a pass
                return Status.MAX_PASSES
            self.system.clock.check()
            if self.save is not None:
                self.save()
        raise AssertionError("a method ends with a status")

    def _take_step(self, step: Step) -> None:
        """Take over x and its error, which is not known if x has to be cut off at bounds that the method ignores."""
        self.iterates[:-1] = step.x
        if self.system.bounds is not None and self.bounds is None:
            np.clip(self.iterates[:-1], *self.system.bounds, out=self.iterates[:-1])
            self.cut_off = bool(np.any(self.iterates[:-1] != step.x))
        errors = (np.zeros(len(self.monitors)) + step.error).tolist()
        for monitor, x, error in zip(self.monitors, self.iterates[:-1], errors, strict=True):
            _keep_in_range(error)
            monitor.settle(x, math.nan if self.cut_off else error)

    def _on_piece(self) -> None:
        """Tell the caller; save the state if the step can be gone on with."""
        self._emit("solve")
        if self.save is not None and getattr(self.steps, "can_be_saved", False):
            self.save()

    def _project(self, method: RowMethod) -> Status:
        """Let a method prepare, and project on the rows that it takes."""
        system = self.system
        if self.plan is None:
            system.counter.watch(partial(self._emit, "prepare"))
            chunked = system.stored and method.in_chunks
            self.plan = InChunks(method, system, self.rng) if chunked else method.begin(system, self.rng)
            self.rows_prepared, self.prepared_at = system.rows_read, self.clock.elapsed
        system.counter.watch(partial(self._emit, "check"))
        if self.averaging is None:
            status = self._iterate(self.plan)
            if status is Status.INCONSISTENT and self.bounds is not None:
                return self._contradicted(unsure=True)  # the mean is not the least-squares solution within them
            if status is not Status.INCONSISTENT or self.off.size:
                return status
            self._begin_to_average()
        return self._average(self.plan)

    def _start_monitors(self, *, warm: bool = True) -> None:
        """Begin to judge from the current x, each by itself, with a new probe (unless the method judges itself)."""
        probe = self.iterates[-1]
        probe[:] = 0.0
        if isinstance(self.method, RowMethod):
            probe += self.rng.standard_normal(probe.size)
            probe /= math.sqrt(probe @ probe)
        patience = self.system.n_rows if getattr(self.method, "in_given_order", False) else 0
        bounded = self.bounds is not None
        self.monitors = [
            Monitor(self.tolerance, x, probe, warm=warm, patience=patience, bounded=bounded) for x in self.iterates[:-1]
        ]
        self.verdicts: list[Status | None] = [None] * len(self.monitors)

    def _iterate(self, plan: Plan) -> Status:
        """Take bursts until something is settled.

        Fresh rows that disagree with an x that looked good are news, or contradictions. They are used in every
        burst from then on: if they are news, x converges with them; if not, the monitor finds the
        contradiction, and x is found without them. A method that stands some wrong rows has found x without them
        already.
        """
        while True:
            if self.save is not None:
                self.save()
            if self.clock.left <= 0.0:
                return Status.MAX_SECONDS
            if self.rows_allowed < 1:
                return Status.MAX_PASSES
            status = self._burst(plan) or next(filter(None, map(self.give_up, self.monitors)), None)
            if status is Status.CONVERGED and self.method.least_squares and not self._has_seen_enough():
                self.verdicts = [None] * len(self.verdicts)
                continue
            if status in (Status.CONVERGED, Status.PRECISION):
                if self.off.size:
                    return self._contradicted(unsure=self._rows_never_heard().size > 0)
                disagreeing = self._rows_that_disagree()
                if self.off.size:
                    return status if self._stands_rows_off() else self._contradicted(unsure=True)
                if not disagreeing.size:
                    return status
                if np.isin(disagreeing, self.suspects).all():
                    if self.method.share_it_stands:  # no others have a say there, and these are not of one mind
                        self.off = self.suspects
                        return self._contradicted(unsure=True)
                    return Status.PRECISION  # they were all used just now: only rounding can keep x from them
                self.suspects = np.union1d(self.suspects, disagreeing)
                self._start_monitors()
            elif status is Status.INCONSISTENT and self.method.share_it_stands and self.monitor.falls:
                self._start_monitors()  # wrong rows held x up at first, and the probe ran ahead
            elif status is Status.INCONSISTENT and self.bounds is not None and self._still_comes_nearer():
                pass
            elif status is Status.INCONSISTENT and self.suspects.size:
                self.off, self.suspects = self.suspects, _NO_ROWS
                plan.agreeing = True
                self._start_monitors()
            elif status is not None:
                self.off = _NO_ROWS
                return status

    def _has_seen_enough(self) -> bool:
        """Tell whether all directions have been heard; fresh rows, which need not be satisfied, could not tell.

        They have if the probe has shrunk as x must. Or, as a pass shows, if x satisfies all rows, or if none of them
        reaches what is left of the probe.
        """
        monitor = self.monitor
        shrunk = math.sqrt(monitor.probe_sq / monitor.probe_start_sq)
        if shrunk <= _SHRUNK * max(self.tolerance.rtol, self.tolerance.eps):
            return True
        if monitor.n_rows_seen < self.rows_to_look_again:
            return False
        self.rows_to_look_again = 2 * monitor.n_rows_seen + self.system.n_rows
        if not full_check(self.system, self.x, self.limit).off.size:
            return True
        return not rows_that_reach(self.system, self.iterates[-1]).size

    def _still_comes_nearer(self) -> bool:
        """Tell whether x may still find its way between the equations and its bounds.

        Where A has a null space, the probe settles in it and says nothing about the bounds. Then only an x that
        moves on and on, no less than before, contradicts.
        """
        monitor, long = self.monitor, _LONG * max(self.system.n_columns, 64)
        self.verdicts = [None]
        return monitor.spent and (monitor.n_rows_seen < long or monitor.falls)

    def _burst(self, plan: Plan) -> Status | None:
        """Let the method take some rows; return the monitors' verdict: the gravest, once each has come to one.

        An x that is good moves on with the others; its estimate follows, but no verdict on it is taken back.
        """
        order = self._advance(plan)
        drops = self.drops[:-1].tolist()
        for c, monitor in enumerate(self.monitors):
            _keep_in_range(drops[c])
            if self.verdicts[c] in (None, Status.CONVERGED):
                monitor.rounding, monitor.window = plan.rounding, plan.window
                monitor.eps = max(self.tolerance.eps, plan.eps)
                before = self.verdicts[c], monitor.error
                x, probe, both = self.iterates[c], self.iterates[-1], self.drops[[c, -1]]
                self.verdicts[c] = monitor.observe(order.size, both, x, probe, self.rows_allowed)
                if before[0] is not None:  # it is good already, and can only come nearer
                    self.verdicts[c], monitor.error, monitor.suspicious = (
                        before[0],
                        min(before[1], monitor.error),
                        False,
                    )
        self._record(sum(drops))
        if self._is_misled(plan):
            return None
        return next(verdict for verdict in _BY_GRAVITY if verdict in self.verdicts)

    def _record(self, drop: float) -> None:
        """Write a line of the history, and tell the caller."""
        for monitor, x in zip(self.monitors, self.iterates[:-1], strict=True):
            if monitor.norm_x < _SMALLEST_X and x.any():
                raise OutOfRange("x is too small for float64: rescale `A` or `b` so that it is well above 1e-150.")
        self.history.add(self.method.name, self.system.rows_read, self.clock.elapsed, drop, self.worst_error)
        self._emit("solve")

    def _is_misled(self, plan: Plan) -> bool:
        """Tell whether x may have been led astray by what holds only for equations that agree."""
        return plan.takes_shortcuts and any(monitor.suspicious for monitor in self.monitors)

    def _advance(self, plan: Plan) -> np.ndarray:
        """Let the method take some rows, and take those under suspicion; return all of them.

        Where the equations seem not to agree, plain steps go on from where x is, and are judged by themselves.
        """
        assert isinstance(self.method, RowMethod)
        if self._is_misled(plan):
            plan.agreeing = False
            self._start_monitors()
        n_rows = self._rows_of_a_burst(plan)
        if isinstance(plan, InChunks):
            order = plan.advance(self.iterates, n_rows, self.rng, self.drops)
        else:
            order = self.method.advance(plan, self.iterates, n_rows, self.rng, self.drops)
        if self.suspects.size:
            drops = np.zeros_like(self.drops)
            sweep_rows(self.system, self.suspects, self.iterates, drops)
            self.drops += drops
            order = np.concatenate([order, self.suspects])
        if self.bounds is not None:
            self._keep_within(*self.bounds)
        self.system.count(order)
        return order

    def _keep_within(self, low: np.ndarray, high: np.ndarray) -> None:
        """Project x on its bounds. It comes nearer to every solution within them: at least by what the drop counts."""
        x = self.iterates[0]
        within = np.clip(x, low, high)
        moved = x - within
        self.drops[0] += moved @ moved
        x[:] = within

    def _rows_of_a_burst(self, plan: Plan) -> int:
        """Return how many rows to take before looking up: as the work allows, no more than may be read.

        It depends on the clock only when there is a deadline, so that the same seed gives the same bits.
        """
        n_chains = plan.chains.n_chains if plan.chains else 1
        rows: float = max(self.system.n_columns, 64) * min(n_chains, 4)
        if not self.monitor.rows and not self.monitor.warm:
            # Even well-conditioned rows need twice as many. In small systems it is looking up that takes time.
            few = self.system.n_columns * -math.log(self.tolerance.rtol or 1.0)
            rows = max(rows, min(few, _WORK_OF_A_LOOK / plan.work_per_row, self.rows_allowed / 4))
        if not self.suspects.size:
            rows = max(rows, self.monitor.n_rows_seen * _GROWTH)
            if self.system.n_columns >= _STEADY and len(self.monitor.rows) > 1:
                rows = self._towards_the_end(rows)
        rows = min(rows, WORK_OF_A_BURST * n_chains / plan.work_per_row, self.rows_allowed / plan.price_of_row)
        if self.clock.left < np.inf:
            spent, done = self.clock.elapsed - self.prepared_at, self.system.rows_read - self.rows_prepared
            rows = min(rows, self.clock.left * done / spent if done else rows / 16)
        steps = int(rows) // plan.rows_per_step
        return max(1, steps) * plan.rows_per_step

    def _towards_the_end(self, rows: float) -> float:
        """Return more than `rows` while the end is far, and as many as are needed when it is near.

        A look takes as long as some hundred rows. With many columns the error decays steadily, so little is lost
        between looks, unless the equations seem to contradict each other. Who asks for no error in particular
        (experiments) wants to look often.
        """
        left = 1.05 * self.monitor.rows_left
        if not 0.0 < left < math.inf or self.tolerance.rtol == self.tolerance.atol == 0.0:
            return rows
        if left < rows:
            return max(left, self.system.n_columns / 4)
        if self.monitor.excess > _ODD:
            return rows
        return max(rows, min(left / 2, _FAR * rows, _GROWN * self.monitor.rows[-1]))

    def _rows_that_disagree(self) -> np.ndarray:
        """Check fresh rows, then all if asked to; return some of those from which x is too far away.

        Where x converged but the probe did not, there may be rows that were not heard; they are news. If there are
        none, the rows that contradict x are put into `off` if the method stands that some are wrong.
        """
        if self.method.least_squares and not self.system.stored:
            self.finding = check_of_used_rows(self.system, self.x)
        else:
            self.finding = sampled_check(self.system, self.x, self.limit, self.rng)
        if self.method.least_squares:
            return _NO_ROWS  # no row needs to be satisfied
        rows, robust = self.finding.off, self.method.share_it_stands > 0.0
        news = self._rows_never_heard() if robust or not rows.size else _NO_ROWS
        if news.size:
            rows = news
        elif (robust and rows.size) or (not rows.size and self.check == "full"):
            self.finding = full_check(self.system, self.x, self.limit)
            rows = self.finding.off
            if robust:
                self.off, rows = rows, _NO_ROWS
        return self.rng.permutation(rows)[: max(self.system.n_columns, ROWS_TO_CHECK)]

    def _rows_never_heard(self) -> np.ndarray:
        """Return the rows that reach what is left of the probe while those used do not.

        Where it settled short of zero, A seems to be rank-deficient; but that is a statement about all
        rows, so all are asked. A method that leaves rows out may have left out all that have a say in some
        direction: these then stand out, and x contradicts them.
        """
        z, robust = self.iterates[-1], self.method.share_it_stands > 0.0
        if any(monitor.spent for monitor in self.monitors) and z.any():
            rows = rows_that_reach(self.system, z)
        elif robust and not self.monitor.probe_vanished:
            rows = rows_that_reach(self.system, z, far_from_usual(self.system, z, self.rng))
        else:
            return _NO_ROWS
        return rows_off(self.system, rows, self.x, self.limit)[0] if robust else rows

    def _stands_rows_off(self) -> bool:
        """Tell whether x can do without the rows in `off`: few everywhere, and the others suffice."""
        assert self.finding is not None
        share = max(self.off.size / self.system.n_rows, self.finding.largest_share)
        if not (share < self.method.share_it_stands and self.monitor.error <= _NEAR * self.limit[0]):
            return False
        return is_backed(self.system, self.off, self.method.share_it_stands, self.rng, self.findings.rank)

    def _contradicted(self, *, unsure: bool) -> Status:
        """Take the estimate back if x is `unsure`: rows that were left out may be right."""
        if unsure:
            self.monitor.settle(self.x, math.nan)
        return Status.INCONSISTENT

    @property
    def limit(self) -> np.ndarray:
        """How far each x may be from a hyperplane: three times the error allowed, and rounding."""
        return np.array([3.0 * each.allowed + 16.0 * self.tolerance.eps * each.norm_x for each in self.monitors])

    def _begin_to_average(self) -> None:
        """Lay out the means: of as many bursts as x took to get here, or of some if that is enough."""
        assert isinstance(self.method, RowMethod)
        noisy = [c for c, verdict in enumerate(self.verdicts) if verdict is Status.INCONSISTENT]
        tails = {c: Tail(self.system.n_columns) for c in noisy}
        self.tail = tails[noisy[0]]
        so_far = self.monitor.n_rows_seen // self.monitor.rows[-1]
        wanted = max(so_far if self.method.averages else min(so_far, _MOST_AVERAGED), _FEWEST_AVERAGED)
        self.averaging = _Averaging(tails, so_far, wanted)

    def _average(self, plan: Plan) -> Status:
        """Average the iterates of more bursts: contradicting equations keep x moving around its mean.

        A while will do, unless the mean tends to the least-squares solution: then until it is as good as asked, if that
        takes no more rows than are allowed. The mean of fewer bursts than x took to get here may be of iterates
        that are all alike, so no other is called converged.
        """
        assert isinstance(self.method, RowMethod)
        state, tail = self.averaging, self.tail
        assert state is not None
        assert tail is not None
        try:
            while self.clock.left > 0.0 and self.rows_allowed >= 1:
                if self.save is not None:
                    self.save()
                self._advance(plan)
                for c, each in state.tails.items():
                    each.add(self.iterates[c])
                self._emit("solve")
                if tail.count < state.wanted:
                    continue
                if not self.method.averages:
                    break
                missing = self._bursts_to_average(tail)
                if missing <= 0.0:
                    return Status.CONVERGED
                if missing * self.monitor.rows[-1] > self.rows_allowed:
                    break
                state.wanted = tail.count + min(math.ceil(missing), tail.count)
            return Status.INCONSISTENT
        finally:
            for c, each in state.tails.items():
                self._take_mean(c, each, measured=self.method.averages and tail.count >= state.so_far)

    def _bursts_to_average(self, tail: Tail) -> float:
        """Return how many more are needed, as the error of the mean falls by the square root of their number."""
        allowed = self.monitor.allowed / self.monitor.margin
        return tail.count * ((tail.error / allowed) ** 2 - 1.0) if allowed > 0.0 else math.inf

    @property
    def passes_to_average(self) -> float:
        """How many more passes would make the mean as good as asked; NaN if it does not get better by averaging."""
        if self.tail is None or not getattr(self.method, "averages", False):
            return math.nan
        return self._bursts_to_average(self.tail) * self.monitor.rows[-1] / self.system.n_rows

    def _take_mean(self, c: int, tail: Tail, *, measured: bool) -> None:
        """Make the mean the x to give back for right-hand side `c`, if there is one to speak of.

        Neighbouring iterates are alike as far as a burst lets x remember, so the mean of many is worth fewer
        independent ones. That bounds the error of a short tail; a long one has `measured` it.
        """
        if math.isnan(tail.error):
            return
        monitor = self.monitors[c]
        likeness = math.sqrt(monitor.memory(monitor.rows[-1]))
        worth = max(1.0, tail.count * (1.0 - likeness) / (1.0 + likeness))
        expected = 0.0 if measured else monitor.error / math.sqrt(worth)
        self.iterates[c] = tail.mean
        monitor.settle(tail.mean, max(expected, tail.error))

    def _certify(self, status: Status) -> Status:
        """Find out the residual, unless the last check of fresh rows has."""
        if self.off.size:
            self.off, _ = rows_off(self.system, self.off, self.x, self.limit)
        if self.check == "full" and status is not Status.MAX_SECONDS:
            if self.finding is None or not self.finding.residual.full or self.tail or status is Status.INCONSISTENT:
                self.finding = full_check(self.system, self.x, self.limit)
            if self.off.size:
                self.off = self.finding.off
        elif self.tail is not None or status not in (Status.CONVERGED, Status.PRECISION):
            self.finding = sampled_check(self.system, self.x, self.limit, self.rng)
        self.zero_rows = self._zero_rows()
        return status

    def _rows_left(self) -> float:
        """Return how many more rows it takes, as the monitor has it, or else as the last steps fell; NaN if unknown."""
        if not isinstance(self.method, StepMethod):
            return self.monitor.rows_left
        errors, rows = self.history.error_estimate[-_STEPS_TO_GO_BY:], self.history.rows_read[-_STEPS_TO_GO_BY:]
        ours = [name == self.method.name for name in self.history.method[-_STEPS_TO_GO_BY:]]
        if len(errors) < _STEPS_TO_GO_BY or not all(ours) or not errors[0] > errors[-1] > 0.0:
            return math.nan
        return math.log(max(self.monitor.shortfall, 1.0)) / math.log(errors[0] / errors[-1]) * (rows[-1] - rows[0])

    def _zero_rows(self) -> np.ndarray:
        """Return the rows of zeros whose b is not: one, if any has been read; all of them if all are to be checked.

        They have no say in x, and so in the status; no x satisfies them.
        """
        system = self.system
        if system.counter.contradiction is None or self.method.least_squares:
            return _NO_ROWS
        if self.check != "full":
            return np.array([system.counter.contradiction])
        return np.flatnonzero((system.norms_sq() == 0.0) & (system.facts.largest_b != 0.0))

    def _emit(self, stage: str) -> None:
        if self.callback is None:
            return
        n_rows, rows_left = self.system.n_rows, self._rows_left()
        done = self.system.rows_read - self.rows_prepared
        pace = (self.clock.elapsed - self.prepared_at) / done if stage == "solve" and done else np.nan
        x = self.x.T.view()
        x.flags.writeable = False
        event = Event(
            stage=stage,
            rows_read=self.system.rows_read,
            passes=self.system.rows_read / n_rows,
            bytes_read=self.system.bytes_read,
            seconds=self.clock.elapsed,
            error_estimate=self.worst_error,
            passes_left=rows_left / n_rows,
            seconds_left=rows_left * pace,
            x=x,
        )
        answer = self.callback(event)
        if isinstance(answer, bool | np.bool_) and answer:
            raise _StoppedByCallback

    saved: ClassVar[dict[str, Kind]] = {
        "x0": lambda value, sizes: array(*(("p",) if sizes["k"] == 1 else ("k", "p")))(value, sizes),
        "probe": optional(array("p")),
        **dict.fromkeys(("suspects", "off", "zero_rows"), row_numbers()),
        "finding": optional(FINDING),
        "findings": FINDINGS,
        "cut_off": flag,
        **dict.fromkeys(("rows_prepared", "rows_to_look_again"), integer()),
        "prepared_at": number,
        "iterates": array("v", "p", order="many"),
        "drops": array("v"),
        "verdicts": listed(optional(member(Status)), "k"),
    }
    derived: ClassVar[tuple[str, ...]] = (
        "method", "system", "tolerance", "max_rows", "check", "rng", "callback", "give_up", "history", "save", "tail",
        "clock", "plan", "steps", "averaging", "bounds", "monitors",
    )  # fmt: skip

    def state(self, *, done: bool = False) -> dict[str, Any]:
        """Return what has been found so far; without what it takes to go on, if the run is `done`."""
        method, plan = self.method, self.plan
        if isinstance(method, RowMethod) and not isinstance(plan, InChunks):
            plan = method.save(plan)
        return {
            **state_of(self),
            "monitors": packed(self.monitors),
            "averaging": packed(self.averaging),
            "plan": None if done else packed(plan),
            "steps": None if done else packed(self.steps),
        }

    def restore(self, state: Any, *, done: bool = False) -> None:
        """Take over what was found before."""
        sizes = self.system.sizes
        fill(self, state, sizes, besides=("monitors", "averaging", "plan", "steps"))
        for monitor, each in zip(self.monitors, listed(in_place, "k")(state["monitors"], sizes), strict=True):
            monitor.restore(each)
        if state["averaging"] is not None:
            self.averaging = _Averaging.from_state(state["averaging"], sizes)
            self.tail = next(iter(self.averaging.tails.values()))
            if not all(monitor.rows for monitor in self.monitors):
                raise StateError("rows: expected some, as iterates are averaged")
        rows = isinstance(self.method, RowMethod) and not done
        for name, is_there in (("plan", rows), ("steps", not rows and not done)):
            if (state[name] is not None) is not is_there:
                raise StateError(f"{name}: expected {'one' if is_there else 'none'}")
        if not done:
            self._go_on_with(state["plan"], state["steps"])

    def _go_on_with(self, plan: Any, steps: Any) -> None:
        """Take over the plan, or the steps of a method that judges itself."""
        system = self.system
        if isinstance(self.method, RowMethod):
            chunked = system.stored and self.method.in_chunks
            self.plan = InChunks.from_state(self.method, system, plan) if chunked else self.method.resume(system, plan)
            return
        assert isinstance(self.method, StepMethod)
        self.steps = self.method.steps(system, self.x0, self.tolerance, self.rng, self.probe)
        if not hasattr(self.steps, "restore"):
            raise StateError(f"steps: {self.method.name} has no state")
        self.steps.restore(steps)


@dataclass
class _Averaging:
    """The means of the iterates, how many bursts x took before, and how many are to be averaged."""

    tails: dict[int, Tail]
    so_far: int
    wanted: int

    def state(self) -> dict[str, Any]:
        """Return all of it; the tails in the order of the right-hand sides that they are of."""
        tails = {"columns": list(self.tails), "tails": packed(list(self.tails.values()))}
        return {**tails, "so_far": self.so_far, "wanted": self.wanted}

    @classmethod
    def from_state(cls, state: Any, sizes: Sizes) -> _Averaging:
        """Return the means with that state."""
        check_keys(state, ("columns", "tails", "so_far", "wanted"))
        columns = listed(integer(0, sizes["k"] - 1))(state["columns"], sizes)
        if not columns or sorted(set(columns)) != columns:
            raise StateError("columns: expected different ones, at least one")
        tails = [Tail.from_state(each, sizes["p"]) for each in listed(in_place, len(columns))(state["tails"], sizes)]
        so_far, wanted = (integer()(state[name], sizes) for name in ("so_far", "wanted"))
        return cls(dict(zip(columns, tails, strict=True)), so_far, wanted)


def _keep_in_range(size: float) -> None:
    if not math.isfinite(size):
        raise OutOfRange("x is too large for float64: rescale `A` or `b` so that it is well below 1e150.")
