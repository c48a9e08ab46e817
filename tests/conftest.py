"""Fixtures of all tests: systems small enough for plain Python runs."""

from __future__ import annotations

import os
import signal
from types import SimpleNamespace

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before numpy: threads of BLAS wait by spinning, on cores of other tests

import numpy as np
import pytest
from hypothesis import settings
from numba import config
from scipy import sparse

import rowsolve
from rowsolve.problem.counter import RowCounter

JIT = not config.DISABLE_JIT
# The sizes of the promise; a tenth of them when every loop runs in plain Python.
N_ROWS, N_COLUMNS = (4000, 200) if JIT else (300, 16)

settings.register_profile("rowsolve", deadline=None, derandomize=True, max_examples=60 if JIT else 20)
settings.load_profile("rowsolve")


def pytest_configure(config):
    config.addinivalue_line("markers", "compiled: needs compiled kernels (speed, caches, large systems)")


@pytest.fixture(autouse=True)
def _arrow_keeps_nothing(monkeypatch):
    """Treat small tables as larger than memory, although the memory of the library is larger."""
    monkeypatch.setattr("rowsolve.sources.parquet._KEPT_BY_ARROW", 0.0)
    monkeypatch.setattr("rowsolve.sources.parquet._KEPT_FOR_A_COLUMN", 0.0)


@pytest.fixture
def press_ctrl_c():
    """A function that sends SIGINT to this process. A shell starts its background jobs with SIGINT ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield lambda: os.kill(os.getpid(), signal.SIGINT)
    signal.signal(signal.SIGINT, before)


def _in_time(count, clock):
    def count_in_time(self, rows):
        before = self.rows_read
        count(self, rows)
        clock.now += 1e-4 * (self.rows_read - before)

    return count_in_time


@pytest.fixture
def clock(monkeypatch):
    """The clock of solves, which does not depend on the machine: a row that is counted takes 0.1 ms, all else no time.

    ``clock.now`` may be set.
    """
    clock = SimpleNamespace(now=0.0, perf_counter=lambda: clock.now)
    for module in ("problem.clock", "engine.warmup"):
        monkeypatch.setattr(f"rowsolve.{module}.time", clock)
    for name in ("add", "use"):
        monkeypatch.setattr(RowCounter, name, _in_time(getattr(RowCounter, name), clock))
    return clock


def gaussian(n_rows=N_ROWS, n_columns=N_COLUMNS, seed=0, noise=0.0):
    """Return A, b, and the x from which b was computed."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((n_rows, n_columns))
    x = rng.standard_normal(n_columns)
    b = A @ x
    return A, b + noise * np.std(b) * rng.standard_normal(n_rows), x


def relative_error(x, reference):
    return float(np.linalg.norm(x - reference) / np.linalg.norm(reference))


def check_solution(method):
    """Check that a method solves a small consistent system to the default tolerance."""
    A, b, x_true = gaussian(400, 20, seed=1)
    solution = rowsolve.solve(A, b, method, rng=0)
    assert solution.converged
    assert relative_error(solution.x, x_true) < 3e-6


def as_dense(A, _folder):
    return np.ascontiguousarray(A)


def as_float32(A, _folder):
    return A.astype(np.float32)


def as_fortran(A, _folder):
    return np.asfortranarray(A)


def as_strided(A, _folder):
    return np.repeat(np.repeat(A, 2, axis=0), 2, axis=1)[::2, ::2]


def as_csr(A, _folder):
    return sparse.csr_array(A)


def as_csc(A, _folder):
    return sparse.csc_matrix(A)


def as_coo(A, _folder):
    return sparse.coo_array(A)


def as_readonly_memmap(A, folder):
    np.save(folder / "A.npy", A)
    return np.load(folder / "A.npy", mmap_mode="r")


STORES = [as_dense, as_float32, as_fortran, as_strided, as_csr, as_csc, as_coo, as_readonly_memmap]
if not JIT:  # to plain Python they are all alike
    STORES = [as_dense, as_float32, as_csr]


KINDS = [kind for kind in STORES if kind not in (as_csc, as_coo, as_readonly_memmap)]


@pytest.fixture(params=KINDS, ids=lambda store: store.__name__.removeprefix("as_"))
def store(request, tmp_path):
    """A function that stores a matrix in one of the ways that kernels tell apart.

    Kernels that reach rows only through others need no more than two: ``@DENSE_OR_CSR``.
    """
    return lambda A: request.param(A, tmp_path)


DENSE_OR_CSR = pytest.mark.parametrize("store", [as_dense, as_csr], indirect=True, ids=["dense", "csr"])
