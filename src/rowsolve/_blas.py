"""How many threads BLAS takes.

Those of OpenBLAS go on spinning for a tenth of a second and more after their work, on the cores that the next pass
over A needs: it then takes nearly twice as long. So BLAS is kept to the calling thread, and what is worth it is shared
out among our own, except in calls so long that this does not matter.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

__all__ = ["blas_threads"]

_LONG = 1e9  # multiplications: about 50 ms


@contextmanager
def blas_threads(work: float, threads: int) -> Iterator[None]:
    """Keep BLAS to one thread for the time of a block, or to `threads` if calls of so many multiplications are long.

    With an infinite `work` it takes `threads` in any case. It holds for the whole process while it lasts. Short calls
    need it as much as others: numpy and scipy each have a library of their own, and when the threads of one wait for
    cores on which those of the other spin, a solve with a small triangle takes milliseconds. (threadpoolctl's own
    context takes three times as long.)
    """
    libraries, count = _libraries(), threads if work > _LONG else 1
    before = [library.get_num_threads() for library in libraries]
    try:
        for library in libraries:
            library.set_num_threads(count)
        yield
    finally:
        for library, number in zip(libraries, before, strict=True):
            library.set_num_threads(number)


@cache  # to look for the libraries takes a millisecond
def _libraries() -> list[Any]:
    import scipy.linalg  # noqa: F401 (its library must be there to be found)
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas").lib_controllers
