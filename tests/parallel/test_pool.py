from __future__ import annotations

import os
import threading
import time
import weakref
from functools import partial

import pytest

from rowsolve.parallel import pool
from rowsolve.parallel.pool import available_cores, run_as_one, run_together


@pytest.fixture(autouse=True)
def _fresh():
    pool._quota.cache_clear()
    yield
    pool._quota.cache_clear()


@pytest.mark.parametrize(
    ("files", "quota"),
    [
        ({}, float("inf")),
        ({"cpu.max": "max 100000\n"}, float("inf")),
        ({"cpu.max": "150000 100000\n"}, 1.5),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, float("inf")),
        ({"cpu/cpu.cfs_quota_us": "300000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 3.0),
        ({"cpu.max": "nonsense"}, float("inf")),
    ],
)
def test_quota__is_that_of_the_control_group(tmp_path, monkeypatch, files, quota):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(pool, "_CGROUP", tmp_path)
    assert pool._quota() == quota


def test_available_cores__respects_quota_and_affinity(tmp_path, monkeypatch):
    monkeypatch.setattr(pool, "_CGROUP", tmp_path)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 5}, raising=False)
    assert available_cores() == 4
    (tmp_path / "cpu.max").write_text("150000 100000")
    pool._quota.cache_clear()
    assert available_cores() == 2
    (tmp_path / "cpu.max").write_text("1000 100000")
    pool._quota.cache_clear()
    assert available_cores() == 1


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system does not tell cores")
def test_workers__wake_up_on_another_core_and_may_then_run_on_any():
    mine = os.sched_getaffinity(0)
    asked, set_affinity = [], os.sched_setaffinity
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "sched_setaffinity", lambda thread, cores: (asked.append(cores), set_affinity(thread, cores)))
        for _ in range(5):
            assert run_together([lambda: os.sched_getaffinity(0)] * 2) == [mine, mine]
    kept_away = [cores for cores in asked if cores != mine]
    assert all(len(mine - cores) == 1 for cores in kept_away)
    assert len(kept_away) == (5 if len(mine) > 1 else 0)


@pytest.mark.parametrize("missing", ["affinity", "core", "permission"])
def test_workers__do_without_a_choice_of_cores(monkeypatch, missing):
    def refuse(*_):
        raise PermissionError

    if missing == "affinity":
        monkeypatch.delattr(os, "sched_setaffinity", raising=False)
    elif missing == "core":
        monkeypatch.setattr(pool, "_core", lambda: -1)
    else:
        monkeypatch.setattr(os, "sched_setaffinity", refuse, raising=False)
    assert run_together([lambda: 1, lambda: 2]) == [1, 2]


def test_run_together__runs_side_by_side_and_keeps_the_order():
    gate = threading.Barrier(3, timeout=30)

    def call(value):
        gate.wait()  # passes only if all three run at once
        return value, threading.current_thread()

    results = run_together([lambda v=v: call(v) for v in range(3)])
    assert [value for value, _ in results] == [0, 1, 2]
    assert results[0][1] is threading.current_thread()


def test_run_together__one_call_starts_no_thread(monkeypatch):
    monkeypatch.setattr(pool._POOL, "workers", lambda _: pytest.fail("started"))
    assert run_together([lambda: 7]) == [7]


@pytest.mark.parametrize("failing", [0, 1])
def test_run_together__waits_for_those_under_way_before_it_raises(failing):
    done, begun, go = [], threading.Event(), threading.Event()

    def fail():
        begun.wait(30)
        go.set()
        raise KeyboardInterrupt if failing == 0 else ValueError

    def work():
        begun.set()
        go.wait(30)
        time.sleep(0.05)
        done.append(True)

    calls = [fail, work] if failing == 0 else [work, fail]
    with pytest.raises(KeyboardInterrupt if failing == 0 else ValueError):
        run_together(calls)
    assert done == [True]


@pytest.fixture
def absent():
    """Workers that do not run until this event is set."""
    back = threading.Event()
    workers = pool._POOL.workers(2)
    gone = threading.Barrier(3, timeout=30)
    for worker in workers:
        worker.ask(lambda: (gone.wait(), back.wait(60)))
    gone.wait()
    yield back
    back.set()
    run_until_back(workers)


def run_until_back(workers):
    back = [threading.Event() for _ in workers]
    for worker, event in zip(workers, back, strict=True):
        worker.ask(event.set)
    assert all(event.wait(30) for event in back)


def test_run_together__makes_the_calls_that_no_worker_has_started(absent):
    made = run_together([lambda value=value: (value, threading.current_thread()) for value in range(3)])
    assert made == [(value, threading.current_thread()) for value in range(3)]
    assert not absent.is_set()


def test_run_together__begins_no_more_calls_after_an_error(absent):
    made = []

    def fail():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_together([fail, lambda: made.append(1), lambda: made.append(2)])
    absent.set()
    run_until_back(pool._POOL.workers(2))
    assert made == []


def test_run_as_one__returns_with_the_first_and_withdraws_the_other_calls(absent):
    class Arrays:
        """The data of a call."""

    def work(who, _arrays):
        made.append(who)
        return "the work"

    made, arrays = [], Arrays()
    kept = weakref.ref(arrays)
    assert run_as_one([partial(work, me, arrays) for me in range(3)], lambda: pytest.fail("gave up")) == "the work"
    del arrays
    assert kept() is None
    absent.set()
    run_until_back(pool._POOL.workers(2))
    assert made == [0]


def test_run_as_one__ignores_the_other_threads_and_their_errors():
    begun, go, ended = threading.Barrier(3, timeout=30), threading.Event(), []

    def first():
        begun.wait()
        return 7

    def fail():
        begun.wait()
        raise MemoryError

    def late():
        begun.wait()
        go.wait(30)
        ended.append(True)

    assert run_as_one([first, fail, late], lambda: pytest.fail("gave up")) == 7
    assert ended == []
    go.set()
    run_until_back(pool._POOL.workers(2))
    assert ended == [True]


def test_run_as_one__lets_the_others_finish_after_an_error_of_the_first():
    begun, go, ended = threading.Barrier(3, timeout=30), threading.Event(), []

    def first():
        begun.wait()
        raise KeyboardInterrupt

    def other():
        begun.wait()
        go.wait(30)
        time.sleep(0.05)
        ended.append(True)

    with pytest.raises(KeyboardInterrupt):
        run_as_one([first, other, other], go.set)
    assert ended == [True, True]


def test_worker__survives_when_the_next_call_comes_while_it_drops_the_last():
    dropping, asked = threading.Event(), threading.Event()

    class Closing:
        """Like a memory map, whose end lets other threads run."""

        def __del__(self):
            dropping.set()
            asked.wait(30)

    worker, made = pool._Worker(), threading.Event()
    worker.ask(partial(lambda _: None, Closing()))
    assert dropping.wait(30)
    worker.ask(made.set)
    asked.set()
    assert made.wait(30)
    run_until_back([worker])  # a dead worker would never make this call


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_run_together__works_in_a_child_after_a_fork():
    run_together([lambda: 1, lambda: 2])
    child = os.fork()
    if child == 0:
        os._exit(0 if run_together([lambda: 1, lambda: 2]) == [1, 2] else 1)
    assert os.waitpid(child, 0)[1] == 0
