"""Work on several cores: how many there are, and calls that run side by side."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import TypeVar

__all__ = ["available_cores", "run_together"]

T = TypeVar("T")
_CGROUP = Path("/sys/fs/cgroup")


def available_cores() -> int:
    """Return how many cores this process may use: the machine's, its affinity's, its control group's."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, math.ceil(min(cores, _quota())))


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


class _Pool:
    """Threads that wait for work; none before there is any, and as many as were ever needed at once."""

    def __init__(self) -> None:
        self._forget()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)  # threads do not survive a fork

    def _forget(self) -> None:
        self._executor: ThreadPoolExecutor | None = None
        self._size = 0

    def executor(self, size: int) -> ThreadPoolExecutor:
        if self._executor is None or size > self._size:
            self._executor, self._size = ThreadPoolExecutor(size, thread_name_prefix="rowsolve"), size
        return self._executor


_POOL = _Pool()


def run_together(calls: Sequence[Callable[[], T]]) -> list[T]:
    """Run `calls` side by side, the first in this thread; return what they return, in order.

    Whatever happens in one of them, all have ended when this does: their arrays are not written to any more.
    """
    if len(calls) == 1:
        return [calls[0]()]
    executor = _POOL.executor(len(calls) - 1)
    others = [executor.submit(call) for call in calls[1:]]
    try:
        first = calls[0]()
    finally:
        wait(others)
    return [first, *(other.result() for other in others)]
