"""Rows that stay where they live: read a chunk at a time, the next one while this one is worked on."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np

from rowsolve.kernels.rows import CSRRows, DenseRows, frozen
from rowsolve.sources.arrangement import Arrangement
from rowsolve.sources.rows import Source
from rowsolve.sources.store import Store

__all__ = ["Memory", "StoredRows", "memory_for"]

_CHUNK = 64e6  # bytes: a disk reads no faster in larger pieces
_ROWS_OF_A_CHUNK = 2  # times p rows, at least, if there is room: fewer say little about x
_PIECE = 8e6  # bytes of a pass in order: less memory than chunks take, in about the same time
_AT_ONCE = 4e6  # bytes that are read in one call, at most
_COPIES = 3  # of these: as libraries read them, unpack them and hand them over
_FETCHED = 32e6  # bytes of rows from here and there
_WALKS = 2  # passes under way at once: a full check may come while a chunk is in use
_BUFFERS = 2  # of a walk: one in use, one being filled
_SPARSE_COPIES = 3  # of sparse rows while they are read
_VECTORS = 64  # of p numbers, for each thread and right-hand side, that methods work with
_FEWEST_ROWS = 16


@dataclass(frozen=True)
class Memory:
    """What the bytes allowed are used for.

    Attributes
    ----------
    allowed, fixed, buffers, room : float
        In all; for b, marks and vectors; for the chunks in hand; for what methods make of the rows.
    chunk : int
        Rows that are worked on together.
    at_once : float
        Bytes that are read in one call, so that others need not wait long.
    views : bool
        Whether rows are mapped into memory as they are, which takes none.
    """

    allowed: float
    fixed: float
    buffers: float
    room: float
    chunk: int
    at_once: float
    views: bool

    def words(self, store: Store) -> str:
        """Return how the rows will be read, in a sentence."""
        n_chunks, size = -(-store.shape[0] // self.chunk), self.chunk * store.stored_bytes_per_row
        used = (self.fixed + self.buffers) / 1e6
        return (
            f"Reading {store.name} in {n_chunks:,} chunks of {size / 1e6:.3g} MB"
            f"{' (mapped, not copied)' if self.views else ''}: about {max(used, 0.1):.3g} MB of memory, and up to "
            f"{self.room / 1e6:.3g} MB for the method, of {self.allowed / 1e6:.4g} MB allowed."
        )


def memory_for(store: Store, n_rhs: int, allowed: float, threads: int) -> Memory:
    """Share out the bytes `allowed`; raise with the least that works if they are too few."""
    n, p = store.shape
    views = store.has_views
    fixed = n * (8.0 * n_rhs + 1.0) + 8.0 * _VECTORS * p * threads * (n_rhs + 1) + (0.0 if views else store.least_bytes)
    copies = 1 if views else _WALKS * _BUFFERS * (_SPARSE_COPIES if store.sparse else 1)
    least_rows = min(n, _FEWEST_ROWS)
    least = fixed + 2.0 * copies * least_rows * store.bytes_per_row
    if least > allowed:
        raise ValueError(
            f"{allowed / 1e6:.4g} MB of memory are too little for {store.name}: b, vectors, and the least that can be "
            f"read take {fixed / 1e6:.3g} MB. Allow {np.ceil(least / 1e6):,.0f} MB."
        )
    at_once = 0.0 if views else min(_AT_ONCE, (allowed - fixed) / 32.0)
    fixed += 0.0 if store.in_place else _COPIES * at_once
    wanted = max(_CHUNK, _ROWS_OF_A_CHUNK * p * store.bytes_per_row)
    rows = int(min(n, wanted / store.bytes_per_row, (allowed - fixed) / (2.0 * copies * store.bytes_per_row)))
    chunk = max(least_rows, rows // store.chunk * store.chunk if rows >= store.chunk else rows)
    while chunk > least_rows and not views and copies * store.most_bytes(chunk) > (allowed - fixed) / 2:
        chunk = max(least_rows, chunk // 2)
    buffers = 0.0 if views else min(copies * store.most_bytes(chunk), allowed - fixed)
    return Memory(allowed, fixed, buffers, allowed - fixed - buffers, chunk, at_once, views)


class StoredRows(Source):
    """The rows of a `Store`, as a `Source` without rows of its own (`rows` only tells their kind)."""

    store: Store
    memory: Memory

    def __init__(self, store: Store, memory: Memory, arrangement: Arrangement | None = None) -> None:
        none = _kind_of(store, None)
        super().__init__(
            none, store.shape, store.entries_per_row, store.eps, arrangement,
            name=store.name, column_names=store.columns, checked=store.checked,
        )  # fmt: skip
        own = {"store": store, "memory": memory, "_lock": threading.Lock(), "_walks": weakref.WeakSet()}
        for name, value in own.items():
            object.__setattr__(self, name, value)  # it is frozen

    def close(self) -> None:
        """End all walks, and their threads with them: whoever was on one may never come back to it."""
        for walk in list(self._walks):  # type: ignore[attr-defined]
            walk.close()

    def make_sure(self) -> None:
        """Raise if rows that are lent have gone: to touch them would be the end of the process."""
        if self.memory.views:
            self.store.view(self.shape[0], self.shape[0])

    @property
    def n_chunks(self) -> int:
        """How many chunks there are."""
        return -(-self.shape[0] // self.memory.chunk)

    @property
    def stamp(self) -> str:
        """The size of a chunk, and when the file was written."""
        return f"{self.memory.chunk} {self.store.written}"

    def row(self, i: int) -> np.ndarray:
        """Return row `i` written out in full, to look at it."""
        return self.fetch(np.array([i])).row(0)

    def fetch(self, numbers: np.ndarray) -> Source:
        """Return the rows with these numbers, in memory."""
        with self._lock:  # type: ignore[attr-defined]
            found = self.store.take(numbers)
        return self._source(found)

    def take(self, order: np.ndarray, weights: np.ndarray) -> Source:
        """Return a copy of the rows in `order`, each times its weight, in float64."""
        return self.fetch(order).take(np.arange(order.size), weights)

    def columns(self) -> Any:
        """Raise TypeError: methods that need columns do not take rows that are not in memory."""
        raise TypeError(f"{self.store.name}: columns can only be taken of rows that are in memory.")

    def batches(self, n_rows: int) -> Iterator[tuple[int, int]]:
        """Yield where to cut a list of `n_rows`, so that as many fit in memory as are between two cuts."""
        for start in range(0, n_rows, self.rows_at_once):
            yield start, min(start + self.rows_at_once, n_rows)

    @property
    def rows_at_once(self) -> int:
        """How many rows from here and there are in memory together."""
        return max(_FEWEST_ROWS, int(min(_FETCHED, self.memory.room / 8.0) / max(1.0, self.store.bytes_per_row)))

    def endless(self, seed: int, first: int, in_order: bool) -> Iterator[tuple[int, Source]]:
        """Walk for ever, from chunk number `first` on, in a random order that follows from `seed`, pass after pass.

        `in_order` if the rows are to come so; it may be that they cannot come otherwise.
        """
        n, in_order = self.n_chunks, in_order or self.store.ordered

        def chunks() -> Iterator[int]:
            order = np.arange(n)
            for turn in count(first):
                if not in_order and (turn % n == 0 or turn == first):
                    order = np.random.default_rng([seed, turn // n]).permutation(n)
                yield int(order[turn % n])

        return self.walk(chunks())

    @property
    def rows_of_a_piece(self) -> int:
        """How many rows come at once where all are read in their order.

        No more than a chunk, unless as many are stored together: in smaller pieces they would be read several times.
        """
        memory, stored, a_row = self.memory, self.store.chunk, self.store.bytes_per_row
        if memory.views or self.store.sparse:
            return memory.chunk
        wanted = max(_PIECE / a_row, _ROWS_OF_A_CHUNK * self.shape[1])
        rows = max(1, int(wanted / stored)) * stored
        fits = _BUFFERS * rows * a_row <= (memory.buffers + memory.room) / 2.0
        return min(rows, self.shape[0]) if fits else min(rows, memory.chunk)

    def in_order(self, skip: int) -> Iterator[tuple[int, Source]]:
        """Walk once over all rows, but for the first `skip` pieces, in pieces of `rows_of_a_piece`."""
        size = self.rows_of_a_piece
        return self.walk(iter(range(skip, -(-self.shape[0] // size))), size)

    def walk(self, chunks: Iterator[int], size: int | None = None) -> Iterator[tuple[int, Source]]:
        """Yield these chunks (of `size` rows, if given) as sources in memory, and the numbers of their first rows.

        The next one is read meanwhile; what was yielded before is overwritten.
        """
        walk = self._walk(chunks, self.memory.chunk if size is None else size)
        self._walks.add(walk)  # type: ignore[attr-defined]
        return walk

    def _walk(self, chunks: Iterator[int], size: int) -> Iterator[tuple[int, Source]]:
        n = self.shape[0]
        places = ((c * size, min((c + 1) * size, n)) for c in chunks)
        if self.memory.views:
            yield from self._walk_views(places)
            return
        with ThreadPoolExecutor(1, thread_name_prefix="rowsolve-reader") as reader:
            filler = _Filler(self.store, self._lock, self.memory.at_once, size)  # type: ignore[attr-defined]
            place, coming = next(places, None), None
            try:
                coming = reader.submit(filler.fill, *place) if place else None
                while coming is not None:
                    found, start = coming.result(), place[0]  # type: ignore[index]
                    place = next(places, None)
                    coming = reader.submit(filler.fill, *place) if place else None
                    yield start, self._source(found)
            finally:
                filler.stop(coming)

    def _walk_views(self, places: Iterator[tuple[int, int]]) -> Iterator[tuple[int, Source]]:
        place = next(places, None)
        while place is not None:
            rows, start = self.store.view(*place), place[0]
            place = next(places, None)
            if place is not None:
                self.store.prefetch(*place)
            yield start, self._source(rows)

    def _source(self, found: Any) -> Source:
        return Source(_kind_of(self.store, found), found.shape, self.entries_per_row, self.eps)


class _Filler:
    """Reads chunks into two buffers in turn, a little at a time."""

    def __init__(self, store: Store, lock: threading.Lock, at_once: float, size: int) -> None:
        self._store, self._lock = store, lock
        rows = int(at_once / max(1.0, store.bytes_per_row)) // store.chunk * store.chunk
        self._step = max(rows, store.chunk)
        shape = (min(size, store.shape[0]), store.shape[1])
        self._rooms = [] if store.sparse else [np.empty(shape, store.dtype) for _ in range(_BUFFERS)]
        self._turn, self._stopped = 0, False

    def fill(self, start: int, stop: int) -> Any:
        if self._store.sparse:
            with self._lock:
                return self._store.read(start, stop)
        self._turn = 1 - self._turn
        room = self._rooms[self._turn][: stop - start]
        for first in range(start, stop, self._step):
            if self._stopped:
                break
            last = min(first + self._step, stop)
            with self._lock:
                self._store.read(first, last, room[first - start : last - start])
        return room

    def stop(self, coming: Future | None) -> None:
        """Let go of what is being read, without waiting for all of it."""
        self._stopped = True
        if coming is not None:
            coming.cancel()


def _kind_of(store: Store, found: Any) -> DenseRows | CSRRows:
    """Return what was read of a store, or no rows at all, as kernels take it: always of the same types."""
    if not store.sparse:
        values = np.empty((0, store.shape[1]), store.dtype) if found is None else found
        return DenseRows(frozen(values))
    index = np.int32 if store.shape[1] <= np.iinfo(np.int32).max else np.int64
    if found is None:
        return CSRRows(frozen(np.empty(0, store.dtype)), frozen(np.empty(0, index)), frozen(np.zeros(1, np.int64)))
    data, indices = found.data.astype(store.dtype, copy=False), found.indices.astype(index, copy=False)
    return CSRRows(frozen(data), frozen(indices), frozen(found.indptr.astype(np.int64, copy=False)))
