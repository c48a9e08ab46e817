"""Files that are either written whole or not at all, and never in the place of one that is still needed."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import numpy as np

__all__ = ["OutputFile", "make_sure_apart", "write_vector"]


_SYNCS_AT_ONCE = 16  # the disk takes many files together in about the time of one


class OutputFile:
    """A file, or a folder, to be written later: whether that can be done is found out now.

    It is written beside its place under another name, flushed to the disk, and then renamed, so that no
    half-written file is ever seen and an older one survives a failure.

    Parameters
    ----------
    path : Path
    endings : tuple of str
        Those that its name may have.
    folder : bool
        Whether it is a folder.
    force : bool
        Whether an older one may be replaced.
    by : str
        What messages call `force`.
    apart_from : mapping of str to paths
        Files that it must not be, whatever `force` says: see `make_sure_apart`.
    """

    def __init__(
        self, path: Path, endings: tuple[str, ...], *, folder: bool = False, force: bool = False, by: str = "--force",
        apart_from: Mapping[str, Sequence[Path]] | None = None,
    ) -> None:  # fmt: skip
        if not path.name.lower().endswith(endings):
            raise ValueError(f"{path}: expected a file name ending in {' or '.join(endings)}.")
        if path.is_dir() and not folder:
            raise IsADirectoryError(f"{path}: is a folder, expected the name of a file.")
        if not path.parent.is_dir():
            raise FileNotFoundError(f"{path}: cannot be written: there is no folder {path.parent}.")
        make_sure_apart(path, apart_from or {})
        if path.exists() and not force:
            raise FileExistsError(f"{path}: exists already: choose another name, or {by} to replace it.")
        if path.exists() and not os.access(path, os.W_OK):
            raise PermissionError(f"{path}: cannot be written: permission denied.")
        self.path = path
        self._place = path.resolve()  # write through a link instead of replacing it
        self._folder = folder
        self._part: Path | None = None
        try:
            _remove(self._open_beside())  # only to see whether it can be done
        except OSError as error:
            raise type(error)(f"{path}: cannot be written: {error.strerror or error}.") from None

    def __enter__(self) -> OutputFile:
        return self

    def __exit__(self, *_: object) -> None:
        if self._part is not None:
            _remove(self._part)

    def _open_beside(self) -> Path:
        prefix, suffix, folder = f".{self.path.name[:40]}.", self.path.suffix, self._place.parent
        if self._folder:
            return Path(tempfile.mkdtemp(suffix, prefix, folder))
        handle, name = tempfile.mkstemp(suffix, prefix, folder)
        os.close(handle)
        return Path(name)

    @contextmanager
    def beside(self) -> Iterator[Path]:
        """Give the name to write to; after the block, put it in its place, or remove it if the block failed."""
        try:
            self._part = self._open_beside()
            yield self._part
            with ThreadPoolExecutor(_SYNCS_AT_ONCE) as threads:
                list(threads.map(_sync, [*self._part.rglob("*"), self._part]))
            mask = os.umask(0)
            os.umask(mask)
            self._part.chmod((0o777 if self._folder else 0o666) & ~mask)  # mkstemp makes them for their owner only
            _replace(self._place, self._part)
            _sync(self._place.parent)  # without it the old name may be back after a power cut
        except (OSError, RuntimeError) as error:
            why = _reason(error)
            if why is None:
                raise
            raise OSError(f"{self.path}: could not be written: {why}.") from None
        finally:
            if self._part is not None:
                _remove(self._part)

    def write(self, writer: Callable[[IO[bytes]], None]) -> None:
        """Let `writer` fill the file, then put it in its place."""
        with self.beside() as part, part.open("wb") as file:
            writer(file)


def make_sure_apart(path: Path, others: Mapping[str, Sequence[Path]]) -> None:
    """Raise if `path` is one of the `others` by any name, or inside or around one that is a folder.

    They are listed by what they are there for, as in ``{"`A` is read from": [Path("A.npy")]}``.
    """
    for what, files in others.items():
        for file in files:
            if _is_same(path, file):
                link = "" if path == file else f" ({file})"
                raise ValueError(f"{path}: is the file that {what}{link}: choose another name.")
            if _is_inside(path, file):
                raise ValueError(f"{path}: is inside {file}, which {what}: choose another place.")
            if _is_inside(file, path):
                raise ValueError(f"{path}: has {file} in it, which {what}: choose another name.")


def _is_same(one: Path, other: Path) -> bool:
    """Tell whether both names lead to one file, which need not be there yet."""
    if one.exists() and other.exists():
        return one.samefile(other)
    one, other = one.resolve(), other.resolve()
    return one == other or (_is_same_folder(one.parent, other.parent) and _is_same_name(one, other))


def _is_same_folder(one: Path, other: Path) -> bool:
    return one.is_dir() and other.is_dir() and one.samefile(other)


def _is_same_name(one: Path, other: Path) -> bool:
    """Tell whether the file system takes the last parts of two paths for the same name: it may ignore case."""
    names = [unicodedata.normalize("NFKC", path.name).casefold() for path in (one, other)]
    if names[0] != names[1] or one.name == other.name:
        return one.name == other.name
    with tempfile.TemporaryDirectory(prefix=".rowsolve.", dir=one.parent) as folder:
        Path(folder, one.name).touch()
        return Path(folder, other.name).exists()


def _is_inside(path: Path, folder: Path) -> bool:
    return folder.is_dir() and any(_is_same_folder(parent, folder) for parent in path.resolve().parents)


def _reason(error: OSError | RuntimeError) -> str | None:
    """Return what the system says, which libraries bury in words of their own; None if it is about something else."""
    buried = re.search(r"errno\W*(\d+)", str(error))
    if buried:
        return os.strerror(int(buried[1]))
    return (error.strerror or str(error)) if isinstance(error, OSError) else None


def _sync(path: Path) -> None:
    if path.is_dir() and os.name == "nt":  # Windows knows no such thing
        return
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _replace(place: Path, part: Path) -> None:
    """Put `part` in its place, where an older one may be."""
    if not place.is_dir():
        part.replace(place)
        return
    # No call replaces a folder that is not empty: for a moment the older one stands aside.
    aside = Path(tempfile.mkdtemp(prefix=f".{place.name[:40]}.old.", dir=place.parent))
    older = place.rename(aside / place.name)
    try:
        part.rename(place)
    except BaseException:
        older.rename(place)
        aside.rmdir()
        raise
    shutil.rmtree(aside, ignore_errors=True)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def write_vector(output: OutputFile, x: np.ndarray) -> None:
    """Write `x` in the format that the ending of the file's name stands for."""
    if output.path.suffix.lower() == ".npy":
        output.write(lambda file: np.save(file, x))
    else:
        output.write(lambda file: np.savetxt(file, x, fmt="%.17g", delimiter=","))
