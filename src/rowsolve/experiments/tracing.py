"""The true error on the way, which only experiments can know."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

import rowsolve

__all__ = ["Point", "floor_of", "rows_to", "thinned", "trace"]

_NO_LIMIT = 1e15  # passes: the solver must not give up on slow runs, they are what is to be seen


class Point(NamedTuple):
    """Where a run was: `n_rows` and `seconds` with the preparation, `n_steps` without."""

    n_steps: float
    n_rows: int
    seconds: float
    error: float


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
    """Run `method` until the true relative error is at most `goal` or `max_rows` rows are read; return a point a burst.

    The first point is the start, error 1, where the preparation has ended. Steps are counted as rows read since then
    over `rows_a_step`. A run whose equations contradict each other ends when the solver is sure of it, which is
    long after its error has reached the floor. On one thread: the method as published, one step after another.
    """
    norm = float(np.linalg.norm(x_true))
    points = [Point(0.0, 0, 0.0, 1.0)]

    def look(event: rowsolve.Event) -> bool:
        if event.stage == "prepare":
            points[0] = Point(0.0, event.rows_read, event.seconds, 1.0)
            return False
        if event.stage != "solve":  # a pass in between, which moves nothing
            return False
        error = float(np.linalg.norm(event.x - x_true)) / norm
        n_steps = (event.rows_read - points[0].n_rows) / rows_a_step
        points.append(Point(n_steps, event.rows_read, event.seconds, error))
        return error <= goal or event.rows_read >= max_rows

    solution = rowsolve.solve(A, b, method, rtol=0.0, max_passes=_NO_LIMIT, rng=rng, threads=1, callback=look)
    if solution.status is rowsolve.Status.INTERRUPTED:
        raise KeyboardInterrupt  # half a curve is no curve
    return points


def rows_to(points: list[Point], goal: float) -> float:
    """Return the rows read when the error first was at most `goal`, or infinity; between bursts by its logarithm."""
    for before, after in pairwise(points):
        if after.error <= goal:
            share = np.log(before.error / goal) / np.log(before.error / after.error)
            return before.n_rows + float(share) * (after.n_rows - before.n_rows)
    return np.inf


def floor_of(rows: np.ndarray, errors: np.ndarray) -> float:
    """Return the median error over the last third of the rows read: the level that noise in b leaves."""
    return float(np.median(errors[rows >= rows[0] + (rows[-1] - rows[0]) * 2 / 3]))


def thinned(points: list[Point], at_most: int = 80) -> list[Point]:
    """Return about evenly chosen points, the first and the last among them."""
    if len(points) <= at_most:
        return points
    return [points[i] for i in np.linspace(0, len(points) - 1, at_most).round().astype(int)]
