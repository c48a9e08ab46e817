"""Compile flags, and the cache of compiled kernels.

Numba's own cache looks at the file a kernel stands in, not at the kernels it calls, so it serves stale
machine code after a change in another file. Ours lives in a folder named by a hash of *all* kernel
sources: any change opens a new folder. Nothing is compiled at import.

``ROWSOLVE_CACHE_DIR`` moves the cache, ``ROWSOLVE_CACHE=off`` does without it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from numba import config
from numba.core.errors import NumbaError
from numba.extending import overload

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

__all__ = ["hash_of_kernel_sources", "kernel", "kernel_cache_folder", "row_primitive"]

# Never nnan/ninf: the kernels test for NaN and infinity.
_FLAGS: Any = {
    "nogil": True,
    "fastmath": {"reassoc", "contract", "arcp", "nsz"},
    "error_model": "numpy",
}
_ROOM_FOR_CACHE = 64 * 2**20  # bytes; Numba fails in the middle of a solve when the disk is full


def kernel_cache_folder() -> Path | None:
    """Return the folder of the compiled kernels, or None when they are not to be kept."""
    if os.environ.get("ROWSOLVE_CACHE", "on").lower() in {"off", "0", "no", "false"}:
        return None
    base = os.environ.get("ROWSOLVE_CACHE_DIR")
    if not base:
        try:
            base = os.path.join(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "rowsolve")
        except RuntimeError:  # no home
            return None
    return Path(base) / f"kernels-{hash_of_kernel_sources()}"


def hash_of_kernel_sources() -> str:
    """Return what changes when a kernel does."""
    here = Path(__file__)
    digest = hashlib.sha256(numba.__version__.encode())
    for source in [*sorted(here.parent.glob("*.py")), *sorted((here.parents[1] / "kernels").glob("*.py"))]:
        digest.update(source.name.encode())
        digest.update(source.read_bytes())
    return digest.hexdigest()[:16]


def _usable(folder: Path | None) -> Path | None:
    """Return `folder` if kernels can be stored there; a cache must never stop a solve."""
    if folder is None:
        return None
    try:
        folder.mkdir(parents=True, exist_ok=True)
        roomy = shutil.disk_usage(folder).free > _ROOM_FOR_CACHE
        return folder if roomy and os.access(folder, os.W_OK) else None
    except OSError:
        return None


_CACHE = _usable(kernel_cache_folder())


class _CacheLock:
    """One process at a time may compile into the cache; re-entrant, since kernels compile those they call.

    Two that fill it at once can leave the code of one signature under the name of another: Numba numbers its
    files by an index that each reads before it writes.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / "lock"
        self._threads = threading.RLock()
        self._depth = 0
        self._file: Any = None

    def __enter__(self) -> None:
        self._threads.acquire()
        self._depth += 1
        if self._depth == 1 and fcntl is not None:
            with contextlib.suppress(OSError):  # a file system without locks
                self._file = self._path.open("w")
                fcntl.flock(self._file, fcntl.LOCK_EX)

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if self._depth == 0 and self._file is not None:
            self._file.close()  # this releases the lock, and so does the end of the process
            self._file = None
        self._threads.release()


_LOCK = _CacheLock(_CACHE) if _CACHE else None


def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile `function` on its first call and keep the machine code on disk."""
    if _CACHE is None or _LOCK is None:
        return numba.njit(**_FLAGS)(function)
    settings: Any = config
    before = settings.CACHE_DIR
    settings.CACHE_DIR = str(_CACHE)  # read once, while the dispatcher is made
    try:
        dispatcher: Any = numba.njit(cache=True, **_FLAGS)(function)
    finally:
        settings.CACHE_DIR = before
    if hasattr(dispatcher, "compile"):  # Numba may be switched off
        dispatcher.compile = _carefully(dispatcher, dispatcher.compile)
    return dispatcher


def _carefully(dispatcher: Any, compile_for: Callable[..., Any]) -> Callable[..., Any]:
    """Compile under the lock; a damaged cache file is thrown away and made anew."""

    def compile_carefully(signature: Any) -> Any:
        assert _LOCK is not None
        with _LOCK:
            try:
                return compile_for(signature)
            except NumbaError:
                raise
            except Exception:
                dispatcher._cache.flush()
                return compile_for(signature)

    return compile_carefully


def row_primitive(implementations: dict[type, Callable[..., Any]]) -> Callable[..., Any]:
    """Make one function of `implementations`, one for each kind of rows, chosen at compile time.

    The decorated function is the plain-Python form, which runs when Numba is switched off.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        def choose(rows: Any, *_: Any) -> Callable[..., Any] | None:
            return implementations.get(getattr(rows, "instance_class", None))  # type: ignore[arg-type]

        overload(function, jit_options=_FLAGS, strict=False)(choose)
        return function

    return decorate
