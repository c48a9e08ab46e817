"""rowsolve solves tall linear systems ``A x = b`` a few rows at a time and says how right the answer is.

>>> import rowsolve
>>> solution = rowsolve.solve([[2.0, 0.0], [0.0, 4.0], [2.0, 4.0]], [2.0, 4.0, 6.0], rng=0)
>>> solution.x.round(6).tolist()
[1.0, 1.0]
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rowsolve._solution import Event, History, RowCheck, Solution, Status
    from rowsolve._solve import solve
    from rowsolve.export.convert import convert
    from rowsolve.inspection import Report, inspect
    from rowsolve.inspection.pave import incoherence_transform, pave
    from rowsolve.methods import (
        JL,
        METHODS,
        AcceleratedBlock,
        Block,
        ClusterBlock,
        ClusterJL,
        Cyclic,
        Deflated,
        Direct,
        Extended,
        Greedy,
        Method,
        Paving,
        Quantile,
        Randomized,
        Refined,
        TailAverage,
    )

__version__ = "0.1.0"

# Numba takes half a second to import, so nothing is imported before it is used.
_HOMES = {
    "rowsolve.export.convert": ("convert",),
    "rowsolve.inspection.pave": ("incoherence_transform", "pave"),
    "rowsolve._solution": ("Event", "History", "RowCheck", "Solution", "Status"),
    "rowsolve._solve": ("solve",),
    "rowsolve.inspection": ("Report", "inspect"),
    "rowsolve.methods": (
        "JL",
        "METHODS",
        "AcceleratedBlock",
        "Block",
        "ClusterBlock",
        "ClusterJL",
        "Cyclic",
        "Deflated",
        "Direct",
        "Extended",
        "Greedy",
        "Method",
        "Paving",
        "Quantile",
        "Randomized",
        "Refined",
        "TailAverage",
    ),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
_PUBLIC_MODULES = ("testing", "theory")

__all__ = [
    "JL",
    "METHODS",
    "AcceleratedBlock",
    "Block",
    "ClusterBlock",
    "ClusterJL",
    "Cyclic",
    "Deflated",
    "Direct",
    "Event",
    "Extended",
    "Greedy",
    "History",
    "Method",
    "Paving",
    "Quantile",
    "Randomized",
    "Refined",
    "Report",
    "RowCheck",
    "Solution",
    "Status",
    "TailAverage",
    "convert",
    "incoherence_transform",
    "inspect",
    "pave",
    "solve",
]


def __getattr__(name: str) -> Any:
    if name in _PUBLIC_MODULES:
        return importlib.import_module(f"rowsolve.{name}")
    if name not in _HOME_OF:
        raise AttributeError(f"module 'rowsolve' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    dunders = (name for name in globals() if name.startswith("__"))
    return sorted({*__all__, *_PUBLIC_MODULES, *dunders})
