"""`inspect`: the analysis of a system without solving it."""

from __future__ import annotations

from typing import Any

import numpy as np

from rowsolve import _validate
from rowsolve.engine.run import Run
from rowsolve.estimate.tolerance import Tolerance
from rowsolve.inspection.advice import advise
from rowsolve.inspection.forecast import load_kernels, measure, predict
from rowsolve.inspection.groups import look_at_directions, rows_to_compare
from rowsolve.inspection.report import Effort, Layout, Noise, Report
from rowsolve.inspection.sample import condition_of, fit, rows_to_factor, take_sample
from rowsolve.kernels.rows import CSRRows
from rowsolve.policy.thresholds import SAMPLED_COLUMNS
from rowsolve.problem.system import System
from rowsolve.sources import Source

__all__ = ["inspect"]


def inspect(
    A: Any, b: Any, *, rtol: float = 1e-6, threads: int | None = None, rng: int | np.random.Generator | None = None
) -> Report:
    """Analyse ``A x = b`` without solving it: condition number, clusters, noise, and the cost of each method.

    The analysis reads a sample of the rows and times the methods on parts of A. Its results hold for the sample: rows
    that were not read may differ. Results that are unknown are None.

    Parameters
    ----------
    A, b
        As for `solve`, with a single right-hand side. A must fit in memory, unless it is a .npy file, which is
        memory-mapped: a file that needs more memory than is free raises ValueError.
    rtol : float
        The relative error ``norm(x - x*) / norm(x)`` for which the cost is predicted.
    threads : int, optional
        The number of threads with which the methods are timed, as for `solve`.
    rng : int or numpy.random.Generator, optional
        Seed or generator for the sample. The same seed samples the same rows; times vary.

    Returns
    -------
    Report
        The results; ``print(report)`` shows them as text.

    Raises
    ------
    ValueError, TypeError
        As for `solve`. `A` and `b` are checked for NaN and infinity in the same way; ``report.checked`` tells whether
        all of `A` was checked.

    Examples
    --------
    >>> import numpy as np, rowsolve
    >>> A = np.random.default_rng(0).standard_normal((500, 10))
    >>> report = rowsolve.inspect(A, A @ np.ones(10), rng=0)
    >>> report.layout.n_rows, report.noise.relative, report.directions.n_clusters, report.first
    (500, 0.0, 0, 'refined')
    """
    source, vector, eps = _validate.system_in_memory(A, b)
    if vector.ndim > 1:
        raise ValueError(
            f"`inspect` requires a single right-hand side, got {vector.shape[1]} (the columns of `b`). Try one of them."
        )
    tolerance = Tolerance(_between_0_and_1("rtol", rtol), 0.0, eps)
    generator, n_threads = _validate.generator_of(rng), _validate.threads_of(threads)
    load_kernels(source, n_threads)
    system = System(source, vector, threads=n_threads)
    with np.errstate(all="ignore"):  # numbers may overflow or underflow
        # Our kernels are timed first: BLAS threads keep spinning for a while, on cores that the kernels need.
        paces = measure(system, tolerance, generator)
        few_columns = system.n_columns <= SAMPLED_COLUMNS
        count = (rows_to_factor if few_columns else rows_to_compare)(system)
        norms, sample = take_sample(system, count, generator)
        found = fit(sample, eps) if sample and few_columns else None
        condition = condition_of(sample, found.factor, norms.n_rows / system.n_rows) if sample and found else None
        directions = look_at_directions(sample, generator) if sample else None
    noise = found.noise if found else _noise_left_by(paces.run)
    predictions = predict(paces, found, condition, tolerance.rtol)
    first, method, advice = advise(paces.run, predictions, noise, tolerance.rtol)
    return Report(
        layout=_layout(source),
        norms=norms,
        condition=condition,
        directions=directions,
        noise=noise,
        slowness=paces.slowness,
        predictions=predictions,
        first=first,
        method=method,
        advice=advice,
        rtol=tolerance.rtol,
        effort=Effort(
            threads=n_threads,
            rows_read=system.counter.rows_read,
            checked=system.counter.n_checked == system.n_rows,
            seconds=system.clock.elapsed,
        ),
    )


def _noise_left_by(run: Run) -> Noise:
    """Return what random rows tell about the noise: their residual is due to noise and to the error of x."""
    return Noise(
        None, run.fresh.result.row_check.relative if run.fresh.result else None, run.iterates.monitor.suspicious
    )


def _between_0_and_1(name: str, value: Any) -> float:
    number = _validate.positive(name, value)
    if not number < 1.0:
        raise ValueError(f"`{name}` must be between 0 and 1, got {value!r}.")
    return number


def _layout(source: Source) -> Layout:
    (n, p), rows = source.shape, source.rows
    if isinstance(rows, CSRRows):
        return Layout(n, p, rows.data.dtype.name, "CSR", rows.data.size / (n * p))
    flags, is_by_rows = rows.values.flags, rows.values.strides[1] == rows.values.itemsize
    order = "C" if flags.c_contiguous or is_by_rows else "Fortran" if flags.f_contiguous else "strided"
    return Layout(n, p, rows.values.dtype.name, order, 1.0)
