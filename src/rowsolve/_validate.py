"""Validation of the arguments of `solve`. Each error says what was expected, what was given and what to try."""

from __future__ import annotations

import difflib
import math
import re
import reprlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import pairwise
from os import PathLike
from typing import Any

import numpy as np

from rowsolve.kernels.rows import DenseRows, frozen, write_out
from rowsolve.methods import METHODS, Method
from rowsolve.methods.base import positive_integer
from rowsolve.parallel.memory import free_memory
from rowsolve.parallel.pool import available_cores, run_together
from rowsolve.parallel.vectors import sum_of_squares
from rowsolve.policy.thresholds import (
    IN_RANGE,
    MOSTLY_NONZERO,
    NUMBERS_BY_COLUMNS,
    NUMBERS_IN_CACHE,
    NUMBERS_TO_CHECK,
    SMALLEST,
)
from rowsolve.sources import Source, Store, StoredRows, open_rows
from rowsolve.sources.arrangement import read_arrangement
from rowsolve.sources.arrays import is_mapped
from rowsolve.sources.files import is_place, load_matrix, opened_with_b, vector_of
from rowsolve.sources.rows import as_columns
from rowsolve.sources.stored import memory_for, open_stored

__all__ = [
    "at_least_zero",
    "bounds_of",
    "check_of",
    "damp_of",
    "dense_if_mostly_nonzero",
    "generator_of",
    "make_sure_of_storage",
    "memory_of",
    "method_of",
    "opened_system",
    "outliers_of",
    "positive",
    "start_of",
    "system_in_memory",
    "system_of",
    "threads_of",
]  # fmt: skip

Bounds = tuple[np.ndarray, np.ndarray]
_OUR_STREAM = 7  # an arbitrary spawn key, so that our random numbers differ from those of the caller


def system_in_memory(A: Any, b: Any) -> tuple[Source, np.ndarray, float]:
    """Return the rows of `A`, `b` as float64 of shape (n,) or (n, k), and the relative precision of the data.

    Raises
    ------
    ValueError
        If `A` is a file that neither fits in memory nor can be memory-mapped.
    """
    if not is_place(A):
        return system_of(A, b)
    with opened_with_b(A, b) as (store, values):
        size, free = store.shape[0] * store.footprint.bytes_per_row, free_memory()
        if size > free and not is_mapped(store):
            raise ValueError(
                f"{store.name}: needs {size / 1e9:.3g} GB of memory, but only {free / 1e9:.3g} GB are free. Try "
                "converting it to .npy, which is memory-mapped (`rowsolve convert`); `solve` needs no conversion."
            )
        source = _looked_at(_in_memory(store), all_of_it=not is_mapped(store))
        return source, *_sides_of(values, source, _name_of(b))


@contextmanager
def opened_system(
    A: Any, b: Any, memory: Any, threads: int, *, check_finite: bool = True, all_of_it: bool = False
) -> Iterator[tuple[Source, np.ndarray, float]]:
    """Yield the same as `system_in_memory`, as a context manager that closes the files of `A`.

    The rows are left in their file if they do not fit in `memory` or, if that is None, would take most of the free
    memory. Rows in memory are checked for NaN and infinity if that takes negligible time, or if `all_of_it`.
    """
    allowed = None if memory is None else memory_of(memory)
    if allowed is None and not is_place(A):
        yield system_of(A, b, check_finite=check_finite, all_of_it=all_of_it)
        return
    with opened_with_b(A, b) as (store, values):
        source = _source_of(store, allowed, threads, values)
        try:
            if check_finite:
                source = _looked_at(source, all_of_it=all_of_it or (is_place(A) and not is_mapped(store)))
            sides, eps = _sides_of(values, source, _name_of(b), check_finite=check_finite)
            arrangement = read_arrangement(store.name, store.shape, sides, load_matrix)
            yield replace(source, arrangement=arrangement), sides, eps
        finally:
            source.close()


def system_of(
    A: Any, b: Any, *, check_finite: bool = True, all_of_it: bool = False
) -> tuple[Source, np.ndarray, float]:
    """Return the same as `system_in_memory` for an `A` that is in memory already."""
    source = open_rows(A)
    if check_finite:
        source = _looked_at(source, all_of_it=all_of_it)
    return source, *_sides_of(vector_of(b), source, _name_of(b), check_finite=check_finite)


