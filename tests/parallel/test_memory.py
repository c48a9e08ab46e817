from __future__ import annotations

import math
from types import SimpleNamespace

import psutil
import pytest

from rowsolve.parallel import memory
from rowsolve.parallel.memory import free_memory


@pytest.fixture(autouse=True)
def _group(tmp_path, monkeypatch):
    """A control group without files, on a machine with 1000 bytes."""
    monkeypatch.setattr(memory, "_CGROUP", tmp_path)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=1000))
    memory._limit.cache_clear()
    yield
    memory._limit.cache_clear()


@pytest.mark.parametrize(
    ("files", "free"),
    [
        ({}, 1000.0),
        ({"memory.max": "max\n", "memory.current": "1\n"}, 1000.0),
        ({"memory.max": "700\n", "memory.current": "100\n"}, 600.0),
        ({"memory.max": "5000\n", "memory.current": "100\n"}, 1000.0),
        ({"memory.max": "700\n", "memory.current": "800\n"}, 0.0),
        ({"memory.max": "700\n"}, 1000.0),
        ({"memory.max": "nonsense\n"}, 1000.0),
    ],
)
def test_free_memory__is_that_of_the_machine_and_of_the_control_group(tmp_path, files, free):
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert free_memory() == free


def test_free_memory__is_asked_for_again_but_the_limit_is_not(tmp_path):
    (tmp_path / "memory.max").write_text("700\n")
    (tmp_path / "memory.current").write_text("100\n")
    assert free_memory() == 600.0
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory.current").write_text("300\n")
    assert free_memory() == 400.0


def test_free_memory__is_infinite_if_it_is_unknown(monkeypatch):
    def refuse():
        raise PermissionError

    monkeypatch.setattr(psutil, "virtual_memory", refuse)
    assert free_memory() == math.inf


def test_free_memory__of_this_machine(monkeypatch):
    monkeypatch.undo()
    assert 0.0 < free_memory() <= psutil.virtual_memory().total
