"""Selection of the columns of a table by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rowsolve.sources.store import StoreError

__all__ = ["choose_words", "listed", "numeric_columns", "wanted_columns"]

_MOST_LISTED = 12
_IN_AN_EXAMPLE = 3


def listed(names: Sequence[str]) -> str:
    """Return `names` for a message, shortened if there are many."""
    more = f" and {len(names) - _MOST_LISTED:,} more" if len(names) > _MOST_LISTED else ""
    return (", ".join(names[:_MOST_LISTED]) or "none") + more


def wanted_columns(
    file: str, names: Sequence[str], chosen: tuple[str, ...], left_out: tuple[str, ...]
) -> tuple[str, ...]:
    """Return the `chosen` names, or else all but those `left_out`; raise StoreError if one of them does not exist."""
    for name in (*chosen, *left_out):
        if name not in names:
            raise StoreError(f"{file}: has no column {name!r}; there are {listed(names)}.")
    wanted = chosen or tuple(name for name in names if name not in left_out)
    if not wanted:
        raise StoreError(f"{file}: has no column{f' besides {listed(left_out)}' if left_out else ''}.")
    for name in wanted:
        if names.count(name) > 1:
            raise StoreError(f"{file}: has several columns called {name!r}.")
    return wanted


def numeric_columns(
    file: str, names: Sequence[str], others: Mapping[str, str], chosen: tuple[str, ...], left_out: tuple[str, ...]
) -> tuple[str, ...]:
    """Return the selected columns; raise StoreError if one of them is not numeric.

    `others` maps the names of the columns that are not numeric to their types.
    """
    wanted = wanted_columns(file, names, chosen, left_out)
    wrong = [f"{name!r} ({others[name]})" for name in wanted if name in others]
    if not wrong:
        return wanted
    columns = f"column {wrong[0]} is" if len(wrong) == 1 else f"columns {listed(wrong)} are"
    numeric = [name for name in names if name not in others and name not in left_out]
    raise StoreError(f"{file}: {columns} not numeric. {choose_words(file, numeric)}")


def choose_words(file: str, numeric: Sequence[str]) -> str:
    """Return how to choose columns, with the numeric ones as an example."""
    if not numeric:
        return "There is no other numeric column."
    return f"Choose columns by name, as in {file}:{','.join(numeric[:_IN_AN_EXAMPLE])}."