def _source_of(store: Store, allowed: float | None, threads: int, values: Any) -> Source:
    """Return rows in memory if they fit there or can be mapped, else rows that are read from the store in chunks."""
    size = store.shape[0] * store.footprint.bytes_per_row
    if store.ndim == 2 and (size > free_memory() / 2 if allowed is None else 2 * size > allowed):
        n_rhs = 1 if np.ndim(values) < 2 else min(np.shape(values))
        limit = free_memory() // 4 if allowed is None else allowed
        return open_stored(store, memory_for(store, n_rhs, limit, threads))
    return _in_memory(store)


def _in_memory(store: Store) -> Source:
    return open_rows(store.whole(), store.name if store.files else "", store.columns)


def _looked_at(source: Source, *, all_of_it: bool) -> Source:
    """Return the rows, checked if they are so few that this takes negligible time, or if `all_of_it`.

    Raise if they have NaN or infinity. The rows of a larger A are checked as they are read.
    """
    if isinstance(source, StoredRows):
        if source.store.not_finite is not None:
            raise source.not_finite(*source.store.not_finite)
    elif not source.checked and (all_of_it or source.n_numbers <= _numbers_to_look_at(source)):
        found = source.first_not_finite()
        if found is not None:
            raise source.not_finite(*found)
        return replace(source, checked=True)
    return source


def _numbers_to_look_at(source: Source) -> float:
    """Return how many numbers can be checked in less than 3% of the time of the fastest solve (measured).

    For dense rows that is 0.4 ms, more with many columns. The indices of a sparse A are all checked in any case.
    """
    dense = isinstance(source.rows, DenseRows)
    few = NUMBERS_TO_CHECK + NUMBERS_BY_COLUMNS * source.shape[1] ** 2
    return min(NUMBERS_IN_CACHE, few) if dense else NUMBERS_IN_CACHE


def _name_of(where: Any) -> str:
    """Return the name of a file for messages; empty for data in memory."""
    return where.name if isinstance(where, Store) else str(where) if isinstance(where, str | PathLike) else ""


def _sides_of(values: Any, source: Source, place: str, *, check_finite: bool = True) -> tuple[np.ndarray, float]:
    """Return `b` as read-only float64 and the relative precision of the whole system; `place` is the file of b."""
    sides, eps = as_columns(values, "b", source.shape[0], "row of `A`", place=place, check_finite=check_finite)
    # The sums of squares rule out all but extreme cases without a closer look.
    squares = sum_of_squares(sides) if sides.ndim == 1 else np.einsum("ij,ij->j", sides, sides)
    if not IN_RANGE**-2 < np.min(squares) <= np.max(squares) < IN_RANGE**2:
        for largest in np.abs(sides).max(axis=0, keepdims=True).flat:
            if largest > 0.0 and not SMALLEST < largest < 1.0 / SMALLEST:
                raise ValueError(
                    f"`b` has entries up to {largest:.1e}, whose squares are out of the range of float64. "
                    "Try rescaling `b`."
                )
    return frozen(sides), max(source.eps, eps)


