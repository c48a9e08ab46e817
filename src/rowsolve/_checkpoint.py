"""The state of a solve in a file, from which it can go on as if nothing had happened.

What is saved is the object that runs the solve, with all it refers to, except what is there anyway: the rows, b, and
the callback. These are left out by name and put in again. The file begins with a line of JSON: what the solve is of
(its fingerprint), and a checksum of the rest.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import pickle
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from rowsolve._output import OutputFile

__all__ = ["Checkpoint", "digest"]

SECONDS = 5.0  # between two checkpoints; ROWSOLVE_CHECKPOINT_SECONDS changes it
_MAGIC = "rowsolve checkpoint 1"
_MOST_OF_THE_TIME = 0.05  # that writing may take
_BUILTINS = {"set", "frozenset", "slice", "range", "complex", "getattr"}
_OURS = ("rowsolve.", "numpy.", "numpy", "collections", "functools")


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
        room = io.BytesIO()
        _Pickler(room, known).dump(state)
        body = room.getbuffer()
        head = {
            "fingerprint": self._fingerprint, "place": place, "bytes": body.nbytes,
            "sha256": hashlib.sha256(body).hexdigest(),
        }  # fmt: skip
        first = f"{_MAGIC} {json.dumps(head)}\n".encode()

        def write(file: Any) -> None:
            file.write(first)
            file.write(body)

        try:
            self._output.write(write)
            self.trouble = ""
        except OSError as error:
            left = "the last good one is still there" if self.path.exists() else "there is none"
            self.trouble = f"The last checkpoint could not be written, {left}: {error}"
            warnings.warn(self.trouble, RuntimeWarning, stacklevel=2)
        now = time.monotonic()
        self._next = now + max(self._seconds, (now - started) / _MOST_OF_THE_TIME)

    def place(self) -> Any:
        """Return the `place` in the file; None if there is no file. Raise if it is of another solve, or damaged."""
        if not self.path.exists():
            return None
        head, body = self._parts()
        others = [key for key, value in self._fingerprint.items() if head["fingerprint"].get(key) != value]
        if others:
            raise ValueError(
                f"{self.path}: is the checkpoint of another solve: {', '.join(others)} "
                f"{'is' if len(others) == 1 else 'are'} not the same. Remove it to begin anew."
            )
        if len(body) != head["bytes"] or hashlib.sha256(body).hexdigest() != head["sha256"]:
            raise ValueError(f"{self.path}: is damaged (its checksum is wrong): remove it to begin anew.")
        return head["place"]

    def load(self, known: dict[str, Any]) -> Any:
        """Return the state, with the `known` objects put in."""
        return _Unpickler(io.BytesIO(self._parts()[1]), known).load()

    def _parts(self) -> tuple[dict[str, Any], bytes]:
        first, _, body = self.path.read_bytes().partition(b"\n")
        try:
            magic, _, text = first.decode("utf-8").partition(" {")
            head = json.loads("{" + text)
            if magic != _MAGIC or not head.keys() >= {"fingerprint", "place", "bytes", "sha256"}:
                raise ValueError
        except ValueError:
            raise ValueError(f"{self.path}: is not a checkpoint of rowsolve, or damaged.") from None
        return head, body


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

    def __init__(self, file: Any, known: dict[str, Any]) -> None:
        super().__init__(file)
        self._known = known

    def persistent_load(self, name: str) -> Any:
        return self._known[name]

    def find_class(self, module: str, name: str) -> Any:
        if module.startswith(_OURS) or (module == "builtins" and name in _BUILTINS):
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"a checkpoint of rowsolve has no {module}.{name} in it")
