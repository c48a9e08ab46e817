"""Work on several cores: how many there are, and calls that run side by side."""

from __future__ import annotations

import math
import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Generic, TypeVar, cast

__all__ = ["available_cores", "run_as_one", "run_together"]

T = TypeVar("T")
_CGROUP = Path("/sys/fs/cgroup")


def available_cores() -> int:
    """Return how many cores this process may use: the machine's, its affinity's, its control group's."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, math.ceil(min(cores, _quota())))


@cache  # reading it takes a tenth of the time of a small solve
def _quota() -> float:
    """Return the cores that the control group grants (version 2, then 1); infinity if it sets no limit."""
    try:
        allowed, period = (_CGROUP / "cpu.max").read_text(encoding="ascii").split()
    except (OSError, ValueError):
        try:
            allowed = (_CGROUP / "cpu" / "cpu.cfs_quota_us").read_text(encoding="ascii")
            period = (_CGROUP / "cpu" / "cpu.cfs_period_us").read_text(encoding="ascii")
        except OSError:
            return math.inf
    try:
        granted = float(allowed) / float(period)
    except (ValueError, ZeroDivisionError):  # "max"
        return math.inf
    return granted if granted > 0.0 else math.inf


def _cores_of_this_thread() -> set[int]:
    """Return the cores that this thread may run on, if that can be told and changed."""
    return os.sched_getaffinity(0) if hasattr(os, "sched_setaffinity") and _core() >= 0 else set()


def _allow(thread: int | None, cores: set[int]) -> None:
    """Let a thread (0 is this one) run on `cores` only, if there are any."""
    if cores and thread is not None:
        with suppress(OSError):
            os.sched_setaffinity(thread, cores)


def _core() -> int:
    """Return the core that this thread is on; -1 if that cannot be told."""
    return _sched_getcpu()()


@cache
def _sched_getcpu() -> Callable[[], int]:
    import ctypes

    try:
        return ctypes.CDLL(None).sched_getcpu
    except (OSError, TypeError, AttributeError):  # not Linux
        return lambda: -1


class _Errand(Generic[T]):
    """A call that is made once, by whoever takes it first: a worker, or the thread that asks for it."""

    def __init__(self, call: Callable[[], T]) -> None:
        self._call: Callable[[], T] | None = call
        self._taker: dict[str, object] = {}
        self._ended = threading.Lock()
        self._ended.acquire()
        self.over = False
        self.result: T | None = None
        self.error: BaseException | None = None

    def take(self, who: object) -> bool:
        """Tell whether `who` is the one to make it."""
        return self._taker.setdefault("first", who) is who

    def make(self) -> None:
        """Make the call, and keep what it returns or raises."""
        assert self._call is not None
        try:
            self.result = self._call()
        except BaseException as error:
            self.error = error
        self._call = None  # whose last arrays may go with it
        self.over = True
        self._ended.release()

    def withdraw(self, who: object) -> bool:
        """Keep others from making it; tell whether that is not too late."""
        if self.take(who):
            self._call = None
            return True
        return False

    def leave(self, who: object) -> None:
        """Return when no other is making it, nor will."""
        while not self.withdraw(who) and not self.over:
            self._ended.acquire()


class _Worker:
    """A thread that waits for a call, makes it, and waits again.

    Nobody waits for it to be free: a call that it has not begun gives way to the next. A lock wakes it; a queue with
    futures takes half as long again. It is woken on another core than that of its caller, and may then run anywhere
    again: a kernel that likes to leave cores asleep wakes it where the caller runs, so that both share one core for
    some milliseconds, which is as long as a call takes.
    """

    def __init__(self) -> None:
        self._go = threading.Lock()
        self._go.acquire()
        self._asked: deque[Callable[[], None]] = deque(maxlen=1)
        self._cores: set[int] = set()  # that it may run on, if it was kept from one of them
        self._thread = threading.Thread(target=self._serve, name="rowsolve", daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            self._go.acquire()
            _allow(0, self._cores)
            with suppress(IndexError):  # the last one was made when this woke up for the one before
                self._asked.pop()()

    def ask(self, call: Callable[[], None]) -> None:
        """Let it make a call, which must not raise, as soon as it can."""
        self._asked.append(call)
        self._cores = _cores_of_this_thread()
        _allow(self._thread.native_id, self._cores - {_core()} if len(self._cores) > 1 else set())
        with suppress(RuntimeError):  # it has not woken up since it was asked before
            self._go.release()


class _Pool:
    """Workers that live as long as the process; none before there is work for them."""

    def __init__(self) -> None:
        self._forget()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)  # threads do not survive a fork

    def _forget(self) -> None:
        self.lock = threading.Lock()  # one gang at a time, all of it: members may wait for each other
        self._workers: list[_Worker] = []

    def workers(self, count: int) -> list[_Worker]:
        while len(self._workers) < count:
            self._workers.append(_Worker())
        return self._workers[:count]


_POOL = _Pool()


def run_together(calls: Sequence[Callable[[], T]]) -> list[T]:
    """Run `calls` side by side, the first in this thread; return what they return, in order.

    A thread that is done takes a call that nobody has begun, so this one waits only for what others are in the middle
    of. Whatever happens in one of them, none is running when this ends: their arrays are not written to any more.
    """
    if len(calls) == 1:
        return [calls[0]()]
    errands, me = [_Errand(call) for call in calls], object()
    errands[0].take(me)
    with _POOL.lock:
        try:
            for worker in _POOL.workers(len(calls) - 1):
                worker.ask(partial(_make, errands, worker))
            _make(errands, me)
        finally:
            _leave(errands, me)
    for errand in errands:
        if errand.error is not None:
            raise errand.error
    return [cast(T, errand.result) for errand in errands]


def run_as_one(calls: Sequence[Callable[[], T]], give_up: Callable[[], None]) -> T:
    """Run `calls`, which do one work between them, side by side; return what the first, in this thread, returns.

    The first must come to its end whether or not the others take part, and the work is done then. Nobody waits for the
    others: one that has lost its core may go on for a while, so it must write into its own arrays only. One that raises
    takes no part any more. If the first raises (Ctrl-C), `give_up` is called, which must let the others come to their
    ends, and the error is raised when they have.
    """
    errands, me = [_Errand(call) for call in calls[1:]], object()
    with _POOL.lock:
        try:
            for worker, errand in zip(_POOL.workers(len(errands)), errands, strict=True):
                worker.ask(partial(_make, [errand], worker))
            result = calls[0]()
        except BaseException:
            give_up()
            _leave(errands, me)
            raise
    for errand in errands:
        errand.withdraw(me)
    return result


def _make(errands: Sequence[_Errand], who: object) -> None:
    """Make those that nobody has taken, one after another, unless one fails."""
    for errand in errands:
        if errand.take(who):
            errand.make()
            if errand.error is not None:
                return


def _leave(errands: Sequence[_Errand], me: object) -> None:
    """Wait for those that others make, also when Ctrl-C comes meanwhile; it is raised afterwards."""
    interruption: KeyboardInterrupt | None = None
    while True:
        try:
            for errand in errands:
                errand.leave(me)
            break
        except KeyboardInterrupt as caught:
            interruption = caught
    if interruption is not None:
        raise interruption
