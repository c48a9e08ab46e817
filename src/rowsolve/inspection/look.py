"""`inspect`: what is seen in the data without solving the whole."""

from __future__ import annotations

from typing import Any

import numpy as np

from rowsolve import _validate
from rowsolve.engine.run import Run
from rowsolve.estimate.monitor import Tolerance
from rowsolve.inspection.advice import advise
from rowsolve.inspection.forecast import load_kernels, measure, predict
from rowsolve.inspection.groups import look_at_directions, rows_to_compare
from rowsolve.inspection.report import Layout, Noise, Report
from rowsolve.inspection.sample import MOST_COLUMNS, condition_of, fit, rows_to_factor, take_sample
from rowsolve.kernels.rows import CSRRows
from rowsolve.problem.system import System
from rowsolve.sources import Source

__all__ = ["inspect"]


def inspect(
    A: Any, b: Any, *, rtol: float = 1e-6, threads: int | None = None, rng: int | np.random.Generator | None = None
) -> Report:
    """Look at ``A x = b`` without solving the whole: its condition, clusters, noise, and what each method would take.

    A sample of the rows is read and methods are timed on parts of A. Everything is said as it was seen there: rows that
    were not looked at may differ. What is not known is None.

    Parameters
    ----------
    A, b
        As for `solve`, with one right-hand side. All of A must fit in memory, except for a .npy file, which is mapped:
        any other that would take more than what is free is refused.
    rtol : float
        The wanted ``norm(x - x*) / norm(x)``, for which rows and seconds are predicted.
    threads : int, optional
        As for `solve`: how many the methods are timed with.
    rng : int or numpy.random.Generator, optional
        The same seed looks at the same rows; seconds differ.

    Returns
    -------
    Report
        ``print(report)`` says it in words.

    Raises
    ------
    ValueError, TypeError
        As `solve`; NaN and infinity are looked for as there, and ``report.checked`` tells whether in all of `A`.

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
        raise ValueError(f"`inspect` looks at one right-hand side: `b` has {vector.shape[1]}. Pass one of its columns.")
    tolerance = Tolerance(_between_0_and_1("rtol", rtol), 0.0, eps)
    generator, n_threads = _validate.generator_of(rng), _validate.threads_of(threads)
    load_kernels(source, n_threads)
    system = System(source, vector, threads=n_threads)
    with np.errstate(all="ignore"):  # a system at the ends of the range
        # Ours are timed first: the threads of BLAS go on spinning for a while on the cores that they need.
        paces = measure(system, tolerance, generator)
        few_columns = system.n_columns <= MOST_COLUMNS
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
        threads=n_threads,
        rows_read=system.rows_read,
        checked=system.counter.n_checked == system.n_rows,
        seconds=system.clock.elapsed,
    )


def _noise_left_by(run: Run) -> Noise:
    """Return what random rows tell of the noise: their residual is noise, and error yet to fall."""
    return Noise(
        None, run.fresh.finding.residual.relative if run.fresh.finding else None, run.iterates.monitor.suspicious
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
    flags = rows.values.flags
    order = "C" if flags.c_contiguous else "Fortran" if flags.f_contiguous else "strided"
    return Layout(n, p, rows.values.dtype.name, order, 1.0)
