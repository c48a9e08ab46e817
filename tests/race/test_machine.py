from __future__ import annotations

import getpass
import json
import platform
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from rowsolve.race import machine
from rowsolve.race.machine import blas_threads, busy_cores, describe, seconds_for_flops


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


def test_description__reads_proc_and_sys(tmp_path, monkeypatch):
    (tmp_path / "cpuinfo").write_text("processor : 0\nmodel name\t: Fast One @ 3 GHz\nmodel name\t: Fast One @ 3 GHz\n")
    for number, (level, kind, size) in enumerate(
        [("1", "Data", "32K"), ("1", "Instruction", "64K"), ("2", "Unified", "1M")]
    ):
        place = tmp_path / f"index{number}"
        place.mkdir()
        for name, text in (("level", level), ("type", kind), ("size", size)):
            (place / name).write_text(f"{text}\n")
    (tmp_path / "index9").mkdir()  # says nothing
    monkeypatch.setattr(machine, "_CPUINFO", tmp_path / "cpuinfo")
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(total=2_000_000_000))
    monkeypatch.setattr(machine, "_CACHES", tmp_path)
    found = describe()
    assert found["cpu"] == "Fast One @ 3 GHz"
    assert found["caches"] == {"L1d": "32K", "L1i": "64K", "L2": "1M"}
    assert found["memory_gb"] == 2.0


def test_description__does_without_linux_and_threadpoolctl(tmp_path, monkeypatch):
    for name in ("_CPUINFO", "_CACHES"):
        monkeypatch.setattr(machine, name, tmp_path / "none")
    monkeypatch.setattr(machine, "find_spec", lambda _: None)
    found = describe()
    assert found["caches"] == {}
    assert len(found["blas"]) == 1
    with blas_threads(1):
        pass


def test_blas_threads__are_limited():
    threadpoolctl = pytest.importorskip("threadpoolctl")
    with blas_threads(1):
        assert {one["num_threads"] for one in threadpoolctl.threadpool_info() if one["user_api"] == "blas"} == {1}


def test_busy_cores__are_those_at_work(monkeypatch):
    monkeypatch.setattr(machine.os, "cpu_count", lambda: 4)
    monkeypatch.setattr(psutil, "cpu_percent", {0.1: 37.5}.get)
    assert busy_cores(0.1) == 1.5


def test_predicted_seconds__are_in_proportion():
    assert seconds_for_flops(2e9) == pytest.approx(2 * seconds_for_flops(1e9))
    assert 1e-4 < seconds_for_flops(1e9) < 100.0
