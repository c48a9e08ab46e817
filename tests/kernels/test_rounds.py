"""Legs of a round: each is completed exactly once."""

from __future__ import annotations

from rowsolve.kernels import rounds


def test_legs__are_run_by_any_thread_the_own_first():
    progress = rounds.new_progress(3)
    assert [rounds.claim(0, 0, 1, progress) for _ in range(4)] == [1, 2, 0, -1]
    assert rounds.claim(0, 1, 1, progress) == 1  # a second time, if nobody comes back from it
    rounds.publish(0, 1, rounds.first_place(1, progress), progress)
    assert rounds.claim(0, 5, 1, progress) == 2
    assert not rounds.is_over(0, progress)
    for c, me in ((0, 0), (2, 2)):
        rounds.publish(0, c, rounds.first_place(me, progress), progress)
    assert rounds.is_over(0, progress)
    assert not rounds.is_over(1, progress)
    assert [rounds.place_of(0, c, progress) for c in range(3)] == [0, 3, 5]


def test_leg__keeps_the_result_of_the_first_thread_that_completes_it():
    progress = rounds.new_progress(2)
    rounds.publish(0, 1, 2, progress)
    rounds.publish(0, 1, 0, progress)
    assert rounds.place_of(0, 1, progress) == 2


def test_threads__see_the_furthest_round_and_the_cancellation():
    progress = rounds.new_progress(2)
    assert rounds.leader(progress) == 0
    progress.reached[1] = 4
    assert rounds.leader(progress) == 1
    assert (rounds.first_place(0, progress), rounds.places_of(0, progress)) == (0, 2)
    assert (rounds.first_place(1, progress), rounds.places_of(1, progress)) == (2, rounds.PLACES_OF_A_THREAD)
    assert not rounds.is_cancelled(progress)
    rounds.cancel(progress)
    assert rounds.is_cancelled(progress)
