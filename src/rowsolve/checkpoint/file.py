"""The checkpoint file, from which a solve can be resumed as if it had not been interrupted.

The file begins with a line of JSON: the fingerprint, which identifies the data and the arguments of the solve, and a
checksum of the file. The state follows as plain data (see `rowsolve.checkpoint.state`), in an archive of arrays and
text, none of which is ever executed.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np

from rowsolve.checkpoint.archive import ArchiveError, read_archive, write_archive
from rowsolve.checkpoint.state import StateError
from rowsolve.export.output import OutputFile
from rowsolve.policy.thresholds import CHECKPOINT_SECONDS, CHECKPOINT_SHARE

__all__ = ["Checkpoint", "digest", "memory_in"]

_MAGIC, _VERSION = "rowsolve checkpoint", 2


class Checkpoint:
    """A file to which the current state is written every few seconds, atomically.

    Parameters
    ----------
    path : path
    fingerprint : dict
        Numbers and text that identify the data and the arguments. A file with another fingerprint raises ValueError.
    resume : bool
        Whether to resume from an existing file. If False, an existing file raises FileExistsError and is kept.
    """

    def __init__(self, path: str | os.PathLike[str], fingerprint: dict[str, Any], *, resume: bool) -> None:
        self.path = Path(path)
        if self.path.exists() and not resume:
            raise FileExistsError(
                f"{self.path}: exists already. Try resume=True (--resume) to resume from it, or remove it."
            )
        self._output, self._fingerprint = OutputFile(self.path, ("",), force=True), fingerprint
        self._seconds = float(os.environ.get("ROWSOLVE_CHECKPOINT_SECONDS", CHECKPOINT_SECONDS))
        self._next = time.monotonic() + self._seconds
        self.trouble = ""  # the message, if the last one could not be written

    @property
    def due(self) -> bool:
        """Whether it is time to write a checkpoint."""
        return time.monotonic() >= self._next

    def save(self, state: Callable[[], Any]) -> None:
        """Write what `state` returns. Warn if that fails, or if part of the state cannot be saved."""
        started = time.monotonic()
        try:
            self._output.write(partial(self._write, state))
            self.trouble = ""
        except (OSError, TypeError) as error:
            left = "the previous one is kept" if self.path.exists() else "there is no previous one"
            self.trouble = f"The last checkpoint could not be written, {left}: {error}"
            warnings.warn(self.trouble, RuntimeWarning, stacklevel=2)
        now = time.monotonic()
        pause = max(self._seconds, (now - started) / CHECKPOINT_SHARE)
        self._next = now + (pause if self._seconds else 0.0)  # 0 seconds: at every opportunity

    def _write(self, state: Callable[[], Any], file: IO[bytes]) -> None:
        body = write_archive(state())
        head = {"fingerprint": self._fingerprint, "bytes": body.nbytes}
        checksum = _begun(head)
        checksum.update(body)
        head["sha256"] = checksum.hexdigest()
        file.write(f"{_MAGIC} {_VERSION} {json.dumps(head)}\n".encode())
        file.write(body)

    def load(self) -> Any:
        """Return the state in the file; None if there is no file.

        Raises
        ------
        ValueError
            If the file is damaged, or the checkpoint of another solve.
        """
        if not self.path.exists():
            return None
        with _opened(self.path) as (head, file):
            others = [key for key, value in self._fingerprint.items() if head["fingerprint"].get(key) != value]
            if others:
                raise ValueError(
                    f"{self.path}: is the checkpoint of another solve, with different {', '.join(others)}. "
                    "Remove it to start over."
                )
            with self.looked_at():
                return read_archive(file)

    @contextmanager
    def looked_at(self) -> Iterator[None]:
        """Turn errors in the state that was read into a ValueError that names the file."""
        try:
            yield
        except (ArchiveError, StateError) as error:
            raise _damaged(self.path, error) from None
        except ArithmeticError as error:
            if not _is_ours(error):
                raise
            raise _damaged(self.path, f"its numbers are invalid: {error}") from error


def memory_in(path: str | os.PathLike[str]) -> int | None:
    """Return the memory limit of the solve in a checkpoint, as the free memory may have changed since it started."""
    if not Path(path).exists():
        return None
    with _opened(Path(path)) as (head, _):
        memory = head["fingerprint"].get("memory")
        return memory if isinstance(memory, int) else None


@contextmanager
def _opened(path: Path) -> Iterator[tuple[dict[str, Any], IO[bytes]]]:
    """Yield the first line and the open file; raise ValueError if they are damaged."""
    with path.open("rb") as file:
        head = _head_of(path, file.readline())
        start = file.tell()
        if file.seek(0, io.SEEK_END) - start != head["bytes"]:
            raise _damaged(path, "its length is wrong")
        file.seek(start)
        if hashlib.file_digest(file, partial(_begun, head)).hexdigest() != head["sha256"]:
            raise _damaged(path, "its checksum is wrong")
        yield head, file


def _head_of(path: Path, line: bytes) -> dict[str, Any]:
    """Return the JSON object in the first line of a file."""
    found = re.fullmatch(rb"%b (\d{1,9}) (\{.*\})\n" % _MAGIC.encode(), line)
    if found is None:
        raise _damaged(path, "its first line is invalid")
    if int(found[1]) != _VERSION:
        which = "an older" if int(found[1]) < _VERSION else "a newer"
        raise ValueError(f"{path}: is a checkpoint of {which} version of rowsolve. Remove it to start over.")
    try:
        head = json.loads(found[2])
    except (ValueError, RecursionError):
        raise _damaged(path, "its first line is invalid") from None
    if head.keys() != {"fingerprint", "bytes", "sha256"} or not isinstance(head["fingerprint"], dict):
        raise _damaged(path, "its first line is invalid")
    return head


def _damaged(path: Path, why: Any) -> ValueError:
    return ValueError(f"{path}: is damaged or not a checkpoint of rowsolve ({why}). Remove it to start over.")


def _is_ours(error: BaseException) -> bool:
    """Return whether an error was raised in rowsolve, and not in a callback or a method of the caller."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and trace.tb_frame.f_globals.get("__name__", "").startswith("rowsolve.")


def _begun(head: dict[str, Any]) -> Any:
    """Return the checksum of a file so far, after its first line."""
    return hashlib.sha256(json.dumps([head["fingerprint"], head["bytes"]]).encode())


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
