"""Work on several cores: how many there are, and calls that run side by side."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar

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


class _Worker:
    """A thread that waits for a call, makes it, and waits again.

    Two locks handed to and fro: a queue with futures takes half as long again to wake it. It is woken on another core
    than that of its caller, and may then run anywhere again: a kernel that likes to leave cores asleep wakes it where
    the caller runs, so that both share one core for some milliseconds, which is as long as a call takes.
    """

    def __init__(self) -> None:
        self._go, self._done = threading.Lock(), threading.Lock()
        self._go.acquire()
        self._call: Callable[[], Any] | None = None
        self._cores: set[int] = set()  # that it may run on, if it was kept from one of them
        self.result: Any = None
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._serve, name="rowsolve", daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            self._go.acquire()
            assert self._call is not None
            _allow(0, self._cores)
            try:
                self.result, self.error = self._call(), None
            except BaseException as error:
                self.result, self.error = None, error
            self._call = None  # whose last arrays may go with it, and let another thread run: even start the next call
            with suppress(RuntimeError):  # then the lock may be open already
                self._done.release()

    def start(self, call: Callable[[], Any]) -> None:
        self._done.acquire(blocking=False)  # it may be free if Ctrl-C came just when the last call ended
        self._call = call
        self._cores = _cores_of_this_thread()
        _allow(self._thread.native_id, self._cores - {_core()} if len(self._cores) > 1 else set())
        self._go.release()

    def wait(self) -> None:
        while self._call is not None:
            self._done.acquire()


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

    Whatever happens in one of them, all have ended when this does: their arrays are not written to any more.
    """
    if len(calls) == 1:
        return [calls[0]()]
    with _POOL.lock:
        workers = _POOL.workers(len(calls) - 1)
        try:
            first = _run_gang(workers, calls)
        finally:
            _wait_for(workers)
        results = [worker.result for worker in workers]
        for worker in workers:
            worker.result = None
            if worker.error is not None:
                raise worker.error
        return [first, *results]


def run_as_one(calls: Sequence[Callable[[], None]], give_up: Callable[[], None]) -> None:
    """Run `calls`, which meet on their way, side by side, the first in this thread; return when the first has ended.

    The others are past their last meeting then, and nobody waits until they sleep. If one does not come to its end
    (Ctrl-C in the first), `give_up` is called, which must let the others come to theirs, and the error is raised.
    """
    errors: list[BaseException] = []

    def carefully(call: Callable[[], None]) -> None:
        try:
            call()
        except BaseException as error:
            errors.append(error)
            give_up()

    with _POOL.lock:
        workers = _POOL.workers(len(calls) - 1)
        gang: list[Callable[[], None]] = [calls[0], *(partial(carefully, call) for call in calls[1:])]
        try:
            _run_gang(workers, gang)
        except BaseException:
            give_up()
            _wait_for(workers)
            raise
    if errors:
        raise errors[0]


def _run_gang(workers: list[_Worker], calls: Sequence[Callable[[], T]]) -> T:
    _wait_for(workers)  # they may not sleep yet
    for worker, call in zip(workers, calls[1:], strict=True):
        worker.start(call)
    return calls[0]()


def _wait_for(workers: list[_Worker]) -> None:
    """Wait for all, also when Ctrl-C comes meanwhile; it is raised afterwards."""
    interruption: KeyboardInterrupt | None = None
    for worker in workers:
        while True:
            try:
                worker.wait()
                break
            except KeyboardInterrupt as caught:
                interruption = caught
    if interruption is not None:
        raise interruption
