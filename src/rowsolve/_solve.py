"""The function `solve`: check the arguments, prepare the system and run the solve."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from rowsolve import _validate
from rowsolve._solution import Event, History, Solution
from rowsolve.checkpoint.file import Checkpoint, memory_in
from rowsolve.engine.job import Job
from rowsolve.engine.small import solve_at_once, solve_small
from rowsolve.engine.stage import Context, Task
from rowsolve.estimate.tolerance import Tolerance
from rowsolve.export.output import make_sure_apart
from rowsolve.methods import Method, Refined
from rowsolve.policy.auto import sample_is_consistent
from rowsolve.policy.least_squares import is_small
from rowsolve.policy.thresholds import DEFAULT_NUMBERS, DEFAULT_PASSES
from rowsolve.problem.clock import Clock
from rowsolve.problem.system import System
from rowsolve.sources import Source, StoredRows
from rowsolve.sources.files import files_of_system

__all__ = ["solve"]

_REFINED = Refined()
_USUAL = ("auto", 0.0, "sampled", "keep", False)  # method, damp, check, outliers, resume


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
    """Solve the tall linear system ``A x = b`` by reading a few rows at a time.

    Parameters
    ----------
    A : array_like or sparse matrix of shape (n, p), path, or callable
        The matrix. It may be an array or a memory map (read in place, without a copy), a scipy sparse matrix or array
        (CSR is used without conversion), a file (.npy, .npz, .mtx, .mtx.gz, .csv, .h5, .hdf5, .zarr, .parquet;
        ``rows.h5:/A`` is a dataset, ``t.csv:x,y`` are columns), or a function without arguments that returns an
        iterator of ``(A_chunk, b_chunk)``, with ``b=None``. If `b` names columns of the file of `A`, then `A` is the
        other columns. A column that is not numeric, or that has a missing value, raises ValueError. float32 and
        float64 are read as they are; x is always computed in float64. C order is fastest. Fortran order needs no copy,
        but passes over all rows take up to 1.5 times as long, and reading random rows, which ``"auto"`` then avoids, up
        to 15 times.
    b : array_like of shape (n,) or (n, k), or path
        The right-hand side, or k of them (sparse ones are made dense), which are solved for together: each row of A is
        read once for all of them. Only some methods support this: ``"direct"``, ``"refined"``, and those that draw rows
        independently of x. Tolerances and error estimates then apply to each column separately.
    method : str or Method
        A name (``rowsolve methods`` lists them) or an instance with parameters such as ``rowsolve.Block(8)``.
        ``"auto"`` starts with the method that is fastest for a well-behaved system and switches to another one if that
        fails: x is the least-squares solution, which solves the equations if the system is consistent. The message
        says which methods ran and why; docs/choosing.md describes the decisions.
    x0 : array_like of shape (p,), or (p, k) if `b` is (n, k), or path, optional
        Initial guess, zero by default. If the solution is not unique (wide or rank-deficient A), x is the solution
        nearest to `x0`: the minimum-norm solution for ``x0 = 0``.
    rtol, atol : float
        Stop when the estimated error ``norm(x - x*)`` is at most ``rtol * norm(x) + atol``. `rtol` bounds the relative
        error of x, not the residual. Here ``norm(x)`` counts as at least ``eps * norm(x0)``, where eps is the precision
        of A and b, because a tiny x cannot be distinguished from 0 if `x0` is huge.
    max_passes : float, optional
        Stop when ``max_passes * n`` rows have been read, preparation included. A run that would clearly need more
        because A is ill-conditioned stops early, and the message says so. The limit may be exceeded by the final check
        of 256 rows; by ``"refined"``, which reads all rows in every step: it always takes the first step, and may end
        with one or two further passes for a factor or a recomputed gradient; and by a system so small that it is
        factored right away, which takes up to ten passes. The default is no limit if `max_seconds` is given, else
        1,000, and more for a small A: as many as a few seconds of work.
    max_seconds : float, optional
        Stop after this time. Compiling or loading the kernels, which happens once per process, is not counted.
    damp : float
        If positive, x minimises ``norm(A x - b)**2 + damp**2 * norm(x)**2``, as in `scipy.sparse.linalg.lsqr`, by
        method ``"refined"``.
    bounds : pair (low, high) of floats or array_like of shape (p,), optional
        Lower and upper bounds on the entries of x, as in `scipy.optimize.lsq_linear`; ``(0, np.inf)`` for x >= 0. x
        satisfies them exactly, and `x0` is clipped to them. ``"refined"`` and ``"auto"`` minimise
        ``norm(A x - b)**2`` (plus the damping, if any) within the bounds. Methods that project on rows (not all of them
        support bounds) find an x within the bounds that satisfies the equations, if there is one; if there are many, it
        need not be the nearest to `x0`. Requires a single right-hand side.
    threads : int, optional
        Number of threads; by default the number of available cores, as limited by affinity and control group. Methods
        that draw rows independently of x then run a chain of steps on each thread, from the same x on different rows,
        and continue from the best point in the span of all chains. Small systems, for which that does not pay, and
        methods with their parameter `n_directions` set use one thread. With ``threads=1`` every method takes its steps
        sequentially, as published. BLAS is limited to the same number of threads during the solve.
    memory : int or str, optional
        Memory limit, in bytes or as in ``"300MB"``, in addition to what the interpreter and its libraries take. An A
        that does not fit stays in its file and is read in chunks, in random order, each prefetched while the previous
        one is used; a .npy file is memory-mapped, not copied. Methods work on one chunk after another
        (``"accelerated-block"`` and ``"extended"`` cannot, and raise ValueError). By default A is read into memory (or
        mapped), unless it would take more than half of the free memory.
    check : {"sampled", "full"}
        Which rows to check before x is returned: 256 random rows that were not used before, or all rows.
    check_finite : bool
        Whether to check `A` and `b` for NaN and infinity before the solve, as in scipy. All of `b` is checked, and all
        of `A` if that takes negligible time: if it has at most 100,000 + 4 p**2 entries (and at most 1 million), is
        sparse with at most 1 million stored entries, or has just been read from a file. The rows of a larger `A` are
        checked as they are read; the message then tells how many were, and ``check="full"`` checks all. If False, only
        the rows of `A` that are read are checked: with NaN or infinity elsewhere, or in `b`, the result is undefined.
    outliers : {"keep", "drop"}
        With ``"drop"``, ``"auto"`` looks for an x without rows that are outliers (a few grossly wrong entries of b). x
        then solves the other rows, which must be consistent and determine x, and `rows_off` of the solution lists those
        left out. If there is no such x, x is the least-squares solution of all rows, and the message says so. Requires
        a single right-hand side, and neither `damp` nor `bounds`.
    rng : int or numpy.random.Generator, optional
        Seed or generator for the random choices. The same seed and the same number of threads give the same x, bit for
        bit.
    callback : callable, optional
        Called with an `Event` after every burst of rows. The run stops if it returns True.
    checkpoint : path, optional
        A file for the state of the solve, replaced atomically about every 5 seconds. It is not removed at the end. It
        holds numbers, text and arrays, never code. It must not be a file that `A`, `b` or `x0` is read from.
    resume : bool
        Resume from `checkpoint` if that file exists. x is then the same, bit for bit, as without the interruption. A
        checkpoint of other data or other arguments raises ValueError (`max_passes`, `max_seconds` and `callback` may
        differ).

    Returns
    -------
    Solution

    Raises
    ------
    ValueError, TypeError
        If an argument is invalid, or if `b` or a row of `A` that is checked contains NaN or infinity.

    Notes
    -----
    Ctrl-C ends the run with ``Status.INTERRUPTED`` and the current x.

    A component of x that only a few rows determine goes unnoticed until one of these rows is drawn; ``check="full"``
    always detects it.

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
    usual = x0 is memory is bounds is callback is checkpoint is max_passes is max_seconds is None
    if is_seed and usual and (method, damp, check, outliers, resume) == _USUAL:
        found = solve_at_once(A, b, rtol, atol, threads)
        if found is not None:
            return found
    memory = _memory_for(checkpoint, memory, (A, b, x0), resume=resume)
    told, n_threads = _callback_for(callback, b), _validate.threads_of(threads)
    with _validate.opened_system(
        A, b, memory, n_threads, check_finite=check_finite, all_of_it=checkpoint is not None
    ) as (given, sides, eps):  # fmt: skip
        tolerance = Tolerance(_validate.at_least_zero("rtol", rtol), _validate.at_least_zero("atol", atol), eps)
        request = _request(
            given, sides, method, memory, x0, bounds, damp, tolerance, max_passes, max_seconds, check, outliers,
            n_threads,
        )  # fmt: skip
        generator = None if is_seed else _validate.generator_of(rng)
        solution = _at_once(request, plain=checkpoint is callback is memory is None)
        if solution is None:
            generator = generator or _validate.generator_of(rng)
            context = Context(_system_of(request, memory), tolerance, generator, History(), told)
            job = Job(context, request.task)
            if checkpoint is not None:
                identity = job.fingerprint(**_identity(request.source, method, rng, memory))
                job = job.kept_in(Checkpoint(checkpoint, identity, resume=resume))
            solution = job.go()
            if check_finite:
                solution = _with_remark(solution, context.system)
    return _as_given(solution, b)


