"""Matrices and vectors from files. A .npy file is mapped, not read."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["load_matrix", "load_vector"]

_SPARSE_KEYS = {"format", "shape", "data"}


def load_matrix(path: str | PathLike[str]) -> Any:
    """Return the matrix in `path`: .npy, .npz (scipy sparse, or one plain array), .mtx, .mtx.gz or .csv."""
    return _load(path)


def load_vector(path: str | PathLike[str]) -> np.ndarray:
    """Return the vector in `path`, in any of the same formats; a matrix of one row or column will do."""
    found = _load(path)
    array = found.toarray() if hasattr(found, "toarray") else np.asarray(found)
    return array.reshape(-1) if array.ndim == 2 and 1 in array.shape else array


def _load(path: str | PathLike[str]) -> Any:
    path = Path(path)
    name = path.name.lower()
    ending = next((ending for ending in _READERS if name.endswith(ending)), None)
    if ending is None:
        raise ValueError(f"{path}: expected a file ending in {', '.join(_READERS)}; convert it, or load it in Python.")
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such file.")
    if path.is_dir():
        raise IsADirectoryError(f"{path}: is a folder, expected a {ending} file.")
    if path.stat().st_size == 0:
        raise ValueError(f"{path}: the file is empty.")
    try:
        return _READERS[ending](path)
    except PermissionError:
        raise PermissionError(f"{path}: cannot be read: permission denied.") from None
    except _Told:
        raise
    except MemoryError:
        raise
    except Exception as error:  # whatever a reader meets in a file that is not what its name says
        raise ValueError(_what_is_wrong(path, ending, error)) from error


class _Told(ValueError):
    """An error whose sentence is already clear."""


def _what_is_wrong(path: Path, ending: str, error: Exception) -> str:
    text = " ".join(str(error).split())
    if any(sign in text for sign in ("allow_pickle", "Object arrays", "Python objects")):
        return f"{path}: holds pickled Python objects, which can run code and are not read; save plain numbers instead."
    return f"{path}: is not a complete {ending} file (truncated, or another format): {text}"


def _read_npy(path: Path) -> np.ndarray:
    # open_memmap, not np.load: the latter would take a zip archive or a pickle under this name.
    with path.open("rb") as file:
        if file.read(6) != np.lib.format.MAGIC_PREFIX:
            raise ValueError("it does not begin like a .npy file")
    return np.lib.format.open_memmap(path, mode="r")


def _read_npz(path: Path) -> Any:
    # Opened here, because np.load leaves a broken archive open.
    with path.open("rb") as file:
        if not zipfile.is_zipfile(file):
            raise ValueError("it is no zip archive")
        file.seek(0)
        archive = np.load(file, allow_pickle=False)
        if set(archive.files) >= _SPARSE_KEYS:
            from scipy import sparse

            file.seek(0)
            return sparse.load_npz(file)
        if not archive.files:
            raise _Told(f"{path}: holds no array.")
        if len(archive.files) != 1:
            raise _Told(
                f"{path}: expected one array or a scipy sparse matrix, got the arrays {', '.join(archive.files)}; "
                "save the one wanted on its own."
            )
        return archive[archive.files[0]]


def _read_mtx(path: Path) -> Any:
    from scipy import io, sparse

    found = io.mmread(path)
    return sparse.csr_array(found) if sparse.issparse(found) else found


def _read_csv(path: Path) -> np.ndarray:
    """Read numbers separated by commas; a first line without a single number holds names."""
    with path.open(encoding="utf-8-sig") as lines:  # spreadsheets begin a file with a mark
        first = next((line for line in lines if line.strip()), "")
        has_names = not any(map(_is_number, first.split(",")))
        if has_names and not any(line.strip() for line in lines):
            raise _Told(f"{path}: holds no numbers.")
    with path.open(encoding="utf-8-sig") as lines:
        if has_names:
            next(line for line in lines if line.strip())
        try:
            return np.loadtxt(lines, delimiter=",", ndmin=2, comments=None)
        except ValueError as error:
            raise _Told(_odd_line(path, has_names) or f"{path}: {error}") from None


def _odd_line(path: Path, has_names: bool) -> str:
    """Say what is wrong with the first line that is not as it should be."""
    n_columns = 0
    with path.open(encoding="utf-8-sig") as lines:
        for number, line in [(n, line) for n, line in enumerate(lines, 1) if line.strip()][has_names:]:
            fields = line.split(",")
            place = f"{path}, line {number}: expected numbers separated by commas"
            wrong = next((field.strip() for field in fields if not _is_number(field)), None)
            if wrong is not None:
                hint = " Replace semicolons and tabs by commas." if ";" in line or "\t" in line else ""
                return f"{place}, got {wrong!r}.{hint}"
            if n_columns and len(fields) != n_columns:
                return f"{place}, {n_columns} of them as in the lines before, got {len(fields)}."
            n_columns = len(fields)
    return ""


def _is_number(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True


_READERS: dict[str, Callable[[Path], Any]] = {
    ".npy": _read_npy,
    ".npz": _read_npz,
    ".mtx": _read_mtx,
    ".mtx.gz": _read_mtx,
    ".csv": _read_csv,
}
