"""Control of the number of BLAS threads.

Threads of OpenBLAS keep spinning for a tenth of a second or more after their work, on the cores that the next pass over
A needs, which then takes nearly twice as long. So BLAS is restricted to the calling thread, and work that pays for it
is distributed over our own threads, except in calls so long that this does not matter.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cache
from typing import Any

from rowsolve.policy.thresholds import LONG_BLAS_CALL

__all__ = ["blas_threads"]


class blas_threads:  # noqa: N801  it is used as a function
    """Context manager that restricts BLAS to one thread, or to `threads` if a call of `work` multiplications is long.

    With an infinite `work`, BLAS uses `threads` threads in any case. The setting applies to the whole process. If
    several contexts are active, in several threads, the last one entered counts; the original setting is restored when
    all have been left. Short calls need it as well: numpy and scipy each come with their own library, and if the
    threads of one wait for cores on which those of the other spin, solving with a small triangle takes milliseconds.
    (The context manager of threadpoolctl takes far longer: after an idle period, as long as a small solve.)
    """

    _lock = threading.Lock()
    _active: list[blas_threads] = []  # noqa: RUF012  shared by all, on purpose
    _before: list[int] = []  # noqa: RUF012

    def __init__(self, work: float, threads: int) -> None:
        self._count = threads if work > LONG_BLAS_CALL else 1

    def __enter__(self) -> None:
        with self._lock:
            if not self._active:
                self._before[:] = [get() for get, _ in _controls()]
            self._active.append(self)
            for _, set_threads in _controls():
                set_threads(self._count)

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._active.remove(self)
            counts = [self._active[-1]._count] * len(self._before) if self._active else self._before
            for (_, set_threads), count in zip(_controls(), counts, strict=True):
                set_threads(count)


@cache  # finding the libraries takes a millisecond
def _controls() -> list[tuple[Callable[[], int], Callable[[int], Any]]]:
    """Return the functions that get and set the number of threads of each library."""
    import scipy.linalg  # noqa: F401 (a library must be loaded to be found)
    from threadpoolctl import ThreadpoolController

    libraries = ThreadpoolController().select(user_api="blas").lib_controllers
    return [_functions_of(library) or (library.get_num_threads, library.set_num_threads) for library in libraries]


def _functions_of(library: Any) -> tuple[Any, Any] | None:
    """Return the two functions of an OpenBLAS built with pthreads; None for other libraries."""
    find = getattr(library, "_get_symbol", None)
    if find is None or library.internal_api != "openblas" or getattr(library, "threading_layer", "") != "pthreads":
        return None
    found = find("openblas_get_num_threads"), find("openblas_set_num_threads")
    return None if None in found else found
