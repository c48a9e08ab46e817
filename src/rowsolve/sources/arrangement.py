"""The blocks (with one row of each cluster) and centroid equations that `convert --cluster` stores with the rows."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

__all__ = ["BESIDE", "Arrangement", "files_beside", "place_beside"]

BESIDE = ("starts", "centroids", "targets")  # names of the arrays that are read


class Arrangement(NamedTuple):
    """Rows in blocks with one row of each cluster.

    Attributes
    ----------
    starts : ndarray
        Block ``t`` consists of rows ``starts[t]`` to ``starts[t + 1]``.
    centroids : ndarray of shape (k, p)
    targets : ndarray of shape (k,) or None
        ``<centroids[l], x> = targets[l]`` holds for the solution of a consistent system. None if they belong to
        another b.
    """

    starts: np.ndarray
    centroids: np.ndarray
    targets: np.ndarray | None

    @property
    def n_clusters(self) -> int:
        """The number of clusters."""
        return len(self.centroids)

    def within(self, start: int, stop: int) -> Arrangement:
        """Return the arrangement of rows `start` to `stop`; the first and the last block may be incomplete."""
        starts = np.unique(np.clip(self.starts, start, min(stop, int(self.starts[-1]))))
        return self._replace(starts=starts[starts >= start] - start)


def place_beside(place: str, name: str) -> str:
    """Return the place of the array `name` that belongs to the rows at `place`: in the same file or next to it."""
    file, colon, _ = place.partition(":/")
    if colon:
        return f"{file}:/{name}"
    path = Path(file)
    for ending in (".mtx.gz", path.suffix):
        if path.name.endswith(ending):
            return str(path.with_name(f"{path.name[: -len(ending)]}.{name}.npy"))
    return f"{file}.{name}.npy"


def files_beside(files: Iterable[Path]) -> tuple[Path, ...]:
    """Return the existing files that `read_arrangement` reads in addition to the `files` of rows."""
    places = (Path(place_beside(str(file), name)) for file in files for name in (*BESIDE, "b"))
    return tuple(place for place in places if place.exists())


def read_arrangement(place: str, shape: tuple[int, int], b: np.ndarray, load: Any) -> Arrangement | None:
    """Return the arrangement that is stored with the rows at `place`; None if there is none, or if it does not fit.

    The targets belong to a right-hand side: they are used only if `b` equals the one stored with the matrix.
    """
    found: dict[str, Any] = {}
    for name in (*BESIDE, "b"):
        with suppress(ValueError, OSError, ImportError):
            found[name] = np.asarray(load(place_beside(place, name)))
    if not {"starts", "centroids"} <= found.keys() or np.shape(found["centroids"])[1:] != shape[1:]:
        return None
    starts = found["starts"].astype(np.int64)
    if starts.ndim != 1 or starts[0] != 0 or starts[-1] > shape[0] or (np.diff(starts) <= 0).any():
        return None
    same = "targets" in found and "b" in found and np.array_equal(found["b"], b)
    return Arrangement(starts, found["centroids"], found["targets"] if same else None)
