"""The front door: validate, choose, prepare, drive."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from rowsolve import _validate
from rowsolve._solution import Event, Solution
from rowsolve.checkpoint.file import Checkpoint, memory_in
from rowsolve.engine.job import Job
from rowsolve.engine.small import solve_at_once, solve_small
from rowsolve.estimate.monitor import Tolerance
from rowsolve.export.output import make_sure_apart
from rowsolve.methods import Method, Refined
from rowsolve.policy.auto import rows_seem_to_agree
from rowsolve.policy.least_squares import is_small
from rowsolve.problem.stored import StoredSystem
from rowsolve.problem.system import Clock, System
from rowsolve.sources import Source, StoredRows
from rowsolve.sources.files import files_of_system

__all__ = ["solve"]

DEFAULT_PASSES = 1000
DEFAULT_WORK = 1e9  # numbers read
_REFINED = Refined()


def solve(
    A: Any,
    b: Any,
    method: str | Method = "auto",
    *,
    x0: Any = None,
    rtol: float = 1e-6,
    atol: float = 0.0,
    max_passes: float | None = None,
    max_seconds: float | None = None,
    damp: float = 0.0,
    bounds: Any = None,
    threads: int | None = None,
    memory: int | str | None = None,
    check: str = "sampled",
    check_finite: bool = True,
    outliers: str = "keep",
    rng: int | np.random.Generator | None = None,
    callback: Callable[[Event], Any] | None = None,
    checkpoint: str | PathLike[str] | None = None,
    resume: bool = False,
) -> Solution:
    """Solve the tall linear system ``A x = b`` a few rows at a time.

    Parameters
    ----------
    A : array_like or sparse matrix of shape (n, p), or path
        Anything with the array protocol, a memory map (read where it is, never copied), a scipy sparse matrix
        or array (CSR is taken as it is), a file (.npy, .npz, .mtx, .mtx.gz, .csv, .h5, .hdf5, .zarr, .parquet;
        ``rows.h5:/A`` is a dataset, ``t.csv:x,y`` are columns), or a function that returns an iterator of
        ``(A_chunk, b_chunk)``, with None for `b`. If `b` names columns of the file of `A`, `A` is the
        others. A column that holds no numbers, or lacks a value, raises ValueError. float32 and float64 are kept; x is
        computed in float64 in any case. C order is fast. Fortran order works without a copy: passes over all rows take
        up to 1.5 times as long, and rows at random, which ``"auto"`` then avoids, up to 15 times.
    b : array_like of shape (n,) or (n, k), or path
        A vector, or k right-hand sides (sparse ones are made dense), which are solved for at once: each row of A is
        read once for all of them. Not every method can (``"direct"``, ``"refined"``, and those that draw rows without
        looking at x). Everything about errors then holds for each column by itself.
    method : str or Method
        A name (``rowsolve methods`` lists them) or an object with parameters such as ``rowsolve.Block(8)``.
        ``"auto"`` begins with what is fastest if all is well and goes on with another method if it is not: x is the
        least-squares solution, which solves the equations if they can be solved. The message says which methods ran
        and why; docs/choosing.md has the decisions.
    x0 : array_like of shape (p,), or (p, k) if `b` is (n, k), or path, optional
        Where to start; zero if not given. When many x satisfy the equations (wide or rank-deficient A), the
        result is the solution nearest to `x0`: the one of least norm for ``x0 = 0``.
    rtol, atol : float
        Stop when the estimated ``norm(x - x*)`` is at most ``rtol * norm(x) + atol``. This is about x, not
        about a residual. In this ``norm(x)`` counts as at least ``eps * norm(x0)``, where eps is the precision of A and
        b: from a huge `x0` no tiny x can be told from 0.
    max_passes : float, optional
        Stop when as many rows have been read as there are in A this many times, preparation included. A run
        that would clearly need more because A is ill-conditioned stops at once and says so. The last check, of
        256 rows, comes on top; and a method that reads all rows in every step (``"refined"``) takes its first step in
        any case, and may end with one pass or two more, for a factor or a fresh gradient; a system so small that it is
        factored at once takes up to ten. If not given, as many as `max_seconds` allows; if that is not given either,
        1,000, and more for a small A: as many as a few seconds of work.
    max_seconds : float, optional
        Stop after this time (compiling or loading the kernels, once in a process, not counted).
    damp : float
        Above 0, x minimises ``norm(A x - b)**2 + damp**2 * norm(x)**2`` (as scipy's lsqr), by method ``"refined"``.
    bounds : pair (low, high) of floats or array_like of shape (p,), optional
        The least and the largest value of each entry of x, as in scipy's lsq_linear; ``(0, np.inf)`` for x >= 0. x is
        within them exactly, and `x0` is brought within them. ``"refined"`` and ``"auto"`` find the x within the bounds
        that minimises ``norm(A x - b)**2`` (plus the damping, if any). Methods that project on rows (not all can) find
        an x within the bounds that satisfies the equations, if there is one. If there are many, it need not be the
        nearest to `x0`. One right-hand side at a time.
    threads : int, optional
        How many threads may work; if not given, as many as there are cores (as far as affinity and control group
        allow). Methods that draw rows without looking at x then run a chain of steps on each thread, from the same x on
        different rows, and go on from the best point that all chains together can reach; small systems, where that
        does not pay, and methods with `memory` stay on one thread. With ``threads=1`` every method takes its steps one
        after another, as published. BLAS is kept to as many threads while it works for a solve.
    memory : int or str, optional
        Bytes to keep to, such as ``"300MB"``, above what the interpreter and its libraries take. A that does not fit
        stays where it is and is read in chunks, in random order, the next one while this one is worked on; a .npy file
        is mapped, not copied. Methods work on one chunk after another (``"accelerated-block"`` and ``"extended"``
        cannot). If not given, A is read whole (or mapped), unless it would take more than half of the free memory.
    check : {"sampled", "full"}
        Before x is given back, look at 256 random rows that were never used, or at all rows.
    check_finite : bool
        Whether to look for NaN and infinity in `A` and `b` beforehand, as in scipy. All of `b` is looked at, and all of
        `A` if that takes no time: if it has no more than 90,000 + 4 p**2 numbers (1 million at most), is sparse with
        at most 1 million, or has just been read from a file. The rows of a larger one are looked at as they are read;
        the message then says how many were, and ``check="full"`` is sure to find one. If False, only the rows of `A`
        that are read are looked at: with NaN or infinity elsewhere, or in `b`, the result is undefined.
    outliers : {"keep", "drop"}
        With ``"drop"``, ``"auto"`` looks for an x without rows whose b is far off, if there are a few: x then solves
        the others, which must agree with each other and determine x, and `rows_off` of the solution lists those left
        out. If there is no such x, it is the least-squares solution of all rows, and the message says so. One
        right-hand side, without `damp` and `bounds`.
    rng : int or numpy.random.Generator, optional
        The same seed and the same number of threads give the same bits.
    callback : callable, optional
        Called with an `Event` after every burst of rows; returning True stops the run.
    checkpoint : path, optional
        A file for the state of the solve, replaced every 5 seconds or so, whole or not at all. It is left there: remove
        it when x is safe. It holds numbers, text and arrays, nothing that could be run. Must not be a file that `A`,
        `b` or `x0` is read from.
    resume : bool
        Go on from `checkpoint`, if there is such a file: x is then the same, bit for bit, as without an interruption.
        One of other data or other arguments is refused (`max_passes`, `max_seconds` and `callback` may be others).

    Returns
    -------
    Solution

    Raises
    ------
    ValueError, TypeError
        For arguments that make no sense, and for NaN or infinity in `b` or in a row that is looked at.

    Notes
    -----
    Ctrl-C ends the run with ``Status.INTERRUPTED`` and the x so far.

    A direction of x that only a few rows carry is invisible until one of them is drawn; ``check="full"`` is
    sure to see it.

    Examples
    --------
    >>> import numpy as np, rowsolve
    >>> rng = np.random.default_rng(0)
    >>> A = rng.standard_normal((2000, 50))
    >>> solution = rowsolve.solve(A, A @ np.ones(50), rng=0)
    >>> solution.status.name, bool(np.allclose(solution.x, 1, atol=1e-5))
    ('CONVERGED', True)
    """
    is_seed = rng is None or (type(rng) is int and rng >= 0)  # to make a generator takes a part of a small solve
    nothing_asked = x0 is memory is bounds is callback is checkpoint is max_passes is max_seconds is None
    if nothing_asked and is_seed:
        plain = method == "auto" and damp == 0.0 and check == "sampled" and outliers == "keep" and not resume
        found = solve_at_once(A, b, rtol, atol, threads) if plain else None
        if found is not None:
            return found
    told = _callback_for(callback, b)
    n_threads = _validate.threads_of(threads)
    if checkpoint is not None:
        make_sure_apart(Path(checkpoint), files_of_system(A, b, x0))
    if memory is None and checkpoint is not None and resume:
        memory = memory_in(checkpoint)
    whole = checkpoint is not None  # for which all of A is read beforehand
    with _validate.opened_system(
        A, b, memory, n_threads, check_finite=check_finite, all_of_it=whole
    ) as (given, sides, eps):  # fmt: skip
        chosen = _validate.method_of(method, sides)
        source = _validate.written_out(given, n_threads) if chosen is None and memory is None else given
        stored = _validate.stored_of(source, chosen)
        start = _validate.start_of(x0, source.shape[1], sides)
        limits = _validate.bounds_of(bounds, source.shape[1], sides, chosen)
        if limits is not None:
            start = np.clip(start, *limits)
        damping = _validate.damp_of(damp, chosen)
        tolerance = Tolerance(_validate.at_least_zero("rtol", rtol), _validate.at_least_zero("atol", atol), eps)
        seconds = math.inf if max_seconds is None else _validate.positive("max_seconds", max_seconds)
        max_rows = _rows_allowed(max_passes, seconds, source)
        check = _validate.check_of(check)
        drop = _validate.outliers_of(outliers, chosen, sides, plain=damping == 0.0 and limits is None)
        generator = None if is_seed else _validate.generator_of(rng)
        at_once = checkpoint is None and not resume and callback is None and memory is None and not drop
        if at_once and limits is None and check == "sampled" and _is_small(chosen, source, sides, max_rows, seconds):
            solution = solve_small(source.as_matrix(), sides, start, damping, tolerance, n_threads, auto=chosen is None)
            if solution is not None:
                return _as_given(solution, b)
        generator = generator or _validate.generator_of(rng)
        kind = StoredSystem if stored else System
        system = kind(source, sides, Clock(seconds), n_threads, damping, limits)  # type: ignore[arg-type]
        if memory is not None and not stored:
            system.room = _validate.memory_of(memory) - sum(part.nbytes for part in source.rows)
        job = Job(chosen, start, system, tolerance, max_rows, check, generator, told, drop=drop)
        if checkpoint is not None:
            seed = None if isinstance(rng, np.random.Generator) else repr(rng)
            fingerprint = job.fingerprint(method=repr(method), rng=seed, memory=_memory_used(source, memory))
            job = job.kept_in(Checkpoint(checkpoint, fingerprint, resume=resume))
        elif resume:
            raise ValueError("`resume` needs the file to go on from: `checkpoint`.")
        solution = job.go()
        if check_finite and (words := _not_checked(job.system, solution)):
            solution = replace(solution, message=f"{solution.message} {words}")
    return _as_given(solution, b)


def _is_small(method: Method | None, source: Source, b: np.ndarray, max_rows: float, seconds: float) -> bool:
    """Tell whether the rows are in memory, and so few that LAPACK takes next to no time."""
    n, p = source.shape
    if isinstance(source, StoredRows) or max_rows < n or method not in (None, _REFINED):
        return False
    if seconds < math.inf or not is_small(source.rows, n, p, b[0].size):
        return False
    return method is not None or not rows_seem_to_agree(source.rows, b)


def _as_given(solution: Solution, b: Any) -> Solution:
    """Return x as a column if b is one."""
    return replace(solution, x=solution.x[:, None]) if _in_a_column(b) else solution


def _in_a_column(b: Any) -> bool:
    """Tell whether b is a matrix of one column; a file that holds one has a vector."""
    return np.ndim(b) == 2 and np.shape(b)[1] == 1


def _not_checked(system: System, solution: Solution) -> str:
    """Say how many rows were looked at for NaN and infinity, if not all were."""
    fresh = solution.residual.n_fresh if solution.residual else 0
    n_checked = min(system.n_checked + fresh, system.n_rows)
    if n_checked == system.n_rows:
        return ""
    return f"Only the {n_checked:,} rows that were read (of {system.n_rows:,}) were checked for NaN and infinity."


def _callback_for(callback: Any, b: Any) -> Callable[[Event], Any] | None:
    """Return what is called after every burst: x is a column if b is one."""
    if callback is not None and not callable(callback):
        raise TypeError(f"`callback` must be callable, got {callback!r}.")
    return _with_column(callback) if callback is not None and _in_a_column(b) else callback


def _with_column(callback: Callable[[Event], Any]) -> Callable[[Event], Any]:
    """Return a callback that is told of x as a matrix with one column, as it will be given back."""
    return lambda event: callback(replace(event, x=event.x[:, None]))


def _memory_used(source: Source, memory: int | str | None) -> int | None:
    if isinstance(source, StoredRows):
        return int(source.memory.allowed)
    return None if memory is None else int(_validate.memory_of(memory))


def _rows_allowed(max_passes: float | None, seconds: float, source: Source) -> float:
    if max_passes is not None:
        return _validate.positive("max_passes", max_passes) * source.shape[0]
    if seconds < math.inf:
        return math.inf
    return max(DEFAULT_PASSES * source.shape[0], DEFAULT_WORK / max(1.0, source.entries_per_row))
