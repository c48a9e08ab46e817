"""Saving a solve while it runs."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from rowsolve.checkpoint.file import Checkpoint
from rowsolve.checkpoint.state import packed

__all__ = ["Saver"]


class Saver:
    """Writes the parts of a solve to its checkpoint; it is passed down to where the state can be saved."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._checkpoint = checkpoint
        self._parts: dict[str, Any] = {}

    def keep(self, **parts: Any) -> None:
        """Save these parts from now on, by their names; those that change have a method `state`."""
        self._parts = parts

    def offer(self) -> None:
        """Save the parts if a checkpoint is due."""
        if self._checkpoint.due:
            self._checkpoint.save(lambda: packed(self._parts))

    def looked_at(self) -> AbstractContextManager[None]:
        """Turn errors in a state that was read into a ValueError that names the file."""
        return self._checkpoint.looked_at()

    @property
    def trouble(self) -> str:
        """The message, if the last checkpoint could not be written."""
        return self._checkpoint.trouble
