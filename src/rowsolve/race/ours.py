"""rowsolve as a contestant."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

import rowsolve
from rowsolve.race.contestant import Contestant, Finish

__all__ = ["Rowsolve"]

MEMORY = "300MB"  # memory limit for a memory-mapped A


@dataclass(frozen=True)
class Rowsolve(Contestant):
    """`rowsolve.solve` with one method, with the same seed in every run, so that all runs are identical."""

    method: str | rowsolve.Method = "auto"
    threads: int | None = None
    seed: int = 0
    outliers: str = "keep"

    library: ClassVar[str] = "rowsolve"
    package: ClassVar[str] = "rowsolve"
    ours: ClassVar[bool] = True

    @property
    def name(self) -> str:  # type: ignore[override]
        """The name of the library and of the method."""
        return f"rowsolve {self.method if isinstance(self.method, str) else self.method.name}"

    def run(self, A: Any, b: np.ndarray, setting: float, seconds: float) -> Finish:
        """Solve with ``rtol=setting``.

        `max_seconds` is not used, as the decisions of solve() would then depend on the load of the machine, and runs
        could differ.
        """
        end = time.perf_counter() + seconds
        solution = rowsolve.solve(
            A, b, self.method, rtol=setting, rng=self.seed, threads=self.threads, outliers=self.outliers,
            memory=MEMORY if isinstance(A, np.memmap) else None,
            callback=lambda _: time.perf_counter() > end,
        )  # fmt: skip
        if solution.status is rowsolve.Status.INTERRUPTED:
            raise KeyboardInterrupt  # solve() returns x, but the race must end
        status = f"{solution.status.name} ({solution.method})"
        return Finish(solution.x, status, solution.passes, outside=solution.compile_seconds)
