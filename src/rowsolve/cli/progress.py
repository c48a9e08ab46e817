"""Draws what the solver tells. The solver itself knows nothing of it."""

from __future__ import annotations

import math
import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from rowsolve import Event

__all__ = ["SolveProgress", "bytes_in_words"]

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
        self._hidden = hidden
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
        if event.stage == "open" and not self._hidden:
            self._bar.console.print(event.note, markup=False, highlight=False, soft_wrap=True)
        now = time.perf_counter()
        if self._bar.disable or now - self._drawn < _SECONDS_BETWEEN_DRAWINGS:
            return
        self._drawn = now
        whole = event.passes + event.passes_left
        done = event.passes / whole if math.isfinite(whole) and whole > 0 else 0.0
        self._bar.update(self._task, total=1.0, description=_doing(event), completed=done, figures=_figures(event))


def _doing(event: Event) -> str:
    return {"open": "opening", "prepare": "preparing", "check": "checking"}.get(event.stage, "solving")


def bytes_in_words(n_bytes: float) -> str:
    """Return a number of bytes as people say it."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if n_bytes < 1000.0:
            return f"{n_bytes:.3g} {unit}"
        n_bytes /= 1000.0
    return f"{n_bytes:.3g} TB"


def _figures(event: Event) -> str:
    read = f"{event.rows_read:,} rows ({event.passes:.2f} passes)"
    if event.seconds > 0.0:
        read += f", {bytes_in_words(event.bytes_read)} at {event.bytes_read / event.seconds / 1e9:.2f} GB/s"
    if event.stage != "solve":
        return read
    error = f"error ~{event.error_estimate:.1e}" if math.isfinite(event.error_estimate) else "error not known yet"
    return f"{error}, {read}, {_time_left(event.seconds_left)}"


def _time_left(seconds: float) -> str:
    if not math.isfinite(seconds):
        return "time left not known yet"
    if seconds < 60:
        return f"{seconds:.1f} s left"
    return f"{seconds / 60:.0f} min left" if seconds < 5400 else f"{seconds / 3600:.1f} h left"
