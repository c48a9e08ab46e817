"""How much memory this process may still take."""

from __future__ import annotations

import math
from contextlib import suppress
from functools import cache
from pathlib import Path

__all__ = ["free_memory"]

_CGROUP = Path("/sys/fs/cgroup")


def free_memory() -> float:
    """Return how many bytes could be used without pushing others out, as far as the system tells; else infinity."""
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
    """Return the bytes that the control group grants, of which psutil knows nothing; infinity if it sets no limit."""
    with suppress(OSError, ValueError):  # "max"
        return float((_CGROUP / "memory.max").read_text(encoding="ascii"))
    return math.inf
