"""Rows that stay in a file and are read in chunks, each of which is prefetched while the previous one is used."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import numpy as np

from rowsolve.kernels.rows import CSRRows, DenseRows, frozen
from rowsolve.policy.thresholds import (
    BYTES_AT_ONCE,
    CHUNK_BYTES,
    CHUNKS_IN_MEMORY,
    COPIES,
    FEWEST_ROWS,
    PIECE_BYTES,
    TALL,
    WORKSPACE_VECTORS,
)
from rowsolve.sources.rows import Source
from rowsolve.sources.store import Store, last_written, precision, slices

__all__ = ["Memory", "StoredRows", "memory_for", "open_stored"]


@dataclass(frozen=True)
class Memory:
    """The allocation of memory.

    Attributes
    ----------
    allowed, fixed, buffers, workspace_bytes : float
        Bytes: the limit; those for b, marks of rows and vectors; for the buffers of chunks; and for the workspace of
        the method.
    chunk : int
        Rows of a chunk.
    at_once : float
        Bytes that are read in one call, so that other threads do not wait long.
    views : bool
        Whether chunks are views of mapped rows, which take no memory.
    """

    allowed: float
    fixed: float
    buffers: float
    workspace_bytes: float
    chunk: int
    at_once: float
    views: bool

    def words(self, store: Store) -> str:
        """Return a description of how the rows will be read."""
        n_chunks, size = -(-store.shape[0] // self.chunk), self.chunk * store.footprint.stored_bytes_per_row
        used = (self.fixed + self.buffers) / 1e6
        return (
            f"Reading {store.name} in {n_chunks:,} chunks of {size / 1e6:.3g} MB"
            f"{' (mapped, not copied)' if self.views else ''}: about {max(used, 0.1):.3g} MB of memory, and up to "
            f"{self.workspace_bytes / 1e6:.3g} MB for the method, of {self.allowed / 1e6:.4g} MB allowed."
        )


def memory_for(store: Store, n_rhs: int, allowed: float, threads: int) -> Memory:
    """Return how to use the bytes `allowed`; raise ValueError, with the smallest sufficient number, if too few."""
    n, p = store.shape
    views, found, a_row = store.has_views, store.footprint, store.footprint.bytes_per_row
    vectors = 8.0 * WORKSPACE_VECTORS * p * threads * (n_rhs + 1)
    fixed = n * (8.0 * n_rhs + 1.0) + vectors + (0.0 if views else found.least_bytes)
    copies = 1 if views else CHUNKS_IN_MEMORY * (COPIES if store.sparse else 1)
    least_rows = min(n, FEWEST_ROWS)
    least = fixed + 2.0 * copies * least_rows * a_row
    if least > allowed:
        raise ValueError(
            f"{allowed / 1e6:.4g} MB of memory are not enough for {store.name}: b, vectors, and the smallest read take "
            f"{fixed / 1e6:.3g} MB. Allow {np.ceil(least / 1e6):,.0f} MB."
        )
    at_once = 0.0 if views else min(BYTES_AT_ONCE, (allowed - fixed) / 32.0)
    fixed += 0.0 if found.in_place else COPIES * at_once
    wanted = max(CHUNK_BYTES, TALL * p * a_row)
    rows = int(min(n, wanted / a_row, (allowed - fixed) / (2.0 * copies * a_row)))
    chunk = max(least_rows, rows // store.chunk * store.chunk if rows >= store.chunk else rows)
    while chunk > least_rows and not views and copies * store.most_bytes(chunk) > (allowed - fixed) / 2:
        chunk = max(least_rows, chunk // 2)
    buffers = 0.0 if views else min(copies * store.most_bytes(chunk), allowed - fixed)
    return Memory(allowed, fixed, buffers, allowed - fixed - buffers, chunk, at_once, views)


@dataclass(frozen=True)
class StoredRows(Source):
    """The rows of a `Store` as a `Source`; its attribute `rows` is empty and only has the right type."""

    store: Store = field(kw_only=True)
    memory: Memory = field(kw_only=True)
    prefetcher: Prefetcher = field(kw_only=True)

    def close(self) -> None:
        """Stop all passes and their threads, also those that were not finished."""
        self.prefetcher.close()

    def make_sure(self) -> None:
        """Raise StoreError if a mapped file was truncated, as accessing its rows would kill the process."""
        if self.memory.views:
            self.store.view(self.shape[0], self.shape[0])

    @property
    def n_chunks(self) -> int:
        """The number of chunks."""
        return -(-self.shape[0] // self.memory.chunk)

    @property
    def stamp(self) -> str:
        """The size of a chunk and the last modification of the file, which identify the rows."""
        return f"{self.memory.chunk} {last_written(self.store)}"

    def row(self, i: int) -> np.ndarray:
        """Return row `i` as a dense float64 array."""
        return self.fetch(np.array([i])).row(0)

    def fetch(self, numbers: np.ndarray) -> Source:
        """Return the rows with these indices, in memory."""
        with self.prefetcher.lock:
            found = self.store.take(numbers)
        return _in_memory(self.store, found)

    def take(self, order: np.ndarray, weights: np.ndarray) -> Source:
        """Return a copy of the rows in `order`, each multiplied by its weight, in float64."""
        return self.fetch(order).take(np.arange(order.size), weights)

    def columns(self) -> Any:
        """Raise TypeError: methods that need columns do not support rows that are not in memory."""
        raise TypeError(f"{self.store.name}: access to columns requires all rows in memory.")

    def batches(self, n_rows: int) -> Iterator[tuple[int, int]]:
        """Yield the start and stop of consecutive parts of a list of `n_rows` rows, each of which fits in memory."""
        return slices(n_rows, self.rows_at_once)

    @property
    def rows_at_once(self) -> int:
        """The number of scattered rows that are in memory at once."""
        return max(FEWEST_ROWS, self.store.footprint.rows_in(min(CHUNK_BYTES, self.memory.workspace_bytes / 8.0)))

    def endless(self, seed: int, first: int, in_order: bool) -> Iterator[tuple[int, Source]]:
        """Yield chunks without end, from number `first` on: pass after pass, each in a random order given by `seed`.

        The order is sequential if `in_order`, or if the store can only be read sequentially.
        """
        n, in_order = self.n_chunks, in_order or self.store.ordered

        def chunks() -> Iterator[int]:
            order = np.arange(n)
            for turn in count(first):
                if not in_order and (turn % n == 0 or turn == first):
                    order = np.random.default_rng([seed, turn // n]).permutation(n)
                yield int(order[turn % n])

        return self.prefetcher.walk(chunks(), self.memory.chunk)

    @property
    def rows_of_a_piece(self) -> int:
        """The number of rows of a piece of a sequential pass.

        It is at most that of a chunk, unless more rows are stored together, which would else be read several times.
        """
        memory, stored, a_row = self.memory, self.store.chunk, self.store.footprint.bytes_per_row
        if memory.views or self.store.sparse:
            return memory.chunk
        wanted = max(PIECE_BYTES / a_row, TALL * self.shape[1])
        rows = max(1, int(wanted / stored)) * stored
        fits = 2 * rows * a_row <= (memory.buffers + memory.workspace_bytes) / 2.0  # one in use, one being filled
        return min(rows, self.shape[0]) if fits else min(rows, memory.chunk)

    def in_order(self, skip: int) -> Iterator[tuple[int, Source]]:
        """Yield all rows once, in pieces of `rows_of_a_piece`, except for the first `skip` pieces."""
        size = self.rows_of_a_piece
        return self.prefetcher.walk(iter(range(skip, -(-self.shape[0] // size))), size)


def open_stored(store: Store, memory: Memory) -> StoredRows:
    """Return the rows of `store`, read within the limits of `memory`."""
    return StoredRows(
        _kind_of(store, None), store.shape, store.footprint.entries_per_row, precision(store.stored_dtype),
        name=store.name, column_names=store.columns, checked=store.checked or store.stored_dtype.kind != "f",
        store=store, memory=memory, prefetcher=Prefetcher(store, memory),
    )  # fmt: skip


class Prefetcher:
    """Reads chunks of a store, each in the background while the previous one is used.

    Attributes
    ----------
    lock : Lock
        Held while rows are read: a store is not thread-safe.
    """

    def __init__(self, store: Store, memory: Memory) -> None:
        self._store, self._memory = store, memory
        self.lock = threading.Lock()
        self._walks: weakref.WeakSet[Any] = weakref.WeakSet()

    def walk(self, chunks: Iterator[int], size: int) -> Iterator[tuple[int, Source]]:
        """Yield (first row, rows in memory) for these chunks of `size` rows.

        The next chunk is read into the buffer of the previous one, which must not be used any more.
        """
        n = self._store.shape[0]
        places = ((c * size, min((c + 1) * size, n)) for c in chunks)
        walk = self._views(places) if self._memory.views else self._copies(places, size)
        self._walks.add(walk)
        return walk

    def close(self) -> None:
        """Stop all walks and their threads."""
        for walk in list(self._walks):
            walk.close()

    def _copies(self, places: Iterator[tuple[int, int]], size: int) -> Iterator[tuple[int, Source]]:
        with ThreadPoolExecutor(1, thread_name_prefix="rowsolve-reader") as reader:
            filler = _Filler(self._store, self.lock, self._memory.at_once, size)
            place, coming = next(places, None), None
            try:
                coming = reader.submit(filler.fill, *place) if place else None
                while coming is not None:
                    found, start = coming.result(), place[0]  # type: ignore[index]
                    place = next(places, None)
                    coming = reader.submit(filler.fill, *place) if place else None
                    yield start, _in_memory(self._store, found)
            finally:
                filler.stop(coming)

    def _views(self, places: Iterator[tuple[int, int]]) -> Iterator[tuple[int, Source]]:
        place = next(places, None)
        while place is not None:
            rows, start = self._store.view(*place), place[0]
            place = next(places, None)
            if place is not None:
                self._store.prefetch(*place)
            yield start, _in_memory(self._store, rows)


class _Filler:
    """Reads chunks into two alternating buffers, in several calls per chunk."""

    def __init__(self, store: Store, lock: threading.Lock, at_once: float, size: int) -> None:
        self._store, self._lock = store, lock
        rows = store.footprint.rows_in(at_once) // store.chunk * store.chunk
        self._step = max(rows, store.chunk)
        shape = (min(size, store.shape[0]), store.shape[1])
        self._buffers = () if store.sparse else (np.empty(shape, store.dtype), np.empty(shape, store.dtype))
        self._turn, self._stopped = 0, False

    def fill(self, start: int, stop: int) -> Any:
        if self._store.sparse:
            with self._lock:
                return self._store.read(start, stop)
        self._turn = 1 - self._turn
        buffer = self._buffers[self._turn][: stop - start]
        for first in range(start, stop, self._step):
            if self._stopped:
                break
            last = min(first + self._step, stop)
            with self._lock:
                self._store.read(first, last, buffer[first - start : last - start])
        return buffer

    def stop(self, coming: Future | None) -> None:
        """Cancel the chunk that is being read."""
        self._stopped = True
        if coming is not None:
            coming.cancel()


def _in_memory(store: Store, found: Any) -> Source:
    """Return rows that were read."""
    per_row = store.footprint.entries_per_row
    return Source(_kind_of(store, found), found.shape, per_row, precision(store.stored_dtype))


def _kind_of(store: Store, found: Any) -> DenseRows | CSRRows:
    """Return rows that were read, or no rows if `found` is None, in the type that the kernels take for this store."""
    if not store.sparse:
        values = np.empty((0, store.shape[1]), store.dtype) if found is None else found
        return DenseRows(frozen(values))
    index = np.int32 if store.shape[1] <= np.iinfo(np.int32).max else np.int64
    if found is None:
        return CSRRows(frozen(np.empty(0, store.dtype)), frozen(np.empty(0, index)), frozen(np.zeros(1, np.int64)))
    data, indices = found.data.astype(store.dtype, copy=False), found.indices.astype(index, copy=False)
    return CSRRows(frozen(data), frozen(indices), frozen(found.indptr.astype(np.int64, copy=False)))
