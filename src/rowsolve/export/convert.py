"""Rows from one format into another, a few at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from rowsolve import _validate
from rowsolve.export.arrange import ARRAYS, BYTES_PER_ROW, arrange
from rowsolve.export.output import OutputFile
from rowsolve.methods.base import positive_integer
from rowsolve.sources import Store, open_system
from rowsolve.sources.arrays import ArrayStore
from rowsolve.sources.files import ending_of, files_of, opened, split_place
from rowsolve.sources.finite import Odd, column_words, first_not_finite
from rowsolve.sources.groups import OURS, is_zarr
from rowsolve.sources.writers import WRITERS, Layout, NpyWriter, Writer

__all__ = ["convert"]

_COPIES = 4  # of the rows in hand: as read, as converted, and what libraries make of them on their way


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
    """Write the rows of `source` to `target`, in the format of its ending, without having all of them in memory.

    `target` is written under another name, flushed to the disk and renamed at the end: a failure leaves nothing
    half-written, and an older file as it was.

    Parameters
    ----------
    source : path, array, scipy sparse matrix, callable or Store
        Anything that `rowsolve.solve` takes for A, of any size. A sparse matrix stays sparse in HDF5, Zarr, .npz and
        .mtx.
    target : path
        Ending in .npy, .npz, .mtx, .mtx.gz, .csv, .h5, .hdf5, .zarr or .parquet; ``rows.h5:/name`` names the dataset.
    rhs : path or array_like of shape (n,) or (n, k), optional
        The right-hand side to be stored along: as dataset ``b`` in HDF5 and Zarr, as a column of .parquet and .csv,
        else in a file beside (``rows.b.npy`` for ``rows.npy``). A callable `source` brings its own.
    memory : int or str
        Bytes that may be used for rows, such as ``"1GB"``. The formats .npz and .mtx are read and written in one piece.
    chunk : int, optional
        Rows to be stored together in HDF5, Zarr and Parquet; about 1 MB of them if not given (8 MB in Parquet).
    dtype : {"float32", "float64"}, optional
        Of the numbers written; if not given, float32 stays float32, and all else becomes float64.
    cluster : int, optional
        Cluster the rows by direction into so many clusters, in one pass, and write them in blocks with one row of each:
        what method ``"cluster-block"`` draws is then one contiguous read. Stored along, as datasets or in files
        beside (``rows.labels.npy``): ``rows``, the original row numbers; ``labels``; ``starts`` of the blocks; the
        equations ``centroids`` and ``targets``. Reads `source` up to ``cluster + 1`` times, and needs 64 bytes of
        memory a row.
    rng : int or numpy.random.Generator, optional
        For the clusters.
    force : bool
        Whether to replace an older `target`, and files beside it. One that `source` or `rhs` is read from never is.
    allow_nan : bool
        Whether to write NaN and infinity as they are, and NaN for values that are missing in a table (nulls of
        Parquet, empty cells of CSV). If not, they raise ValueError, with the file, row and column.
    progress : callable, optional
        Called with the rows done and the rows to do (each counts twice with `cluster`).

    Returns
    -------
    (int, int)
        The rows and columns written.
    """
    limit = _validate.memory_of(memory)
    if rng is not None and cluster is None:
        raise ValueError("`rng` (--seed) is for the clusters: choose how many with `cluster`.")
    with ExitStack() as stack:
        rows, b = _open(source, rhs, stack, allow_nan=allow_nan)
        path, place = split_place(target)
        layout = _layout(rows, b, path, place, chunk, dtype, limit)
        if cluster is not None:
            limit = _without_arrangement(rows, cluster, limit)
        step = _rows_at_once(rows, path, layout, limit)
        read = {"`source` is read from": (*files_of(source), *files_of(rows)), "`rhs` is read from": files_of(rhs)}
        names = _names_beside(b, path, clustered=cluster is not None)
        with _target(_outputs(path, names, read, force=force), layout) as out:
            take = _Taking(rows, b, layout.dtype, allow_nan=allow_nan)
            if cluster is None:
                for start, stop in rows.pieces(step):
                    out.add(*take(range(start, stop)))
                    progress(stop, rows.shape[0])
            else:
                _write_clustered(rows, b, cluster, _validate.generator_of(rng), step, take, out, progress)
        return rows.shape


def _write_clustered(
    rows: Store, b: Store | None, n_clusters: int, rng: np.random.Generator, step: int, take: _Taking, out: _Target,
    progress: Callable[[int, int], None],
) -> None:  # fmt: skip
    """Write the rows in blocks with one row of each cluster, and all that was learned of the clusters."""
    n_rows = rows.shape[0]
    found = arrange(rows, b, n_clusters, rng, step, lambda done: progress(done, 2 * n_rows))
    for start, stop in rows.pieces(step):
        out.add(*take(found.rows[start:stop]))
        progress(n_rows + stop, 2 * n_rows)
    for name, values in found.arrays().items():
        out.add_array(name, values)


def _open(source: Any, rhs: Any, stack: ExitStack, *, allow_nan: bool) -> tuple[Store, Store | None]:
    """Open the rows and the right-hand side, which comes with the rows if `rhs` is None."""
    if rhs is None:
        rows = stack.enter_context(opened(source, allow_nan=allow_nan))
        return rows, None if rows.rhs is None else ArrayStore(f"b of {rows.name}", rows.rhs)
    rows, b = open_system(source, rhs, allow_nan=allow_nan)
    for store in (rows, b):
        if store is not source and store is not rhs:  # those that the caller has opened stay open
            stack.callback(store.close)
    if b.sparse:  # it was in memory before, or takes as little as the indices of its rows
        b = ArrayStore(b.name, b.read(0, b.shape[0]).toarray())
    if b.shape[0] == 1 and b.shape[1] == rows.shape[0]:  # a row, as .csv files may hold it
        b = ArrayStore(b.name, b.read(0, 1)[0])
    if b.shape[0] != rows.shape[0]:
        raise ValueError(f"{b.name}: must have one entry per row of A: expected {rows.shape[0]}, got {b.shape[0]}.")
    return rows, b


def _layout(
    rows: Store, b: Store | None, path: Path, place: str, chunk: int | None, dtype: str | None, limit: float
) -> Layout:
    """Decide how the rows will be stored."""
    writer = WRITERS[ending_of(path)]
    if place and writer.extra_arrays != "datasets":
        raise ValueError(f"{path}: holds one matrix only: leave `:{place}` away.")
    if dtype not in (None, "float32", "float64"):
        raise ValueError(f"`dtype` must be 'float32' or 'float64', got {dtype!r}.")
    kept = np.dtype(dtype or rows.dtype)
    sparse = rows.sparse and writer.takes_sparse
    n_bytes = rows.bytes_per_row if sparse else rows.shape[1] * kept.itemsize
    if chunk is None:
        room = min(writer.chunk_bytes, (limit - rows.least_bytes) / _COPIES)
        chunk = max(1, int(room / max(1.0, n_bytes)))
    elif not writer.chunk_bytes or sparse:
        raise ValueError(f"{path}: {'sparse rows have' if sparse else 'this format has'} no chunks of rows to choose.")
    else:
        positive_integer("chunk", chunk)
    n_rhs = 0 if b is None else b.shape[1]
    names = ("b",) if n_rhs == 1 else tuple(f"b{i}" for i in range(n_rhs))
    return Layout(
        shape=rows.shape[: rows.ndim], dtype=kept, sparse=sparse, chunk=min(chunk, rows.shape[0]), columns=rows.columns,
        rhs=names, place=place.strip("/") or OURS,
    )  # fmt: skip


def _without_arrangement(rows: Store, n_clusters: int, limit: float) -> float:
    """Return the memory that is left for rows when their order and the centroids are known."""
    positive_integer("cluster", n_clusters)
    needed = BYTES_PER_ROW * rows.shape[0] + 8 * n_clusters * rows.shape[1]
    if 2 * needed > limit:
        raise ValueError(
            f"{limit / 1e6:.3g} MB of memory are too little: the order of {rows.shape[0]:,} rows and the centroids "
            f"take {needed / 1e6:,.3g} MB. Allow {np.ceil(2 * needed / 1e6):,.0f} MB."
        )
    return limit - needed


def _rows_at_once(rows: Store, path: Path, layout: Layout, limit: float) -> int:
    """Return how many rows are read and written at once: whole chunks of the target, within the memory."""
    wide = rows.shape[1] * layout.dtype.itemsize
    n_bytes = rows.bytes_per_row if layout.sparse else max(rows.bytes_per_row, wide)
    whole = 2 * n_bytes * rows.shape[0]
    if WRITERS[ending_of(path)].in_one_piece and whole > limit:
        raise ValueError(
            f"{path}: this format is written in one piece, which takes {np.ceil(whole / 1e6):,.0f} MB of memory: allow "
            "so much, or choose .npy, .h5, .zarr, .parquet or .csv."
        )
    needed = rows.least_bytes + _COPIES * n_bytes * layout.chunk
    if needed > limit:
        raise ValueError(
            f"{limit / 1e6:.3g} MB of memory are too little: the least that can be read of {rows.name} takes "
            f"{rows.least_bytes / 1e6:.3g} MB, and {layout.chunk} rows are written together. Allow "
            f"{np.ceil(needed / 1e6):,.0f} MB, or smaller chunks."
        )
    return int((limit - rows.least_bytes) / (_COPIES * n_bytes * layout.chunk)) * layout.chunk


class _Taking:
    """Rows and their right-hand sides, as they will be written: without NaN and infinity, unless these are allowed."""

    def __init__(self, rows: Store, b: Store | None, dtype: np.dtype, *, allow_nan: bool) -> None:
        self._rows, self._b, self._dtype, self._allow_nan = rows, b, dtype, allow_nan

    def __call__(self, numbers: range | np.ndarray) -> tuple[Any, np.ndarray | None]:
        """Return the rows with these numbers."""
        b = None if self._b is None else self._checked(self._b, numbers, np.dtype(float))
        return self._checked(self._rows, numbers, self._dtype), b

    def _checked(self, store: Store, numbers: range | np.ndarray, dtype: np.dtype) -> Any:
        found = store.read(numbers.start, numbers.stop) if isinstance(numbers, range) else store.take(numbers)
        odd = None if self._allow_nan else first_not_finite(found)
        if odd is not None:
            raise ValueError(
                f"{self._place(store, numbers, odd)}: remove or repair such rows, or --allow-nan (allow_nan=True) to "
                "write them as they are."
            )
        try:
            with np.errstate(over="raise"):
                return found.astype(dtype, copy=False)
        except FloatingPointError:
            odd = _first_too_large(found.toarray() if store.sparse else found, dtype)
            raise ValueError(f"{self._place(store, numbers, odd)}, too large for {dtype}: write float64.") from None

    def _place(self, store: Store, numbers: range | np.ndarray, odd: Odd) -> str:
        column = f" in {column_words(store.columns, odd.column)}" if store.ndim == 2 else ""
        return f"{store.name}: row {numbers[odd.row]} has {odd.value}{column}"


def _first_too_large(rows: np.ndarray, dtype: np.dtype) -> Odd:
    with np.errstate(over="ignore"):
        row, column = map(int, np.argwhere(np.isfinite(rows) & ~np.isfinite(rows.astype(dtype)))[0])
    return Odd(row, column, float(rows[row, column]))


def _names_beside(b: Store | None, path: Path, *, clustered: bool) -> list[str]:
    """Return the names of what the format of `path` cannot hold: each has a file of its own."""
    extra_arrays = WRITERS[ending_of(path)].extra_arrays
    names = ["b"] if b is not None and extra_arrays == "files" else []
    if clustered and extra_arrays != "datasets":
        names += ARRAYS if b is not None and b.shape[1] == 1 else [name for name in ARRAYS if name != "targets"]
    return names


def _outputs(path: Path, beside: list[str], read: dict[str, tuple[Path, ...]], *, force: bool) -> dict[str, OutputFile]:
    """Find out, before anything is read, that all files can be written; return them by name, `path` by none."""
    places = {"": path, **{name: _beside(path, name) for name in beside}}
    found: dict[str, OutputFile] = {}
    for name, place in places.items():
        ending = ending_of(place)
        if ending == ".zarr" and place.exists() and not (place.is_dir() and is_zarr(place)):
            raise FileExistsError(f"{place}: is no Zarr store, so it is not replaced: move it away.")
        taken = {f"{other or 'OUT'} is written to": (output.path,) for other, output in found.items()}
        found[name] = OutputFile(
            place, (ending,), folder=ending == ".zarr", force=force, by="--force (force=True)",
            apart_from={**read, **taken},
        )  # fmt: skip
    return found


class _Target:
    """The file being written, and those beside it."""

    def __init__(self, rows: Writer, b: Writer | None, open_beside: Callable[[str, Layout], Writer]) -> None:
        self._rows, self._b, self._open_beside = rows, b, open_beside

    def add(self, rows: Any, b: np.ndarray | None) -> None:
        """Write the next rows and their right-hand sides."""
        self._rows.add(rows, b)
        if self._b is not None and b is not None:
            self._b.add(b)

    def add_array(self, name: str, values: np.ndarray) -> None:
        """Write what else belongs to the rows."""
        if self._rows.extra_arrays == "datasets":
            self._rows.add_array(name, values)
        else:
            self._open_beside(name, Layout(values.shape, values.dtype)).add(values)


@contextmanager
def _target(outputs: dict[str, OutputFile], layout: Layout) -> Iterator[_Target]:
    """Write to all `outputs`; they appear at the end, the rows the last."""
    kind = WRITERS[ending_of(outputs[""].path)]
    with ExitStack() as stack:
        rows, b = stack.enter_context(_written(outputs[""], kind, layout)), None

        def open_beside(name: str, layout: Layout) -> Writer:
            return stack.enter_context(_written(outputs[name], NpyWriter, layout))

        if "b" in outputs:
            shape = layout.shape[:1] if len(layout.rhs) == 1 else (layout.shape[0], len(layout.rhs))
            b = open_beside("b", Layout(shape, np.dtype(float)))
        yield _Target(rows, b, open_beside)


def _beside(path: Path, name: str) -> Path:
    """Return the file beside `path` for what it cannot hold itself."""
    return path.with_name(f"{path.name[: -len(ending_of(path))]}.{name}.npy")


@contextmanager
def _written(output: OutputFile, kind: type[Writer], layout: Layout) -> Iterator[Writer]:
    """Write a file whole or not at all."""
    with output.beside() as part:
        writer = kind(part, layout)
        try:
            yield writer
            writer.finish()
        except BaseException:
            with suppress(Exception):  # what a library says about its half-written file
                writer.close()
            raise
