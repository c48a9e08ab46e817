"""Progress bars. The solver itself knows nothing of them."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from rowsolve import Event
from rowsolve.cli.messages import print_words

__all__ = ["Bar", "SolveProgress", "bytes_in_words"]


class Bar:
    """A progress bar on stderr, as a context; nothing is drawn if `hidden` or if stderr is not a terminal.

    Fields are dropped, the least important first, where they would leave less than a quarter of the line to the bar.
    """

    def __init__(self, doing: str, field: str = "", *, hidden: bool = False) -> None:
        self.console = Console(stderr=True)
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=None),  # the rest of the line
            TextColumn("{task.fields[text]}", markup=False),
            console=self.console,
            transient=True,
            expand=True,
            disable=hidden or not self.console.is_terminal,
        )
        self._task = self._progress.add_task(doing, total=None, text=field)
        self._started, self._drawn = time.perf_counter(), -math.inf

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def show(
        self, doing: str, share: float | None, others: Sequence[str], *,
        first: str | None = None, seconds_left: float | None = None,
    ) -> None:  # fmt: skip
        """Draw the bar, unless it has just been drawn.

        Parameters
        ----------
        doing : str
            Text before the bar.
        share : float or None
            How much is done, between 0 and 1; None if it is not known.
        others : sequence of str
            Fields after the first one and the time left, the most important first.
        first : str, optional
            The first field; by default, the percentage.
        seconds_left : float, optional
            By default, it follows from `share` and the time since the start.
        """
        now = time.perf_counter()
        if self._progress.disable or now - self._drawn < 1.0 / self._progress.live.refresh_per_second:
            return
        self._drawn = now
        if seconds_left is None:
            seconds_left = (now - self._started) * (1.0 - share) / share if share else math.nan
        if first is None:
            first = "" if share is None else f"{share:.0%}"
        fields = [field for field in (first, _time_left(seconds_left), *others) if field]
        text = fitted(doing, fields, self.console.width)
        total = None if share is None else 1.0
        self._progress.update(self._task, total=total, description=doing, completed=share or 0.0, text=text)


def fitted(doing: str, fields: Sequence[str], width: int) -> str:
    """Return as many of the `fields` as leave a quarter of a line of `width` columns to the bar, at least the first."""
    for n_fields in range(len(fields), 1, -1):
        text = ", ".join(fields[:n_fields])
        if len(doing) + len(text) + 2 <= 0.75 * width:  # with a space on either side of the bar
            return text
    return fields[0]


class SolveProgress(Bar):
    """The progress of a solve: estimated error, time left, passes, rows, and bytes.

    Use it as a context and as the `callback` of `solve`.
    """

    def __init__(self, *, hidden: bool = False) -> None:
        super().__init__("loading kernels", "(compiled on first use)", hidden=hidden)
        self._hidden = hidden

    def __call__(self, event: Event) -> None:
        """Draw the state that `event` describes."""
        if event.stage == "open" and not self._hidden:
            print_words(self.console, event.note)
        whole = event.passes + event.passes_left
        share = event.passes / whole if math.isfinite(whole) and whole > 0 else None
        doing = {"open": "opening", "prepare": "preparing", "check": "checking"}.get(event.stage, "solving")
        first = _error(event.error_estimate) if event.stage == "solve" else None
        self.show(doing, share, _read(event), first=first, seconds_left=event.seconds_left)


def bytes_in_words(n_bytes: float) -> str:
    """Return a number of bytes with a unit."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if n_bytes < 1000.0:
            return f"{n_bytes:.3g} {unit}"
        n_bytes /= 1000.0
    return f"{n_bytes:.3g} TB"


def _error(estimate: float) -> str:
    return f"error ~{estimate:.1e}" if math.isfinite(estimate) else "error unknown"


def _read(event: Event) -> list[str]:
    """Return what was read, the most important first."""
    fields = [f"{event.passes:.2f} passes", f"{event.rows_read:,} rows"]
    if event.seconds > 0.0:
        fields.append(f"{bytes_in_words(event.bytes_read)} at {event.bytes_read / event.seconds / 1e9:.2f} GB/s")
    return fields


def _time_left(seconds: float) -> str:
    if not math.isfinite(seconds):
        return "time left unknown"
    if seconds < 60:
        return f"{seconds:.1f} s left"
    return f"{seconds / 60:.0f} min left" if seconds < 5400 else f"{seconds / 3600:.1f} h left"
