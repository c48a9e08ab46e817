"""Stores that are read sequentially, block by block."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any

import numpy as np

from rowsolve.kernels.rows import frozen
from rowsolve.kernels.turned import turn
from rowsolve.sources.csr import canonical, checked_csr, is_sparse
from rowsolve.sources.finite import first_not_finite
from rowsolve.sources.store import Footprint, Store, StoreError, output

__all__ = ["Chunks", "Streamed", "prefetched"]


class Streamed(Store):
    """Rows that are read in blocks, the current one of which is kept in memory.

    So a read within the current block is free, and consecutive reads continue where the previous one ended.
    """

    by_columns = False  # whether blocks are in Fortran order
    _first: int  # the first row of the current block
    _block: Any = None
    _to_come: Iterator[tuple[int, Any]]

    @abstractmethod
    def _blocks(self, row: int) -> Iterator[tuple[int, Any]]:
        """Yield (first row, block), from `_nearest(row)` on."""

    @abstractmethod
    def _nearest(self, row: int) -> int:
        """Return the last row up to `row` at which reading can start."""

    def _read(self, start: int, stop: int, out: np.ndarray | None) -> Any:
        parts = self._parts(start, stop) if start < stop else iter(())
        if self.sparse:
            from scipy import sparse

            none = sparse.csr_array((0, self.shape[1]), dtype=self.dtype)
            rows = (block[first:last] for block, first, last in parts)
            return sparse.vstack([none, *rows], format="csr", dtype=self.dtype)
        out = output(self, stop - start, out)
        filled = 0
        for block, first, last in parts:
            place = out[filled : filled + last - first]
            if self.by_columns and out.dtype == block.dtype == float and out.flags.c_contiguous:
                turn(frozen(block.T), first, last, place)  # takes half the time of numpy
            else:
                place[...] = block[first:last]
            filled += last - first
        return out

    def _parts(self, start: int, stop: int) -> Iterator[tuple[Any, int, int]]:
        """Yield the blocks that hold rows `start` to `stop`, each with the range of these rows in the block."""
        try:
            self._go_to(start)
            while True:
                last = min(stop - self._first, self._block.shape[0])
                yield self._block, start - self._first, last
                start = self._first + last
                if start >= stop:
                    return
                self._advance()
        except BaseException:
            self._block = None  # the position in the stream is unknown
            raise

    def _go_to(self, row: int) -> None:
        if self._block is None or row < self._first or self._nearest(row) > self._first + self._block.shape[0]:
            self._to_come = self._blocks(row)
            self._advance()
        while row >= self._first + self._block.shape[0]:
            self._advance()

    def _advance(self) -> None:
        found = next(self._to_come, None)
        if found is not None:
            self.bytes_read += found[1].shape[0] * self.footprint.stored_bytes_per_row
        else:
            raise StoreError(f"{self.name}: has fewer rows than when it was opened ({self.shape[0]}).")
        self._first, self._block = found

    def _count(self, start: int, stop: int) -> None:
        """Do nothing: blocks are counted as they are read."""

    def close(self) -> None:
        """Release the block and the stream."""
        self._block, self._to_come = None, iter(())


class Chunks(Streamed):
    """Rows from a function: each call returns an iterator of ``(A_chunk, b_chunk)``, with the same values each time.

    A first pass counts the rows, checks them, and keeps b (`rhs`) in memory.

    Parameters
    ----------
    factory : callable
        A function without arguments. The chunks of A may be dense or sparse, and have any number of rows.
    name : str
        Name for messages.
    """

    ordered = True
    checked = True

    def __init__(self, factory: Callable[[], Iterable[tuple[Any, Any]]], name: str = "the chunks of `A`") -> None:
        self.name, self._factory = name, factory
        n_rows = n_entries = n_columns = largest = 0
        dtypes: list[np.dtype] = [np.dtype(np.float16)]
        sides = []
        for number, (A, b) in enumerate(self._pairs()):
            n_columns = n_columns or A.shape[1]
            if A.shape[1] != n_columns:
                raise StoreError(f"{name}: chunk {number} has {A.shape[1]} columns, but chunk 0 has {n_columns}.")
            if self.not_finite is None and (found := first_not_finite(A)):
                self.not_finite = found._replace(row=n_rows + found.row)
            n_rows, largest = n_rows + A.shape[0], max(largest, A.shape[0])
            n_entries += A.nnz if is_sparse(A) else A.size
            self.sparse = is_sparse(A) if number == 0 else self.sparse and is_sparse(A)
            dtypes.append(A.dtype if A.dtype.kind == "f" else np.dtype(np.float64))
            sides.append(np.asarray(b))
        stored_dtype = np.result_type(*dtypes)
        per_row = n_entries / max(1, n_rows) if self.sparse else float(n_columns)
        footprint = Footprint.of_chunks(per_row, stored_dtype, largest)
        super().__init__(name, (n_rows, n_columns), stored_dtype, chunk=largest, footprint=footprint)
        self.rhs = np.concatenate(sides)

    def _nearest(self, row: int) -> int:  # noqa: ARG002  reading can only start at the first row
        return 0

    def _blocks(self, row: int) -> Iterator[tuple[int, Any]]:  # noqa: ARG002
        first = 0
        for A, _ in self._pairs():
            if A.shape[1] != self.shape[1]:
                raise StoreError(
                    f"{self.name}: the rows from {first} on have {A.shape[1]} columns instead of {self.shape[1]}."
                )
            if A.shape[0]:
                yield first, A if self.sparse or not is_sparse(A) else A.toarray()
            first += A.shape[0]

    def _pairs(self) -> Iterator[tuple[Any, np.ndarray]]:
        """Yield the chunks after checking their types and shapes."""
        for number, pair in enumerate(self._factory()):
            place = f"{self.name}: chunk {number}"
            if not isinstance(pair, tuple) or len(pair) != 2:
                raise StoreError(f"{place} must be a pair (A_chunk, b_chunk), got {type(pair).__name__}.")
            A = pair[0] if is_sparse(pair[0]) else np.asarray(pair[0])
            b = np.asarray(pair[1])
            if A.ndim != 2 or A.dtype.kind not in "fiub" or b.dtype.kind not in "fiub":
                raise StoreError(
                    f"{place} must hold real numbers, and A_chunk must have two dimensions: got {A.dtype} of shape "
                    f"{A.shape} for A_chunk and {b.dtype} for b_chunk."
                )
            if b.ndim not in (1, 2) or b.shape[0] != A.shape[0]:
                raise StoreError(f"{place}: A_chunk has {A.shape[0]} rows, but b_chunk has shape {b.shape}.")
            yield (canonical(checked_csr(A)) if is_sparse(A) else A), b


def prefetched(items: Iterator[Any]) -> Iterator[Any]:
    """Yield `items`; from the second one on, the next item is computed in a background thread.

    The first is yielded at once, so that reading a few scattered rows does not wait for a second item.
    """
    yield from islice(items, 1)
    with ThreadPoolExecutor(1, thread_name_prefix="rowsolve-decoder") as maker:
        coming = maker.submit(next, items, None)
        while (item := coming.result()) is not None:
            coming = maker.submit(next, items, None)
            yield item
