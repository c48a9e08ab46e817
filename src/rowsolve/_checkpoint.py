"""The state of a solve in a file, from which it can go on as if nothing had happened.

What is saved is the object that runs the solve, with all it refers to, except what is there anyway: the rows, b, and
the callback. These are left out by name and put in again. The file begins with a line of JSON: what the solve is of
(its fingerprint), and a checksum of all.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import pickle
import re
import time
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from rowsolve._output import OutputFile

__all__ = ["Checkpoint", "digest", "memory_in"]

SECONDS = 5.0  # between two checkpoints; ROWSOLVE_CHECKPOINT_SECONDS changes it
_MAGIC = "rowsolve checkpoint 1"
_MOST_OF_THE_TIME = 0.05  # that writing may take
_NOT_TO_BE_PICKLED = (TypeError, AttributeError, pickle.PicklingError)  # the state of somebody's own method, perhaps
# What may be in a file: the classes that a solve is made of, and what numpy makes its own of.
_OURS = re.compile(
    r"rowsolve\.(_auto|_check|_drive|_job|_monitor|_solution|_stored|_system|_tail|(clustering|kernels|methods|pavings)\..*)"
)
_OUR_FUNCTIONS = {"_nothing", "go_on"}
_OTHERS = {
    "builtins": {"set", "frozenset", "slice", "range", "complex"},
    "functools": {"partial"},
    "numpy": {"ndarray", "dtype"},
    "numpy._core.multiarray": {"_reconstruct", "scalar"},
    "numpy._core.numeric": {"_frombuffer"},
    "numpy.random._pickle": {"__generator_ctor", "__bit_generator_ctor"},
    **{f"numpy.random._{name.lower()}": {name} for name in ("MT19937", "PCG64", "Philox", "SFC64")},
    "numpy.random._pcg64": {"PCG64", "PCG64DXSM"},
    "numpy.random.bit_generator": {"__pyx_unpickle_SeedSequence", "SeedSequence"},
}


class Checkpoint:
    """A file that is replaced every few seconds by the state of now, whole or not at all.

    Parameters
    ----------
    path : path
    fingerprint : dict
        What the solve is of: numbers and text. A file with another one is refused.
    resume : bool
        Whether an older file is to be gone on from. If there is one and it is not, that is an error, not its end.
    """

    def __init__(self, path: str | os.PathLike[str], fingerprint: dict[str, Any], *, resume: bool) -> None:
        self.path = Path(path)
        if self.path.exists() and not resume:
            raise FileExistsError(
                f"{self.path}: exists already: go on from it with resume=True (--resume), or remove it."
            )
        self._output, self._fingerprint = OutputFile(self.path, ("",)), fingerprint
        self._seconds = float(os.environ.get("ROWSOLVE_CHECKPOINT_SECONDS", SECONDS))
        self._next = time.monotonic() + self._seconds
        self.trouble = ""  # why the last one could not be written, in a sentence

    @property
    def due(self) -> bool:
        """Whether it is time to write one."""
        return time.monotonic() >= self._next

    def save(self, state: Any, known: dict[str, Any], place: Any) -> None:
        """Write `state` but for the `known` objects; `place` can be read before it. A failure is a warning."""
        started = time.monotonic()
        try:
            self._output.write(partial(self._write, state, known, place))
            self.trouble = ""
        except (OSError, *_NOT_TO_BE_PICKLED) as error:
            left = "the last good one is still there" if self.path.exists() else "there is none"
            self.trouble = f"The last checkpoint could not be written, {left}: {error}"
            warnings.warn(self.trouble, RuntimeWarning, stacklevel=2)
        now = time.monotonic()
        self._next = now + max(self._seconds, (now - started) / _MOST_OF_THE_TIME)

    def _write(self, state: Any, known: dict[str, Any], place: Any, file: Any) -> None:
        room = io.BytesIO()
        _Pickler(room, known).dump(state)
        body = room.getbuffer()
        head = {"fingerprint": self._fingerprint, "place": place}
        head |= {"bytes": body.nbytes, "sha256": _checksum(head, body)}
        file.write(f"{_MAGIC} {json.dumps(head)}\n".encode())
        file.write(body)

    def place(self) -> Any:
        """Return the `place` in the file; None if there is no file. Raise if it is of another solve, or damaged."""
        if not self.path.exists():
            return None
        head, _ = _parts_of(self.path)
        others = [key for key, value in self._fingerprint.items() if head["fingerprint"].get(key) != value]
        if others:
            raise ValueError(
                f"{self.path}: is the checkpoint of another solve: {', '.join(others)} "
                f"{'is' if len(others) == 1 else 'are'} not the same. Remove it to begin anew."
            )
        return head["place"]

    def load(self, known: dict[str, Any], trusted: str) -> Any:
        """Return the state, with the `known` objects put in; it may have classes of the module `trusted` in it."""
        return _Unpickler(io.BytesIO(_parts_of(self.path)[1]), known, trusted).load()


def memory_in(path: str | os.PathLike[str]) -> int | None:
    """Return the memory that the solve in a checkpoint keeps to: what is free may have changed since it began."""
    return _parts_of(Path(path))[0]["fingerprint"].get("memory") if Path(path).exists() else None


def _parts_of(path: Path) -> tuple[dict[str, Any], memoryview]:
    """Return the first line and the rest of a file; raise if they are not what was written."""
    whole = path.read_bytes()
    end = whole.find(b"\n")
    try:
        magic, _, text = whole[: max(end, 0)].decode("utf-8").partition(" {")
        head = json.loads("{" + text)
        if magic != _MAGIC or not head.keys() >= {"fingerprint", "place", "bytes", "sha256"}:
            raise ValueError
    except ValueError:
        raise ValueError(f"{path}: is not a checkpoint of rowsolve, or damaged: remove it to begin anew.") from None
    body = memoryview(whole)[end + 1 :]
    if len(body) != head["bytes"] or _checksum(head, body) != head["sha256"]:
        raise ValueError(f"{path}: is damaged (its checksum is wrong): remove it to begin anew.")
    return head, body


def _checksum(head: dict[str, Any], body: memoryview) -> str:
    found = hashlib.sha256(json.dumps([head["fingerprint"], head["place"]]).encode())
    found.update(body)
    return found.hexdigest()


def digest(*values: Any) -> str:
    """Return a checksum of arrays and text."""
    found = hashlib.sha256()
    for value in values:
        if isinstance(value, np.ndarray):
            found.update(f"{value.dtype.str} {value.shape}".encode())
            found.update(np.ascontiguousarray(value).data)
        else:
            found.update(repr(value).encode())
    return found.hexdigest()[:16]


class _Pickler(pickle.Pickler):
    def __init__(self, file: Any, known: dict[str, Any]) -> None:
        super().__init__(file, protocol=5)
        self._names = {id(value): name for name, value in known.items() if value is not None}

    def persistent_id(self, value: Any) -> str | None:
        return self._names.get(id(value))


class _Unpickler(pickle.Unpickler):
    """Knows nothing but our classes and numpy's: a file from elsewhere cannot make it run anything."""

    def __init__(self, file: Any, known: dict[str, Any], trusted: str) -> None:
        super().__init__(file)
        self._known, self._trusted = known, trusted

    def persistent_load(self, name: str) -> Any:
        return self._known[name]

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("builtins", "getattr"):
            return _bound
        if name in _OTHERS.get(module, ()):
            return super().find_class(module, name)
        if (module == self._trusted or _OURS.fullmatch(module)) and "." not in name:  # not by way of what they import
            found = super().find_class(module, name)
            if getattr(found, "__module__", "") == module and (isinstance(found, type) or name in _OUR_FUNCTIONS):
                return found
        raise pickle.UnpicklingError(f"a checkpoint of rowsolve has no {module}.{name} in it")


def _bound(owner: Any, name: str) -> Any:
    """Return a method of one of our objects, which is saved as that object and a name."""
    if not _OURS.fullmatch(type(owner).__module__) or name.startswith("__"):
        raise pickle.UnpicklingError(f"a checkpoint of rowsolve asks for no {name!r} of {type(owner).__name__}")
    return getattr(owner, name)
