"""A description of the machine on which times were measured, without any personal information."""

from __future__ import annotations

import os
import platform
import time
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["blas_threads", "busy_cores", "describe", "seconds_for_flops"]

PACKAGES = ("rowsolve", "numpy", "scipy", "numba", "scikit-learn", "kaczmarz-algorithms", "threadpoolctl")
_CPUINFO = Path("/proc/cpuinfo")
_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")


def describe() -> dict[str, Any]:
    """Return the processor, caches, memory, system and versions; no names of hosts, users or folders."""
    import psutil

    return {
        "cpu": _processor(),
        "cores": os.cpu_count(),
        "caches": _caches(),
        "memory_gb": round(psutil.virtual_memory().total / 1e9, 1),
        "os": platform.system(),
        "python": platform.python_version(),
        "blas": _blas(),
        "versions": _versions(),
    }


def blas_threads(threads: int) -> AbstractContextManager[Any]:
    """Return a context manager in which BLAS and OpenMP use `threads` threads, if threadpoolctl is installed."""
    if find_spec("threadpoolctl") is None:
        return nullcontext()
    # Only libraries that are loaded can be limited.
    import scipy.linalg  # noqa: F401
    from threadpoolctl import threadpool_limits

    return threadpool_limits(limits=threads)


def busy_cores(seconds: float = 0.2) -> float:
    """Sleep, and return the number of cores that other programs used meanwhile."""
    import psutil

    return (os.cpu_count() or 1) * psutil.cpu_percent(seconds) / 100.0


def seconds_for_flops(flops: float) -> float:
    """Return the predicted time of a large factorization with that many operations, to within a factor of about 2."""
    return flops * _seconds_a_flop()


@cache
def _seconds_a_flop() -> float:
    from scipy.linalg import qr

    n_rows, n_columns = 2400, 600
    sample = np.asfortranarray(np.random.default_rng(0).standard_normal((n_rows, n_columns)))
    seconds = []
    for _ in range(4):  # the shortest time counts, as a single one may be disturbed
        started = time.perf_counter()
        qr(sample, mode="r", check_finite=False)
        seconds.append(time.perf_counter() - started)
    return min(seconds) / (2.0 * n_columns**2 * (n_rows - n_columns / 3.0))


def _processor() -> str:
    try:
        lines = _CPUINFO.read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _caches() -> dict[str, str]:
    """Return the size of each cache of the first core, such as ``{"L2": "512K"}``."""
    found = {}
    for place in sorted(_CACHES.glob("index*")):
        try:
            level, kind, size = (
                (place / name).read_text(encoding="ascii").strip() for name in ("level", "type", "size")
            )
        except OSError:
            continue
        found[f"L{level}{'i' if kind == 'Instruction' else 'd' if level == '1' else ''}"] = size
    return found


def _blas() -> list[str]:
    """Return the name, version and kernels of each library; numpy and scipy may have one each."""
    if find_spec("threadpoolctl") is None:
        built = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
        return [f"{built['name']} {built['version']}"]
    import scipy.linalg  # noqa: F401 - loads its own
    from threadpoolctl import threadpool_info

    keys = ("internal_api", "version", "architecture")
    return sorted(
        {
            " ".join(str(one[key]) for key in keys if one.get(key))
            for one in threadpool_info()
            if one["user_api"] == "blas"
        }
    )


def _versions() -> dict[str, str]:
    found = {}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found
