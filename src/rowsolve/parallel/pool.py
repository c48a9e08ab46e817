"""The number of available cores, and calls that run in parallel."""

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
    """Return the number of cores that this process may use, as limited by its affinity and its control group."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, math.ceil(min(cores, _quota())))


@cache  # reading it takes a tenth of the time of a small solve
def _quota() -> float:
    """Return the CPU limit of the control group (version 2, then 1), in cores; infinity if there is none."""
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
    """Return the cores on which this thread may run; empty if they cannot be queried or set."""
    return os.sched_getaffinity(0) if hasattr(os, "sched_setaffinity") and _core() >= 0 else set()


def _allow(thread: int | None, cores: set[int]) -> None:
    """Restrict a thread (0 is this one) to `cores`, unless that is empty."""
    if cores and thread is not None:
        with suppress(OSError):
            os.sched_setaffinity(thread, cores)


def _core() -> int:
    """Return the core on which this thread is running; -1 if unknown."""
    return _sched_getcpu()()


@cache
def _sched_getcpu() -> Callable[[], int]:
    import ctypes

    try:
        return ctypes.CDLL(None).sched_getcpu
    except (OSError, TypeError, AttributeError):  # not Linux
        return lambda: -1


class _Errand(Generic[T]):
    """A call that is made once, by the first thread that takes it: a worker, or the calling thread."""

    def __init__(self, call: Callable[[], T]) -> None:
        self._call: Callable[[], T] | None = call
        self._taker: dict[str, object] = {}
        self._ended = threading.Lock()
        self._ended.acquire()
        self.over = False
        self.result: T | None = None
        self.error: BaseException | None = None

    def take(self, who: object) -> bool:
        """Take the call for `who`; return whether `who` is the first."""
        return self._taker.setdefault("first", who) is who

    def make(self) -> None:
        """Make the call and store its result or exception."""
        assert self._call is not None
        try:
            self.result = self._call()
        except BaseException as error:
            self.error = error
        self._call = None  # releases its arrays
        self.over = True
        self._ended.release()

    def withdraw(self, who: object) -> bool:
        """Prevent other threads from making the call; return whether none has taken it."""
        if self.take(who):
            self._call = None
            return True
        return False

    def leave(self, who: object) -> None:
        """Wait until no other thread is making the call, or will make it."""
        while not self.withdraw(who) and not self.over:
            self._ended.acquire()


class _Worker:
    """A thread that repeatedly waits for a call and makes it.

    Callers do not wait for a worker to be free: a call that it has not started is replaced by the next one. It is woken
    by a lock; a queue with futures takes 1.5 times as long. It is woken on a core other than that of its caller, and
    may then run on any core: an operating system that keeps cores asleep would wake it on the core of the caller, so
    that both share one core for some milliseconds, which is as long as a call takes. Without this, solves of 4 to 16 ms
    on two cores take 1.4 times as long.
    """

    def __init__(self) -> None:
        self._go = threading.Lock()
        self._go.acquire()
        self._asked: deque[Callable[[], None]] = deque(maxlen=1)
        self._cores: set[int] = set()  # the allowed cores, if it was woken on a subset of them
        self._thread = threading.Thread(target=self._serve, name="rowsolve", daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            self._go.acquire()
            _allow(0, self._cores)
            with suppress(IndexError):  # the last call was already made when it was woken for the previous one
                self._asked.pop()()

    def ask(self, call: Callable[[], None]) -> None:
        """Request a call, which must not raise, to be made as soon as possible."""
        self._asked.append(call)
        self._cores = _cores_of_this_thread()
        _allow(self._thread.native_id, self._cores - {_core()} if len(self._cores) > 1 else set())
        with suppress(RuntimeError):  # it has not woken up since the previous request
            self._go.release()


class _Pool:
    """Worker threads, started on demand, that exist until the process ends."""

    def __init__(self) -> None:
        self._forget()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)  # threads do not survive a fork

    def _forget(self) -> None:
        self.lock = threading.Lock()  # held for all calls of a group, which may wait for each other
        self._workers: list[_Worker] = []

    def workers(self, count: int) -> list[_Worker]:
        while len(self._workers) < count:
            self._workers.append(_Worker())
        return self._workers[:count]


_POOL = _Pool()


def run_together(calls: Sequence[Callable[[], T]]) -> list[T]:
    """Run `calls` in parallel, the first one in this thread; return their results in order.

    A thread that has finished its call takes another one that has not been started, so this thread waits only for calls
    that are running. When this function returns or raises, no call is running, so their arrays are not modified later.
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
    """Run `calls`, which share the same work, in parallel; return the result of the first one, in this thread.

    The first call must complete the work whether or not the others take part. It does not wait for the others: a thread
    that has lost its core may continue for a while, so it must write to its own arrays only. A call that raises takes
    no further part. If the first one raises (Ctrl-C), `give_up` is called, which must make the others stop, and the
    exception is raised when they have.
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
    """Make the calls that no thread has taken, one after another, until one fails."""
    for errand in errands:
        if errand.take(who):
            errand.make()
            if errand.error is not None:
                return


def _leave(errands: Sequence[_Errand], me: object) -> None:
    """Wait for the calls that other threads make; a KeyboardInterrupt meanwhile is raised afterwards."""
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
