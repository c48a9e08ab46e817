"""The memory that is available to this process."""

from __future__ import annotations

import math
from contextlib import suppress
from functools import cache
from pathlib import Path

__all__ = ["free_memory"]

_CGROUP = Path("/sys/fs/cgroup")


def free_memory() -> float:
    """Return the bytes that can be allocated without swapping; infinity if the system does not tell."""
    import psutil

    free, limit = math.inf, _limit()
    with suppress(OSError):
        free = float(psutil.virtual_memory().available)
    if limit < math.inf:
        with suppress(OSError, ValueError):
            free = min(free, limit - float((_CGROUP / "memory.current").read_text(encoding="ascii")))
    return max(free, 0.0)


@cache  # reading it takes a quarter of the time of a call
def _limit() -> float:
    """Return the memory limit of the control group, which psutil ignores; infinity if there is none."""
    with suppress(OSError, ValueError):  # "max"
        return float((_CGROUP / "memory.max").read_text(encoding="ascii"))
    return math.inf
