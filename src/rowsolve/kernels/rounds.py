"""Work that threads share out round by round, without waiting for one that has lost its core.

A round has some legs, and no leg belongs to a thread, for a thread may lose its core at any moment, for longer than all
the legs take: each takes the legs that nobody has taken, and then those that others have taken but do not come back
from. What comes of a leg is the same whoever goes it, so the bits do not tell. A thread that comes late finds that the
others have gone on, and joins them where they are. It may still write then, so each thread writes into its own places
only, and shows in a word of memory which of them hold what.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rowsolve._atomic import read, replace, write
from rowsolve._jit import kernel

PLACES_OF_A_THREAD = 2  # for legs of one round; the first thread has one for each, so that it can go them all
_MOST_TIMES = 1 << 20  # that a leg may be taken


class Meeting(NamedTuple):
    """Words that tell how far the threads are; new ones for each burst, so that who is late finds its own."""

    taken: np.ndarray  # (n_legs,): the round whose leg was taken, times `_MOST_TIMES`, and how often it was
    ended: np.ndarray  # (2 * n_legs,): the round whose leg has ended, times the number of places, and its place
    reached: np.ndarray  # (n_threads,): the last round for which a thread has what all have come to
    called_off: np.ndarray  # (1,)


def new_meeting(n_threads: int) -> Meeting:
    """Return words that say: the first thread is at the start of round 0; there is a leg for each thread."""
    reached = np.full(n_threads, -1)
    reached[0] = 0
    return Meeting(np.full(n_threads, -1), np.full(2 * n_threads, -1), reached, np.zeros(1, np.int64))


def call_off(meeting: Meeting) -> None:
    """Let all threads come to an end soon."""
    meeting.called_off[0] = 1


def n_places_of(n_threads: int) -> int:
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
def reach(me, t, meeting):  # meeting: INOUT
    """Let all see that thread `me` has what all have come to at the start of round `t`."""
    write(meeting.reached, me, t)


@kernel
def has_ended(t, c, meeting, n_places):
    """Tell whether leg `c` of round `t` has ended."""
    return read(meeting.ended, t % 2 * meeting.taken.size + c) >= t * n_places


@kernel
def is_over(t, meeting, n_places):
    """Tell whether all legs of round `t` have ended."""
    for c in range(meeting.taken.size):  # noqa: SIM110 (not in a kernel)
        if not has_ended(t, c, meeting, n_places):
            return False
    return True


@kernel
def is_called_off(meeting):
    """Tell whether all are to come to an end."""
    return read(meeting.called_off, 0) != 0


@kernel
def place_of(t, c, meeting, n_places):
    """Return where leg `c` of round `t`, which has ended, is."""
    return read(meeting.ended, t % 2 * meeting.taken.size + c) % n_places


@kernel
def take(t, times, me, meeting, n_places):  # meeting: INOUT
    """Return a leg of round `t` that has not ended and was taken at most so many `times`, the own first; -1 if none."""
    n_legs = meeting.taken.size
    for k in range(n_legs):
        c = (me + k) % n_legs
        before = read(meeting.taken, c)
        free = before <= t * _MOST_TIMES + times and not has_ended(t, c, meeting, n_places)
        if free and replace(meeting.taken, c, before, max(before, t * _MOST_TIMES) + 1):
            return c
    return -1


@kernel
def show(t, c, place, meeting, n_places):  # meeting: INOUT
    """Let all see that leg `c` of round `t` has ended and is in `place`, unless another thread has been faster."""
    word = t % 2 * meeting.taken.size + c
    before = read(meeting.ended, word)
    if before < t * n_places:
        replace(meeting.ended, word, before, t * n_places + place)
