"""How many threads BLAS takes.

Those of OpenBLAS go on spinning for a tenth of a second and more after their work, on the cores that the next pass
over A needs: it then takes nearly twice as long. So BLAS is kept to the calling thread, and what is worth it is shared
out among our own, except in calls so long that this does not matter.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from typing import Any

__all__ = ["blas_threads"]

_SHORT = 1e6  # multiplications: BLAS stays on one thread anyway
_LONG = 1e9  # about 50 ms


def blas_threads(work: float, threads: int) -> AbstractContextManager[Any]:
    """Return a context in which BLAS takes one thread, or `threads` if calls of so many multiplications are long.

    With an infinite `work` it takes `threads` in any case.

    It holds for the whole process while it lasts.
    """
    return nullcontext() if work < _SHORT else _limited(threads if work > _LONG else 1)


@contextmanager
def _limited(threads: int) -> Iterator[None]:
    """Limit each library for the time of a block; threadpoolctl's own context takes three times as long."""
    libraries = _libraries()
    before = [library.get_num_threads() for library in libraries]
    try:
        for library in libraries:
            library.set_num_threads(threads)
        yield
    finally:
        for library, count in zip(libraries, before, strict=True):
            library.set_num_threads(count)


@cache  # to look for the libraries takes a millisecond
def _libraries() -> list[Any]:
    import scipy.linalg  # noqa: F401 (its library must be there to be found)
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas").lib_controllers
