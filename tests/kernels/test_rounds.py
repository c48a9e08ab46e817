"""Legs of a round: each is taken until it has ended, and ends once."""

from __future__ import annotations

from rowsolve.kernels import rounds


def test_legs__are_taken_by_whoever_is_there_the_own_first():
    meeting = rounds.new_meeting(3)
    assert [rounds.take(0, 0, 1, meeting) for _ in range(4)] == [1, 2, 0, -1]
    assert rounds.take(0, 1, 1, meeting) == 1  # a second time, if nobody comes back from it
    rounds.show(0, 1, rounds.first_place(1, meeting), meeting)
    assert rounds.take(0, 5, 1, meeting) == 2
    assert not rounds.is_over(0, meeting)
    for c, me in ((0, 0), (2, 2)):
        rounds.show(0, c, rounds.first_place(me, meeting), meeting)
    assert rounds.is_over(0, meeting)
    assert not rounds.is_over(1, meeting)
    assert [rounds.place_of(0, c, meeting) for c in range(3)] == [0, 3, 5]


def test_leg__that_has_ended_stays_where_the_first_put_it():
    meeting = rounds.new_meeting(2)
    rounds.show(0, 1, 2, meeting)
    rounds.show(0, 1, 0, meeting)
    assert rounds.place_of(0, 1, meeting) == 2


def test_threads__know_who_is_furthest_and_when_it_is_called_off():
    meeting = rounds.new_meeting(2)
    assert rounds.furthest(meeting) == 0
    meeting.reached[1] = 4
    assert rounds.furthest(meeting) == 1
    assert (rounds.first_place(0, meeting), rounds.places_of(0, meeting)) == (0, 2)
    assert (rounds.first_place(1, meeting), rounds.places_of(1, meeting)) == (2, rounds.PLACES_OF_A_THREAD)
    assert not rounds.is_called_off(meeting)
    rounds.call_off(meeting)
    assert rounds.is_called_off(meeting)
