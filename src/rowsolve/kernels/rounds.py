"""Work that threads share out round by round, without waiting for one that has lost its core.

A round has some legs, and no leg belongs to a thread, for a thread may lose its core at any moment, for longer than all
the legs take: each takes the legs that nobody has taken, and then those that others have taken but do not come back
from. What comes of a leg is the same whoever goes it, so the bits do not tell. A thread that comes late finds that the
others have gone on, and joins them where they are. It may still write then, so each thread writes into its own places
only, and shows in a word of memory which of them hold what.

What a leg is, is up to the kind of `work`, a named tuple: see `Work`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from rowsolve.compiled.atomic import offer_core, read, replace, write
from rowsolve.compiled.jit import kernel, row_primitive

PLACES_OF_A_THREAD = 2  # for legs of one round; the first thread has one for each, so that it can go them all
_MOST_TIMES = 1 << 20  # that a leg may be taken


class Meeting(NamedTuple):
    """Words that tell how far the threads are; new ones for each burst, so that who is late finds its own."""

    taken: np.ndarray  # (n_legs,): the round whose leg was taken, times `_MOST_TIMES`, and how often it was
    ended: np.ndarray  # (2 * n_legs,): the round whose leg has ended, times the number of places, and its place
    reached: np.ndarray  # (n_threads,): the last round for which a thread has what all have come to
    called_off: np.ndarray  # (1,)


class Work(NamedTuple):
    """What a kind of work consists of; arrays have two sets, ``t % 2``, that take turns from round to round.

    Attributes
    ----------
    go_leg : callable
        ``go_leg(work, t, c, place, me, meeting)``: go leg `c` of round `t` from where thread `me` is; the result
        goes into `place`.
    meet : callable
        ``meet(work, t, me, meeting)``: note for thread `me` what all have come to at the end of round `t`.
    follow : callable
        ``follow(work, t, other, me)``: copy that of thread `other`, for the start of round `t`.
    is_done : callable
        ``is_done(work, t, me)``: tell whether there is no round `t`.
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
    """Let `run_rounds` take named tuples of this `kind`."""
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
    """Return words that say: the first thread is at the start of round 0; there is a leg for each thread."""
    reached = np.full(n_threads, -1)
    reached[0] = 0
    return Meeting(np.full(n_threads, -1), np.full(2 * n_threads, -1), reached, np.zeros(1, np.int64))


def call_off(meeting: Meeting) -> None:
    """Let all threads come to an end soon."""
    meeting.called_off[0] = 1


@kernel
def run_rounds(work, patience, me, meeting):
    """Be thread `me` of those that do `work`; return the round that it has come to.

    All set out from what thread 0 has for round 0, which has the result in the end, for the round that is returned. A
    leg that another has taken is taken again after so many looks whether it has ended: `patience`.
    """
    t = _join(work, me, meeting)
    while not _is_done(work, t, me) and not is_called_off(meeting):
        _go_legs(work, patience, t, me, meeting)
        _meet(work, t, me, meeting)
        if is_over(t + 1, meeting):  # what was read may have been written over meanwhile
            t = _join(work, me, meeting)
        else:
            t += 1
            write(meeting.reached, me, t)
    return t


@kernel
def _join(work, me, meeting):
    """Copy what the thread that is furthest has; return its round."""
    while True:
        other = furthest(meeting)
        t = read(meeting.reached, other)
        if other != me:
            _follow(work, t, other, me)
        if not is_over(t + 1, meeting):  # else it may have been written over meanwhile
            write(meeting.reached, me, t)
            return t


@kernel
def _go_legs(work, patience, t, me, meeting):
    """Take legs of round `t` until all have ended, or are called off."""
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
    """Return in how many places legs are gone."""
    return n_threads + (n_threads - 1) * PLACES_OF_A_THREAD


@kernel
def copy(values, out):  # out: OUT; a loop compiles faster than an assignment of arrays
    """Copy a vector."""
    for j in range(values.size):
        out[j] = values[j]


@kernel
def first_place(me, meeting):
    """Return the first place of thread `me`."""
    return 0 if me == 0 else meeting.taken.size + (me - 1) * PLACES_OF_A_THREAD


@kernel
def places_of(me, meeting):
    """Return how many places thread `me` has."""
    return meeting.taken.size if me == 0 else PLACES_OF_A_THREAD


@kernel
def furthest(meeting):
    """Return the thread that is furthest."""
    other = 0
    for k in range(meeting.reached.size):
        if read(meeting.reached, k) > read(meeting.reached, other):
            other = k
    return other


@kernel
def has_ended(t, c, meeting):
    """Tell whether leg `c` of round `t` has ended."""
    n_legs = meeting.taken.size
    return read(meeting.ended, t % 2 * n_legs + c) >= t * n_places_of(n_legs)


@kernel
def is_over(t, meeting):
    """Tell whether all legs of round `t` have ended."""
    for c in range(meeting.taken.size):  # noqa: SIM110 (not in a kernel)
        if not has_ended(t, c, meeting):
            return False
    return True


@kernel
def is_called_off(meeting):
    """Tell whether all are to come to an end."""
    return read(meeting.called_off, 0) != 0


@kernel
def place_of(t, c, meeting):
    """Return where leg `c` of round `t`, which has ended, is."""
    n_legs = meeting.taken.size
    return read(meeting.ended, t % 2 * n_legs + c) % n_places_of(n_legs)


@kernel
def take(t, times, me, meeting):  # meeting: INOUT
    """Return a leg of round `t` that has not ended and was taken at most so many `times`, the own first; -1 if none."""
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
    """Let all see that leg `c` of round `t` has ended and is in `place`, unless another thread has been faster."""
    n_legs = meeting.taken.size
    word, least = t % 2 * n_legs + c, t * n_places_of(n_legs)
    before = read(meeting.ended, word)
    if before < least:
        replace(meeting.ended, word, before, least + place)
