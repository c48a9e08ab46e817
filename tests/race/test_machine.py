from __future__ import annotations

import getpass
import json
import platform
from pathlib import Path

import pytest

from rowsolve.race import machine
from rowsolve.race.machine import available_bytes, blas_threads, busy_cores, describe, seconds_for_flops


def test_description__has_what_times_depend_on_and_nothing_personal():
    found = describe()
    assert found["cpu"]
    assert found["python"] == platform.python_version()
    assert {"rowsolve", "numpy", "scipy", "numba"} <= set(found["versions"])
    text = json.dumps(found)
    for word in (platform.node(), str(Path.home()), "site-packages"):
        assert not word or word == "/" or word not in text
    if getpass.getuser() != "root":
        assert getpass.getuser() not in text


def test_description__reads_what_linux_tells(tmp_path, monkeypatch):
    (tmp_path / "cpuinfo").write_text("processor : 0\nmodel name\t: Fast One @ 3 GHz\nmodel name\t: Fast One @ 3 GHz\n")
    (tmp_path / "meminfo").write_text("MemTotal:  2000000 kB\nMemAvailable:  1000000 kB\n")
    for number, (level, kind, size) in enumerate(
        [("1", "Data", "32K"), ("1", "Instruction", "64K"), ("2", "Unified", "1M")]
    ):
        place = tmp_path / f"index{number}"
        place.mkdir()
        for name, text in (("level", level), ("type", kind), ("size", size)):
            (place / name).write_text(f"{text}\n")
    (tmp_path / "index9").mkdir()  # says nothing
    monkeypatch.setattr(machine, "_CPUINFO", tmp_path / "cpuinfo")
    monkeypatch.setattr(machine, "_MEMINFO", tmp_path / "meminfo")
    monkeypatch.setattr(machine, "_CACHES", tmp_path)
    found = describe()
    assert found["cpu"] == "Fast One @ 3 GHz"
    assert found["caches"] == {"L1d": "32K", "L1i": "64K", "L2": "1M"}
    assert found["memory_gb"] == 2.0
    assert available_bytes() == 1.024e9


def test_description__does_without_linux_and_threadpoolctl(tmp_path, monkeypatch):
    for name in ("_CPUINFO", "_MEMINFO", "_STAT", "_CACHES"):
        monkeypatch.setattr(machine, name, tmp_path / "none")
    monkeypatch.setattr(machine, "find_spec", lambda _: None)
    found = describe()
    assert found["memory_gb"] is None
    assert found["caches"] == {}
    assert len(found["blas"]) == 1
    assert available_bytes() == float("inf")
    assert busy_cores(0.0) is None
    with blas_threads(1):
        pass


def test_blas_threads__are_limited():
    threadpoolctl = pytest.importorskip("threadpoolctl")
    with blas_threads(1):
        assert {one["num_threads"] for one in threadpoolctl.threadpool_info() if one["user_api"] == "blas"} == {1}


def test_busy_cores__are_those_at_work(tmp_path, monkeypatch):
    stat = tmp_path / "stat"
    stat.write_text("cpu  100 0 0 900 0 0 0 0 0 0\ncpu0 1\n")
    monkeypatch.setattr(machine, "_STAT", stat)
    monkeypatch.setattr(machine.os, "cpu_count", lambda: 4)
    monkeypatch.setattr(machine.time, "sleep", lambda _: stat.write_text("cpu  120 0 5 960 15 0 0 0 0 0\n"))
    assert busy_cores() == pytest.approx(4 * 25 / 100)


def test_predicted_seconds__are_in_proportion():
    assert seconds_for_flops(2e9) == pytest.approx(2 * seconds_for_flops(1e9))
    assert 1e-4 < seconds_for_flops(1e9) < 100.0
