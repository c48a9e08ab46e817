"""A place where the threads of a kernel meet.

To wake a thread through the operating system takes some 50 microseconds, the time of a hundred rows. Threads that are
running anyway meet within one: each adds itself to a counter and looks at it until all have.
"""

from __future__ import annotations

import os
import threading
import time
from typing import Any

import numpy as np
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload

__all__ = ["meet", "new_meeting", "release_all"]

_one_at_a_time = threading.Lock()  # for threads of plain Python
_PATIENCE = 10_000  # looks before the core is offered to others: there may be more threads than cores
_EVERYONE = 1 << 62


def new_meeting() -> np.ndarray:
    """Return a counter that no one has come to yet; alone on its cache line."""
    return np.zeros(16, np.int64)


def release_all(meeting: np.ndarray) -> None:
    """Let all pass this meeting and those to come: someone will not come."""
    meeting[0] = _EVERYONE


def meet(meeting: Any, n_expected: int) -> None:
    """Come to the meeting, and wait until `n_expected` have in all (counted from the first one on)."""
    with _one_at_a_time:
        meeting[0] += 1
    while meeting[0] < n_expected:
        time.sleep(0)


@overload(meet)
def _meet(meeting, n_expected):
    yields = hasattr(os, "sched_yield")

    def form(meeting, n_expected):
        _arrive(meeting)  # type: ignore[call-arg]
        looks = 0
        while _arrived(meeting) < n_expected:
            looks += 1
            if yields and looks > _PATIENCE:
                _sched_yield()

    return form


_sched_yield = types.ExternalFunction("sched_yield", types.int32())


@intrinsic
def _arrive(_, meeting):
    def generate(context, builder, signature, arguments):
        place = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        return builder.atomic_rmw("add", place, cgutils.intp_t(1), "seq_cst")

    return types.int64(meeting), generate


@intrinsic
def _arrived(_, meeting):
    def generate(context, builder, signature, arguments):
        place = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        return builder.load_atomic(place, "acquire", 8)

    return types.int64(meeting), generate
