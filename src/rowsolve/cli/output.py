"""Files that are either written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import IO

import numpy as np

__all__ = ["OutputFile", "write_vector"]


class OutputFile:
    """A file to be written later: whether that can be done is found out now.

    It is written beside its place under another name, flushed to the disk, and then renamed, so that no
    half-written file is ever seen and an older one survives a failure.
    """

    def __init__(self, path: Path, endings: tuple[str, ...]) -> None:
        if path.suffix.lower() not in endings:
            raise ValueError(f"{path}: expected a file name ending in {' or '.join(endings)}.")
        if path.is_dir():
            raise IsADirectoryError(f"{path}: is a folder, expected the name of a file.")
        if not path.parent.is_dir():
            raise FileNotFoundError(f"{path}: cannot be written: there is no folder {path.parent}.")
        if path.exists() and not os.access(path, os.W_OK):
            raise PermissionError(f"{path}: cannot be written: permission denied.")
        self.path = path
        self._place = path.resolve()  # write through a link instead of replacing it
        self._part: Path | None = None
        try:
            self._open_beside().unlink()  # only to see whether it can be done
        except OSError as error:
            raise type(error)(f"{path}: cannot be written: {error.strerror or error}.") from None

    def __enter__(self) -> OutputFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._part is not None:
            self._part.unlink(missing_ok=True)

    def _open_beside(self) -> Path:
        prefix, suffix = f".{self.path.name[:40]}.", self.path.suffix
        handle, name = tempfile.mkstemp(prefix=prefix, suffix=suffix, dir=self._place.parent)
        os.close(handle)
        return Path(name)

    def write(self, writer: Callable[[IO[bytes]], None]) -> None:
        """Let `writer` fill the file, then put it in its place."""
        try:
            self._part = self._open_beside()
            with self._part.open("wb") as file:
                writer(file)
                file.flush()
                os.fsync(file.fileno())
            mask = os.umask(0)
            os.umask(mask)
            self._part.chmod(0o666 & ~mask)  # mkstemp makes files that only their owner can read
            self._part.replace(self._place)
        except OSError as error:
            raise OSError(f"{self.path}: could not be written: {error.strerror or error}.") from None


def write_vector(output: OutputFile, x: np.ndarray) -> None:
    """Write `x` in the format that the ending of the file's name stands for."""
    if output.path.suffix.lower() == ".npy":
        output.write(lambda file: np.save(file, x))
    else:
        output.write(lambda file: np.savetxt(file, x, fmt="%.17g", delimiter=","))