def dense_if_mostly_nonzero(source: Source, threads: int) -> Source:
    """Return a sparse A that is mostly nonzero as a dense one, which needs less memory and much less time."""
    n, p = source.shape
    if (
        isinstance(source, StoredRows)
        or isinstance(source.rows, DenseRows)
        or source.n_numbers <= MOSTLY_NONZERO * n * p
    ):
        return source
    if 8.0 * n * p > free_memory() / 2:
        return source
    values, parts = np.empty((n, p)), threads if n * p > NUMBERS_IN_CACHE else 1
    edges = [n * part // parts for part in range(parts + 1)]
    run_together([partial(write_out, source.rows, *part, values) for part in pairwise(edges)])  # scipy takes far longer
    return replace(source, rows=DenseRows(frozen(values)), entries_per_row=float(p), matrix=None)


def _methods_with(capability: str) -> str:
    """Return the names of the methods with a capability, quoted."""
    return ", ".join(repr(name) for name, each in METHODS.items() if getattr(each().can, capability))


def make_sure_of_storage(source: Source, method: Method | None) -> None:
    """Raise ValueError if the rows are read from a file in chunks and `method` needs all of them in memory."""
    if not isinstance(source, StoredRows):
        return
    if method is not None and not method.can.stored:
        able = _methods_with("stored")
        size = 2e-6 * source.shape[0] * source.store.footprint.bytes_per_row
        raise ValueError(
            f"method {method.name!r} needs all rows in memory, for which `memory` is too small. Try 'auto' or one of "
            f"{able}, or allow {math.ceil(size):,} MB."
        )


def damp_of(damp: Any, method: Method | None) -> float:
    """Return `damp`; raise ValueError unless it is finite, at least 0 and supported by `method`."""
    number = at_least_zero("damp", damp)
    if number > 0.0 and method is not None and not method.can.damp:
        raise ValueError(
            f"method {method.name!r} does not support `damp` (ridge regularization). "
            f"Try {_methods_with('damp')} or 'auto'."
        )
    return number


def bounds_of(bounds: Any, n_columns: int, sides: np.ndarray, method: Method | None) -> Bounds | None:
    """Return the lower and the upper bound of each entry of x; None if all of them are infinite."""
    if bounds is None:
        return None
    try:
        low, high = bounds
    except (TypeError, ValueError):
        raise ValueError(
            "`bounds` must be a pair (low, high) of numbers or arrays, such as (0, np.inf) for x >= 0, got "
            f"{reprlib.repr(bounds)}."
        ) from None
    low, high = _bound("lower", low, n_columns), _bound("upper", high, n_columns)
    empty = np.flatnonzero((low > high) | (low == math.inf) | (high == -math.inf))
    if empty.size:
        j = empty[0]
        raise ValueError(f"`bounds` are infeasible for entry {j} of x: from {low[j]:g} to {high[j]:g}.")
    if np.isinf(low).all() and np.isinf(high).all():
        return None
    if method is not None and not method.can.bounds:
        able = _methods_with("bounds")
        raise ValueError(f"method {method.name!r} does not support `bounds`. Try 'auto' or one of {able}.")
    if sides.ndim > 1:
        raise ValueError(
            f"`bounds` require a single right-hand side, got {sides.shape[1]} (the columns of `b`). Try solving for "
            "each column separately."
        )
    return frozen(low), frozen(high)


def _bound(name: str, value: Any, n_columns: int) -> np.ndarray:
    """Return `value` as an array with one number for each entry of x."""
    try:
        bound = np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        raise TypeError(
            f"the {name} bound must be a number or an array of numbers, got {reprlib.repr(value)}."
        ) from None
    if bound.shape not in ((), (n_columns,)):
        raise ValueError(
            f"the {name} bound must be a number or an array with one entry per column of `A`, {n_columns}: got shape "
            f"{bound.shape}."
        )
    bound = np.array(np.broadcast_to(bound, n_columns))
    if np.isnan(bound).any():
        raise ValueError(f"`bounds` must not be NaN, but the {name} bound of entry {int(np.isnan(bound).argmax())} is.")
    return bound


def start_of(x0: Any, n_columns: int, sides: np.ndarray) -> np.ndarray:
    """Return a copy of `x0`, or zeros, of shape (p,), or (k, p) for k right-hand sides."""
    shape = (n_columns, *sides.shape[1:])
    if x0 is None:
        return np.zeros(shape[::-1])
    start, _ = as_columns(vector_of(x0), "x0", n_columns, "column of `A`", place=_name_of(x0))
    if start.shape != shape:
        raise ValueError(f"`x0` must have the shape of x, {shape}, got {start.shape}.")
    return start.T.copy()


def method_of(method: Any, sides: np.ndarray) -> Method | None:
    """Return the method to run, or None for ``"auto"``; raise if it does not support several right-hand sides."""
    found = _method_of(method)
    if found is not None and sides.ndim > 1 and not found.can.many_b:
        able = _methods_with("many_b")
        raise ValueError(
            f"method {found.name!r} requires a single right-hand side, got {sides.shape[1]} (the columns of `b`). "
            f"Try 'auto' or one of {able}, or solve for each column separately."
        )
    return found


def _method_of(method: Any) -> Method | None:
    if isinstance(method, Method):
        return method
    if isinstance(method, type) and issubclass(method, Method):
        return method()
    if not isinstance(method, str):
        raise TypeError(f"`method` must be a name or a method such as rowsolve.Block(8), got {method!r}.")
    if method == "auto":
        return None
    if method not in METHODS:
        names = ["auto", *METHODS]
        near = difflib.get_close_matches(method.lower().replace("_", "-"), names, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}?" if near else f"expected one of {', '.join(names)}."
        raise ValueError(f"unknown method {method!r}: {hint} `rowsolve methods` lists all.")
    return METHODS[method]()


def at_least_zero(name: str, value: Any) -> float:
    """Return `value` as a float; raise ValueError unless it is finite and at least 0."""
    number = _number(name, value)
    if not 0.0 <= number < math.inf:
        raise ValueError(f"`{name}` must be a finite number of at least 0, got {value!r}.")
    return number


def positive(name: str, value: Any) -> float:
    """Return `value` as a float; raise ValueError unless it is positive (infinity means no limit)."""
    number = _number(name, value)
    if not number > 0.0:
        raise ValueError(f"`{name}` must be above 0, got {value!r}.")
    return number


def threads_of(threads: Any) -> int:
    """Return the number of threads: `threads`, or the number of available cores if it is None."""
    if threads is None:
        return available_cores()
    positive_integer("threads", threads)
    return int(threads)


def memory_of(memory: Any) -> float:
    """Return `memory` in bytes: a number, or text such as ``"256MB"`` or ``"1.5 GiB"``."""
    found = re.fullmatch(r"\s*([0-9.]+)\s*([KMGT]?)(I?)B?\s*", str(memory).upper())
    try:
        number = float(found[1]) * (1024 if found[3] else 1000) ** " KMGT".index(found[2] or " ") if found else 0.0
    except ValueError:  # 1.2.3
        number = 0.0
    if not number >= 1.0:
        raise ValueError(f"`memory` must be a number of bytes such as 1000000, '256MB' or '1.5GB', got {memory!r}.")
    return number


def check_of(check: Any) -> str:
    """Return `check`; raise ValueError unless it is ``"sampled"`` or ``"full"``."""
    if check not in ("sampled", "full"):
        raise ValueError(f"`check` must be 'sampled' or 'full', got {check!r}.")
    return check


def outliers_of(outliers: Any, method: Method | None, sides: np.ndarray, *, plain: bool) -> bool:
    """Return whether outliers may be left out; raise ValueError if that cannot be combined with other arguments.

    `plain` means that there are neither `damp` nor `bounds`.
    """
    if outliers not in ("keep", "drop"):
        raise ValueError(f"`outliers` must be 'keep' or 'drop', got {outliers!r}.")
    if outliers == "keep":
        return False
    if method is not None:
        raise ValueError(
            f"`outliers='drop'` requires method='auto', got {method.name!r}. Method 'quantile' always drops outliers."
        )
    if sides.ndim > 1:
        raise ValueError(
            f"`outliers='drop'` requires a single right-hand side, got {sides.shape[1]} (the columns of `b`). Try "
            "solving for each column separately."
        )
    if not plain:
        raise ValueError("`outliers='drop'` cannot be combined with `damp` or `bounds`.")
    return True


def generator_of(rng: Any) -> np.random.Generator:
    """Return `rng` if it is a generator, else a new one seeded with it.

    Its stream differs from that of ``default_rng(seed)``, from which A may have been made: the same numbers would
    correlate the random choices with A.
    """
    if isinstance(rng, np.random.Generator):
        return rng
    try:
        return np.random.default_rng(np.random.SeedSequence(rng, spawn_key=(_OUR_STREAM,)))
    except (TypeError, ValueError) as error:
        raise type(error)(f"`rng` must be an integer of at least 0 or a numpy.random.Generator, got {rng!r}.") from None


def _number(name: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise TypeError(f"`{name}` must be a number, got {value!r}.") from None
