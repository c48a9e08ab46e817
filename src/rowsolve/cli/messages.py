"""What all commands say alike: errors, and JSON for machines."""

from __future__ import annotations

import json
from typing import Any

from rich.console import Console

__all__ = ["print_json", "say", "words_of"]


def words_of(error: Exception) -> str:
    """Return what went wrong."""
    return f"not enough memory: {error}" if isinstance(error, MemoryError) else str(error)


def say(words: str, status: str, *, as_json: bool) -> None:
    """Say that nothing came of it, and why."""
    if as_json:
        print_json({"status": status, "message": words})
    else:
        Console(stderr=True).print(f"error: {words}", style="red", markup=False, highlight=False, soft_wrap=True)


def print_json(values: dict[str, Any]) -> None:
    """Print one JSON object."""
    Console(soft_wrap=True, highlight=False, markup=False, no_color=True).out(
        json.dumps(values, indent=2, allow_nan=False)
    )
