"""Parallel work in rounds, without waiting for a thread that has lost its core.

A round consists of legs. A leg is not assigned to a fixed thread, because a thread may lose its core at any time, for
longer than all legs take: each thread claims legs that no thread has claimed, and then legs that other threads have
claimed but not completed. The result of a leg does not depend on the thread, so the result is deterministic. A delayed
thread continues in the round that the others have reached. It may still be writing the result of an earlier leg, so
each thread writes to its own places only, and an atomic word tells which place holds which result.

The type of `work`, a named tuple, determines what a leg is: see `Work`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from rowsolve.compiled.atomic import offer_core, read, replace, write
from rowsolve.compiled.jit import kernel, row_primitive

PLACES_OF_A_THREAD = 2  # for results of a round; the first thread has one for each leg, so that it can do all of them
_CLAIMS_PER_ROUND = 1 << 20  # more than a leg is ever claimed in a round


class ThreadProgress(NamedTuple):
    """Atomic words with the progress of all threads; each burst has new ones, because of threads that are delayed."""

    claims: np.ndarray  # (n_legs,): the last round in which a leg was claimed * `_CLAIMS_PER_ROUND` + how often
    completed: np.ndarray  # (2 * n_legs,): the last round with a result of a leg * the number of places + its place
    reached: np.ndarray  # (n_threads,): the last round for which a thread has the combined state
    cancelled: np.ndarray  # (1,): nonzero if all threads are to stop


class Work(NamedTuple):
    """The operations of a type of work; its arrays have two sets, ``t % 2``, that alternate from round to round.

    Attributes
    ----------
    run_leg : callable
        ``run_leg(work, t, c, place, me, progress)``: perform leg `c` of round `t` from the state of thread `me`, and
        store the result in `place`.
    combine : callable
        ``combine(work, t, me, progress)``: combine the results of all legs of round `t` into the state of thread `me`.
    copy_state : callable
        ``copy_state(work, t, other, me)``: copy the state of thread `other` at the start of round `t` to thread `me`.
    is_done : callable
        ``is_done(work, t, me)``: return whether the work is done before round `t`.
    """

    run_leg: Callable[..., None]
    combine: Callable[..., None]
    copy_state: Callable[..., None]
    is_done: Callable[..., bool]


_RUN_LEG: dict[type, Any] = {}
_COMBINE: dict[type, Any] = {}
_COPY_STATE: dict[type, Any] = {}
_IS_DONE: dict[type, Any] = {}


def register(kind: type, work: Work) -> None:
    """Make `run_rounds` accept named tuples of type `kind`."""
    _RUN_LEG[kind], _COMBINE[kind], _COPY_STATE[kind], _IS_DONE[kind] = work


@row_primitive(_RUN_LEG)
def _run_leg(work, t, c, place, me, progress):
    _RUN_LEG[type(work)](work, t, c, place, me, progress)


@row_primitive(_COMBINE)
def _combine(work, t, me, progress):
    _COMBINE[type(work)](work, t, me, progress)


@row_primitive(_COPY_STATE)
def _copy_state(work, t, other, me):
    _COPY_STATE[type(work)](work, t, other, me)


@row_primitive(_IS_DONE)
def _is_done(work, t, me):
    return _IS_DONE[type(work)](work, t, me)


def new_progress(n_threads: int) -> ThreadProgress:
    """Return the initial words: the first thread is at the start of round 0, and there is a leg per thread."""
    reached = np.full(n_threads, -1)
    reached[0] = 0
    return ThreadProgress(np.full(n_threads, -1), np.full(2 * n_threads, -1), reached, np.zeros(1, np.int64))


def cancel(progress: ThreadProgress) -> None:
    """Make all threads stop soon."""
    progress.cancelled[0] = 1


@kernel
def run_rounds(work, patience, me, progress):
    """Run `work` as thread `me`; return the round that it has reached.

    All threads start from the state of thread 0 for round 0. At the end, thread 0 has the result, for the round that it
    returns. A leg that another thread has claimed is claimed again after `patience` checks whether it is completed.
    """
    t = _join(work, me, progress)
    while not _is_done(work, t, me) and not is_cancelled(progress):
        _run_legs(work, patience, t, me, progress)
        _combine(work, t, me, progress)
        if is_over(t + 1, progress):  # the results may have been overwritten while they were read
            t = _join(work, me, progress)
        else:
            t += 1
            write(progress.reached, me, t)
    return t


@kernel
def _join(work, me, progress):
    """Copy the state of the thread that is furthest ahead; return its round."""
    while True:
        other = leader(progress)
        t = read(progress.reached, other)
        if other != me:
            _copy_state(work, t, other, me)
        if not is_over(t + 1, progress):  # else the state may have been overwritten while it was copied
            write(progress.reached, me, t)
            return t


@kernel
def _run_legs(work, patience, t, me, progress):
    """Perform legs of round `t` until all are completed, or called off."""
    place = first_place(me, progress)
    beyond = place + places_of(me, progress)
    looks, times = 0, 0
    while not is_over(t, progress) and not is_cancelled(progress):
        c = claim(t, times, me, progress) if place < beyond else -1
        if c >= 0:
            _run_leg(work, t, c, place, me, progress)
            publish(t, c, place, progress)
            place += 1
        else:
            looks += 1
            if looks > patience:
                looks, times = 0, times + 1
            if times > 0:
                offer_core()


@kernel
def n_places_of(n_threads):
    """Return the number of places for the results of legs."""
    return n_threads + (n_threads - 1) * PLACES_OF_A_THREAD


@kernel
def copy(values, out):  # out: OUT; a loop is compiled faster than an array assignment
    """Copy a vector."""
    for j in range(values.size):
        out[j] = values[j]


@kernel
def first_place(me, progress):
    """Return the first place of thread `me`."""
    return 0 if me == 0 else progress.claims.size + (me - 1) * PLACES_OF_A_THREAD


@kernel
def places_of(me, progress):
    """Return the number of places of thread `me`."""
    return progress.claims.size if me == 0 else PLACES_OF_A_THREAD


@kernel
def leader(progress):
    """Return the thread that is furthest ahead."""
    other = 0
    for k in range(progress.reached.size):
        if read(progress.reached, k) > read(progress.reached, other):
            other = k
    return other


@kernel
def is_completed(t, c, progress):
    """Return whether leg `c` of round `t` is completed."""
    n_legs = progress.claims.size
    return read(progress.completed, t % 2 * n_legs + c) >= t * n_places_of(n_legs)


@kernel
def is_over(t, progress):
    """Return whether all legs of round `t` are completed."""
    for c in range(progress.claims.size):  # noqa: SIM110 (not in a kernel)
        if not is_completed(t, c, progress):
            return False
    return True


@kernel
def is_cancelled(progress):
    """Return whether all threads are to stop."""
    return read(progress.cancelled, 0) != 0


@kernel
def place_of(t, c, progress):
    """Return the place of the result of leg `c` of round `t`, which is completed."""
    n_legs = progress.claims.size
    return read(progress.completed, t % 2 * n_legs + c) % n_places_of(n_legs)


@kernel
def claim(t, times, me, progress):  # progress: INOUT
    """Return a leg of round `t` that is not completed and was claimed at most `times` times, leg `me` first, or -1."""
    n_legs = progress.claims.size
    for k in range(n_legs):
        c = (me + k) % n_legs
        before = read(progress.claims, c)
        free = before <= t * _CLAIMS_PER_ROUND + times and not is_completed(t, c, progress)
        if free and replace(progress.claims, c, before, max(before, t * _CLAIMS_PER_ROUND) + 1):
            return c
    return -1


@kernel
def publish(t, c, place, progress):  # progress: INOUT
    """Publish that the result of leg `c` of round `t` is in `place`, unless another thread was faster."""
    n_legs = progress.claims.size
    word, least = t % 2 * n_legs + c, t * n_places_of(n_legs)
    before = read(progress.completed, word)
    if before < least:
        replace(progress.completed, word, before, least + place)
