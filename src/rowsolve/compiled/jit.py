"""Compile flags, and the cache of compiled kernels.

Numba's cache checks the file in which a kernel is defined, but not the kernels that it calls, so it returns stale
machine code after a change in another file. Here the cache is in a folder whose name is a hash of *all* kernel
sources, so any change starts a new folder. Nothing is compiled at import.

``ROWSOLVE_CACHE_DIR`` sets the folder of the cache, ``ROWSOLVE_CACHE=off`` disables it.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numba
from numba import config
from numba.core.caching import NullCache
from numba.core.errors import NumbaError
from numba.extending import overload
from platformdirs import user_cache_dir

if TYPE_CHECKING:
    from filelock import BaseFileLock

__all__ = ["hash_of_kernel_sources", "kernel", "kernel_cache_folder", "row_primitive"]

# Never nnan/ninf: the kernels test for NaN and infinity.
_FLAGS: Any = {
    "nogil": True,
    "fastmath": {"reassoc", "contract", "arcp", "nsz"},
    "error_model": "numpy",
}


def kernel_cache_folder() -> Path | None:
    """Return the folder of the compiled kernels, or None if they are not cached."""
    if os.environ.get("ROWSOLVE_CACHE", "on").lower() in {"off", "0", "no", "false"}:
        return None
    base = os.environ.get("ROWSOLVE_CACHE_DIR")
    if not base:
        base = user_cache_dir("rowsolve", appauthor=False)
        if not os.path.isabs(base):  # no home directory
            return None
    return Path(base) / f"kernels-{hash_of_kernel_sources()}"


def hash_of_kernel_sources() -> str:
    """Return a hash that changes whenever a kernel changes."""
    here = Path(__file__)
    digest = hashlib.sha256(numba.__version__.encode())
    for source in [*sorted(here.parent.glob("*.py")), *sorted((here.parents[1] / "kernels").glob("*.py"))]:
        digest.update(source.name.encode())
        digest.update(source.read_bytes())
    return digest.hexdigest()[:16]


def _usable(folder: Path | None) -> Path | None:
    """Return `folder` if kernels can be stored there, otherwise None: a cache must never make a solve fail."""
    if folder is None:
        return None
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return folder if os.access(folder, os.W_OK) else None
    except OSError:
        return None


_CACHE = _usable(kernel_cache_folder())


@cache
def _lock() -> BaseFileLock:
    """Return the lock of the cache, into which only one thread of one process may compile at a time.

    Without it, two processes may store the code of one signature under the name of another, because Numba numbers its
    files by an index that each process reads before it writes. The lock is re-entrant, since kernels compile those that
    they call. It is a lock of the operating system, which ends with the process, rather than the existence of a file.
    """
    from filelock import FileLock  # late, since small systems are solved without kernels

    assert _CACHE is not None
    return FileLock(_CACHE / "lock", poll_interval=0.01, fallback_to_soft=False, is_singleton=True)


def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile `function` on its first call and cache the machine code on disk."""
    if _CACHE is None:
        return numba.njit(**_FLAGS)(function)
    settings: Any = config
    before = settings.CACHE_DIR
    settings.CACHE_DIR = str(_CACHE)  # read once, while the dispatcher is made
    try:
        dispatcher: Any = numba.njit(cache=True, **_FLAGS)(function)
    finally:
        settings.CACHE_DIR = before
    if hasattr(dispatcher, "compile"):  # Numba may be switched off
        dispatcher.compile = _compile_safely(dispatcher, dispatcher.compile)
    return dispatcher


def _compile_safely(dispatcher: Any, compile_for: Callable[..., Any]) -> Callable[..., Any]:
    """Return `compile_for` under the lock; it rewrites a damaged cache file, and does without if the disk is full."""

    def compile_safely(signature: Any) -> Any:
        with ExitStack() as stack:
            with suppress(OSError):  # a file system without locks
                stack.enter_context(_lock())
            try:
                return compile_for(signature)
            except NumbaError:
                raise
            except Exception:
                with suppress(OSError):
                    dispatcher._cache.flush()
                    return compile_for(signature)
                dispatcher._cache = NullCache()
                return compile_for(signature)

    return compile_safely


def row_primitive(implementations: dict[type, Callable[..., Any]]) -> Callable[..., Any]:
    """Combine `implementations`, one for each kind of rows, into one function; the choice is made at compile time.

    The decorated function is the plain-Python form, which runs if Numba is disabled.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        def choose(rows: Any, *_: Any) -> Callable[..., Any] | None:
            return implementations.get(getattr(rows, "instance_class", None))  # type: ignore[arg-type]

        overload(function, jit_options=_FLAGS, strict=False)(choose)
        return function

    return decorate
