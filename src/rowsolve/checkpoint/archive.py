"""Serialization of plain data: a zip archive of arrays, each a .npy file, and of a JSON text that refers to them.

Bytes from untrusted sources can be read safely: nothing in them is executed, and reading them takes no more memory than
their own size.
"""

from __future__ import annotations

import io
import json
import re
import zipfile
from typing import IO, Any

import numpy as np

__all__ = ["ArchiveError", "read_archive", "write_archive"]

_TEXT = "state.json"
_ARRAY, _FROZEN, _LIST, _SCALAR = "$array", "$frozen", "$list", "$scalar"  # no attribute can have such a name
_SCALARS = {kind.__name__: kind for kind in (np.float64, np.float32, np.int64, np.int32, np.bool_)}
_KINDS = "biufU"  # kinds of dtypes that arrays may have: never that of objects
_ALIKE = {float: "f", int: "i", str: "U"}  # kinds of lists that are stored as arrays
# A .npy file as numpy writes it: the version, the length of the header, the header. numpy's own reader accepts more,
# and allocates as much memory as the header says.
_HEADER = re.compile(
    rb"\x93NUMPY\x01\x00..\{'descr': '([<>|][biufU]\d{1,9})', 'fortran_order': (True|False), "
    rb"'shape': \(((?:\d{1,19}, ?)*\d{0,19})\), \} *\n",
    re.DOTALL,
)


class ArchiveError(ValueError):
    """The bytes are not an archive that `write_archive` has written."""


def write_archive(tree: Any) -> memoryview:
    """Return a tree of plain data as bytes; raise TypeError if it contains anything else."""
    arrays: dict[str, np.ndarray] = {}
    written = json.dumps(_without_arrays(tree, "", arrays))
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, array in arrays.items():
            with archive.open(zipfile.ZipInfo(name), "w", force_zip64=True) as file:
                _write_array(file, array)
        archive.writestr(zipfile.ZipInfo(_TEXT), written)
    return buffer.getbuffer()


def _write_array(file: IO[bytes], array: np.ndarray) -> None:
    """Write a .npy file, without the copies that numpy makes for a file that is not on disk."""
    header = np.lib.format.header_data_from_array_1_0(array)
    np.lib.format.write_array_header_1_0(file, header)
    file.write((array.T if header["fortran_order"] else np.ascontiguousarray(array)).data)


def _without_arrays(value: Any, place: str, arrays: dict[str, np.ndarray]) -> Any:
    """Return `value` as JSON-serializable data; add its arrays to `arrays`, named by their place in the tree."""
    if value is None or type(value) in (bool, int, float, str):
        return value
    if type(value).__name__ in _SCALARS and isinstance(value, np.generic):
        return {_SCALAR: [type(value).__name__, value.item()]}
    tag, array = _as_array(value)
    if array is not None:
        name = f"{place}.npy"
        arrays[name] = array
        return {tag: name}
    if isinstance(value, list):
        return [_without_arrays(each, f"{place}.{i}", arrays) for i, each in enumerate(value)]
    if isinstance(value, dict) and all(map(_is_name, value)):
        return {key: _without_arrays(each, f"{place}.{key}".lstrip("."), arrays) for key, each in value.items()}
    what = f"an array of {value.dtype}" if isinstance(value, np.ndarray) else f"a {type(value).__name__}"
    raise TypeError(f"{place} is {what}, which cannot be saved: only numbers, text and arrays of them can.")


def _as_array(value: Any) -> tuple[str, np.ndarray | None]:
    """Return the tag and the array for an array, or a list of numbers or of text; None if it cannot be stored so."""
    if isinstance(value, np.ndarray):
        tag = _ARRAY if value.flags.writeable else _FROZEN
        return tag, value if value.dtype.kind in _KINDS else None
    types = set(map(type, value)) if isinstance(value, list) else set()
    kind = _ALIKE.get(types.pop()) if len(types) == 1 else None
    array = None if kind is None else np.array(value)
    return _LIST, array if array is not None and array.dtype.kind == kind else None  # integers may be too large


def _is_name(key: Any) -> bool:
    return isinstance(key, str) and not key.startswith("$")


def read_archive(file: IO[bytes]) -> Any:
    """Return the tree in the archive at the end of `file`; raise ArchiveError if `write_archive` did not write it."""
    try:
        with zipfile.ZipFile(file) as archive:
            found = archive.infolist()
            members = {each.filename: each for each in found}
            packed = any(each.compress_type != zipfile.ZIP_STORED for each in found)
            if packed or sum(each.file_size for each in found) > file.seek(0, io.SEEK_END):
                raise ArchiveError("its contents are larger than the file")
            if len(members) < len(found):
                raise ArchiveError("two arrays have the same name")
            tree = _with_arrays(json.loads(archive.read(members.pop(_TEXT))), archive, members)
    except ArchiveError:
        raise
    except Exception as error:  # zipfile and json raise all sorts of errors
        raise ArchiveError(f"it is not a valid archive: {error!r:.80}") from None
    if members:
        raise ArchiveError(f"the array {next(iter(members))!r:.80} is not used")
    return tree


def _with_arrays(value: Any, archive: zipfile.ZipFile, left: dict[str, zipfile.ZipInfo]) -> Any:
    """Insert the arrays into the tree, each in one place only; `left` holds those that are not used yet."""
    if isinstance(value, list):
        return [_with_arrays(each, archive, left) for each in value]
    if not isinstance(value, dict):
        return value
    match list(value.items()):
        case [("$scalar", [kind, number])]:
            return _SCALARS[kind](number)
        case [("$array" | "$frozen" | "$list" as tag, name)]:
            array = _array(archive.read(left.pop(name)))
            array.flags.writeable = tag == _ARRAY
            return array.tolist() if tag == _LIST else array
    return {key: _with_arrays(each, archive, left) for key, each in value.items()}


def _array(part: bytes) -> np.ndarray:
    """Return the array in a .npy file."""
    header = _HEADER.match(part)
    if header is None:
        raise ArchiveError("the header of an array is invalid")
    kind, by_columns, lengths = (group.decode("ascii") for group in header.groups())
    values = np.frombuffer(part, np.dtype(kind), offset=header.end())
    shape = tuple(map(int, lengths.replace(",", " ").split()))
    return values.reshape(shape, order="F" if by_columns == "True" else "C").copy(order="K")
