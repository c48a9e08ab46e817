"""The true error and the residual during a run, for systems with a known solution."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

import rowsolve
from rowsolve.problem.system import System
from rowsolve.sources import open_rows

__all__ = ["Point", "first_steps", "floor_of", "relative_residuals", "rows_to", "thinned", "trace"]


class Point(NamedTuple):
    """The state of a run after a burst: `n_rows` and `seconds` include the preparation, `n_steps` does not."""

    n_steps: float
    n_rows: int
    seconds: float
    error: float
    x: np.ndarray


def trace(
    A: np.ndarray,
    b: np.ndarray,
    x_true: np.ndarray,
    method: rowsolve.Method,
    *,
    rows_a_step: int,
    max_rows: float,
    goal: float,
    rng: int | np.random.Generator,
) -> list[Point]:
    """Run `method` until the true relative error is at most `goal` or `max_rows` rows are read; return all points.

    There is one point per burst. The first point is the start, with error 1, after the preparation. Steps are the rows
    read since then divided by `rows_a_step`. A run on an inconsistent system ends when the solver has detected that,
    long after the error has stopped decreasing. It uses one thread, so that steps are sequential, as published.
    """
    norm = float(np.linalg.norm(x_true))
    start = np.zeros(x_true.size)
    points = [Point(0.0, 0, 0.0, 1.0, start)]

    def look(event: rowsolve.Event) -> bool:
        if event.stage == "prepare":
            points[0] = Point(0.0, event.rows_read, event.seconds, 1.0, start)
            return False
        if event.stage != "solve":  # a pass that does not change x
            return False
        error = float(np.linalg.norm(event.x - x_true)) / norm
        n_steps = (event.rows_read - points[0].n_rows) / rows_a_step
        points.append(Point(n_steps, event.rows_read, event.seconds, error, event.x.copy()))
        return error <= goal or event.rows_read >= max_rows

    solution = rowsolve.solve(A, b, method, rtol=0.0, max_passes=math.inf, rng=rng, threads=1, callback=look)
    if solution.status is rowsolve.Status.INTERRUPTED:
        raise KeyboardInterrupt  # the curve is not complete
    return points


def first_steps(
    A: np.ndarray, b: np.ndarray, method: Any, steps: tuple[int, ...], n_draws: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Repeat the first steps of `method` after one preparation; return x after each of the numbers of `steps`.

    `rowsolve.solve` returns control only after hundreds of steps. The effect of a single step depends much on the rows
    that are drawn, so the steps are repeated `n_draws` times.

    Returns
    -------
    n_rows : ndarray of shape (n_draws, len(steps))
        Rows read, including the preparation.
    x : ndarray of shape (n_draws, len(steps), p)
        The iterates.
    """
    system = System(open_rows(A), b)
    plan = method.begin(system, rng)
    n_rows, x = np.full((n_draws, len(steps)), system.counter.rows_read), np.empty((n_draws, len(steps), A.shape[1]))
    for draw in range(n_draws):
        iterates, done = np.zeros((2, A.shape[1])), 0
        for i, wanted in enumerate(steps):
            while done < wanted:
                n_rows[draw, i:] += method.advance(plan, iterates, plan.rows_per_step, rng, np.zeros(2)).size
                done += 1
            x[draw, i] = iterates[0]
    return n_rows, x


def relative_residuals(A: np.ndarray, b: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return ``norm(b - A x) / norm(b)`` for every x in an array of shape (..., p)."""
    residuals = b[:, None] - A @ x.reshape(-1, x.shape[-1]).T
    return (np.linalg.norm(residuals, axis=0) / np.linalg.norm(b)).reshape(x.shape[:-1])


def rows_to(points: list[Point], goal: float) -> float:
    """Return the rows read until the error first was at most `goal`, interpolated in its logarithm, or infinity."""
    for before, after in pairwise(points):
        if after.error <= goal:
            share = np.log(before.error / goal) / np.log(before.error / after.error)
            return before.n_rows + float(share) * (after.n_rows - before.n_rows)
    return np.inf


def floor_of(rows: np.ndarray, errors: np.ndarray) -> float:
    """Return the median error over the last third of the rows read: the level at which noise in b stops it."""
    return float(np.median(errors[rows >= rows[0] + (rows[-1] - rows[0]) * 2 / 3]))


def thinned(points: list[Point], at_most: int = 80) -> list[Point]:
    """Return at most `at_most` points, evenly chosen, including the first and the last."""
    if len(points) <= at_most:
        return points
    return [points[i] for i in np.linspace(0, len(points) - 1, at_most).round().astype(int)]