@dataclass(frozen=True)
class _Request:
    """The arguments of a solve, checked."""

    task: Task
    source: Source
    b: np.ndarray
    bounds: Any
    damp: float
    tolerance: Tolerance
    seconds: float
    threads: int


def _request(
    given: Source, b: np.ndarray, method: Any, memory: Any, x0: Any, bounds: Any, damp: Any, tolerance: Tolerance,
    max_passes: Any, max_seconds: Any, check: Any, outliers: Any, threads: int,
) -> _Request:  # fmt: skip
    """Check the other arguments against A and b."""
    chosen = _validate.method_of(method, b)
    source = _validate.dense_if_mostly_nonzero(given, threads) if chosen is None and memory is None else given
    _validate.make_sure_of_storage(source, chosen)
    start = _validate.start_of(x0, source.shape[1], b)
    limits = _validate.bounds_of(bounds, source.shape[1], b, chosen)
    if limits is not None:
        start = np.clip(start, *limits)
    damping = _validate.damp_of(damp, chosen)
    seconds = math.inf if max_seconds is None else _validate.positive("max_seconds", max_seconds)
    max_rows = _rows_allowed(max_passes, seconds, source)
    drop = _validate.outliers_of(outliers, chosen, b, plain=damping == 0.0 and limits is None)
    task = Task(chosen, start, max_rows, _validate.check_of(check), drop)
    return _Request(task, source, b, limits, damping, tolerance, seconds, threads)


