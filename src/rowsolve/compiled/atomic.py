"""Atomic words in memory, by which the threads of a kernel synchronize.

Waking a thread through the operating system takes about 50 microseconds, the time of a hundred rows. Running threads
read a word repeatedly instead, and see within a microsecond that another thread has changed it.
"""

from __future__ import annotations

import os
import threading
import time
from typing import Any

from numba import types
from numba.extending import intrinsic, overload

__all__ = ["offer_core", "read", "replace", "write"]

_one_at_a_time = threading.Lock()  # for threads of plain Python


def read(words: Any, k: int) -> int:
    """Return word `k` (acquire): all that its writer wrote before it is visible, and all earlier reads are complete."""
    return int(words[k])


def write(words: Any, k: int, value: int) -> None:
    """Set word `k` (release) after all that this thread has written before is visible."""
    words[k] = value


def replace(words: Any, k: int, old: int, new: int) -> bool:
    """Set word `k` if it is still `old`, after all earlier writes are visible; return whether it was."""
    with _one_at_a_time:
        if words[k] != old:
            return False
        words[k] = new
        return True


def offer_core() -> None:
    """Yield this core to another thread, if one is waiting."""
    time.sleep(0)


@overload(read)
def _read(words, k):
    def form(words, k):
        return _load(words, k)  # type: ignore[call-arg]

    return form


@overload(write)
def _write(words, k, value):
    def form(words, k, value):
        _store(words, k, value)  # type: ignore[call-arg]

    return form


@overload(replace)
def _replace(words, k, old, new):
    def form(words, k, old, new):
        return _compare_and_swap(words, k, old, new)  # type: ignore[call-arg]

    return form


@overload(offer_core)
def _offer_core():
    if not hasattr(os, "sched_yield"):
        return lambda: None

    def form():
        _sched_yield()

    return form


_sched_yield = types.ExternalFunction("sched_yield", types.int32())


def _place(context, builder, signature, arguments):
    start = context.make_array(signature.args[0])(context, builder, arguments[0]).data
    return builder.gep(start, [arguments[1]])


@intrinsic
def _load(_, words, k):
    def generate(context, builder, signature, arguments):
        builder.fence("acquire")
        return builder.load_atomic(_place(context, builder, signature, arguments), "acquire", 8)

    return types.int64(words, types.intp), generate


@intrinsic
def _store(_, words, k, value):
    def generate(context, builder, signature, arguments):
        builder.store_atomic(arguments[2], _place(context, builder, signature, arguments), "release", 8)
        return context.get_dummy_value()

    return types.void(words, types.intp, types.int64), generate


@intrinsic
def _compare_and_swap(_, words, k, old, new):
    def generate(context, builder, signature, arguments):
        place = _place(context, builder, signature, arguments)
        found = builder.cmpxchg(place, arguments[2], arguments[3], "seq_cst", "seq_cst")
        return builder.extract_value(found, 1)

    return types.boolean(words, types.intp, types.int64, types.int64), generate
