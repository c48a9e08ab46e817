"""Conversion of a matrix from one format to another, a few rows at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from rowsolve import _validate
from rowsolve.export.arrange import ARRAYS, arrange
from rowsolve.export.output import OutputFile
from rowsolve.methods.base import positive_integer
from rowsolve.policy.thresholds import BYTES_TO_ARRANGE, COPIES
from rowsolve.sources import Store, open_system
from rowsolve.sources.arrays import ArrayStore
from rowsolve.sources.files import ending_of, files_of, opened, split_place
from rowsolve.sources.finite import NotFinite, column_words, first_not_finite
from rowsolve.sources.groups import OURS, is_zarr
from rowsolve.sources.store import slices
from rowsolve.sources.writers import WRITERS, Layout, NpyWriter, Writer

__all__ = ["convert"]

_COPIES = COPIES + 1  # of the rows that are read at once: while they are read, and as converted


def convert(
    source: Any,
    target: str | PathLike[str],
    *,
    rhs: Any = None,
    memory: int | str = "256MB",
    chunk: int | None = None,
    dtype: str | None = None,
    cluster: int | None = None,
    rng: Any = None,
    force: bool = False,
    allow_nan: bool = False,
    progress: Callable[[int, int], None] = lambda _done, _all: None,
) -> tuple[int, int]:
    """Convert a matrix to another format, without reading all of it into memory.

    `target` is written under a temporary name, flushed to the disk and renamed at the end: if the conversion fails,
    there is no incomplete file, and an existing one is unchanged.

    Parameters
    ----------
    source : path, array, scipy sparse matrix, callable or Store
        Anything that `rowsolve.solve` accepts as A, of any size. A sparse matrix stays sparse in HDF5, Zarr, .npz and
        .mtx.
    target : path
        A file ending in .npy, .npz, .mtx, .mtx.gz, .csv, .h5, .hdf5, .zarr or .parquet; ``rows.h5:/name`` names the
        dataset.
    rhs : path or array_like of shape (n,) or (n, k), optional
        The right-hand side to store with the matrix: as dataset ``b`` in HDF5 and Zarr, as columns of .parquet and
        .csv, else in a separate file (``rows.b.npy`` for ``rows.npy``). A callable `source` provides it itself.
    memory : int or str
        Memory limit for the rows, in bytes or as in ``"1GB"``. The formats .npz and .mtx are read and written in one
        piece.
    chunk : int, optional
        Rows per chunk in HDF5 and Zarr, and per row group in Parquet; by default about 1 MB (8 MB in Parquet).
    dtype : {"float32", "float64"}, optional
        Data type of the matrix in `target`. By default float32 is kept, and everything else becomes float64.
    cluster : int, optional
        Number of clusters. If given, the rows are clustered by direction, in one pass, and written in blocks with one
        row of each cluster, so that each block of method ``"cluster-block"`` is contiguous. Stored with the matrix, as
        datasets or in separate files (``rows.labels.npy``), are ``rows``, the original row numbers; ``labels``;
        ``starts`` of the blocks; and the equations ``centroids`` and ``targets``. Reads `source` up to ``cluster + 1``
        times, and needs 64 bytes of memory per row.
    rng : int or numpy.random.Generator, optional
        Seed or generator for the clustering.
    force : bool
        Whether to replace an existing `target` and the files stored with it. A file that `source` or `rhs` is read
        from is never replaced.
    allow_nan : bool
        Whether to write NaN and infinity unchanged, and missing values of a table (nulls in Parquet, empty cells in
        CSV) as NaN. If False, they raise ValueError, with the file, row and column.
    progress : callable, optional
        Called with the number of rows done and the total (rows count twice with `cluster`).

    Returns
    -------
    (int, int)
        The numbers of rows and columns written.
    """
    limit = _validate.memory_of(memory)
    if rng is not None and cluster is None:
        raise ValueError("`rng` (--seed) is used for clustering only, which requires `cluster`.")
    with ExitStack() as stack:
        rows, b = _open(source, rhs, stack, allow_nan=allow_nan)
        path, place = split_place(target)
        layout = _layout(rows, b, path, place, chunk, dtype, limit)
        if cluster is not None:
            limit = _without_arrangement(rows, cluster, limit)
        step = _rows_at_once(rows, path, layout, limit)
        read = {"`source` is read from": (*files_of(source), *files_of(rows)), "`rhs` is read from": files_of(rhs)}
        names = _separate_names(b, path, clustered=cluster is not None)
        with _target(_outputs(path, names, read, force=force), layout) as out:
            take = _Reader(rows, b, layout.dtype, allow_nan=allow_nan)
            if cluster is None:
                for start, stop in slices(rows.shape[0], step):
                    out.add(*take(range(start, stop)))
                    progress(stop, rows.shape[0])
            else:
                _write_clustered(rows, b, cluster, _validate.generator_of(rng), step, take, out, progress)
        return rows.shape


def _write_clustered(
    rows: Store, b: Store | None, n_clusters: int, rng: np.random.Generator, step: int, take: _Reader, out: _Target,
    progress: Callable[[int, int], None],
) -> None:  # fmt: skip
    """Write the rows in blocks with one row of each cluster, and the arrays that describe the clusters."""
    n_rows = rows.shape[0]
    found = arrange(rows, b, n_clusters, rng, step, lambda done: progress(done, 2 * n_rows))
    for start, stop in slices(rows.shape[0], step):
        out.add(*take(found.rows[start:stop]))
        progress(n_rows + stop, 2 * n_rows)
    for name, values in found.arrays().items():
        out.add_array(name, values)


def _open(source: Any, rhs: Any, stack: ExitStack, *, allow_nan: bool) -> tuple[Store, Store | None]:
    """Open the rows and the right-hand side, which may be provided by `source` if `rhs` is None."""
    if rhs is None:
        rows = stack.enter_context(opened(source, allow_nan=allow_nan))
        return rows, None if rows.rhs is None else ArrayStore(f"b of {rows.name}", rows.rhs)
    rows, b = open_system(source, rhs, allow_nan=allow_nan)
    for store in (rows, b):
        if store is not source and store is not rhs:  # stores that the caller has opened are left open
            stack.callback(store.close)
    if b.sparse:  # it was in memory before, or takes no more than the indices of its rows
        b = ArrayStore(b.name, b.read(0, b.shape[0]).toarray())
    if b.shape[0] == 1 and b.shape[1] == rows.shape[0]:  # a matrix of one row, as in .csv files
        b = ArrayStore(b.name, b.read(0, 1)[0])
    if b.shape[0] != rows.shape[0]:
        raise ValueError(f"{b.name}: must have one entry per row of A: expected {rows.shape[0]}, got {b.shape[0]}.")
    return rows, b


def _layout(
    rows: Store, b: Store | None, path: Path, place: str, chunk: int | None, dtype: str | None, limit: float
) -> Layout:
    """Return how the rows will be stored."""
    writer = WRITERS[ending_of(path)]
    if place and writer.extra_arrays != "datasets":
        raise ValueError(f"{path}: holds a single matrix: remove `:{place}`.")
    if dtype not in (None, "float32", "float64"):
        raise ValueError(f"`dtype` must be 'float32' or 'float64', got {dtype!r}.")
    kept = np.dtype(dtype or rows.dtype)
    sparse = rows.sparse and writer.takes_sparse
    if chunk is None:
        n_bytes = rows.footprint.bytes_per_row if sparse else rows.shape[1] * kept.itemsize
        available = min(writer.chunk_bytes, (limit - rows.footprint.least_bytes) / _COPIES)
        chunk = max(1, int(available / max(1.0, n_bytes)))
    else:
        _check_chunk(chunk, path, sparse=sparse)
    n_rhs = 0 if b is None else b.shape[1]
    names = ("b",) if n_rhs == 1 else tuple(f"b{i}" for i in range(n_rhs))
    return Layout(
        shape=rows.shape[: rows.ndim], dtype=kept, sparse=sparse, chunk=min(chunk, rows.shape[0]), columns=rows.columns,
        rhs=names, place=place.strip("/") or OURS,
    )  # fmt: skip


def _check_chunk(chunk: int, path: Path, *, sparse: bool) -> None:
    if not WRITERS[ending_of(path)].chunk_bytes or sparse:
        raise ValueError(f"{path}: `chunk` does not apply to {'sparse matrices' if sparse else 'this format'}.")
    positive_integer("chunk", chunk)


def _without_arrangement(rows: Store, n_clusters: int, limit: float) -> float:
    """Return the memory that remains for rows besides their order and the centroids."""
    positive_integer("cluster", n_clusters)
    needed = BYTES_TO_ARRANGE * rows.shape[0] + 8 * n_clusters * rows.shape[1]
    if 2 * needed > limit:
        raise ValueError(
            f"{limit / 1e6:.3g} MB of memory are not enough: the order of {rows.shape[0]:,} rows and the centroids "
            f"take {needed / 1e6:,.3g} MB. Allow {np.ceil(2 * needed / 1e6):,.0f} MB."
        )
    return limit - needed


def _rows_at_once(rows: Store, path: Path, layout: Layout, limit: float) -> int:
    """Return how many rows to read and write at once: whole chunks of the target, within the memory limit."""
    wide = rows.shape[1] * layout.dtype.itemsize
    n_bytes = rows.footprint.bytes_per_row if layout.sparse else max(rows.footprint.bytes_per_row, wide)
    whole = 2 * n_bytes * rows.shape[0]
    if WRITERS[ending_of(path)].in_one_piece and whole > limit:
        raise ValueError(
            f"{path}: this format is written in one piece, which takes {np.ceil(whole / 1e6):,.0f} MB of memory. Allow "
            "this amount, or try .npy, .h5, .zarr, .parquet or .csv."
        )
    needed = rows.footprint.least_bytes + _COPIES * n_bytes * layout.chunk
    if needed > limit:
        raise ValueError(
            f"{limit / 1e6:.3g} MB of memory are not enough: the smallest read from {rows.name} takes "
            f"{rows.footprint.least_bytes / 1e6:.3g} MB, and {layout.chunk} rows are written at once. Allow "
            f"{np.ceil(needed / 1e6):,.0f} MB, or try smaller chunks."
        )
    return int((limit - rows.footprint.least_bytes) / (_COPIES * n_bytes * layout.chunk)) * layout.chunk


class _Reader:
    """Reads rows and right-hand sides in the dtype of the target; raises for NaN and infinity unless `allow_nan`."""

    def __init__(self, rows: Store, b: Store | None, dtype: np.dtype, *, allow_nan: bool) -> None:
        self._rows, self._b, self._dtype, self._allow_nan = rows, b, dtype, allow_nan

    def __call__(self, numbers: range | np.ndarray) -> tuple[Any, np.ndarray | None]:
        """Return the rows with these indices and their right-hand sides."""
        b = None if self._b is None else self._checked(self._b, numbers, np.dtype(float))
        return self._checked(self._rows, numbers, self._dtype), b

    def _checked(self, store: Store, numbers: range | np.ndarray, dtype: np.dtype) -> Any:
        found = store.read(numbers.start, numbers.stop) if isinstance(numbers, range) else store.take(numbers)
        wrong = None if self._allow_nan else first_not_finite(found)
        if wrong is not None:
            raise ValueError(
                f"{self._place(store, numbers, wrong)}. Try removing or repairing such rows, or --allow-nan "
                "(allow_nan=True) to write them unchanged."
            )
        try:
            with np.errstate(over="raise"):
                return found.astype(dtype, copy=False)
        except FloatingPointError:
            wrong = _first_too_large(found.toarray() if store.sparse else found, dtype)
            raise ValueError(f"{self._place(store, numbers, wrong)}, too large for {dtype}. Try float64.") from None

    def _place(self, store: Store, numbers: range | np.ndarray, wrong: NotFinite) -> str:
        column = f" in {column_words(store.columns, wrong.column)}" if store.ndim == 2 else ""
        return f"{store.name}: row {numbers[wrong.row]} has {wrong.value}{column}"


def _first_too_large(rows: np.ndarray, dtype: np.dtype) -> NotFinite:
    with np.errstate(over="ignore"):
        row, column = map(int, np.argwhere(np.isfinite(rows) & ~np.isfinite(rows.astype(dtype)))[0])
    return NotFinite(row, column, float(rows[row, column]))


def _separate_names(b: Store | None, path: Path, *, clustered: bool) -> list[str]:
    """Return the names of the arrays that the format of `path` cannot hold, which get separate files."""
    extra_arrays = WRITERS[ending_of(path)].extra_arrays
    names = ["b"] if b is not None and extra_arrays == "files" else []
    if clustered and extra_arrays != "datasets":
        names += ARRAYS if b is not None and b.shape[1] == 1 else [name for name in ARRAYS if name != "targets"]
    return names


def _outputs(path: Path, beside: list[str], read: dict[str, tuple[Path, ...]], *, force: bool) -> dict[str, OutputFile]:
    """Check, before anything is read, that all files can be written; return them by name (that of `path` is empty)."""
    places = {"": path, **{name: _separate_file(path, name) for name in beside}}
    found: dict[str, OutputFile] = {}
    for name, place in places.items():
        ending = ending_of(place)
        if ending == ".zarr" and place.exists() and not (place.is_dir() and is_zarr(place)):
            raise FileExistsError(f"{place}: exists and is not a Zarr store, so it is not replaced. Try another name.")
        taken = {f"{other or 'OUT'} is written to": (output.path,) for other, output in found.items()}
        found[name] = OutputFile(
            place, (ending,), folder=ending == ".zarr", force=force, by="--force (force=True)",
            apart_from={**read, **taken},
        )  # fmt: skip
    return found


class _Target:
    """The file being written, and the separate files that belong to it."""

    def __init__(self, rows: Writer, b: Writer | None, open_separate: Callable[[str, Layout], Writer]) -> None:
        self._rows, self._b, self._open_separate = rows, b, open_separate

    def add(self, rows: Any, b: np.ndarray | None) -> None:
        """Write the next rows and their right-hand sides."""
        self._rows.add(rows, b)
        if self._b is not None and b is not None:
            self._b.add(b)

    def add_array(self, name: str, values: np.ndarray) -> None:
        """Write another array, into the same file or a separate one."""
        if self._rows.extra_arrays == "datasets":
            self._rows.add_array(name, values)
        else:
            self._open_separate(name, Layout(values.shape, values.dtype)).add(values)


@contextmanager
def _target(outputs: dict[str, OutputFile], layout: Layout) -> Iterator[_Target]:
    """Open all `outputs` for writing; they appear under their names at the end, the matrix last."""
    kind = WRITERS[ending_of(outputs[""].path)]
    with ExitStack() as stack:
        rows, b = stack.enter_context(_written(outputs[""], kind, layout)), None

        def open_separate(name: str, layout: Layout) -> Writer:
            return stack.enter_context(_written(outputs[name], NpyWriter, layout))

        if "b" in outputs:
            shape = layout.shape[:1] if len(layout.rhs) == 1 else (layout.shape[0], len(layout.rhs))
            b = open_separate("b", Layout(shape, np.dtype(float)))
        yield _Target(rows, b, open_separate)


def _separate_file(path: Path, name: str) -> Path:
    """Return the separate file for the array `name`, which the format of `path` cannot hold."""
    return path.with_name(f"{path.name[: -len(ending_of(path))]}.{name}.npy")


@contextmanager
def _written(output: OutputFile, kind: type[Writer], layout: Layout) -> Iterator[Writer]:
    """Write a file atomically."""
    with output.temporary_file() as part:
        writer = kind(part, layout)
        try:
            yield writer
            writer.finish()
        except BaseException:
            with suppress(Exception):  # a library may complain about its incomplete file
                writer.close()
            raise