def _at_once(request: _Request, *, plain: bool) -> Solution | None:
    """Return the solution of a small system, without stages; None if it is not small, or needs the general code.

    `plain` is whether no callback, checkpoint or memory limit needs it.
    """
    task = request.task
    plain = plain and not task.drop and request.bounds is None and task.check == "sampled"
    if not plain or not _is_small(request):
        return None
    return solve_small(
        request.source.as_matrix(), request.b, task.x0, request.damp, request.tolerance, request.threads,
        auto=task.method is None,
    )  # fmt: skip


def _is_small(request: _Request) -> bool:
    """Return whether the rows are in memory, and so few that LAPACK takes hardly any time."""
    task, source, b = request.task, request.source, request.b
    n, p = source.shape
    if isinstance(source, StoredRows) or task.max_rows < n or task.method not in (None, _REFINED):
        return False
    if request.seconds < math.inf or not is_small(source.rows, n, p, b[0].size):
        return False
    return task.method is not None or not sample_is_consistent(source.rows, b)


def _system_of(request: _Request, memory: Any) -> System:
    """Return the system; a file that is read in chunks has its share of `memory` already."""
    source, clock, workspace_bytes = request.source, Clock(request.seconds), math.inf
    if memory is not None and not isinstance(source, StoredRows):
        workspace_bytes = _validate.memory_of(memory) - sum(part.nbytes for part in source.rows)
    return System(source, request.b, clock, request.threads, request.damp, request.bounds, workspace_bytes)


def _memory_for(checkpoint: Any, memory: Any, data: tuple[Any, Any, Any], *, resume: bool) -> Any:
    """Return the memory limit; if it is None, that of the checkpoint to resume from.

    Raise ValueError if there is nothing to resume from, or if the checkpoint is a file of the `data`: A, b and x0.
    """
    if checkpoint is not None:
        make_sure_apart(Path(checkpoint), files_of_system(*data))
    elif resume:
        raise ValueError("`resume` requires `checkpoint`, the file to resume from.")
    return memory_in(checkpoint) if resume and memory is None else memory


def _identity(source: Source, method: Any, rng: Any, memory: int | str | None) -> dict[str, Any]:
    """Return the arguments that a solve must have in common with its checkpoint, besides those of the `Job`."""
    seed = None if isinstance(rng, np.random.Generator) else repr(rng)
    return {"method": repr(method), "rng": seed, "memory": _memory_used(source, memory)}


def _as_given(solution: Solution, b: Any) -> Solution:
    """Return the solution with x as a matrix of one column if b is one."""
    return replace(solution, x=solution.x[:, None]) if _in_a_column(b) else solution


def _in_a_column(b: Any) -> bool:
    """Return whether b is a matrix of one column; a column in a file counts as a vector."""
    return np.ndim(b) == 2 and np.shape(b)[1] == 1


def _with_remark(solution: Solution, system: System) -> Solution:
    """Return the solution with a remark on how many rows were checked for NaN and infinity, if not all were."""
    fresh = solution.row_check.n_fresh if solution.row_check else 0
    n_checked = min(system.counter.n_checked + fresh, system.n_rows)
    if n_checked == system.n_rows:
        return solution
    words = f"Only the {n_checked:,} rows that were read (of {system.n_rows:,}) were checked for NaN and infinity."
    return replace(solution, message=f"{solution.message} {words}")


def _callback_for(callback: Any, b: Any) -> Callable[[Event], Any] | None:
    """Return the callback for every burst; it gets x as a matrix of one column if b is one."""
    if callback is not None and not callable(callback):
        raise TypeError(f"`callback` must be callable, got {callback!r}.")
    return _with_column(callback) if callback is not None and _in_a_column(b) else callback


def _with_column(callback: Callable[[Event], Any]) -> Callable[[Event], Any]:
    """Return a callback that gets x as a matrix of one column, as in the solution."""
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
    return max(DEFAULT_PASSES * source.shape[0], DEFAULT_NUMBERS / max(1.0, source.entries_per_row))
