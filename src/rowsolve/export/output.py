"""Files that are written atomically and never replace one that is still needed."""

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


class OutputFile:
    """A file or folder to be written later; that it can be written is checked now.

    It is written to the same directory under a temporary name, flushed to the disk, and then renamed, so that an
    incomplete file is never visible and an existing one survives a failure.

    Parameters
    ----------
    path : Path
    endings : tuple of str
        The allowed extensions.
    folder : bool
        Whether it is a folder.
    force : bool
        Whether an existing file may be replaced.
    by : str
        The name of `force` in messages.
    apart_from : mapping of str to paths
        Files that it must differ from even with `force`, see `make_sure_apart`.
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
        self._place = path.resolve()  # the target of a link is replaced, not the link
        self._folder = folder
        self._part: Path | None = None
        try:
            _remove(self._open_temporary_file())  # fails if the directory is not writeable
        except OSError as error:
            raise type(error)(f"{path}: cannot be written: {error.strerror or error}.") from None

    def __enter__(self) -> OutputFile:
        return self

    def __exit__(self, *_: object) -> None:
        if self._part is not None:
            _remove(self._part)

    def _open_temporary_file(self) -> Path:
        prefix, suffix, folder = f".{self.path.name[:40]}.", self.path.suffix, self._place.parent
        if self._folder:
            return Path(tempfile.mkdtemp(suffix, prefix, folder))
        handle, name = tempfile.mkstemp(suffix, prefix, folder)
        os.close(handle)
        return Path(name)

    @contextmanager
    def temporary_file(self) -> Iterator[Path]:
        """Yield the temporary name; rename it to `path` afterwards, or remove it if the block raised."""
        try:
            self._part = self._open_temporary_file()
            yield self._part
            with ThreadPoolExecutor() as threads:  # flushing several files together takes about as long as one
                list(threads.map(_sync, [*self._part.rglob("*"), self._part]))
            mask = os.umask(0)
            os.umask(mask)
            self._part.chmod((0o777 if self._folder else 0o666) & ~mask)  # mkstemp restricts access to the owner
            _replace(self._place, self._part)
            _sync(self._place.parent)  # else the renaming may be lost in a power failure
        except (OSError, RuntimeError) as error:
            why = _reason(error)
            if why is None:
                raise
            raise OSError(f"{self.path}: could not be written: {why}.") from None
        finally:
            if self._part is not None:
                _remove(self._part)

    def write(self, writer: Callable[[IO[bytes]], None]) -> None:
        """Call `writer` with the open temporary file, then rename it to `path`."""
        with self.temporary_file() as part, part.open("wb") as file:
            writer(file)


def make_sure_apart(path: Path, others: Mapping[str, Sequence[Path]]) -> None:
    """Raise ValueError if `path` is the same file as one of the `others`, is inside one of them, or contains one.

    The keys of `others` say what the files are used for, as in ``{"`A` is read from": [Path("A.npy")]}``.
    """
    for what, files in others.items():
        for file in files:
            if _is_same(path, file):
                link = "" if path == file else f" ({file})"
                raise ValueError(f"{path}: is the file that {what}{link}: choose another name.")
            if _is_inside(path, file):
                raise ValueError(f"{path}: is inside {file}, which {what}: choose another place.")
            if _is_inside(file, path):
                raise ValueError(f"{path}: contains {file}, which {what}: choose another name.")


def _is_same(one: Path, other: Path) -> bool:
    """Return whether both paths lead to the same file, which need not exist yet."""
    if one.exists() and other.exists():
        return one.samefile(other)
    one, other = one.resolve(), other.resolve()
    return one == other or (_is_same_folder(one.parent, other.parent) and _is_same_name(one, other))


def _is_same_folder(one: Path, other: Path) -> bool:
    return one.is_dir() and other.is_dir() and one.samefile(other)


def _is_same_name(one: Path, other: Path) -> bool:
    """Return whether the file system treats the file names of two paths as equal: it may ignore case."""
    names = [unicodedata.normalize("NFKC", path.name).casefold() for path in (one, other)]
    if names[0] != names[1] or one.name == other.name:
        return one.name == other.name
    with tempfile.TemporaryDirectory(prefix=".rowsolve.", dir=one.parent) as folder:
        Path(folder, one.name).touch()
        return Path(folder, other.name).exists()


def _is_inside(path: Path, folder: Path) -> bool:
    return folder.is_dir() and any(_is_same_folder(parent, folder) for parent in path.resolve().parents)


def _reason(error: OSError | RuntimeError) -> str | None:
    """Return the error of the operating system, which libraries wrap in their own messages; None if there is none."""
    buried = re.search(r"errno\W*(\d+)", str(error))
    if buried:
        return os.strerror(int(buried[1]))
    return (error.strerror or str(error)) if isinstance(error, OSError) else None


def _sync(path: Path) -> None:
    if path.is_dir() and os.name == "nt":  # Windows cannot flush a directory
        return
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _replace(place: Path, part: Path) -> None:
    """Rename `part` to `place`, which may exist."""
    if not place.is_dir():
        part.replace(place)
        return
    # A folder that is not empty cannot be replaced atomically: the older one is moved aside for a moment.
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
    """Write `x` in the format given by the extension of the file."""
    if output.path.suffix.lower() == ".npy":
        output.write(lambda file: np.save(file, x))
    else:
        output.write(lambda file: np.savetxt(file, x, fmt="%.17g", delimiter=","))
