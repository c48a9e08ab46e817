"""Parallel work in rounds, without waiting for a thread that has lost its core.

A round consists of legs. A leg is not assigned to a fixed thread, because a thread may lose its core at any time, for
longer than all legs take: each thread takes legs that no thread has taken, and then legs that other threads have taken
but not completed. The result of a leg does not depend on the thread, so the result is deterministic. A delayed thread
continues in the round that the others have reached. It may still be writing the result of an earlier leg, so each
thread writes to its own places only, and an atomic word tells which place holds which result.

The type of `work`, a named tuple, determines what a leg is: see `Work`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from rowsolve.compiled.atomic import offer_core, read, replace, write
from rowsolve.compiled.jit import kernel, row_primitive

PLACES_OF_A_THREAD = 2  # for results of a round; the first thread has one for each leg, so that it can do all of them
_MOST_TIMES = 1 << 20  # bound on how often a leg is taken


class Meeting(NamedTuple):
    """Atomic words with the progress of all threads; each burst has new ones, because of threads that are delayed."""

    taken: np.ndarray  # (n_legs,): the round in which a leg was taken, times `_MOST_TIMES`, plus how often
    ended: np.ndarray  # (2 * n_legs,): the round in which a leg was completed, times the number of places, plus a place
    reached: np.ndarray  # (n_threads,): the last round for which a thread has the combined state
    called_off: np.ndarray  # (1,): nonzero if all threads are to stop


class Work(NamedTuple):
    """The operations of a type of work; its arrays have two sets, ``t % 2``, that alternate from round to round.

    Attributes
    ----------
    go_leg : callable
        ``go_leg(work, t, c, place, me, meeting)``: perform leg `c` of round `t` from the state of thread `me`, and
        store the result in `place`.
    meet : callable
        ``meet(work, t, me, meeting)``: combine the results of all legs of round `t` into the state of thread `me`.
    follow : callable
        ``follow(work, t, other, me)``: copy the state of thread `other` at the start of round `t` to thread `me`.
    is_done : callable
        ``is_done(work, t, me)``: return whether the work is done before round `t`.
    """

    go_leg: Callable[..., None]
    meet: Callable[..., None]
    follow: Callable[..., None]
    is_done: Callable[..., bool]


_GO_LEG: dict[type, Any] = {}
_MEET: dict[type, Any] = {}
_FOLLOW: dict[type, Any] = {}
_IS_DONE: dict[type, Any] = {}


def register(kind: type, work: Work) -> None:
    """Make `run_rounds` accept named tuples of type `kind`."""
    _GO_LEG[kind], _MEET[kind], _FOLLOW[kind], _IS_DONE[kind] = work


@row_primitive(_GO_LEG)
def _go_leg(work, t, c, place, me, meeting):
    _GO_LEG[type(work)](work, t, c, place, me, meeting)


@row_primitive(_MEET)
def _meet(work, t, me, meeting):
    _MEET[type(work)](work, t, me, meeting)


@row_primitive(_FOLLOW)
def _follow(work, t, other, me):
    _FOLLOW[type(work)](work, t, other, me)


@row_primitive(_IS_DONE)
def _is_done(work, t, me):
    return _IS_DONE[type(work)](work, t, me)


def new_meeting(n_threads: int) -> Meeting:
    """Return the initial words: the first thread is at the start of round 0, and there is a leg per thread."""
    reached = np.full(n_threads, -1)
    reached[0] = 0
    return Meeting(np.full(n_threads, -1), np.full(2 * n_threads, -1), reached, np.zeros(1, np.int64))


def call_off(meeting: Meeting) -> None:
    """Make all threads stop soon."""
    meeting.called_off[0] = 1


@kernel
def run_rounds(work, patience, me, meeting):
    """Run `work` as thread `me`; return the round that it has reached.

    All threads start from the state of thread 0 for round 0. At the end, thread 0 has the result, for the round that it
    returns. A leg that another thread has taken is taken again after `patience` checks whether it is completed.
    """
    t = _join(work, me, meeting)
    while not _is_done(work, t, me) and not is_called_off(meeting):
        _go_legs(work, patience, t, me, meeting)
        _meet(work, t, me, meeting)
        if is_over(t + 1, meeting):  # the results may have been overwritten while they were read
            t = _join(work, me, meeting)
        else:
            t += 1
            write(meeting.reached, me, t)
    return t


@kernel
def _join(work, me, meeting):
    """Copy the state of the thread that is furthest ahead; return its round."""
    while True:
        other = furthest(meeting)
        t = read(meeting.reached, other)
        if other != me:
            _follow(work, t, other, me)
        if not is_over(t + 1, meeting):  # else the state may have been overwritten while it was copied
            write(meeting.reached, me, t)
            return t


@kernel
def _go_legs(work, patience, t, me, meeting):
    """Perform legs of round `t` until all are completed, or called off."""
    place = first_place(me, meeting)
    beyond = place + places_of(me, meeting)
    looks, times = 0, 0
    while not is_over(t, meeting) and not is_called_off(meeting):
        c = take(t, times, me, meeting) if place < beyond else -1
        if c >= 0:
            _go_leg(work, t, c, place, me, meeting)
            show(t, c, place, meeting)
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
def first_place(me, meeting):
    """Return the first place of thread `me`."""
    return 0 if me == 0 else meeting.taken.size + (me - 1) * PLACES_OF_A_THREAD


@kernel
def places_of(me, meeting):
    """Return the number of places of thread `me`."""
    return meeting.taken.size if me == 0 else PLACES_OF_A_THREAD


@kernel
def furthest(meeting):
    """Return the thread that is furthest ahead."""
    other = 0
    for k in range(meeting.reached.size):
        if read(meeting.reached, k) > read(meeting.reached, other):
            other = k
    return other


@kernel
def has_ended(t, c, meeting):
    """Return whether leg `c` of round `t` is completed."""
    n_legs = meeting.taken.size
    return read(meeting.ended, t % 2 * n_legs + c) >= t * n_places_of(n_legs)


@kernel
def is_over(t, meeting):
    """Return whether all legs of round `t` are completed."""
    for c in range(meeting.taken.size):  # noqa: SIM110 (not in a kernel)
        if not has_ended(t, c, meeting):
            return False
    return True


@kernel
def is_called_off(meeting):
    """Return whether all threads are to stop."""
    return read(meeting.called_off, 0) != 0


@kernel
def place_of(t, c, meeting):
    """Return the place of the result of leg `c` of round `t`, which is completed."""
    n_legs = meeting.taken.size
    return read(meeting.ended, t % 2 * n_legs + c) % n_places_of(n_legs)


@kernel
def take(t, times, me, meeting):  # meeting: INOUT
    """Return a leg of round `t` that is not completed and was taken at most `times` times, leg `me` first, or -1."""
    n_legs = meeting.taken.size
    for k in range(n_legs):
        c = (me + k) % n_legs
        before = read(meeting.taken, c)
        free = before <= t * _MOST_TIMES + times and not has_ended(t, c, meeting)
        if free and replace(meeting.taken, c, before, max(before, t * _MOST_TIMES) + 1):
            return c
    return -1


@kernel
def show(t, c, place, meeting):  # meeting: INOUT
    """Publish that the result of leg `c` of round `t` is in `place`, unless another thread was faster."""
    n_legs = meeting.taken.size
    word, least = t % 2 * n_legs + c, t * n_places_of(n_legs)
    before = read(meeting.ended, word)
    if before < least:
        replace(meeting.ended, word, before, least + place)
