"""Draws what the solver tells. The solver itself knows nothing of it."""

from __future__ import annotations

import math
import time
from types import TracebackType
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

if TYPE_CHECKING:
    from rowsolve import Event

__all__ = ["SolveProgress"]

_SECONDS_BETWEEN_DRAWINGS = 0.05


class SolveProgress:
    """A bar with estimated error, rows and passes, and time left; nothing when stderr is no terminal.

    Use it as a context and as the `callback` of `solve`.
    """

    def __init__(self, *, hidden: bool = False) -> None:
        console = Console(stderr=True)
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[figures]}"),
            console=console,
            transient=True,
            disable=hidden or not console.is_terminal,
        )
        self._task = self._bar.add_task("loading the kernels", total=None, figures="compiled on first use")
        self._drawn = 0.0

    def __enter__(self) -> SolveProgress:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def __call__(self, event: Event) -> None:
        """Draw what `event` tells, unless something has just been drawn."""
        now = time.perf_counter()
        if self._bar.disable or now - self._drawn < _SECONDS_BETWEEN_DRAWINGS:
            return
        self._drawn = now
        whole = event.passes + event.passes_left
        done = event.passes / whole if math.isfinite(whole) and whole > 0 else 0.0
        self._bar.update(self._task, total=1.0, description=_doing(event), completed=done, figures=_figures(event))


def _doing(event: Event) -> str:
    return "preparing" if event.stage == "prepare" else "solving"


def _figures(event: Event) -> str:
    read = f"{event.rows_read:,} rows ({event.passes:.2f} passes)"
    if event.stage == "prepare":
        return read
    error = f"error ~{event.error_estimate:.1e}" if math.isfinite(event.error_estimate) else "error not known yet"
    return f"{error}, {read}, {_time_left(event.seconds_left)}"


def _time_left(seconds: float) -> str:
    if not math.isfinite(seconds):
        return "time left not known yet"
    if seconds < 60:
        return f"{seconds:.1f} s left"
    return f"{seconds / 60:.0f} min left" if seconds < 5400 else f"{seconds / 3600:.1f} h left"
