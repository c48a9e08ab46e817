"""Conversion of the parts of a solve to plain data and back: numbers, text, arrays, and lists and dicts of these.

A part lists the attributes to save in `saved`, a dict from the name to its *kind*, and those that are recomputed in
`derived`. `state_of` returns the saved attributes; `fill` restores them after their kinds have validated them. A kind
is a function of a value and of the sizes of the system that returns the value, or raises `StateError` if the attribute
cannot have that value. Kernels do not check bounds, so arrays of another shape and rows that A does not have must not
reach them.

Nothing that is read is ever executed, nor does it determine which classes are created: that follows from the arguments
of the solve, which are the same as when it was saved.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

import numpy as np

__all__ = [
    "Kind", "Sizes", "StateError", "amount", "array", "bits", "check_keys", "check_names", "fill", "flag",
    "generator_of", "in_place", "integer", "listed", "member", "named", "number", "optional", "pack", "packed", "plain",
    "restart", "row_number", "row_numbers", "sided", "state_of", "state_of_generator", "text", "tuple_of",
]  # fmt: skip

Sizes = dict[str, int]  # n, p, k: rows, columns, right-hand sides; v: k + 1; and lengths that arrays of a part share
Kind = Callable[[Any, Sizes], Any]

_BIT_GENERATORS = {
    kind.__name__: kind
    for kind in (np.random.PCG64, np.random.PCG64DXSM, np.random.MT19937, np.random.Philox, np.random.SFC64)
}
# The largest integers in the state of a generator. Compiled code uses them as indices without a check.
_LARGEST = {"pos": 624, "buffer_pos": 4, "has_uint32": 1, "uinteger": 2**32 - 1}
_LARGEST |= {"state": 2**128 - 1, "inc": 2**128 - 1}


class StateError(ValueError):
    """The data that was read cannot be the state of this solve."""


def packed(value: Any) -> Any:
    """Return `value` as plain data; raise TypeError if that is not possible."""
    if value is None or isinstance(value, bool | int | float | str | np.ndarray | np.generic):
        return value
    if hasattr(value, "state"):
        return value.state()
    if isinstance(value, Enum):
        return value.name
    names = _field_names(value)
    if names is not None:
        return {name: packed(getattr(value, name)) for name in names}
    if isinstance(value, dict):
        return {key: packed(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [packed(each) for each in value]
    raise TypeError(f"{type(value).__name__} objects cannot be saved: only numbers, text and arrays can.")


def _field_names(value: Any) -> list[str] | None:
    """Return the names of the fields of a named tuple or a dataclass; None if it is neither."""
    if is_dataclass(value) and not isinstance(value, type):
        return [field.name for field in fields(value)]
    return list(value._fields) if isinstance(value, tuple) and hasattr(value, "_fields") else None


def plain(value: Any, name: str) -> Any:
    """Return `value` if it is plain data already; raise TypeError otherwise."""
    if not _is_plain(value):
        raise TypeError(f"the plan has `{name}`, a {type(value).__name__}: only numbers, text and arrays can be saved.")
    return value


def check_names(others: Any, owner: type, taken: tuple[str, ...]) -> list[str]:
    """Return the names of `others` if an object of the class `owner` may have these attributes besides those `taken`.

    Setting one of them must neither call anything nor hide a method.
    """
    if not isinstance(others, dict):
        raise StateError(f"others: expected a dictionary of attributes, got {_words(others)}")
    for name in others:
        if not name.isidentifier() or name in taken or not _is_plain(getattr(owner, name, None)):
            raise StateError(f"others: {name!r:.40} is not expected")
    return list(others)


def _is_plain(value: Any) -> bool:
    if isinstance(value, list):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, bool | int | float | str | np.ndarray | np.generic)


def state_of(part: Any) -> dict[str, Any]:
    """Return the saved attributes of `part`; raise TypeError if it has one that is neither in `saved` nor `derived`."""
    forgotten = vars(part).keys() - part.saved.keys() - set(part.derived)
    if forgotten:
        names = ", ".join(sorted(forgotten))
        raise TypeError(f"{type(part).__name__} has attributes that are neither in `saved` nor in `derived`: {names}.")
    return {name: packed(getattr(part, name)) for name in part.saved}


def fill(part: Any, state: Any, sizes: Sizes, besides: tuple[str, ...] = ()) -> None:
    """Set the attributes of `part` to those in `state`, after validation; the keys `besides` must be there, too."""
    check_keys(state, (*part.saved, *besides))
    own = dict(sizes)
    for name, kind in part.saved.items():
        found = _validated(name, kind, state[name], own)
        if kind is in_place:
            fill(getattr(part, name), found, sizes)
        else:
            setattr(part, name, found)


def check_keys(state: Any, expected: Any) -> None:
    """Raise StateError unless `state` is a dict with exactly the `expected` keys."""
    if not isinstance(state, dict):
        raise StateError(f"expected {', '.join(expected)}, got {_words(state)}")
    for key in expected:
        if key not in state:
            raise StateError(f"{key} is missing")
    for key in state:
        if key not in expected:
            raise StateError(f"{key!r:.40} is not expected")


def _validated(name: str, kind: Kind, value: Any, sizes: Sizes) -> Any:
    try:
        return kind(value, sizes)
    except StateError as error:
        raise StateError(f"{name}: {error}") from None


def _words(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype} of shape {value.shape}"
    return f"{value!r:.40}" if isinstance(value, bool | int | float | str | None) else f"a {type(value).__name__}"


def in_place(value: Any, _: Sizes) -> Any:
    """Accept the state of a part that exists already and is filled in place."""
    return value


def _instance(what: str, *types: type, but: tuple[type, ...] = ()) -> Kind:
    """Return a kind that accepts instances of `types`, except those of `but`; `what` describes them in messages."""

    def kind(value: Any, _: Sizes) -> Any:
        if not isinstance(value, types) or isinstance(value, but):
            raise StateError(f"expected {what}, got {_words(value)}")
        return value

    return kind


flag = _instance("True or False", bool, np.bool_)
text = _instance("text", str)
number = _instance("a number", float, np.floating)  # NaN included
amount = _instance("a number", int, float, np.number, but=(bool,))  # an integer or a float


def integer(least: float = 0, most: float | str = math.inf) -> Kind:
    """Return a kind that accepts integers from `least` to `most`, which may be the name of a size."""

    def kind(value: Any, sizes: Sizes) -> Any:
        limit = sizes[most] if isinstance(most, str) else most
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or not least <= value <= limit:
            raise StateError(f"expected an integer from {least} to {limit}, got {_words(value)}")
        return value

    return kind


def row_number(value: Any, sizes: Sizes) -> Any:
    """Accept the index of a row of A."""
    return integer(0, sizes["n"] - 1)(value, sizes)


def array(*shape: int | str | None, dtype: Any = np.float64, order: str = "C", frozen: bool = False) -> Kind:
    """Return a kind that accepts arrays of a given shape and dtype, and converts them to the given memory layout.

    Parameters
    ----------
    *shape : int, str or None
        The lengths of the axes; None for any, a name for one that must be the same throughout a part.
    dtype : dtype or tuple of dtypes
        The allowed data types.
    order : {"C", "F", "vectors", "many"}
        The layout; the last two are those of vectors, and of the iterates of several right-hand sides, in the kernels.
    frozen : bool
        Whether the array is made read-only; else it is made writeable. To the compiler these are two types.
    """
    dtypes = [np.dtype(each) for each in (dtype if isinstance(dtype, tuple) else (dtype,))]

    def kind(value: Any, sizes: Sizes) -> np.ndarray:
        if not isinstance(value, np.ndarray) or value.dtype not in dtypes or value.ndim != len(shape):
            raise StateError(f"expected an array of {dtypes[0]} with {len(shape)} axes, got {_words(value)}")
        for name, length in zip(shape, value.shape, strict=True):
            expected = sizes.setdefault(name, length) if isinstance(name, str) else name
            if expected not in (None, length):
                raise StateError(f"expected an array with axes of {shape}, {expected} for {name}, got {_words(value)}")
        by_columns = {"C": 0, "F": 1, "vectors": sizes.get("sparse"), "many": sizes.get("sparse") and sizes["k"] > 1}
        value = np.asarray(value, order="F" if by_columns[order] else "C")
        value.flags.writeable = not frozen
        return value

    return kind


def sided(length: int | str, *, frozen: bool = False) -> Kind:
    """Return a kind that accepts arrays of shape (length,), or (length, k) if there are k > 1 right-hand sides."""
    one, several = array(length, frozen=frozen), array(length, "k", frozen=frozen)
    return lambda value, sizes: (one if sizes["k"] == 1 else several)(value, sizes)


def row_numbers(length: int | str | None = None, of: str = "n") -> Kind:
    """Return a kind that accepts arrays of row indices of A, or of indices below another size `of`."""

    def kind(value: Any, sizes: Sizes) -> np.ndarray:
        found = array(length, dtype=np.int64)(value, sizes)
        if found.size and not 0 <= found.min() <= found.max() < sizes[of]:
            raise StateError(f"expected numbers from 0 to {sizes[of] - 1}, got {found.min()} to {found.max()}")
        return found

    return kind


def pack(value: Any, sizes: Sizes) -> np.ndarray:
    """Accept a permutation of the rows, as `kernels.sampling.new_cards` stores it."""
    found = array("n", dtype=np.int64)(value, sizes)
    row_numbers("n")(found + np.arange(found.size), sizes)
    return found


def bits(value: Any, sizes: Sizes) -> np.ndarray:
    """Accept one bit per row, packed into bytes; return them as booleans."""
    found = array(-(-sizes["n"] // 8), dtype=np.uint8)(value, sizes)
    return np.unpackbits(found, count=sizes["n"]).astype(bool)


def optional(kind: Kind) -> Kind:
    """Return a kind that accepts None and what `kind` accepts."""
    return lambda value, sizes: None if value is None else kind(value, sizes)


def listed(kind: Kind, length: int | str | None = None) -> Kind:
    """Return a kind that accepts lists of what `kind` accepts."""

    def look(value: Any, sizes: Sizes) -> list[Any]:
        expected = sizes[length] if isinstance(length, str) else length
        if not isinstance(value, list) or expected not in (None, len(value)):
            raise StateError(f"expected a list{'' if expected is None else f' of {expected}'}, got {_words(value)}")
        return [kind(each, sizes) for each in value]

    return look


def tuple_of(*kinds: Kind) -> Kind:
    """Return a kind that accepts tuples, with a kind for each element."""

    def look(value: Any, sizes: Sizes) -> tuple[Any, ...]:
        if not isinstance(value, list) or len(value) != len(kinds):
            raise StateError(f"expected a list of {len(kinds)}, got {_words(value)}")
        return tuple(kind(each, sizes) for kind, each in zip(kinds, value, strict=True))

    return look


def named(make: Callable[..., Any], **kinds: Kind) -> Kind:
    """Return a kind that accepts a named tuple or a frozen dataclass, with a kind for each field."""

    def look(value: Any, sizes: Sizes) -> Any:
        check_keys(value, kinds)
        return make(**{name: _validated(name, kind, value[name], sizes) for name, kind in kinds.items()})

    return look


def member(kind: type[Enum]) -> Kind:
    """Return a kind that accepts the name of a member of an enumeration and returns the member."""

    def look(value: Any, _: Sizes) -> Enum:
        if not isinstance(value, str) or value not in kind.__members__:
            raise StateError(f"expected one of {', '.join(kind.__members__)}, got {_words(value)}")
        return kind[value]

    return look


def state_of_generator(rng: np.random.Generator) -> Any:
    """Return the state of a generator; raise TypeError unless its bit generator is one of numpy's."""
    if type(rng.bit_generator) not in _BIT_GENERATORS.values():
        raise TypeError(f"bit generator {type(rng.bit_generator).__name__} cannot be saved. Try one of numpy's.")
    return packed(rng.bit_generator.state)


def generator_of(state: Any) -> np.random.Generator:
    """Return a generator with the state that was read."""
    name = state.get("bit_generator") if isinstance(state, dict) else None
    if not isinstance(name, str) or name not in _BIT_GENERATORS:
        raise StateError(f"expected the state of a numpy generator, got {_words(name)}")
    found = np.random.Generator(_BIT_GENERATORS[name](0))
    _check_like(state, found.bit_generator.state, "")
    restart(found, state)
    return found


def restart(rng: np.random.Generator, state: dict[str, Any]) -> None:
    """Set a generator to a state that `generator_of` has validated."""
    rng.bit_generator.state = state


def _check_like(value: Any, like: Any, name: str) -> None:
    if isinstance(like, dict):
        check_keys(value, like)
        for key in like:
            _check_like(value[key], like[key], key)
    elif isinstance(like, np.ndarray):
        _validated(name, array(*like.shape, dtype=like.dtype), value, {})
    elif isinstance(like, str):
        if value != like:
            raise StateError(f"{name}: expected {like}, got {_words(value)}")
    else:
        _validated(name, integer(0, _LARGEST[name]), value, {})
